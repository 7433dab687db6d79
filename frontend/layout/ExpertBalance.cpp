// See ExpertBalance.h.
#include "frontend/layout/ExpertBalance.h"
#include "frontend/layout/Options.h"

#include <algorithm>

namespace mgc::frontend {

namespace {

struct BalanceType {
  std::string name, refusal; // empty: it is possible
};

const std::vector<BalanceType> &types() {
  static const std::vector<BalanceType> rows = {
      {"none", ""},
      {"seq_aux_loss", ""},
      {"aux_loss", "multiplies the means of the tokens that one microbatch has on a group of ranks, so it is another "
                   "loss in every layout"},
      {"global_aux_loss", "uses the load of the microbatches that came before, so it depends on their size and order"},
      {"sinkhorn", "iterates over the tokens of one microbatch on a group of ranks, so experts are chosen otherwise in "
                   "every layout"}};
  return rows;
}

const std::string &flagOf(const AnyOptionField &field) { return optionOf(field).flag; }

std::string given(const AnyOptionField &field, double value) { return fmt::format("{} {}", flagOf(field), value); }

} // namespace

std::vector<std::string> balanceTypes(const Supported &) {
  std::vector<std::string> names;
  for (const BalanceType &type : types())
    if (type.refusal.empty())
      names.push_back(type.name);
  return names;
}

std::string refusedBalanceType(const std::string &type) {
  const auto row = std::ranges::find(types(), type, &BalanceType::name);
  return row == types().end() || row->refusal.empty()
             ? ""
             : row->refusal + "; seq_aux_loss balances each sequence, the same in every layout";
}

std::vector<std::string> dropPolicies(const Supported &) { return {"probs", "position"}; }

static void checkCoefficients(const Layout &layout, Problems &problems) {
  const std::string type = fmt::format("{} {}", flagOf(&LayoutOptions::balanceType), layout.balanceType);
  const bool isSequence = layout.balanceType == "seq_aux_loss";
  if (isSequence && layout.auxLossCoefficient == 0) {
    problems.add("{}: its coefficient is 0", type);
    problems.hint("expected {} larger than 0, or without {}", flagOf(&LayoutOptions::auxLossCoefficient),
                  flagOf(&LayoutOptions::balanceType));
  }
  if (!isSequence && layout.auxLossCoefficient > 0) {
    problems.add("{} with {}: no term has it", given(&LayoutOptions::auxLossCoefficient, layout.auxLossCoefficient),
                 type);
    problems.hint("possible: {} seq_aux_loss", flagOf(&LayoutOptions::balanceType));
  }
}

// The means are of all tokens of the step, and a product of sums is no sum of products.
static void checkPooled(const ModelDescription &model, const Layout &layout, Problems &problems) {
  if (model.pooledAuxLoss == 0)
    return;
  const std::string otherwise =
      fmt::format("; or output_router_logits false with {} seq_aux_loss, which balances each sequence",
                  flagOf(&LayoutOptions::balanceType));
  if (layout.microbatches > 1) {
    problems.add("output_router_logits: the auxiliary loss pools all tokens of the step, so backward needs the load "
                 "of the "
                 "experts by all of them; with {} microbatches, backward of the first runs before forward of the last",
                 layout.microbatches);
    problems.hint("possible {} with {} {} and dp = {}: {}, which is one microbatch{}", flagOf(&LayoutOptions::gbs),
                  flagOf(&LayoutOptions::mbs), layout.microBatchSize, layout.dp, layout.microBatchSize * layout.dp,
                  otherwise);
  }
  if (layout.pp > 1) {
    problems.add("output_router_logits with pp = {}: the auxiliary loss pools all layers, and sums over those of other "
                 "stages do not travel; one microbatch would keep one stage busy at a time anyway",
                 layout.pp);
    problems.hint("possible {}: 1{}", flagOf(&LayoutOptions::pp), otherwise);
  }
}

static void checkCapacity(const ModelDescription &model, const Layout &layout, Problems &problems) {
  if (layout.capacityFactor > 0 && !model.hasExperts()) {
    problems.add("{}: the model has no experts", given(&LayoutOptions::capacityFactor, layout.capacityFactor));
    problems.hint("expected none for family {}", model.family);
  }
  if (layout.rowsFactor > 0 && !model.hasExperts()) {
    problems.add("{}: the model has no experts", given(&LayoutOptions::rowsFactor, layout.rowsFactor));
    problems.hint("expected none for family {}", model.family);
  } else if (layout.rowsFactor > 0 && layout.rowsFactor < 1) {
    problems.add("{}: is less than the mean rows of experts, with which steps would end",
                 given(&LayoutOptions::rowsFactor, layout.rowsFactor));
    problems.hint("possible: {} 2, or 0 for all rows that may come", flagOf(&LayoutOptions::rowsFactor));
  }
  if (layout.countsLoad && !model.hasExperts()) {
    problems.add("{}: the model has no experts", flagOf(&LayoutOptions::countsLoad));
    problems.hint("expected none for family {}", model.family);
  }
  if (layout.capacityFactor == 0 && layout.dropPolicy == "position") {
    problems.add("{} position without {}: no choice is dropped", flagOf(&LayoutOptions::dropPolicy),
                 flagOf(&LayoutOptions::capacityFactor));
    problems.hint("possible: {} 1.25", flagOf(&LayoutOptions::capacityFactor));
  }
}

void checkBalance(const ModelDescription &model, const Layout &layout, Problems &problems) {
  checkCapacity(model, layout, problems);
  const bool isAsked = layout.balanceType != "none" || layout.auxLossCoefficient > 0 || layout.zLossCoefficient > 0;
  if (isAsked && !model.hasExperts()) {
    problems.add("{}, {} or {}: the model has no experts", flagOf(&LayoutOptions::balanceType),
                 flagOf(&LayoutOptions::auxLossCoefficient), flagOf(&LayoutOptions::zLossCoefficient));
    problems.hint("expected none of these for family {}", model.family);
    return;
  }
  checkCoefficients(layout, problems);
  checkPooled(model, layout, problems);
}

} // namespace mgc::frontend
