// The stand-in of libcublasLt: products in f32 and bf16 with f32 sums. It knows two algorithms: one that needs nothing, and,
// where the workspace holds it, one that adds up two halves of k.
#include "test/emulate/cuda/cublaslt/Product.h"

#include <cstring>
#include <map>

using namespace mgc::emulate;

namespace {

// Descriptors, layouts and preferences are here the bytes of the attributes that were set.
struct Attributes {
  std::map<int, std::vector<char>> values;

  template <typename T> T get(int attribute, T otherwise) const {
    auto found = values.find(attribute);
    if (found != values.end())
      std::memcpy(&otherwise, found->second.data(), std::min(sizeof(T), found->second.size()));
    return otherwise;
  }
  template <typename T> void set(int attribute, T value) { set(attribute, &value, sizeof(T)); }
  cublasStatus_t set(int attribute, const void *data, size_t bytes) {
    const auto *begin = static_cast<const char *>(data);
    values[attribute].assign(begin, begin + bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t read(int attribute, void *data, size_t bytes, size_t *written) const {
    auto found = values.find(attribute);
    if (written)
      *written = found == values.end() ? 0 : found->second.size();
    if (found == values.end() || bytes < found->second.size())
      return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(data, found->second.data(), found->second.size());
    return CUBLAS_STATUS_SUCCESS;
  }
};

template <typename Handle> Attributes &of(Handle handle) { return *reinterpret_cast<Attributes *>(handle); }

template <typename Handle> Attributes &create(Handle *handle) {
  auto *made = new Attributes;
  *handle = reinterpret_cast<Handle>(made);
  return *made;
}

template <typename Handle> cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Attributes *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

Matrix matrixOf(cublasLtMatrixLayout_t layout) {
  const Attributes &attributes = of(layout);
  Matrix matrix;
  matrix.type = attributes.get(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F);
  matrix.rows = attributes.get(CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t(0));
  matrix.columns = attributes.get(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t(0));
  matrix.leading = attributes.get(CUBLASLT_MATRIX_LAYOUT_LD, int64_t(0));
  matrix.isRowMajor = attributes.get(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t(CUBLASLT_ORDER_COL)) == CUBLASLT_ORDER_ROW;
  matrix.batch = attributes.get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(1));
  matrix.batchOffset = attributes.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t(0));
  return matrix;
}

Product productOf(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  const Attributes &attributes = of(description);
  Product product;
  product.transposeA = attributes.get(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_N)) != CUBLAS_OP_N;
  product.transposeB = attributes.get(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(CUBLAS_OP_N)) != CUBLAS_OP_N;
  product.a = matrixOf(a), product.b = matrixOf(b), product.c = matrixOf(c), product.d = matrixOf(d);
  Epilogue &epilogue = product.epilogue;
  epilogue.kind = attributes.get(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_DEFAULT));
  epilogue.bias = attributes.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUdeviceptr(0));
  epilogue.biasType = attributes.get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, product.d.type);
  return product;
}

cublasStatus_t checkTypes(cublasLtMatmulDesc_t description) {
  const Attributes &attributes = of(description);
  const bool isKnown = attributes.get(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F) == CUBLAS_COMPUTE_32F &&
                       attributes.get(CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F) == CUDA_R_32F &&
                       attributes.get(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t(CUBLASLT_POINTER_MODE_HOST)) ==
                           CUBLASLT_POINTER_MODE_HOST;
  return isKnown ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// The words of an algorithm: the number of parts of k, and the alignments that the addresses of the matrices and of the
// bias must have. The latter is the alignment of the address that the library was asked with.
enum { kParts, kAlignment, kBiasAlignment };

bool isAligned(const Product &product, const cublasLtMatmulAlgo_t &algorithm) {
  const auto divides = [](uint64_t alignment, CUdeviceptr address) {
    return alignment == 0 || address % alignment == 0;
  };
  for (CUdeviceptr address : product.at)
    if (!divides(algorithm.data[kAlignment], address))
      return false;
  return divides(algorithm.data[kBiasAlignment], product.epilogue.bias);
}

} // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion() { return CUDA_VERSION; }

const char *cublasLtGetStatusName(cublasStatus_t status) {
  static const std::map<cublasStatus_t, const char *> names = {
      {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS"},
      {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"},
      {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED"},
      {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED"},
      {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED"},
  };
  const auto found = names.find(status);
  return found == names.end() ? "CUBLAS_STATUS_INTERNAL_ERROR" : found->second;
}

const char *cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (mgcEmulateState() != CUDA_SUCCESS)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  create(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  Attributes &made = create(layout);
  made.set(CUBLASLT_MATRIX_LAYOUT_TYPE, type);
  made.set(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
  made.set(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
  made.set(CUBLASLT_MATRIX_LAYOUT_LD, leading);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *data,
                                                size_t bytes) {
  return of(layout).set(attribute, data, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void *data, size_t bytes,
                                                size_t *written) {
  return of(layout).read(attribute, data, bytes, written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Attributes &made = create(description);
  made.set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute);
  made.set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) { return destroy(description); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *data,
                                              size_t bytes) {
  return of(description).set(attribute, data, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void *data, size_t bytes,
                                              size_t *written) {
  return of(description).read(attribute, data, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  create(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *data,
                                                    size_t bytes) {
  return of(preference).set(attribute, data, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void *data,
                                                    size_t bytes, size_t *written) {
  return of(preference).read(attribute, data, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found) {
  *found = 0;
  if (cublasStatus_t status = checkTypes(description); status != CUBLAS_STATUS_SUCCESS)
    return status;
  Product product = productOf(description, a, b, c, d);
  if (cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const Attributes &limits = of(preference);
  const uint64_t room = limits.get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(0));
  const uint32_t schemes =
      limits.get(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_MASK));
  for (int parts = 1; parts <= 2 && *found < wanted; ++parts) {
    product.parts = parts;
    if (product.workspaceBytes() > room ||
        (parts > 1 && (product.k() < 2 || !(schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))))
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*found)++];
    std::memset(&result, 0, sizeof result);
    result.algo.data[kParts] = parts;
    result.algo.data[kBiasAlignment] = product.epilogue.bias & -product.epilogue.bias;
    result.algo.data[kAlignment] = limits.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(256));
    result.workspaceSize = product.workspaceBytes();
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layoutC, void *d,
                              cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  if (cublasStatus_t status = checkTypes(description); status != CUBLAS_STATUS_SUCCESS)
    return status;
  Product product = productOf(description, layoutA, layoutB, layoutC, layoutD);
  product.parts = algorithm ? static_cast<int>(algorithm->data[kParts]) : 1;
  product.alpha = *static_cast<const float *>(alpha);
  product.beta = *static_cast<const float *>(beta);
  product.workspace = reinterpret_cast<CUdeviceptr>(workspace);
  const void *places[] = {a, b, c ? c : d, d};
  for (int i = 0; i < 4; ++i)
    product.at[i] = reinterpret_cast<CUdeviceptr>(places[i]);
  if (cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const bool isPart = product.parts == 1 || product.parts == 2;
  if (!isPart || workspaceBytes < product.workspaceBytes() || product.workspace % 16 ||
      (algorithm && !isAligned(product, *algorithm)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const CUresult result = mgcEmulateEnqueue(reinterpret_cast<CUstream>(stream), [product] {
    product.run();
    return CUDA_SUCCESS;
  });
  return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
