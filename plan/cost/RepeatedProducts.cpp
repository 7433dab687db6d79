// See RepeatedProducts.h.
#include "plan/cost/RepeatedProducts.h"

#include "plan/cost/PlanWalk.h"

#include <algorithm>

namespace mgc::cost {

namespace {

auto lastProduct(const plan::Program &program) {
  return std::ranges::find_if(program.instructions.rbegin(), program.instructions.rend(),
                              [](const auto &one) { return kindOf(one.body) == plan::WorkKind::product; });
}

// "einsum model.layers.{}.mlp.down_proj.weight" of "layer.forward/einsum ..".
std::string_view nameInBlock(const plan::Instruction &instruction) {
  return std::string_view(instruction.label).substr(instruction.label.find('/') + 1);
}

// Whether the program has the forward pass's last product already: a norm behind it wants its result again.
bool repeatsLast(const plan::Program &program, const plan::Program &forward) {
  const auto last = lastProduct(forward);
  return last == forward.instructions.rend() ||
         std::ranges::any_of(program.instructions, [&](const plan::Instruction &one) {
           return one.body == last->body && nameInBlock(one) == nameInBlock(*last);
         });
}

// From the last product of a program on.
plan::Program endOf(const plan::Program &program) {
  plan::Program end = program;
  const auto last = lastProduct(end);
  end.instructions.erase(end.instructions.begin(),
                         last == end.instructions.rend() ? end.instructions.end() : last.base() - 1);
  end.repeats.clear();
  return end;
}

} // namespace

std::vector<ProgramTime> repeatedProducts(const Cluster &cluster, const plan::Plan &plan) {
  std::vector<ProgramTime> times(plan.programs.size());
  for (size_t i = 0; cluster.stack.repeatsLastProduct && i < plan.programs.size(); ++i) {
    const plan::Program &backward = plan.programs[i];
    if (!recomputesAll(backward) || !beginsBackward(backward))
      continue;
    for (const plan::Program &forward : plan.programs)
      if (&forward != &backward && recomputesAll(forward) && blockOf(forward) == blockOf(backward) &&
          isForward(forward) && !repeatsLast(backward, forward))
        times[i] += secondsOf(cluster, endOf(forward), cluster.stack.rows.layers);
  }
  return times;
}

} // namespace mgc::cost
