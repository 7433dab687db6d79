# The CUDA toolkit, for what is built with it. Nothing links its libraries: they are opened at run time.
#   MGC_CUDA        ON: used where it is found; OFF; REQUIRED: an error where it is not
#   MGC_CUDA_WHEELS folder with nvidia/*/include, as Python packages lay them down (site-packages): cuDNN and NCCL may be there
#   MGC_CUDA_FOUND  the toolkit is there and wanted. Then MGC_CUDA_BIN is the folder of nvcc and ptxas, mgc_cuda_headers an
#                   interface target with the include directories, MGC_CUDA_LIBRARIES the folders of the libraries that belong
#                   to them, and MGC_CUDNN_FOUND and MGC_NCCL_FOUND say which of the two have headers
set(MGC_CUDA ON CACHE STRING "Build what needs the CUDA toolkit: ON where it is found, OFF, REQUIRED")
set(MGC_CUDA_WHEELS "" CACHE PATH "Folder of Python packages whose nvidia/*/include has headers of cuDNN and NCCL")
set(MGC_CUDA_FOUND OFF)
if(NOT MGC_CUDA)
  return()
endif()

find_package(CUDAToolkit QUIET)
find_program(MGC_NVCC nvcc HINTS "${CUDAToolkit_BIN_DIR}")
if(NOT CUDAToolkit_FOUND OR NOT MGC_NVCC)
  set(message "CUDA: no toolkit with nvcc found (PATH, CUDAToolkit_ROOT): libmgc_cuda.so is not built, plans for GPUs do not run")
  if(MGC_CUDA STREQUAL REQUIRED)
    message(FATAL_ERROR "${message}")
  endif()
  message(STATUS "${message}")
  return()
endif()

set(MGC_CUDA_FOUND ON)
set(MGC_CUDA_BIN "${CUDAToolkit_BIN_DIR}")
set(MGC_CUDA_LIBRARIES "${CUDAToolkit_LIBRARY_DIR}")
add_library(mgc_cuda_headers INTERFACE)
target_include_directories(mgc_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})

# mgc_cuda_library(NAME HEADER): sets MGC_NAME_FOUND; adds the header's folder and the library's, where they are not the toolkit's.
function(mgc_cuda_library name header)
  file(GLOB folders "${MGC_CUDA_WHEELS}/nvidia/*/include")
  find_path(MGC_${name}_INCLUDE ${header} HINTS ${folders} ${CUDAToolkit_INCLUDE_DIRS})
  if(MGC_${name}_INCLUDE)
    set(MGC_${name}_FOUND ON PARENT_SCOPE)
    target_include_directories(mgc_cuda_headers SYSTEM INTERFACE "${MGC_${name}_INCLUDE}")
    get_filename_component(libraries "${MGC_${name}_INCLUDE}/../lib" ABSOLUTE)
    if(MGC_CUDA_WHEELS AND EXISTS "${libraries}")
      set(MGC_CUDA_LIBRARIES "${MGC_CUDA_LIBRARIES};${libraries}" PARENT_SCOPE)
    endif()
  else()
    set(MGC_${name}_FOUND OFF PARENT_SCOPE)
    message(STATUS "CUDA: ${header} not found (toolkit's folders, MGC_CUDA_WHEELS): ${ARGN}")
  endif()
endfunction()
mgc_cuda_library(CUDNN cudnn.h "attention has this project's kernels only")
mgc_cuda_library(NCCL nccl.h "the ranks of a plan must share one GPU")

# mgc_ptx(TARGET NAME): kernels/NAME.cu of the folder as PTX that every GPU from 8.0 on takes, in TARGET as NAMEModule
# (runtime/device/cuda/Internal.h).
function(mgc_ptx target name)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/kernels/${name}.cu")
  set(ptx "${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx")
  set(embed "${PROJECT_SOURCE_DIR}/cmake/EmbedPtx.cmake")
  add_custom_command(OUTPUT "${ptx}"
    COMMAND "${MGC_NVCC}" -ptx -std=c++17 -O3 -arch=compute_80 -I "${PROJECT_SOURCE_DIR}" -MD -MF "${ptx}.d" -MT "${ptx}"
      -o "${ptx}" "${source}"
    DEPENDS "${source}" DEPFILE "${ptx}.d" COMMENT "PTX of ${name}.cu" VERBATIM)
  add_custom_command(OUTPUT "${ptx}.cpp"
    COMMAND "${CMAKE_COMMAND}" -DNAME=${name} -DPTX=${ptx} -DOUTPUT=${ptx}.cpp -P "${embed}"
    DEPENDS "${ptx}" "${embed}" VERBATIM)
  target_sources(${target} PRIVATE "${ptx}.cpp")
endfunction()
