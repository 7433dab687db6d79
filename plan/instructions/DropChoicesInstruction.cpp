#include "plan/instructions/DropChoicesInstruction.h"

#include "plan/instructions/AttributeChecks.h"

#include <limits>

namespace mgc::plan {

// The choices of a group by expert, and where each expert's begin.
Checked DropChoices::workspaceBytes() const {
  const Checked choices = checkedProduct({tokens, together, chosen});
  const Checked numbers = choices ? checkedAdd(*choices, experts) : Checked();
  const Checked all = numbers ? checkedAdd(*numbers, 1) : Checked();
  return all ? checkedMultiply(*all, sizeInBytes(DType::i32)) : Checked();
}

OperandInfos DropChoices::operands(const Mesh &) const {
  const Checked choices = checkedProduct({tokens, sequences, chosen});
  OperandInfos infos = {elementsOf(DType::i32, "experts", choices), elementsOf(DType::f32, "weights", choices),
                        elementsOf(DType::i32, "positions", checkedMultiply(tokens, sequences)),
                        elementsOf(DType::i32, "kept", choices, OperandUse::written)};
  if (const Checked bytes = workspaceBytes())
    addWorkspace(infos, *bytes);
  return infos;
}

std::string DropChoices::sizes() const {
  return fmt::format("{} choices of {} tokens, {} for each of {} experts, {}", tokens * sequences * chosen,
                     tokens * sequences, capacity, experts, byPosition ? "by position" : "by weight");
}

void DropChoices::verify(AttributeChecks &checks) const {
  if (!checks.need(checks.arePositive({{"tokens", tokens},
                                       {"sequences", sequences},
                                       {"chosen", chosen},
                                       {"experts", experts},
                                       {"capacity", capacity},
                                       {"together", together}})))
    return;
  const Checked choices = checkedProduct({tokens, sequences, chosen});
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  checks.need(checks.expect(choices && *choices <= most && experts < most,
                            "{} x {} x {} choices of {} experts are more than i32 numbers", tokens, sequences, chosen,
                            experts));
  checks.expect(chosen <= experts, "chosen = {} of {} experts", chosen, experts);
  checks.expect(sequences % together == 0, "together = {} does not divide {} sequences", together, sequences);
}

} // namespace mgc::plan
