// The part of StreamExecutor that enqueues the instructions of a chunk.
#include "runtime/base/Rounding.h"
#include "runtime/exec/StreamExecutor.h"

#include "plan/Operands.h"
#include "plan/targets/CudaGemm.h"

namespace mgc {

using plugin::Stream;

void StreamExecutor::bindSlots(Cursor &cursor, const plan::ExpandedStep &step) const {
  cursor.slotBases[0] = options_.arena;
  for (size_t slot = 0; slot < step.slots.size(); ++slot)
    cursor.slotBases[slot + 1] = options_.arena + static_cast<uint64_t>(step.slots[slot]);
}

void StreamExecutor::bindOperands(Cursor &cursor, const ChunkRecord &chunk,
                                  const InstructionRecord &instruction) const {
  cursor.operands.clear();
  for (int64_t i = 0; i < instruction.operandCount; ++i) {
    const OperandRecord &operand = chunk.operands[instruction.firstOperand + i];
    cursor.operands.push_back(cursor.slotBases[operand.slot] + static_cast<uint64_t>(operand.offset));
  }
}

Status StreamExecutor::runChunk(Cursor &cursor, int64_t index) {
  const StepRecord &run = record_.schedule[index];
  const ChunkRecord &chunk = record_.chunks[run.step.chunk];
  bindSlots(cursor, run.step);
  std::span<const Join> joins = program_.joins(index);
  const auto joinBefore = [&](int64_t instruction) -> Status {
    for (; !joins.empty() && joins.front().before == instruction; joins = joins.subspan(1))
      MGC_TRY(joinCollective(*cursor.stream, program_.at(run.step.chunk, joins.front().collective)));
    return Status::ok();
  };
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i) {
    cursor.place.instruction = chunk.instructions[i].instruction->label;
    if (options_.inject)
      MGC_TRY(options_.inject(cursor.place));
    MGC_TRY(joinBefore(i));
    if (clock_)
      MGC_TRY(clock_->instructionBegins(*cursor.stream, index, i));
    MGC_TRY(runInstruction(cursor, index, i));
    if (clock_)
      MGC_TRY(clock_->instructionEnds(*cursor.stream));
  }
  cursor.place.instruction = {};
  return joinBefore(run.endInstruction);
}

Status StreamExecutor::runInstruction(Cursor &cursor, int64_t run, int64_t index) {
  const int64_t chunkIndex = record_.schedule[run].step.chunk;
  const ChunkRecord &chunk = record_.chunks[chunkIndex];
  const InstructionRecord &instruction = chunk.instructions[index];
  const PreparedInstruction &made = program_.at(chunkIndex, index);
  bindOperands(cursor, chunk, instruction);
  if (made.concurrent >= 0)
    return enqueueConcurrent(cursor, run, index);
  MGC_TRY(std::visit([&](const auto &body) { return execute(body, made, chunk, cursor); }, instruction.body));
  return mark(*cursor.stream);
}

// A collective begins behind the work that its run has enqueued. Later work waits for it where it must: StepJoins.h. A measured
// step waits at once, so that what each instruction takes can be told. Its event comes last: what a captured step does not
// wait for is refused.
Status StreamExecutor::enqueueConcurrent(const Cursor &cursor, int64_t run, int64_t index) {
  const int64_t chunk = record_.schedule[run].step.chunk;
  const auto &record = std::get<CollectiveRecord>(record_.chunks[chunk].instructions[index].body);
  const PreparedInstruction &made = program_.at(chunk, index);
  Lane &lane = lanes_.at(made.side);
  if (options_.isOnHost) {
    if (clock_)
      return collective(record, cursor, *cursor.stream);
    concurrentNumbers_[made.concurrent] = lane.thread->enqueue({run, index});
    return Status::ok();
  }
  MGC_TRY(cursor.stream->record(lane.begin));
  MGC_TRY(lane.stream.wait(lane.begin));
  MGC_TRY(collective(record, cursor, lane.stream));
  MGC_TRY(mark(lane.stream));
  MGC_TRY(lane.stream.record(ends_[made.concurrent]));
  return clock_ ? cursor.stream->wait(ends_[made.concurrent]) : Status::ok();
}

Status StreamExecutor::joinCollective(const Stream &stream, const PreparedInstruction &made) {
  if (!options_.isOnHost)
    return stream.wait(ends_[made.concurrent]);
  return clock_ ? Status::ok() : await(*lanes_.at(made.side).thread, concurrentNumbers_[made.concurrent]);
}

// An error ends all ranks, this one's thread too, which waits for the work.
void StreamExecutor::work(Lane &lane, const LaneWork &work) {
  if (communicator_.isAborted())
    return;
  placeAtRun(lane.cursor, work.run);
  const Status status =
      work.instruction < 0 ? runChunk(lane.cursor, work.run) : workCollective(lane.cursor, work);
  if (!status.isOk())
    communicator_.abort(Status(status).at(toString(lane.cursor.place)));
}

Status StreamExecutor::workCollective(Cursor &cursor, const LaneWork &work) {
  const StepRecord &run = record_.schedule[work.run];
  const ChunkRecord &chunk = record_.chunks[run.step.chunk];
  const InstructionRecord &instruction = chunk.instructions[work.instruction];
  cursor.place.instruction = instruction.instruction->label;
  bindSlots(cursor, run.step);
  bindOperands(cursor, chunk, instruction);
  return collective(std::get<CollectiveRecord>(instruction.body), cursor, *cursor.stream);
}

Status StreamExecutor::collective(const CollectiveRecord &record, const Cursor &cursor,
                                  const Stream &stream) {
  const plan::Collective &what = *record.collective;
  if (cursor.isOfLane)
    return communicator_.concurrentCollective(record.group, what, cursor.operands[0], cursor.operands[1]);
  const mgc_address workspace = what.workspaceBytes > 0 ? cursor.operands[2] : 0;
  return communicator_.collective(stream, record.group, what, cursor.operands[0], cursor.operands[1],
                                  workspace);
}

// That the instruction is done. No part of what a kernel takes: writing to the host's memory waits for all that was written before.
Status StreamExecutor::mark(const Stream &stream) {
  if (!options_.marks)
    return Status::ok();
  const StreamKind kind = positions_[enqueued_++].kind;
  return stream.mark(options_.marks + static_cast<size_t>(kind), enqueued_);
}

Status StreamExecutor::execute(const RowRecord &row, const PreparedInstruction &made,
                               const ChunkRecord &chunk, const Cursor &cursor) {
  return cursor.stream->launch(made.kernel, cursor.operands,
                               std::span(chunk.scalars).subspan(row.firstScalar, made.scalars));
}

Status StreamExecutor::execute(const GemmRecord &record, const PreparedInstruction &made, const ChunkRecord &,
                               const Cursor &cursor) {
  constexpr mgc_address alignment = kCudaWorkspaceAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(*record.gemm);
  const auto at = [&](int64_t number) { return number < 0 ? 0 : cursor.operands[number]; };
  return cursor.stream->gemm(*made.gemm, {.a = cursor.operands[0],
                                          .b = cursor.operands[1],
                                          .bias = at(numbers.bias),
                                          .c = at(numbers.c),
                                          .preactivation = at(numbers.preactivation),
                                          .workspace = roundUp(at(numbers.workspace), alignment)});
}

// The order of the operands is that of plan::Attention: starts and samples are there where its facts say so.
Status StreamExecutor::execute(const AttentionRecord &record, const PreparedInstruction &made,
                               const ChunkRecord &, const Cursor &cursor) {
  const plan::Attention &attention = *record.attention;
  auto next = cursor.operands.begin();
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
  return cursor.stream->attention(*made.attention, to);
}

Status StreamExecutor::execute(const CollectiveRecord &record, const PreparedInstruction &,
                               const ChunkRecord &, const Cursor &cursor) {
  return collective(record, cursor, *cursor.stream);
}

// The last operand is written; a fill has no other.
Status StreamExecutor::execute(const MoveRecord &record, const PreparedInstruction &, const ChunkRecord &,
                               const Cursor &cursor) {
  const plan::Move &move = *record.move;
  const mgc_address from = cursor.operands.front(), to = cursor.operands.back();
  switch (move.kind) {
  case plan::Move::Kind::slice:
    if (move.outer == 0 || move.chunkBytes == 0)
      return Status::ok();
    return cursor.stream->copyRows(to, move.chunkBytes,
                                   from + static_cast<uint64_t>(record.coordinate * move.chunkBytes),
                                   record.groupSize * move.chunkBytes, move.chunkBytes, move.outer);
  case plan::Move::Kind::fill:
    return move.bytes == 0 ? Status::ok() : cursor.stream->fill(to, 0, move.bytes);
  case plan::Move::Kind::demote:
    if (record.coordinate != 0)
      return move.bytes == 0 ? Status::ok() : cursor.stream->fill(to, 0, move.bytes);
    [[fallthrough]];
  case plan::Move::Kind::copy:
    return from == to || move.bytes == 0 ? Status::ok() : cursor.stream->copy(to, from, move.bytes);
  }
  return Status::ok();
}

} // namespace mgc
