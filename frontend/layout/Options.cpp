// See Options.h.
#include "frontend/layout/Options.h"

#include "frontend/layout/Context.h"
#include "frontend/layout/ExpertBalance.h"
#include "frontend/layout/LaterTokens.h"
#include "frontend/layout/OptionRows.h"
#include "plan/Optimizers.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::frontend {

namespace {

constexpr int64_t kMaxAxis = 1 << 16, kMaxWorld = 1 << 24, kMaxTokens = 1 << 30, kMaxElements = int64_t(1) << 40,
                  kMaxCoefficient = 1 << 20, kStandardSequence = 1024, kMostLayers = 1 << 20;

std::vector<std::string> possibleTypes(const Supported &) {
  std::vector<std::string> names;
  for (const ContextType &type : contextTypes())
    names.push_back(type.name);
  return names;
}
std::vector<std::string> dispatchers(const Supported &) { return {"alltoall", "allgather"}; }
std::vector<std::string> orders(const Supported &) { return {"zigzag", "contiguous"}; }
std::vector<std::string> scheduleNames(const Supported &supported) { return namesOf(supported.schedules); }
std::vector<std::string> machineNames(const Supported &supported) { return namesOf(supported.machines); }
std::vector<std::string> dtypes(const Supported &supported) { return supported.dtypes; }
std::vector<std::string> outerStrategies(const Supported &) { return {"no_shard", std::string(kShardsOuter)}; }
std::vector<std::string> optimizerNames(const Supported &) {
  std::vector<std::string> names = wordsOf<plan::Optimizer>();
  names.emplace_back(kAdam);
  return names;
}
std::vector<std::string> targetNames(const Supported &supported) { return namesOf(supported.targets); }

// Up to what takes memory.
std::vector<LayoutOption> firstOptions() {
  using Options = LayoutOptions;
  const std::vector<AnyOptionField> cut = {&Options::stages,           &Options::pipelineText,
                                           &Options::firstStageLayers, &Options::lastStageLayers,
                                           &Options::countsEmbedding,  &Options::countsLoss};
  return {
      {.flag = "--tp",
       .field = &Options::tp,
       .aliases = {"--tensor-model-parallel-size"},
       .most = kMaxAxis,
       .help = "Tensor parallel ranks",
       .chosen = 1,
       .reason = "no tensor parallelism unless asked for",
       .searched = searchedTensor},
      {.flag = "--cp",
       .field = &Options::cp,
       .aliases = {"--context-parallel-size"},
       .most = kMaxAxis,
       .help = "Context parallel ranks: each has a part of the sequence",
       .chosen = 1,
       .reason = "no context parallelism unless asked for",
       .searched = searchedContext},
      {.flag = "--cp-comm-type",
       .field = &Options::contextTypes,
       .words = possibleTypes,
       .help = "How attention sees the whole sequence; one for all layers or one per layer",
       .reason = "takes any number of heads"},
      {.flag = "--hierarchical-context-parallel-sizes",
       .field = &Options::contextHierarchy,
       .most = kMaxAxis,
       .mostValues = 2,
       .help = "A B with A * B = cp: A neighbours exchange heads; keys of the B groups travel (a2a+p2p) or are "
               "gathered"},
      {.flag = "--cp-order",
       .field = &Options::contextOrder,
       .words = orders,
       .help = "Order of the positions over cp",
       .reason = "where keys are gathered: equal work of ranks; contiguous where heads alone are exchanged"},
      {.flag = "--ep",
       .field = &Options::ep,
       .aliases = {"--expert-model-parallel-size"},
       .most = kMaxAxis,
       .help = "Expert parallel ranks, of tp * cp * dp: they share out the experts",
       .chosen = 1,
       .reason = "every rank has all experts unless asked for",
       .searched = searchedExperts},
      {.flag = "--etp",
       .field = &Options::etp,
       .aliases = {"--expert-tensor-parallel-size"},
       .most = kMaxAxis,
       .help = "Tensor parallel ranks of an expert, of tp * cp * dp: they share its columns",
       .standard = "tp",
       .reason = "as tp, like Megatron-LM",
       .searched = searchedExpertTensor},
      {.flag = "--moe-token-dispatcher-type",
       .field = &Options::dispatcher,
       .words = dispatchers,
       .help = "How tokens reach experts of other ranks: their rows travel, or all tokens are gathered",
       .standard = "by the choices of a token"},
      {.flag = "--pp",
       .field = &Options::pp,
       .aliases = {"--pipeline-model-parallel-size"},
       .most = kMaxAxis,
       .help = "Pipeline stages",
       .chosen = 1,
       .reason = "no pipeline unless asked for",
       .searched = searchedStages},
      {.flag = "--dp",
       .field = &Options::dp,
       .aliases = {"--data-parallel-size"},
       .most = kMaxAxis,
       .help = "Data parallel ranks",
       .standard = "world / (tp * cp * pp)",
       .reason = "with --world; else 1: one replica unless asked for"},
      {.flag = "--world",
       .field = &Options::world,
       .aliases = {"--world-size"},
       .most = kMaxWorld,
       .help = "All ranks; dp follows"},
      {.flag = "--vpp",
       .field = &Options::vpp,
       .aliases = {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank"},
       .most = 1 << 12,
       .help = "Chunks of layers per stage (schedules interleaved, zb-v, v-half, dualpipev, auto)",
       .standard = "the least the schedule takes",
       .reason = "one chunk of layers per stage where it takes one",
       .replaces = {&Options::layersPerChunk},
       .searched = searchedChunks,
       .training = &Layout::virtualStages},
      {.flag = "--num-layers-per-virtual-pipeline-stage",
       .field = &Options::layersPerChunk,
       .most = 1 << 20,
       .help = "Megatron-LM's way to give --vpp: layers of a chunk; vpp = layers / (pp * N)",
       .replaces = {&Options::vpp}},
      {.flag = "--stages",
       .field = &Options::stages,
       .help = "Layers of each chunk of the pipeline: 3,4x14,2 is one of 3, 14 of 4 and one of 2; auto searches the "
               "fastest cut",
       .standard = "by work",
       .reason = "the largest has least work",
       .replaces = cut,
       .isSearchedCut = true,
       .training = &Layout::stages},
      {.flag = "--decoder-first-pipeline-num-layers",
       .field = &Options::firstStageLayers,
       .most = kMostLayers,
       .help = "Layers of the first stage; the others share out the rest evenly",
       .replaces = cut},
      {.flag = "--decoder-last-pipeline-num-layers",
       .field = &Options::lastStageLayers,
       .most = kMostLayers,
       .help = "Layers of the last stage; the others share out the rest evenly",
       .replaces = cut},
      {.flag = "--account-for-embedding-in-pipeline-split",
       .field = &Options::countsEmbedding,
       .help = "Chunks have as many layers, of which the embedding is one",
       .standard = "off",
       .replaces = {&Options::stages, &Options::pipelineText, &Options::firstStageLayers, &Options::lastStageLayers}},
      {.flag = "--account-for-loss-in-pipeline-split",
       .field = &Options::countsLoss,
       .help = "Chunks have as many layers, of which the head with the loss is one",
       .standard = "off",
       .replaces = {&Options::stages, &Options::pipelineText, &Options::firstStageLayers, &Options::lastStageLayers}},
      {.flag = "--pipeline-model-parallel-layout",
       .field = &Options::pipelineText,
       .help = "Megatron-LM's text of the chunks, as Et*3|(tt|)*29m|L: E embedding, t layer, m module of a later "
               "token, L loss",
       .replaces = cut},
      {.flag = "--sp",
       .field = &Options::sp,
       .aliases = {"--sequence-parallel"},
       .help = "Sequence parallelism",
       .standard = "on",
       .reason = "when tp > 1",
       .hasNegation = true,
       .training = &Layout::sequenceParallel},
      {.flag = "--seq",
       .field = &Options::seq,
       .aliases = {"--seq-length", "--decoder-seq-length"},
       .most = kMaxTokens,
       .help = "Tokens per sequence, of the decoder's where there is an encoder",
       .chosen = kStandardSequence,
       .reason = fmt::format("smaller of the model's positions and {}", kStandardSequence),
       .training = &Layout::sequenceLength,
       .onResume = OnResume::refused},
      {.flag = "--encoder-seq-length",
       .field = &Options::encoderLength,
       .most = kMaxTokens,
       .help = "Tokens per sequence of the encoder, of models that have one",
       .standard = "--seq",
       .reason = "as long as the decoder's",
       .ofBlocks = &Layout::encoderLength,
       .onResume = OnResume::refused},
      {.flag = "--mbs",
       .field = &Options::mbs,
       .aliases = {"--micro-batch-size"},
       .most = 1 << 20,
       .help = "Sequences per microbatch and data rank",
       .chosen = 1,
       .reason = "least memory",
       .searched = searchedMicrobatch,
       .training = &Layout::microBatchSize},
      {.flag = "--gbs",
       .field = &Options::gbs,
       .aliases = {"--global-batch-size"},
       .most = kMaxElements,
       .help = "Sequences per training step: mbs * accumulation * dp",
       .standard = "mbs * dp * pp",
       .reason = "mbs * dp * pp",
       .training = &Layout::globalBatchSize,
       .onResume = OnResume::refused},
      {.flag = "--zero",
       .field = &Options::zero,
       .least = 0,
       .most = 3,
       .help =
           "0: replicated optimizer; 1: distributed optimizer (ZeRO-1); 2: gradients are too (ZeRO-2); 3: parameters "
           "are too (ZeRO-3, fully sharded); auto, with --memory: the level, and the way to keep values and the "
           "instances where "
           "they are not given, that take least time",
       .chosen = 0,
       .reason = "optimizer state on every replica unless asked for",
       .orAuto = true,
       .searched = searchedLevel,
       .training = &Layout::zero},
      {.flag = "--num-distributed-optimizer-instances",
       .field = &Options::instances,
       .most = kMaxAxis,
       .help = "With --zero 1 to 3: groups of data ranks, the nearest, that each have all that is shared out (hybrid "
               "sharding, HSDP)",
       .chosen = 1,
       .reason = "all data ranks share it out"},
      {.flag = "--outer-dp-sharding-strategy",
       .field = &Options::outerSharding,
       .words = outerStrategies,
       .help =
           "With --num-distributed-optimizer-instances and --zero 3: optim shares out what the optimizer keeps, and "
           "masters, over all data ranks (HFSDP)",
       .reason = "each instance has all of it",
       .training = &Layout::shardsOuter},
      {.flag = "--reshard-after-forward",
       .field = &Options::reshard,
       .help = "With --zero 3: values that a forward has gathered are gathered again for the backward; else they stay "
               "until then",
       .standard = "on",
       .reason = "the memory of one layer at a time",
       .hasNegation = true,
       .training = &Layout::reshardsAfterForward},
      {.flag = "--optimizer",
       .field = &Options::optimizer,
       .words = optimizerNames,
       .help =
           fmt::format("Update rule of the parameters (docs/optimizers.md); {} is Megatron-LM's name of adamw", kAdam),
       .reason = "Megatron-LM's default",
       .training = &Layout::optimizer,
       .onResume = OnResume::refused,
       .compared = &Layout::optimizer},
      {.flag = "--schedule",
       .field = &Options::schedule,
       .words = scheduleNames,
       .orFile = ", or a file: its path has a dot or a slash, or is there",
       .help = "Order of a stage's forwards and backwards; a file with one row of tasks per stage, or a name",
       .standard = "the default for --vpp",
       .searchedWords = searchedSchedules,
       .training = &Layout::schedule},
      {.flag = "--schedule-memory",
       .field = &Options::scheduleMemory,
       .least = 0,
       .most = kMaxAxis,
       .help = "With --schedule auto: the most live activations of a stage, as a share of those of 1f1b's first",
       .chosen = 1,
       .reason = "the memory of 1f1b"},
      {.flag = "--machine",
       .field = &Options::machine,
       .words = machineNames,
       .orFile = ", or a file: its path has a dot or a slash, or is there",
       .help =
           "With --schedule auto or --memory: the machine whose times it plans by; a file that describes it, or a name",
       .standard = "the first for --target"},
      {.flag = "--dtype",
       .field = &Options::dtype,
       .words = dtypes,
       .help = "Of parameters and activations; bf16 has f32 masters",
       .reason = "the first supported",
       .onResume = OnResume::noted,
       .compared = &Layout::dtype},
      {.flag = "--grad-dtype",
       .field = &Options::gradientType,
       .words = dtypes,
       .help = "Of parameters' gradients; bf16 with --dtype bf16 alone",
       .reason = "sums over microbatches and ranks",
       .onResume = OnResume::noted,
       .compared = &Layout::gradientType},
      {.flag = "--fp32-residual-connection",
       .field = &Options::fp32Residual,
       .help = "With --dtype bf16: the residual stream is f32 from the embedding to the last norm",
       .standard = "off",
       .reason = "of --dtype",
       .hasNegation = true,
       .ofBlocks = &Layout::fp32Residual,
       .onResume = OnResume::noted},
      {.flag = "--reset-position-ids",
       .field = &Options::resetPositionIds,
       .help = "Of packed documents: positions count from the beginning of each",
       .standard = "off",
       .reason = "a sequence is one document",
       .onResume = OnResume::refused,
       .compared = &Layout::resetPositionIds},
      {.flag = "--reset-attention-mask",
       .field = &Options::resetAttentionMask,
       .help = "Of packed documents: attention sees nothing of the others",
       .standard = "off",
       .reason = "a sequence is one document",
       .onResume = OnResume::refused,
       .compared = &Layout::resetAttentionMask},
      {.flag = "--moe-router-load-balancing-type",
       .field = &Options::balanceType,
       .words = balanceTypes,
       .whyNot = refusedBalanceType,
       .help = "Of models with experts: a term of the loss that keeps their load even",
       .reason = "no term unless asked for",
       .ofBlocks = &Layout::balanceType,
       .onResume = OnResume::refused},
      {.flag = "--moe-aux-loss-coeff",
       .field = &Options::auxLossCoefficient,
       .least = 0,
       .most = kMaxCoefficient,
       .help = "Coefficient of seq_aux_loss, in each layer with experts",
       .chosen = 0,
       .reason = "no term unless asked for",
       .ofBlocks = &Layout::auxLossCoefficient,
       .onResume = OnResume::refused},
      {.flag = "--moe-z-loss-coeff",
       .field = &Options::zLossCoefficient,
       .least = 0,
       .most = kMaxCoefficient,
       .help = "Coefficient of the router's z-loss, in each layer with experts",
       .chosen = 0,
       .reason = "no term unless asked for",
       .ofBlocks = &Layout::zLossCoefficient,
       .onResume = OnResume::refused},
      {.flag = "--moe-expert-capacity-factor",
       .field = &Options::capacityFactor,
       .least = 0,
       .most = kMaxCoefficient,
       .help = "Of models with experts: each has room for so many times the mean load; other choices are "
               "dropped. 0: none is",
       .chosen = 0,
       .reason = "no choice is dropped unless asked for",
       .ofBlocks = &Layout::capacityFactor,
       .onResume = OnResume::refused},
      {.flag = "--moe-token-drop-policy",
       .field = &Options::dropPolicy,
       .words = dropPolicies,
       .help = "Which choices have the room: those of the largest weights, or of the first positions",
       .reason = "as Megatron-LM: the largest weights",
       .ofBlocks = &Layout::dropPolicy,
       .onResume = OnResume::refused},
      {.flag = "--moe-rows-factor",
       .field = &Options::rowsFactor,
       .least = 0,
       .most = kMaxCoefficient,
       .help = "Of models with experts: a rank has room for so many times the mean of their rows, and a step with more "
               "ends. 0: for all that may come",
       .chosen = 0,
       .reason = "no step ends",
       .training = &Layout::rowsFactor},
      {.flag = "--moe-per-layer-logging",
       .field = &Options::countsLoad,
       .help = "Count the tokens of each expert in each layer, for mgrun --moe-per-layer-logging",
       .standard = "off",
       .reason = "routers with a bias that load moves count them anyway",
       .ofBlocks = &Layout::countsLoad},
      {.flag = "--mtp-num-layers",
       .field = &Options::laterTokens,
       .least = 0,
       .most = kMaxLaterTokens,
       .help = "Modules behind the last layer that each predict a token further ahead, in training",
       .chosen = 0,
       .reason = "no term unless asked for",
       .ofBlocks = &Layout::laterTokens,
       .onResume = OnResume::refused},
      {.flag = "--mtp-loss-scaling-factor",
       .field = &Options::laterTokensFactor,
       .least = 0,
       .most = kMaxCoefficient,
       .help = "With --mtp-num-layers: factor of the mean loss of these modules",
       .standard = fmt::format("{}", kStandardLaterFactor),
       .reason = "as Megatron-LM",
       .ofBlocks = &Layout::laterTokensFactor,
       .onResume = OnResume::refused},
      {.flag = "--freeze",
       .field = &Options::freeze,
       .help = "Parameters that are not trained: parts of the model, layers:0-7 among them, or tensors' names with *",
       .standard = "none",
       .reason = "all parameters are trained",
       .ofBlocks = &Layout::freeze,
       .onResume = OnResume::refused}};
}

std::vector<LayoutOption> lastOptions() {
  using Options = LayoutOptions;
  return {
      {.flag = "--loss-tile",
       .field = &Options::lossTile,
       .least = 0,
       .most = kMaxTokens,
       .help = "Tokens whose logits exist at once; 0: all of a microbatch",
       .standard = "by target",
       .reason = "memory for 2 to 4 % of the head's time",
       .training = &Layout::lossTile},
      {.flag = "--overlap-grad-reduce",
       .field = &Options::overlapGradReduce,
       .help = "Reduce gradients over data ranks while the backward goes on; with --zero 2 and 3 those of a layer "
               "while the "
               "next computes, in a second buffer",
       .standard = "on for GPUs",
       .reason = "their transfers leave cores to the backward",
       .hasNegation = true,
       .training = &Layout::overlapsGradReduce},
      {.flag = "--overlap-param-gather",
       .field = &Options::overlapParamGather,
       .help =
           "With --zero 3: gather the values of the next layer while one computes, into a second buffer; with --zero 1 "
           "and 2: gather the values in parts, each while the layers before compute in the next step's first "
           "microbatch; needs --overlap-grad-reduce",
       .standard = "on for GPUs with --zero 3",
       .reason = "their transfers leave cores to the layer",
       .hasNegation = true,
       .training = &Layout::overlapsParamGather},
      {.flag = "--ddp-bucket-size",
       .field = &Options::bucketSize,
       .most = kMaxElements,
       .help = "With --overlap-grad-reduce: elements of gradients that are reduced together, at least",
       .chosen = 40'000'000,
       .reason = "as Megatron-LM: elements reduced together"},
      {.flag = "--target",
       .field = &Options::target,
       .words = targetNames,
       .help = "What the plan is for",
       .reason = "the first supported"},
  };
}

} // namespace

std::string LayoutOption::key() const {
  std::string key = flag.substr(2);
  std::ranges::replace(key, '-', '_');
  return key;
}

std::string LayoutOption::valueIn(const Layout &layout) const {
  const auto text = [](const auto &value) -> std::string {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, bool>)
      return value ? "on" : "off";
    else if constexpr (std::is_same_v<Value, std::string>)
      return value.empty() ? "none" : value;
    else if constexpr (requires { value.begin(); })
      return fmt::format("{}", fmt::join(value, ","));
    else if constexpr (std::is_enum_v<Value>)
      return std::string(plan::nameOf(value));
    else
      return fmt::format("{}", value);
  };
  return std::visit(
      [&](auto member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), std::monostate>)
          return "";
        else
          return text(layout.*member);
      },
      std::holds_alternative<std::monostate>(ofBlocks) ? compared : ofBlocks);
}

std::string_view nameOf(const ResolvedField &field) {
  return std::visit(
      [](auto member) -> std::string_view {
        if constexpr (requires { mgc::nameOf(member); })
          return mgc::nameOf(member);
        return "";
      },
      field);
}

std::string LayoutOption::negation() const { return hasNegation ? "--no-" + flag.substr(2) : ""; }

std::string LayoutOption::standardOf(const Supported &supported) const {
  if (!standard.empty())
    return standard;
  return chosen ? std::to_string(*chosen) : words ? words(supported).front() : "";
}

const std::vector<LayoutOption> &layoutOptions() {
  static const std::vector<LayoutOption> options = [] {
    std::vector<LayoutOption> all;
    for (auto part : {firstOptions, memoryOptions, lastOptions})
      std::ranges::move(part(), std::back_inserter(all));
    return all;
  }();
  return options;
}

const LayoutOption &optionOf(const AnyOptionField &field) {
  return *std::ranges::find(layoutOptions(), field, &LayoutOption::field);
}

const std::vector<OptionShorthand> &optionShorthands() {
  static const std::vector<OptionShorthand> shorthands = {
      {"--bf16", "--dtype", "bf16"},
      {"--use-distributed-optimizer", "--zero", "1"},
      {"--use-megatron-fsdp", "--zero", "3"},
      {"--use-custom-fsdp", "--zero", "3"},
      {"--use-torch-fsdp2", "--zero", "3"},
      {"--torch-fsdp2-no-reshard-after-forward", "--reshard-after-forward", "false"},
      {"--accumulate-allreduce-grads-in-fp32", "--grad-dtype", "f32"},
      {"--grad-reduce-in-bf16", "--grad-dtype", "bf16"}};
  return shorthands;
}

const std::vector<OptionWords> &optionWords() {
  static const std::vector<OptionWords> words = {{"--data-parallel-sharding-strategy",
                                                  "--zero",
                                                  {"no_shard", "optim", "optim_grads", "optim_grads_params"},
                                                  {"--use-megatron-fsdp", "--use-custom-fsdp"}}};
  return words;
}

} // namespace mgc::frontend
