// See Search.h.
#include "planner/search/Search.h"

#include "dialects/mg/Target.h"
#include "planner/search/Shapes.h"
#include "planner/search/StageBounds.h"

#include <algorithm>
#include <queue>

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

struct PickedLayout {
  Picks picks;
  int64_t shape = 0;
  int64_t pp = 1, vpp = 1, microbatches = 1, shards = 1, level = 0;
  bool isV = false, splits = false, pairs = false;
  bool isBoundByChunks = false; // leastSecondsOf is known
  bool needsPolicies = false;   // the fastest do not fit
};

class Searcher {
public:
  // Patterns of shapes that have no law: Shapes.
  Searcher(const SearchRequest &request, const std::set<std::string> &withoutLaw)
      : request_(request), space_(request.space, request.given),
        shapes_(
            {request.make, request.machine, request.resolve, [this](int64_t shape) { return optionsOfShape(shape); }},
            withoutLaw) {}

  FoundLayouts run() {
    space_.forEach([&](const LayoutOptions &options, const Picks &picks) { add(options, picks); });
    for (int64_t family = 0; family < shapes_.families(); ++family)
      queue_.push({0, size_t(family), NodeKind::family});
    while (!queue_.empty() && contradicted().empty()) {
      const Node node = queue_.top();
      if (node.seconds > worstWanted())
        break;
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
    layouts_.resize(size_t(shapes_.count()));
    layouts_[size_t(candidate.shape)].push_back(candidates_.size());
    candidates_.push_back(std::move(candidate));
  }

  LayoutOptions optionsOf(size_t candidate) const { return space_.optionsOf(candidates_[candidate].picks); }
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
    double seconds = 0;
    for (const size_t block : facts.chain)
      seconds += pairs ? facts.blocks[block].unexposed : facts.blocks[block].all;
    const ShapeSizes &sizes = shapes_.sizesOf(shape);
    return double(request_.space.globalBatchSize) * seconds * double(sizes.tp * sizes.cp) /
           double(mbs * request_.space.devices);
  }

  std::vector<StageLeast> stagesOf(const PickedLayout &candidate, const ShapeFacts &facts) {
    const schedule::Shape pipeline{candidate.pp, candidate.vpp, candidate.microbatches,
                                   candidate.isV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
    return planner::stagesOf(facts, shapes_.cutOf(candidate.shape, pipeline.chunks()), pipeline);
  }

  bool isTooLarge(const PickedLayout &candidate, const std::vector<StageLeast> &stages) const {
    return leastBytes(stages, candidate.level, candidate.shards) > double(request_.memory);
  }

  // The whole step's seconds.
  double leastSeconds(const PickedLayout &candidate, const Layout &layout, std::vector<StageLeast> stages) const {
    const plan::Mesh mesh = layout.mesh();
    const cost::Cluster cluster{request_.machine, mesh, targetNamed(layout.target.name)};
    addUnits(layout, cluster, stages);
    return planner::leastSeconds(stages, candidate.microbatches, candidate.pairs) +
           leastStepEnd(layout, cluster, stages);
  }

  double leastSeconds(const PickedLayout &candidate, const Layout &layout, std::vector<StageLeast> stages,
                      const std::vector<double> &slowdown) const {
    for (size_t s = 0; s < slowdown.size(); ++s) {
      StageLeast &stage = stages[s];
      stage.all += slowdown[s], stage.unexposed += slowdown[s];
      if (!candidate.splits)
        stage.passes += slowdown[s];
    }
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
      found_.counts.tooSlow += !candidates_[node.number].needsPolicies; // the others were estimated
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
    using Cut = std::tuple<int64_t, int64_t, bool>; // stages and chunks
    std::map<Cut, std::vector<StageLeast>> cuts;
    for (const size_t number : layouts_[size_t(shape)]) {
      const PickedLayout &candidate = candidates_[number];
      if (std::ssize((*facts)->cost.costs.layers) < candidate.pp * candidate.vpp) {
        refuse("there are more chunks than layers");
        continue;
      }
      const auto [stages, isNew] = cuts.try_emplace({candidate.pp, candidate.vpp, candidate.isV});
      if (isNew)
        stages->second = stagesOf(candidate, **facts);
      if (isTooLarge(candidate, stages->second)) {
        ++found_.counts.tooLarge;
        continue;
      }
      const double seconds = planner::leastSeconds(stages->second, candidate.microbatches, candidate.pairs);
      queue_.push({std::max(known, seconds), number, NodeKind::layout});
    }
  }

  void consider(size_t number, double known) {
    PickedLayout &candidate = candidates_[number];
    const LayoutOptions options = optionsOf(number);
    Result<Layout> layout = request_.resolve(options);
    if (!layout.isOk())
      return refuse(layout.status().message());
    if (!candidate.needsPolicies) {
      const Result<const ShapeFacts *> facts = shapes_.facts(candidate.shape);
      if (!facts.isOk())
        return refuse(facts.status().message());
      const std::vector<StageLeast> stages = stagesOf(candidate, **facts);
      if (isTooLarge(candidate, stages))
        return void(++found_.counts.tooLarge);
      if (const double seconds = leastSeconds(candidate, *layout, stages); seconds > known)
        return queue_.push({seconds, number, NodeKind::layout});
    }
    const bool isNew = !shapes_.isCompiled(candidate.shape);
    const Result<const ShapeBlocks *> shape = shapes_.blocks(candidate.shape, options);
    if (!shape.isOk())
      return refuse(shape.status().message());
    if (isNew)
      return queue_.push({known, number, NodeKind::layout});
    if (candidate.needsPolicies)
      return fit(options, *layout, **shape);
    if (layout->hasSlices() && layout->zero > 1 && !candidate.pairs && !std::exchange(candidate.isBoundByChunks, true))
      if (const Result<double> least = leastSecondsOf(**shape, *layout, request_.machine);
          least.isOk() && *least > known)
        return queue_.push({*least, number, NodeKind::layout});
    const std::optional<double> least = evaluate(candidate, options, *layout, **shape);
    if (!least)
      return;
    candidate.needsPolicies = true;
    queue_.push({std::max(known, *least), number, NodeKind::layout});
  }

  // Nothing where all is known of it; else the seconds that it takes at the least with policies that fit.
  std::optional<double> evaluate(const PickedLayout &candidate, const LayoutOptions &options, const Layout &layout,
                                 const ShapeBlocks &shape) {
    Result<Estimate> made = estimate(shape, layout, request_.machine, schedules_, Policies::fastest);
    if (!made.isOk())
      return refuse(made.status().message()), std::nullopt;
    ++found_.counts.estimated;
    if (made->least > worstWanted())
      return std::nullopt;
    if (!fits(*made) && layout.memory.empty()) { // its policies are given
      ++found_.counts.unfit;
      found_.misfit = fmt::format("a rank takes {} bytes, and the policy of recomputation is given", made->bytes());
      return std::nullopt;
    }
    if (!fits(*made)) {
      if (made->slowdown.empty())
        return made->least;
      const std::vector<StageLeast> stages = stagesOf(candidate, **shapes_.facts(candidate.shape));
      return std::max(made->least, leastSeconds(candidate, layout, stages, made->slowdown));
    }
    answer({options, layout, made.take()});
    return std::nullopt;
  }

  void fit(const LayoutOptions &options, const Layout &layout, const ShapeBlocks &shape) {
    ++found_.counts.fitted;
    Result<Estimate> made = estimate(shape, layout, request_.machine, schedules_, Policies::fitting);
    if (made.isOk())
      return answer({options, layout, made.take()});
    ++found_.counts.unfit;
    found_.misfit = made.status().message();
  }

  bool fits(const Estimate &made) const {
    return made.bytes() <= request_.memory && made.hostBytes() <= request_.hostMemory;
  }

  void answer(Answer answer) {
    const auto isBefore = [](const Answer &a, const Answer &b) {
      return std::pair(a.estimate.seconds, a.estimate.bytes()) < std::pair(b.estimate.seconds, b.estimate.bytes());
    };
    const auto place = std::ranges::upper_bound(found_.answers, answer, isBefore);
    found_.answers.insert(place, std::move(answer));
    if (found_.answers.size() > request_.wanted)
      found_.answers.pop_back();
  }

  void refuse(const std::string &reason) {
    ++found_.counts.refused;
    found_.refusal = reason;
  }

  const SearchRequest &request_;
  SpaceOfLayouts space_;
  Shapes shapes_;
  FoundLayouts found_;
  schedule::SolutionCache schedules_;
  std::vector<PickedLayout> candidates_;
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
