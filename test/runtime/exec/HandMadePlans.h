// Small plans written by hand, with the kernels of TestKernels.cpp, and the engine to run them on.
#pragma once

#include "plan/Plan.h"
#include "runtime/exec/Engine.h"

#include <filesystem>

namespace mgc::test {

/// The library of TestKernels.cpp.
std::string testKernels();

// Lays buffers of a stage one after another, the scalars and results of a step first; all of them are one region of their kind.
class StageLayout {
public:
  explicit StageLayout(plan::StagePlan &stage);
  int64_t place(const std::string &kind, int64_t bytes);
  void finish();
  int64_t bytes() const { return bytes_; }

private:
  plan::StagePlan &stage_;
  std::vector<plan::Region> regions_;
  int64_t bytes_ = 0;
};

// A file of kernels, as a plan names it.
plan::KernelFile kernelFileOf(plan::KernelLevel level, const std::filesystem::path &path);

// A plan of one mesh with nothing in it: sizes, kernel library, one stage per coordinate of "pp" with its scalars.
struct PlanSizes {
  int64_t sequence = 16, microBatch = 2, microbatches = 3;
  plan::DType dtype = plan::DType::f32, gradientType = plan::DType::f32;
};
plan::Plan emptyPlan(const std::vector<plan::Axis> &axes, const PlanSizes &sizes = {});

// A program whose instruction i uses whole segments; operands[i] are segment numbers.
struct ProgramBuilder {
  plan::Program program;
  ProgramBuilder(std::string name, std::vector<int64_t> segmentBytes);
  ProgramBuilder &add(decltype(plan::Instruction::body) body, const std::vector<int64_t> &segments);
};
plan::Move copyOf(int64_t bytes);
plan::Move fillOf(int64_t bytes);

// A kernel of TestKernels.cpp; what it does with its operands is known there.
plan::RowKernel rowKernel(const std::string &symbol, int64_t range, const std::vector<int64_t> &scalars = {});

// A ring with a slot of `bytes` bytes for each of so many microbatches. Returns its index in the stage.
int64_t addRing(plan::Plan &plan, int64_t stage, int64_t offset, int64_t bytes, int64_t slots = 1);
// The same, of a value that travels.
int64_t addRing(plan::Plan &plan, int64_t stage, int64_t offset, int64_t bytes, int64_t slots, int64_t peer,
                int64_t value);
constexpr int64_t inRing(int64_t ring) { return -1 - ring; } // among the offsets of a chunk

// Adds the program and a chunk that calls it once, every segment bound to the allocation at these offsets, or to a ring.
// Returns the chunk's index in the stage.
int64_t addChunk(plan::Plan &plan, int64_t stage, plan::Task task, const ProgramBuilder &program,
                 const std::vector<int64_t> &offsets);

// waits: distances back.
plan::ScheduleStep runStep(int64_t chunk, int64_t microbatch = -1, std::vector<int64_t> waits = {});
plan::ScheduleStep sendStep(int64_t ring, int64_t microbatch, std::vector<int64_t> waits = {});
plan::ScheduleStep receiveStep(int64_t ring, int64_t microbatch, std::vector<int64_t> waits = {});

// The model of TestKernels.cpp over two stages and dp data ranks. Stage 0 holds w and the tokens, stage 1 the loss.
// Gradients come back into the buffers the activations left from, so stage 0's receives wait for its sends.
struct PipelinePlan {
  plan::Plan plan;
  int64_t valueOffset = 0, gradientOffset = 0, masterOffset = -1; // offsets of w, in stage 0
};
PipelinePlan makePipelinePlan(int64_t dp, const PlanSizes &sizes = {});

// A plan with an encoder that reads, over dp data ranks and cp parts of a sequence, types of tokens, and ends of
// documents by query and by key. Nothing is learned: the loss of a token is 100 * its type + the end of its document +
// the keys that have the same end.
plan::Plan makeEncoderPlan(int64_t dp, int64_t cp, const PlanSizes &sizes = {});

// Fails the test when the plan does not verify or load. Memory is poisoned.
std::unique_ptr<Engine> makeEngine(const plan::Plan &plan, EngineOptions options = {});

// The weights that tests begin with, (s + 1) / 4 at position s; in the ranks when it returns.
void setWeights(const PipelinePlan &pipeline, Engine &engine);

GlobalBatch makeBatch(const plan::Plan &plan, int64_t step);

// The error of step 5 of a plan that fails.
std::string failureOf(Engine &engine, const std::function<Status()> &beforeUpdate = nullptr);

template <typename T> T *inArena(const Engine &engine, int64_t rank, int64_t offset) {
  return reinterpret_cast<T *>(engine.arenas()[rank] + offset);
}

} // namespace mgc::test
