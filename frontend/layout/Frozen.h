// --freeze: which parameters of a model are not trained (docs/frozen-parameters.md). In: words, each a part of the model, or a
// pattern of tensors' names. Out: whether a parameter is frozen, and what is wrong with the words.
#pragma once

#include "frontend/layout/Layout.h"
#include "runtime/base/Problems.h"

#include <span>

namespace mgc::frontend {

// Which block has a parameter: one of those around the layers, a layer of either stack, a module that predicts a later token.
enum class ParameterSite { outside, layer, encoderLayer, laterToken };

// A part that --freeze can name.
struct ModelPart {
  std::string_view name;
  bool hasNumbers; // ":4" or ":0-7" may follow: of layers
  bool (*has)(const ModelDescription &model, ParameterSite site, std::string_view role);
};

// A word of --freeze: a part with layers, or a pattern.
struct FrozenWord {
  const ModelPart *part = nullptr; // null: a pattern
  int64_t first = 0, last = INT64_MAX;
  std::string text;
};

class FrozenParameters {
public:
  // By Layout::freeze; words that are wrong freeze nothing.
  FrozenParameters(const ModelDescription &model, const Layout &layout);

  // instance: the number in its names: the layer; modules that predict later tokens are numbered on.
  bool has(const ModelParameter &parameter, ParameterSite site, int64_t instance) const;
  // Of each of the parameters.
  std::vector<bool> of(const std::vector<ModelParameter> &parameters, ParameterSite site,
                       int64_t instance = 0) const;

private:
  const ModelDescription &model_;
  std::vector<FrozenWord> words_;
};

// The words of the option, as Layout::freeze has them.
std::string freezeText(const std::vector<std::string> &words);

// Whether load moves the bias of every router, and so counts it.
bool movesAllRouters(const ModelDescription &model, const Layout &layout);

// Refuses words that name nothing, and a model of which the optimizer trains nothing. Warns where a tied parameter is frozen in
// parts that are not named.
void checkFrozen(const ModelDescription &model, Layout &layout, Problems &problems);
bool canFreeze(const ModelDescription &model, Layout layout);

} // namespace mgc::frontend
