// Attention of the plugin on a device.
#include "CudaTest.h"
#include "test/runtime/device/cuda/AttentionOnDevice.h"

using namespace mgc;
using namespace mgc::test;

namespace {

class Upload : public CudaTest {
public:
  void run(DeviceAttention &attention) {
    const auto made = must(device().makeAttention(attention.facts));
    std::vector<plugin::DeviceBuffer> buffers;
    for (const auto &memory : attention.memory)
      buffers.push_back(memory.empty() ? plugin::DeviceBuffer() : uploaded(memory));
    mgc_attention_operands operands = {};
    for (const DeviceAttention::Operand &operand : attention.operands)
      if (const mgc_address begin = buffers[operand.memory].address())
        operands.*operand.field = begin + uint64_t(operand.offset);
    ASSERT_EQ(errorOf(stream.attention(made, operands)), "");
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].address())
        attention.memory[i] = download<std::byte>(buffers[i].address(), int64_t(attention.memory[i].size()));
  }

private:
  void TestBody() override {}
};

void run(DeviceAttention &attention) { Upload().run(attention); }

// The library's, with causal facts: q k^T, probabilities and score gradients are rounded to bf16 on the way, each by 2^-8 at most and
// independently, so that what they add up to is off by about that in the norm; 2^-7 of it is let pass.
void expectNearInNorm(const std::vector<float> &found, const std::vector<double> &expected,
                      const char *what) {
  ASSERT_EQ(found.size(), expected.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < found.size(); ++i)
    error += std::pow(found[i] - expected[i], 2), norm += std::pow(expected[i], 2);
  EXPECT_LE(std::sqrt(error), std::sqrt(norm) / 128) << what;
}

bool hasNoCudnn() {
  const std::string versions = must(device().describe()).versions;
  return versions.find("no cuDNN") != versions.npos || versions.find("built without cuDNN") != versions.npos;
}

void checkLibrary(AttentionProblem problem) {
  if (hasNoCudnn())
    GTEST_SKIP() << "there is no cuDNN";
  problem.a.zigzag = 1;
  AttentionCheck check(std::move(problem), MGC_BF16, run);
  check.forward(), check.backward();
  const std::string choice = must(device().describe()).versions;
  ASSERT_NE(choice.find("attentions by cuDNN"), choice.npos) << choice;
  const AttentionExpected expected = reference(check.problem);
  expectNearInNorm(check.o, expected.o, "o");
  expectNearInNorm(check.lse, expected.lse, "lse");
  expectNearInNorm(check.dq, expected.dq, "dq");
  expectNearInNorm(check.dk, expected.dk, "dk");
  expectNearInNorm(check.dv, expected.dv, "dv");
}

} // namespace

TEST(LibraryAttention, groupedHeads) {
  checkLibrary(AttentionProblem({.s = 130, .t = 130, .b = 2, .g = 3, .r = 2, .d = 64}));
}

TEST(LibraryAttention, oneHead) {
  checkLibrary(AttentionProblem({.s = 67, .t = 67, .b = 2, .g = 1, .r = 1, .d = 40}));
}

TEST(LibraryAttention, window) {
  checkLibrary(AttentionProblem({.s = 100, .t = 100, .b = 1, .g = 2, .r = 2, .d = 16, .window = 30}));
}

TEST(LibraryAttention, inOneBuffer) {
  AttentionProblem problem({.s = 66, .t = 66, .b = 2, .g = 2, .r = 3, .d = 32});
  problem.join();
  checkLibrary(std::move(problem));
}

TEST(LibraryAttention, sameBitsTwice) {
  AttentionProblem problem({.s = 130, .t = 130, .b = 1, .g = 2, .r = 2, .d = 64});
  problem.a.zigzag = 1;
  AttentionCheck one(problem, MGC_BF16, run), two(problem, MGC_BF16, run);
  for (AttentionCheck *check : {&one, &two})
    check->forward(), check->backward();
  EXPECT_EQ(one.o, two.o);
  EXPECT_EQ(one.dq, two.dq);
  EXPECT_EQ(one.dk, two.dk);
  EXPECT_EQ(one.dv, two.dv);
}

TEST(LibraryAttention, theChoiceIsSaid) {
  if (hasNoCudnn())
    GTEST_SKIP() << "there is no cuDNN";
  AttentionProblem problem({.s = 8, .t = 8, .b = 1, .g = 1, .r = 1, .d = 8});
  AttentionCheck(problem, MGC_F32, run).forward();
  const auto facts = must(device().describe());
  EXPECT_NE(std::string(facts.versions).find("own kernels (values are f32"), std::string::npos)
      << facts.versions;
}

#include "test/runtime/device/cuda/AttentionCases.h"
