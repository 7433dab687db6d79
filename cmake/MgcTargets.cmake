# The targets of this project. The include root is the repository. DEPS are folders, as paths from it ("runtime/base"), or
# targets of others.
#   mgc_library([HEADER ..] [HEADER_OF ..] [FOLDERS ..] [EXCEPT ..] DEPS ..)
#     this folder is the target mgc_A_B for a/b, of its own .cpp files and those of the folders; a static library, an interface
#     where there are none. HEADER is precompiled. A library without one shares that of the folder HEADER_OF; by default of
#     plan, if DEPS have it, or of runtime/base.
#   mgc_pass(DEPS ..)                                       the same of MLIR's passes
#   mgc_program(NAME [HEADER_OF ..] SOURCES .. DEPS ..)     an executable
#   mgc_gtest(NAME [MLIR] SOURCES .. [OPTIONS ..] DEPS ..)  a GoogleTest binary and its ctest test. It shares the precompiled header
#     of tests, or of tests with MLIR, or with OPTIONS of the compiler none.
#   mgc_test(NAME ..)                                       a ctest test of a script or program
#   mgc_vectorized(SOURCE ..)                               sources of the folder whose loops are optimised in all builds
#   mgc_folders(..)                                         their CMakeLists.txt, too
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# CMake's property POSITION_INDEPENDENT_CODE would compile programs with -fPIE, and a precompiled header serves either -fPIE or -fPIC.
add_compile_options(-fPIC)

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
  cmake_parse_arguments(ARG "" "HEADER;HEADER_OF" "FOLDERS;EXCEPT;DEPS" ${ARGN})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  mgc_targets(name "${folder}")
  mgc_targets(deps ${ARG_DEPS})
  set(globs *.cpp)
  foreach(inner ${ARG_FOLDERS})
    list(APPEND globs ${inner}/*.cpp)
  endforeach()
  file(GLOB sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS ${globs})
  list(REMOVE_ITEM sources ${ARG_EXCEPT} "")
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE mgc_options fmt::fmt ${deps})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC mgc_options fmt::fmt ${deps})
  if(ARG_HEADER)
    target_precompile_headers(${name} PRIVATE <${ARG_HEADER}>)
    return()
  endif()
  if(NOT ARG_HEADER_OF)
    set(ARG_HEADER_OF runtime/base)
    if(plan IN_LIST ARG_DEPS)
      set(ARG_HEADER_OF plan)
    endif()
  endif()
  mgc_targets(owner ${ARG_HEADER_OF})
  target_precompile_headers(${name} REUSE_FROM ${owner})
endfunction()

# A precompiled header is for one level of optimisation.
function(mgc_vectorized)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

function(mgc_pass)
  mgc_library(HEADER_OF dialects/mg ${ARGN})
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  mgc_targets(name "${folder}")
  add_dependencies(${name} MgPassesTableGen)
endfunction()

function(mgc_program name)
  cmake_parse_arguments(ARG "" "HEADER_OF" "SOURCES;DEPS" ${ARGN})
  mgc_targets(deps ${ARG_DEPS})
  mgc_targets(owner ${ARG_HEADER_OF})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE mgc_options ${deps})
  if(owner)
    target_precompile_headers(${name} REUSE_FROM ${owner})
  endif()
endfunction()

set(MGC_TEST_SECONDS 900) # timeout of a test
if(MGC_SANITIZE)
  set(MGC_TEST_SECONDS 3600) # code is up to twenty times as slow
endif()
if(MGC_BUILD_TESTS)
  find_package(GTest REQUIRED)
  add_library(mgc_test_options INTERFACE) # options of tests, whose own code need not be fast
  target_link_libraries(mgc_test_options INTERFACE mgc_options fmt::fmt)
  target_compile_options(mgc_test_options INTERFACE $<$<CONFIG:Release>:-O1>)
endif()
# The target NAME owns the precompiled header of tests that link the DEPS.
function(mgc_test_header name header)
  mgc_targets(deps ${ARGN})
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/test/NoCode.cpp")
  target_link_libraries(${name} PRIVATE mgc_test_options GTest::gtest ${deps})
  target_precompile_headers(${name} PRIVATE <${header}>)
endfunction()
# SAMPLE: of so many of its tests, one runs.
function(mgc_gtest name)
  cmake_parse_arguments(ARG "MLIR" "SAMPLE;SECONDS" "SOURCES;OPTIONS;DEPS" ${ARGN})
  mgc_targets(deps ${ARG_DEPS})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE mgc_test_options mgc_test_places GTest::gtest_main ${deps})
  if(ARG_OPTIONS)
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  elseif(ARG_MLIR)
    target_precompile_headers(${name} REUSE_FROM mgc_mlir_test_header)
  else()
    target_precompile_headers(${name} REUSE_FROM mgc_test_header)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/unit")
  set(sampled)
  if(ARG_SAMPLE)
    set(sampled ${PROJECT_SOURCE_DIR}/test/e2e/samples.py ${ARG_SAMPLE})
  endif()
  mgc_test(unit/${name} SECONDS ${ARG_SECONDS} USES ${ARG_DEPS} COMMAND ${sampled} $<TARGET_FILE:${name}>)
endfunction()

# USES: the programs, folders and files whose change may break it, for scripts/test PATH. SECONDS of processor time: a worker takes the
# longest test first. CORES: how many it keeps busy. EMULATED: it runs on the stand-ins of CUDA. A test that ends with 77 is skipped.
function(mgc_test name)
  cmake_parse_arguments(ARG "EMULATED" "SECONDS;CORES;CONFIGURATION" "USES;ENVIRONMENT;COMMAND" ${ARGN})
  list(GET ARG_COMMAND 0 program)
  if(program MATCHES "[.]py$")
    cmake_path(ABSOLUTE_PATH program BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    list(REMOVE_AT ARG_COMMAND 0)
    list(PREPEND ARG_COMMAND /usr/bin/python3 "${program}")
    list(APPEND ARG_USES test/e2e) # helpers of all tests in Python
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND} CONFIGURATIONS ${ARG_CONFIGURATION})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${MGC_TEST_SECONDS} SKIP_RETURN_CODE 77 LABELS "${ARG_USES}")
  if(ARG_SECONDS)
    set_tests_properties(${name} PROPERTIES COST ${ARG_SECONDS})
  endif()
  if(ARG_CORES)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${ARG_CORES})
  endif()
  if(ARG_EMULATED)
    list(APPEND ARG_ENVIRONMENT "LD_LIBRARY_PATH=path_list_prepend:${MGC_EMULATE_DIR}")
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION "${ARG_ENVIRONMENT}")
endfunction()
