# The targets of this project. The include root is the repository. DEPS are folders, as paths from it ("runtime/base"), or
# targets of others.
#   mgc_library([FOLDERS ..] [EXCEPT ..] DEPS ..)  this folder is the target mgc_A_B for a/b, of its own .cpp files and those of the
#                                                  folders; a static library, an interface where there are none
#   mgc_pass(DEPS ..)                              the same of MLIR's passes
#   mgc_program(NAME SOURCES .. DEPS ..)           an executable
#   mgc_gtest(NAME SOURCES .. DEPS ..)             a GoogleTest binary and its ctest test
#   mgc_folders(..)                                their CMakeLists.txt, too
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(mgc_options INTERFACE)
target_include_directories(mgc_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
# Fields that a designated initializer leaves out keep their defaults.
target_compile_options(mgc_options INTERFACE -Wall -Wextra -Werror=unused-result -Werror=return-type -Wno-unused-parameter
  $<IF:$<CXX_COMPILER_ID:Clang>,-Wno-missing-designated-field-initializers,-Wno-missing-field-initializers>)
if(MGC_SANITIZE)
  target_compile_options(mgc_options INTERFACE -fsanitize=${MGC_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr$<COMMA>function>)
  target_link_options(mgc_options INTERFACE -fsanitize=${MGC_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(MGC_LLD NAMES ld.lld-22 ld.lld)
  if(MGC_LLD)
    target_link_options(mgc_options INTERFACE --ld-path=${MGC_LLD})
  endif()
endif()

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)

# `out`: DEPS with the targets of folders in their place.
function(mgc_targets out)
  set(targets "")
  foreach(dep ${ARGN})
    if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${dep}")
      string(REPLACE "/" "_" dep "mgc_${dep}")
    endif()
    list(APPEND targets "${dep}")
  endforeach()
  set(${out} "${targets}" PARENT_SCOPE)
endfunction()

macro(mgc_folders)
  foreach(folder ${ARGN})
    add_subdirectory(${folder})
  endforeach()
endmacro()

function(mgc_library)
  cmake_parse_arguments(ARG "" "" "FOLDERS;EXCEPT;DEPS" ${ARGN})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  mgc_targets(name "${folder}")
  mgc_targets(deps ${ARG_DEPS})
  set(globs *.cpp)
  foreach(inner ${ARG_FOLDERS})
    list(APPEND globs ${inner}/*.cpp)
  endforeach()
  file(GLOB sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS ${globs})
  list(REMOVE_ITEM sources ${ARG_EXCEPT} "")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC mgc_options fmt::fmt ${deps})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE mgc_options fmt::fmt ${deps})
  endif()
endfunction()

function(mgc_pass)
  mgc_library(${ARGN})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  mgc_targets(name "${folder}")
  add_dependencies(${name} MgPassesTableGen)
  target_precompile_headers(${name} REUSE_FROM mgc_dialects_mg)
endfunction()

function(mgc_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  mgc_targets(deps ${ARG_DEPS})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE mgc_options ${deps})
endfunction()

set(MGC_TEST_SECONDS 300) # timeout of a test program
if(MGC_SANITIZE)
  set(MGC_TEST_SECONDS 1800) # code is up to twenty times as slow
endif()
if(MGC_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
# SAMPLE: a test runs one of so many of its tests, others each day.
function(mgc_gtest name)
  cmake_parse_arguments(ARG "" "SAMPLE" "SOURCES;DEPS" ${ARGN})
  mgc_targets(deps ${ARG_DEPS})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE mgc_options GTest::gtest_main ${deps})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/unit")
  target_compile_definitions(${name} PRIVATE MGC_TEST_DIR="${PROJECT_SOURCE_DIR}/test")
  set(sampled)
  if(ARG_SAMPLE)
    set(sampled /usr/bin/python3 ${PROJECT_SOURCE_DIR}/test/e2e/turns.py ${ARG_SAMPLE})
  endif()
  add_test(NAME unit/${name} COMMAND ${sampled} $<TARGET_FILE:${name}>)
  set_tests_properties(unit/${name} PROPERTIES TIMEOUT ${MGC_TEST_SECONDS})
endfunction()
