# Finds MLIR 22: the target mgc_mlir is for what includes and links it.
list(PREPEND CMAKE_PREFIX_PATH /usr/lib/llvm-22)
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "MLIR ${LLVM_VERSION} found; 22 is needed")
endif()
set(MLIR_LINK_MLIR_DYLIB ON) # Debian ships the dylib but does not export the choice.
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
find_package(LLD REQUIRED CONFIG) # lldELF, which links kernel libraries
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(mgc_mlir INTERFACE)
target_include_directories(mgc_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_libraries(mgc_mlir INTERFACE MLIR LLVM)
target_link_directories(mgc_mlir INTERFACE ${LLVM_LIBRARY_DIRS})
target_compile_options(mgc_mlir INTERFACE -fno-exceptions)
if(MGC_SANITIZE MATCHES address)
  add_library(mgc_asan_options STATIC ${CMAKE_CURRENT_LIST_DIR}/AsanOptions.cpp)
  target_link_libraries(mgc_mlir INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,mgc_asan_options>)
endif()
