// See LineRules.h.
#include "tools/translate/LineRules.h"

#include "frontend/layout/Options.h"
#include "frontend/layout/Recomputation.h"
#include "runtime/data/indexed/SplitBounds.h"
#include "tools/flags/FlagChecks.h"
#include "tools/translate/LineTokenizer.h"
#include "tools/translate/OptionNames.h"
#include "tools/translate/RunOfLine.h"

#include <algorithm>
#include <array>
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

bool areOneFlag(const std::string &a, const std::string &b) {
  if (a == b)
    return true;
  for (const auto &named : {compileOptionNamed, runOptionNamed})
    if (const auto one = named(a), other = named(b); one && other && one->own == other->own)
      return true;
  return false;
}

// A flag whose value cannot be read needs none where a later one counts.
void forgetReplaced(Draft &draft) {
  for (auto flag = draft.flags.begin(); flag != draft.flags.end(); ++flag) {
    const auto later = std::find_if(flag + 1, draft.flags.end(), [&](const TranslatedFlag &other) {
      return other.group != FlagGroup::needsValue && areOneFlag(flag->flag.name, other.flag.name);
    });
    if (flag->group == FlagGroup::needsValue && later != draft.flags.end())
      flag->group = FlagGroup::nothing,
      flag->text = fmt::format("the last counts, as in Megatron-LM: {}", later->flag.text());
  }
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

// Two settings, of which Megatron-LM takes the first, wherever they stand.
struct Precedence {
  std::string_view tool, first, second;
  std::string_view value = ""; // the second has it; empty: any
};
constexpr Precedence kPrecedences[] = {{kCompile, "--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32"},
                                       {kCompile, "--recompute-activations", "--recompute-granularity", "full"},
                                       {kRun, "--mock-data", "--data-path"},
                                       {kRun, "--mock-data", "--train-data-path"},
                                       {kRun, "--mock-data", "--valid-data-path"}};

void applyPrecedences(Draft &draft) {
  const auto isNamed = [](const CommandOption &option, std::string_view tool, std::string_view flag) {
    return option.tool == tool && option.words.front() == flag;
  };
  for (const Precedence &row : kPrecedences) {
    const auto isFirst = [&](const CommandOption &option) { return isNamed(option, row.tool, row.first); };
    for (size_t i = draft.options.size(); i-- > 0;)
      if (const CommandOption &one = draft.options[i]; isNamed(one, row.tool, row.second) &&
                                                       (row.value.empty() || one.words.back() == row.value) &&
                                                       std::ranges::any_of(draft.options, isFirst))
        draft.leaveOut(i, fmt::format("{} counts, as in Megatron-LM, wherever it stands", row.first),
                       FlagGroup::nothing);
  }
}

// Two that exclude each other: which one is meant is not known.
void refuseExclusive(Draft &draft) {
  const auto excludes = [&](const CommandOption &a, const CommandOption &b) {
    const auto row = a.tool == kRun && b.tool == kRun ? runOptionNamed(a.name) : std::nullopt;
    return row && std::ranges::count(row->run->details.excludes, b.name) > 0;
  };
  for (const CommandOption &a : draft.options)
    for (const CommandOption &b : draft.options)
      if (excludes(a, b))
        draft.problems.push_back(
            fmt::format("{} and {} exclude each other, expected one", a.words.front(), b.words.front()));
}

// 0 is Megatron-LM's default of them all.
void leaveOutNoWarmup(Draft &draft) {
  for (const char *flag : {"--lr-warmup-iters", "--lr-warmup-samples", "--lr-warmup-fraction"})
    if (plainNumber(draft.valueOf(kRun, flag)) == "0")
      draft.leaveOut(kRun, flag, "0 is the default", FlagGroup::nothing);
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

// Megatron-LM keeps every checkpoint, mgrun the newest.
void decideRetention(Draft &draft) {
  if (!draft.has(kRun, "--save") || !draft.has(kRun, "--save-interval") || draft.has(kRun, "--save-retain"))
    return;
  draft.add(kRun, {"--save-retain", "0"});
  draft.assumed.emplace_back(
      "--save-retain 0: every checkpoint stays, as in Megatron-LM; mgrun alone keeps the newest");
}

// Megatron-LM's --load has the optimizer's state too; weights alone come by --finetune and --pretrained-checkpoint.
void decideOptimizerState(Draft &draft, const MegatronLine &line) {
  const bool isLoaded = line.last({"--load"}) && !line.last({"--finetune", "--pretrained-checkpoint"});
  for (TranslatedFlag &flag : draft.flags)
    if (isLoaded && spellingsOf(flag.flag.name).back() == "--no-load-optim")
      flag.group = FlagGroup::unsupported, flag.isLeftOut = true;
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
  draft.leaveOut(kRun, "--eod-mask-loss", why, FlagGroup::needsValue);
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

// mgrun refuses options that do nothing.
void leaveOutIdle(Draft &draft) {
  const Result<TrainingOptions> options = readRun(draft);
  if (!options.isOk())
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

// Where labels can be masked, microbatches do not have equally many.
void sayWhatTheLossIs(Draft &draft, const MegatronLine &line) {
  const auto isMask = [&](const char *flag) { return draft.has(kRun, flag); };
  constexpr std::array kMasks = {"--eod-mask-loss", "--sft", "--mlm-probability"};
  const auto mask = std::ranges::find_if(kMasks, isMask);
  if (mask != kMasks.end() && !line.last({"--calculate-per-token-loss"}))
    draft.assumed.push_back(
        fmt::format("--calculate-per-token-loss, for the loss is the mean over the labels of the global batch; without "
                    "it Megatron-LM takes the mean of each microbatch's mean, which {} makes another",
                    *mask));
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
  forgetReplaced(draft);
  applyPrecedences(draft);
  keepLast(draft);
  leaveOutNoWarmup(draft);
  refuseExclusive(draft);
  decideEvaluation(draft, line);
  decideRouterBiases(draft, model);
  decideRampup(draft);
  decideOptimizerState(draft, line);
  decideStart(draft);
  decideRetention(draft);
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
  sayWhatTheLossIs(draft, line);
  sayWhatIsMissing(draft);
}

} // namespace mgc::tools
