#include "plan/targets/AttentionWorkspace.h"
#include "runtime/device/CallFacts.h"
#include "runtime/exec/instructions/Execution.h"

namespace mgc {

// The kernel of a CPU writes as much as it needs, whatever the plan says, and in whole vectors. A device's plugin knows how much
// it needs.
static Status verifyWorkspace(const plan::Attention &attention, plan::Target target, const OperandRecord &workspace) {
  const int64_t needed = target == plan::Target::cpu ? attentionWorkspaceBytes(attention) : 0;
  if (attention.workspaceBytes < needed)
    return errorf("workspaceBytes = {}, expected at least {}; compile the plan again", attention.workspaceBytes,
                  needed);
  if (workspace.slot != 0 || workspace.offset % plan::kAlignment != 0)
    return errorf("the workspace lies at {} of slot {}, expected a multiple of {} in the allocation itself",
                  workspace.offset, workspace.slot - 1, plan::kAlignment);
  return Status::ok();
}

static mgc_attention_facts factsOf(const Preparation &at, const plan::Attention &attention) {
  mgc_attention_facts facts = factsOf(attention);
  facts.part = at.record.coordinate;
  const std::span<const int64_t> scalars = at.chunk.scalarsOf(at.record); // in the order of runScalars()
  if (attention.dropout > 0) // calls without dropout must not differ in fields that only dropout reads
    facts.seed = scalars[0], facts.instance = scalars[1];
  if (attention.knowsHeads())
    facts.head_offset = scalars[2];
  return facts;
}

// Slopes count by what they are, not by where they lie.
static std::string keyOfCall(mgc_attention_facts facts) {
  const std::string slopes(reinterpret_cast<const char *>(facts.slopes),
                           static_cast<size_t>(facts.slope_count) * sizeof(double));
  facts.slopes = nullptr;
  return keyOf(facts) + slopes;
}

Status prepare(const Preparation &at, const plan::Attention &attention, PreparedCall &to) {
  MGC_TRY(verifyWorkspace(attention, at.plan.target, at.chunk.operandsOf(at.record).back()));
  const mgc_attention_facts facts = factsOf(at, attention);
  MGC_ASSIGN(call, at.calls.attentions.get(keyOfCall(facts), [&] { return at.device.makeAttention(facts); }));
  to.attention = call;
  return Status::ok();
}

// The order is that of plan::Attention.
Status enqueue(const Enqueueing &at, const plan::Attention &attention) {
  using O = mgc_attention_operands;
  struct Operand {
    mgc_address O::*member;
    bool isGiven = true;
  };
  const bool backward = attention.backward, hasBias = attention.hasBias();
  const Operand operands[] = {{&O::q},
                              {&O::k},
                              {&O::v},
                              {&O::o, backward},
                              {&O::lse, backward},
                              {&O::output_gradient, backward},
                              {&O::query_positions},
                              {&O::key_positions},
                              {&O::starts, attention.documents},
                              {&O::ends, attention.ends},
                              {&O::samples, attention.dropout > 0},
                              {&O::sinks, attention.sinks},
                              {&O::bias, hasBias},
                              {&O::dq, backward},
                              {&O::dk, backward},
                              {&O::dv, backward},
                              {&O::dbias, backward && hasBias},
                              {&O::o, !backward},
                              {&O::lse, !backward},
                              {&O::workspace}};
  O to{};
  auto next = at.operands.begin();
  for (const Operand &operand : operands)
    if (operand.isGiven)
      to.*operand.member = *next++;
  return at.stream.attention(*at.call.attention, to);
}

} // namespace mgc
