// RankExecutor: runs one rank's schedule, once per training step, on the rank's thread. Allocates nothing in
// a step.
//
// The schedule is run in list order. A send or receive whose waits are not all done does not hold up the
// list: it is deferred, and posted as soon as they are, by whatever this rank does next or while it sleeps.
// Transfers with one peer in one direction keep their order.
#pragma once

#include "runtime/exec/Records.h"
#include "runtime/exec/Timeline.h"

#include <functional>

namespace mgc {

// Where a rank stands.
struct Place {
  int64_t rank = 0, stage = 0;
  int64_t step = 0;                    // of training
  int64_t microbatch = -1;             // -1: none
  std::string_view chunk, instruction; // empty: between chunks, between instructions
};
std::string
toString(const Place &place); // "rank 3 (stage 1), step 5, microbatch 2, forward.0, layer.fwd/attn.q"

struct ExecutorOptions {
  int threads = 1;
  // Called before each instruction, on the rank's thread; an error is one of that instruction. For tests of
  // failures.
  std::function<Status(const Place &)> inject = nullptr;
  Timeline *timeline = nullptr; // null: nobody asks when what was done
};

class RankExecutor final : public Progress {
public:
  RankExecutor(const RankRecord &record, Communicator &communicator, std::byte *arena,
               ExecutorOptions options);
  ~RankExecutor() override;

  // One training step. beforeUpdate runs where the schedule comes to the chunk "update" first, or at the end
  // without one. An error names the place, unless it is that of another rank that has aborted the world.
  Status run(int64_t step, const std::function<Status()> &beforeUpdate);
  Status progress() override;

private:
  enum class TransferState : uint8_t { idle, deferred, posted, done };
  struct TransferRecord {
    TransferState state = TransferState::idle;
    Ticket ticket = -1;
  };
  Status runSchedule(const std::function<Status()> &beforeUpdate);
  Status runStep(int64_t index);
  Status runChunk(int64_t index); // of the schedule
  Status runInstruction(const ChunkRecord &chunk, const InstructionRecord &instruction);

  void execute(const RowRecord &row, const ChunkRecord &chunk);
  void execute(const GemmRecord &gemm);
  void execute(const AttentionRecord &attention);
  Status execute(const CollectiveRecord &collective);
  void execute(const MoveRecord &move, int64_t operandCount);
  template <typename T> T *operand(int64_t index) const { return static_cast<T *>(operands_[index]); }

  bool isRun(int64_t index) const {
    return record_.schedule[index].step->kind == plan::ScheduleStep::Kind::run;
  }
  int64_t firstDeferredLike(int64_t index) const; // of the same peer and direction; index itself if none
  Result<bool> isDone(int64_t index);
  Result<bool> isReady(int64_t index);
  Status post(int64_t index);
  Status start(int64_t index);  // the step's turn has come in the list
  Status finish(int64_t index); // waits until it is done
  Status finishAll();
  Status retryDeferred();

  const RankRecord &record_;
  Communicator &communicator_;
  std::byte *const arena_;
  const ExecutorOptions options_;
  Place place_;
  Timeline *timeline_ = nullptr;          // of the step that runs
  std::vector<std::byte *> slotBases_;    // of the chunk that runs
  std::vector<void *> operands_;          // of the instruction that runs
  std::vector<TransferRecord> transfers_; // by schedule index; unused for runs
  std::vector<int64_t> deferred_;         // schedule indices, ascending
};

} // namespace mgc
