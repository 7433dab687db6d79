// Row kernels: loading, finding, arrays, launches.
#include "CudaTest.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

class Modules : public CudaTest {
protected:
  plugin::Module module = testModule();
};

TEST_F(Modules, kernelTakesOperandsThenScalars) {
  std::vector<int32_t> values(1024);
  std::iota(values.begin(), values.end(), 0);
  const auto from = uploaded(values), to = uploaded(std::vector<int32_t>(1024, -1));
  const auto add = must(module.find("add"));
  const mgc_address operands[] = {to.address(), from.address()};
  ASSERT_EQ(errorOf(stream.launch(add, operands, {{int64_t(70'000)}})), "");
  const auto seen = download<int32_t>(to.address(), 1024);
  for (int i = 0; i < 1024; ++i)
    ASSERT_EQ(seen[i], i < 1000 ? i + 70'000 : -1) << i;
}

TEST_F(Modules, kernelHasTheSharedMemoryThatItAsksFor) {
  std::vector<int32_t> values(256);
  std::iota(values.begin(), values.end(), 0);
  const auto from = uploaded(values), to = uploaded(std::vector<int32_t>(256));
  auto reverse = must(module.find("reverse"));
  for (const int64_t bytes :
       {int64_t(1024), int64_t(96) << 10}) { // the second is more than a kernel has without asking
    reverse.sharedBytes = bytes;
    const mgc_address operands[] = {to.address(), from.address()};
    ASSERT_EQ(errorOf(stream.launch(reverse, operands, {})), "");
    const auto seen = download<int32_t>(to.address(), 256);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), seen.rbegin()));
  }
}

TEST_F(Modules, moduleSaysWhatItsKernelsNeed) {
  EXPECT_EQ(must(module.array("add_needs")), (std::vector<int64_t>{1000, 1, 2, 1, 4000, 0, 0, 0, 4000, 0, 0}));
  EXPECT_EQ(must(module.array("reverse_needs")), std::nullopt);
  const auto add = must(module.find("add"));
  EXPECT_EQ(add.blocks, 4);
  EXPECT_EQ(add.threads, 256);
  EXPECT_EQ(add.sharedBytes, 0);
}

TEST_F(Modules, sameKernelTwiceIsOne) { EXPECT_EQ(must(module.find("add")).raw, must(module.find("add")).raw); }

TEST_F(Modules, unknownKernel) {
  EXPECT_NE(errorOf(module.find("subtract")).find("no kernel 'subtract' in the plan's kernels"), std::string::npos);
  EXPECT_NE(errorOf(module.find("no_launch")).find("expected an array no_launch_launch"), std::string::npos);
}

TEST_F(Modules, textThatIsNoPtxIsRefusedWithTheReason) {
  const std::string error =
      errorOf(device().loadModule("nonsense.ptx", ".version 7.0\n.target sm_80\n.address_size 64\nnonsense\n"));
  EXPECT_NE(error.find("loading the plan's kernels"), std::string::npos) << error;
  EXPECT_NE(error.find("CUDA_ERROR_INVALID_PTX"), std::string::npos) << error;
  EXPECT_EQ(errorOf(device().check()), "");
}

TEST_F(Modules, impossibleLaunchesAreRefused) {
  auto add = must(module.find("add"));
  const mgc_address operands[] = {1, 2};
  add.threads = 2048;
  EXPECT_NE(
      errorOf(stream.launch(add, operands, {{int64_t(1)}})).find("kernel 'add': a launch of 4 blocks of 2048 threads"),
      std::string::npos);
  add.threads = 256;
  add.sharedBytes = int64_t(1) << 30;
  EXPECT_NE(errorOf(stream.launch(add, operands, {{int64_t(1)}})).find("1073741824 bytes of shared memory"),
            std::string::npos);
  add.sharedBytes = 0;
  const std::vector<mgc_address> many(513);
  EXPECT_NE(errorOf(stream.launch(add, many, {})).find("513 arguments"), std::string::npos);
}

TEST_F(Modules, noBlocksAreNoWork) {
  auto add = must(module.find("add"));
  add.blocks = 0;
  const mgc_address operands[] = {1, 2};
  EXPECT_EQ(errorOf(stream.launch(add, operands, {{int64_t(1)}})), "");
  EXPECT_EQ(errorOf(stream.synchronize()), "");
}

} // namespace
