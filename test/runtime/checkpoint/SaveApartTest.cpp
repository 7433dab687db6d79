// Saving where each rank is a process: the same files, to the byte, as from one process that holds all ranks. Threads,
// each with the memory of its rank alone, stand for the processes.
#include "runtime/checkpoint/GradientNorms.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "test/runtime/checkpoint/TestWeights.h"
#include "test/runtime/comm/OnThreads.h"

#include <cmath>

namespace mgc::test {
namespace {

using Save = std::function<Status(Arenas arenas, Communicator &communicator)>;

// The status of each rank's save. An error ends all, as it does in a run.
std::vector<Status> saveApart(const plan::Plan &plan, const Memory &memory, const Save &save) {
  const int64_t ranks = plan.mesh.worldSize();
  ThreadWorld world(ranks, {std::chrono::milliseconds(60'000)});
  std::vector<Status> results(ranks);
  onThreads(ranks, [&](int64_t rank) {
    std::vector<std::byte *> own(ranks);
    own[rank] = memory.arenas()[rank];
    results[rank] = save(own, world.communicator(rank));
    if (!results[rank].isOk())
      world.communicator(rank).abort(results[rank]);
  });
  return results;
}

TEST(SaveApart, weightsAreTheSameFiles) {
  for (auto [zero, joined] : {std::pair(false, false), {true, false}, {false, true}})
    for (const MeshSizes &sizes : kMeshes)
      for (int64_t shard : {int64_t(4000), int64_t(1) << 30}) {
        TempDir together, apart;
        const plan::Plan plan = makePlan(sizes, zero, joined);
        const Memory memory = initialised(plan, 3);
        ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), together.path(), {.maxShardBytes = shard})));
        for (const Status &status : saveApart(plan, memory, [&](Arenas arenas, Communicator &communicator) {
               return saveWeights(plan, arenas, apart.path(), {.maxShardBytes = shard, .communicator = &communicator});
             }))
          ASSERT_TRUE(isOk(status));
        ASSERT_EQ(together.list(), apart.list());
        for (const std::string &name : together.list())
          EXPECT_EQ(together.read(name), apart.read(name)) << name;
      }
}

// Every number another.
void fillMemory(const plan::Plan &plan, const Memory &memory) {
  for (size_t rank = 0; rank < memory.arenas().size(); ++rank) {
    const int64_t bytes = plan.stages[plan::stageOf(plan.mesh, int64_t(rank))].bytes;
    const std::span<float> values = memory.floats(plan, int64_t(rank), 0, bytes / 4);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(i) + 0.001f * float(rank);
  }
}

// To the bit: each rank adds up what it owns, wherever it is.
TEST(SaveApart, normsOfLayersAreTheSame) {
  for (auto [zero, joined] : {std::pair(false, false), {true, false}, {true, true}})
    for (const MeshSizes &sizes : kMeshes) {
      const plan::Plan plan = makePlan(sizes, zero, joined);
      const Memory memory(plan);
      fillMemory(plan, memory);
      const std::vector<LayerNorm> together = GradientNorms(plan, memory.arenas()).read(0.5).take();
      ASSERT_FALSE(together.empty());
      for (const Status &status : saveApart(plan, memory, [&](Arenas arenas, Communicator &communicator) {
             Result<std::vector<LayerNorm>> norms = GradientNorms(plan, arenas).read(0.5, &communicator);
             MGC_TRY(Status(norms.status()));
             EXPECT_EQ(norms->size(), communicator.rank() == 0 ? together.size() : 0);
             for (size_t i = 0; i < norms->size(); ++i) {
               EXPECT_EQ((*norms)[i].layer, together[i].layer);
               EXPECT_EQ((*norms)[i].norm, together[i].norm);
             }
             return Status::ok();
           }))
        ASSERT_TRUE(isOk(status));
    }
}

TEST(SaveApart, gradientsAreTheSameFile) {
  for (auto [zero, joined] : {std::pair(false, false), {true, false}, {true, true}})
    for (const MeshSizes &sizes : kMeshes) {
      TempDir dir;
      const plan::Plan plan = makePlan(sizes, zero, joined);
      const Memory memory(plan);
      fillMemory(plan, memory);
      ASSERT_TRUE(isOk(saveGradients(plan, memory.arenas(), 0.5f, dir.path("together"))));
      for (const Status &status : saveApart(plan, memory, [&](Arenas arenas, Communicator &communicator) {
             return saveGradients(plan, arenas, 0.5f, dir.path("apart"), &communicator);
           }))
        ASSERT_TRUE(isOk(status));
      EXPECT_EQ(dir.read("together"), dir.read("apart"));
    }
}

// Rank 0 finds it, after which those that still have something to send learn it too.
TEST(SaveApart, whatIsNotFitToBeSavedIsFound) {
  TempDir dir;
  const plan::Plan plan = makePlan({2, 2, 2, 1});
  const Memory memory = initialised(plan, 1);
  const auto save = [&](Arenas arenas, Communicator &communicator) {
    return saveWeights(plan, arenas, dir.path(), {.communicator = &communicator});
  };
  const plan::Parameter &norm = plan.parameters[7];
  memory.value(plan, 3, norm)[4] = 1.5f;
  EXPECT_TRUE(fails(saveApart(plan, memory, save)[0], {"parameter h.0.ln.weight: ranks 3 differ from rank 0"}));
  for (int64_t rank = 0; rank < 4; ++rank)
    memory.value(plan, rank, norm)[4] = NAN;
  EXPECT_TRUE(fails(saveApart(plan, memory, save)[0], {"parameter h.0.ln.weight: element 4 on rank 0 is nan"}));
  EXPECT_TRUE(dir.list().empty());
}

} // namespace
} // namespace mgc::test
