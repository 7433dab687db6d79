// How often a plan runs what: the one place of this library that walks programs, chunks and schedules.
#pragma once

#include "plan/Expand.h"

namespace mgc::cost {

// Programs of a block are named "layer.forward", "layer.backward", or "layer.input" and "layer.weight".
inline bool isForward(const plan::Program &program) { return program.name.ends_with(".forward"); }
// The whole backward pass, or its first half: what recomputes.
inline bool beginsBackward(const plan::Program &program) {
  return program.name.ends_with(".backward") || program.name.ends_with(".input");
}
// "layer.full.forward" is of the block layer.
inline std::string blockOf(const plan::Program &program) { return program.name.substr(0, program.name.find('.')); }
// Whether backward has nothing of forward but the block's input.
inline bool recomputesAll(const plan::Program &program) { return program.policy == "full"; }

template <typename Visit> void forEachInstruction(const plan::Program &program, Visit &&visit) {
  plan::forEachRun(program.instructions.size(), program.repeats,
                   [&](int64_t number, int64_t) { visit(program.instructions[number]); });
}

// Calls visit(item, runs) for each item of the list once.
template <typename Item, typename Visit>
void forEachItem(const std::vector<Item> &items, const std::vector<plan::Repeat> &repeats, Visit &&visit) {
  auto repeat = repeats.begin();
  for (int64_t number = 0; number < std::ssize(items); ++number) {
    while (repeat != repeats.end() && number >= repeat->end)
      ++repeat;
    const bool isRepeated = repeat != repeats.end() && number >= repeat->begin;
    visit(items[number], isRepeated ? repeat->count : int64_t(1));
  }
}

// Calls visit(call, runs). Its instance and what it binds are those of its first run; the others are strides away
// (plan::inIteration).
template <typename Visit> void forEachCall(const plan::Chunk &chunk, Visit &&visit) {
  forEachItem(chunk.calls, chunk.repeats, std::forward<Visit>(visit));
}

// Calls visit(step, runs). Its microbatch is that of its first run.
template <typename Visit> void forEachStep(const plan::StagePlan &stage, Visit &&visit) {
  forEachItem(stage.schedule, stage.repeats, std::forward<Visit>(visit));
}

// How often a training step runs all of each chunk.
std::vector<int64_t> runsOfChunks(const plan::StagePlan &stage);

// The parameter's elements in all its instances, without padding.
int64_t elementsOf(const plan::Parameter &parameter);

} // namespace mgc::cost
