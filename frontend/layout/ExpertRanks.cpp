// See ExpertRanks.h.
#include "frontend/layout/ExpertRanks.h"

#include "frontend/layout/Options.h"

#include <algorithm>
#include <numeric>

namespace mgc::frontend {

// Ranks of tp and cp that share tokens out whose rows travel.
static int64_t tokenRanks(const Layout &layout) { return layout.tp / std::gcd(layout.tp, layout.etp) * layout.cp; }
bool tokensDivide(const Layout &layout) { return layout.sequenceLength % tokenRanks(layout) == 0; }

// The view of tp, cp and dp beyond the nearest `taken` ranks, an axis of each. Without sequence parallelism all ranks of tp
// have the same tokens, and share them out only for rows that travel.
static plan::MeshView beyond(int64_t taken, const std::string &name, const Layout &layout) {
  plan::MeshView view{name, {}};
  const auto cut = [&](const std::string &axis, int64_t size, bool isSplit) {
    const int64_t inner = std::gcd(taken, size);
    taken /= inner;
    view.axes.push_back({name + ".inner." + axis, inner});
    view.axes.push_back({name + (isSplit ? "." : ".whole.") + axis, size / inner});
    if (!isSplit)
      view.axes.push_back({name + "." + axis, 1});
  };
  cut("tp", layout.tp, layout.sequenceParallel || layout.exchangesRows);
  cut("cp", layout.cp, true), cut("dp", layout.dp, true);
  return view;
}

std::vector<plan::MeshView> viewsOfExperts(const Layout &layout) {
  const int64_t ranks = layout.tp * layout.cp * layout.dp, taken = layout.etp * layout.ep;
  return {{"experts", {{"etp", layout.etp}, {"ep", layout.ep}, {"edp", std::max<int64_t>(1, ranks / taken)}}},
          beyond(taken, "edp", layout),
          beyond(layout.exchangesRows ? layout.etp : taken, "tokens", layout)};
}

namespace {

// Whether etp, ep and edp cut the ranks of a stage where tp, cp and dp can be cut.
bool fitsRanks(const Layout &layout) {
  const int64_t ranks = layout.tp * layout.cp * layout.dp;
  return layout.ep <= ranks && layout.etp <= ranks / layout.ep && ranks % (layout.etp * layout.ep) == 0 &&
         plan::canRefine(layout.views());
}

struct ExpertRule {
  std::string what;
  bool isOfColumns; // columns of an expert, which etp shares out; else the experts of ep
  int64_t size;
  bool fits(const Layout &layout) const { return size % (isOfColumns ? layout.etp : layout.ep) == 0; }
};

std::vector<ExpertRule> rulesOf(const ModelDescription &model) {
  std::vector<ExpertRule> rules;
  const auto add = [&](std::string what, bool isOfColumns, int64_t size) {
    if (std::ranges::find(rules, what, &ExpertRule::what) == rules.end())
      rules.push_back({std::move(what), isOfColumns, size});
  };
  for (const BlockKind &kind : model.kinds)
    if (const auto &experts = kind.block.experts) {
      add(fmt::format("{} experts of a layer", experts->count), false, experts->count);
      add(fmt::format("{} columns of an expert", kind.block.mlp.ffn), true, kind.block.mlp.ffn);
    }
  return rules;
}

bool fits(const ModelDescription &model, const Layout &layout) {
  return std::ranges::all_of(rulesOf(model), [&](const ExpertRule &rule) { return rule.fits(layout); }) &&
         fitsRanks(layout);
}

// Values of one size with which everything is right; the divisors of the ranks of a stage are all that may be.
std::vector<int64_t> possible(const ModelDescription &model, Layout layout, int64_t Layout::*size) {
  std::vector<int64_t> values = divisorsOf(layout.tp * layout.cp * layout.dp, optionOf(&LayoutOptions::ep).most);
  std::erase_if(values, [&](int64_t value) {
    layout.*size = value;
    return !fits(model, layout);
  });
  return values;
}

} // namespace

void checkExpertRanks(const ModelDescription &model, const Layout &layout, Problems &problems) {
  const int64_t mostRanks = optionOf(&LayoutOptions::world).most;
  if (!layout.hasExperts || layout.world() > mostRanks) // another check reports it
    return;
  const auto hint = [&](int64_t Layout::*size, const char *flag) {
    const std::vector<int64_t> values = possible(model, layout, size);
    if (!values.empty())
      problems.hint("possible {} with the other sizes: {}", flag, listOf(values));
  };
  for (const ExpertRule &rule : rulesOf(model))
    if (!rule.fits(layout)) {
      problems.add("{} do not divide over {} = {}", rule.what, rule.isOfColumns ? "etp" : "ep",
                   rule.isOfColumns ? layout.etp : layout.ep);
      hint(rule.isOfColumns ? &Layout::etp : &Layout::ep, rule.isOfColumns ? "--etp" : "--ep");
    }
  if (layout.exchangesRows && !tokensDivide(layout)) {
    problems.add("--moe-token-dispatcher-type alltoall: --seq {} does not divide over {} ranks of tp and cp, "
                 "which share out the tokens whose rows travel",
                 layout.sequenceLength, tokenRanks(layout));
    problems.hint("possible --moe-token-dispatcher-type: allgather");
  }
  if (fitsRanks(layout))
    return;
  Layout ofOne = layout;
  ofOne.instances = 1;
  if (fitsRanks(ofOne)) {
    const std::string &flag = optionOf(&LayoutOptions::instances).flag;
    problems.add("{} {}: its groups of dp = {} data ranks are not cut where those of etp * ep = {} * {} are", flag,
                 layout.instances, layout.dp, layout.etp, layout.ep);
    std::vector<int64_t> counts = divisorsOf(layout.dp, layout.dp);
    std::erase_if(counts, [&](int64_t count) {
      ofOne.instances = count;
      return !fitsRanks(ofOne);
    });
    problems.hint("possible {} with these experts: {}", flag, listOf(counts));
    return;
  }
  problems.add("etp * ep = {} * {} do not cut tp, cp, dp = {}, {}, {}: the ranks of a stage, tp nearest, are cut "
               "into groups of equal size in either way",
               layout.etp, layout.ep, layout.tp, layout.cp, layout.dp);
  hint(&Layout::ep, "--ep");
  hint(&Layout::etp, "--etp");
}

void setNearestExpertRanks(const ModelDescription &model, const Layout &layout, int64_t cp, LayoutOptions &near) {
  Layout tried = layout;
  tried.cp = cp, tried.cpGroups = tried.cpInner = tried.cpInnerGroups = 1;
  const int64_t ranks = tried.tp * tried.cp * tried.dp;
  tried.etp = std::min(near.etp.value_or(tried.tp), ranks);
  for (; tried.etp > 1; --tried.etp) {
    tried.ep = 1;
    if (fits(model, tried))
      break;
  }
  for (tried.ep = std::min(layout.ep, ranks); tried.ep > 1 && !fits(model, tried); --tried.ep)
    ;
  if (near.ep || tried.ep > 1)
    near.ep = tried.ep;
  if (near.etp || tried.etp != tried.tp)
    near.etp = tried.etp;
  if (near.dispatcher && !tokensDivide(tried))
    near.dispatcher = "allgather";
}

} // namespace mgc::frontend
