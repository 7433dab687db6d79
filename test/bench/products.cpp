// Matrix products, timed for test/bench/products.py.
//   mgc_products_bench PLAN    prints the plan's distinct products, one per line, with how often a step calls each:
//                                m n k transposeA transposeB accumulate calls
//   mgc_products_bench         answers lines of m n k transposeA transposeB accumulate threads repeats by the seconds
//                              of mgc's product by rule, by rows and by columns, of oneDNN's sgemm (mgc's path `whole`)
//                              and of its matmul primitive, the best of `repeats`, in turns
//   mgc_products_bench bf16 THREADS REPEATS
//                              prints what some products of bf16 operands take, as parts of what they take in f32: with
//                              C in f32 and in bf16, the best of `repeats`, in turns; of one thread processor time,
//                              which other programs change less
#include "plan/Expand.h"
#include "plan/json/PlanJson.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <dnnl.hpp>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <vector>

using namespace mgc;

namespace {

using Product = std::array<int64_t, 6>;

Product productOf(const plan::Gemm &gemm) {
  return {gemm.m, gemm.n, gemm.k, gemm.transposeA, gemm.transposeB, gemm.accumulate};
}

void countProducts(const plan::Plan &plan, const plan::Chunk &chunk, std::map<Product, int64_t> &calls) {
  for (const plan::Call &call : plan::expandedCalls(chunk)) {
    const plan::Program &program = plan.programs[call.program];
    plan::forEachRun(program.instructions.size(), program.repeats, [&](int64_t index, int64_t) {
      if (const auto *gemm = std::get_if<plan::Gemm>(&program.instructions[index].body))
        calls[productOf(*gemm)] += 1;
    });
  }
}

int list(const char *folder) {
  const Result<plan::Plan> plan = plan::readPlan(folder);
  if (!plan.isOk()) {
    std::cerr << plan.status().message() << '\n';
    return 1;
  }
  std::map<Product, int64_t> calls;
  for (const plan::StagePlan &stage : plan->stages)
    for (const plan::ScheduleStep &step : stage.schedule)
      if (step.kind == plan::ScheduleStep::Kind::run)
        countProducts(*plan, stage.chunks[step.chunk], calls);
  for (const auto &[product, count] : calls) {
    for (int64_t field : product)
      std::cout << field << ' ';
    std::cout << count << '\n';
  }
  return 0;
}

struct Free {
  void operator()(float *data) const { std::free(data); }
};
using Floats = std::unique_ptr<float, Free>;

// On huge pages where the system gives them, as a rank's arena.
Floats floats(int64_t count) {
  constexpr size_t hugePage = size_t(2) << 20;
  const size_t bytes = (count * sizeof(float) + hugePage - 1) / hugePage * hugePage;
  auto *data = static_cast<float *>(std::aligned_alloc(hugePage, bytes));
  madvise(data, bytes, MADV_HUGEPAGE);
  for (int64_t i = 0; i < count; ++i)
    data[i] = static_cast<float>(i % 17 - 8) / 64;
  return Floats(data);
}

// oneDNN's matmul primitive on row-major matrices.
class Matmul {
public:
  Matmul(const plan::Gemm &gemm, float *a, float *b, float *c)
      : stream_(engine_), a_(memory(gemm.m, gemm.k, gemm.transposeA, a)),
        b_(memory(gemm.k, gemm.n, gemm.transposeB, b)), c_(memory(gemm.m, gemm.n, false, c)) {
    dnnl::primitive_attr attributes;
    if (gemm.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    matmul_ = dnnl::matmul({{a_.get_desc(), b_.get_desc(), c_.get_desc()}, attributes, engine_});
  }
  void run() {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

private:
  dnnl::memory memory(int64_t rows, int64_t columns, bool transposed, float *data) {
    const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
    return {{{rows, columns}, dnnl::memory::data_type::f32, strides}, engine_, data};
  }
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_;
  dnnl::matmul matmul_;
};

using Way = std::function<void()>;

double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// The best time of each way in `repeats` rounds of all ways, so that all meet the same disturbances.
std::vector<double> bestSeconds(int repeats, const std::vector<Way> &ways, double (*clock)() = wallSeconds) {
  std::vector<double> best(ways.size(), std::numeric_limits<double>::infinity());
  for (int repeat = 0; repeat <= repeats; ++repeat)
    for (size_t way = 0; way < ways.size(); ++way) {
      const double begin = clock();
      ways[way]();
      if (repeat > 0) // the first warms up
        best[way] = std::min(best[way], clock() - begin);
    }
  return best;
}

void answer(const plan::Gemm &gemm, int threads, int repeats) {
  const Floats a = floats(gemm.m * gemm.k), b = floats(gemm.k * gemm.n), c = floats(gemm.m * gemm.n);
  setLibraryThreads(threads);
  Matmul matmul(gemm, a.get(), b.get(), c.get());
  std::vector<Way> ways;
  for (plan::GemmPath path : {plan::GemmPath::rule, plan::GemmPath::rows, plan::GemmPath::columns}) {
    plan::Gemm product = gemm;
    product.path = path;
    ways.push_back([&, product] { mgc::gemm(product, a.get(), b.get(), c.get(), threads); });
  }
  ways.push_back([&] {
    setLibraryThreads(threads);
    dnnl_sgemm(gemm.transposeA ? 'T' : 'N', gemm.transposeB ? 'T' : 'N', gemm.m, gemm.n, gemm.k, 1.0f, a.get(),
               gemm.transposeA ? gemm.m : gemm.k, b.get(), gemm.transposeB ? gemm.k : gemm.n,
               gemm.accumulate ? 1.0f : 0.0f, c.get(), gemm.n);
  });
  ways.push_back([&] {
    setLibraryThreads(threads);
    matmul.run();
  });
  for (const double seconds : bestSeconds(repeats, ways))
    std::cout << seconds << ' ';
  std::cout << std::endl;
}

void compareTypes(const plan::Gemm &gemm, int threads, int repeats) {
  const Floats a = floats(gemm.m * gemm.k), b = floats(gemm.k * gemm.n), c = floats(gemm.m * gemm.n);
  std::vector<Way> ways;
  using plan::DType;
  for (auto [input, output] :
       {std::pair(DType::f32, DType::f32), {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
    plan::Gemm product = gemm;
    product.inputType = input, product.outputType = output;
    ways.push_back([&, product] { mgc::gemm(product, a.get(), b.get(), c.get(), threads); });
  }
  const std::vector<double> seconds = bestSeconds(repeats, ways, threads == 1 ? processorSeconds : wallSeconds);
  const double gflops = 2e-9 * double(gemm.m) * double(gemm.n) * double(gemm.k);
  std::cout << gemm.sizes() << ": f32 " << gflops / seconds[0] << " GFLOP/s; bf16 to f32 takes "
            << seconds[1] / seconds[0] << " of that, to bf16 " << seconds[2] / seconds[0] << std::endl;
}

void compareTypes(int threads, int repeats) {
  for (int flags = 0; flags < 4; ++flags)
    for (auto [m, n, k] :
         {std::array<int64_t, 3>{1024, 3072, 768}, {1024, 768, 3072}, {1536, 1536, 1536}, {64, 768, 768}})
      compareTypes({.m = m, .n = n, .k = k, .transposeA = (flags & 1) != 0, .transposeB = (flags & 2) != 0}, threads,
                   repeats);
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 4 && std::string_view(argv[1]) == "bf16") {
    compareTypes(std::atoi(argv[2]), std::atoi(argv[3]));
    return 0;
  }
  if (argc > 1)
    return list(argv[1]);
  plan::Gemm gemm;
  int threads, repeats;
  while (std::cin >> gemm.m >> gemm.n >> gemm.k >> gemm.transposeA >> gemm.transposeB >> gemm.accumulate >> threads >>
         repeats)
    answer(gemm, threads, repeats);
}
