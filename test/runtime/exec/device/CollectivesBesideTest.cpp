// Collectives that run concurrently with later instructions: random programs give the bits of the CPU, however the
// streams are timed.
#include "test/runtime/exec/RandomPrograms.h"
#include "test/runtime/exec/device/HostDevices.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

void giveTheBitsOfTheCpu(plan::Plan (*makePlan)(uint32_t)) {
  PluginControls controls;
  for (uint32_t program = 0; program < 60; ++program) {
    const plan::Plan plan = makePlan(program);
    const std::array<double, 3> onCpu = valuesOf(*makeEngine(plan, {.isConcurrent = true}));
    for (uint64_t seed : {0, 1, 2}) {
      controls->seed = seed == 0 ? 0 : 3 * program + seed;
      EXPECT_EQ(valuesOf(*engineOnDevice(plan)), onCpu) << "program " << program << ", seed " << seed;
    }
  }
}

TEST(CollectivesBeside, giveTheBitsOfTheCpu) { giveTheBitsOfTheCpu(randomPlan); }

// Turn by turn on one stream.
TEST(CollectivesBeside, pairsGiveTheBitsOfTheCpu) { giveTheBitsOfTheCpu(randomPairPlan); }

} // namespace
} // namespace mgc::test
