# The CUDA toolkit, for what is built with it. Nothing links its libraries: they are opened at run time.
#   MGC_CUDA        ON: used where it is found; OFF; REQUIRED: an error where it is not
#   MGC_CUDA_WHEELS folder with nvidia/*/include, as Python packages store them (site-packages): cuBLASLt, cuDNN and NCCL
#                   are looked for there first
#   MGC_CUDA_FOUND  the toolkit is there and wanted. Then MGC_CUDA_BIN is the folder of nvcc and ptxas, mgc_cuda_headers an
#                   interface target with the include directories, MGC_CUDA_LIBRARIES the folders of the libraries that belong
#                   to them, and MGC_CUDNN_FOUND and MGC_NCCL_FOUND say which of the two have headers
set(MGC_CUDA ON CACHE STRING "Build what needs the CUDA toolkit: ON where it is found, OFF, REQUIRED")
set(MGC_CUDA_WHEELS "" CACHE PATH "Folder of Python packages whose nvidia/*/include has headers of cuBLASLt, cuDNN and NCCL")
set(MGC_CUDA_FOUND OFF)
if(NOT MGC_CUDA)
  return()
endif()

# By hand: FindCUDAToolkit of CMake 3.25 ends in an error with toolkits from 13.0 on.
find_program(MGC_NVCC nvcc HINTS "${CUDAToolkit_ROOT}/bin" ENV CUDAToolkit_ROOT ENV CUDA_PATH PATH_SUFFIXES bin
  PATHS /usr/local/cuda/bin)
file(REAL_PATH "${MGC_NVCC}" nvcc)
cmake_path(GET nvcc PARENT_PATH MGC_CUDA_BIN)
cmake_path(GET MGC_CUDA_BIN PARENT_PATH toolkit)
set(toolkit_includes "${toolkit}/include" "${toolkit}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include")

# mgc_cuda_header(NAME HEADER): sets MGC_NAME_INCLUDE to the header's folder, or to something false.
file(GLOB wheels "${MGC_CUDA_WHEELS}/nvidia/*/include")
macro(mgc_cuda_header name header)
  find_path(MGC_${name}_INCLUDE ${header} HINTS ${ARGN} ${toolkit_includes})
endmacro()
mgc_cuda_header(CUDA cuda.h)
mgc_cuda_header(CUBLASLT cublasLt.h ${wheels})
mgc_cuda_header(CUDNN cudnn.h ${wheels})
mgc_cuda_header(NCCL nccl.h ${wheels})

if(NOT MGC_NVCC OR NOT MGC_CUDA_INCLUDE OR NOT MGC_CUBLASLT_INCLUDE)
  string(CONCAT message "CUDA: no toolkit with nvcc (PATH, CUDAToolkit_ROOT, /usr/local/cuda), cuda.h and cublasLt.h (its "
    "folders, MGC_CUDA_WHEELS): libmgc_cuda.so is not built, plans for GPUs do not run")
  if(MGC_CUDA STREQUAL REQUIRED)
    message(FATAL_ERROR "${message}")
  endif()
  message(STATUS "${message}")
  return()
endif()

set(MGC_CUDA_FOUND ON)
set(MGC_CUDA_LIBRARIES "")
add_library(mgc_cuda_headers INTERFACE)
foreach(name CUBLASLT CUDNN NCCL CUDA) # the toolkit's own folders last
  set(MGC_${name}_FOUND OFF)
  if(MGC_${name}_INCLUDE)
    set(MGC_${name}_FOUND ON)
    target_include_directories(mgc_cuda_headers SYSTEM INTERFACE "${MGC_${name}_INCLUDE}")
    cmake_path(GET MGC_${name}_INCLUDE PARENT_PATH beside)
    foreach(libraries "${beside}/lib64" "${beside}/lib")
      if(EXISTS "${libraries}")
        list(APPEND MGC_CUDA_LIBRARIES "${libraries}")
      endif()
    endforeach()
  endif()
endforeach()
list(REMOVE_DUPLICATES MGC_CUDA_LIBRARIES)
if(NOT MGC_CUDNN_FOUND)
  message(STATUS "CUDA: no cudnn.h (toolkit's folders, MGC_CUDA_WHEELS): attention has this project's kernels only")
endif()
if(NOT MGC_NCCL_FOUND)
  message(STATUS "CUDA: no nccl.h (toolkit's folders, MGC_CUDA_WHEELS): the ranks of a plan must share one GPU")
endif()

# mgc_ptx(TARGET NAME): kernels/NAME.cu of the folder as PTX that every GPU from 8.0 on takes, in TARGET as NAMEModule
# (runtime/device/cuda/Internal.h).
function(mgc_ptx target name)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/kernels/${name}.cu")
  set(ptx "${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx")
  set(embed "${PROJECT_SOURCE_DIR}/cmake/EmbedPtx.cmake")
  add_custom_command(OUTPUT "${ptx}"
    COMMAND "${MGC_NVCC}" -ptx -std=c++17 -O3 -arch=compute_80 --expt-relaxed-constexpr -I "${PROJECT_SOURCE_DIR}" -MD -MF "${ptx}.d" -MT "${ptx}"
      -o "${ptx}" "${source}"
    DEPENDS "${source}" DEPFILE "${ptx}.d" COMMENT "PTX of ${name}.cu" VERBATIM)
  add_custom_command(OUTPUT "${ptx}.cpp"
    COMMAND "${CMAKE_COMMAND}" -DNAME=${name} -DPTX=${ptx} -DOUTPUT=${ptx}.cpp -P "${embed}"
    DEPENDS "${ptx}" "${embed}" VERBATIM)
  target_sources(${target} PRIVATE "${ptx}.cpp")
  set_property(GLOBAL APPEND PROPERTY MGC_OWN_PTX "${ptx}") # for tests
endfunction()
