// Whether weights are of the model that a plan computes: what their config.json says, read as mgc compile reads it,
// against the config.json that the plan was compiled from. Shapes alone do not tell a rope theta, an activation or an
// epsilon.
#pragma once

#include "model/Description.h"

namespace mgc::frontend {

// A fact of the mathematics that trained weights belong to, under the name that people know.
struct ModelFact {
  std::string name, value;
};
// WeightsUse: a run begins a new training with the weights, or a continued one goes on with the training that made them.
enum class WeightsUse { newTraining, continued };

// The facts of a layer, and of the embedding, head and sizes around the layers, as far as such a run must have them alike
// (MayChange); not the number of positions of models without a table of them.
std::vector<ModelFact> factsOf(const BlockDescription &layer, WeightsUse use);
std::vector<ModelFact> factsOf(const ModelDescription &model, WeightsUse use);

// One line per fact that differs, with both values; of facts of layers the first that differs.
std::vector<std::string> differencesBetween(const ModelDescription &weights, const ModelDescription &plan,
                                            WeightsUse use = WeightsUse::newTraining);

// `checkpoint` is a folder or a file of weights, whose config.json lies next to it. All well where there is none, or
// the plan has none.
Status verifySameModel(const std::string &planConfig, const std::string &checkpoint, bool isContinued);

} // namespace mgc::frontend
