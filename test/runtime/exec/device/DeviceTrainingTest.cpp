// A whole run on a device, from the bundle to the saved weights, compared with the same on the CPU.
#include "plan/Plan.h"
#include "plan/json/PlanJson.h"
#include "plan/mesh/Mesh.h"
#include "test/runtime/exec/device/HostDevices.h"
#include "test/runtime/train/TrainingRun.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mgc::test {
namespace {

using DeviceTraining = OnDevice;

// The plan of the bundle for a device, next to it.
std::string writeForDevice(const Bundle &bundle) {
  const std::string folder = bundle.path("onDevice");
  const plan::Plan plan = forDevice(bundle.pipeline().plan);
  EXPECT_TRUE(isOk(plan::writePlan(plan, folder)));
  std::filesystem::copy_file(testDeviceKernels(), folder + "/" + plan.kernels[0].path);
  return folder;
}

int64_t bytesOfRanks(const plan::Plan &plan) {
  int64_t bytes = 0;
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
    bytes += plan.stages[plan::stageOf(plan.mesh, rank)].bytes;
  return bytes;
}

TrainingOptions optionsOf(const Bundle &bundle, const std::string &plan, const std::string &outputs) {
  TrainingOptions options = makeOptions(bundle);
  options.plan = plan;
  options.threads = 0;
  options.savesWeightsAlone = false;
  options.save = bundle.path(outputs);
  options.saveGradients = bundle.path(outputs + ".gradients");
  options.log = bundle.path(outputs + ".jsonl");
  return options;
}

std::string errorOf(const TrainingOptions &options) {
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  EXPECT_FALSE(summary.isOk());
  return summary.isOk() ? "" : summary.status().message();
}

TEST_F(DeviceTraining, givesTheFilesThatTheCpuGives) {
  controls->seed = 3;
  const Bundle bundle;
  TrainingOptions onCpu = optionsOf(bundle, bundle.folder(), "cpu"),
                  onDevice = optionsOf(bundle, writeForDevice(bundle), "device");
  onCpu.threads = 1;
  onDevice.devicePlugin = hostDevice().plugin;
  onDevice.profileJson = bundle.path("profile.json");
  onDevice.trace = bundle.path("trace.json");
  Recorder cpu, device;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(onCpu, cpu, interrupt)));
  const Result<TrainingSummary> summary = train(onDevice, device, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_TRUE(isOk(summary->outputs));
  EXPECT_EQ(lossesOf(device), lossesOf(cpu));
  EXPECT_EQ(bundle.read("device/model.safetensors"), bundle.read("cpu/model.safetensors"));
  EXPECT_EQ(bundle.read("device.gradients"), bundle.read("cpu.gradients"));
  EXPECT_EQ(device.where, "sharing device 0, stand-in on the host, with 1024.00 MiB of its memory to spare; none; 0 of "
                          "10 collectives of a step overlap products");
  ASSERT_TRUE(summary->deviceMemory);
  EXPECT_EQ(summary->deviceMemory->ofPlan, bytesOfRanks(bundle.pipeline().plan));
  EXPECT_EQ(summary->deviceMemory->others, 0) << "nothing is allocated but what the plan proves";
  EXPECT_NE(bundle.read("device.jsonl").find("\"host_seconds\":"), std::string::npos);
  EXPECT_EQ(bundle.read("cpu.jsonl").find("\"host_seconds\":"), std::string::npos);
}

// Every instruction that runs is a row, and its time is the device's.
TEST_F(DeviceTraining, isProfiledAndTraced) {
  const Bundle bundle;
  TrainingOptions options = optionsOf(bundle, writeForDevice(bundle), "device");
  options.devicePlugin = hostDevice().plugin;
  options.profileJson = bundle.path("profile.json");
  options.trace = bundle.path("trace.json");
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  const nlohmann::json profile = nlohmann::json::parse(bundle.read("profile.json"));
  EXPECT_EQ(profile["steps"], 3);
  EXPECT_EQ(profile["ranks"], 4);
  EXPECT_GT(profile["gemm_flops_per_second"], 0);
  EXPECT_GT(profile["memory_bytes_per_second"], 0);
  std::map<std::string, double> calls;
  for (const nlohmann::json &row : profile["rows"])
    calls[row["kernel"]] = row["calls"];
  EXPECT_EQ(calls["scaleForward"], 1.5) << "three microbatches, on half of the ranks";
  EXPECT_EQ(calls["descend"], 0.5);
  double parts = 0;
  for (const nlohmann::json &part : profile["parts"])
    parts += part.get<double>();
  EXPECT_NEAR(parts, profile["mean_step_seconds"], 1e-9);
  int64_t spans = 0;
  const nlohmann::json trace = nlohmann::json::parse(bundle.read("trace.json"));
  for (const nlohmann::json &event : trace["traceEvents"])
    spans += event["name"] == "forward/0";
  EXPECT_EQ(spans, 3 * 3 * 2) << "steps, microbatches, ranks";
}

TEST_F(DeviceTraining, flagsThatMeanNothingAreRefused) {
  const Bundle bundle;
  TrainingOptions onDevice = optionsOf(bundle, writeForDevice(bundle), "out");
  onDevice.devicePlugin = hostDevice().plugin;
  onDevice.threads = 2;
  EXPECT_EQ(errorOf(onDevice), "--threads: means nothing for a plan whose target is cuda; leave it out");
  TrainingOptions onCpu = optionsOf(bundle, bundle.folder(), "out");
  onCpu.noGraphs = true;
  EXPECT_EQ(errorOf(onCpu), "--no-graphs: means nothing for a plan whose target is cpu; leave it out");
  onCpu.device = 0;
  EXPECT_EQ(errorOf(onCpu), "--device: means nothing for a plan whose target is cpu; leave it out\n"
                            "--no-graphs: means nothing for a plan whose target is cpu; leave it out");
}

TEST_F(DeviceTraining, aMachineWithoutThePluginSaysSo) {
  if (plugin::Plugin::open("cuda").isOk())
    GTEST_SKIP() << "the plugin is built here: cuda_absent_test is about what is missing then";
  const Bundle bundle;
  const std::string failure = errorOf(optionsOf(bundle, writeForDevice(bundle), "out"));
  EXPECT_EQ(failure.find("the plugin for cuda devices, libmgc_cuda.so, is not at"), 0u) << failure;
}

} // namespace
} // namespace mgc::test
