// See ProveLayouts.h.
#include "tools/auto/ProveLayouts.h"

#include "frontend/layout/Options.h"
#include "tools/flags/Quoted.h"

#include <algorithm>
#include <ranges>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;

std::string commandOf(const LayoutOptions &options, const CompileFlags &flags) {
  std::string command = "mgc compile " + quoted(flags.model);
  for (const auto word : std::views::split(frontend::flagsOf(options), ' '))
    command += " " + quoted(std::string(word.begin(), word.end()));
  if (!flags.rules.empty())
    command += " --rules " + quoted(flags.rules);
  if (!flags.fusion)
    command += " --no-fusion";
  return command + " -o " + (flags.output.empty() ? "PLAN" : quoted(flags.output));
}

Proof proofOf(const LayoutSearch &search, const CompileFlags &flags, const planner::Answer &answer,
              planner::Trial trial) {
  const SearchedSpace &space = search.space();
  ProvedLayout proved;
  proved.layout = shortLayout(space.given, answer.options), proved.command = commandOf(answer.options, flags);
  proved.seconds = trial.seconds, proved.tokensPerSecond = trial.tokensPerSecond;
  proved.utilisation = trial.modelUtilisation;
  proved.bytes = trial.bytes, proved.hostBytes = trial.hostBytes;
  proved.searchedSeconds = answer.estimate.seconds, proved.searchedBytes = answer.estimate.bytes();
  proved.problem = trial.hasPlan() ? differenceIn(proved, space.memory, space.hostMemory)
                                   : "the search found a layout that has no plan: " + trial.refusal;
  return {std::move(proved), std::move(trial)};
}

} // namespace

std::vector<Proof> prove(const LayoutSearch &search, const CompileFlags &flags,
                         const std::vector<planner::Answer> &answers, const std::vector<cost::Machine> &others) {
  std::vector<LayoutOptions> options;
  for (const planner::Answer &answer : answers)
    options.push_back(answer.options);
  std::vector<planner::Trial> trials = search.tryEach(options, others);
  std::vector<Proof> proofs;
  for (size_t i = 0; i < answers.size(); ++i)
    proofs.push_back(proofOf(search, flags, answers[i], std::move(trials[i])));
  std::ranges::stable_sort(proofs, {},
                           [](const Proof &proof) { return std::pair(!proof.trial.hasPlan(), proof.trial.seconds); });
  return proofs;
}

Proof prove(const LayoutSearch &search, const CompileFlags &flags, const planner::Answer &answer) {
  return proofOf(search, flags, answer, search.tryEach({answer.options}).front());
}

} // namespace mgc::tools
