#include "test/runtime/exec/device/HostDevices.h"

#include "runtime/base/File.h"
#include "runtime/base/Philox.h"
#include "runtime/plan/Mesh.h"
#include "runtime/plan/Verify.h"

#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>

namespace mgc::test {

PluginControls::PluginControls() {
  void *plugin = dlopen(MGC_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(plugin, nullptr) << dlerror();
  controls_ = reinterpret_cast<HostPluginControls *(*)()>(dlsym(plugin, kControlsSymbol))();
  reset();
}

PluginControls::~PluginControls() { reset(); }

void PluginControls::reset() {
  const HostPluginControls fresh;
  controls_->seed = fresh.seed;
  controls_->totalBytes = fresh.totalBytes;
  controls_->devices = fresh.devices;
  controls_->computeCapability = fresh.computeCapability;
  controls_->faultyKernel.clear();
  controls_->hangingKernel.clear();
  controls_->faultyCall = 0;
  controls_->released = false;
  controls_->launchedGraphs = controls_->allocations = 0;
}

DeviceOptions hostDevice() {
  DeviceOptions options;
  options.plugin = MGC_TEST_PLUGIN;
  options.poison = true;
  return options;
}

plan::Plan forDevice(plan::Plan plan) {
  const std::filesystem::path kernels = MGC_TEST_DEVICE_KERNELS;
  Result<MappedFile> file = MappedFile::open(kernels);
  EXPECT_TRUE(file.isOk());
  plan.target = plan::Target::cuda;
  plan.kernels = {{plan::KernelLevel::sm80, kernels.filename(), hashName(file->text())}};
  return plan;
}

Result<std::unique_ptr<Engine>> tryDeviceEngine(const plan::Plan &plan, EngineOptions options,
                                                const DeviceOptions &device) {
  const plan::Plan onDevice = forDevice(plan);
  MGC_TRY(plan::verifyPlan(onDevice));
  const std::string bundle = std::filesystem::path(MGC_TEST_DEVICE_KERNELS).parent_path();
  return mgc::makeDeviceEngine(onDevice, bundle, device, std::move(options));
}

std::unique_ptr<Engine> makeDeviceEngine(const plan::Plan &plan, EngineOptions options, const DeviceOptions &device) {
  Result<std::unique_ptr<Engine>> engine = tryDeviceEngine(plan, std::move(options), device);
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
  return engine.isOk() ? engine.take() : nullptr;
}

void setWeights(const PipelinePlan &pipeline, Engine &engine) {
  for (int64_t rank = 0; rank < static_cast<int64_t>(engine.arenas().size()); ++rank)
    if (engine.arenas()[rank] && plan::stageOf(pipeline.plan.mesh, rank) == 0)
      for (int64_t s = 0; s < pipeline.plan.sequenceLength; ++s)
        inArena<float>(engine, rank, pipeline.valueOffset)[s] = 0.25f * static_cast<float>(s + 1);
  const Status status = engine.upload(Part::weights);
  EXPECT_TRUE(status.isOk()) << status.message();
}

Outcome train(const PipelinePlan &pipeline, Engine &engine, int64_t steps) {
  setWeights(pipeline, engine);
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const OptimizerOptions options;
    Result<StepResult> result = engine.step(step, makeBatch(pipeline.plan, step), stepScalars(options, 0.5, step));
    EXPECT_TRUE(result.isOk()) << result.status().message();
    if (!result.isOk())
      return outcome;
    outcome.losses.push_back(result->loss);
    outcome.norms.push_back(result->gradientNorm);
  }
  for (Part part : {Part::weights, Part::gradients})
    EXPECT_TRUE(engine.download(part).isOk());
  for (int64_t rank = 0; rank < static_cast<int64_t>(engine.arenas().size()); ++rank) {
    if (!engine.arenas()[rank] || plan::stageOf(pipeline.plan.mesh, rank) != 0)
      continue;
    const float *w = inArena<float>(engine, rank, pipeline.valueOffset),
                *gradient = inArena<float>(engine, rank, pipeline.gradientOffset);
    outcome.weights.insert(outcome.weights.end(), w, w + pipeline.plan.sequenceLength);
    outcome.gradients.insert(outcome.gradients.end(), gradient, gradient + pipeline.plan.sequenceLength);
  }
  return outcome;
}

} // namespace mgc::test
