// Attention on operands of bf16 computes in f32 and rounds what it writes once: to the bit the rounding of what f32
// operands of the same values give. Results of f32 are those themselves.
#include "test/runtime/kernels/AttentionReference.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::test;

namespace {

using Tensor = std::vector<float>;

// The problem in f32, of operands that bf16 has exactly; backward reads the o that bf16 keeps.
struct Bf16Problem {
  AttentionProblem f32;
  Tensor exactO; // before it is rounded
  explicit Bf16Problem(const plan::Attention &attention) : f32(attention) {
    if (attention.hasBias())
      f32.addBias(attention.biasBuckets, attention.biasMaxDistance);
    for (Tensor *operand : {&f32.q, &f32.k, &f32.v, &f32.outputGradient, &f32.sinks, &f32.bias})
      *operand = widened(narrowed(*operand));
  }

  void runF32() {
    f32.o.assign(f32.outputGradient.size(), 0), f32.lse.assign(f32.a.s * f32.a.b * f32.a.g * f32.a.r, 0);
    f32.dq.assign(f32.q.size(), 0), f32.dk.assign(f32.k.size(), 0), f32.dv.assign(f32.v.size(), 0);
    f32.dbias.assign(f32.bias.size(), 0);
    f32.pass(false, 1);
    exactO = f32.o;
    f32.o = widened(narrowed(f32.o));
    f32.pass(true, 1);
  }
};

template <typename T> struct AttentionResults {
  std::vector<T> o, dq, dk, dv;
  Tensor lse, dbias;
};

template <typename T> T unset() {
  if constexpr (std::is_same_v<T, float>)
    return std::numeric_limits<float>::quiet_NaN();
  else
    return toBf16(std::numeric_limits<float>::quiet_NaN());
}

std::vector<Bf16> kept(const Tensor &o) { return narrowed(o); }
std::vector<Bf16> kept(const std::vector<Bf16> &o) { return o; }

// q, k and v in rows of `padding` more elements than they have, so with strides unless that is 0.
class Bf16Run {
public:
  Bf16Run(const Bf16Problem &problem, int64_t padding) : x_(problem.f32), a_(x_.a) {
    a_.type = plan::DType::bf16;
    const auto stride = [&](int64_t row) { return padding == 0 ? 0 : row + padding; };
    a_.qStride = a_.dqStride = stride(a_.r * a_.d);
    a_.kStride = a_.dkStride = stride(a_.d), a_.vStride = a_.dvStride = stride(a_.valueSize());
    query_ = a_.r * a_.d, key_ = a_.d, value_ = a_.valueSize(), padding_ = padding;
  }

  // Results of T.
  template <typename T> AttentionResults<T> run(int threads) {
    a_.resultsInF32 = std::is_same_v<T, float>;
    std::vector<Bf16> q = spread(narrowed(x_.q), query_), k = spread(narrowed(x_.k), key_),
                      v = spread(narrowed(x_.v), value_), outputGradient = narrowed(x_.outputGradient),
                      sinks = narrowed(x_.sinks), bias = narrowed(x_.bias);
    std::vector<T> made(x_.outputGradient.size(), unset<T>()), dq(q.size(), unset<T>()), dk(k.size(), unset<T>()),
        dv(v.size(), unset<T>());
    std::vector<Bf16> o;
    Tensor lse(a_.s * a_.b * a_.g * a_.r), dbias(bias.size(), unset<float>());
    for (bool backward : {false, true}) {
      a_.backward = backward;
      o = kept(made);
      Tensor workspace((attentionWorkspaceBytes(a_) + plan::kAlignment) / 4, std::numeric_limits<float>::quiet_NaN());
      auto *aligned = reinterpret_cast<char *>(workspace.data());
      aligned += -reinterpret_cast<uintptr_t>(aligned) % plan::kAlignment;
      attention(a_,
                {q.data(), k.data(), v.data(), x_.queryPositions.data(), x_.keyPositions.data(), x_.starts.data(),
                 x_.ends.data(), x_.samples.data(), sinks.data(), bias.data(),
                 backward ? static_cast<void *>(o.data()) : made.data(), lse.data(), outputGradient.data(), dq.data(),
                 dk.data(), dv.data(), dbias.data(), aligned},
                threads, *x_.kernels);
    }
    return {made, gathered(dq, query_), gathered(dk, key_), gathered(dv, value_), lse, dbias};
  }

private:
  std::vector<Bf16> spread(const std::vector<Bf16> &dense, int64_t row) const {
    std::vector<Bf16> rows(dense.size() / row * (row + padding_));
    for (size_t i = 0; i < dense.size(); ++i)
      rows[i / row * (row + padding_) + i % row] = dense[i];
    return rows;
  }
  template <typename T> std::vector<T> gathered(const std::vector<T> &rows, int64_t row) const {
    std::vector<T> dense(rows.size() / (row + padding_) * row);
    for (size_t i = 0; i < dense.size(); ++i)
      dense[i] = rows[i / row * (row + padding_) + i % row];
    return dense;
  }

  const AttentionProblem &x_;
  plan::Attention a_;
  int64_t query_, key_, value_, padding_;
};

// Gradients as they are in the type of the results.
template <typename T>
void expectResults(const AttentionResults<T> &found, const std::vector<T> &o, const AttentionProblem &expected,
                   const auto &inType) {
  EXPECT_EQ(found.o, o);
  EXPECT_EQ(found.lse, expected.lse);
  EXPECT_EQ(found.dq, inType(expected.dq));
  EXPECT_EQ(found.dk, inType(expected.dk));
  EXPECT_EQ(found.dv, inType(expected.dv));
}

void check(const plan::Attention &attention, const AttentionKernels *kernels = attentionKernels().front()) {
  Bf16Problem problem(attention);
  problem.f32.kernels = kernels;
  problem.runF32();
  for (int64_t padding : {0, 5})
    for (int threads : {1, 4}) {
      SCOPED_TRACE(fmt::format("padding {}, {} threads", padding, threads));
      const auto found = Bf16Run(problem, padding).run<Bf16>(threads);
      const auto wide = Bf16Run(problem, padding).run<float>(threads);
      expectResults(found, narrowed(problem.f32.o), problem.f32, narrowed);
      expectResults(wide, problem.exactO, problem.f32, [](const Tensor &values) { return values; });
      EXPECT_EQ(found.dbias, problem.f32.dbias);
    }
}

} // namespace

TEST(AttentionBf16, isTheRoundingOfF32) {
  check({.s = 1, .t = 1, .b = 1, .g = 1, .r = 1, .d = 8});
  check({.s = 300, .t = 300, .b = 2, .g = 2, .r = 2, .d = 16});
  check({.s = 130, .t = 200, .b = 1, .g = 3, .r = 4, .d = 33, .window = 70});
  check({.s = 5, .t = 129, .b = 2, .g = 1, .r = 1, .d = 64});
  check({.s = 130, .t = 130, .b = 2, .g = 2, .r = 1, .d = 24, .w = 16});
  check({.s = 60, .t = 70, .b = 1, .g = 1, .r = 2, .d = 16, .w = 33});
}

TEST(AttentionBf16, withSinks) {
  check({.s = 130, .t = 130, .b = 2, .g = 2, .r = 2, .d = 16, .window = 50, .sinks = true});
  check({.s = 130, .t = 130, .b = 2, .g = 2, .r = 2, .d = 16, .biasBuckets = 32, .biasMaxDistance = 90});
}

TEST(AttentionBf16, withDropout) {
  check({.s = 140, .t = 140, .b = 2, .g = 2, .r = 2, .d = 16, .dropout = 0.3, .site = 5, .groupStride = 2});
}

TEST(AttentionBf16, onEveryGenerationOfProcessors) {
  for (const AttentionKernels *kernels : attentionKernels())
    check({.s = 150, .t = 150, .b = 1, .g = 2, .r = 3, .d = 24}, kernels);
}

// Keys that a later query would see have a gradient of 0, not what lay there.
TEST(AttentionBf16, keysThatNobodySees) {
  Bf16Problem problem({.s = 300, .t = 300, .b = 1, .g = 1, .r = 1, .d = 8});
  std::fill(problem.f32.queryPositions.begin(), problem.f32.queryPositions.end(), 10);
  const auto found = Bf16Run(problem, 0).run<Bf16>(2);
  for (size_t i = 11 * 8; i < found.dk.size(); ++i) {
    ASSERT_EQ(found.dk[i], Bf16(0)) << i;
    ASSERT_EQ(found.dv[i], Bf16(0)) << i;
  }
}

TEST(AttentionBf16, workspaceHasTheSumsOfTheKeys) {
  const plan::Attention forward = {.s = 64, .t = 64, .b = 2, .g = 3, .r = 1, .d = 16};
  plan::Attention backward = forward, f32 = forward;
  backward.backward = f32.backward = true;
  backward.type = plan::DType::bf16;
  const int64_t lanes = 6, sums = 8 * 64 * 2 * 3 * 16, converted = lanes * 64 * 16 * 4;
  EXPECT_EQ(attentionWorkspaceBytes(backward), attentionWorkspaceBytes(f32) + sums + converted);
  backward.resultsInF32 = true;
  EXPECT_EQ(attentionWorkspaceBytes(backward), attentionWorkspaceBytes(f32) + converted);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  plan::Attention huge = {.backward = true, .s = most, .t = most, .b = most, .g = most, .r = most, .d = most};
  huge.type = plan::DType::bf16;
  EXPECT_EQ(attentionWorkspaceBytes(huge), most);
}
