// The part of StreamExecutor that enqueues the instructions of a chunk.
#include "runtime/exec/StreamExecutor.h"

namespace mgc {

using plugin::Event;
using plugin::Stream;

void StreamExecutor::bindSlots(Cursor &cursor, const plan::ExpandedStep &step) const {
  cursor.slotBases[0] = 0;
  for (size_t slot = 0; slot < step.slots.size(); ++slot)
    cursor.slotBases[slot + 1] = step.slots[slot];
}

void StreamExecutor::bindOperands(Cursor &cursor, const ChunkRecord &chunk,
                                  const InstructionRecord &instruction) const {
  cursor.operands.clear();
  for (int64_t i = 0; i < instruction.operandCount; ++i) {
    const OperandRecord &operand = chunk.operands[instruction.firstOperand + i];
    cursor.operands.push_back(options_.addresses.at(cursor.slotBases[operand.slot] + operand.offset));
  }
}

Status StreamExecutor::runChunk(Cursor &cursor, int64_t index) {
  const StepRecord &run = record_.schedule[index];
  beginChunk(cursor, index);
  MGC_TRY(runInstructions(cursor, index, run.firstInstruction, run.endInstruction));
  return joinBefore(cursor, index, run.endInstruction);
}

void StreamExecutor::beginChunk(Cursor &cursor, int64_t index) {
  bindSlots(cursor, record_.schedule[index].step);
  cursor.countsRead = -1;
  cursor.joins = program_.joins(index);
}

Status StreamExecutor::joinBefore(Cursor &cursor, int64_t index, int64_t instruction) {
  const int64_t chunk = record_.schedule[index].step.chunk;
  for (std::span<const plan::Join> &joins = cursor.joins; !joins.empty() && joins.front().before == instruction;
       joins = joins.subspan(1))
    MGC_TRY(joinCollective(cursor, program_.at(chunk, joins.front().work)));
  return Status::ok();
}

Status StreamExecutor::runInstructions(Cursor &cursor, int64_t index, int64_t begin, int64_t end) {
  const ChunkRecord &chunk = record_.chunks[record_.schedule[index].step.chunk];
  for (int64_t i = begin; i < end; ++i) {
    stand(cursor.place, chunk, i);
    if (options_.inject)
      MGC_TRY(options_.inject(cursor.place));
    MGC_TRY(joinBefore(cursor, index, i));
    if (clock_)
      MGC_TRY(clock_->instructionBegins(*cursor.stream, index, i));
    MGC_TRY(runInstruction(cursor, index, i));
    if (clock_)
      MGC_TRY(clock_->instructionEnds(*cursor.stream));
  }
  cursor.place.instruction = {};
  return Status::ok();
}

Status StreamExecutor::runInstruction(Cursor &cursor, int64_t run, int64_t index) {
  const int64_t chunkIndex = record_.schedule[run].step.chunk;
  const ChunkRecord &chunk = record_.chunks[chunkIndex];
  const InstructionRecord &instruction = chunk.instructions[index];
  const PreparedInstruction &made = program_.at(chunkIndex, index);
  bindOperands(cursor, chunk, instruction);
  if (made.concurrent >= 0)
    return enqueueConcurrent(cursor, run, index);
  MGC_TRY(execute(cursor, chunk, index, *cursor.stream, made));
  return mark(*cursor.stream);
}

// A collective begins behind the work that its run has enqueued. Later work waits for it where it must: plan/Joins.h. A measured
// step waits at once, so that what each instruction takes can be told. Its event comes last: what a captured step does not
// wait for is refused.
Status StreamExecutor::enqueueConcurrent(Cursor &cursor, int64_t run, int64_t index) {
  const int64_t chunkIndex = record_.schedule[run].step.chunk;
  const ChunkRecord &chunk = record_.chunks[chunkIndex];
  const PreparedInstruction &made = program_.at(chunkIndex, index);
  Lane &lane = lanes_.at(made.side);
  if (options_.isOnHost) {
    if (clock_)
      return execute(cursor, chunk, index, *cursor.stream, made);
    concurrentNumbers_[made.concurrent] = lane.thread->enqueue({run, index});
    return Status::ok();
  }
  MGC_TRY(cursor.stream->record(lane.begin));
  MGC_TRY(lane.stream.wait(lane.begin));
  MGC_TRY(execute(cursor, chunk, index, lane.stream, made));
  MGC_TRY(mark(lane.stream));
  const Event &end = ends_[cursor.firstEnd + made.concurrent];
  MGC_TRY(lane.stream.record(end));
  return clock_ ? cursor.stream->wait(end) : Status::ok();
}

Status StreamExecutor::joinCollective(const Cursor &cursor, const PreparedInstruction &made) {
  if (!options_.isOnHost)
    return cursor.stream->wait(ends_[cursor.firstEnd + made.concurrent]);
  return clock_ ? Status::ok() : await(*lanes_.at(made.side).thread, concurrentNumbers_[made.concurrent]);
}

// An error ends all ranks, this one's thread too, which waits for the work.
void StreamExecutor::work(Lane &lane, const LaneWork &work) {
  if (communicator_.isAborted())
    return;
  placeAtRun(lane.cursor, work.run);
  const Status status = work.instruction < 0 ? runChunk(lane.cursor, work.run) : workCollective(lane.cursor, work);
  if (!status.isOk())
    communicator_.abort(Status(status).at(toString(lane.cursor.place)));
}

Status StreamExecutor::workCollective(Cursor &cursor, const LaneWork &work) {
  const StepRecord &run = record_.schedule[work.run];
  const ChunkRecord &chunk = record_.chunks[run.step.chunk];
  const InstructionRecord &instruction = chunk.instructions[work.instruction];
  stand(cursor.place, chunk, work.instruction);
  bindSlots(cursor, run.step);
  bindOperands(cursor, chunk, instruction);
  return execute(cursor, chunk, work.instruction, *cursor.stream, program_.at(run.step.chunk, work.instruction));
}

// On a device one thread enqueues all exchanges; threads of a host read their counts each time.
Status StreamExecutor::execute(Cursor &cursor, const ChunkRecord &chunk, int64_t index, const Stream &stream,
                               const PreparedInstruction &made) {
  const InstructionRecord &record = chunk.instructions[index];
  const bool hasSameCounts = made.countsOf >= 0 && made.countsOf == cursor.countsRead && !options_.isOnHost;
  if (made.countsOf >= 0)
    cursor.countsRead = made.countsOf;
  const Enqueueing at = {made.call, record,        chunk.scalarsOf(record), cursor.operands,
                         stream,    communicator_, cursor.isOfLane,         hasSameCounts};
  return std::visit([&](const auto &kind) { return mgc::enqueue(at, kind); }, record.instruction->body);
}

// Marks that the instruction is done. This is not part of the kernel: its writes to the host's memory would wait for
// all earlier writes.
Status StreamExecutor::mark(const Stream &stream) {
  if (!options_.marks)
    return Status::ok();
  const StreamKind kind = positions()[enqueued_++].kind;
  return stream.mark(options_.marks + static_cast<size_t>(kind), enqueued_);
}

} // namespace mgc
