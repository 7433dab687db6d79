// The engine on the stand-in device: the bits of the CPU, whenever its streams do what.
#include "test/runtime/exec/device/HostDevices.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

TEST(DeviceEngine, ranksThatShareADeviceTrainAsOnTheCpu) {
  PluginControls controls;
  for (int64_t dp : {1, 2, 3}) {
    const PipelinePlan pipeline = makePipelinePlan(dp);
    const Outcome onCpu = train(pipeline, *makeEngine(pipeline.plan));
    for (uint64_t seed = 0; seed < 12; ++seed) {
      controls->seed = seed;
      EXPECT_EQ(train(pipeline, *makeDeviceEngine(pipeline.plan)), onCpu) << "dp " << dp << ", seed " << seed;
    }
  }
}

} // namespace
} // namespace mgc::test
