// --freeze: which parameters of a model are not trained (docs/frozen-parameters.md). In: words, each a part of the model, or a
// pattern of tensors' names. Out: whether a parameter is frozen, and what is wrong with the words.
#pragma once

#include "frontend/layout/Layout.h"
#include "runtime/base/Problems.h"

#include <set>

namespace mgc::frontend {

// A tensor is frozen as a whole, wherever parameters are views of it.
class FrozenParameters {
public:
  // By Layout::freeze; words that are wrong freeze nothing.
  FrozenParameters(const ModelDescription &model, const Layout &layout);

  // instance: the number in its names: the layer; modules that predict later tokens are numbered on.
  bool has(const ModelParameter &parameter, int64_t instance) const;
  // Whether each of the parameters is frozen.
  std::vector<bool> of(const std::vector<ModelParameter> &parameters, int64_t instance = 0) const;

private:
  std::set<std::string> tensors_;
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
