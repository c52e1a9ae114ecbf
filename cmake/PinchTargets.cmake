# How every target of this tree is declared: one function a kind, so that warnings, language level, sanitizers and include
# roots are stated once.
include(GNUInstallDirs)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Paths as seen from the build folder, so that builds of several presets share what is the same in them.
find_program(PINCH_CCACHE ccache)
if(PINCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${PINCH_CCACHE})
endif()

# Numerics are tested to the bit: a compiler that contracts a*b+c by itself changes results between compilers.
set(pinch_compile_options -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -ffp-contract=off)
set(pinch_link_options)
if(PINCH_SANITIZE)
  list(APPEND pinch_compile_options -fsanitize=${PINCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  list(APPEND pinch_link_options -fsanitize=${PINCH_SANITIZE})
endif()

# Private to the target, so that nothing of it reaches the exported package (a sanitised archive needs its own runtime all the same).
function(pinch_target_options name)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${pinch_compile_options}>)
  target_link_options(${name} PRIVATE ${pinch_link_options})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
endfunction()

# pinch_library(NAME SOURCES... [DEPENDS...] [PRIVATE_DEPENDS...]): static library pinch_NAME, alias pinch::NAME.
# Files of a room compiled eight at a time, which halves the wait before a first `make tune`: most of it is one header read and
# instantiated again and again. OFF compiles each file alone, which shows a file that leans on the includes of another.
option(PINCH_UNITY "Compile the files of a room together" ON)

function(pinch_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${PINCH_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# For code that waits for other programs, reads options or writes reports, and tests: templates that an optimiser spends minutes on
# for nothing, and twice that on a sanitizer's checks of them.
function(pinch_cold name)
  if(PINCH_SANITIZE)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  else()
    target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  endif()
endfunction()

# libFuzzer steers by the branches that the libraries and its targets take.
function(pinch_fuzzable name)
  if(PINCH_BUILD_FUZZ)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
  endif()
endfunction()

function(pinch_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(pinch_${name} STATIC ${arg_SOURCES})
  add_library(pinch::${name} ALIAS pinch_${name})
  set_target_properties(pinch_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(pinch_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  pinch_target_options(pinch_${name})
  pinch_fuzzable(pinch_${name})
  target_compile_features(pinch_${name} PUBLIC cxx_std_20)
  target_link_libraries(pinch_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY PINCH_LIBRARIES pinch_${name})
endfunction()

# pinch_tool_library: the same for the workbench; never installed.
function(pinch_tool_library name)
  cmake_parse_arguments(arg "HOT" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(pinch_${name} STATIC ${arg_SOURCES})
  add_library(pinch::${name} ALIAS pinch_${name})
  pinch_target_options(pinch_${name})
  pinch_fuzzable(pinch_${name})
  pinch_unity(pinch_${name})
  if(NOT arg_HOT)
    pinch_cold(pinch_${name})
  endif()
  target_link_libraries(pinch_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
endfunction()

# What sanitisers run: the rest need not be built for them.
add_custom_target(unit_tests)
add_custom_target(thread_tests)

# pinch_test(NAME SOURCES... DEPENDS... [LABELS LABEL]): a GoogleTest binary whose cases CTest lists one by one. One label, as
# "unit,threads" is: of a list CTest would take the second for the name of the next property, and ctest -L finds a part of one.
function(pinch_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  pinch_target_options(${name})
  if(NOT (PINCH_SANITIZE AND arg_LABELS MATCHES "kernel"))  # those compute
    pinch_cold(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  if(arg_LABELS MATCHES "unit|kernel")
    add_dependencies(unit_tests ${name})
  endif()
  if(arg_LABELS MATCHES "threads")
    add_dependencies(thread_tests ${name})
  endif()
  gtest_discover_tests(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} DISCOVERY_TIMEOUT 60)
endfunction()
