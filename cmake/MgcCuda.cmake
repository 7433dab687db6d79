# MGC_CUDA_FOUND: the CUDA toolkit is there and wanted. Then MGC_CUDA_BIN is the folder of nvcc and ptxas, and mgc_cuda_headers an
# interface target with the include directories. Nothing links the toolkit's libraries: they are opened at run time.
option(MGC_CUDA "Build what needs the CUDA toolkit, where it is found" ON)
set(MGC_CUDA_FOUND OFF)
if(MGC_CUDA)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_BIN_DIR}/nvcc")
    set(MGC_CUDA_FOUND ON)
    set(MGC_CUDA_BIN "${CUDAToolkit_BIN_DIR}")
    add_library(mgc_cuda_headers INTERFACE)
    target_include_directories(mgc_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  endif()
endif()
