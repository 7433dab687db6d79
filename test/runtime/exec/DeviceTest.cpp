// Memory and kernels of the CPU as a device.
#include "runtime/base/File.h"
#include "runtime/device/KernelNeeds.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/RowKernels.h"
#include "runtime/random/Philox.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <cstring>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

using plan::KernelLevel;
using plugin::PluginDevice;

uint64_t hashOfKernels() { return kernelFileOf(KernelLevel::v3, testKernels()).hash; }

const std::string kBundle = std::filesystem::path(testKernels()).parent_path();
const std::string kFile = std::filesystem::path(testKernels()).filename();

// A plan of these files, with a call of each kernel.
plan::Plan planWith(std::vector<plan::KernelFile> files, const std::vector<std::string> &symbols = {}) {
  plan::Plan plan;
  plan.kernels = std::move(files);
  plan::Program &program = plan.programs.emplace_back();
  for (const std::string &symbol : symbols)
    program.instructions.push_back({plan::RowKernel{.symbol = symbol, .range = 1}, {}, symbol});
  return plan;
}

plan::Plan planOfTestKernels(const std::vector<std::string> &symbols = {}) {
  return planWith({{KernelLevel::v3, kFile, hashOfKernels()}}, symbols);
}

// "": none.
std::string loadError(const plan::Plan &plan, const CpuDeviceOptions &options = {},
                      const std::string &bundle = kBundle) {
  const Result<std::unique_ptr<RowKernels>> kernels = RowKernels::load(plan, bundle, openCpuDevice(options));
  return kernels.isOk() ? "" : kernels.status().message();
}

TEST(Device, memoryIsAlignedAndZero) {
  const PluginDevice device = openCpuDevice();
  for (int round = 0; round < 2; ++round) // memory that was used and given back too
    for (int64_t bytes : {0, 1, 64, 1000, 5 << 20}) {
      Result<plugin::DeviceBuffer> buffer = device.allocate(bytes);
      ASSERT_TRUE(buffer.isOk());
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(buffer->address() % plan::kAlignment, 0u);
      auto *data = reinterpret_cast<std::byte *>(buffer->address());
      for (int64_t i = 0; i < bytes; ++i)
        ASSERT_EQ(data[i], std::byte(0)) << i;
      std::memset(data, 1, static_cast<size_t>(bytes));
    }
}

TEST(Device, tooMuchMemoryIsAnError) {
  const PluginDevice device = openCpuDevice();
  EXPECT_FALSE(device.allocate(-1).isOk());
  if (MGC_TEST_SANITIZED)
    return; // its allocator ends the process
  EXPECT_TRUE(fails(device.allocate(int64_t(1) << 60), {"1152921504606846976 bytes"}));
}

TEST(Device, streamsDoTheirWorkAtOnceWithTheThreadsTheyHave) {
  const PluginDevice device = openCpuDevice({.threads = 2});
  for (bool isBeside : {false, true}) {
    Result<plugin::Stream> stream = device.makeStream(isBeside);
    ASSERT_TRUE(stream.isOk());
    std::vector<int32_t> from = {1, 2, 3, 4, 5, 6}, to(8, -1);
    ASSERT_TRUE(stream->copyRows(addressOf(to.data()), 12, addressOf(from.data() + 1), 8, 4, 3).isOk());
    EXPECT_EQ(to, (std::vector<int32_t>{2, -1, -1, 4, -1, -1, 6, -1}));
    ASSERT_TRUE(stream->fill(addressOf(to.data()), 0, 8).isOk());
    ASSERT_TRUE(stream->copy(addressOf(to.data() + 2), addressOf(from.data()), 8).isOk());
    EXPECT_EQ(to, (std::vector<int32_t>{0, 0, 1, 2, -1, -1, 6, -1}));
  }
}

TEST(Device, whatTheCpuDoesNotHaveIsAnError) {
  const PluginDevice device = openCpuDevice();
  Result<plugin::Stream> stream = device.makeStream();
  ASSERT_TRUE(stream.isOk());
  EXPECT_FALSE(stream->beginCapture().isOk());
  EXPECT_FALSE(device.makeCommId().isOk());
  mgc_gemm_facts facts{};
  facts.epilogue = MGC_BIAS;
  EXPECT_FALSE(device.makeGemm(facts).isOk());
}

TEST(Device, kernelsAreFoundByName) {
  const PluginDevice device = openCpuDevice();
  const plan::Plan plan = planOfTestKernels({"showScalars", "norm"});
  const Result<std::unique_ptr<RowKernels>> kernels = RowKernels::load(plan, kBundle, device);
  ASSERT_TRUE(kernels.isOk()) << kernels.status().message();
  int32_t out[3] = {};
  const mgc_address operands[] = {addressOf(out)};
  const int64_t scalars[] = {3, 5, 8};
  const auto &row = std::get<plan::RowKernel>(plan.programs[0].instructions[0].body);
  ASSERT_TRUE(device.makeStream()->launch((*kernels)->kernel(row), operands, scalars).isOk());
  EXPECT_EQ(out[2], 8);
  const std::optional<KernelNeeds> needs = (*kernels)->needsOf("showScalars");
  ASSERT_TRUE(needs);
  EXPECT_EQ(needs->range, 1);
  EXPECT_EQ(needs->scalars, 1);
  EXPECT_EQ(needs->operands, (std::vector<plan::RowKernel::Operand>{{plan::OperandUse::written, 64}}));
  EXPECT_FALSE((*kernels)->needsOf("norm"));
  EXPECT_TRUE(has(loadError(planOfTestKernels({"nowhere"})), {"no kernel 'nowhere'"}));
}

TEST(Device, otherBytesThanThePlanWasWrittenForAreRefused) {
  const uint64_t hash = hashOfKernels();
  EXPECT_TRUE(has(loadError(planWith({{KernelLevel::v3, kFile, hash + 1}})),
                  {fmt::format("hash to {:016x}, the plan was written for {:016x}", hash, hash + 1)}));
}

TEST(Device, aFileThatIsNoLibraryOrCutIsRefused) {
  const TempDir folder;
  Result<MappedFile> whole = MappedFile::open(testKernels());
  ASSERT_TRUE(whole.isOk());
  const std::string half(whole->text().substr(0, whole->text().size() / 2)), text = "not an object file";
  const auto errorOf = [&](const std::string &bytes) {
    folder.write("kernels.so", bytes);
    return loadError(planWith({{KernelLevel::v3, "kernels.so", hashName(bytes)}}), {}, folder.path(""));
  };
  EXPECT_TRUE(has(errorOf(text), {"kernels.so: cannot be loaded"}));
  EXPECT_TRUE(has(errorOf(half), {"was it copied whole?"}));
  EXPECT_NE(loadError(planWith({{KernelLevel::v3, "absent.so", 0}}), {}, folder.path("")), "");
}

// A file that is not chosen is not opened: the other file does not exist.
TEST(Device, theHighestLevelOfTheCpuIsChosen) {
  const plan::KernelFile there = {KernelLevel::v3, kFile, hashOfKernels()}, absent = {KernelLevel::v4, "absent.so", 0};
  for (const auto &files : {std::vector{there, absent}, std::vector{absent, there}}) {
    EXPECT_EQ(loadError(planWith(files), {.level = KernelLevel::v3}), "");
    EXPECT_TRUE(has(loadError(planWith(files), {.level = KernelLevel::v4}), {"absent.so"}));
  }
  EXPECT_EQ(loadError(planWith({there}), {.level = KernelLevel::v4}), "");
}

TEST(Device, aCpuThatLacksWhatTheKernelsNeedIsRefused) {
  const plan::KernelFile v3 = {KernelLevel::v3, kFile, hashOfKernels()}, v4 = {KernelLevel::v4, kFile, v3.hash};
  EXPECT_EQ(loadError(planWith({v4}), {.level = KernelLevel::v3}),
            "the plan's kernels need a CPU with x86-64-v4 (AVX-512), this one has x86-64-v3 (AVX2, FMA); compile "
            "the plan without --target-cpu, or for this CPU with --target-cpu native");
  EXPECT_EQ(loadError(planWith({v4, v3}), {.level = std::nullopt}),
            "the plan's kernels need a CPU with x86-64-v3 (AVX2, FMA), this one has less; no kernels can be "
            "compiled for it: run the plan on another machine");
}

TEST(Device, aPlanWithAnUnknownKernelIsRefusedAtLoad) {
  plan::Plan plan = makePipelinePlan(1).plan;
  std::get<plan::RowKernel>(plan.programs[1].instructions[0].body).symbol = "absent";
  EXPECT_TRUE(fails(Engine::create(plan, kBundle), {kFile + ": no kernel 'absent' in it"}));
  plan.kernels.clear();
  EXPECT_TRUE(fails(Engine::create(plan, kBundle), {"kernel '", "the plan names no file of kernels"}));
}

} // namespace
} // namespace mgc::test
