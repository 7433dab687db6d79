// Compiles row graphs, loads them, and runs kernels on guarded buffers.
#pragma once

#include "codegen/rows/Compile.h"
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mgc::rowgen::test {

// The lowest: its kernels run wherever tests do.
inline const CpuTarget kTestTarget{"x86-64-v3", plan::KernelLevel::v3};

// Error bounds that Math.h promises on the target that the tests run on.
struct MathErrors {
  double expUlp, sigmoid;
};
extern const MathErrors kMathErrors;

// Elements of f32, i32 or bf16 between guard words; guardsIntact() finds out whether one was overwritten.
class Buffer {
public:
  explicit Buffer(size_t size, float fill = 0);
  Buffer(const std::vector<float> &values);
  Buffer(const std::vector<int32_t> &values);
  Buffer(const std::vector<uint16_t> &values); // bf16
  float *floats() { return words_.data() + kGuard; }
  const float *data() const { return words_.data() + kGuard; }
  int32_t *ints() { return reinterpret_cast<int32_t *>(floats()); }
  float &operator[](size_t i) { return floats()[i]; }
  uint16_t *halves() { return reinterpret_cast<uint16_t *>(floats()); }
  size_t size() const { return words_.size() - 2 * kGuard; } // words
  size_t bytes() const { return bytes_; }
  bool guardsIntact() const;
  bool sameBits(const Buffer &other) const;

private:
  static constexpr size_t kGuard = 24;
  std::vector<float> words_;
  size_t bytes_; // size of the elements; the rest of the last word is a guard
};

// Kernels, compiled and loaded for what the tests run on: this CPU (HarnessCpu.cpp) or an interpreter of PTX
// (HarnessGpu.cpp).
class Library {
public:
  explicit Library(std::vector<NamedGraph> graphs, CompileOptions options = {});
  ~Library();
  bool ok() const { return loaded_ != nullptr; }
  const std::string &symbol(size_t kernel) const { return symbols_[kernel]; }
  // Runs the kernel twice, the second time on copies of the buffers: on a CPU in random parts in random order, on a GPU on
  // buffers that begin elsewhere. Results must be equal to the bit, and guards whole. Failures are gtest failures.
  void run(size_t kernel, std::vector<Buffer *> buffers, std::vector<int64_t> scalars = {});

private:
  // The file states the same needs of the kernel as the compiler, and the buffers are as large.
  void expectNeeds(size_t kernel, const int64_t *needs, const std::vector<Buffer *> &buffers, size_t scalars) const;
  std::vector<KernelInfo> infos_; // by graph
  std::vector<std::string> symbols_;
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

// A library of one graph.
void runOne(const RowGraph &graph, std::vector<Buffer *> buffers, std::vector<int64_t> scalars = {});

// The bf16 that is nearest to a number, of two that are equally near the even one; NaN stays NaN. And back.
uint16_t toBf16(float value);
float fromBf16(uint16_t bits);
std::vector<uint16_t> toBf16(const std::vector<float> &values);

std::vector<float> randomFloats(size_t size, unsigned seed, float low = -1, float high = 1);
std::vector<int32_t> randomInts(size_t size, unsigned seed, int32_t low, int32_t high);
// |a - b| <= tolerance * max(1, |b|) for all elements; NaN matches NaN.
void expectClose(Buffer &actual, const std::vector<double> &expected, double tolerance, const std::string &what = "");

} // namespace mgc::rowgen::test
