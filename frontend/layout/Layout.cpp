// See Layout.h. ResolveLayout.cpp finds one.
#include "frontend/layout/Layout.h"

#include "frontend/layout/ExpertRanks.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace mgc::frontend {

std::vector<plan::MeshView> Layout::views() const {
  using enum plan::AxisRole;
  std::vector<plan::MeshView> views = {
      {"ranks", {{"tp", tp}, {"cp", cp, sequence}, {"dp", dp, data}, {"pp", pp, stage}}},
      {"key/value heads", {{"tpr", tpQueries}, {"tpg", tpGroups}}},
      {"context hierarchy", {{"tp", tp}, {"cpi", cpInner}, {"cpo", cp / cpInner}}},
      {"heads of a2a", {{"tp", tp}, {"cpr", cp / cpGroups}, {"cpg", cpGroups}}},
      {"heads of the hierarchy", {{"tp", tp}, {"cpir", cpInner / cpInnerGroups}, {"cpig", cpInnerGroups}}}};
  if (instances > 1)
    views.push_back({"instances of the optimizer",
                     {{"tp", tp}, {"cp", cp}, {"dpi", dp / instances}, {std::string(plan::kInstanceAxis), instances}}});
  if (hasExperts)
    std::ranges::move(viewsOfExperts(*this), std::back_inserter(views));
  return views;
}

int64_t Layout::paddedVocabulary(const ModelDescription &model) const {
  constexpr int64_t kMultiple = 128; // as Megatron-LM's --make-vocab-size-divisible-by
  return roundUp(model.vocabulary, std::lcm(kMultiple, tp));
}

plan::Mesh Layout::mesh() const { return plan::refine(views()).take(); }

std::optional<std::pair<int64_t, int64_t>> splitTensorAxis(const AttentionDescription &attention, int64_t tp) {
  int64_t tpGroups = std::gcd(attention.groups, tp), tpQueries = tp / tpGroups;
  if ((attention.heads / attention.groups) % tpQueries != 0)
    return std::nullopt;
  return std::pair(tpGroups, tpQueries);
}

std::string describe(const Layout &layout) {
  std::string lines;
  for (const Choice &choice : layout.choices)
    lines += fmt::format("{:<10} {:<12} {}\n", choice.flag, choice.value, choice.reason);
  return lines + fmt::format("{:<10} {:<12} {}\n", "microbatches", layout.microbatches, "gbs / (mbs * dp)");
}

} // namespace mgc::frontend
