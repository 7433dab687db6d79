// One rank of an engine: its memory, its streams, its step. Made and loaded by the engine's thread, which then waits while the
// rank's runs a step.
#pragma once

#include "runtime/exec/RankArena.h"
#include "runtime/exec/StepIo.h"
#include "runtime/exec/StreamExecutor.h"

#include <atomic>
#include <mutex>

namespace mgc {

struct EngineRankOptions {
  bool isOnHost = false;              // the device is one of host memory
  bool isConcurrent = true;           // its streams may run concurrently
  bool poison = false, graphs = true; // graphs: a step is captured when it is the second
  std::chrono::milliseconds timeout{600'000};
  uint64_t seed = 0; // seed of dropout
  std::function<Status(const ExecutionPlace &)> inject = nullptr;
  TimelineOptions timeline = {};
  bool callsBeforeUpdate = true;               // one rank of each process does
  std::function<Status()> barrier = nullptr;   // at which all ranks meet
  std::function<void()> prepareThread = [] {}; // called first by each thread other than the rank's
};

// The arguments of one step for the ranks; who gives them waits while the ranks work.
struct StepOrder {
  int64_t step = 0;
  StepScalars scalars{};
  const std::function<Status()> *beforeUpdate = nullptr; // null: none
  const std::function<Status()> *ask = nullptr;          // behind it: sets `isUpdated`; null: all steps update
  const std::atomic<bool> *isUpdated = nullptr;
  bool pauses() const { return beforeUpdate || ask; }
};

class EngineRank {
public:
  // Its memory, and what it executes. All that is passed by reference outlives it.
  static Result<std::unique_ptr<EngineRank>> create(const plan::Plan &plan, const plugin::PluginDevice &device,
                                                    Communicator &communicator, const EngineRankOptions &options);
  // Before load(): in the rank's memory.
  Status choose(ProductChoices &choices);
  // Makes it ready to run. `choices`: null where the library chooses.
  Status load(const RowKernels &kernels, const ProductChoices *choices);
  int64_t index() const { return record_.rank; }
  std::byte *mirror() const { return arena_.mirror(); }
  Recording::Rank recording() const { return {&record_, timeline_.get()}; }
  Status upload(Part part);
  Status download(Part part);

  void writeInputs(const GlobalBatch &batch, int64_t step) { io_.writeInputs(batch, step); }
  // The inputs are written. Returns when the device is done; an error has its place.
  Status run(const StepOrder &order);
  // After a step that has failed, and its abort: finds out whether the device ends what it was given.
  void awaitEnd();
  // Before an abort, from any thread: what is captured is not launched again, for communicators do not end before their graphs.
  void dropGraph();
  StepValues values() const { return io_.values(); }
  double hostSeconds() const { return hostSeconds_; } // time of the last step
  const CollectiveCount &collectives() const { return program_.collectives(); }
  ExecutionPlace place(int64_t step) const; // how far it has come
  void endStreams() { executor_.reset(); }  // after a failure they may still use the memory of other ranks
  bool isStuck() const { return isStuck_; } // the device has not ended what it was given, and may never do

private:
  EngineRank(const plan::Plan &plan, const plugin::PluginDevice &device, Communicator &communicator,
             const EngineRankOptions &options)
      : plan_(plan), device_(device), communicator_(communicator), options_(options) {}
  Status allocate();
  Status makeClock();
  Status enqueue(const StepOrder &order);
  Status enqueueDirectly(const StepOrder &order);
  Status capture(const StepOrder &order);
  Result<bool> isCaptured(); // an error once the graph was dropped
  Status launch();
  Result<bool> pauseForUpdate(const StepOrder &order); // whether to update
  Status finish(int64_t step);                         // waits for the device
  const plugin::Stream &stream() const { return executor_->compute(); }

  const plan::Plan &plan_;
  const plugin::PluginDevice &device_;
  Communicator &communicator_;
  const EngineRankOptions options_;
  RankRecord record_;
  RankProgram program_;
  std::unique_ptr<Timeline> timeline_; // null: not asked for
  std::unique_ptr<StepClock> clock_;
  plugin::Stream copies_; // while no step runs
  RankArena arena_;
  StepIo io_;
  std::mutex graphMutex_; // guards the members below
  plugin::Graph graph_;   // once captured
  bool isGraphDropped_ = false;
  std::unique_ptr<StreamExecutor> executor_;
  int64_t directSteps_ = 0;
  bool isMeasured_ = false; // the step that runs
  bool isStuck_ = false;
  double hostSeconds_ = 0;
};

} // namespace mgc
