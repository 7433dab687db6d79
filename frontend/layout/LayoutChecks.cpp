#include "frontend/layout/LayoutChecks.h"
#include "frontend/layout/Context.h"
#include "frontend/layout/ExpertBalance.h"
#include "frontend/layout/ExpertRanks.h"
#include "frontend/layout/Frozen.h"
#include "frontend/layout/LaterTokens.h"
#include "frontend/layout/Offload.h"
#include "frontend/layout/Options.h"
#include "frontend/layout/Recomputation.h"
#include "frontend/layout/StageCut.h"
#include "plan/Limits.h"
#include "runtime/base/Checked.h"
#include <algorithm>
#include <functional>

namespace mgc::frontend {

static constexpr int64_t kMaxLayersPerStage = 1 << 12; // no model has more

// Rotary angles reach the position, and sines hold below this (codegen/rows/graph/Math.h).
static constexpr int64_t kMaxRotaryPositions = 1 << 22;

// --- Tensor parallelism: each rule is a predicate on tp, so that the message can list every tp that
// satisfies it.

struct TensorRule {
  std::string what;
  std::function<bool(int64_t)> fits;
};

static TensorRule headRule(const std::string &name, const KeyNames &names, const AttentionDescription &attention) {
  std::string heads = fmt::format("{} = {}", name, attention.heads);
  if (attention.groups != attention.heads)
    heads += fmt::format(" (in {} = {} groups)", names.groups, attention.groups);
  return {heads, [attention](int64_t tp) { return splitTensorAxis(attention, tp).has_value(); }};
}

static std::vector<TensorRule> tensorRules(const ModelDescription &model, const Layout &layout) {
  std::vector<TensorRule> rules;
  if (model.encoder) {
    const BlockDescription &layer = model.encoder->layer;
    rules.push_back(headRule(model.names.encoderHeads, model.names, layer.attention));
    rules.push_back({fmt::format("{} = {}", model.names.encoderFfn, layer.mlp.ffn),
                     [ffn = layer.mlp.ffn](int64_t tp) { return ffn % tp == 0; }});
    if (model.encoder->projector)
      rules.push_back({fmt::format("the projector's width of {}", model.encoder->projector->ffn),
                       [ffn = model.encoder->projector->ffn](int64_t tp) { return ffn % tp == 0; }});
  }
  for (size_t i = 0; i < model.kinds.size(); ++i) {
    const BlockDescription &block = model.kinds[i].block;
    rules.push_back(headRule(model.names.heads, model.names, block.attention));
    if (block.cross)
      rules.push_back(headRule(model.names.heads, model.names, *block.cross));
    const auto divides = [&](const std::string &name, int64_t ffn) {
      rules.push_back({fmt::format("{} = {}", name, ffn), [ffn](int64_t tp) { return ffn % tp == 0; }});
    };
    if (!block.experts) // split over ranks of their own: ExpertRanks.h
      divides(model.names.ffn, block.mlp.ffn);
    else if (block.experts->shared)
      divides(model.names.sharedFfn, block.experts->shared->ffn);
  }
  if (layout.sequenceParallel) {
    int64_t seq = layout.sequenceLength;
    rules.push_back({fmt::format("--seq {} with --sp true", seq), [seq](int64_t tp) { return seq % tp == 0; }});
    if (model.encoder && !model.readsImages())
      rules.push_back(
          {fmt::format("{} {} with --sp true", optionOf(&LayoutOptions::encoderLength).flag, layout.encoderLength),
           [length = layout.encoderLength](int64_t tp) { return length % tp == 0; }});
  }
  auto equal = [](const TensorRule &a, const TensorRule &b) { return a.what == b.what; };
  std::vector<TensorRule> distinct; // kinds of blocks that differ elsewhere repeat rules
  for (TensorRule &rule : rules)
    if (std::none_of(distinct.begin(), distinct.end(), [&](const TensorRule &r) { return equal(r, rule); }))
      distinct.push_back(std::move(rule));
  return distinct;
}

static std::vector<int64_t> tensorSizesThatFit(const std::vector<const TensorRule *> &rules) {
  std::vector<int64_t> possible;
  for (int64_t tp = 1; tp <= optionOf(&LayoutOptions::tp).most; ++tp)
    if (std::all_of(rules.begin(), rules.end(), [&](const TensorRule *rule) { return rule->fits(tp); }))
      possible.push_back(tp);
  return possible;
}

// One axis of the mesh has the groups of all layers, of tower and decoder.
static std::vector<const AttentionDescription *> attentionsOf(const ModelDescription &model) {
  std::vector<const AttentionDescription *> all;
  for (const BlockKind &kind : model.kinds) {
    all.push_back(&kind.block.attention);
    if (kind.block.cross)
      all.push_back(&*kind.block.cross);
  }
  if (model.encoder)
    all.push_back(&model.encoder->layer.attention);
  return all;
}

// The first whose groups tp splits differently from those of the first layer; null: none. Heads that tp does not divide
// are refused by rules of their own.
static const AttentionDescription *splitOtherwise(const ModelDescription &model, int64_t tp) {
  const std::vector<const AttentionDescription *> all = attentionsOf(model);
  const auto first = splitTensorAxis(*all.front(), tp);
  for (const AttentionDescription *other : all)
    if (const auto split = splitTensorAxis(*other, tp); split && first && split != first)
      return other;
  return nullptr;
}

static void checkSplits(const ModelDescription &model, const Layout &layout, Problems &problems) {
  const AttentionDescription *other = splitOtherwise(model, layout.tp);
  if (!other)
    return;
  problems.add("tp = {}: layers with {} and with {} groups of keys split over it in different ways", layout.tp,
               model.kinds.front().block.attention.groups, other->groups);
  const TensorRule rule{"", [&](int64_t tp) {
                          return !splitOtherwise(model, tp) &&
                                 std::ranges::all_of(attentionsOf(model), [&](const auto *each) {
                                   return splitTensorAxis(*each, tp).has_value();
                                 });
                        }};
  problems.hint("possible tp: {}", listOf(tensorSizesThatFit({&rule})));
}

static void checkTensor(const ModelDescription &model, const Layout &layout, Problems &problems) {
  checkSplits(model, layout, problems);
  std::vector<TensorRule> rules = tensorRules(model, layout);
  std::vector<const TensorRule *> all;
  int64_t broken = 0;
  for (const TensorRule &rule : rules) {
    all.push_back(&rule);
    if (rule.fits(layout.tp))
      continue;
    ++broken;
    problems.add("{} does not divide over tp = {}", rule.what, layout.tp);
    problems.hint("possible tp: {}", listOf(tensorSizesThatFit({&rule})));
  }
  if (broken > 1)
    problems.hint("possible tp for all of this: {}", listOf(tensorSizesThatFit(all)));
}

// --- Sequence and batch ------------------------------------------------------------------------------------

static bool isRotary(const BlockKind &kind) { return kind.block.attention.rope.has_value(); }

// Angles are computed for so many positions.
static void checkRotaryLength(std::string_view flag, int64_t length, Problems &problems) {
  if (length <= kMaxRotaryPositions)
    return;
  problems.add("{} {} exceeds the {} positions that rotary angles are computed for", flag, length, kMaxRotaryPositions);
  problems.hint("possible {}: 1 to {}", flag, kMaxRotaryPositions);
}

// Frequencies that depend on the length of sequences would depend on that of documents, where positions count from their
// beginnings.
static void checkFrequencies(const ModelDescription &model, const Layout &layout, Problems &problems) {
  for (const BlockKind &kind : model.kinds) {
    if (!kind.block.attention.rope)
      continue;
    const RopeScaling &scaling = kind.block.attention.rope->scaling;
    const bool dependsOnLength = scaling.kind == RopeKind::dynamic || scaling.kind == RopeKind::longrope;
    if (!dependsOnLength || !layout.resetPositionIds ||
        static_cast<double>(layout.sequenceLength) <= scaling.originalPositions)
      continue;
    problems.add("--reset-position-ids with --seq {}: the rotary frequencies of sequences beyond {} "
                 "positions are others",
                 layout.sequenceLength, scaling.originalPositions);
    problems.hint("possible --seq: 1 to {}", scaling.originalPositions);
    return;
  }
}

// Checks features that need one sequence, and the encoder's own length.
static void checkEncoder(const ModelDescription &model, const Layout &layout, Problems &problems) {
  if (!model.encoder)
    return;
  const auto refuse = [&](bool isAsked, const std::string &what, std::string_view why) {
    if (!isAsked)
      return;
    problems.add("{}: {} has an encoder, {}", what, model.family, why);
    problems.hint("possible: without it");
  };
  refuse(layout.cp > 1, fmt::format("cp = {}", layout.cp), "whose sequence context parallelism does not split yet");
  refuse(layout.resetPositionIds, optionOf(&LayoutOptions::resetPositionIds).flag,
         "whose samples are no packed documents");
  refuse(layout.resetAttentionMask, optionOf(&LayoutOptions::resetAttentionMask).flag,
         "whose samples are no packed documents");
  const int64_t features = model.readsImages() ? model.encoder->features() : 0;
  if (model.readsImages() && layout.sequenceLength <= features) {
    problems.add("{} {}: an image of {} takes the places of {} tokens, and then there is none to predict",
                 optionOf(&LayoutOptions::seq).flag, layout.sequenceLength, model.names.image, features);
    problems.hint("possible {}: {} or more", optionOf(&LayoutOptions::seq).flag, features + 1);
  }
  if (model.readsImages() || layout.encoderLength <= model.maxPositions || !model.encoder->embedding.learnedPositions)
    return;
  const std::string &flag = optionOf(&LayoutOptions::encoderLength).flag;
  problems.add("{} {} exceeds {} = {}: there are no learned positions beyond", flag, layout.encoderLength,
               model.names.positions, model.maxPositions);
  problems.hint("possible {}: 1 to {}", flag, model.maxPositions);
}

static void checkSequence(const ModelDescription &model, Layout &layout, Problems &problems) {
  checkFrequencies(model, layout, problems);
  if (model.encoder && model.encoder->layer.attention.rope && !model.readsImages())
    checkRotaryLength(optionOf(&LayoutOptions::encoderLength).flag, layout.encoderLength, problems);
  if (std::ranges::any_of(model.kinds, isRotary) && layout.sequenceLength > kMaxRotaryPositions)
    return checkRotaryLength("--seq", layout.sequenceLength, problems);
  if (layout.sequenceLength <= model.maxPositions)
    return;
  std::string found =
      fmt::format("--seq {} exceeds {} = {}", layout.sequenceLength, model.names.positions, model.maxPositions);
  if (!model.embedding.learnedPositions) {
    if (!layout.resetPositionIds)
      layout.warnings.push_back(found + "; rotary positions go on, but the model was not meant for them");
    return;
  }
  if (layout.resetPositionIds) // then documents are held to it, when they are read
    return;
  problems.add("{}: there are no learned positions beyond", found);
  problems.hint("possible --seq: 1 to {}{}", model.maxPositions,
                model.encoder ? ""
                              : fmt::format("; any with --reset-position-ids, for documents of at most {} tokens",
                                            model.maxPositions));
}

static int64_t mostMicrobatches(const Supported &supported, const Layout &layout) {
  const auto row = std::ranges::find(supported.schedules, layout.schedule, &ScheduleInfo::name);
  return row == supported.schedules.end() ? INT64_MAX : row->maxMicrobatches(layout.pp, layout.virtualStages);
}

// More microbatches than the schedule takes: the batch is too large for them.
static void addTooMany(const Layout &layout, int64_t most, Problems &problems) {
  const int64_t unit = layout.microBatchSize * layout.dp;
  problems.add("--gbs {} with mbs = {}, dp = {} is {} microbatches: --schedule {} with pp = {}, vpp = {} "
               "takes at most {}",
               layout.globalBatchSize, layout.microBatchSize, layout.dp, layout.microbatches, layout.schedule,
               layout.pp, layout.virtualStages, most);
  if (most == 0) {
    problems.hint("possible --gbs: none with so many stages and chunks");
    return;
  }
  problems.hint("possible --gbs: {}{} to {}", unit > 1 ? fmt::format("multiples of {}: ", unit) : "", unit,
                unit * most);
}

static void checkTokens(const Layout &layout, Problems &problems) {
  const int64_t unit = layout.microBatchSize * layout.dp, seq = layout.sequenceLength;
  const int64_t most = plan::kMaxStepTokens / std::max(seq, layout.encoderLength) / unit * unit;
  if (layout.globalBatchSize <= most)
    return;
  problems.add("--gbs {} with --seq {}: a step has more than {} tokens", layout.globalBatchSize, seq,
               plan::kMaxStepTokens);
  problems.hint("possible --gbs with this --seq and mbs * dp = {}: {}", unit,
                most > 0 ? fmt::format("multiples of {} up to {}", unit, most) : "none");
  problems.hint("possible --seq with this --gbs: {}",
                layout.globalBatchSize <= plan::kMaxStepTokens
                    ? fmt::format("1 to {}", plan::kMaxStepTokens / layout.globalBatchSize)
                    : "none");
}

static void checkBatch(const Layout &layout, const Supported &supported, Problems &problems) {
  int64_t unit = layout.microBatchSize * layout.dp, gbs = layout.globalBatchSize;
  int64_t most = mostMicrobatches(supported, layout);
  if (layout.microbatches > most)
    return addTooMany(layout, most, problems);
  if (gbs % unit == 0)
    return checkTokens(layout, problems);
  std::vector<int64_t> possible;
  for (int64_t microbatches : {gbs / unit, gbs / unit + 1})
    if (microbatches >= 1 && microbatches <= most)
      possible.push_back(microbatches * unit);
  problems.add("--gbs {} is not mbs * dp * microbatches with mbs = {}, dp = {}", gbs, layout.microBatchSize, layout.dp);
  problems.hint("possible --gbs: multiples of {}: {}", unit, listOf(possible));
  if (gbs % layout.dp == 0)
    problems.hint("possible --mbs: {}", listOf(divisorsOf(gbs / layout.dp, optionOf(&LayoutOptions::mbs).most)));
}

// --- Bytes -------------------------------------------------------------------------------------------------

static int64_t sharedFfn(const BlockDescription &block) {
  return block.experts && block.experts->shared ? block.experts->shared->ffn : 0;
}

static int64_t pixelsOfPatch(const EncoderDescription &encoder) {
  return encoder.patches ? encoder.patches->channels * encoder.patches->size * encoder.patches->size : 0;
}

// Elements that the widest value holds of one token.
static int64_t widthOf(const ModelDescription &model, const Layout &layout) {
  int64_t width = std::max(model.hidden, layout.paddedVocabulary(model));
  if (model.encoder)
    width = std::max({width, model.encoder->layer.mlp.ffn, pixelsOfPatch(*model.encoder),
                      model.encoder->layer.attention.heads * model.encoder->layer.attention.headDim});
  for (const BlockKind &kind : model.kinds)
    width =
        std::max({width, kind.block.mlp.ffn, sharedFfn(kind.block),
                  kind.block.attention.heads * (kind.block.attention.headDim +
                                                (kind.block.attention.latent ? kind.block.attention.valueDim() : 0))});
  return width;
}

static int64_t sequencesOf(const Layout &layout) { // sequences of a logical value, or on one rank
  return std::max(layout.microBatchSize * layout.dp, layout.globalBatchSize / layout.dp);
}

// The longest sequence for which bytes, of logical values and of all microbatches on a rank, are counted in 64
// bits; 0: there is none. No layer has more than kMaxValues values of the widest kind.
static int64_t mostPositions(const ModelDescription &model, const Layout &layout) {
  constexpr int64_t kMaxValues = 64, kElementBytes = 4; // the widest elements
  Checked perPosition = checkedProduct({widthOf(model, layout), model.allLayerCount() + layout.laterTokens + 1,
                                        kMaxValues, kElementBytes, sequencesOf(layout)});
  return perPosition ? INT64_MAX / *perPosition : 0;
}

static void checkBytes(const ModelDescription &model, const Layout &layout, Problems &problems) {
  int64_t most = mostPositions(model, layout);
  for (const auto &[flag, length] : {std::pair(optionOf(&LayoutOptions::seq).flag, layout.sequenceLength),
                                     std::pair(optionOf(&LayoutOptions::encoderLength).flag, layout.encoderLength)}) {
    if (length <= most)
      continue;
    problems.add("{} {} with {} sequences: the bytes of a step exceed 64 bits", flag, length, sequencesOf(layout));
    if (most > 0)
      problems.hint("possible {} with as many sequences: 1 to {}", flag, most);
  }
}

// --- Pipeline ----------------------------------------------------------------------------------------------

static void checkPipeline(const ModelDescription &model, const Supported &supported, const Layout &layout,
                          Problems &problems) {
  int64_t chunks = layout.pp * layout.virtualStages, layers = model.allLayerCount();
  if (layers < chunks) {
    problems.add("{} = {} is fewer than the pp * vpp = {} * {} = {} chunks", model.allLayersName(), layers, layout.pp,
                 layout.virtualStages, chunks);
    if (layers >= layout.virtualStages)
      problems.hint("possible --pp with --vpp {}: 1 to {}", layout.virtualStages, layers / layout.virtualStages);
    if (layers >= layout.pp)
      problems.hint("possible --vpp with --pp {}: 1 to {}", layout.pp, layers / layout.pp);
    if (layers < layout.virtualStages && layers < layout.pp)
      problems.hint("possible pp * vpp: 1 to {}", layers);
  }
  if (layout.virtualStages == 1 || layout.pp > 1)
    return;
  const auto row = std::ranges::find(supported.schedules, layout.schedule, &ScheduleInfo::name);
  if (row != supported.schedules.end() && !row->takes(1) && !row->byDefault) {
    problems.add("--schedule {} needs --pp > 1: one stage has nothing to interleave with", layout.schedule);
    return problems.hint("possible --pp with it: 2 or more");
  }
  problems.add("--vpp {} needs --pp > 1: one stage has nothing to interleave with", layout.virtualStages);
  problems.hint("possible --vpp with --pp 1: 1");
}

// "2", "2 to 8", "2 or more".
static std::string rangeOf(int64_t least, int64_t most) {
  if (least == most)
    return std::to_string(least);
  return most >= kMaxLayersPerStage ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most);
}

// A schedule that a file gives is for these numbers alone.
static void checkNumbersOf(const ScheduleInfo &row, const Layout &layout, Problems &problems) {
  if (row.stages > 0 && row.stages != layout.pp) {
    problems.add("--schedule {} has {} stages, --pp is {}", row.name, row.stages, layout.pp);
    problems.hint("possible --pp with it: {}", row.stages);
  }
  if (row.microbatches > 0 && row.microbatches != layout.microbatches) {
    problems.add("--schedule {} has {} microbatches; --gbs {} with mbs = {}, dp = {} is {}", row.name, row.microbatches,
                 layout.globalBatchSize, layout.microBatchSize, layout.dp, layout.microbatches);
    problems.hint("possible --gbs with it: {}", row.microbatches * layout.microBatchSize * layout.dp);
  }
}

static void checkSchedule(const Layout &layout, const Supported &supported, Problems &problems) {
  std::vector<std::string> others;
  for (const ScheduleInfo &row : supported.schedules)
    if (row.takes(layout.virtualStages))
      others.push_back(row.name);
  for (const ScheduleInfo &row : supported.schedules) {
    if (row.name != layout.schedule)
      continue;
    checkNumbersOf(row, layout, problems);
    if (row.takes(layout.virtualStages))
      continue;
    problems.add("--schedule {} does not take --vpp {}", row.name, layout.virtualStages);
    problems.hint("possible --vpp with it: {}", rangeOf(row.minVirtualStages, row.maxVirtualStages));
    problems.hint("possible --schedule with --vpp {}: {}", layout.virtualStages, listOf(others));
  }
}

// In f32 the stream has no wider type to be of.
static void checkResidual(const Layout &layout, const Supported &supported, Problems &problems) {
  if (!layout.fp32Residual || plan::nameOf(layout.dtype) != supported.dtypes.front())
    return;
  const LayoutOption &option = optionOf(&LayoutOptions::fp32Residual);
  const std::string &dtype = optionOf(&LayoutOptions::dtype).flag;
  problems.add("{} with {} {}: the residual stream is f32 without it", option.flag, dtype, plan::nameOf(layout.dtype));
  problems.hint("possible: {} {} with it, or {}", dtype, supported.dtypes.back(), option.negation());
}

void checkLayout(const ModelDescription &model, const Supported &supported, Layout &layout, Problems &problems) {
  checkTensor(model, layout, problems);
  checkSequence(model, layout, problems);
  checkEncoder(model, layout, problems);
  checkContext(model, layout, problems);
  checkExpertRanks(model, layout, problems);
  checkBatch(layout, supported, problems);
  checkBytes(model, layout, problems);
  checkPipeline(model, supported, layout, problems);
  checkSchedule(layout, supported, problems);
  checkBalance(model, layout, problems);
  checkLaterTokens(model, layout, problems);
  checkFrozen(model, layout, problems);
  checkResidual(layout, supported, problems);
}

// --- The nearest layout that works -------------------------------------------------------------------------

static int64_t largestTensorSize(const ModelDescription &model, Layout layout) {
  layout.sequenceParallel = false; // where the sequence alone does not divide, it stays whole
  const std::vector<TensorRule> rules = tensorRules(model, layout);
  auto fits = [&](int64_t tp) {
    return !splitOtherwise(model, tp) &&
           std::ranges::all_of(rules, [&](const TensorRule &rule) { return rule.fits(tp); });
  };
  int64_t tp = layout.tp;
  while (tp > 1 && !fits(tp))
    --tp;
  return tp;
}

static std::string scheduleFor(const Supported &supported, const Layout &layout) {
  const auto isFor = [&](const ScheduleInfo &row) {
    return row.takes(layout.virtualStages) && (row.stages == 0 || row.stages == layout.pp) &&
           (row.microbatches == 0 || row.microbatches == layout.microbatches);
  };
  const ScheduleInfo *chosen = nullptr;
  for (const ScheduleInfo &row : supported.schedules)
    if (isFor(row) && (!chosen || row.name == layout.schedule || row.byDefault))
      if (!chosen || chosen->name != layout.schedule)
        chosen = &row;
  return chosen ? chosen->name : layout.schedule;
}

// Without numbers out of range and words that are not known.
static LayoutOptions possibleOf(LayoutOptions options, const Supported &supported) {
  for (const LayoutOption &row : layoutOptions()) {
    if (const auto *number = std::get_if<OptionField<int64_t>>(&row.field)) {
      std::optional<int64_t> &value = options.**number;
      if (value && (*value < row.least || *value > row.most))
        value.reset();
    } else if (const auto *word = std::get_if<OptionField<std::string>>(&row.field)) {
      std::optional<std::string> &value = options.**word;
      if (value && row.words && std::ranges::count(row.words(supported), *value) == 0)
        value.reset();
    }
  }
  return options;
}

// Changes options of `near` that contradict another option, of `near` or of the file.
static void reconcile(const Supported &supported, const Layout &layout, const LayoutOptions &defaults,
                      LayoutOptions &near) {
  const LayoutOptions asked = either(near, defaults);
  const std::string &widest = supported.dtypes.front();
  if (asked.dtype.value_or(widest) == widest && asked.gradientType)
    near.gradientType = widest;
  if (asked.dtype.value_or(widest) == widest && asked.fp32Residual.value_or(false))
    near.fp32Residual = false;
  const bool gathersOnce = (asked.overlapParamGather.value_or(false) || asked.optimizerOffload.value_or(false)) &&
                           asked.zero.value_or(0) > 0 && asked.zero < 3;
  if ((asked.bucketSize || gathersOnce) && !asked.overlapGradReduce.value_or(layout.target.leavesCoresToProducts))
    near.overlapGradReduce = true;
  near.layersPerChunk.reset(); // vpp says it
}

// The number of replicas with which the ranks are nearest to those that were asked for.
static int64_t nearestReplicas(int64_t world, int64_t ranksOfOne) {
  const int64_t fewer = world / ranksOfOne;
  const bool isNearer = fewer > 0 && world - fewer * ranksOfOne <= (fewer + 1) * ranksOfOne - world;
  return isNearer ? fewer : fewer + 1;
}

// The batch nearest to `wanted` samples that the schedule and the tokens of a step allow, with smaller microbatches and fewer
// replicas where one of them is too many.
static void fitBatch(const Supported &supported, Layout &near, int64_t wanted) {
  const int64_t length = std::max(near.sequenceLength, near.encoderLength);
  const int64_t samples = std::max<int64_t>(1, plan::kMaxStepTokens / length);
  near.dp = std::min(near.dp, samples);
  near.microBatchSize = std::min(near.microBatchSize, samples / near.dp);
  const int64_t unit = near.microBatchSize * near.dp;
  const int64_t most = std::min(mostMicrobatches(supported, near), samples / unit);
  near.globalBatchSize = unit * std::max<int64_t>(1, std::min(wanted / unit, most));
}

static void setNearestEncoder(const ModelDescription &model, Layout &near) {
  if (!model.encoder)
    return;
  near.cp = 1, near.resetPositionIds = near.resetAttentionMask = false;
  if (model.readsImages())
    near.sequenceLength = std::max(near.sequenceLength, model.encoder->features() + 1);
  else if (model.encoder->embedding.learnedPositions)
    near.encoderLength = std::min(near.encoderLength, model.maxPositions);
}

LayoutOptions nearestLayout(const ModelDescription &model, const Supported &supported, const Layout &layout,
                            const LayoutOptions &flags, const LayoutOptions &defaults) {
  const LayoutOptions asked = either(flags, defaults);
  Layout near = layout;
  near.pp = std::min(near.pp, model.allLayerCount());
  near.virtualStages = near.pp == 1 ? 1 : std::min(near.virtualStages, model.allLayerCount() / near.pp);
  near.schedule = scheduleFor(supported, near);
  if (model.embedding.learnedPositions && !near.resetPositionIds)
    near.sequenceLength = std::min(near.sequenceLength, model.maxPositions);
  if (std::ranges::any_of(model.kinds, isRotary))
    near.sequenceLength = std::min(near.sequenceLength, kMaxRotaryPositions);
  setNearestEncoder(model, near);
  fitBatch(supported, near, near.globalBatchSize);
  const int64_t replicas = near.dp;
  const int64_t most = mostPositions(model, near);
  near.sequenceLength = std::clamp<int64_t>(most, 1, near.sequenceLength);
  near.encoderLength = std::min(near.encoderLength, std::max<int64_t>(most, 1));
  near.tp = largestTensorSize(model, near);
  if (auto split = splitTensorAxis(model.kinds.front().block.attention, near.tp))
    std::tie(near.tpGroups, near.tpQueries) = *split;
  near.sequenceParallel = near.sequenceParallel && near.tp > 1 && near.sequenceLength % near.tp == 0 &&
                          (model.readsImages() || near.encoderLength % near.tp == 0);
  LayoutOptions options = possibleOf(flags, supported);
  setNearestContext(model, near, options);
  const int64_t world = asked.world.value_or(0);
  if (world >= 1 && world <= optionOf(&LayoutOptions::world).most && !asked.dp)
    near.dp = std::min(nearestReplicas(world, near.tp * *options.cp * near.pp), optionOf(&LayoutOptions::dp).most);
  const bool hasBatch = asked.gbs && near.dp == replicas;
  fitBatch(supported, near,
           hasBatch ? near.globalBatchSize : asked.gbs.value_or(near.microBatchSize * near.dp * near.pp));
  if (layout.hasExperts)
    setNearestExpertRanks(model, near, *options.cp, options);
  else
    options.ep.reset(), options.etp.reset(), options.dispatcher.reset(), options.balanceType.reset(),
        options.auxLossCoefficient.reset(), options.zLossCoefficient.reset(), options.capacityFactor.reset(),
        options.rowsFactor.reset(), options.countsLoad.reset();
  if (options.rowsFactor.value_or(0) > 0)
    options.rowsFactor = std::max(1.0, *options.rowsFactor);
  if (options.capacityFactor.value_or(0) == 0)
    options.dropPolicy.reset();
  setNearestLaterTokens(model, near.sequenceLength, options);
  setNearestRecompute(model, options);
  setNearestStageCut(options);
  setNearestOffload(model, layout, options);
  if (!canFreeze(model, layout))
    options.freeze.reset();
  options.tp = near.tp, options.pp = near.pp, options.dp = near.dp, options.vpp = near.virtualStages;
  options.seq = near.sequenceLength, options.mbs = near.microBatchSize, options.gbs = near.globalBatchSize;
  options.encoderLength.reset();
  if (model.encoder) {
    options.cp = 1;
    if (!model.readsImages())
      options.encoderLength = near.encoderLength;
    options.contextTypes.reset(), options.contextOrder.reset(), options.contextHierarchy.reset();
    options.resetPositionIds.reset(), options.resetAttentionMask.reset();
  }
  if (near.zero == 0 || near.dp % std::max<int64_t>(asked.instances.value_or(1), 1) != 0 ||
      asked.instances.value_or(1) < 1)
    options.instances.reset();
  if (near.zero != 3)
    options.outerSharding.reset();
  options.zero = near.zero, options.sp = near.sequenceParallel, options.schedule = near.schedule;
  if (asked.world)
    options.world = near.tp * *options.cp * near.pp * near.dp;
  if (*options.cp == 1 && !asked.cp)
    options.cp.reset();
  reconcile(supported, layout, defaults, options);
  return options;
}

} // namespace mgc::frontend
