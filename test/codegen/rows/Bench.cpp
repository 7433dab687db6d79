// Row kernels of a transformer of width 1024: time to compile them, and bytes per second against memcpy.
//   bench_rowgen [cpu]
#include "codegen/rows/Compile.h"
#include "codegen/rows/graph/RowOps.h"
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

using namespace mgc;
using namespace mgc::rowgen;

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Space {
  RowGraph g;
  Dim rows, columns;
  Space(int64_t n, int64_t h) : rows(g.addDim(DimKind::row, n)), columns(g.addDim(DimKind::column, h)) {}
  Node in(std::vector<Dim> dims) { return g.load(g.addOperand(Element::f32, Access::in, std::move(dims))); }
  Node in() { return in({rows, columns}); }
  void out(Node node) { g.store(g.addOperand(Element::f32, Access::out, {rows, columns}), node); }
};

static RowGraph residual(int64_t n, int64_t h) {
  Space s(n, h);
  s.out(add(s.g, s.in(), s.in()));
  return s.g;
}
static RowGraph gelu(int64_t n, int64_t h) {
  Space s(n, h);
  Node x = add(s.g, s.in(), s.in({s.columns}));
  Node cubic = mul(s.g, x, shift(s.g, scale(s.g, mul(s.g, x, x), 0.044715), 1));
  s.out(mul(s.g, x, sigmoid(s.g, scale(s.g, cubic, 1.5957691216))));
  return s.g;
}
static RowGraph swiglu(int64_t n, int64_t h) {
  Space s(n, h);
  Node gate = s.in();
  s.out(mul(s.g, mul(s.g, gate, sigmoid(s.g, gate)), s.in()));
  return s.g;
}
static RowGraph layerNorm(int64_t n, int64_t h) {
  Space s(n, h);
  Node x = add(s.g, s.in(), s.in());
  Node mean = scale(s.g, s.g.reduce(RowReduction::sum, x), 1.0 / h);
  Node centered = sub(s.g, x, mean);
  Node rstd =
      rsqrt(s.g, shift(s.g, scale(s.g, s.g.reduce(RowReduction::sum, mul(s.g, centered, centered)), 1.0 / h), 1e-5));
  s.out(add(s.g, mul(s.g, mul(s.g, centered, rstd), s.in({s.columns})), s.in({s.columns})));
  s.out(x);
  return s.g;
}
static RowGraph rmsNormBackward(int64_t n, int64_t h) {
  Space s(n, h);
  Node x = s.in(), dy = mul(s.g, s.in(), s.in({s.columns})), rstd = s.in({s.rows});
  Node dot = scale(s.g, s.g.reduce(RowReduction::sum, mul(s.g, x, dy)), 1.0 / h);
  s.out(mul(s.g, rstd, sub(s.g, dy, mul(s.g, x, mul(s.g, dot, mul(s.g, rstd, rstd))))));
  return s.g;
}
static RowGraph softmax(int64_t n, int64_t h) {
  Space s(n, h);
  Node x = s.in();
  Node power = exp(s.g, sub(s.g, x, s.g.reduce(RowReduction::max, x)));
  s.out(div(s.g, power, s.g.reduce(RowReduction::sum, power)));
  return s.g;
}
static RowGraph weightGradient(int64_t n, int64_t h) {
  Space s(n, h);
  Node dy = s.in(), product = mul(s.g, mul(s.g, dy, s.in()), s.in({s.rows}));
  s.g.storeSumOverRows(s.g.addOperand(Element::f32, Access::accumulate, {s.columns}), product);
  s.g.storeSumOverRows(s.g.addOperand(Element::f32, Access::accumulate, {s.columns}), dy);
  return s.g;
}
static RowGraph rotary(int64_t n, int64_t h) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, n), N = g.addDim(DimKind::row, h / 64), half = g.addDim(DimKind::indexed, 2),
      K = g.addDim(DimKind::column, 32);
  RowOperand x = g.addOperand(Element::f32, Access::in, {R, N, half, K});
  Node angle =
      mul(g, g.load(g.addOperand(Element::f32, Access::in, {R})), g.load(g.addOperand(Element::f32, Access::in, {K})));
  Node c = cos(g, angle), s = sin(g, angle), a = g.load(x, {{half, 0}}), b = g.load(x, {{half, 1}});
  RowOperand y = g.addOperand(Element::f32, Access::out, {R, N, half, K});
  g.store(y, sub(g, mul(g, a, c), mul(g, b, s)), {{half, 0}});
  g.store(y, add(g, mul(g, b, c), mul(g, a, s)), {{half, 1}});
  return g;
}

int main(int argc, char **argv) {
  using Make = RowGraph (*)(int64_t, int64_t);
  const std::pair<const char *, Make> kinds[] = {{"residual", residual},
                                                 {"gelu", gelu},
                                                 {"swiglu", swiglu},
                                                 {"layerNorm", layerNorm},
                                                 {"softmax", softmax},
                                                 {"rotary", rotary},
                                                 {"rmsBackward", rmsNormBackward},
                                                 {"weightGradient", weightGradient}};
  const int64_t rows = 2048, width = 1024;
  std::vector<NamedGraph> graphs;
  for (int size = 0; size < 5; ++size)
    for (auto [name, make] : kinds)
      graphs.push_back({fmt::format("{}_{}", name, size), make(rows, width + 64 * size)});
  std::string path = fmt::format("bench-rowgen-{}.so", getpid());
  auto target = CpuTarget::find(argc > 1 ? argv[1] : "native");
  double start = seconds();
  auto result =
      target.isOk() ? compileKernels(graphs, {{*target, path}}) : Result<std::vector<std::string>>(target.status());
  if (!result.isOk()) {
    std::fprintf(stderr, "%s\n", result.status().message().c_str());
    return 1;
  }
  std::printf("%zu kernels compiled in %.0f ms\n", graphs.size(), (seconds() - start) * 1e3);
  void *handle = dlopen(("./" + path).c_str(), RTLD_NOW);
  unlink(path.c_str());
  size_t floats = size_t(rows) * (width + 256);
  std::vector<std::vector<float>> buffers(8, std::vector<float>(floats, 0.5f));
  std::vector<void *> operands;
  for (auto &buffer : buffers)
    operands.push_back(buffer.data());
  auto report = [&](const char *name, double bytes, auto &&run) {
    run();
    double best = 1e9;
    for (int repeat = 0; repeat < 7; ++repeat) {
      double begin = seconds();
      run();
      best = std::min(best, seconds() - begin);
    }
    std::printf("%-16s %6.1f GB/s  %7.3f ms\n", name, bytes / best * 1e-9, best * 1e3);
  };
  size_t bytes = size_t(rows) * width * 4;
  report("memcpy", 2.0 * bytes, [&] { std::memcpy(buffers[0].data(), buffers[1].data(), bytes); });
  for (size_t number = 0; number < std::size(kinds); ++number) {
    auto kernel = reinterpret_cast<void (*)(void *const *, const int64_t *, int64_t, int64_t)>(
        dlsym(handle, (*result)[number].c_str()));
    const KernelInfo info = describeKernel(graphs[number].graph);
    report(kinds[number].first, info.bytes, [&] { kernel(operands.data(), nullptr, 0, info.range); });
  }
}
