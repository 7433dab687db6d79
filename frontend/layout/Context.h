// Context parallelism: how attention sees the whole sequence where each rank of cp has a part of it. The names are those
// of Megatron-LM's --cp-comm-type; a layer's name is the mg.tag of its attention, which rows of the rule table ask for.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

struct ContextType {
  std::string name;
  bool exchangesHeads = false; // ranks of cp (cpi in a hierarchy) have the whole sequence of some heads
  bool gathersKeys = false;    // ranks of cp (cpo in a hierarchy) keep their queries and see all keys
  bool isRing = false;         // keys travel from rank to rank

  bool isHierarchy() const { return exchangesHeads && gathersKeys; } // cp is cpo x cpi
};

// The first is the default.
const std::vector<ContextType> &contextTypes();
// Whether ranks exchange heads under the type of this name; empty: cp is 1, and none do.
bool exchangesHeads(std::string_view name);
// Whether layers of these types may share one table of biases, if the model has one: ranks add up the gradient of all heads, or
// each has that of its own.
bool mayShareBias(const ModelDescription &model, const std::vector<std::string> &types);
// Whether it gathers keys. A name that is not known stands for the type that is taken in its place.
bool gathersKeys(std::string_view name);
// Whether attention under the type of this name reads the positions of all keys; else those of the rank's own keys travel
// with them.
bool readsAllPositions(std::string_view name);
// Whether a layer's attention is of the type.
bool uses(const Layout &layout, std::string_view type);
// The first type of a layer that is a hierarchy; empty: none is.
std::string hierarchyOf(const Layout &layout);
// Names of all types that are.
std::vector<std::string> hierarchies();

// Sets the ranks that share out groups of keys, of the ranks that exchange heads: those of cp under a2a, of cpi in a hierarchy.
void splitHeadsOverContext(const ModelDescription &model, Layout &layout);

// Sizes, types and hierarchy as near to those of the layout as can be, where the layout's tp and sequence are right.
void setNearestContext(const ModelDescription &model, const Layout &layout, LayoutOptions &near);

// Context parallelism of a layout that has tp, pp and the sequence: every rule is checked, each with the values of cp
// that satisfy it.
void checkContext(const ModelDescription &model, const Layout &layout, Problems &problems);

} // namespace mgc::frontend
