// The part of RankExecutor that executes the instructions of a chunk.
#include "runtime/exec/RankExecutor.h"

#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/Move.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>

namespace mgc {

Status RankExecutor::runChunk(int64_t index) {
  const plan::ExpandedStep &step = record_.schedule[index].step;
  const Timeline::Span span(timeline_, Timeline::Kind::chunk, index);
  slotBases_[0] = arena_;
  for (size_t slot = 0; slot < step.slots.size(); ++slot)
    slotBases_[slot + 1] = arena_ + step.slots[slot];
  const ChunkRecord &chunk = record_.chunks[step.chunk];
  const StepRecord &run = record_.schedule[index];
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i) {
    place_.instruction = chunk.instructions[i].instruction->label;
    if (options_.inject)
      MGC_TRY(options_.inject(place_));
    const Timeline::Span instruction(timeline_, Timeline::Kind::instruction, index, i);
    MGC_TRY(runInstruction(chunk, chunk.instructions[i]));
  }
  place_.instruction = {};
  return Status::ok();
}

Status RankExecutor::runInstruction(const ChunkRecord &chunk, const InstructionRecord &instruction) {
  for (int64_t i = 0; i < instruction.operandCount; ++i) {
    const OperandRecord &operand = chunk.operands[instruction.firstOperand + i];
    operands_[i] = slotBases_[operand.slot] + operand.offset;
  }
  if (const auto *row = std::get_if<RowRecord>(&instruction.body))
    execute(*row, chunk);
  else if (const auto *gemm = std::get_if<GemmRecord>(&instruction.body))
    execute(*gemm);
  else if (const auto *attention = std::get_if<AttentionRecord>(&instruction.body))
    execute(*attention);
  else if (const auto *collective = std::get_if<CollectiveRecord>(&instruction.body))
    return execute(*collective);
  else
    execute(std::get<MoveRecord>(instruction.body), instruction.operandCount);
  return Status::ok();
}

// Parts of a row kernel are independent, so the number of threads does not change a bit of the result.
void RankExecutor::execute(const RowRecord &row, const ChunkRecord &chunk) {
  const int64_t *scalars = chunk.scalars.data() + row.firstScalar;
  const int64_t parts = std::min<int64_t>(options_.threads, row.range);
  if (parts <= 1) {
    row.function(operands_.data(), scalars, 0, row.range);
    return;
  }
  parallelFor(options_.threads, parts, parts, [&](int64_t part, int64_t) {
    row.function(operands_.data(), scalars, row.range * part / parts, row.range * (part + 1) / parts);
  });
}

void RankExecutor::execute(const GemmRecord &gemm) {
  mgc::gemm(*gemm.gemm, operands_[0], operands_[1], operands_[2], options_.threads);
}

// The order of the operands is that of plan::Attention: starts and samples are there where its facts say so.
void RankExecutor::execute(const AttentionRecord &record) {
  const plan::Attention &attention = *record.attention;
  int64_t next = 0;
  AttentionOperands to;
  to.q = operands_[next++];
  to.k = operands_[next++];
  to.v = operands_[next++];
  if (attention.backward) {
    to.o = operands_[next++];
    to.lse = operand<float>(next++);
    to.outputGradient = operands_[next++];
  }
  to.queryPositions = operand<int32_t>(next++);
  to.keyPositions = operand<int32_t>(next++);
  if (attention.documents)
    to.starts = operand<int32_t>(next++);
  if (attention.dropout > 0)
    to.samples = operand<int32_t>(next++);
  if (attention.backward) {
    to.dq = operands_[next++];
    to.dk = operands_[next++];
    to.dv = operands_[next++];
  } else {
    to.o = operands_[next++];
    to.lse = operand<float>(next++);
  }
  to.workspace = operand<void>(next++);
  mgc::attention(attention, to, record.scalars, options_.threads);
}

Status RankExecutor::execute(const CollectiveRecord &record) {
  return communicator_.collective(record.group, *record.collective, operands_[0], operands_[1]);
}

// The last operand is written; a fill has no other.
void RankExecutor::execute(const MoveRecord &record, int64_t operandCount) {
  const plan::Move &move = *record.move;
  const auto *from = operand<const std::byte>(0);
  auto *to = operand<std::byte>(operandCount - 1);
  switch (move.kind) {
  case plan::Move::Kind::slice:
    copyRows(options_.threads, to, from + record.coordinate * move.chunkBytes,
             {move.outer, move.chunkBytes, record.groupSize * move.chunkBytes});
    return;
  case plan::Move::Kind::fill:
    fillZero(options_.threads, to, move.bytes);
    return;
  case plan::Move::Kind::demote:
    if (record.coordinate != 0) {
      fillZero(options_.threads, to, move.bytes);
      return;
    }
    [[fallthrough]];
  case plan::Move::Kind::copy:
    if (from != to)
      copyRows(options_.threads, to, from, {1, move.bytes, move.bytes});
  }
}

} // namespace mgc
