// See GemmNative.h.
#include "runtime/kernels/GemmNative.h"

#include "runtime/kernels/Parallel.h"

#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace mgc {

namespace {

using dnnl::memory;

// How A, B and C lie in memory.
struct Layouts {
  memory::desc a, b, c;
  explicit Layouts(const plan::Gemm &g)
      : a(matrix(g.m, g.k, g.transposeA, g.inputType)), b(matrix(g.k, g.n, g.transposeB, g.inputType)),
        c(matrix(g.m, g.n, false, g.outputType)) {}

private:
  static memory::desc matrix(int64_t rows, int64_t columns, bool isTransposed, plan::DType type) {
    const auto element = type == plan::DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    return {{rows, columns}, element, isTransposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
  }
};

const dnnl::engine &cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN's product of one kind. The primitive itself is constant, so ranks that are threads share it; what its calls write
// besides C is the scratchpad, which each call brings along. In oneDNN's own mode (library) all calls of a primitive would
// write one buffer: Debian builds oneDNN without DNNL_ENABLE_CONCURRENT_EXEC.
struct NativeProduct {
  dnnl::matmul primitive;
  memory::desc scratchpad; // of zero bytes where none is needed
};

dnnl::primitive_attr attributesOf(const plan::Gemm &gemm) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (gemm.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  return attributes;
}

NativeProduct makeProduct(const plan::Gemm &gemm) {
  const Layouts layouts(gemm);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(cpu(), layouts.a, layouts.b, layouts.c, attributesOf(gemm));
#else
  const dnnl::matmul::primitive_desc description({layouts.a, layouts.b, layouts.c}, attributesOf(gemm),
                                                 cpu());
#endif
  return {dnnl::matmul(description), description.scratchpad_desc()};
}

// The calling thread's, of at least so many bytes. It grows with the largest product and stays.
void *scratchOfThread(size_t bytes) {
  struct alignas(plan::kAlignment) Line {
    std::byte bytes[plan::kAlignment];
  };
  static thread_local std::vector<Line> lines;
  if (lines.size() * sizeof(Line) < bytes)
    lines.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
  return lines.data();
}

// Nothing where oneDNN has none. Primitives are made for a number of threads.
std::optional<NativeProduct> productFor(const plan::Gemm &gemm, int threads) {
  static std::mutex mutex;
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, plan::DType, int>;
  static std::map<Key, std::optional<NativeProduct>> known;
  const Key key(gemm.m, gemm.n, gemm.k, gemm.transposeA, gemm.transposeB, gemm.accumulate, gemm.outputType,
                threads);
  const std::lock_guard lock(mutex);
  const auto [entry, isNew] = known.try_emplace(key);
  if (isNew)
    try {
      entry->second = makeProduct(gemm);
    } catch (const dnnl::error &) { // stays nothing
    }
  return entry->second;
}

} // namespace

bool multipliesBf16() {
  static const bool has =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
  return has;
}

bool nativeGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads) {
  setLibraryThreads(threads);
  const std::optional<NativeProduct> product = productFor(gemm, threads);
  if (!product)
    return false;
  const Layouts layouts(gemm);
  void *scratch = scratchOfThread(product->scratchpad.get_size());
  dnnl::stream stream(cpu());
  product->primitive.execute(stream, {{DNNL_ARG_SRC, memory(layouts.a, cpu(), const_cast<Bf16 *>(a))},
                                      {DNNL_ARG_WEIGHTS, memory(layouts.b, cpu(), const_cast<Bf16 *>(b))},
                                      {DNNL_ARG_DST, memory(layouts.c, cpu(), c)},
                                      {DNNL_ARG_SCRATCHPAD, memory(product->scratchpad, cpu(), scratch)}});
  stream.wait();
  return true;
}

} // namespace mgc
