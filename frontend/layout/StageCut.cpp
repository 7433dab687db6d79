// See StageCut.h.
#include "frontend/layout/StageCut.h"

#include "dialects/mg/training/StageSizes.h"
#include "frontend/layout/Options.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::frontend {

namespace {

using Sizes = std::vector<int64_t>;

// Megatron-LM's text of a pipeline, spelled out: "Et*3|(tt|)*2L" is "Ettt|tt|tt|L".
class PipelineText {
public:
  static Result<std::string> spellOut(std::string_view text) {
    PipelineText parser(text);
    MGC_ASSIGN(all, parser.items(0));
    if (!parser.rest_.empty())
      return errorf("'{}' behind '{}' closes nothing", parser.rest_, text.substr(0, text.size() - parser.rest_.size()));
    return all;
  }

private:
  static constexpr int kMostDepth = 8;
  static constexpr std::string_view kItems = "EtmL|";

  explicit PipelineText(std::string_view text) : rest_(text) {}

  // Items up to a bracket that closes, or the end.
  Result<std::string> items(int depth) {
    std::string all;
    for (skip(); !rest_.empty() && rest_.front() != ')'; skip()) {
      MGC_ASSIGN(item, one(depth));
      MGC_ASSIGN(times, repetitions());
      if (times > kMostChunks || int64_t(item.size()) * times > kMostChunks - int64_t(all.size()))
        return errorf("more than {} layers and ends of chunks", kMostChunks);
      for (int64_t i = 0; i < times; ++i)
        all += item;
    }
    return all;
  }

  Result<std::string> one(int depth) {
    const char first = rest_.front();
    rest_.remove_prefix(1);
    if (first != '(')
      return kItems.find(first) != kItems.npos
                 ? Result<std::string>(std::string(1, first))
                 : Result<std::string>(
                       errorf("'{}' is none of E (embedding), t (layer), m (module of a later token), L "
                              "(loss), | (end of a chunk), (..)*n",
                              first));
    if (depth == kMostDepth)
      return errorf("brackets are nested deeper than {}", kMostDepth);
    MGC_ASSIGN(inside, items(depth + 1));
    if (rest_.empty())
      return errorf("a bracket is not closed");
    rest_.remove_prefix(1);
    return inside;
  }

  // "*3"; 1 where there is none.
  Result<int64_t> repetitions() {
    skip();
    if (rest_.empty() || rest_.front() != '*')
      return int64_t(1);
    rest_.remove_prefix(1);
    skip();
    int64_t times = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), times);
    if (error != std::errc() || times < 1)
      return errorf("'*{}' does not say how often; expected a number from 1 on", rest_.substr(0, 8));
    rest_.remove_prefix(size_t(end - rest_.data()));
    return times;
  }

  void skip() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(", "))); }

  std::string_view rest_;
};

// Ways to say the cut, each with an option that says it, if it is given.
std::vector<std::pair<bool, AnyOptionField>> waysOf(const LayoutOptions &asked) {
  using Options = LayoutOptions;
  const bool countsEmbedding = asked.countsEmbedding.value_or(false);
  return {{asked.stages.has_value(), &Options::stages},
          {asked.firstStageLayers || asked.lastStageLayers,
           asked.firstStageLayers ? &Options::firstStageLayers : &Options::lastStageLayers},
          {countsEmbedding || asked.countsLoss.value_or(false),
           countsEmbedding ? &Options::countsEmbedding : &Options::countsLoss},
          {asked.pipelineText.has_value(), &Options::pipelineText}};
}

class StageCut {
public:
  StageCut(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems)
      : model_(model), asked_(asked), layout_(layout), problems_(problems) {}

  void run() {
    const bool byEnds = asked_.firstStageLayers || asked_.lastStageLayers;
    std::vector<std::string> given;
    for (const auto &[isGiven, field] : waysOf(asked_))
      if (isGiven)
        given.push_back(optionOf(field).flag);
    if (given.size() > 1) {
      problems_.add("{}: each says how all layers are cut", fmt::join(given, " with "));
      problems_.hint("possible: one of them alone");
    }
    if (given.size() != 1)
      return;
    flag_ = given.front();
    set(asked_.stages ? bySizes() : byEnds ? this->byEnds() : asked_.pipelineText ? byText() : byEvenShares());
  }

private:
  int64_t chunks() const { return layout_.pp * layout_.virtualStages; }
  int64_t layers() const { return model_.allLayerCount(); }

  void set(Result<Sizes> sizes) {
    if (!sizes.isOk())
      return problems_.add("{}: {}", flag_, sizes.status().message());
    const int64_t sum = std::accumulate(sizes->begin(), sizes->end(), int64_t(0));
    if (int64_t(sizes->size()) != chunks())
      problems_.add("{}: {} chunks; expected pp * vpp = {} * {} = {}", flag_, sizes->size(), layout_.pp,
                    layout_.virtualStages, chunks());
    else if (sum != layers())
      problems_.add("{}: {} layers in all; expected {} = {}", flag_, sum, model_.allLayersName(), layers());
    else if (const auto empty = std::ranges::find_if(*sizes, [](int64_t size) { return size < 1; });
             empty != sizes->end())
      problems_.add("{}: chunk {} has {} layers; expected at least one in each", flag_, empty - sizes->begin(), *empty);
    else
      layout_.stages = stageSizesText(*sizes);
    if (const int64_t stages = int64_t(sizes->size()) / layout_.virtualStages;
        sum == layers() && stages > 0 && stages != layout_.pp && int64_t(sizes->size()) % layout_.virtualStages == 0)
      problems_.hint("possible: {} {} with it", optionOf(&LayoutOptions::pp).flag, stages);
    else if (layout_.stages.empty() && layers() >= chunks())
      problems_.hint("possible: {} {}, or without it, by the work of each layer", optionOf(&LayoutOptions::stages).flag,
                     stageSizesText(evenly(layers(), chunks())));
  }

  // Longer ones last, where fewer microbatches are in flight.
  static Sizes evenly(int64_t layers, int64_t chunks) {
    Sizes sizes(size_t(chunks), layers / chunks);
    for (int64_t i = 0; i < layers % chunks; ++i)
      ++sizes[size_t(chunks - 1 - i)];
    return sizes;
  }

  Result<Sizes> bySizes() const { return parseStageSizes(*asked_.stages); }

  // Each stage's chunks have as many layers.
  Result<Sizes> byEnds() const {
    const int64_t first = asked_.firstStageLayers.value_or(0), last = asked_.lastStageLayers.value_or(0);
    const int64_t others = layout_.pp - (first > 0) - (last > 0), rest = layers() - first - last;
    if (others < 0)
      return errorf("a first and a last stage need pp of 2 at least");
    if (rest < 0 || (others == 0 && rest != 0) || (others > 0 && rest % others != 0))
      return errorf("{} of {} layers are left for {} stages, which is no equal share", rest, layers(), others);
    Sizes stages(size_t(layout_.pp), others > 0 ? rest / others : 0);
    if (first > 0)
      stages.front() = first;
    if (last > 0)
      stages.back() = last;
    Sizes sizes;
    for (int64_t chunk = 0; chunk < layout_.virtualStages; ++chunk) {
      for (const int64_t stage : stages) {
        if (stage % layout_.virtualStages != 0)
          return errorf("{} layers of a stage do not divide over vpp = {} chunks", stage, layout_.virtualStages);
        sizes.push_back(stage / layout_.virtualStages);
      }
      if (layout_.chunksInV)
        std::ranges::reverse(stages);
    }
    return sizes;
  }

  Result<Sizes> byEvenShares() const {
    const int64_t embedding = asked_.countsEmbedding.value_or(false), loss = asked_.countsLoss.value_or(false);
    const int64_t all = layers() + embedding + loss;
    if (all % chunks() != 0)
      return errorf("{} layers and {} that count as one do not divide over pp * vpp = {} chunks", layers(),
                    embedding + loss, chunks());
    Sizes sizes(size_t(chunks()), all / chunks());
    sizes.front() -= embedding, sizes.back() -= loss;
    return sizes;
  }

  // The embedding is in the first chunk, and the modules of later tokens and the loss are in the last.
  Result<Sizes> byText() const {
    MGC_ASSIGN(text, PipelineText::spellOut(*asked_.pipelineText));
    Sizes sizes = {0};
    std::string others; // all but layers
    for (const char item : text) {
      if (item == '|')
        sizes.push_back(0);
      else if (item == 't')
        ++sizes.back();
      others += item == 't' ? "" : std::string(1, item);
    }
    const std::string expected =
        "E" + std::string(sizes.size() - 1, '|') + std::string(size_t(layout_.laterTokens), 'm') + "L";
    if (others != expected || text.front() != 'E' || text.back() != 'L' || text.find('t', text.find('m')) != text.npos)
      return errorf("'{}' is not E, layers, {} m and L in this order, with m and L in the last chunk",
                    asked_.pipelineText->substr(0, 80), layout_.laterTokens);
    return sizes;
  }

  const ModelDescription &model_;
  const LayoutOptions &asked_;
  Layout &layout_;
  Problems &problems_;
  std::string flag_;
};

} // namespace

void resolveStageCut(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems) {
  StageCut(model, asked, layout, problems).run();
}

bool isCutGiven(const LayoutOptions &options) {
  return std::ranges::any_of(waysOf(options), [](const auto &way) { return way.first; });
}

void setNearestStageCut(LayoutOptions &options) {
  options.stages.reset(), options.pipelineText.reset();
  options.firstStageLayers.reset(), options.lastStageLayers.reset();
  options.countsEmbedding.reset(), options.countsLoss.reset();
}

} // namespace mgc::frontend
