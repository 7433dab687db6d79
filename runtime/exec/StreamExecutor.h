// StreamExecutor: enqueues one rank's schedule on streams of its device, once per training step.
//
//     compute          runs, in the order of the list
//     gradients        those of task gradients, in their own order: concurrently with the backward of other layers
//     layers, units, step
//                      collectives of the runs: after the work in the run's stream, which goes on concurrently and waits where it
//                      comes to what touches the same bytes, or to its end (plan/Joins.h)
//     (peer, in/out)   transfers with one peer in one direction, in the order of the list, each behind its waits
//
// On a device a wait is one of streams, for an event, and costs the host nothing. But where a transfer needs the host of its
// peer (ranks of one process), it is posted as soon as its waits are over (Transfers.h), by whatever this rank does next or
// while its host waits. Work that a stream waits for has been enqueued before, on whichever rank, so streams never wait in a
// circle. All streams begin behind the compute stream and end before it ends: a step can be captured as a graph.
//
// On the host to enqueue is to do: the rank's thread is the compute stream, and a thread of its own each of gradients,
// layers and units (LaneThread.h), where the plan has something for them and the communicator lets them. A transfer is a message that
// the communicator moves when both ends have come.
//
// On a device a pair of runs (plan::ScheduleStep) shares the compute stream in alternating turns (plan/PairTurns.h), so
// that the exchanges of rows of each overlap the other's work; both are done when the pair is. On the host, and in a
// measured step, they run one after the other.
//
// A step allocates nothing (runtime/kernels and the libraries of a device aside).
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/exec/ExecutionPlace.h"
#include "runtime/exec/LaneThread.h"
#include "runtime/exec/RankArena.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/StepClock.h"
#include "runtime/exec/Transfers.h"

#include <map>

namespace mgc {

struct StreamExecutorOptions {
  RankAddresses addresses;
  uint32_t *marks = nullptr; // pinned: Marks, for placeAt(); null: not wanted
  // Called before each instruction is enqueued, by the thread that does; an error is one of that instruction. For tests of
  // failures.
  std::function<Status(const ExecutionPlace &)> inject = nullptr;
  bool isOnHost = false;                       // enqueued work is done when the call returns
  bool hasThreads = false;                     // on the host: the program has concurrent collectives
  std::function<void()> prepareThread = [] {}; // called first by each thread of the rank's lanes
};

// How far each kind of stream is: the number, from 1, of its instruction that was done last. 0: none.
using Marks = std::array<uint32_t, kStreamKinds>;

class StreamExecutor final : public TransferExecutor {
public:
  // All that is passed by reference outlives it.
  static Result<std::unique_ptr<StreamExecutor>> make(const plugin::PluginDevice &device, const RankRecord &record,
                                                      const RankProgram &program, Communicator &communicator,
                                                      StreamExecutorOptions options);
  ~StreamExecutor() override;
  const plugin::Stream &compute() const { return compute_; }

  // A whole step. beforeUpdate runs where the schedule comes to the chunk "update" first, or at the end without one, and says
  // whether that chunk is run. `clock`: null unless the step is measured. After an error of the host nothing of the rank is
  // at work.
  using BeforeUpdate = std::function<Result<bool>()>;
  Status enqueue(int64_t step, const BeforeUpdate &beforeUpdate, StepClock *clock);
  Status progress() override;
  // In beforeUpdate: what the compute stream does next comes behind all runs of gradients.
  Status joinGradients();

  // The first instruction that is not done; the end of the step when all are.
  ExecutionPlace placeAt(int64_t step, const Marks &marks) const;
  static void stand(ExecutionPlace &place, const ChunkRecord &chunk, int64_t instruction) {
    const InstructionRecord &at = chunk.instructions[static_cast<size_t>(instruction)];
    place.instruction = at.instruction->label, place.layer = at.layer, place.isOfSeveralLayers = at.isOfSeveralLayers;
  }

private:
  struct TransferRecord {
    Ticket ticket = -1;                  // once posted
    const plugin::Event *done = nullptr; // once enqueued
  };
  // A position in a run: the thread and stream that enqueue it, and the next item.
  struct Cursor {
    const plugin::Stream *stream = nullptr;
    ExecutionPlace place;
    // Where the chunk's slots begin in the rank's memory; the addresses of the operands of the instruction being enqueued.
    std::vector<int64_t> slotBases;
    std::vector<mgc_address> operands;
    bool isOfLane = false; // the thread of a lane
    // The state of the run.
    int64_t countsRead = -1;                // PreparedInstruction::countsOf of its last exchange of rows
    std::span<const plan::Join> joins = {}; // joins still to come
    int64_t firstEnd = 0;                   // first of its collectives, in ends_
  };
  // A stream parallel to that of the runs. On the host it has a thread, null where the plan has nothing for it.
  struct Lane {
    plugin::Stream stream;
    plugin::Event begin;
    Cursor cursor;
    std::unique_ptr<LaneThread> thread;
  };
  struct Position {
    int64_t schedule, instruction;
    StreamKind kind; // the stream whose mark says that it is done
  };

  StreamExecutor(const RankRecord &record, const RankProgram &program, Communicator &communicator,
                 StreamExecutorOptions options);
  Cursor cursorOn(const plugin::Stream &stream, bool isOfLane) const;
  Status makeStreams(const plugin::PluginDevice &device);
  Status makeEventsOf(const plugin::PluginDevice &device, int64_t index);
  Status startThreads();
  Status startThread(StreamKind kind, int64_t works);
  Status enqueueSchedule(const BeforeUpdate &beforeUpdate);
  Status begin();
  Status join();
  Status runStep(int64_t index);
  Status waitFor(int64_t wait, int64_t run);
  Status runPair(int64_t index);                  // with the run after it
  Status recordEnds(int64_t first, int64_t last); // for these runs
  Status runChunk(Cursor &cursor, int64_t index);
  void beginChunk(Cursor &cursor, int64_t index);
  Status runInstructions(Cursor &cursor, int64_t index, int64_t begin, int64_t end);
  Status joinBefore(Cursor &cursor, int64_t index, int64_t instruction);
  Status runInstruction(Cursor &cursor, int64_t run, int64_t index);
  void bindSlots(Cursor &cursor, const plan::ExpandedStep &step) const;
  void bindOperands(Cursor &cursor, const ChunkRecord &chunk, const InstructionRecord &instruction) const;
  void placeAtRun(Cursor &cursor, int64_t index) const;
  Status enqueueConcurrent(Cursor &cursor, int64_t run, int64_t index);
  Status joinCollective(const Cursor &cursor, const PreparedInstruction &made);
  void addPositions(int64_t run, int64_t begin, int64_t end, std::vector<Position> &positions) const;
  void work(Lane &lane, const LaneWork &work); // on the lane's thread
  Status workCollective(Cursor &cursor, const LaneWork &work);
  Status await(const LaneThread &thread, int64_t number);
  void finishThreads() const;
  Status mark(const plugin::Stream &stream);

  // In: the operands bound in the cursor.
  Status execute(Cursor &cursor, const ChunkRecord &chunk, int64_t index, const plugin::Stream &stream,
                 const PreparedInstruction &made);

  bool isOfTask(int64_t index, plan::Task task) const;
  bool isOfGradients(int64_t index) const { return isOfTask(index, plan::Task::gradients); }
  StreamKind kindOf(int64_t run, int64_t instruction) const;
  // The stream of a run. A measured step has all its runs on one stream, so that the time each takes can be told.
  bool isConcurrent(int64_t index) const {
    return !clock_ && isOfGradients(index) && (!options_.isOnHost || lanes_.at(StreamKind::gradients).thread);
  }
  // Whether the step is the second of a pair; whether this step of training has pairs run at the same time.
  bool isPaired(int64_t index) const {
    return index < static_cast<int64_t>(record_.schedule.size()) && record_.schedule[index].step.paired;
  }
  bool runsPairs() const { return !options_.isOnHost && !clock_; }
  bool isRun(int64_t index) const { return record_.schedule[index].step.kind == plan::ExpandedStep::Kind::run; }
  // On the host, where each is done once it is recorded, one event serves for all.
  const plugin::Event &eventAt(int64_t index) const { return options_.isOnHost ? begun_ : events_.at(index); }
  const plugin::Stream &streamOf(int64_t transfer) const { return transferStreams_.at(linkOf(transfer)); }
  using Link = std::pair<int64_t, bool>; // peer, whether it is sent to
  Link linkOf(int64_t transfer) const;
  Result<const plugin::Event *> eventOf(int64_t index); // when the step is done; null: not enqueued yet
  Result<bool> isOver(int64_t index) override;          // enqueued
  Status post(int64_t index) override;
  Status finish(int64_t index) override;

  const RankRecord &record_;
  const RankProgram &program_;
  Communicator &communicator_;
  const StreamExecutorOptions options_;
  StepClock *clock_ = nullptr; // the clock of the step being enqueued
  uint32_t enqueued_ = 0;      // instructions of the step: index of the one that is next in positions_
  plugin::Stream compute_;
  Cursor cursor_, secondCursor_; // for the rank's thread; for the second run of a pair
  plugin::Event begun_;
  // Ends of the collectives in parallel with the run being enqueued, and with its pair.
  std::vector<plugin::Event> ends_;
  std::vector<int64_t> concurrentNumbers_; // on the host: numbers of the same collectives in their lane
  std::map<Link, plugin::Stream> transferStreams_;
  // By schedule index: ends of transfers, and of runs that transfers wait for.
  std::map<int64_t, plugin::Event> events_;
  // Positions of the instructions in the order in which they are enqueued, and in which a measured step enqueues them;
  // for marks.
  std::vector<Position> positions_, measuredPositions_;
  bool isMeasured_ = false; // whether the last enqueued step is measured
  const std::vector<Position> &positions() const { return isMeasured_ ? measuredPositions_ : positions_; }
  std::vector<TransferRecord> posted_; // by schedule index; unused for runs
  std::vector<int64_t> runNumbers_;    // on the host: by schedule index, of a run in the lane of gradients
  std::vector<int64_t> unmet_;         // posted, and the other end was not seen yet
  Transfers transfers_;
  std::map<StreamKind, Lane> lanes_; // last: their threads end before what they use
};

} // namespace mgc
