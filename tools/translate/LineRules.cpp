// See LineRules.h.
#include "tools/translate/LineRules.h"

#include "frontend/layout/Options.h"
#include "frontend/layout/Recomputation.h"
#include "runtime/data/indexed/SplitBounds.h"
#include "tools/flags/FlagChecks.h"
#include "tools/run/RunFlags.h"
#include "tools/translate/LineTokenizer.h"
#include "tools/translate/OptionNames.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;

std::string flagOf(const frontend::AnyOptionField &field) { return frontend::optionOf(field).flag; }

int64_t wholeOf(const Draft &draft, const frontend::AnyOptionField &field, int64_t standard) {
  const std::string text = plainNumber(draft.valueOf(kCompile, flagOf(field)));
  return text.empty() ? standard : std::stoll(text);
}

// The option that all shorthands of it are.
std::string wholeNameOf(const CommandOption &option) {
  const auto named = option.tool == kCompile ? compileOptionNamed(option.words.front()) : std::nullopt;
  return named ? named->own : option.name;
}

// Several shorthands of a number may stand beside each other.
bool areOneOption(const CommandOption &a, const CommandOption &b) {
  const std::string whole = wholeNameOf(a);
  const bool isOneName = a.name == b.name || a.name == whole || b.name == whole;
  return a.tool == b.tool && wholeNameOf(b) == whole && isOneName;
}

// As Python's argparse: the last of two counts.
void keepLast(Draft &draft) {
  for (size_t i = draft.options.size(); i-- > 0;) {
    const CommandOption &one = draft.options[i];
    const auto isOther = [&](const CommandOption &other) {
      return &other != &one && !other.isInstead && areOneOption(one, other);
    };
    const auto here = draft.options.begin() + static_cast<ptrdiff_t>(i);
    if (one.isInstead && std::ranges::any_of(draft.options, isOther))
      draft.options.erase(here);
    else if (const auto later = std::find_if(here, draft.options.end(), isOther); later != draft.options.end())
      draft.leaveOut(i, fmt::format("the last counts, as in Megatron-LM: {}", fmt::join(later->words, " ")),
                     FlagGroup::nothing);
  }
}

// --- mgrun -------------------------------------------------------------------------------------------------------

void keepLastOfExclusive(Draft &draft) {
  for (size_t i = draft.options.size(); i-- > 0;) {
    const CommandOption &one = draft.options[i];
    const auto excludes = [&](const CommandOption &a, const CommandOption &b) {
      const auto row = a.tool == kRun && b.tool == kRun ? runOptionNamed(a.name) : std::nullopt;
      return row && std::ranges::count(row->run->details.excludes, b.name) > 0;
    };
    const auto behind = draft.options.begin() + static_cast<ptrdiff_t>(i) + 1;
    const auto later = std::find_if(behind, draft.options.end(), [&](const CommandOption &other) {
      return excludes(one, other) || excludes(other, one);
    });
    if (later != draft.options.end())
      draft.leaveOut(i, fmt::format("excludes {}, which comes later and counts", later->name));
  }
}

void leaveOutWhatLacksAnother(Draft &draft) {
  for (bool isDone = false; !isDone;) {
    isDone = true;
    for (size_t i = draft.options.size(); i-- > 0;) {
      const auto row = draft.options[i].tool == kRun ? runOptionNamed(draft.options[i].name) : std::nullopt;
      if (!row)
        continue;
      for (const std::string &needed : row->run->details.needs)
        if (!draft.has(kRun, needed)) {
          draft.leaveOut(i, fmt::format("is read with {}, which is not there", needed));
          isDone = false;
          break;
        }
    }
  }
}

// Megatron-LM's --load may have nothing to load yet.
void decideStart(Draft &draft) {
  const CommandOption *load = draft.find(kRun, "--load");
  if (!load || draft.valueOf(kRun, "--load") != draft.valueOf(kRun, "--save"))
    return;
  const std::optional<size_t> flag = load->flag;
  draft.leaveOut(kRun, "--load", "");
  draft.options.push_back({kRun, "--restart-from-latest", {"--restart-from-latest"}, flag, false});
  if (flag)
    draft.flags[*flag].group = FlagGroup::otherwise, draft.flags[*flag].isLeftOut = false,
    draft.flags[*flag].text =
        "mgrun --restart-from-latest: from the latest checkpoint of --save, or anew where there is none";
}

// The token that ends a document, which Megatron-LM has of its tokenizer. Made-up data have ends of their own in packed plans.
void decideEnds(Draft &draft, const MegatronLine &line) {
  const bool isPacked = draft.has(kCompile, flagOf(&LayoutOptions::resetPositionIds)) ||
                        draft.has(kCompile, flagOf(&LayoutOptions::resetAttentionMask));
  const bool isMasked = draft.has(kRun, "--eod-mask-loss");
  if (draft.has(kRun, "--eod-token-id") || (isPacked && draft.has(kRun, "--mock-data")) || (!isPacked && !isMasked))
    return;
  const std::unique_ptr<Tokenizer> tokenizer = tokenizerOf(line);
  if (tokenizer && tokenizer->endToken())
    return draft.add(kRun, {"--eod-token-id", std::to_string(*tokenizer->endToken())});
  const std::string why =
      "mgrun needs the token that ends a document, and the tokenizer is not there to be asked: --eod-token-id N "
      "on the line says it";
  draft.leaveOut(kRun, "--eod-mask-loss", why);
  if (isPacked)
    draft.assumed.push_back("packed documents: " + why);
}

// A batch that grows goes from one plan to the next by a checkpoint.
void decideRampup(Draft &draft) {
  if (!draft.has(kRun, "--rampup-batch-size") || draft.has(kRun, "--save"))
    return;
  draft.add(kRun, {"--save", "checkpoints"});
  draft.assumed.emplace_back("--save checkpoints, by which mgrun goes from one size of the batch to the next");
}

// The options as mgrun reads them; nothing where a file that one of them names is not there.
std::optional<TrainingOptions> readRun(const Draft &draft) {
  TrainingOptions options;
  CLI::App app;
  addRunFlags(app, options);
  std::vector<std::string> words = {"plan"};
  for (const CommandOption &option : draft.options)
    if (option.tool == kRun)
      words.insert(words.end(), option.words.begin(), option.words.end());
  std::ranges::reverse(words);
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError &) {
    return std::nullopt;
  }
  std::vector<std::string> notes;
  return readCorpusFlags(options, notes).isOk() && readRunFlags(options).isOk() ? std::optional(std::move(options))
                                                                                : std::nullopt;
}

// mgrun refuses options that do nothing.
void leaveOutIdle(Draft &draft) {
  const std::optional<TrainingOptions> options = readRun(draft);
  if (!options)
    return;
  for (size_t i = draft.options.size(); i-- > 0;) {
    const auto row = draft.options[i].tool == kRun ? runOptionNamed(draft.options[i].name) : std::nullopt;
    if (!row)
      continue;
    const auto &idle = row->run->details.idle;
    if (const auto why = std::ranges::find_if(idle, [&](const IdleWhen &when) { return when.isSo(*options); });
        why != idle.end())
      draft.leaveOut(i, fmt::format("does nothing here: {}", why->why), FlagGroup::nothing);
  }
}

// Whether there is a part of the data to evaluate on.
bool hasValidationData(const Draft &draft) {
  if (draft.has(kRun, "--train-data-path"))
    return draft.has(kRun, "--valid-data-path");
  if (draft.has(kRun, "--data"))
    return draft.has(kRun, "--valid-data");
  if (!draft.has(kRun, "--data-path"))
    return draft.has(kRun, "--mock-data");
  const std::string given = draft.valueOf(kRun, "--split");
  const auto split = parseSplit(given.empty() ? TypedOptions().split : given);
  return split.isOk() && split->parts[size_t(Split::valid)].has_value();
}

// Megatron-LM evaluates no batch where --eval-iters is 0 or less, or no data are for it.
void decideEvaluation(Draft &draft, const MegatronLine &line) {
  const LineFlag *iters = line.last({"--eval-iters"});
  const std::string text = iters && !iters->values.empty() ? plainNumber(iters->values.front()) : "";
  const bool isNone = text == "0" || text.starts_with('-');
  const std::string why = isNone ? fmt::format("nothing is evaluated: --eval-iters {}", text)
                                 : "nothing is evaluated: no data are for validation";
  if (isNone || !hasValidationData(draft)) {
    for (const char *flag : {"--eval-interval", "--eval-iters"})
      draft.leaveOut(kRun, flag, why, FlagGroup::nothing);
    for (TranslatedFlag &flag : draft.flags)
      if (isNone && flag.flag.name == "--eval-iters")
        flag.group = FlagGroup::nothing, flag.text = why;
    return;
  }
  if (draft.has(kRun, "--eval-iters") && !draft.has(kRun, "--eval-interval"))
    draft.add(kRun, {"--eval-interval", "1000"});
  if (draft.has(kRun, "--eval-interval"))
    draft.add(kCompile, {"--evaluation"});
}

// --- mgc compile ---------------------------------------------------------------------------------------------------

// Two ways to say what is recomputed, and options that are read beside one of them.
void decideRecomputation(Draft &draft) {
  const std::string granularity = flagOf(&LayoutOptions::recomputeGranularity),
                    activations = flagOf(&LayoutOptions::recomputeActivations),
                    method = flagOf(&LayoutOptions::recomputeMethod), layers = flagOf(&LayoutOptions::recomputeLayers),
                    modules = flagOf(&LayoutOptions::recomputeModules);
  const CommandOption *full = draft.find(kCompile, granularity), *selective = draft.find(kCompile, activations);
  if (full && selective && draft.valueOf(kCompile, granularity) == "full") {
    const bool isFull = full > selective; // pointers into one list
    draft.leaveOut(
        kCompile, isFull ? activations : granularity,
        fmt::format("contradicts {}, which comes later and counts", isFull ? granularity + " full" : activations));
  }
  const std::string given = draft.valueOf(kCompile, granularity);
  const bool isFull = given == "full", isSelective = given == "selective" || draft.has(kCompile, activations);
  if (!isFull)
    for (const std::string &name : {method, layers})
      draft.leaveOut(kCompile, name, fmt::format("is read with {} full alone", granularity), FlagGroup::nothing);
  if (!isSelective)
    draft.leaveOut(kCompile, modules, fmt::format("is read with {} selective alone", granularity), FlagGroup::nothing);
  if (isFull && !draft.has(kCompile, method))
    draft.add(kCompile, {method, "uniform"});
  if (isFull && !draft.has(kCompile, layers))
    draft.add(kCompile, {layers, "1"});
}

// Modules that no layer of the model has recompute nothing.
void leaveOutModules(Draft &draft, const frontend::ModelDescription &model) {
  const std::string name = flagOf(&LayoutOptions::recomputeModules);
  const std::vector<std::string> known = frontend::recomputeModuleNames();
  for (size_t i = draft.options.size(); i-- > 0;) {
    CommandOption &option = draft.options[i];
    if (option.tool != kCompile || option.name != name)
      continue;
    std::vector<std::string> absent;
    std::erase_if(option.words, [&](const std::string &word) {
      const bool isAbsent = std::ranges::count(known, word) > 0 && !frontend::hasRecomputeModule(model, word);
      if (isAbsent)
        absent.push_back(word);
      return isAbsent;
    });
    if (option.words.size() == 1)
      draft.leaveOut(i, "does nothing here: the model has none of these modules", FlagGroup::nothing);
    else if (!absent.empty() && option.flag)
      draft.flags[*option.flag].text +=
          fmt::format(" without {}, of which the model has none", fmt::join(absent, ", "));
  }
}

void decideExperts(Draft &draft, const frontend::ModelDescription *model) {
  const auto isOfExperts = [](const std::string &name) {
    return name.starts_with("--moe-") || name == flagOf(&LayoutOptions::ep) || name == flagOf(&LayoutOptions::etp);
  };
  for (size_t i = draft.options.size(); model && !model->hasExperts() && i-- > 0;)
    if (isOfExperts(draft.options[i].name))
      draft.leaveOut(i, "does nothing here: the model has no experts", FlagGroup::nothing);
  const std::string type = flagOf(&LayoutOptions::balanceType),
                    coefficient = flagOf(&LayoutOptions::auxLossCoefficient);
  const std::string balance = draft.valueOf(kCompile, type), factor = draft.valueOf(kCompile, coefficient);
  if (balance != "seq_aux_loss")
    draft.leaveOut(kCompile, coefficient, "is of a term of the loss that is left out", FlagGroup::unsupported);
  else if (factor.empty() || std::stod(plainNumber(factor)) == 0)
    for (const std::string &name : {type, coefficient})
      draft.leaveOut(kCompile, name, "does nothing: the coefficient is 0, Megatron-LM's default", FlagGroup::nothing);
}

// Biases of routers move by 0.001 in Megatron-LM, unless the line says otherwise.
void decideRouterBiases(Draft &draft, const frontend::ModelDescription *model) {
  const std::string rate = "--moe-router-bias-update-rate";
  const bool hasBias = model && std::ranges::any_of(model->kinds, [](const frontend::BlockKind &kind) {
                         return kind.hasExperts() && kind.block.experts->bias;
                       });
  if (model && !hasBias)
    draft.leaveOut(kRun, rate, "does nothing here: routers have no bias that load moves", FlagGroup::nothing);
  else if (hasBias && !draft.has(kRun, rate))
    draft.add(kRun, {rate, "0.001"});
}

void decideOffload(Draft &draft) {
  const bool isForCpu = draft.valueOf(kCompile, flagOf(&LayoutOptions::target)).empty();
  const std::vector<std::pair<frontend::AnyOptionField, std::vector<frontend::AnyOptionField>>> groups = {
      {&LayoutOptions::optimizerOffload, {&LayoutOptions::offloadFraction}},
      {&LayoutOptions::activationOffload, {&LayoutOptions::offloadModules, &LayoutOptions::activationFraction}}};
  for (const auto &[first, others] : groups) {
    if (isForCpu)
      draft.leaveOut(kCompile, flagOf(first), "is for GPUs: it stays where the line has --target cuda:sm_90, ..");
    for (const frontend::AnyOptionField &other : others)
      if (!draft.has(kCompile, flagOf(first)))
        draft.leaveOut(kCompile, flagOf(other), fmt::format("is read with {}, which is not there", flagOf(first)));
  }
}

void decideGather(Draft &draft) {
  const std::string gather = flagOf(&LayoutOptions::overlapParamGather),
                    reduce = flagOf(&LayoutOptions::overlapGradReduce);
  if (!draft.has(kCompile, reduce))
    draft.leaveOut(kCompile, gather, fmt::format("is valid with {} alone, in Megatron-LM too", reduce));
}

// Ranks: those of the launcher, else as few as there can be.
void decideRanks(Draft &draft, const MegatronLine &line) {
  const std::string dp = flagOf(&LayoutOptions::dp), world = flagOf(&LayoutOptions::world);
  if (draft.has(kCompile, dp) || draft.has(kCompile, world))
    return;
  if (line.world)
    return draft.add(kCompile, {world, std::to_string(*line.world)});
  const int64_t tp = wholeOf(draft, &LayoutOptions::tp, 1), cp = wholeOf(draft, &LayoutOptions::cp, 1),
                ep = wholeOf(draft, &LayoutOptions::ep, 1), etp = wholeOf(draft, &LayoutOptions::etp, tp);
  const int64_t ofExperts = draft.has(kCompile, flagOf(&LayoutOptions::ep)) ? ep * etp : 1;
  const int64_t replicas = ofExperts / std::gcd(ofExperts, tp * cp);
  draft.add(kCompile, {dp, std::to_string(replicas)});
  draft.assumed.push_back(
      fmt::format("{} {}, as few data parallel ranks as there can be, for the line does not say how many "
                  "ranks there are: {} N on the line says it",
                  dp, replicas, world));
}

// Megatron-LM's default is one microbatch for each data parallel rank.
void decideBatch(Draft &draft) {
  const std::string gbs = flagOf(&LayoutOptions::gbs);
  if (draft.has(kCompile, gbs))
    return;
  const int64_t ofReplica = wholeOf(draft, &LayoutOptions::tp, 1) * wholeOf(draft, &LayoutOptions::cp, 1) *
                            wholeOf(draft, &LayoutOptions::pp, 1),
                ofWorld = wholeOf(draft, &LayoutOptions::world, ofReplica) / ofReplica,
                replicas = wholeOf(draft, &LayoutOptions::dp, std::max<int64_t>(1, ofWorld));
  draft.add(kCompile, {gbs, std::to_string(wholeOf(draft, &LayoutOptions::mbs, 1) * replicas)});
}

// An option of a flag that one command goes without is in no command.
void leaveOutCopies(Draft &draft) {
  std::erase_if(draft.options,
                [&](const CommandOption &option) { return option.flag && draft.flags[*option.flag].isLeftOut; });
}

void sayWhatIsMissing(Draft &draft) {
  const auto hasAny = [&](std::initializer_list<const char *> names) {
    return std::ranges::any_of(names, [&](const char *name) { return draft.has(kRun, name); });
  };
  if (!hasAny({"--data-path", "--train-data-path", "--data", "--mock-data"}))
    draft.assumed.emplace_back("no data: mgrun needs --data-path PREFIX, --data FILE or --mock-data");
  if (!hasAny({"--train-iters", "--train-samples"}))
    draft.assumed.push_back(
        fmt::format("--train-iters {}, which is mgrun's default, for the line does not say how long to train",
                    TrainingOptions().trainIters));
}

} // namespace

void applyRules(Draft &draft, const MegatronLine &line, const frontend::ModelDescription *model) {
  keepLast(draft);
  keepLastOfExclusive(draft);
  decideEvaluation(draft, line);
  decideRouterBiases(draft, model);
  decideRampup(draft);
  decideStart(draft);
  decideEnds(draft, line);
  leaveOutWhatLacksAnother(draft);
  leaveOutIdle(draft);
  leaveOutWhatLacksAnother(draft);
  decideRecomputation(draft);
  if (model)
    leaveOutModules(draft, *model);
  decideExperts(draft, model);
  decideOffload(draft);
  decideGather(draft);
  decideRanks(draft, line);
  decideBatch(draft);
  leaveOutCopies(draft);
  sayWhatIsMissing(draft);
}

} // namespace mgc::tools
