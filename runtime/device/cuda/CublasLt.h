// CublasLt: the functions of libcublasLt that the plugin uses, and its handle on a device.
#pragma once

#include "runtime/device/cuda/Internal.h"

#include <cublasLt.h>

// clang-format off
#define MGC_CUBLASLT_FUNCTIONS(F) \
  F(cublasLtCreate) F(cublasLtDestroy) F(cublasLtGetVersion) F(cublasLtGetStatusString) \
  F(cublasLtMatmulDescCreate) F(cublasLtMatmulDescDestroy) F(cublasLtMatmulDescSetAttribute) \
  F(cublasLtMatrixLayoutCreate) F(cublasLtMatrixLayoutDestroy) F(cublasLtMatmulPreferenceCreate) \
  F(cublasLtMatmulPreferenceDestroy) F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatmulAlgoGetHeuristic) F(cublasLtMatmul)
// clang-format on

namespace mgc::cuda {

struct CublasLtTable {
  MGC_CUBLASLT_FUNCTIONS(MGC_FUNCTION_FIELD)
  static Result<const CublasLtTable *> get(); // opened once
};

class CublasLt {
public:
  explicit CublasLt(const CublasLtTable &api) : api(api) {}
  ~CublasLt() {
    if (handle)
      api.cublasLtDestroy(handle);
  }
  CublasLt(const CublasLt &) = delete;
  CublasLt &operator=(const CublasLt &) = delete;

  // The device's, opened when it is first asked for. It takes device memory in addition to the plan's.
  static Result<std::shared_ptr<CublasLt>> of(mgc_device &device);

  Status check(const mgc_device &device, cublasStatus_t result, std::string_view what) const;

  const CublasLtTable &api;
  cublasLtHandle_t handle = nullptr;
};

} // namespace mgc::cuda
