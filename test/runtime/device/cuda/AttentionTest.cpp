// Attention of the plugin on a device.
#include "CudaTest.h"
#include "test/runtime/device/cuda/AttentionOnDevice.h"

#include <regex>

using namespace mgc;
using namespace mgc::test;

namespace {

class Upload : public CudaTest {
public:
  // `maker`: the same device, perhaps opened with another promise of equal bits.
  void run(DeviceAttention &attention, const plugin::PluginDevice &maker = device()) {
    const auto made = must(maker.makeAttention(attention.facts));
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

// The library's: q k^T, probabilities and score gradients are rounded to bf16, each by 2^-8 at most and
// independently, so that what they add up to is off by about that in the norm; 2^-7 of it is let pass.
void expectNearInNorm(const std::vector<float> &found, const std::vector<double> &expected, const char *what) {
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

// cuDNN's attentions in this process, as the device's description says: "; N attentions by cuDNN".
int64_t callsOfCudnn(const plugin::PluginDevice &of = device()) {
  const std::string versions = must(of.describe()).versions;
  std::smatch found;
  return std::regex_search(versions, found, std::regex("(\\d+) attentions by cuDNN")) ? std::stoll(found[1]) : 0;
}

void checkLibrary(AttentionProblem problem, const plugin::PluginDevice &maker = device(), bool isInOrder = true) {
  if (hasNoCudnn())
    GTEST_SKIP() << "there is no cuDNN";
  if (isInOrder && problem.a.zigzag == 0)
    problem.order(1);
  AttentionCheck check(std::move(problem), MGC_BF16,
                       [&](DeviceAttention &attention) { Upload().run(attention, maker); });
  const int64_t before = callsOfCudnn(maker);
  check.forward(), check.backward();
  EXPECT_EQ(callsOfCudnn(maker), before + 2);
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

TEST(LibraryAttention, oneHead) { checkLibrary(AttentionProblem({.s = 67, .t = 67, .b = 2, .g = 1, .r = 1, .d = 40})); }

TEST(LibraryAttention, window) {
  checkLibrary(AttentionProblem({.s = 100, .t = 100, .b = 1, .g = 2, .r = 2, .d = 16, .window = 30}));
}

TEST(LibraryAttention, softcap) {
  for (const double softcap : {30.0, 1.5})
    checkLibrary(AttentionProblem({.s = 66, .t = 66, .b = 2, .g = 2, .r = 2, .d = 64, .softcap = softcap}));
  AttentionProblem problem({.s = 48, .t = 96, .b = 2, .g = 2, .r = 3, .d = 16, .window = 30, .softcap = 1.5});
  problem.order(4, 1);
  checkLibrary(std::move(problem));
}

// Nothing is hidden, so that any positions will do, and keys and queries that are no parts of one sequence.
TEST(LibraryAttention, bidirectional) {
  AttentionProblem problem({.s = 66, .t = 40, .b = 2, .g = 2, .r = 2, .d = 32, .causal = false});
  for (size_t i = 0; i < problem.keyPositions.size(); ++i)
    problem.keyPositions[i] = int32_t(i * 37 % 80);
  EXPECT_EQ(problem.a.zigzag, 0);
  checkLibrary(problem, device(), false);
  problem.join(8);
  checkLibrary(std::move(problem), device(), false);
}

TEST(LibraryAttention, bidirectionalParts) {
  for (const auto &[parts, zigzag] : {std::pair<int64_t, int64_t>{3, 1}, {4, 4}, {2, 8}, {1, 4}})
    for (const int64_t window : {0, 1, 7, 30, 1000})
      for (int64_t part = 0; part < parts; ++part) {
        AttentionProblem problem({.s = 96 / parts,
                                  .t = 96,
                                  .b = 2,
                                  .g = 2,
                                  .r = 3,
                                  .d = 16,
                                  .window = window,
                                  .causal = false,
                                  .softcap = part ? 2.0 : 0.0});
        problem.order(zigzag, part);
        checkLibrary(std::move(problem));
      }
}

TEST(LibraryAttention, valuesOfAnotherSize) {
  for (const int64_t r : {1, 3})
    checkLibrary(AttentionProblem({.s = 66, .t = 66, .b = 2, .g = 2, .r = r, .d = 24, .w = 16}));
  for (const int64_t part : {0, 1}) {
    AttentionProblem problem({.s = 48, .t = 96, .b = 2, .g = 2, .r = 2, .d = 24, .w = 16});
    problem.order(4, part);
    problem.join(8);
    checkLibrary(std::move(problem));
  }
}

TEST(LibraryAttention, inOneBuffer) {
  AttentionProblem problem({.s = 66, .t = 66, .b = 2, .g = 2, .r = 3, .d = 32});
  problem.join();
  checkLibrary(std::move(problem));
}

// dq is summed up in memory, in which something else lay before.
TEST(LibraryAttention, withoutEqualBits) {
  const plugin::PluginDevice other = must(cuda().openDevice(0, false));
  for (const int64_t part : {0, 1}) {
    AttentionProblem problem({.s = 48, .t = 96, .b = 2, .g = 2, .r = 3, .d = 16});
    problem.order(4, part);
    checkLibrary(std::move(problem), other);
  }
}

// Every part of an order, and with windows of less than a run, more, and all.
void checkParts(int64_t parts, int64_t zigzag, bool isJoined = false) {
  for (const int64_t window : {0, 7, 30, 1000})
    for (int64_t part = 0; part < parts; ++part) {
      AttentionProblem problem({.s = 96 / parts, .t = 96, .b = 2, .g = 2, .r = 3, .d = 16, .window = window});
      problem.order(zigzag, part);
      if (isJoined)
        problem.join(8);
      checkLibrary(std::move(problem));
    }
}

TEST(LibraryAttention, partsOfContiguousPositions) { checkParts(3, 1); }
TEST(LibraryAttention, partsOfZigzag) { checkParts(4, 4); }
TEST(LibraryAttention, partsOfTwoLevels) { checkParts(2, 8); }
TEST(LibraryAttention, theWholeOfZigzag) { checkParts(1, 4, true); }
TEST(LibraryAttention, partsOfZigzagInOneBuffer) { checkParts(2, 4, true); }

TEST(LibraryAttention, sameBitsTwice) {
  AttentionProblem problem({.s = 64, .t = 128, .b = 1, .g = 2, .r = 2, .d = 64});
  problem.order(4, 1);
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
  EXPECT_NE(std::string(facts.versions).find("own kernels (values are f32"), std::string::npos) << facts.versions;
}

#include "test/runtime/device/cuda/AttentionCases.h"
