#include "frontend/layout/Context.h"
#include "frontend/layout/LayoutChecks.h"
#include "frontend/layout/Options.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>

namespace mgc::frontend {

const std::vector<ContextType> &contextTypes() {
  static const std::vector<ContextType> types = {
      {.name = "all_gather", .gathersKeys = true},
      {.name = "a2a", .exchangesHeads = true},
      {.name = "a2a+p2p", .exchangesHeads = true, .gathersKeys = true, .isRing = true},
      {.name = "a2a+all_gather", .exchangesHeads = true, .gathersKeys = true},
      {.name = "p2p", .gathersKeys = true, .isRing = true}};
  return types;
}

// The first where the name is not known: of an edited program any name may come.
static const ContextType &typeOf(std::string_view name) {
  const auto row = std::ranges::find(contextTypes(), name, &ContextType::name);
  return row == contextTypes().end() ? contextTypes().front() : *row;
}

bool exchangesHeads(std::string_view name) { return typeOf(name).exchangesHeads; }
bool mayShareBias(const ModelDescription &model, const std::vector<std::string> &types) {
  return types.empty() || !model.kinds.front().block.attention.relativeBias ||
         std::ranges::all_of(types, [&](const std::string &name) {
           return name == types.front() || !(exchangesHeads(name) || exchangesHeads(types.front()));
         });
}
bool gathersKeys(std::string_view name) { return typeOf(name).gathersKeys; }
bool readsAllPositions(std::string_view name) { return !typeOf(name).isRing || typeOf(name).exchangesHeads; }

bool uses(const Layout &layout, std::string_view type) {
  return std::ranges::find(layout.contextTypes, type) != layout.contextTypes.end();
}

std::string hierarchyOf(const Layout &layout) {
  for (const std::string &type : layout.contextTypes)
    if (typeOf(type).isHierarchy())
      return type;
  return "";
}

std::vector<std::string> hierarchies() {
  std::vector<std::string> names;
  for (const ContextType &type : contextTypes())
    if (type.isHierarchy())
      names.push_back(type.name);
  return names;
}

std::optional<std::pair<int64_t, int64_t>> splitHeads(const AttentionDescription &attention, const Layout &layout,
                                                      int64_t ranks) {
  const int64_t groups = std::gcd(attention.groups / layout.tpGroups, ranks), queries = ranks / groups;
  if ((attention.heads / attention.groups / layout.tpQueries) % queries != 0)
    return std::nullopt;
  return std::pair(groups, queries);
}

void splitHeadsOverContext(const ModelDescription &model, Layout &layout) {
  const AttentionDescription &attention = model.kinds.front().block.attention;
  const auto groups = [&](bool exchange, int64_t ranks) {
    const auto split = exchange ? splitHeads(attention, layout, ranks) : std::nullopt;
    return split ? split->first : 1;
  };
  layout.cpGroups = groups(uses(layout, "a2a"), layout.cp);
  layout.cpInnerGroups = groups(!hierarchyOf(layout).empty(), layout.cpInner);
}

namespace {

// A rule is a predicate on cp, so that the message can list every cp that satisfies it.
struct ContextRule {
  std::string what;
  std::function<bool(int64_t cp)> fits;
};

std::vector<int64_t> sizesThatFit(const std::function<bool(int64_t)> &fits) {
  std::vector<int64_t> possible;
  for (int64_t cp = 1; cp <= optionOf(&LayoutOptions::cp).most; ++cp)
    if (fits(cp))
      possible.push_back(cp);
  return possible;
}

std::vector<ContextRule> rulesOf(const ModelDescription &model, const Layout &layout) {
  std::vector<ContextRule> rules;
  const int64_t chunks = layout.zigzag > 1 ? 2 : 1, seq = layout.sequenceLength;
  const int64_t tensor = layout.sequenceParallel ? layout.tp : 1;
  rules.push_back({fmt::format("--seq {}{}{}", seq, chunks > 1 ? " in two chunks a rank (--cp-order zigzag)" : "",
                               tensor > 1 ? fmt::format(", split over tp = {} too (--sp)", tensor) : ""),
                   [=](int64_t cp) { return seq % (chunks * cp) == 0 && seq % (cp * tensor) == 0; }});
  if (!uses(layout, "a2a"))
    return rules;
  for (const BlockKind &kind : model.kinds) {
    const AttentionDescription &attention = kind.block.attention;
    rules.push_back({fmt::format("--cp-comm-type a2a: {} = {} in {} groups, less tp = {},", model.names.heads,
                                 attention.heads, attention.groups, layout.tp),
                     [&](int64_t cp) { return splitHeads(attention, layout, cp).has_value(); }});
  }
  return rules;
}

// Whether the kind's heads divide over so many ranks that exchange them, in a hierarchy.
bool takesInner(const BlockKind &kind, const Layout &layout, int64_t ranks) {
  return layout.cp % ranks == 0 && splitHeads(kind.block.attention, layout, ranks).has_value();
}

// Whether checkContext finds nothing, without the lists of its messages.
bool fitsContext(const ModelDescription &model, const Layout &layout) {
  const auto divides = [&](const BlockKind &kind) { return takesInner(kind, layout, layout.cpInner); };
  return std::ranges::all_of(rulesOf(model, layout), [&](const ContextRule &rule) { return rule.fits(layout.cp); }) &&
         (hierarchyOf(layout).empty() || std::ranges::all_of(model.kinds, divides)) &&
         plan::refine(layout.views()).isOk();
}

void checkHierarchy(const ModelDescription &model, const Layout &layout, Problems &problems) {
  if (hierarchyOf(layout).empty() || layout.cp % layout.cpInner != 0)
    return;
  for (const BlockKind &kind : model.kinds) {
    const auto fits = [&](int64_t ranks) { return takesInner(kind, layout, ranks); };
    if (fits(layout.cpInner))
      continue;
    problems.add("--hierarchical-context-parallel-sizes {} {}: {} = {}, less tp = {}, do not divide over the first",
                 layout.cpInner, layout.cp / layout.cpInner, model.names.heads, kind.block.attention.heads, layout.tp);
    problems.hint("possible first of --hierarchical-context-parallel-sizes with cp = {}: {}", layout.cp,
                  listOf(sizesThatFit(fits)));
  }
}

// One type, or one per layer, all of which can be had.
std::vector<std::string> possibleTypes(const ModelDescription &model, const Layout &layout) {
  std::vector<std::string> types = layout.contextTypes;
  for (std::string &type : types)
    type = typeOf(type).name;
  const bool areEqual = std::ranges::adjacent_find(types, std::not_equal_to()) == types.end();
  if (!types.empty() && (areEqual || std::ssize(types) != model.layerCount() || !mayShareBias(model, types)))
    types.resize(1);
  return types;
}

} // namespace

void setNearestContext(const ModelDescription &model, const Layout &layout, LayoutOptions &near) {
  Layout tried = layout;
  tried.hasExperts = false; // their ranks follow those of the context
  tried.contextTypes = possibleTypes(model, layout);
  const auto fitsWith = [&](int64_t inner) {
    tried.cpInner = inner;
    splitHeadsOverContext(model, tried);
    return fitsContext(model, tried);
  };
  for (; tried.cp > 1; --tried.cp) {
    std::vector<int64_t> inner = divisorsOf(std::gcd(layout.cpInner, tried.cp), tried.cp);
    if (std::ranges::any_of(inner | std::views::reverse, fitsWith))
      break;
  }
  near.cp = tried.cp;
  if (tried.cp == 1) {
    near.contextTypes.reset(), near.contextHierarchy.reset(), near.contextOrder.reset();
    return;
  }
  near.contextTypes = tried.contextTypes;
  if (!hierarchyOf(tried).empty())
    near.contextHierarchy = {tried.cpInner, tried.cp / tried.cpInner};
  else
    near.contextHierarchy.reset();
}

void checkContext(const ModelDescription &model, const Layout &layout, Problems &problems) {
  if (layout.cp == 1)
    return;
  for (const ContextRule &rule : rulesOf(model, layout)) {
    if (rule.fits(layout.cp))
      continue;
    problems.add("{} does not divide over cp = {}", rule.what, layout.cp);
    problems.hint("possible cp: {}", listOf(sizesThatFit(rule.fits)));
  }
  checkHierarchy(model, layout, problems);
  if (const auto mesh = plan::refine(layout.views()); problems.empty() && !mesh.isOk())
    problems.add("{}", mesh.status().message());
}

} // namespace mgc::frontend
