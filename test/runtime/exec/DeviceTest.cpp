// Memory and kernels of the CPU device.
#include "runtime/base/File.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/Engine.h"
#include "runtime/random/Philox.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

namespace mgc::test {
namespace {

uint64_t hashOfKernels() {
  Result<MappedFile> file = MappedFile::open(MGC_TEST_KERNELS);
  EXPECT_TRUE(file.isOk());
  return hashName(file->text());
}

const std::string kBundle = std::filesystem::path(MGC_TEST_KERNELS).parent_path();
const std::string kFile = std::filesystem::path(MGC_TEST_KERNELS).filename();
using plan::KernelLevel;

TEST(Device, memoryIsAlignedAndPoisoned) {
  const std::unique_ptr<Device> device = makeCpuDevice({.poison = true});
  for (int64_t bytes : {0, 1, 64, 1000, 5 << 20}) {
    Result<Allocation> buffer = device->allocate(bytes);
    ASSERT_TRUE(buffer.isOk());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % plan::kAlignment, 0u);
    const auto *floats = reinterpret_cast<const float *>(buffer->data());
    for (int64_t i = 0; i < bytes / 4; i += 100)
      EXPECT_TRUE(std::isnan(floats[i]));
  }
}

TEST(Device, memoryIsZeroUnlessPoisoned) {
  EXPECT_FALSE(makeCpuDevice({.poison = true})->givesZeros());
  const std::unique_ptr<Device> device = makeCpuDevice();
  ASSERT_TRUE(device->givesZeros());
  for (int round = 0; round < 2; ++round) // memory that was used and given back too
    for (int64_t bytes : {1000, 5 << 20}) {
      Result<Allocation> buffer = device->allocate(bytes);
      ASSERT_TRUE(buffer.isOk());
      for (int64_t i = 0; i < bytes; ++i)
        ASSERT_EQ(buffer->data()[i], std::byte(0)) << i;
      std::memset(buffer->data(), 1, bytes);
    }
}

TEST(Device, tooMuchMemoryIsAnError) {
  const std::unique_ptr<Device> device = makeCpuDevice();
  EXPECT_FALSE(device->allocate(-1).isOk());
  if (MGC_TEST_SANITIZED)
    return; // its allocator ends the process
  const Result<Allocation> buffer = device->allocate(int64_t(1) << 60);
  ASSERT_FALSE(buffer.isOk());
  EXPECT_NE(buffer.status().message().find("1152921504606846976 bytes"), std::string::npos);
}

TEST(Device, kernelsAreFoundByName) {
  const std::unique_ptr<Device> device = makeCpuDevice();
  Result<std::unique_ptr<KernelLibrary>> library =
      device->loadKernels(kBundle, {{KernelLevel::v3, kFile, hashOfKernels()}});
  ASSERT_TRUE(library.isOk()) << library.status().message();
  Result<RowFunction> show = (*library)->find("showScalars");
  ASSERT_TRUE(show.isOk());
  int32_t out[3] = {};
  void *operands[] = {out};
  const int64_t scalars[] = {3, 5, 8};
  (*show)(operands, scalars, 0, 1);
  EXPECT_EQ(out[2], 8);
  const std::optional<KernelNeeds> needs = (*library)->needsOf("showScalars");
  ASSERT_TRUE(needs);
  EXPECT_EQ(needs->range, 1);
  EXPECT_EQ(needs->scalars, 1);
  EXPECT_EQ(needs->operands, (std::vector<plan::RowKernel::Operand>{{plan::OperandUse::written, 64}}));
  EXPECT_FALSE((*library)->needsOf("norm"));
  const Result<RowFunction> missing = (*library)->find("nowhere");
  ASSERT_FALSE(missing.isOk());
  EXPECT_NE(missing.status().message().find("no kernel 'nowhere'"), std::string::npos);
}

TEST(Device, otherBytesThanThePlanWasWrittenForAreRefused) {
  const std::unique_ptr<Device> device = makeCpuDevice();
  const uint64_t hash = hashOfKernels();
  const auto library = device->loadKernels(kBundle, {{KernelLevel::v3, kFile, hash + 1}});
  ASSERT_FALSE(library.isOk());
  EXPECT_NE(library.status().message().find(
                fmt::format("hash to {:016x}, the plan was written for {:016x}", hash, hash + 1)),
            std::string::npos);
}

TEST(Device, aFileThatIsNoLibraryIsRefused) {
  const std::unique_ptr<Device> device = makeCpuDevice();
  const TempDir folder;
  const std::string path = folder.path("kernels.so");
  ASSERT_TRUE(writeFileAtomically(path, "not an object file").isOk());
  const auto library =
      device->loadKernels(folder.path(""), {{KernelLevel::v3, "kernels.so", hashName("not an object file")}});
  ASSERT_FALSE(library.isOk());
  EXPECT_NE(library.status().message().find("kernels.so: cannot be loaded"), std::string::npos)
      << library.status().message();
  EXPECT_FALSE(device->loadKernels(folder.path(""), {{KernelLevel::v3, "absent.so", 0}}).isOk());
}

// A file that is not chosen is not opened: the other file does not exist.
TEST(Device, theHighestLevelOfTheCpuIsChosen) {
  const plan::KernelFile there = {KernelLevel::v3, kFile, hashOfKernels()},
                         absent = {KernelLevel::v4, "absent.so", 0};
  for (const auto &files : {std::vector{there, absent}, std::vector{absent, there}}) {
    EXPECT_TRUE(makeCpuDevice({.level = KernelLevel::v3})->loadKernels(kBundle, files).isOk());
    const auto library = makeCpuDevice({.level = KernelLevel::v4})->loadKernels(kBundle, files);
    ASSERT_FALSE(library.isOk());
    EXPECT_NE(library.status().message().find("absent.so"), std::string::npos);
  }
  EXPECT_TRUE(makeCpuDevice({.level = KernelLevel::v4})->loadKernels(kBundle, {there}).isOk());
}

TEST(Device, aCpuThatLacksWhatTheKernelsNeedIsRefused) {
  const plan::KernelFile v3 = {KernelLevel::v3, kFile, hashOfKernels()},
                         v4 = {KernelLevel::v4, kFile, v3.hash};
  auto message = [&](std::optional<KernelLevel> level, const std::vector<plan::KernelFile> &files) {
    return makeCpuDevice({.level = level})->loadKernels(kBundle, files).status().message();
  };
  EXPECT_EQ(
      message(KernelLevel::v3, {v4}),
      "the plan's kernels need a CPU with x86-64-v4 (AVX-512), this one has x86-64-v3 (AVX2, FMA); compile "
      "the plan without --target-cpu, or for this CPU with --target-cpu native");
  EXPECT_EQ(message(std::nullopt, {v4, v3}),
            "the plan's kernels need a CPU with x86-64-v3 (AVX2, FMA), this one has less; no kernels can be "
            "compiled for it: run the plan on another machine");
}

TEST(Device, aPlanForGpusIsRefused) {
  plan::Plan plan;
  const std::unique_ptr<Device> device = makeCpuDevice();
  EXPECT_TRUE(device->accepts(plan).isOk());
  plan.target = plan::Target::cuda;
  plan.kernels = {{KernelLevel::sm90, "kernels/sm_90.ptx", 1}};
  EXPECT_EQ(
      device->accepts(plan).message(),
      "the plan is compiled for cuda:sm_90; this is the CPU: compile it with --target cpu, or run it on a "
      "device that it is for");
  EXPECT_EQ(Engine::create(plan, kBundle, *device, {}).status().message(), device->accepts(plan).message());
}

TEST(Device, aPlanWithAnUnknownKernelIsRefusedAtLoad) {
  plan::Plan plan = makePipelinePlan(1).plan;
  std::get<plan::RowKernel>(plan.programs[1].instructions[0].body).symbol = "absent";
  const std::unique_ptr<Device> device = makeCpuDevice();
  const std::string kernels = MGC_TEST_KERNELS;
  const auto engine = Engine::create(plan, kernels.substr(0, kernels.rfind('/')), *device);
  ASSERT_FALSE(engine.isOk());
  EXPECT_EQ(engine.status().message().find("rank 0: chunk forward.0: forward/0: "), 0u)
      << engine.status().message();
}

} // namespace
} // namespace mgc::test
