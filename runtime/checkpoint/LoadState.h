// Training state from a checkpoint to the memory of the ranks, whatever layout, ZeRO level and dtype wrote it.
#pragma once

#include "runtime/checkpoint/Filler.h"
#include "runtime/checkpoint/StateReader.h"

namespace mgc {

enum class StatePart { all, weights }; // weights: moments become zero

// Whether the checkpoint has the plan's tensors, in shape and type, and no others; up to 20 lines say what is wrong.
Status verifyStateFits(const plan::Plan &plan, const StateReader &checkpoint, StatePart part);

// Fills values, masters and moments. The checkpoint fits.
Status loadState(const plan::Plan &plan, const StateReader &checkpoint, Arenas arenas, StatePart part,
                 const FillOptions &fill = {});

} // namespace mgc
