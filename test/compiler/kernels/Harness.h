// Compiles row graphs, loads the shared object, and runs kernels on guarded buffers.
#pragma once

#include "compiler/kernels/Compile.h"
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mgc::rowgen::test {

// The lowest: its kernels run wherever tests do.
inline const CpuTarget kTestTarget{"x86-64-v3", plan::KernelLevel::v3};

using Kernel = void (*)(void *const *, const int64_t *, int64_t, int64_t);

// Elements of f32, i32 or bf16 between guard words; guardsIntact() finds out whether one was overwritten.
class Buffer {
public:
  explicit Buffer(size_t size, float fill = 0);
  Buffer(const std::vector<float> &values);
  Buffer(const std::vector<int32_t> &values);
  Buffer(const std::vector<uint16_t> &values); // bf16
  float *floats() { return words_.data() + kGuard; }
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
  size_t bytes_; // of the elements; what the last word has beyond them is a guard
};

// Kernels of one shared object.
class Library {
public:
  explicit Library(std::vector<NamedGraph> graphs, CompileOptions options = {});
  ~Library();
  bool ok() const { return handle_ != nullptr; }
  const CompiledKernel &info(size_t kernel) const { return kernels_[kernel]; }
  // What the shared object says of the kernel is what the compiler says, and the buffers are as large.
  void expectNeeds(size_t kernel, const std::vector<Buffer *> &buffers, size_t scalars) const;
  // Runs the whole range at once; then again in random parts, in random order, on copies of the buffers:
  // results must be equal to the bit. Then checks the guards. Failures are gtest failures.
  void run(size_t kernel, std::vector<Buffer *> buffers, std::vector<int64_t> scalars = {});
  Kernel symbol(size_t kernel) const;

private:
  std::vector<CompiledKernel> kernels_;
  std::string path_;
  void *handle_ = nullptr;
};

// A library of one graph.
void runOne(const RowGraph &graph, std::vector<Buffer *> buffers, std::vector<int64_t> scalars = {});

// What bf16 is nearest to a number, of two that are equally near the even one; NaN stays NaN. And back.
uint16_t toBf16(float value);
float fromBf16(uint16_t bits);
std::vector<uint16_t> toBf16(const std::vector<float> &values);

std::vector<float> randomFloats(size_t size, unsigned seed, float low = -1, float high = 1);
std::vector<int32_t> randomInts(size_t size, unsigned seed, int32_t low, int32_t high);
// |a - b| <= tolerance * max(1, |b|) for all elements; NaN matches NaN.
void expectClose(Buffer &actual, const std::vector<double> &expected, double tolerance,
                 const std::string &what = "");

} // namespace mgc::rowgen::test
