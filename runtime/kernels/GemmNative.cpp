// See GemmNative.h.
#include "runtime/kernels/GemmNative.h"

#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <new>
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

// The matrix products that are kept; each has a tenth of a MiB of code.
constexpr size_t kMostProducts = 512;

const dnnl::engine &cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN's matrix product of one kind. The primitive itself is constant, so ranks that are threads share it; what its
// calls write besides C is the scratchpad, which each call brings along. In oneDNN's own mode (library) all calls of a
// primitive would write one buffer: Debian builds oneDNN without DNNL_ENABLE_CONCURRENT_EXEC.
struct NativeProduct {
  dnnl::matmul primitive;
  memory::desc scratchpad; // empty where none is needed
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
  const dnnl::matmul::primitive_desc description({layouts.a, layouts.b, layouts.c}, attributesOf(gemm), cpu());
#endif
  return {dnnl::matmul(description), description.scratchpad_desc()};
}

// The calling thread's, of at least so many bytes. It grows with the largest matrix product and stays.
void *scratchOfThread(size_t bytes) {
  struct alignas(plan::kAlignment) Line {
    std::byte bytes[plan::kAlignment];
  };
  static thread_local std::vector<Line> lines;
  if (lines.size() * sizeof(Line) < bytes)
    lines.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
  return lines.data();
}

// The matrix products made so far; the one that was not used for the longest time goes where there are too many. The
// library's own cache in this process, which would keep a thousand besides, is off.
class NativeProducts {
public:
  NativeProducts() { dnnl::set_primitive_cache_capacity(0); }
  // Nothing where oneDNN has none. Primitives are made for a number of threads.
  std::optional<NativeProduct> find(const plan::Gemm &gemm, int threads) {
    const Key key(gemm.m, gemm.n, gemm.k, gemm.transposeA, gemm.transposeB, gemm.accumulate, gemm.inputType,
                  gemm.outputType, threads);
    const std::lock_guard lock(mutex_);
    auto found = known_.find(key);
    if (found == known_.end()) {
      std::optional<NativeProduct> made = make(gemm);
      if (known_.size() >= kMostProducts)
        known_.erase(std::ranges::min_element(known_, {}, [](const auto &entry) { return entry.second.lastUse; }));
      found = known_.emplace(key, Entry{std::move(made)}).first;
    }
    found->second.lastUse = ++uses_;
    return found->second.product;
  }

private:
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, plan::DType, plan::DType, int>;
  struct Entry {
    std::optional<NativeProduct> product;
    uint64_t lastUse = 0;
  };

  static std::optional<NativeProduct> make(const plan::Gemm &gemm) {
    try {
      return makeProduct(gemm);
    } catch (const dnnl::error &error) {
      if (error.status == dnnl_out_of_memory)
        throw std::bad_alloc();
      return std::nullopt;
    }
  }

  std::mutex mutex_;
  std::map<Key, Entry> known_;
  uint64_t uses_ = 0;
};

std::optional<NativeProduct> productFor(const plan::Gemm &gemm, int threads) {
  static NativeProducts products;
  return products.find(gemm, threads);
}

bool hasInstructions(dnnl_cpu_isa_t instructions) {
  return (dnnl_get_effective_cpu_isa() & instructions) == instructions;
}

void execute(const NativeProduct &product, const Layouts &layouts, const void *a, const void *b, void *c) {
  void *scratch = scratchOfThread(product.scratchpad.get_size());
  dnnl::stream stream(cpu());
  product.primitive.execute(stream, {{DNNL_ARG_SRC, memory(layouts.a, cpu(), const_cast<void *>(a))},
                                     {DNNL_ARG_WEIGHTS, memory(layouts.b, cpu(), const_cast<void *>(b))},
                                     {DNNL_ARG_DST, memory(layouts.c, cpu(), c)},
                                     {DNNL_ARG_SCRATCHPAD, memory(product.scratchpad, cpu(), scratch)}});
  stream.wait();
}

// Throws std::bad_alloc: a call of a matrix product that was made can lack nothing but memory for its handles.
bool multiply(const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads) {
  setLibraryThreads(threads);
  const std::optional<NativeProduct> product = productFor(gemm, threads);
  if (!product)
    return false;
  try {
    execute(*product, Layouts(gemm), a, b, c);
  } catch (const dnnl::error &) {
    throw std::bad_alloc();
  }
  return true;
}

} // namespace

bool multipliesBf16() {
  static const bool has = hasInstructions(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

bool hasMatmul() {
  static const bool has = hasInstructions(dnnl_cpu_isa_avx512_core);
  return has;
}

bool nativeGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads) {
  return multiply(gemm, a, b, c, threads);
}

bool matmulGemm(const plan::Gemm &gemm, const float *a, const float *b, float *c, int threads) {
  return multiply(gemm, a, b, c, threads);
}

} // namespace mgc
