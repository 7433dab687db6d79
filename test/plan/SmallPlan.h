// A plan made by hand that passes verifyPlan and has one of everything: 2 stages x 2 data ranks x 2 tensor
// ranks, a tied parameter, two parameters of one matrix, ZeRO-1 and plain buckets, each kind of instruction, attention
// on operands that are apart and that are in one buffer, sends and receives in both directions.
#pragma once

#include "plan/Plan.h"

namespace mgc::plan {

Plan makeSmallPlan();

// Indices of its instructions in programs[0].
enum SmallInstruction {
  kGemm,
  kRowKernel,
  kAttention,
  kAttentionBackward,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kCopy,
  kFill,
  kSlice,
  kDemote,
  kGroupedGemm,
  kGroupedSums,
  kGroupRows,
  kDropChoices,
  kExchangeRows
};

} // namespace mgc::plan
