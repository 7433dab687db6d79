// See LaterTokens.h.
#include "frontend/layout/LaterTokens.h"
#include "frontend/layout/Options.h"

#include <algorithm>

namespace mgc::frontend {

static const std::string &flag() { return optionOf(&LayoutOptions::laterTokens).flag; }

static bool canHave(const ModelDescription &model) {
  return !model.later.parameters.empty() && model.pooledAuxLoss == 0;
}

static void warnOfUntrained(const ModelDescription &model, Layout &layout) {
  const int64_t inFile = model.later.inFile;
  if (layout.laterTokens >= inFile)
    return;
  layout.warnings.push_back(fmt::format(
      "num_nextn_predict_layers = {}, {} = {}: the other modules of a checkpoint are not loaded, and not in "
      "weights that are saved",
      inFile, flag(), layout.laterTokens));
}

void checkLaterTokens(const ModelDescription &model, Layout &layout, Problems &problems) {
  warnOfUntrained(model, layout);
  if (layout.laterTokens == 0)
    return;
  const std::string asked = fmt::format("{} {}", flag(), layout.laterTokens);
  if (model.objective == Objective::causal && model.embedding.scale != 1)
    problems.add("{}: such modules embed tokens by the table alone, and the model scales embeddings by {}", asked,
                 model.embedding.scale);
  else if (model.later.parameters.empty())
    problems.add("{}: the family {} has no names for the tensors of such modules", asked, model.family);
  else if (model.pooledAuxLoss != 0)
    problems.add("{} with output_router_logits: the auxiliary loss pools the layers of the model, and these are none",
                 asked);
  if (!canHave(model)) {
    problems.hint("possible {}: 0", flag());
    return;
  }
  if (layout.laterTokens >= layout.sequenceLength) {
    problems.add("{} with --seq {}: no token has one so far ahead", asked, layout.sequenceLength);
    problems.hint("possible {}: 0 to {}", flag(), layout.sequenceLength - 1);
  }
  if (layout.laterTokensFactor == 0) {
    problems.add("{} with {} 0: nothing would train these modules", asked,
                 optionOf(&LayoutOptions::laterTokensFactor).flag);
    problems.hint("expected a factor larger than 0, or without {}", flag());
  }
}

void setNearestLaterTokens(const ModelDescription &model, int64_t sequenceLength, LayoutOptions &options) {
  if (!canHave(model))
    options.laterTokens.reset();
  if (options.laterTokens)
    options.laterTokens = std::min(*options.laterTokens, sequenceLength - 1);
  if (options.laterTokens.value_or(0) == 0 || options.laterTokensFactor == 0.0)
    options.laterTokensFactor.reset();
}

} // namespace mgc::frontend
