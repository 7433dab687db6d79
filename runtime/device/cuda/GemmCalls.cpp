// Matrix products by cuBLASLt, which is column-major: it sees row-major C[m,n] = op(A) op(B) as C'[n,m] = op(B)' op(A)', with B and
// A in the places of its first and second operand.
//
// The algorithm: the library's list for a product, a device and a workspace is the same every time, so a place in it names
// one. Sums are f32: a split along k may only be added up in f32, in the workspace, in order. Some of its kernels round a bf16
// product before they add a bias or what is there (cuBLASLt 13.1 on 9.0).
//
// Epilogues go by rows of C', which are columns of C: a bias has n elements.
#include "runtime/device/cuda/GemmCalls.h"

#include <algorithm>
#include <span>

namespace mgc::cuda {

namespace {

constexpr int kMostAlgorithms = 24; // length of the library's list

cudaDataType_t typeOf(mgc_type type) { return type == MGC_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

const char *nameOf(mgc_type type) { return type == MGC_BF16 ? "bf16" : "f32"; }

// The library's epilogue, and the words that a message adds to the matrix product's name; by mgc_epilogue.
struct EpilogueFacts {
  cublasLtEpilogue_t library;
  const char *name;
};
constexpr EpilogueFacts kEpilogues[] = {{CUBLASLT_EPILOGUE_DEFAULT, ""}, {CUBLASLT_EPILOGUE_BIAS, " with bias"}};

std::string nameOf(const mgc_gemm_facts &facts) {
  return fmt::format("gemm m={} n={} k={} {}{}{} -> {}{}{}", facts.m, facts.n, facts.k, nameOf(facts.input),
                     facts.transpose_a ? " A'" : "", facts.transpose_b ? " B'" : "", nameOf(facts.output),
                     facts.accumulate ? " accumulated" : "", kEpilogues[facts.epilogue].name);
}

bool isPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// Row-major rows x columns, as the library sees it.
Status makeLayout(mgc_gemm &gemm, cublasLtMatrixLayout_t &layout, mgc_type type, int64_t rows, int64_t columns) {
  return gemm.library->check(
      *gemm.device, gemm.library->api.cublasLtMatrixLayoutCreate(&layout, typeOf(type), columns, rows, columns),
      gemm.name);
}

template <typename T> Status set(const mgc_gemm &gemm, cublasLtMatmulDescAttributes_t which, T value) {
  return gemm.library->check(
      *gemm.device, gemm.library->api.cublasLtMatmulDescSetAttribute(gemm.operation, which, &value, sizeof value),
      gemm.name);
}

Status setBias(const mgc_gemm &gemm, mgc_address bias) {
  return gemm.facts.epilogue == MGC_BIAS ? set(gemm, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias) : Status::ok();
}

// The library chooses its algorithms by the alignment of the bias, which it takes from its address.
Status makeEpilogue(mgc_gemm &gemm) {
  MGC_TRY(set(gemm, CUBLASLT_MATMUL_DESC_EPILOGUE, kEpilogues[gemm.facts.epilogue].library));
  return setBias(gemm, mgc_address(gemm.facts.alignment));
}

Status makeOperation(mgc_gemm &gemm) {
  const CublasLtTable &api = gemm.library->api;
  MGC_TRY(gemm.library->check(
      *gemm.device, api.cublasLtMatmulDescCreate(&gemm.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), gemm.name));
  MGC_TRY(set(gemm, CUBLASLT_MATMUL_DESC_TRANSA, gemm.facts.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  MGC_TRY(set(gemm, CUBLASLT_MATMUL_DESC_TRANSB, gemm.facts.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  return makeEpilogue(gemm);
}

Status makeLayouts(mgc_gemm &gemm) {
  const mgc_gemm_facts &f = gemm.facts;
  MGC_TRY(makeLayout(gemm, gemm.a, f.input, f.transpose_a ? f.k : f.m, f.transpose_a ? f.m : f.k));
  MGC_TRY(makeLayout(gemm, gemm.b, f.input, f.transpose_b ? f.n : f.k, f.transpose_b ? f.k : f.n));
  return makeLayout(gemm, gemm.c, f.output, f.m, f.n);
}

// The limits of an algorithm: its workspace, its reduction scheme, the alignment of its operands.
class Preference {
public:
  explicit Preference(const CublasLt &library) : library_(library) {}
  ~Preference() {
    if (raw)
      library_.api.cublasLtMatmulPreferenceDestroy(raw);
  }
  Status make(const mgc_gemm &gemm) {
    MGC_TRY(library_.check(*gemm.device, library_.api.cublasLtMatmulPreferenceCreate(&raw), gemm.name));
    MGC_TRY(set(gemm, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(gemm.facts.workspace_bytes)));
    MGC_TRY(set(gemm, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    const auto alignment = uint32_t(std::min<int64_t>(gemm.facts.alignment, 256));
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      MGC_TRY(set(gemm, which, alignment));
    return Status::ok();
  }
  cublasLtMatmulPreference_t raw = nullptr;

private:
  template <typename T> Status set(const mgc_gemm &gemm, cublasLtMatmulPreferenceAttributes_t which, T value) {
    return library_.check(
        *gemm.device, library_.api.cublasLtMatmulPreferenceSetAttribute(raw, which, &value, sizeof value), gemm.name);
  }
  const CublasLt &library_;
};

Status checkEpilogue(const mgc_device &device, const mgc_gemm_facts &facts) {
  if (facts.epilogue == MGC_NO_EPILOGUE)
    return Status::ok();
  if (facts.accumulate || isEmpty(facts))
    return errorf("{}: {}: expected a product that is not empty and not added to what is there", device.name,
                  nameOf(facts));
  return Status::ok();
}

} // namespace

Status checkFacts(const mgc_device &device, const mgc_gemm_facts &facts) {
  if (facts.epilogue < MGC_NO_EPILOGUE || facts.epilogue > MGC_BIAS)
    return errorf("{}: a product with epilogue {}, expected 0 or {}", device.name, int(facts.epilogue), int(MGC_BIAS));
  if (facts.m < 0 || facts.n < 0 || facts.k < 0 || facts.workspace_bytes < 0 || facts.algorithm < 0)
    return errorf("{}: {}, workspace {}, algorithm {}: a number is negative", device.name, nameOf(facts),
                  facts.workspace_bytes, facts.algorithm);
  if (facts.input == MGC_I32 || facts.output == MGC_I32 || (facts.input == MGC_F32 && facts.output == MGC_BF16))
    return errorf("{}: {}: expected f32 -> f32, bf16 -> f32 or bf16 -> bf16", device.name, nameOf(facts));
  if (!isPowerOfTwo(facts.alignment) || facts.alignment < std::min(bytesOf(facts.input), bytesOf(facts.output)))
    return errorf("{}: {}: addresses are said to be multiples of {}; expected a power of two, and whole elements",
                  device.name, nameOf(facts), facts.alignment);
  return checkEpilogue(device, facts);
}

Result<std::vector<cublasLtMatmulAlgo_t>> algorithms(const mgc_gemm &gemm) {
  Preference preference(*gemm.library);
  MGC_TRY(preference.make(gemm));
  std::vector<cublasLtMatmulHeuristicResult_t> found(kMostAlgorithms);
  int count = 0;
  MGC_TRY(gemm.library->check(
      *gemm.device,
      gemm.library->api.cublasLtMatmulAlgoGetHeuristic(gemm.library->handle, gemm.operation, gemm.b, gemm.a, gemm.c,
                                                       gemm.c, preference.raw, kMostAlgorithms, found.data(), &count),
      gemm.name));
  std::vector<cublasLtMatmulAlgo_t> list;
  for (const auto &one : std::span(found).first(count))
    if (one.state == CUBLAS_STATUS_SUCCESS)
      list.push_back(one.algo);
  if (list.empty())
    return errorf("{}: {}: cuBLASLt {} has no algorithm for addresses that are multiples of {} and a "
                  "workspace of {} bytes",
                  gemm.device->name, gemm.name, gemm.library->api.cublasLtGetVersion(), gemm.facts.alignment,
                  gemm.facts.workspace_bytes);
  return list;
}

Result<std::unique_ptr<mgc_gemm>> describeGemm(mgc_device &device, const mgc_gemm_facts &facts) {
  MGC_TRY(checkFacts(device, facts));
  MGC_ASSIGN(library, CublasLt::of(device));
  std::unique_ptr<mgc_gemm> gemm(new mgc_gemm{facts, nameOf(facts), library});
  gemm->device = &device;
  if (!isEmpty(facts)) {
    MGC_TRY(makeOperation(*gemm));
    MGC_TRY(makeLayouts(*gemm));
  }
  return gemm;
}

Status enqueue(mgc_stream &stream, const mgc_gemm &gemm, const cublasLtMatmulAlgo_t &algorithm,
               const mgc_gemm_operands &operands) {
  MGC_TRY(setBias(gemm, operands.bias));
  const auto &[a, b, bias, c, workspace] = operands;
  const auto at = [](mgc_address address) { return reinterpret_cast<void *>(address); };
  const float one = 1, beta = gemm.facts.accumulate ? 1 : 0;
  const size_t bytes = workspace ? size_t(gemm.facts.workspace_bytes) : 0;
  const cublasStatus_t result =
      gemm.library->api.cublasLtMatmul(gemm.library->handle, gemm.operation, &one, at(b), gemm.b, at(a), gemm.a, &beta,
                                       at(c), gemm.c, at(c), gemm.c, &algorithm, at(workspace), bytes, stream.handle);
  return gemm.library->check(*gemm.device, result, gemm.name);
}

Status makeGemm(mgc_device *device, const mgc_gemm_facts *facts, mgc_gemm **gemm) {
  MGC_ASSIGN(made, describeGemm(*device, *facts));
  if (!isEmpty(*facts)) {
    MGC_ASSIGN(list, algorithms(*made));
    if (facts->algorithm >= int64_t(list.size()))
      return errorf("{}: {}: algorithm {} of {} that cuBLASLt {} has: it was chosen on another machine; choose again",
                    device->name, made->name, facts->algorithm, list.size(), made->library->api.cublasLtGetVersion());
    made->algorithm = list[facts->algorithm];
  }
  *gemm = made.release();
  return Status::ok();
}

void dropGemm(mgc_gemm *gemm) { delete gemm; }

Status runGemm(mgc_stream *stream, mgc_gemm *gemm, const mgc_gemm_operands *operands) {
  MGC_TRY(stream->device->enter());
  const mgc_gemm_facts &facts = gemm->facts;
  if (!isEmpty(facts))
    return enqueue(*stream, *gemm, gemm->algorithm, *operands);
  const int64_t bytes = facts.m * facts.n * bytesOf(facts.output);
  return facts.accumulate || bytes == 0 ? Status::ok() : fill(stream, operands->c, 0, bytes);
}

} // namespace mgc::cuda
