// See IdleOptions.h.
#include "frontend/layout/IdleOptions.h"

#include "frontend/layout/Context.h"
#include "frontend/layout/Options.h"

#include <fmt/ranges.h>

namespace mgc::frontend {

std::vector<std::string> idleOptions(const LayoutOptions &asked, const Layout &layout) {
  std::vector<std::string> idle;
  const auto add = [&](bool isIdle, const AnyOptionField &field, const std::string &why, bool isNegated = false) {
    const std::string flag = optionOf(field).flag;
    if (isIdle)
      idle.push_back(fmt::format("{} does nothing here: {}", isNegated ? "--no-" + flag.substr(2) : flag, why));
  };
  const bool oneReplica = layout.replicas() == 1;
  add(asked.instances.value_or(1) == layout.dp && layout.dp > 1 && layout.cp == 1, &LayoutOptions::instances,
      "each data rank is an instance by itself, so nothing is shared out");
  const bool hasUnits = layout.hasSlices() && layout.zero > 1;
  const std::string whole = "no instance has several data ranks, so nothing is shared out";
  add(asked.outerSharding == kShardsOuter && layout.zero == 3 && (layout.instances == 1 || !hasUnits),
      &LayoutOptions::outerSharding,
      layout.instances == 1 ? "there is one instance of the optimizer, over all data ranks" : whole);
  add(asked.reshard.has_value() && (layout.zero < 3 || oneReplica), &LayoutOptions::reshard,
      layout.zero < 3 ? "without --zero 3 each rank keeps all its values" : "dp * cp is 1, so values are whole",
      !asked.reshard.value_or(true));
  add(asked.sp.value_or(false) && layout.tp == 1, &LayoutOptions::sp, "tp is 1, so no rank has a part of the sequence");
  add(asked.zero.value_or(0) > 0 && oneReplica, &LayoutOptions::zero,
      "dp * cp is 1, so there are no replicas to share the optimizer's state");
  add(layout.rowsFactor > 0 && layout.ep == 1, &LayoutOptions::rowsFactor,
      "ep is 1, so each rank has all experts, and all rows of its tokens");
  add(asked.overlapGradReduce.value_or(false) && oneReplica, &LayoutOptions::overlapGradReduce,
      "dp * cp is 1, so no gradient is reduced over replicas");
  add(asked.overlapGradReduce.value_or(false) && !oneReplica && layout.zero > 1 && !hasUnits,
      &LayoutOptions::overlapGradReduce, whole);
  add(asked.overlapParamGather.value_or(false) && !layout.hasSlices(), &LayoutOptions::overlapParamGather,
      oneReplica         ? "dp * cp is 1, so values are whole"
      : layout.zero == 0 ? "without --zero every rank has whole values"
                         : whole);
  add(asked.bucketSize && !oneReplica && layout.zero > 1, &LayoutOptions::bucketSize,
      hasUnits ? fmt::format("with --zero {} the gradients of each layer are reduced in each microbatch", layout.zero)
               : whole);
  add(asked.lossTile.value_or(0) >= layout.sequenceLength * layout.microBatchSize, &LayoutOptions::lossTile,
      fmt::format("a microbatch has no more than {} tokens", layout.sequenceLength * layout.microBatchSize));
  add(asked.contextHierarchy && hierarchyOf(layout).empty(), &LayoutOptions::contextHierarchy,
      fmt::format("no layer has --cp-comm-type {}", fmt::join(hierarchies(), " or ")));
  add(asked.dispatcher && layout.hasExperts && layout.ep == 1, &LayoutOptions::dispatcher,
      "ep is 1, so every rank has all experts and no row travels");
  add(asked.schedule && layout.pp == 1, &LayoutOptions::schedule,
      "pp is 1, so there is no bubble to fill and every schedule runs one microbatch after the other");
  const std::string hasItsOwn = fmt::format("--schedule {} has its own order", layout.schedule);
  add(asked.scheduleMemory && !layout.scheduleMemory, &LayoutOptions::scheduleMemory, hasItsOwn);
  return idle;
}

} // namespace mgc::frontend
