// The instruction "dropChoices": the choices of a router for which their experts have room.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Each token of `tokens` positions of `sequences` sequences has `chosen` experts of `experts`. Tokens of `together`
// sequences, one group after another, share the room of each expert: `capacity` choices. The choices of an expert stand
// in a line, the largest weight first, or with byPosition the first position; among equal weights, and then among equal
// positions of several sequences, the first one. NaN is larger than any number. kept has the expert of a choice that is
// in the first `capacity` of its line, and else `experts`, which is no expert's number.
//     experts 2, chosen 1, capacity 2: choices 0 0 1 0, weights .5 .7 .9 .6        kept 2 0 1 0
// Operands experts[tokens, sequences, chosen] i32, weights f32 and positions[tokens, sequences] i32, kept i32 written, and a
// workspace. A number that is no expert's ends the step with an error that names the choice, before anything is written.
struct DropChoices {
  static constexpr std::string_view kName = "dropChoices";
  static constexpr WorkKind kWork = WorkKind::move;
  int64_t tokens = 0, sequences = 0, chosen = 0;
  int64_t experts = 0, capacity = 0, together = 1;
  bool byPosition = false;
  bool operator==(const DropChoices &) const = default;

  Checked workspaceBytes() const;
  OperandInfos operands(const Mesh &) const;
  Work work(const Mesh &) const { return {}; }
  std::string sizes() const;
  void verify(AttributeChecks &checks) const;
};

template <typename V> constexpr void fields(V &v, Of<DropChoices>) {
  required<&DropChoices::tokens, &DropChoices::sequences, &DropChoices::chosen, &DropChoices::experts,
           &DropChoices::capacity>(v);
  optional<&DropChoices::together, &DropChoices::byPosition>(v);
}

} // namespace mgc::plan
