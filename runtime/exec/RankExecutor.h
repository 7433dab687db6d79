// RankExecutor: runs one rank's schedule, once per training step, on the rank's thread. Allocates nothing in
// a step.
//
// The schedule is run in list order; a send or receive is posted when its waits are done (Transfers.h), by whatever this
// rank does next or while it sleeps.
#pragma once

#include "runtime/exec/Records.h"
#include "runtime/exec/Timeline.h"
#include "runtime/exec/Transfers.h"

#include <functional>

namespace mgc {

// Where a rank stands.
struct ExecutionPlace {
  int64_t rank = 0, stage = 0;
  int64_t step = 0;                    // of training
  int64_t microbatch = -1;             // -1: none
  std::string_view chunk, instruction; // empty: between chunks, between instructions
};
std::string toString(
    const ExecutionPlace &place); // "rank 3 (stage 1), step 5, microbatch 2, forward.0, layer.fwd/attn.q"

struct ExecutorOptions {
  int threads = 1;
  // Called before each instruction, on the rank's thread; an error is one of that instruction. For tests of
  // failures.
  std::function<Status(const ExecutionPlace &)> inject = nullptr;
  Timeline *timeline = nullptr; // null: nobody asks when what was done
};

class RankExecutor final : public TransferExecutor {
public:
  RankExecutor(const RankRecord &record, Communicator &communicator, std::byte *arena,
               ExecutorOptions options);
  ~RankExecutor() override;

  // One training step. beforeUpdate runs where the schedule comes to the chunk "update" first, or at the end
  // without one. An error names the place, unless it is that of another rank that has aborted the world.
  Status run(int64_t step, const std::function<Status()> &beforeUpdate);
  Status progress() override { return transfers_.retry(); }

private:
  struct TransferRecord {
    Ticket ticket = -1; // once posted
    bool isDone = false;
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
    return record_.schedule[index].step.kind == plan::ExpandedStep::Kind::run;
  }
  Result<bool> isOver(int64_t index) override; // done
  Status post(int64_t index) override;
  Status finish(int64_t index) override;
  Status finishAll();

  const RankRecord &record_;
  Communicator &communicator_;
  std::byte *const arena_;
  const ExecutorOptions options_;
  ExecutionPlace place_;
  Timeline *timeline_ = nullptr;       // of the step that runs
  std::vector<std::byte *> slotBases_; // of the chunk that runs
  std::vector<void *> operands_;       // of the instruction that runs
  std::vector<TransferRecord> posted_; // by schedule index; unused for runs
  Transfers transfers_;
};

} // namespace mgc
