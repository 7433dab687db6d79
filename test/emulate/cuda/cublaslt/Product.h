// D = epilogue(alpha op(A) op(B) + beta C) on host memory.
#pragma once

#include "test/emulate/cuda/driver/Hooks.h"

#include <cublasLt.h>
#include <vector>

namespace mgc::emulate {

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  bool isRowMajor = false;
  int32_t batch = 1;
  int64_t batchOffset = 0; // in elements

  uint64_t elementBytes() const { return type == CUDA_R_32F ? 4 : 2; }
  uint64_t bytes() const; // from the first element to the last of the last batch
  bool isValid() const;
};

struct Epilogue {
  uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  CUdeviceptr bias = 0;
  cudaDataType_t biasType = CUDA_R_32F;

  bool has(uint32_t bit) const { return (kind & bit) != 0; }
};

struct Product {
  bool transposeA = false, transposeB = false;
  Matrix a, b, c, d;
  CUdeviceptr at[4] = {}; // addresses of a, b, c, d
  float alpha = 1, beta = 0;
  Epilogue epilogue;
  // 1: the sum in the order of k. 2: two halves of k, added at the end through the workspace.
  int parts = 1;
  CUdeviceptr workspace = 0;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return transposeA ? a.rows : a.columns; }
  uint64_t workspaceBytes() const { return parts == 1 ? 0 : m() * n() * sizeof(float); }
  // Checks the shapes and types; CUBLAS_STATUS_SUCCESS if they are as they must be.
  cublasStatus_t check() const;
  void run() const;
};

} // namespace mgc::emulate
