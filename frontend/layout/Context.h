// Context parallelism: how attention sees the whole sequence where each rank of cp has a part of it. The names are those
// of Megatron-LM's --cp-comm-type; a layer's name is the mg.tag of its attention, which rows of the rule table ask for.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

struct ContextType {
  std::string name;
  bool exchangesHeads = false; // ranks of cp (cpi under a2a+p2p) take the whole sequence of some heads
  bool gathersKeys = false;    // ranks of cp (cpo under a2a+p2p) keep their queries and see all keys
  bool isRing = false;         // keys travel from rank to rank
};

// The first is the default.
const std::vector<ContextType> &contextTypes();
// Whether ranks exchange heads under the type of this name; empty: cp is 1, and none do.
bool exchangesHeads(std::string_view name);
// Whether it gathers keys. A name that is not known stands for the type that is taken in its place.
bool gathersKeys(std::string_view name);
// Whether keys travel from rank to rank under the type of this name.
bool isRing(std::string_view name);
// Whether a layer's attention is of the type.
bool uses(const Layout &layout, std::string_view type);

// Sizes, types and hierarchy as near to those of the layout as can be, where the layout's tp and sequence are right.
void setNearestContext(const ModelDescription &model, const Layout &layout, LayoutOptions &near);

// Context parallelism of a layout that has tp, pp and the sequence: every rule is checked, each with the values of cp
// that satisfy it.
void checkContext(const ModelDescription &model, const Layout &layout, Problems &problems);

} // namespace mgc::frontend
