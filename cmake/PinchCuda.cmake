# The CUDA language, enabled only where PINCH_CUDA asks for it: PINCH_CUDA_ENABLED says so afterwards.
set_property(CACHE PINCH_CUDA PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE PINCH_TACTICS PROPERTY STRINGS core full)
if(NOT PINCH_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PINCH_CUDA is '${PINCH_CUDA}': allowed are AUTO (when nvcc is found), ON and OFF")
endif()
if(NOT PINCH_TACTICS MATCHES "^(core|full)$")
  message(FATAL_ERROR "PINCH_TACTICS is '${PINCH_TACTICS}': allowed are core (a subset that compiles in minutes) and full")
endif()

set(PINCH_CUDA_ENABLED OFF)
if(NOT PINCH_CUDA STREQUAL "OFF")
  find_program(PINCH_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin PATHS /usr/local/cuda/bin
               DOC "CUDA compiler, release 12.4 or later")
  if(PINCH_NVCC)
    set(CMAKE_CUDA_COMPILER ${PINCH_NVCC} CACHE FILEPATH "CUDA compiler")
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # pinch_cuda_options states it: sm_90a is no architecture that CMake knows everywhere
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know that nvcc has it since release 12
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(PINCH_CUDA_ENABLED ON)
  elseif(PINCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PINCH_CUDA is ON and there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda. Install the CUDA "
                        "toolkit, name the compiler with -DPINCH_NVCC=/path/to/nvcc, or configure with -DPINCH_CUDA=OFF.")
  endif()
endif()

# For targets with .cu sources. What ptxas says about each object (registers, spills, shared memory) is kept beside it.
function(pinch_cuda_options name)
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a -Xptxas=-v -Xcompiler=-Wall>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 20
    CUDA_STANDARD_REQUIRED ON
    CUDA_RUNTIME_LIBRARY Static
    UNITY_BUILD OFF  # newer releases of CMake would join .cu files too
    CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/keep_ptxas_figures.sh)
endfunction()
