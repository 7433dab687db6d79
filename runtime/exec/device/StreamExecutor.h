// StreamExecutor: enqueues one rank's schedule on streams of its device, once per training step.
//
//     compute          runs, in the order of the list
//     gradients        those of task gradients, in their own order: beside the backward of other layers
//     tensor, data     collectives of the runs: behind what the run's stream has, which goes on beside them and waits where it
//                      comes to what touches the same bytes, or to its end (StepJoins.h)
//     (peer, in/out)   transfers with one peer in one direction, in the order of the list, each behind its waits
//
// A wait is one of streams, for an event, and costs the host nothing. But where a transfer needs the host of its peer
// (ranks that share a device), it is posted as soon as its waits are enqueued (runtime/exec/Transfers.h), by whatever this
// rank does next or while its host waits. Work that a stream waits for has been enqueued before, on whichever
// rank, so streams never wait in a circle.
//
// All streams begin behind the compute stream and end before it ends: a step can be captured as a graph.
#pragma once

#include "runtime/comm/device/DeviceCommunicator.h"
#include "runtime/exec/RankExecutor.h"
#include "runtime/exec/device/DeviceProgram.h"
#include "runtime/exec/device/StreamClock.h"

namespace mgc {

struct StreamExecutorOptions {
  mgc_address arena = 0;
  uint32_t *marks = nullptr; // pinned: Marks, for placeAt(); null: not wanted
  // Called before each instruction is enqueued; an error is one of that instruction.
  std::function<Status(const ExecutionPlace &)> inject = nullptr;
};

// How far each kind of stream is: the number, from 1, of its instruction that was done last. 0: none.
using Marks = std::array<uint32_t, kStreamKinds>;

class StreamExecutor final : public TransferExecutor {
public:
  // All that is passed by reference outlives it.
  static Result<std::unique_ptr<StreamExecutor>> make(const plugin::PluginDevice &device,
                                                      const RankRecord &record, const DeviceProgram &program,
                                                      DeviceCommunicator &communicator,
                                                      StreamExecutorOptions options);
  ~StreamExecutor() override;
  const plugin::Stream &compute() const { return compute_; }

  // A whole step. beforeUpdate runs where the schedule comes to the chunk "update" first, or at the end without one. `clock`:
  // null unless the step is measured.
  Status enqueue(int64_t step, const std::function<Status()> &beforeUpdate, StreamClock *clock);
  Status progress() override;

  // The first instruction that is not done; the end of the step when all are.
  ExecutionPlace placeAt(int64_t step, const Marks &marks) const;

private:
  struct TransferRecord {
    Ticket ticket = -1;                  // once posted
    const plugin::Event *done = nullptr; // once enqueued
  };
  struct Side {
    plugin::Stream stream;
    plugin::Event begin;
  };
  struct Position {
    int64_t schedule, instruction;
    StreamKind kind; // whose mark says that it is done
  };

  StreamExecutor(const RankRecord &record, const DeviceProgram &program, DeviceCommunicator &communicator,
                 StreamExecutorOptions options);
  Status makeStreams(const plugin::PluginDevice &device);
  Status enqueueSchedule(const std::function<Status()> &beforeUpdate);
  Status begin();
  Status join();
  Status runStep(int64_t index);
  Status runChunk(int64_t index);
  Status runInstruction(int64_t chunk, int64_t index);
  Status endCollective(const DeviceInstruction &made);
  Status mark(const plugin::Stream &stream);

  Status execute(const RowRecord &row, const DeviceInstruction &made, const ChunkRecord &chunk);
  Status execute(const GemmRecord &gemm, const DeviceInstruction &made, const ChunkRecord &chunk);
  Status execute(const AttentionRecord &attention, const DeviceInstruction &made, const ChunkRecord &chunk);
  Status execute(const CollectiveRecord &collective, const DeviceInstruction &made, const ChunkRecord &chunk);
  Status execute(const MoveRecord &move, const DeviceInstruction &made, const ChunkRecord &chunk);
  Status copy(mgc_address to, mgc_address from, int64_t bytes) const;

  bool isOfGradients(int64_t index) const;
  StreamKind kindOf(int64_t run, int64_t instruction) const;
  // The stream of a run. A measured step has all its runs on one stream, so that the time each takes can be told.
  const plugin::Stream &streamOfRun(int64_t index) const {
    return !clock_ && isOfGradients(index) ? gradients_ : compute_;
  }
  bool isRun(int64_t index) const {
    return record_.schedule[index].step.kind == plan::ExpandedStep::Kind::run;
  }
  const plugin::Stream &streamOf(int64_t transfer) const { return transferStreams_.at(wayOf(transfer)); }
  using Way = std::pair<int64_t, bool>; // peer, whether it is sent to
  Way wayOf(int64_t transfer) const;
  Result<const plugin::Event *> eventOf(int64_t index); // when the step is done; null: not enqueued yet
  Result<bool> isOver(int64_t index) override;          // enqueued
  Status post(int64_t index) override;
  Status finish(int64_t index) override;

  const RankRecord &record_;
  const DeviceProgram &program_;
  DeviceCommunicator &communicator_;
  const StreamExecutorOptions options_;
  ExecutionPlace place_;
  StreamClock *clock_ = nullptr; // of the step that is enqueued
  uint32_t enqueued_ = 0;        // instructions of the step: index of the one that is next in positions_
  plugin::Stream compute_, gradients_;
  const plugin::Stream *stream_ = &compute_; // of the run that is enqueued
  plugin::Event begun_;
  std::map<StreamKind, Side> sides_;
  std::vector<plugin::Event> ends_; // of the collectives of the chunk that runs
  std::map<Way, plugin::Stream> transferStreams_;
  std::map<int64_t, plugin::Event>
      events_;                      // by schedule index: of transfers, and of runs that transfers wait for
  std::vector<Position> positions_; // of the instructions, in the order in which they are enqueued
  std::vector<mgc_address> slotBases_, operands_; // of the chunk, of the instruction that is enqueued
  std::vector<TransferRecord> posted_;            // by schedule index; unused for runs
  std::vector<int64_t> unmet_;                    // posted, and the other end was not seen yet
  Transfers transfers_;
};

} // namespace mgc
