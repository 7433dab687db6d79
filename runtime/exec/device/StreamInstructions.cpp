// The part of StreamExecutor that enqueues the instructions of a chunk.
#include "runtime/base/Rounding.h"
#include "runtime/exec/device/StreamExecutor.h"

#include "plan/Operands.h"
#include "plan/targets/CudaGemm.h"

namespace mgc {

using plugin::Stream;

Status StreamExecutor::runChunk(int64_t index) {
  const plan::ExpandedStep &step = record_.schedule[index].step;
  slotBases_[0] = options_.arena;
  for (size_t slot = 0; slot < step.slots.size(); ++slot)
    slotBases_[slot + 1] = options_.arena + static_cast<uint64_t>(step.slots[slot]);
  const ChunkRecord &chunk = record_.chunks[step.chunk];
  const StepRecord &run = record_.schedule[index];
  std::span<const Join> joins = program_.joins(index);
  const auto joinBefore = [&](int64_t instruction) -> Status {
    for (; !joins.empty() && joins.front().before == instruction; joins = joins.subspan(1))
      MGC_TRY(stream_->wait(ends_[program_.at(step.chunk, joins.front().collective).collective]));
    return Status::ok();
  };
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i) {
    place_.instruction = chunk.instructions[i].instruction->label;
    if (options_.inject)
      MGC_TRY(options_.inject(place_));
    MGC_TRY(joinBefore(i));
    if (clock_)
      MGC_TRY(clock_->instructionBegins(*stream_));
    MGC_TRY(runInstruction(step.chunk, i));
    if (clock_)
      MGC_TRY(clock_->instructionEnds(*stream_));
    if (program_.at(step.chunk, i).collective < 0)
      MGC_TRY(mark(*stream_));
  }
  place_.instruction = {};
  return joinBefore(run.endInstruction);
}

Status StreamExecutor::runInstruction(int64_t chunkIndex, int64_t index) {
  const ChunkRecord &chunk = record_.chunks[chunkIndex];
  const InstructionRecord &instruction = chunk.instructions[index];
  operands_.clear();
  for (int64_t i = 0; i < instruction.operandCount; ++i) {
    const OperandRecord &operand = chunk.operands[instruction.firstOperand + i];
    operands_.push_back(slotBases_[operand.slot] + static_cast<uint64_t>(operand.offset));
  }
  const DeviceInstruction &made = program_.at(chunkIndex, index);
  MGC_TRY(std::visit([&](const auto &body) { return execute(body, made, chunk); }, instruction.body));
  return made.collective < 0 ? Status::ok() : endCollective(made);
}

// Its event comes last: what a captured step does not wait for is refused. A measured step waits at once, so that what each
// instruction takes can be told.
Status StreamExecutor::endCollective(const DeviceInstruction &made) {
  const Stream &side = sides_.at(made.side).stream;
  MGC_TRY(mark(side));
  MGC_TRY(side.record(ends_[made.collective]));
  return clock_ ? stream_->wait(ends_[made.collective]) : Status::ok();
}

// That the instruction is done. No part of what a kernel takes: writing to the host's memory waits for all that was written before.
Status StreamExecutor::mark(const Stream &stream) {
  const StreamKind kind = positions_[enqueued_++].kind;
  return options_.marks ? stream.mark(options_.marks + static_cast<size_t>(kind), enqueued_) : Status::ok();
}

Status StreamExecutor::execute(const RowRecord &row, const DeviceInstruction &made,
                               const ChunkRecord &chunk) {
  return stream_->launch(*made.kernel, operands_,
                         std::span(chunk.scalars).subspan(row.firstScalar, made.scalars));
}

Status StreamExecutor::execute(const GemmRecord &record, const DeviceInstruction &made, const ChunkRecord &) {
  constexpr mgc_address alignment = kCudaWorkspaceAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(*record.gemm);
  const auto at = [&](int64_t number) { return number < 0 ? 0 : operands_[number]; };
  return stream_->gemm(*made.gemm, {.a = operands_[0],
                                    .b = operands_[1],
                                    .bias = at(numbers.bias),
                                    .c = at(numbers.c),
                                    .preactivation = at(numbers.preactivation),
                                    .workspace = roundUp(at(numbers.workspace), alignment)});
}

// The order of the operands is that of plan::Attention: starts and samples are there where its facts say so.
Status StreamExecutor::execute(const AttentionRecord &record, const DeviceInstruction &made,
                               const ChunkRecord &) {
  const plan::Attention &attention = *record.attention;
  auto next = operands_.begin();
  mgc_attention_operands to{};
  to.q = *next++;
  to.k = *next++;
  to.v = *next++;
  if (attention.backward) {
    to.o = *next++;
    to.lse = *next++;
    to.output_gradient = *next++;
  }
  to.query_positions = *next++;
  to.key_positions = *next++;
  if (attention.documents)
    to.starts = *next++;
  if (attention.dropout > 0)
    to.samples = *next++;
  if (attention.backward) {
    to.dq = *next++;
    to.dk = *next++;
    to.dv = *next++;
  } else {
    to.o = *next++;
    to.lse = *next++;
  }
  to.workspace = *next++;
  return stream_->attention(*made.attention, to);
}

// A collective begins behind the work that its run has enqueued. Later work waits for it where it must: StepJoins.h.
Status StreamExecutor::execute(const CollectiveRecord &record, const DeviceInstruction &made,
                               const ChunkRecord &) {
  const Side &side = sides_.at(made.side);
  MGC_TRY(stream_->record(side.begin));
  MGC_TRY(side.stream.wait(side.begin));
  const mgc_address workspace = record.collective->workspaceBytes > 0 ? operands_[2] : 0;
  return communicator_.collective(side.stream, record.group, *record.collective, operands_[0], operands_[1],
                                  workspace);
}

Status StreamExecutor::copy(mgc_address to, mgc_address from, int64_t bytes) const {
  return from == to || bytes == 0 ? Status::ok() : stream_->copy(to, from, bytes);
}

// The last operand is written; a fill has no other.
Status StreamExecutor::execute(const MoveRecord &record, const DeviceInstruction &, const ChunkRecord &) {
  const plan::Move &move = *record.move;
  const mgc_address from = operands_.front(), to = operands_.back();
  switch (move.kind) {
  case plan::Move::Kind::slice:
    if (move.outer == 0 || move.chunkBytes == 0)
      return Status::ok();
    return stream_->copyRows(to, move.chunkBytes,
                             from + static_cast<uint64_t>(record.coordinate * move.chunkBytes),
                             record.groupSize * move.chunkBytes, move.chunkBytes, move.outer);
  case plan::Move::Kind::fill:
    return move.bytes == 0 ? Status::ok() : stream_->fill(to, 0, move.bytes);
  case plan::Move::Kind::demote:
    if (record.coordinate != 0)
      return move.bytes == 0 ? Status::ok() : stream_->fill(to, 0, move.bytes);
    [[fallthrough]];
  case plan::Move::Kind::copy:
    return copy(to, from, move.bytes);
  }
  return Status::ok();
}

} // namespace mgc
