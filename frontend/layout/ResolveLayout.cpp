// resolveLayout of Layout.h: each option one after the other, from a flag, the file or a rule.
#include "frontend/layout/Context.h"
#include "frontend/layout/ExpertRanks.h"
#include "frontend/layout/Frozen.h"
#include "frontend/layout/IdleOptions.h"
#include "frontend/layout/LaterTokens.h"
#include "frontend/layout/Layout.h"
#include "frontend/layout/LayoutChecks.h"
#include "frontend/layout/Offload.h"
#include "frontend/layout/Options.h"
#include "frontend/layout/Recomputation.h"
#include "frontend/layout/StageCut.h"
#include "frontend/layout/UnknownWords.h"
#include "plan/Optimizers.h"
#include "runtime/base/Rounding.h"
#include <algorithm>
#include <bit>
#include <numeric>

namespace mgc::frontend {

namespace {

// Fills a Layout field by field: the flag, else the file's default, else `chosen` because of `reason`.
class LayoutResolver {
public:
  LayoutResolver(const ModelDescription &model, const LayoutOptions &flags, const LayoutOptions &defaults,
                 const Supported &supported, Problems &problems)
      : model(model), flags(flags), defaults(defaults), supported(supported), problems(problems) {}

  Layout run() {
    resolveMesh();
    resolveBatch();
    resolveContext();
    resolveExperts();
    resolveSchedule();
    resolveTarget();
    resolveLossTile();
    resolveStages();
    resolveOffloading();
    resolveOverlap();
    resolveFrozen();
    resolveBalance();
    resolveLaterTokens();
    resolveRecomputation();
    return std::move(layout);
  }

private:
  void record(std::string_view flag, std::string value, std::string reason) {
    layout.choices.push_back({std::string(flag), std::move(value), std::move(reason)});
  }

  template <typename T> std::optional<T> given(OptionField<T> field) {
    const std::optional<T> &value = flags.*field ? flags.*field : defaults.*field;
    if (value)
      record(optionOf(field).flag, textOf(*value), flags.*field ? "given" : "given in " + model.source);
    return value;
  }

  template <typename T> static std::string textOf(const T &value) { return fmt::format("{}", value); }
  template <typename T> static std::string textOf(const std::vector<T> &values) {
    return fmt::format("{}", fmt::join(values, " "));
  }

  static const std::string &flagOf(const AnyOptionField &field) { return optionOf(field).flag; }

  // Where nothing is given, `chosen`, because of `reason` or else that of the option's row.
  template <typename T> T number(OptionField<T> field) { return number<T>(field, T(*optionOf(field).chosen)); }
  template <typename T> T number(OptionField<T> field, std::type_identity_t<T> chosen, std::string reason = "") {
    const LayoutOption &option = optionOf(field);
    const std::optional<T> value = given(field);
    if (!value) {
      record(option.flag, textOf(chosen), reason.empty() ? option.reason : std::move(reason));
      return chosen;
    }
    if (*value >= T(option.least) && *value <= T(option.most))
      return *value;
    problems.add("{} {} is not from {} to {}", option.flag, *value, option.least, option.most);
    return T(option.least);
  }

  std::string word(OptionField<std::string> field) { // else the first possible
    return word(field, optionOf(field).words(supported).front());
  }
  std::string word(OptionField<std::string> field, const std::string &chosen, std::string reason = "") {
    const LayoutOption &option = optionOf(field);
    const std::optional<std::string> value = given(field);
    if (!value) {
      record(option.flag, chosen, reason.empty() ? option.reason : std::move(reason));
      return chosen;
    }
    const std::vector<std::string> allowed = option.words(supported);
    if (std::ranges::find(allowed, *value) == allowed.end()) {
      problems.add("{} {} {}", option.flag, *value, refusalOf(option, *value));
      problems.hint("possible {}: {}{}", option.flag, listOf(allowed), option.orFile);
    }
    return *value;
  }

  void resolveMesh();
  bool hasBudget() const { return flags.memory || defaults.memory; }
  int64_t zeroAsked() const { return (flags.zero ? flags.zero : defaults.zero).value_or(0); }
  void resolveInstances();
  void resolveOuterSharding();
  void resolveExperts();
  void resolveDispatcher();
  void resolveEncoderLength();
  void resolveBatch();
  void resolveContext();
  void resolveContextTypes();
  void resolveHierarchy();
  void refuseWithoutContext();
  void resolveSchedule();
  std::optional<int64_t> chunksByLayers(); // vpp, where it is given as layers of a chunk
  void resolveTarget();
  void resolveLossTile();
  void resolveOverlap();
  void resolveBalance();
  void resolveLaterTokens();
  void resolveRecomputation();
  void resolveOffloading();
  void resolveStages();
  void resolveFrozen();
  void resolveMachine();
  void resolveTypes();

  const ModelDescription &model;
  const LayoutOptions &flags, &defaults;
  const Supported &supported;
  Problems &problems;
  Layout layout;
};

void LayoutResolver::resolveMesh() {
  const int64_t mostRanks = optionOf(&LayoutOptions::world).most;
  std::optional<int64_t> world = given(&LayoutOptions::world);
  if (world && (*world < 1 || *world > mostRanks)) {
    problems.add("--world {} is not from 1 to {}", *world, mostRanks);
    world.reset();
  }
  layout.tp = number(&LayoutOptions::tp);
  layout.pp = number(&LayoutOptions::pp);
  layout.cp = number(&LayoutOptions::cp);
  int64_t rest = layout.tp * layout.cp * layout.pp;
  bool fits = world && *world >= rest && *world % rest == 0;
  layout.dp = number(&LayoutOptions::dp, fits ? *world / rest : 1,
                     fits ? "world / (tp * cp * pp)" : "one replica unless asked for");
  if (world && (!fits || *world != layout.world())) {
    if (fits) {
      problems.add("--world {} is not tp * cp * pp * dp = {} * {} * {} * {}", *world, layout.tp, layout.cp, layout.pp,
                   layout.dp);
      problems.hint("possible --world with these: {}", layout.world());
      problems.hint("possible --dp: {}", *world / rest);
    } else {
      problems.add("--world {} does not divide over tp * cp * pp = {} * {} * {}", *world, layout.tp, layout.cp,
                   layout.pp);
      const int64_t fewer = std::max<int64_t>(1, *world / rest) * rest;
      problems.hint("possible --world with these: {}",
                    fewer + rest <= mostRanks ? fmt::format("{}, {}, ... (a multiple of {})", fewer, fewer + rest, rest)
                    : fewer <= mostRanks      ? std::to_string(fewer)
                                              : fmt::format("none, {} is the most", mostRanks));
      problems.hint("possible tp * cp * pp for this world: {}", listOf(divisorsOf(*world, *world)));
    }
  }
  resolveInstances();
  resolveOuterSharding();
  if (auto split = splitTensorAxis(model.kinds.front().block.attention, layout.tp))
    std::tie(layout.tpGroups, layout.tpQueries) = *split;
  std::optional<bool> sp = given(&LayoutOptions::sp);
  layout.sequenceParallel = sp.value_or(true) && layout.tp > 1;
  if (!sp)
    record(flagOf(&LayoutOptions::sp), layout.tp > 1 ? "true" : "false", layout.tp > 1 ? "tp > 1" : "tp = 1");
}

void LayoutResolver::resolveInstances() {
  if (!flags.instances && !defaults.instances)
    return;
  layout.instances = number(&LayoutOptions::instances);
  const std::string &flag = flagOf(&LayoutOptions::instances);
  if (zeroAsked() == 0 && layout.instances > 1) {
    problems.add("{} {} with --zero 0: every data rank has all of the optimizer's state", flag, layout.instances);
    problems.hint("possible --zero with it: 1, 2, 3");
  } else if (layout.instances > 0 && layout.dp % layout.instances == 0) {
    return;
  } else if (layout.instances > 0) { // number() has refused others
    problems.add("{} {} does not divide dp = {} into groups of equal size", flag, layout.instances, layout.dp);
    problems.hint("possible {} with this dp: {}", flag, listOf(divisorsOf(layout.dp, layout.dp)));
  }
  layout.instances = 1;
}

// Megatron-LM shares the optimizer's state out over instances of full sharding alone.
void LayoutResolver::resolveOuterSharding() {
  if ((!flags.outerSharding && !defaults.outerSharding) || word(&LayoutOptions::outerSharding) != kShardsOuter)
    return;
  const std::string &flag = flagOf(&LayoutOptions::outerSharding);
  if (const int64_t level = zeroAsked(); level != 3) {
    problems.add("{} {} with --zero {}: it is of values that are in slices, with --zero 3", flag, kShardsOuter, level);
    problems.hint("possible: --zero 3 with it, or {} no_shard", flag);
    return;
  }
  layout.shardsOuter = layout.instances > 1;
}

// With alltoall a token travels once for each choice that is not the rank's own, with allgather to each of the ep ranks: fewer
// times where it has as many choices as there are ranks.
void LayoutResolver::resolveDispatcher() {
  int64_t chosen = 0;
  for (const BlockKind &kind : model.kinds)
    if (kind.block.experts)
      chosen = std::max(chosen, kind.block.experts->chosen);
  const bool travelsLess = chosen < layout.ep;
  layout.exchangesRows =
      word(&LayoutOptions::dispatcher, travelsLess && tokensDivide(layout) ? "alltoall" : "allgather",
           layout.ep == 1         ? "every rank has all experts"
           : !travelsLess         ? fmt::format("{} choices of a token, no fewer than the ep ranks", chosen)
           : tokensDivide(layout) ? fmt::format("{} choices of a token, fewer than the ep ranks", chosen)
                                  : "tokens do not divide over ranks of tp and cp") == "alltoall" &&
      layout.ep > 1;
}

// Flags of experts are refused where the model has none.
void LayoutResolver::resolveExperts() {
  layout.hasExperts = model.hasExperts();
  if (layout.hasExperts) {
    layout.ep = number(&LayoutOptions::ep);
    layout.etp = number(&LayoutOptions::etp, layout.tp);
    resolveDispatcher();
    return;
  }
  if (flags.dispatcher) {
    problems.add("{} {}: the model has no experts", flagOf(&LayoutOptions::dispatcher), *flags.dispatcher);
    problems.hint("possible: without {}", flagOf(&LayoutOptions::dispatcher));
  }
  for (auto field : {&LayoutOptions::ep, &LayoutOptions::etp})
    if (given(field).value_or(1) != 1) {
      problems.add("{} {}: the model has no experts", flagOf(field), *given(field));
      problems.hint("possible: without {}", flagOf(field));
    }
}

// Padding behind the last patch lets ranks of sequence parallelism share the positions.
static int64_t imagePositions(const ModelDescription &model, const Layout &layout) {
  return roundUp(model.encoder->patches->positions(), layout.sequenceParallel ? layout.tp : 1);
}

// The flag is refused where the model has no encoder.
void LayoutResolver::resolveEncoderLength() {
  if (model.readsImages()) {
    layout.encoderLength = imagePositions(model, layout);
    if (flags.encoderLength && *flags.encoderLength != layout.encoderLength) {
      problems.add("{} {}: the encoder reads images", flagOf(&LayoutOptions::encoderLength), *flags.encoderLength);
      problems.hint("possible: without it, which is {} positions of an image", layout.encoderLength);
    }
    return;
  }
  if (model.encoder) {
    layout.encoderLength = number(&LayoutOptions::encoderLength, layout.sequenceLength);
    return;
  }
  if (!flags.encoderLength)
    return;
  problems.add("{} {}: the model has no encoder", flagOf(&LayoutOptions::encoderLength), *flags.encoderLength);
  problems.hint("possible: {} {}, which is of its one sequence", flagOf(&LayoutOptions::seq), *flags.encoderLength);
}

void LayoutResolver::resolveBatch() {
  layout.sequenceLength =
      number(&LayoutOptions::seq, std::min(model.maxPositions, *optionOf(&LayoutOptions::seq).chosen));
  resolveEncoderLength();
  layout.resetPositionIds = given(&LayoutOptions::resetPositionIds).value_or(false);
  layout.resetAttentionMask = given(&LayoutOptions::resetAttentionMask).value_or(false);
  layout.microBatchSize = number(&LayoutOptions::mbs);
  layout.globalBatchSize = number(&LayoutOptions::gbs, layout.microBatchSize * layout.dp * layout.pp);
  int64_t perMicrobatch = layout.microBatchSize * layout.dp;
  layout.microbatches = std::max<int64_t>(1, layout.globalBatchSize / perMicrobatch);
  if (zeroAsked() == kAuto) {
    const std::string &flag = flagOf(&LayoutOptions::zero), &memory = flagOf(&LayoutOptions::memory);
    problems.add("{} auto without {}: less of it takes more time, so the level is 0", flag, memory);
    problems.hint("possible: {} 90% with it, or {}: 0, 1, 2, 3", memory, flag);
  } else {
    layout.zero = number(&LayoutOptions::zero);
  }
  layout.reshardsAfterForward = given(&LayoutOptions::reshard).value_or(true);
}

// Flags of context parallelism are refused where the layout has none.
void LayoutResolver::refuseWithoutContext() {
  const auto refuse = [&](auto field) {
    if (!(flags.*field))
      return;
    const std::string &flag = flagOf(field);
    problems.add("{} with cp = 1: each rank has the whole sequence", flag);
    problems.hint("possible: {} with --cp 2 or more, or without {}", flag, flag);
  };
  refuse(&LayoutOptions::contextTypes);
  refuse(&LayoutOptions::contextOrder);
  refuse(&LayoutOptions::contextHierarchy);
}

void LayoutResolver::resolveContextTypes() {
  const LayoutOption &option = optionOf(&LayoutOptions::contextTypes);
  const std::string &flag = option.flag;
  const std::vector<std::string> possible = option.words(supported);
  std::vector<std::string> types = given(&LayoutOptions::contextTypes).value_or(std::vector{possible.front()});
  if (!flags.contextTypes && !defaults.contextTypes)
    record(flag, possible.front(), option.reason);
  for (const std::string &name : types) {
    const auto row = std::ranges::find(contextTypes(), name, &ContextType::name);
    if (row != contextTypes().end())
      continue;
    problems.add("{} {}: is not known", flag, name);
    problems.hint("possible {}: {}", flag, listOf(possible));
  }
  const auto layers = static_cast<size_t>(model.layerCount());
  if (types.size() != 1 && types.size() != layers) {
    problems.add("{}: {} types for {} = {}", flag, types.size(), model.names.layers, layers);
    problems.hint("possible: one type for all layers, or one per layer");
  }
  if (!mayShareBias(model, types)) {
    problems.add("{} {}: layers that share one table of biases (attention.relative_bias) exchange heads in "
                 "several ways",
                 flag, listOf(types));
    problems.hint("possible: one type for all layers, or any of those that exchange no heads");
  }
  layout.contextTypes = types.size() == 1 ? std::vector(layers, types.front()) : types;
}

void LayoutResolver::resolveHierarchy() {
  const std::string &flag = optionOf(&LayoutOptions::contextHierarchy).flag;
  const auto refuse = [&](std::string what) {
    problems.add("{}", what);
    std::vector<std::string> possible;
    for (int64_t inner : divisorsOf(layout.cp, layout.cp))
      possible.push_back(fmt::format("{} {}", inner, layout.cp / inner));
    problems.hint("possible {}: {}", flag, listOf(possible));
  };
  const std::string hierarchy = hierarchyOf(layout);
  const std::optional<std::vector<int64_t>> sizes = given(&LayoutOptions::contextHierarchy);
  if (!hierarchy.empty() && !sizes)
    refuse(
        fmt::format("--cp-comm-type {} needs {} A B: ranks that exchange heads, and groups of them", hierarchy, flag));
  else if (sizes && hierarchy.empty() && !flags.contextHierarchy)
    return; // a default of the file for other layouts
  else if (sizes && (sizes->size() != 2 || (*sizes)[0] < 1 || layout.cp % (*sizes)[0] != 0 ||
                     layout.cp / (*sizes)[0] != (*sizes)[1]))
    refuse(fmt::format("{} {} are not two sizes whose product is cp = {}", flag, fmt::join(*sizes, " "), layout.cp));
  if (sizes && !sizes->empty() && sizes->front() >= 1) // also where they are refused: near to it is what works
    layout.cpInner = std::gcd(sizes->front(), layout.cp);
}

void LayoutResolver::resolveContext() {
  if (layout.cp == 1)
    return refuseWithoutContext();
  resolveContextTypes();
  resolveHierarchy();
  const bool gathersKeys = std::ranges::any_of(layout.contextTypes, &mgc::frontend::gathersKeys);
  layout.zigzag = word(&LayoutOptions::contextOrder, gathersKeys ? "zigzag" : "contiguous",
                       gathersKeys ? "a rank with an early chunk has a late one too, so causal work is equal"
                                   : "each rank has whole sequences in attention") == "zigzag"
                      ? layout.cp
                      : 1;
  if (problems.empty())
    splitHeadsOverContext(model, layout);
}

std::optional<int64_t> LayoutResolver::chunksByLayers() {
  const std::optional<int64_t> layers = given(&LayoutOptions::layersPerChunk);
  if (!layers)
    return std::nullopt;
  const int64_t perStage = model.allLayerCount() / layout.pp;
  if (*layers >= 1 && model.allLayerCount() % layout.pp == 0 && perStage % *layers == 0)
    return perStage / *layers;
  problems.add("{} {}: {} = {} are not so many layers for each chunk of pp = {} stages",
               flagOf(&LayoutOptions::layersPerChunk), *layers, model.allLayersName(), model.allLayerCount(),
               layout.pp);
  if (model.allLayerCount() % layout.pp == 0)
    problems.hint("possible with this pp: {}", listOf(divisorsOf(perStage, perStage)));
  return std::nullopt;
}

void LayoutResolver::resolveSchedule() {
  auto rowOf = [&](const std::string &name) -> const ScheduleInfo * {
    for (const ScheduleInfo &row : supported.schedules)
      if (row.name == name)
        return &row;
    return nullptr;
  };
  const ScheduleInfo *asked = flags.schedule      ? rowOf(*flags.schedule)
                              : defaults.schedule ? rowOf(*defaults.schedule)
                                                  : nullptr;
  int64_t needed = asked ? asked->minVirtualStages : 1;
  const std::optional<int64_t> chunks = chunksByLayers();
  layout.virtualStages = number(&LayoutOptions::vpp, chunks.value_or(needed),
                                chunks       ? "layers / (pp * layers of a chunk)"
                                : needed > 1 ? "the least this schedule takes"
                                             : "one chunk of layers per stage");
  if (chunks && problems.empty() && layout.virtualStages != *chunks) {
    const std::string &flag = flagOf(&LayoutOptions::vpp), &layers = flagOf(&LayoutOptions::layersPerChunk);
    problems.add("{} {} is not the {} that {} gives", flag, layout.virtualStages, *chunks, layers);
    problems.hint("possible: {} {} with it, or one of the two alone", flag, *chunks);
  }
  auto chosen = std::ranges::find_if(
      supported.schedules, [&](const ScheduleInfo &row) { return row.byDefault && row.takes(layout.virtualStages); });
  layout.schedule = word(&LayoutOptions::schedule,
                         chosen == supported.schedules.end() ? supported.schedules.front().name : chosen->name,
                         fmt::format("the default for --vpp {}", layout.virtualStages));
  const ScheduleInfo *row = rowOf(layout.schedule);
  if (!row)
    return; // has been refused
  layout.splitBackward = row->splitBackward;
  layout.chunksInV = row->chunksInV && layout.virtualStages > 1;
  layout.scheduleText = row->text;
  if (row->byTime || hasBudget() || flags.machine || defaults.machine)
    resolveMachine();
  if (!row->byTime)
    return;
  if (!hasBudget() || flags.scheduleMemory || defaults.scheduleMemory) // else it is chosen
    layout.scheduleMemory = number(&LayoutOptions::scheduleMemory);
}

void LayoutResolver::resolveMachine() {
  const std::string &flag = flagOf(&LayoutOptions::machine);
  if (!flags.machine && !defaults.machine) {
    record(flag, "by the target", "the first for --target");
    return;
  }
  const std::string name = word(&LayoutOptions::machine);
  const auto machine = std::ranges::find(supported.machines, name, &MachineInfo::name);
  if (machine != supported.machines.end())
    layout.machine = machine->inProgram;
}

// Each part but the first reads and writes the gradient of the projection once more, 8 bytes an element, compared with
// 6 N operations of its three products: balance * 8 / (6 N) of their time for parts of N tokens.
void LayoutResolver::resolveLossTile() {
  constexpr double kShare = 0.02; // to twice that, by rounding down
  const double tokens = static_cast<double>(layout.target.balance) * 8 / 6 / kShare;
  const int64_t tile = std::bit_floor(static_cast<uint64_t>(tokens));
  layout.lossTile = number(&LayoutOptions::lossTile, tile);
  layout.choosesLossTile = hasBudget() && !flags.lossTile && !defaults.lossTile;
}

void LayoutResolver::resolveTarget() {
  resolveTypes();
  const std::string optimizer = word(&LayoutOptions::optimizer);
  layout.optimizer = plan::valueNamed<plan::Optimizer>(optimizer).value_or(layout.optimizer); // kAdam is adamw
  layout.fp32Residual = given(&LayoutOptions::fp32Residual).value_or(false);
  const std::string name = word(&LayoutOptions::target);
  const auto row = std::ranges::find(supported.targets, name, &TargetInfo::name);
  layout.target = row == supported.targets.end() ? supported.targets.front() : *row; // an unknown one has been refused
}

void LayoutResolver::resolveTypes() {
  const std::string &widest = supported.dtypes.front();
  const std::string values = word(&LayoutOptions::dtype), gradients = word(&LayoutOptions::gradientType);
  layout.dtype = plan::valueNamed<plan::DType>(values).value_or(layout.dtype); // an unknown one has been refused
  layout.gradientType = plan::valueNamed<plan::DType>(gradients).value_or(layout.gradientType);
  if (values == widest && gradients != widest && problems.empty()) {
    problems.add("--grad-dtype {} with --dtype {}: gradients would be coarser than parameters", gradients, values);
    problems.hint("possible --grad-dtype with --dtype {}: {}", widest, widest);
  }
}

void LayoutResolver::resolveOverlap() {
  if (layout.replicas() == 1 && !flags.overlapGradReduce && !flags.bucketSize)
    return; // no gradient travels
  const bool pays = layout.target.leavesCoresToProducts;
  const std::optional<bool> ahead = given(&LayoutOptions::overlapParamGather);
  const bool isFree = pays && layout.zero == 3; // level 3 needs no memory but that of a second unit
  const bool isNeeded = offloadNeedsSlices(layout);
  layout.overlapsParamGather = ahead.value_or(isFree || isNeeded) && layout.zero > 0 && layout.replicas() > 1;
  if (isNeeded && !layout.overlapsParamGather) {
    problems.add("{} with --zero {} and {}: an update in pieces leaves values in slices",
                 flagOf(&LayoutOptions::optimizerOffload), layout.zero,
                 optionOf(&LayoutOptions::overlapParamGather).negation());
    problems.hint("possible: {}, --zero 0 or --zero 3", flagOf(&LayoutOptions::overlapParamGather));
  } else if (isNeeded && !ahead) {
    record(flagOf(&LayoutOptions::overlapParamGather), "true", "an update in pieces leaves values in slices");
  }
  if (!ahead && layout.zero == 3)
    record(flagOf(&LayoutOptions::overlapParamGather), pays ? "true" : "false",
           pays ? "transfers leave the device's cores to the layer before" : "ranks compute with all their cores");
  std::optional<bool> overlap = given(&LayoutOptions::overlapGradReduce);
  if (!overlap)
    record(flagOf(&LayoutOptions::overlapGradReduce), pays ? "true" : "false",
           pays ? "transfers leave the device's cores to the backward" : "ranks compute with all their cores");
  if (layout.zero > 1)
    layout.overlapsGradReduce = overlap.value_or(pays) && layout.replicas() > 1;
  else if (overlap.value_or(pays))
    layout.bucketElements = number(&LayoutOptions::bucketSize);
  else if (given(&LayoutOptions::bucketSize))
    problems.add("{} without {}: all gradients are reduced together, at the end", flagOf(&LayoutOptions::bucketSize),
                 flagOf(&LayoutOptions::overlapGradReduce));
  if (layout.overlapsParamGather && layout.zero < 3 && layout.hasSlices() && !overlap.value_or(pays)) {
    problems.add("{} with --zero {} without {}: {}", flagOf(&LayoutOptions::overlapParamGather), layout.zero,
                 flagOf(&LayoutOptions::overlapGradReduce),
                 layout.zero == 1 ? "values are gathered in the parts in which gradients are reduced"
                                  : "as in Megatron-LM, what is gathered beside layers is reduced beside layers");
    problems.hint("possible: {} with it, --zero 3, or neither", flagOf(&LayoutOptions::overlapGradReduce));
  }
}

// A model without experts has no balance, and nothing is said of it unless something is asked for.
void LayoutResolver::resolveBalance() {
  const auto isGiven = [&](auto field) { return (flags.*field || defaults.*field); };
  if (layout.hasExperts || isGiven(&LayoutOptions::balanceType))
    layout.balanceType = word(&LayoutOptions::balanceType);
  for (auto [option, to] : {std::pair(&LayoutOptions::auxLossCoefficient, &layout.auxLossCoefficient),
                            std::pair(&LayoutOptions::zLossCoefficient, &layout.zLossCoefficient),
                            std::pair(&LayoutOptions::capacityFactor, &layout.capacityFactor),
                            std::pair(&LayoutOptions::rowsFactor, &layout.rowsFactor)})
    if (isGiven(option))
      *to = number(option);
  if (layout.capacityFactor > 0 || isGiven(&LayoutOptions::dropPolicy))
    layout.dropPolicy = word(&LayoutOptions::dropPolicy);
  layout.countsLoad = given(&LayoutOptions::countsLoad).value_or(false) && !movesAllRouters(model, layout);
}

void LayoutResolver::resolveFrozen() {
  if (flags.freeze || defaults.freeze)
    layout.freeze = freezeText(*given(&LayoutOptions::freeze));
}

void LayoutResolver::resolveOffloading() {
  if (flags.offload || defaults.offload)
    word(&LayoutOptions::offload);
  given(&LayoutOptions::optimizerOffload), given(&LayoutOptions::offloadFraction), given(&LayoutOptions::hostMemory);
  given(&LayoutOptions::activationOffload), given(&LayoutOptions::activationFraction),
      given(&LayoutOptions::offloadModules);
  resolveOffload(model, either(flags, defaults), layout, problems);
}

void LayoutResolver::resolveStages() {
  given(&LayoutOptions::stages), given(&LayoutOptions::pipelineText);
  given(&LayoutOptions::firstStageLayers), given(&LayoutOptions::lastStageLayers);
  given(&LayoutOptions::countsEmbedding), given(&LayoutOptions::countsLoss);
  if (problems.empty())
    resolveStageCut(model, either(flags, defaults), layout, problems);
}

void LayoutResolver::resolveRecomputation() {
  const LayoutOptions asked = either(flags, defaults);
  for (auto field : {&LayoutOptions::recomputeGranularity, &LayoutOptions::recomputeMethod})
    if (asked.*field)
      word(field);
  if (asked.recomputeLayers)
    number(&LayoutOptions::recomputeLayers);
  given(&LayoutOptions::recomputeModules), given(&LayoutOptions::memory), given(&LayoutOptions::recompute);
  given(&LayoutOptions::recomputeActivations), given(&LayoutOptions::moeLayerRecompute);
  resolveRecompute(model, asked, layout, problems);
}

// Nothing is said of later tokens unless something is asked for.
void LayoutResolver::resolveLaterTokens() {
  if (flags.laterTokens || defaults.laterTokens)
    layout.laterTokens = number(&LayoutOptions::laterTokens);
  if (layout.laterTokens > 0)
    layout.laterTokensFactor = number(&LayoutOptions::laterTokensFactor, kStandardLaterFactor);
  else if (flags.laterTokensFactor) {
    problems.add("{} {} without {}: no module predicts later tokens", flagOf(&LayoutOptions::laterTokensFactor),
                 *flags.laterTokensFactor, flagOf(&LayoutOptions::laterTokens));
    problems.hint("possible: with {} 1 or more, or without it", flagOf(&LayoutOptions::laterTokens));
  }
}

} // namespace

static Layout resolveAndCheck(const ModelDescription &model, const LayoutOptions &flags, const LayoutOptions &defaults,
                              const Supported &supported, Problems &problems) {
  Layout layout = LayoutResolver(model, flags, defaults, supported, problems).run();
  if (problems.empty()) // values out of range would only raise more
    checkLayout(model, supported, layout, problems);
  return layout;
}

Result<Layout> resolveLayout(const ModelDescription &model, const LayoutOptions &flags, const LayoutOptions &ofFile,
                             const Supported &supported) {
  const LayoutOptions defaults = defaultsBeside(flags, ofFile);
  Problems problems(model.source), none(model.source);
  refuseUnknownWords(ofFile, supported, problems);
  if (!problems.empty())
    return problems.status();
  Layout layout = resolveAndCheck(model, flags, defaults, supported, problems);
  if (problems.empty()) {
    std::ranges::move(idleOptions(either(flags, defaults), layout), std::back_inserter(layout.warnings));
    const auto row = std::ranges::find(supported.schedules, layout.schedule, &ScheduleInfo::name);
    if (row != supported.schedules.end() && !row->nameInProgram.empty())
      layout.schedule = row->nameInProgram;
    return layout;
  }
  const LayoutOptions near = nearestLayout(model, supported, layout, flags, defaults);
  resolveAndCheck(model, near, defaultsBeside(near, defaults), supported, none);
  if (none.empty())
    problems.hint("a layout that works: {}", flagsOf(near));
  return problems.status();
}

} // namespace mgc::frontend
