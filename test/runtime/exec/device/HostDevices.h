// The hand-made plans on the stand-in device (test/runtime/device/host_plugin).
#pragma once

#include "runtime/comm/thread/ThreadWorld.h"
#include "runtime/exec/Engine.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/comm/SharedValues.h"
#include "test/runtime/device/host_plugin/Controls.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <gtest/gtest.h>

namespace mgc::test {

// Controls of the plugin that the engine opens. The object resets the controls when it is made and when it ends.
class PluginControls {
public:
  PluginControls();
  ~PluginControls();
  HostPluginControls *operator->() const { return controls_; }

private:
  void reset();
  HostPluginControls *controls_;
};

// The fixture of tests on the stand-in device.
class OnDevice : public testing::Test {
protected:
  PluginControls controls;
};

std::string testDeviceKernels();
DeviceOptions hostDevice();            // the plugin
plan::Plan forDevice(plan::Plan plan); // its target is a device, its kernels are those that the stand-in loads
Result<std::unique_ptr<Engine>> tryEngineOnDevice(const plan::Plan &plan, EngineOptions options = {},
                                                  const DeviceOptions &device = hostDevice());
std::unique_ptr<Engine>
engineOnDevice(const plan::Plan &plan, EngineOptions options = {},
               const DeviceOptions &device = hostDevice()); // fails the test when it does not load

std::unique_ptr<Engine> unverifiedEngineOnDevice(const plan::Plan &plan);
// One rank, one microbatch: it zeroes its results and runs norm (work/1).
plan::Plan onePlan();

// Losses, norms, and in the end all bits that the ranks hold of w and its gradient.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<float> weights, gradients;
  bool operator==(const Outcome &) const = default;
};
Outcome train(const PipelinePlan &pipeline, Engine &engine, int64_t steps = 4);

// The same with an engine for each rank, each on a device of its own and on a thread that stands for its process. The
// outcome has the losses and norms of one rank and the bits of all ranks.
Outcome trainInProcesses(const PipelinePlan &pipeline, bool graphs, int64_t steps = 4);

} // namespace mgc::test
