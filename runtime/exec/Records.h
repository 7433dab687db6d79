// A rank's chunks and schedule, resolved from the plan for this rank once at load: flat lists with nothing left to
// look up. An operand's address is the base of its slot, which the schedule step gives, plus a fixed offset.
#pragma once

#include "plan/Expand.h"
#include "runtime/comm/Communicator.h"

#include <span>
#include <string>
#include <vector>

namespace mgc {

// Slot 0 is the rank's allocation, slot i + 1 is slot i of the chunk.
struct OperandRecord {
  int64_t slot = 0;
  int64_t offset = 0; // bytes
};

// Its kind is that of the plan's instruction; what depends on the rank and the call stands here, whatever the kind.
struct InstructionRecord {
  const plan::Instruction *instruction = nullptr;
  int64_t firstOperand = 0, operandCount = 0; // in ChunkRecord::operands
  int64_t firstScalar = 0, scalarCount = 0;   // in ChunkRecord::scalars: plan::runScalarsOf
  int64_t coordinate = 0, coordinates = 1;    // along plan::placementOf: which, of how many
  GroupId group = -1;                         // for a communication
  int64_t layer = 0;                          // the block instance it belongs to
  bool isOfSeveralLayers = false;             // its program is
};

struct ChunkRecord {
  const plan::Chunk *chunk = nullptr;
  std::string name; // name of the chunk, for errors
  std::vector<InstructionRecord> instructions;
  std::vector<int64_t> callBegins; // in instructions, of each call and behind the last
  std::vector<OperandRecord> operands;
  std::vector<int64_t> scalars;
  std::span<const OperandRecord> operandsOf(const InstructionRecord &instruction) const {
    return std::span(operands).subspan(instruction.firstOperand, instruction.operandCount);
  }
  std::span<const int64_t> scalarsOf(const InstructionRecord &instruction) const {
    return std::span(scalars).subspan(instruction.firstScalar, instruction.scalarCount);
  }
};

struct StepRecord {
  plan::ExpandedStep step;
  int64_t peer = -1;                                // rank of the other end of a transfer
  int64_t firstInstruction = 0, endInstruction = 0; // range in the chunk, for a run
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
