// See Search.h.
#include "planner/search/Search.h"

#include "dialects/mg/Target.h"
#include "dialects/mg/training/StageSizes.h"
#include "frontend/layout/StageCut.h"
#include "planner/search/Cuts.h"
#include "planner/search/Shapes.h"
#include "planner/search/StageBounds.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

struct PickedLayout {
  Picks picks;
  size_t layout = 0; // its number in the space; other cuts of it have its number
  int64_t shape = 0;
  int64_t pp = 1, vpp = 1, microbatches = 1, shards = 1, level = 0;
  bool isV = false, splits = false, pairs = false;
  Cut cut = {};                 // empty: as its options say, or else by work
  bool isBoundByChunks = false; // leastSecondsOf is known
  bool needsPolicies = false;   // the fastest do not fit

  bool isOfSpace() const { return cut.empty(); }
  schedule::Shape pipeline() const {
    return {pp, vpp, microbatches, isV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
  }
};

class Searcher {
public:
  // Patterns of shapes that have no law: Shapes.
  Searcher(const SearchRequest &request, const std::set<std::string> &withoutLaw)
      : request_(request), space_(request.space, request.given),
        shapes_({request.space.model, request.make, request.machine, request.resolve,
                 [this](int64_t shape) { return optionsOfShape(shape); }},
                withoutLaw) {}

  FoundLayouts run() {
    space_.forEach([&](const LayoutOptions &options, const Picks &picks) { add(options, picks); });
    for (size_t number = 0; number < candidates_.size() && !elementBytes_; ++number)
      if (const Result<Layout> layout = request_.resolve(optionsOf(number)); layout.isOk())
        elementBytes_ = elementBytesOf(*layout);
    for (int64_t family = 0; family < shapes_.families(); ++family)
      queue_.push({0, size_t(family), NodeKind::family});
    while (contradicted().empty()) {
      if (queue_.empty() || queue_.top().seconds > worstWanted()) {
        if (!looksAround())
          break;
        continue;
      }
      const Node node = queue_.top();
      queue_.pop();
      switch (node.kind) {
      case NodeKind::family:
        openFamily(int64_t(node.number), node.seconds);
        break;
      case NodeKind::shape:
        openShape(int64_t(node.number), node.seconds);
        break;
      case NodeKind::layout:
        consider(node.number, node.seconds);
      }
    }
    for (; !queue_.empty(); queue_.pop())
      leaveOut(queue_.top());
    found_.counts.shapes = shapes_.count();
    found_.counts.compiled = shapes_.compiled();
    return std::move(found_);
  }
  const std::string &contradicted() const { return shapes_.contradicted(); }

private:
  enum class NodeKind { layout, shape, family };
  // A layout, or all of a shape or a family of shapes: none takes less.
  struct Node {
    double seconds = 0;
    size_t number = 0;
    NodeKind kind = NodeKind::layout;
    // The least comes first, of two the first of the space.
    bool operator<(const Node &other) const {
      return std::tuple(other.seconds, other.kind, other.number) < std::tuple(seconds, kind, number);
    }
  };

  void add(const LayoutOptions &options, const Picks &picks) {
    ++found_.counts.enumerated;
    PickedLayout candidate{picks};
    std::optional<int64_t> vpp = options.vpp;
    std::string schedule = options.schedule.value_or("");
    if (!options.vpp || !options.schedule) // they follow from each other
      if (const Result<Layout> layout = request_.resolve(options); layout.isOk())
        vpp = layout->virtualStages, schedule = options.schedule.value_or(layout->schedule);
    const auto &rows = request_.space.supported.schedules;
    if (const auto row = std::ranges::find(rows, schedule, &frontend::ScheduleInfo::name); row != rows.end())
      candidate.isV = row->chunksInV, candidate.splits = row->splitBackward, candidate.pairs = row->pairs;
    const ShapeSizes sizes = sizesOf(options, candidate.splits);
    const int64_t dp = *options.dp;
    if (sizes.tp * sizes.cp * dp % (sizes.ep * sizes.etp) != 0 ||
        request_.space.globalBatchSize % (dp * sizes.mbs) != 0)
      return void(++found_.counts.refused);
    candidate.pp = options.pp.value_or(1), candidate.vpp = vpp.value_or(1);
    candidate.microbatches = request_.space.globalBatchSize / (dp * sizes.mbs);
    candidate.shards = dp * sizes.cp;
    candidate.level = options.zero.value_or(0);
    candidate.shape = shapes_.numberOf(sizes);
    candidate.layout = candidates_.size();
    layouts_.resize(size_t(shapes_.count()));
    layouts_[size_t(candidate.shape)].push_back(candidate.layout);
    candidates_.push_back(std::move(candidate));
  }

  LayoutOptions optionsOf(size_t number) const {
    const PickedLayout &candidate = candidates_[number];
    LayoutOptions options = space_.optionsOf(candidate.picks);
    if (!candidate.cut.empty())
      options.stages = stageSizesText(candidate.cut);
    return options;
  }
  // The first of its layouts that is none to be refused.
  LayoutOptions optionsOfShape(int64_t shape) const {
    const std::vector<size_t> &layouts = layouts_[size_t(shape)];
    const auto first =
        std::ranges::find_if(layouts, [&](size_t layout) { return request_.resolve(optionsOf(layout)).isOk(); });
    return optionsOf(first == layouts.end() ? layouts.front() : *first);
  }

  // --- Bounds

  bool hasPairs(int64_t shape) const {
    const std::vector<size_t> &layouts = layouts_[size_t(shape)];
    return std::ranges::any_of(layouts, [&](size_t layout) { return candidates_[layout].pairs; });
  }

  // All devices at work from begin to end, with microbatches of `mbs` samples.
  double leastSeconds(int64_t shape, const ShapeFacts &facts, int64_t mbs, bool pairs) const {
    double all = 0, unexposed = 0, onNetwork = 0;
    for (const size_t number : facts.chain) {
      const BlockLeast &block = facts.blocks[number];
      all += block.all, unexposed += block.unexposed, onNetwork += block.onNetwork;
    }
    const ShapeSizes &sizes = shapes_.sizesOf(shape);
    return double(request_.space.globalBatchSize) * (pairs ? std::max(unexposed, onNetwork) : all) *
           double(sizes.tp * sizes.cp) / double(mbs * request_.space.devices);
  }

  // Instances of each chunk.
  std::vector<int64_t> chunksOf(const PickedLayout &candidate, const ShapeFacts &facts, const Cut &cut) {
    return cut.empty() ? shapes_.cutOf(candidate.shape, candidate.pipeline().chunks())
                       : instancesOf(facts.cost, std::ssize(facts.chain), cut);
  }
  std::vector<StageLeast> stagesOf(const PickedLayout &candidate, const ShapeFacts &facts, const Cut &cut) {
    return planner::stagesOf(facts, chunksOf(candidate, facts, cut), candidate.pipeline());
  }

  // By the most ranks that share out any parameters, and without what microbatches keep.
  bool isTooLarge(const PickedLayout &candidate, const std::vector<StageLeast> &stages) const {
    const InFlight::Counts none(stages.size(), std::vector<int64_t>(size_t(candidate.vpp)));
    const ShapeSizes &sizes = shapes_.sizesOf(candidate.shape);
    const int64_t ofExperts = sizes.tp * candidate.shards / (sizes.ep * sizes.etp);
    const auto ranks = [&](const plan::Axes &) { return std::max(candidate.shards, ofExperts); };
    return elementBytes_ && leastBytes(stages, candidate.level, *elementBytes_, ranks, none) > double(request_.memory);
  }
  bool isTooLarge(const Layout &layout, const schedule::Shape &pipeline, const std::vector<StageLeast> &stages) {
    const plan::Mesh mesh = layout.mesh();
    const auto ranks = [&](const plan::Axes &axes) { return plan::groupSize(mesh, axes); };
    return leastBytes(stages, layout.zero, elementBytesOf(layout), ranks, inFlight_.of(layout.schedule, pipeline)) >
           double(request_.memory);
  }

  // The slowdown of policies that fit, where it is known which there are; else nothing.
  std::vector<double> leastSlowdown(const PickedLayout &candidate, const Layout &layout, const ShapeFacts &facts,
                                    const Cut &cut, const std::vector<StageLeast> &stages) {
    if (layout.memory.empty() || facts.policies.empty())
      return {};
    const plan::Mesh mesh = layout.mesh();
    const auto ranks = [&](const plan::Axes &axes) { return plan::groupSize(mesh, axes); };
    const schedule::Shape pipeline = candidate.pipeline();
    return planner::leastSlowdown(facts, chunksOf(candidate, facts, cut), pipeline, candidate.pairs, stages,
                                  layout.zero, elementBytesOf(layout), ranks, inFlight_.of(layout.schedule, pipeline),
                                  request_.memory);
  }

  // The whole step's seconds.
  double leastSeconds(const PickedLayout &candidate, const Layout &layout, std::vector<StageLeast> stages) const {
    const plan::Mesh mesh = layout.mesh();
    const cost::Cluster cluster = request_.machine.cluster(mesh, targetNamed(layout.target.name));
    addUnits(layout, cluster, stages);
    return planner::leastSeconds(stages, candidate.microbatches, candidate.pairs) +
           leastStepEnd(layout, cluster, stages);
  }

  double leastSeconds(const PickedLayout &candidate, const Layout &layout, std::vector<StageLeast> stages,
                      const std::vector<double> &slowdown) const {
    addSlowdown(slowdown, candidate.splits, stages);
    return leastSeconds(candidate, layout, std::move(stages));
  }

  // --- The queue

  double worstWanted() const {
    return found_.answers.size() < request_.wanted ? std::numeric_limits<double>::infinity()
                                                   : found_.answers.back().estimate.seconds;
  }

  void leaveOut(const Node &node) {
    switch (node.kind) {
    case NodeKind::family:
      for (const int64_t shape : shapes_.family(int64_t(node.number)))
        found_.counts.tooSlow += std::ssize(layouts_[size_t(shape)]);
      break;
    case NodeKind::shape:
      found_.counts.tooSlow += std::ssize(layouts_[node.number]);
      break;
    case NodeKind::layout:
      if (const PickedLayout &layout = candidates_[node.number]; !layout.needsPolicies) // the others were estimated
        found_.counts.tooSlow += layout.isOfSpace();
    }
  }

  // `known`: its layouts take no less, as far as was known when it came into the queue; here and below.
  void openFamily(int64_t family, double known) {
    const std::vector<int64_t> &shapes = shapes_.family(family);
    if (known == 0)
      if (const auto large = shapes_.factsOfFamily(family)) {
        const bool pairs = std::ranges::any_of(shapes, [&](int64_t shape) { return hasPairs(shape); });
        const double seconds = leastSeconds(shapes.front(), large->first, large->second, pairs);
        if (seconds > known)
          return queue_.push({seconds, size_t(family), NodeKind::family});
      }
    for (const int64_t shape : shapes)
      queue_.push({known, size_t(shape), NodeKind::shape});
  }

  void openShape(int64_t shape, double known) {
    const Result<const ShapeFacts *> facts = shapes_.facts(shape);
    if (!facts.isOk()) {
      for (size_t i = 0; i < layouts_[size_t(shape)].size(); ++i)
        refuse(facts.status().message());
      return;
    }
    const double least = leastSeconds(shape, **facts, shapes_.sizesOf(shape).mbs, hasPairs(shape));
    if (least > known)
      return queue_.push({least, size_t(shape), NodeKind::shape});
    std::map<std::tuple<int64_t, int64_t, bool>, std::vector<CutStages>> pipelines;
    for (const size_t number : layouts_[size_t(shape)]) {
      const PickedLayout &candidate = candidates_[number];
      if (std::ssize((*facts)->cost.instances) < candidate.pp * candidate.vpp) {
        refuse("there are more chunks than layers");
        continue;
      }
      const auto [cuts, isNew] = pipelines.try_emplace({candidate.pp, candidate.vpp, candidate.isV});
      if (isNew)
        cuts->second = cutsOf(candidate, **facts);
      if (cuts->second.empty()) {
        refuse(request_.resolve(optionsOf(number)).status().message());
        continue;
      }
      for (const CutStages &cut : cuts->second) {
        const bool isOfSpace = cut.cut.empty();
        if (isTooLarge(candidate, cut.stages)) {
          found_.counts.tooLarge += isOfSpace;
          continue;
        }
        const double seconds = planner::leastSeconds(cut.stages, candidate.microbatches, candidate.pairs);
        queue_.push({std::max(known, seconds), isOfSpace ? number : addCut(candidate, cut.cut), NodeKind::layout});
      }
    }
  }

  // --- Cuts

  struct CutStages {
    Cut cut; // PickedLayout::cut
    std::vector<StageLeast> stages;
  };
  // Cuts of a pipeline that are tried whatever comes out: what is given, or by work and by seconds.
  std::vector<CutStages> cutsOf(const PickedLayout &candidate, const ShapeFacts &facts) {
    if (candidate.pp == 1)
      return {{{}, stagesOf(candidate, facts, {})}};
    if (!space_.opensCut()) {
      const std::optional<Cut> given = givenCut(candidate);
      return given ? std::vector<CutStages>{{{}, stagesOf(candidate, facts, *given)}} : std::vector<CutStages>();
    }
    std::vector<CutStages> cuts = {{{}, stagesOf(candidate, facts, {})}};
    Cut bySeconds = cutBySeconds(facts, candidate.pipeline());
    if (bySeconds != layersOf(facts, shapes_.cutOf(candidate.shape, std::ssize(bySeconds)))) {
      std::vector<StageLeast> stages = stagesOf(candidate, facts, bySeconds);
      cuts.push_back({std::move(bySeconds), std::move(stages)});
    }
    return cuts;
  }

  // The cut of the first layout with the same pipeline that is none to be refused; nothing: there is none.
  std::optional<Cut> givenCut(const PickedLayout &candidate) const {
    if (!frontend::isCutGiven(request_.given))
      return Cut();
    for (const size_t number : layouts_[size_t(candidate.shape)])
      if (const PickedLayout &other = candidates_[number]; other.pipeline() == candidate.pipeline())
        if (const Result<Layout> layout = request_.resolve(optionsOf(number)); layout.isOk())
          return cutOf(other, *layout);
    return std::nullopt;
  }
  // Layers of each chunk, as the options say or as they were chosen; empty: by work.
  static Cut cutOf(const PickedLayout &candidate, const Layout &layout) {
    if (!candidate.cut.empty() || layout.stages.empty())
      return candidate.cut;
    return *parseStageSizes(layout.stages);
  }
  // Whether another cut of the layout takes no more seconds, and one is enough.
  bool isOneOfLayout(size_t layout, double seconds) {
    return !request_.space.onlyOpen && seconds >= cuts_[layout].least;
  }

  size_t addCut(const PickedLayout &layout, Cut cut) {
    PickedLayout &other = candidates_.emplace_back(candidates_[layout.layout]);
    other.cut = std::move(cut);
    other.isBoundByChunks = other.needsPolicies = false;
    return candidates_.size() - 1;
  }

  // Whether there are cuts beside those of the fastest layouts that may be better: it goes on from one to another.
  bool looksAround() {
    if (!space_.opensCut())
      return false;
    const size_t before = queue_.size();
    for (size_t i = 0; i < ofAnswers_.size(); ++i)
      if (const PickedLayout &layout = candidates_[ofAnswers_[i]]; layout.pp > 1)
        lookAround(layout, found_.answers[i]);
    return queue_.size() > before;
  }

  // So many cuts beside another are estimated, those of the least bounds: fewer the longer the schedule's lists are.
  size_t mostBeside(const schedule::Shape &pipeline) const {
    constexpr int64_t kTasks = int64_t(1) << 15, kLeast = 4;
    const int64_t tasks = pipeline.chunks() * (pipeline.chunks() + 4 * pipeline.stages); // until lists repeat
    return size_t(std::clamp<int64_t>(kTasks / tasks, kLeast, request_.space.onlyOpen ? 64 : 16));
  }

  void lookAround(const PickedLayout &layout, const Answer &answer) {
    const Estimate &made = answer.estimate;
    const ShapeFacts &facts = **shapes_.facts(layout.shape);
    const schedule::Shape pipeline = layout.pipeline();
    std::optional<int64_t> slowest;
    if (!request_.space.onlyOpen)
      slowest = std::ranges::max_element(made.stages, {}, &StageEstimate::seconds) - made.stages.begin();
    std::vector<std::pair<double, Cut>> beside;
    const Cut cut = layout.cut.empty() ? layersOf(facts, shapes_.cutOf(layout.shape, pipeline.chunks())) : layout.cut;
    CutsOfLayout &known = cuts_[layout.layout];
    if (!known.left.insert(cut).second)
      return;
    known.tried.insert(cut);
    for (Cut &other : cutsBeside(facts, pipeline, cut, slowest)) {
      LayoutOptions of = answer.options;
      of.stages = stageSizesText(other);
      const Result<Layout> resolved = request_.resolve(of);
      const std::vector<StageLeast> stages = stagesOf(layout, facts, other);
      if (!resolved.isOk() || isTooLarge(*resolved, pipeline, stages) || known.tried.contains(other))
        continue;
      if (const double seconds = leastSeconds(layout, *resolved, stages); seconds < made.seconds)
        beside.emplace_back(seconds, std::move(other));
    }
    std::ranges::stable_sort(beside, {}, &std::pair<double, Cut>::first);
    beside.resize(std::min(beside.size(), mostBeside(pipeline)));
    for (auto &[seconds, other] : beside) {
      known.tried.insert(other);
      queue_.push({seconds, addCut(layout, std::move(other)), NodeKind::layout});
    }
  }

  void consider(size_t number, double known) {
    PickedLayout &candidate = candidates_[number];
    if (!candidate.isOfSpace() && isOneOfLayout(candidate.layout, known))
      return;
    const LayoutOptions options = optionsOf(number);
    Result<Layout> layout = request_.resolve(options);
    if (!layout.isOk())
      return refuse(candidate, layout.status().message());
    if (!candidate.needsPolicies) {
      const Result<const ShapeFacts *> facts = shapes_.facts(candidate.shape);
      if (!facts.isOk())
        return refuse(candidate, facts.status().message());
      const Cut cut = cutOf(candidate, *layout);
      const std::vector<StageLeast> stages = stagesOf(candidate, **facts, cut);
      if (isTooLarge(*layout, candidate.pipeline(), stages))
        return void(found_.counts.tooLarge += candidate.isOfSpace());
      if (const double seconds = leastSeconds(candidate, *layout, stages); seconds > known)
        return queue_.push({seconds, number, NodeKind::layout});
      const std::vector<double> slowdown = leastSlowdown(candidate, *layout, **facts, cut, stages);
      if (std::ranges::any_of(slowdown, [](double seconds) { return std::isinf(seconds); }))
        return void(found_.counts.tooLarge += candidate.isOfSpace());
      if (const double seconds = leastSeconds(candidate, *layout, stages, slowdown); seconds > known)
        return queue_.push({seconds, number, NodeKind::layout});
    }
    const bool isNew = !shapes_.isCompiled(candidate.shape);
    const Result<const ShapeBlocks *> shape = shapes_.blocks(candidate.shape, options);
    if (!shape.isOk())
      return refuse(candidate, shape.status().message());
    if (isNew)
      return queue_.push({known, number, NodeKind::layout});
    if (candidate.needsPolicies)
      return fit(number, options, *layout, **shape);
    if (layout->hasSlices() && layout->zero > 1 && !candidate.pairs && !std::exchange(candidate.isBoundByChunks, true))
      if (const Result<double> least = leastSecondsOf(**shape, *layout, request_.machine);
          least.isOk() && *least > known)
        return queue_.push({*least, number, NodeKind::layout});
    const std::optional<double> least = evaluate(number, options, *layout, **shape);
    if (!least)
      return;
    candidate.needsPolicies = true;
    queue_.push({std::max(known, *least), number, NodeKind::layout});
  }

  // Nothing where all is known of it; else the seconds that it takes at the least with policies that fit.
  std::optional<double> evaluate(size_t number, const LayoutOptions &options, const Layout &layout,
                                 const ShapeBlocks &shape) {
    const PickedLayout &candidate = candidates_[number];
    Result<Estimate> made = estimate(shape, layout, request_.machine, cache_, Policies::fastest);
    if (!made.isOk())
      return refuse(candidate, made.status().message()), std::nullopt;
    ++(candidate.isOfSpace() ? found_.counts.estimated : found_.counts.cuts);
    if (made->least > worstWanted())
      return std::nullopt;
    if (!fits(*made) && layout.memory.empty()) { // its policies are given
      ++found_.counts.unfit;
      found_.misfit = fmt::format("a rank takes {} bytes, and the policy of recomputation is given", made->bytes());
      return std::nullopt;
    }
    if (!fits(*made)) {
      if (made->slowdown.empty() || candidate.pairs) // in pairs collectives need not take that long
        return made->least;
      const std::vector<StageLeast> stages =
          stagesOf(candidate, **shapes_.facts(candidate.shape), cutOf(candidate, layout));
      return std::max(made->least, leastSeconds(candidate, layout, stages, made->slowdown));
    }
    answer(number, {options, layout, made.take()});
    return std::nullopt;
  }

  void fit(size_t number, const LayoutOptions &options, const Layout &layout, const ShapeBlocks &shape) {
    ++found_.counts.fitted;
    Result<Estimate> made = estimate(shape, layout, request_.machine, cache_, Policies::fitting);
    if (made.isOk())
      return answer(number, {options, layout, made.take()});
    ++found_.counts.unfit;
    found_.misfit = made.status().message();
  }

  bool fits(const Estimate &made) const {
    return made.bytes() <= request_.memory && made.hostBytes() <= request_.hostMemory;
  }

  // One answer a layout, its fastest cut, unless cuts are what is asked for.
  void answer(size_t number, Answer answer) {
    const size_t layout = candidates_[number].layout;
    CutsOfLayout &cuts = cuts_[layout];
    const double seconds = answer.estimate.seconds;
    if (isOneOfLayout(layout, seconds))
      return;
    if (!request_.space.onlyOpen)
      if (const auto slower =
              std::ranges::find(ofAnswers_, layout, [&](size_t other) { return candidates_[other].layout; });
          slower != ofAnswers_.end()) {
        found_.answers.erase(found_.answers.begin() + (slower - ofAnswers_.begin()));
        ofAnswers_.erase(slower);
      }
    const auto isBefore = [](const Answer &a, const Answer &b) {
      return std::pair(a.estimate.seconds, a.estimate.bytes()) < std::pair(b.estimate.seconds, b.estimate.bytes());
    };
    const auto place = std::ranges::upper_bound(found_.answers, answer, isBefore);
    ofAnswers_.insert(ofAnswers_.begin() + (place - found_.answers.begin()), number);
    found_.answers.insert(place, std::move(answer));
    cuts.least = std::min(cuts.least, seconds);
    if (found_.answers.size() > request_.wanted)
      found_.answers.pop_back(), ofAnswers_.pop_back();
  }

  void refuse(const PickedLayout &candidate, const std::string &reason) {
    if (candidate.isOfSpace())
      refuse(reason);
  }
  void refuse(const std::string &reason) {
    ++found_.counts.refused;
    found_.refusal = reason;
  }

  const SearchRequest &request_;
  SpaceOfLayouts space_;
  Shapes shapes_;
  FoundLayouts found_;
  EstimateCache cache_;
  InFlight inFlight_;
  std::optional<ElementBytes> elementBytes_; // the same for all layouts
  std::deque<PickedLayout> candidates_;      // the layouts of the space, and behind them other cuts of some
  struct CutsOfLayout {
    double least = std::numeric_limits<double>::infinity(); // seconds of its answers
    std::set<Cut> tried, left; // were or will be estimated; from these the way went on to others
  };
  std::map<size_t, CutsOfLayout> cuts_;
  std::vector<size_t> ofAnswers_;            // the candidate of each
  std::vector<std::vector<size_t>> layouts_; // by shape
  std::priority_queue<Node> queue_;
};

} // namespace

FoundLayouts search(const SearchRequest &request) {
  std::set<std::string> withoutLaw;
  for (;;) {
    Searcher searcher(request, withoutLaw);
    FoundLayouts found = searcher.run();
    if (searcher.contradicted().empty())
      return found;
    withoutLaw.insert(searcher.contradicted());
  }
}

} // namespace mgc::planner
