# One package test; see CMakeLists.txt.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message("${command}\n${output}")  # unwrapped, as FATAL_ERROR would not leave it
    message(FATAL_ERROR "ended with ${status}")
  endif()
endfunction()

# A package that names the trees it came from works on the machine that made it only.
function(refuse_paths_of_the_trees)
  file(GLOB_RECURSE files ${package}/*.cmake ${package}/*.h)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    foreach(tree IN ITEMS ${SOURCE_TREE} ${BUILD_TREE})
      string(FIND "${text}" "${tree}" position)
      if(NOT position EQUAL -1)
        message(FATAL_ERROR "installed file names a tree: ${file}")
      endif()
    endforeach()
  endforeach()
endfunction()

set(package ${BUILD_TREE})
if(MODE MATCHES "Install")
  run(${CMAKE_COMMAND} --install ${BUILD_TREE} --prefix ${WORK}/made)
  file(RENAME ${WORK}/made ${WORK}/moved)
  set(package ${WORK}/moved)
  if(MODE STREQUAL InstallWithPlantedPath)
    file(APPEND ${package}/include/pinch/version.h "// ${SOURCE_TREE}\n")
  endif()
  refuse_paths_of_the_trees()
endif()

set(configure ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${package}
    -DPACKAGE=${package} -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
if(SANITIZE)
  list(APPEND configure -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" wanted ${VERSION})

if(MODE STREQUAL RefusesAnotherMinorVersion)
  string(REGEX REPLACE "\\.[0-9]+$" ".99" wanted ${wanted})
  execute_process(COMMAND ${configure} -DWANTED=${wanted} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE output)
  if(status EQUAL 0 OR NOT output MATCHES "version: ${VERSION}")
    message(FATAL_ERROR "a project that wants ${wanted} was given ${VERSION}:\n${output}")
  endif()
  return()
endif()

run(${configure} -DWANTED=${wanted})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
