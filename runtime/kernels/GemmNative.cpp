// See GemmNative.h.
#include "runtime/kernels/GemmNative.h"

#include "runtime/kernels/Parallel.h"

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

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

dnnl::matmul makePrimitive(const plan::Gemm &gemm) {
  const Layouts layouts(gemm);
  dnnl::primitive_attr attributes;
  if (gemm.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(dnnl::matmul::primitive_desc(cpu(), layouts.a, layouts.b, layouts.c, attributes));
#else
  return dnnl::matmul({{layouts.a, layouts.b, layouts.c}, attributes, cpu()});
#endif
}

// Nothing where oneDNN has none. Primitives are made for a number of threads.
std::optional<dnnl::matmul> primitiveFor(const plan::Gemm &gemm, int threads) {
  static std::mutex mutex;
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, plan::DType, int>;
  static std::map<Key, std::optional<dnnl::matmul>> known;
  const Key key(gemm.m, gemm.n, gemm.k, gemm.transposeA, gemm.transposeB, gemm.accumulate, gemm.outputType,
                threads);
  const std::lock_guard lock(mutex);
  const auto [entry, isNew] = known.try_emplace(key);
  if (isNew)
    try {
      entry->second = makePrimitive(gemm);
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
  const std::optional<dnnl::matmul> product = primitiveFor(gemm, threads);
  if (!product)
    return false;
  const Layouts layouts(gemm);
  dnnl::stream stream(cpu());
  product->execute(stream, {{DNNL_ARG_SRC, memory(layouts.a, cpu(), const_cast<Bf16 *>(a))},
                            {DNNL_ARG_WEIGHTS, memory(layouts.b, cpu(), const_cast<Bf16 *>(b))},
                            {DNNL_ARG_DST, memory(layouts.c, cpu(), c)}});
  stream.wait();
  return true;
}

} // namespace mgc
