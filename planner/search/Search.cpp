// See Search.h.
#include "planner/search/Search.h"

#include "dialects/mg/Target.h"
#include "plan/cost/InstructionTime.h"
#include "planner/search/Shapes.h"

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
  bool needsPolicies = false; // the fastest do not fit
};

class Searcher {
public:
  explicit Searcher(const SearchRequest &request)
      : request_(request), space_(request.space, request.given), shapes_(request.make, request.machine) {}

  FoundLayouts run() {
    enumerate();
    while (!queue_.empty()) {
      const auto [seconds, number] = queue_.top();
      if (seconds > worstWanted())
        break;
      queue_.pop();
      consider(number, seconds);
    }
    for (; !queue_.empty(); queue_.pop())
      found_.counts.tooSlow += !candidates_[queue_.top().second].needsPolicies; // the others were estimated
    found_.counts.shapes = shapes_.count();
    found_.counts.compiled = shapes_.compiled();
    return std::move(found_);
  }

private:
  void enumerate() {
    space_.forEach([&](const LayoutOptions &options, const Picks &picks) { add(options, picks); });
  }

  void add(const LayoutOptions &options, const Picks &picks) {
    ++found_.counts.enumerated;
    PickedLayout candidate{picks};
    const int64_t tp = options.tp.value_or(1), cp = options.cp.value_or(1), ep = options.ep.value_or(1),
                  etp = options.etp.value_or(tp), dp = *options.dp, mbs = options.mbs.value_or(1);
    if (tp * cp * dp % (ep * etp) != 0 || request_.space.globalBatchSize % (dp * mbs) != 0)
      return void(++found_.counts.refused);
    candidate.pp = options.pp.value_or(1), candidate.vpp = options.vpp.value_or(1);
    candidate.microbatches = request_.space.globalBatchSize / (dp * mbs);
    candidate.shards = dp * cp;
    candidate.level = options.zero.value_or(0);
    const auto &rows = request_.space.supported.schedules;
    if (const auto row = std::ranges::find(rows, options.schedule.value_or(""), &frontend::ScheduleInfo::name);
        row != rows.end())
      candidate.isV = row->chunksInV, candidate.splits = row->splitBackward, candidate.pairs = row->pairs;
    candidate.shape =
        shapes_.numberOf({tp, cp, ep, etp, mbs, candidate.splits, dp > 1,
                          dp / std::max<int64_t>(1, options.instances.value_or(1)) > 1, tp * cp * dp > ep * etp});
    queue_.push({0, candidates_.size()});
    candidates_.push_back(std::move(candidate));
  }

  // --- Bounds

  // All devices at work from begin to end.
  double leastSeconds(const PickedLayout &candidate, const ShapeWork &work) const {
    return double(request_.space.globalBatchSize) * (candidate.pairs ? work.unexposed : work.all) /
           double(request_.space.devices);
  }

  struct StageLeast {
    double forward = 0, backward = 0, weight = 0; // seconds of a microbatch, of all chunks
    double exposed = 0;                           // part of these: BlockLeast::exposed
    double passing = 0, returning = 0;            // forward and backward of the first chunk
    std::map<plan::Axes, double> elements;        // BlockLeast::elements
    int64_t kept = 0;
  };

  std::vector<StageLeast> stagesOf(const PickedLayout &candidate) {
    const ShapeFacts &facts = *shapes_.factsOf(candidate.shape);
    const schedule::Shape pipeline{candidate.pp, candidate.vpp, candidate.microbatches,
                                   candidate.isV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
    std::vector<StageLeast> stages(size_t(candidate.pp));
    auto next = facts.chain.begin();
    int64_t chunk = 0;
    for (const int64_t count : shapes_.cutOf(candidate.shape, pipeline.chunks())) {
      StageLeast &stage = stages[size_t(pipeline.stageOf(chunk))];
      for (const auto end = next + count; next != end; ++next) {
        const BlockLeast &block = facts.blocks[*next];
        stage.forward += block.forward, stage.backward += block.backward, stage.weight += block.weight;
        stage.kept += block.kept, stage.exposed += block.exposed;
        for (const auto &[axes, elements] : block.elements)
          stage.elements[axes] += elements;
        if (pipeline.chunkOf(chunk) == 0)
          stage.passing += block.forward, stage.returning += block.backward;
      }
      ++chunk;
    }
    return stages;
  }

  // A stage begins behind the forwards of a microbatch in the first chunks of those before it, and behind its last backward of its
  // first chunk these have theirs. Halves that make gradients of weights alone may come later.
  double leastSeconds(const PickedLayout &candidate, const std::vector<StageLeast> &stages) const {
    double most = 0, before = 0, behind = 0;
    const auto microbatches = double(candidate.microbatches);
    for (const StageLeast &stage : stages) {
      const double hidden = candidate.pairs ? stage.exposed : 0; // by the other run of a pair
      const double toGradients = microbatches * std::max(0.0, stage.forward + stage.backward - hidden);
      most = std::max({most, before + toGradients + behind, before + toGradients + microbatches * stage.weight});
      before += stage.passing, behind += stage.returning;
    }
    return most;
  }

  // Every stage has something of one microbatch, at the least.
  double leastBytes(const PickedLayout &candidate, const std::vector<StageLeast> &stages) const {
    double most = 0;
    for (const StageLeast &stage : stages) {
      double bytes = double(stage.kept);
      for (const auto &[axes, elements] : stage.elements)
        bytes += bytesOf(candidate, elements);
      most = std::max(most, bytes);
    }
    return most;
  }

  static double sharedSeconds(const cost::Cluster &cluster, plan::Collective::Kind kind, plan::DType type,
                              const plan::Axes &axes, double slice) {
    if (plan::groupSize(cluster.mesh, axes) < 2)
      return 0;
    plan::Collective body;
    body.kind = kind, body.type = type, body.axes = axes, body.chunk = int64_t(slice);
    return cost::secondsOf(cluster, body);
  }

  // From level 2 on each microbatch sums up gradients of units, from level 3 on it gathers their values, once at the least: layers hide
  // that second for second, and stages wait for the rest.
  void addUnits(const Layout &layout, const cost::Cluster &cluster, std::vector<StageLeast> &stages) const {
    if (!layout.hasSlices() || layout.zero < 2 || layout.instances > 1)
      return;
    for (StageLeast &stage : stages) {
      double sums = 0, gathers = 0;
      for (const auto &[axes, elements] : stage.elements) {
        const double slice = elements / double(plan::groupSize(cluster.mesh, axes));
        sums += sharedSeconds(cluster, plan::Collective::Kind::reduceScatter, layout.gradientType, axes, slice);
        if (layout.zero > 2)
          gathers += sharedSeconds(cluster, plan::Collective::Kind::allGather, layout.dtype, axes, slice);
      }
      const double work = stage.forward + stage.backward + stage.weight;
      stage.backward += std::max(0.0, sums + gathers - work);
    }
  }

  // Begin clears gradients, and the update reads and writes what is kept of each element; below level 3 it gathers the values behind
  // that, if they are not gathered ahead. Of the stage that has most.
  double leastStepEnd(const Layout &layout, const cost::Cluster &cluster, const std::vector<StageLeast> &stages) const {
    const auto rowSeconds = [&](double bytes) {
      plan::RowKernel kernel;
      kernel.bytes = bytes;
      return cost::secondsOf(cluster, kernel);
    };
    const double values = double(plan::sizeInBytes(layout.dtype)),
                 gradients = double(plan::sizeInBytes(layout.gradientType));
    double most = 0;
    for (const StageLeast &stage : stages) {
      double cleared = 0, updated = 0, gathering = 0;
      for (const auto &[axes, elements] : stage.elements) {
        const double ranks = double(plan::groupSize(cluster.mesh, axes));
        const double slice = layout.hasSlices() ? elements / ranks : elements;
        cleared += (layout.zero > 1 ? slice : elements) * gradients;
        updated += slice * (gradients + values + 2 * 4); // and one state of f32, at the least
        if (layout.hasSlices() && layout.instances == 1 && layout.zero < 3 && !layout.overlapsParamGather)
          gathering += sharedSeconds(cluster, plan::Collective::Kind::allGather, layout.dtype, axes, slice);
      }
      most = std::max(most, rowSeconds(cleared) + rowSeconds(updated) + gathering);
    }
    return most;
  }

  // Bytes of so many parameters and their states, at the least.
  double bytesOf(const PickedLayout &candidate, double elements) const {
    const double slice = elements / double(candidate.shards);
    constexpr double kValues = 2, kGradients = 2, kStates = 4; // bytes of an element, at the least
    return (candidate.level > 2 ? slice : elements) * kValues + (candidate.level > 1 ? slice : elements) * kGradients +
           (candidate.level > 0 ? slice : elements) * kStates;
  }

  // --- The queue

  double worstWanted() const {
    return found_.answers.size() < request_.wanted ? std::numeric_limits<double>::infinity()
                                                   : found_.answers.back().estimate.seconds;
  }

  // `known`: it takes no less, as far as was known when it came into the queue.
  void consider(size_t number, double known) {
    PickedLayout &candidate = candidates_[number];
    if (const std::string &reason = shapes_.refusalOf(candidate.shape); !reason.empty())
      return refuse(reason);
    std::vector<StageLeast> stages;
    if (!candidate.needsPolicies && shapes_.factsOf(candidate.shape)) {
      if (std::ssize(shapes_.factsOf(candidate.shape)->cost.costs.layers) < candidate.pp * candidate.vpp)
        return refuse("there are more chunks than layers");
      stages = stagesOf(candidate);
      if (leastBytes(candidate, stages) > double(request_.memory))
        return void(++found_.counts.tooLarge);
      if (const double seconds = leastSeconds(candidate, stages); seconds > known)
        return queue_.push({seconds, number});
    } else if (const std::optional<ShapeWork> work = shapes_.workOf(candidate.shape);
               work && !candidate.needsPolicies) {
      if (bytesOf(candidate, work->elements / double(candidate.pp)) > double(request_.memory))
        return void(++found_.counts.tooLarge);
      if (const double seconds = leastSeconds(candidate, *work); seconds > known)
        return queue_.push({seconds, number});
    }
    const LayoutOptions options = space_.optionsOf(candidate.picks);
    Result<Layout> layout = request_.resolve(options);
    if (!layout.isOk())
      return refuse(layout.status().message());
    if (!stages.empty()) {
      const plan::Mesh mesh = layout->mesh();
      const cost::Cluster cluster{request_.machine, mesh, targetNamed(layout->target.name)};
      addUnits(*layout, cluster, stages);
      const double seconds = leastSeconds(candidate, stages) + leastStepEnd(*layout, cluster, stages);
      if (seconds > worstWanted())
        return void(++found_.counts.tooSlow);
      if (seconds > known)
        return queue_.push({seconds, number});
    }
    const bool isNew = !shapes_.isKnown(candidate.shape);
    const Result<const ShapeBlocks *> shape = shapes_.get(candidate.shape, options);
    if (!shape.isOk()) {
      shapes_.refuse(candidate.shape, shape.status().message());
      return refuse(shape.status().message());
    }
    if (isNew)
      return queue_.push({known, number});
    if (candidate.needsPolicies)
      return fit(options, *layout, **shape);
    const std::optional<double> least = evaluate(candidate, options, *layout, **shape);
    if (!least)
      return;
    candidate.needsPolicies = true;
    queue_.push({std::max(known, *least), number});
  }

  // With the seconds that policies which fit add to each stage, at the least.
  double leastSeconds(const PickedLayout &candidate, const Layout &layout, const Estimate &fastest) {
    const plan::Mesh mesh = layout.mesh();
    const cost::Cluster cluster{request_.machine, mesh, targetNamed(layout.target.name)};
    std::vector<StageLeast> stages = stagesOf(candidate);
    for (size_t stage = 0; stage < stages.size(); ++stage)
      (candidate.splits ? stages[stage].weight : stages[stage].backward) += fastest.slowdown[stage];
    addUnits(layout, cluster, stages);
    return leastSeconds(candidate, stages) + leastStepEnd(layout, cluster, stages);
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
      found_.refusal = fmt::format("a rank takes {} bytes, and the policy of recomputation is given", made->bytes());
      return std::nullopt;
    }
    if (!fits(*made))
      return std::max(made->least, made->slowdown.empty() ? 0 : leastSeconds(candidate, layout, *made));
    answer({options, layout, made.take()});
    return std::nullopt;
  }

  void fit(const LayoutOptions &options, const Layout &layout, const ShapeBlocks &shape) {
    ++found_.counts.fitted;
    Result<Estimate> made = estimate(shape, layout, request_.machine, schedules_, Policies::fitting);
    if (made.isOk())
      return answer({options, layout, made.take()});
    ++found_.counts.unfit;
    found_.refusal = made.status().message();
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

  struct Later { // the least first, of two the first of the space
    bool operator()(const std::pair<double, size_t> &a, const std::pair<double, size_t> &b) const { return a > b; }
  };

  const SearchRequest &request_;
  SpaceOfLayouts space_;
  Shapes shapes_;
  FoundLayouts found_;
  schedule::SolutionCache schedules_;
  std::vector<PickedLayout> candidates_;
  std::priority_queue<std::pair<double, size_t>, std::vector<std::pair<double, size_t>>, Later> queue_;
};

} // namespace

FoundLayouts search(const SearchRequest &request) { return Searcher(request).run(); }

} // namespace mgc::planner
