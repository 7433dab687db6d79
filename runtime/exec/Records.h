// A rank's chunks and schedule, resolved from the plan for this rank once at load: flat lists with nothing left to
// look up. An operand's address is the base of its slot, which the schedule step gives, plus a fixed offset.
#pragma once

#include "plan/Expand.h"
#include "runtime/comm/Communicator.h"
#include "runtime/kernels/CpuAttention.h"

#include <string>
#include <variant>
#include <vector>

namespace mgc {

// Slot 0 is the rank's allocation, slot i + 1 is slot i of the chunk.
struct OperandRecord {
  int64_t slot = 0;
  int64_t offset = 0; // bytes
};

struct RowRecord {
  int64_t firstScalar = 0; // in ChunkRecord::scalars
};
struct GemmRecord {
  const plan::Gemm *gemm = nullptr;
};
struct AttentionRecord {
  const plan::Attention *attention = nullptr;
  AttentionScalars scalars;
  int64_t part = 0; // the coordinate along attention->queryAxes
};
struct CollectiveRecord {
  const plan::Collective *collective = nullptr;
  GroupId group = -1;
};
struct MoveRecord {
  const plan::Move *move = nullptr;
  int64_t coordinate = 0, groupSize = 1; // along move->axes
};

struct InstructionRecord {
  std::variant<RowRecord, GemmRecord, AttentionRecord, CollectiveRecord, MoveRecord> body;
  int64_t firstOperand = 0, operandCount = 0; // in ChunkRecord::operands
  const plan::Instruction *instruction = nullptr;
  int64_t layer = 0; // the block instance it belongs to
};

struct ChunkRecord {
  const plan::Chunk *chunk = nullptr;
  std::string name; // of the chunk, for errors
  std::vector<InstructionRecord> instructions;
  std::vector<int64_t> callBegins; // in instructions, of each call and behind the last
  std::vector<OperandRecord> operands;
  std::vector<int64_t> scalars;
};

struct StepRecord {
  plan::ExpandedStep step;
  int64_t peer = -1;                                // rank of the other end of a transfer
  int64_t firstInstruction = 0, endInstruction = 0; // of the chunk, for a run
};

struct RankRecord {
  int64_t rank = 0, stageIndex = 0;
  const plan::StagePlan *stage = nullptr;
  std::vector<ChunkRecord> chunks;
  std::vector<StepRecord> schedule;
  int64_t updateStep = 0; // index of the first step that runs the chunk of task update; else the end
  int64_t maxOperands = 0, maxSlots = 0, transfers = 0;
};

} // namespace mgc
