// One rank on a device: its memory, its streams, its step. Used by the rank's thread.
#pragma once

#include "runtime/exec/device/DeviceArena.h"
#include "runtime/exec/device/StepIo.h"
#include "runtime/exec/device/StreamExecutor.h"

#include <mutex>

namespace mgc {

struct DeviceRankOptions {
  bool poison = false, graphs = true; // graphs: a step is captured when it is the second
  std::chrono::milliseconds timeout{600'000};
  uint64_t seed = 0; // of dropout
  std::function<Status(const ExecutionPlace &)> inject = nullptr;
  TimelineOptions timeline = {};
  bool callsBeforeUpdate = true; // one rank of each process does
};

class DeviceRank {
public:
  // Its memory, and what it executes. All that is passed by reference outlives it.
  static Result<std::unique_ptr<DeviceRank>> create(const plan::Plan &plan,
                                                    const plugin::PluginDevice &device,
                                                    DeviceCommunicator &communicator,
                                                    const DeviceRankOptions &options);
  // Before load(): in the rank's memory.
  Status choose(ProductChoices &choices);
  // Makes it ready to run. `choices`: null where the library chooses.
  Status load(const DeviceKernels &kernels, const ProductChoices *choices);
  int64_t index() const { return record_.rank; }
  std::byte *mirror() const { return arena_.mirror(); }
  Recording::Rank recording() const { return {&record_, timeline_.get()}; }
  Status upload(Part part);
  Status download(Part part);

  void writeInputs(const GlobalBatch &batch, int64_t step) { io_.writeInputs(batch, step); }
  // The inputs are written. Returns when the device is done; an error has its place.
  Status run(int64_t step, const StepScalars &scalars, const std::function<Status()> *beforeUpdate);
  // After a step that has failed, and its abort: finds out whether the device ends what it was given.
  void awaitEnd();
  // Before an abort, from any thread: what is captured is not launched again, for communicators do not end before their graphs.
  void dropGraph();
  StepValues values() const { return io_.values(); }
  double hostSeconds() const { return hostSeconds_; } // of the last step
  const CollectiveCount &collectives() const { return program_.collectives(); }
  ExecutionPlace place(int64_t step) const; // how far it has come
  void endStreams() { executor_.reset(); }  // after a failure they may still use the memory of other ranks
  bool isStuck() const { return isStuck_; } // the device has not ended what it was given, and may never do

private:
  DeviceRank(const plan::Plan &plan, const plugin::PluginDevice &device, DeviceCommunicator &communicator,
             const DeviceRankOptions &options)
      : plan_(plan), device_(device), communicator_(communicator), options_(options) {}
  Status allocate();
  Status enqueue(int64_t step, const std::function<Status()> *beforeUpdate);
  Status enqueueDirectly(int64_t step, const std::function<Status()> *beforeUpdate);
  Status capture(int64_t step);
  Result<bool> isCaptured(); // an error once the graph was dropped
  Status launch();
  Status pauseForUpdate(int64_t step, const std::function<Status()> &beforeUpdate);
  Status finish(int64_t step); // waits for the device
  const plugin::Stream &stream() const { return executor_->compute(); }

  const plan::Plan &plan_;
  const plugin::PluginDevice &device_;
  DeviceCommunicator &communicator_;
  const DeviceRankOptions options_;
  RankRecord record_;
  DeviceProgram program_;
  std::unique_ptr<Timeline> timeline_; // null: not asked for
  std::unique_ptr<StreamClock> clock_;
  plugin::Stream copies_; // while no step runs
  DeviceArena arena_;
  StepIo io_;
  std::mutex graphMutex_; // of what follows
  plugin::Graph graph_;   // once captured
  bool isGraphDropped_ = false;
  std::unique_ptr<StreamExecutor> executor_;
  int64_t directSteps_ = 0;
  bool isMeasured_ = false; // the step that runs
  bool isStuck_ = false;
  double hostSeconds_ = 0;
};

} // namespace mgc
