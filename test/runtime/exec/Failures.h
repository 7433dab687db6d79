// Failures that the engine's tests provoke on either kind of device.
#pragma once

#include "test/runtime/TempDir.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <atomic>
#include <thread>

namespace mgc::test {

using Inject = std::function<Status(const ExecutionPlace &)>;
using MakeEngine = std::function<std::unique_ptr<Engine>(const plan::Plan &, EngineOptions)>;

inline Inject failAt(int64_t rank, const std::string &chunk) {
  return [=](const ExecutionPlace &place) {
    return place.rank == rank && place.chunk == chunk ? Status::error("injected") : Status::ok();
  };
}

// A rank of these chunks fails; the step of all ends, and says where.
inline void expectEveryFailureEndsTheStep(std::initializer_list<const char *> chunks, const MakeEngine &makeEngine,
                                          const std::function<bool(int64_t rank, std::string_view chunk)> &isThere) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const char *chunk : chunks) {
      if (!isThere(rank, chunk))
        continue;
      const std::string failure = failureOf(*makeEngine(pipeline.plan, {.inject = failAt(rank, chunk)}));
      EXPECT_EQ(failure.find(fmt::format("rank {} (stage {}), step 5", rank, rank / 2)), 0u) << failure;
      EXPECT_TRUE(has(failure, {": injected"}));
    }
}

// Rank 1 hangs before its last loss.
inline void expectHangIsNamedAtTheDeadline(const MakeEngine &makeEngine) {
  const auto inject = [](const ExecutionPlace &place) {
    if (place.rank == 1 && place.chunk == "forward.0" && place.microbatch == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return Status::ok();
  };
  const auto engine =
      makeEngine(makePipelinePlan(1).plan, {.timeout = std::chrono::milliseconds(200), .inject = inject});
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 2, backward.0: waited 0.2 s for rank 1 to send "
                                "value 2 of microbatch 2 (128 bytes)");
}

// The plan's stages name the same value differently, so it must not be verified.
inline void expectBothEndsOfATransferAreNamed(const MakeEngine &makeUnverified) {
  PipelinePlan pipeline = makePipelinePlan(1);
  for (plan::Ring &ring : pipeline.plan.stages[1].rings)
    if (ring.value == 1) // the ring of the activations, which it receives
      ring.value = 77;
  EXPECT_TRUE(has(failureOf(*makeUnverified(pipeline.plan, {})),
                  {"rank 0 sends value 1 of microbatch 0 (128 bytes) where rank 1 receives value 77 of microbatch 0 "
                   "(128 bytes)"}));
}

// Another thread aborts while rank 1 is held up at its loss.
inline void expectAbortEndsTheStep(const MakeEngine &makeEngine) {
  std::atomic<bool> reached{false}, leave{false};
  const auto inject = [&](const ExecutionPlace &place) {
    reached = reached || (place.rank == 1 && place.chunk == "forward.0");
    while (place.rank == 1 && place.chunk == "forward.0" && !leave)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(makePipelinePlan(1).plan, {.inject = inject});
  std::jthread killer([&] {
    while (!reached)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    engine->abort(Status::error("interrupted"));
    leave = true;
  });
  EXPECT_EQ(failureOf(*engine), "interrupted");
}

} // namespace mgc::test
