#include "test/runtime/exec/device/HostDevices.h"
#include "test/Places.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/VerifyPlan.h"
#include "runtime/train/OptimizerSchedule.h"

#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

namespace mgc::test {

PluginControls::PluginControls() {
  void *plugin = dlopen(hostDevice().plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(plugin, nullptr) << dlerror();
  controls_ = reinterpret_cast<HostPluginControls *(*)()>(dlsym(plugin, kControlsSymbol))();
  reset();
}

PluginControls::~PluginControls() { reset(); }

void PluginControls::reset() {
  const HostPluginControls fresh;
  const std::lock_guard lock(controls_->mutex);
  controls_->seed = fresh.seed;
  controls_->totalBytes = fresh.totalBytes;
  controls_->devices = fresh.devices;
  controls_->computeCapability = fresh.computeCapability;
  controls_->faultyKernel.clear();
  controls_->hangingKernel.clear();
  controls_->faultyCall = 0;
  controls_->released = false;
  controls_->algorithms = fresh.algorithms;
  controls_->fastestAlgorithm = fresh.fastestAlgorithm;
  controls_->choosingBytes = fresh.choosingBytes;
  controls_->choices = controls_->otherAlgorithms = 0;
  controls_->launchedGraphs = controls_->allocations = 0;
}

std::string testDeviceKernels() { return builtFile("test/runtime/exec/device/libexec_device_kernels.so"); }

DeviceOptions hostDevice() {
  DeviceOptions options;
  options.plugin = builtFile("test/runtime/device/libhost_plugin.so");
  return options;
}

plan::Plan forDevice(plan::Plan plan) {
  plan.target = plan::Target::cuda;
  plan.kernels = {kernelFileOf(plan::KernelLevel::sm80, testDeviceKernels())};
  return plan;
}

static Result<std::unique_ptr<Engine>> createEngine(const plan::Plan &onDevice, EngineOptions options,
                                                    const DeviceOptions &device) {
  const std::string bundle = std::filesystem::path(testDeviceKernels()).parent_path();
  options.device = device;
  options.poison = true;
  return Engine::create(onDevice, bundle, std::move(options));
}

static std::unique_ptr<Engine> loaded(Result<std::unique_ptr<Engine>> engine) {
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
  return engine.isOk() ? engine.take() : nullptr;
}

Result<std::unique_ptr<Engine>> tryEngineOnDevice(const plan::Plan &plan, EngineOptions options,
                                                  const DeviceOptions &device) {
  const plan::Plan onDevice = forDevice(plan);
  MGC_TRY(plan::verifyPlan(onDevice));
  return createEngine(onDevice, std::move(options), device);
}

std::unique_ptr<Engine> engineOnDevice(const plan::Plan &plan, EngineOptions options, const DeviceOptions &device) {
  return loaded(tryEngineOnDevice(plan, std::move(options), device));
}

std::unique_ptr<Engine> unverifiedEngineOnDevice(const plan::Plan &plan) {
  return loaded(createEngine(forDevice(plan), {}, hostDevice()));
}

plan::Plan onePlan() {
  plan::Plan plan = emptyPlan({}, {.microbatches = 1});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t w = layout.place("activations", 64);
  layout.finish();
  const int64_t forward = addChunk(
      plan, 0, plan::Task::forward,
      ProgramBuilder("work", {64, 64}).add(fillOf(64), {1}).add(rowKernel("norm", 1, {plan.sequenceLength}), {0, 1}),
      {w, stage.resultsOffset});
  stage.schedule = {runStep(forward, 0)};
  return plan;
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

Outcome trainInProcesses(const PipelinePlan &pipeline, bool graphs, int64_t steps) {
  const int64_t size = pipeline.plan.mesh.worldSize();
  SharedValues shared;
  ThreadWorld hosts(size);
  std::vector<Outcome> outcomes(size);
  onThreads(size, [&](int64_t rank) {
    DeviceOptions device = hostDevice();
    device.graphs = graphs;
    device.share = shared.share();
    EngineOptions options;
    options.communicator = &hosts.communicator(rank);
    if (const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan, options, device))
      outcomes[rank] = train(pipeline, *engine, steps);
  });
  Outcome all;
  for (const Outcome &one : outcomes) {
    EXPECT_TRUE(one.losses == outcomes[0].losses && one.norms == outcomes[0].norms);
    all.weights.insert(all.weights.end(), one.weights.begin(), one.weights.end());
    all.gradients.insert(all.gradients.end(), one.gradients.begin(), one.gradients.end());
  }
  all.losses = outcomes[0].losses, all.norms = outcomes[0].norms;
  return all;
}

} // namespace mgc::test
