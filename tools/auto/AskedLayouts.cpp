// See AskedLayouts.h.
#include "tools/auto/AskedLayouts.h"

#include "frontend/layout/Options.h"
#include "runtime/base/Problems.h"
#include "tools/auto/PartDifferences.h"

namespace mgc::tools {

namespace {

using frontend::LayoutOption;
using frontend::LayoutOptions;

bool isGiven(const LayoutOptions &options, const LayoutOption &row) {
  return std::visit([&](auto field) { return (options.*field).has_value(); }, row.field);
}

// A step of another training, or on another machine, cannot be compared.
Status verify(const LayoutOptions &asked, const std::string &place) {
  Problems problems(place);
  for (const LayoutOption &row : frontend::layoutOptions())
    if (isGiven(asked, row) && row.onResume != frontend::OnResume::free)
      problems.add("{} changes what is computed", row.key());
  for (const frontend::AnyOptionField &field :
       {frontend::AnyOptionField(&LayoutOptions::machine), frontend::AnyOptionField(&LayoutOptions::target)})
    if (const LayoutOption &row = frontend::optionOf(field); isGiven(asked, row))
      problems.add("{} changes what it runs on", row.key());
  if (!problems.empty())
    problems.hint("expected options of a layout of the same training on the same devices");
  return problems.status();
}

Result<SearchedSpace> spaceOf(const ExplainedOptions &asked, const CompileFlags &flags, const AutoModel &model,
                              const SearchedSpace &space) {
  const std::string place = fmt::format("{} {}", kExplainFlag, asked.text);
  MGC_TRY(verify(asked.options, place));
  CompileFlags own = flags;
  own.layout = frontend::either(asked.options, flags.layout);
  own.automatic.devices = {space.devices.front()};
  MGC_ASSIGN(out, spaceOf(own, model.file, model.supported).at(place));
  return std::move(out);
}

} // namespace

Result<std::vector<AskedSearch>> askedSearches(const CompileFlags &flags, const AutoModel &model,
                                               const SearchedSpace &space) {
  std::vector<AskedSearch> searches;
  for (const ExplainedOptions &asked : flags.automatic.explained) {
    MGC_ASSIGN(own, spaceOf(asked, flags, model, space));
    searches.push_back({asked.text, LayoutSearch(std::move(own), model, space.devices.front())});
  }
  return searches;
}

AskedLayout askedLayout(const AskedSearch &asked, const LayoutSearch &search, const CompileFlags &flags,
                        const planner::Trial &best) {
  AskedLayout out{asked.text, {}, {}, {}};
  const planner::FoundLayouts found = asked.search.fastest(asked.search.given(), 1);
  if (found.answers.empty()) {
    const std::string refusal = asked.search.refusalOf(asked.search.given(), found);
    out.refusal = refusal.substr(0, refusal.find('\n'));
    return out;
  }
  Proof proof = prove(asked.search, flags, found.answers.front());
  out.layout = std::move(proof.layout);
  out.layout->layout = shortLayout(search.given(), proof.trial.options);
  out.differences = differencesOf(best, proof.trial, std::numeric_limits<size_t>::max());
  return out;
}

} // namespace mgc::tools
