// A matrix product of cuBLASLt: what GemmCalls.cpp makes and GemmChoice.cpp measures.
#pragma once

#include "runtime/device/cuda/CublasLt.h"

struct mgc_gemm {
  mgc_gemm_facts facts;
  std::string name; // "gemm 4096x1024x512 bf16 -> f32", for messages
  std::shared_ptr<mgc::cuda::CublasLt> library;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  mgc_device *device = nullptr;

  ~mgc_gemm() {
    const mgc::cuda::CublasLtTable &api = library->api;
    if (operation)
      api.cublasLtMatmulDescDestroy(operation);
    for (const cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout)
        api.cublasLtMatrixLayoutDestroy(layout);
  }
};

namespace mgc::cuda {

// C does not depend on A and B.
inline bool isEmpty(const mgc_gemm_facts &facts) { return facts.m == 0 || facts.n == 0 || facts.k == 0; }

Status checkFacts(const mgc_device &device, const mgc_gemm_facts &facts);

// The matrix product without an algorithm.
Result<std::unique_ptr<mgc_gemm>> describeGemm(mgc_device &device, const mgc_gemm_facts &facts);

// The library's list, the best first as it thinks.
Result<std::vector<cublasLtMatmulAlgo_t>> algorithms(const mgc_gemm &gemm);

Status enqueue(mgc_stream &stream, const mgc_gemm &gemm, const cublasLtMatmulAlgo_t &algorithm,
               const mgc_gemm_operands &operands);

} // namespace mgc::cuda
