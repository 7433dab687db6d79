// See Neighbours.h.
#include "planner/Neighbours.h"

#include "dialects/mg/Target.h"

#include <algorithm>

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

enum class NearChange { level, offload, gradients, policy, rows, microbatch, experts, tensor, context, pipeline };

// The part that a change leaves of a rank's parameters, gradients and optimizer states, at the least, and of all else, about.
struct StateShare {
  double parameters = 1, gradients = 1, optimizer = 1, others = 1;
  StateShare operator*(const StateShare &other) const {
    return {parameters * other.parameters, gradients * other.gradients, optimizer * other.optimizer,
            others * other.others};
  }
};

struct Change {
  NearChange of;                             // two of one are none
  std::function<bool(LayoutOptions &)> make; // false: the data ranks cannot be shared out so
  StateShare share = {};
};

class ChangesOf {
public:
  ChangesOf(const Asked &asked, const Layout &layout) : asked_(asked), layout_(layout) {}

  std::vector<Change> all() {
    addLevels();
    const bool isOnDevice = layout_.target.name != nameOf(plan::Target::cpu);
    if (layout_.optimizerOffload == 0 && isOnDevice)
      add(NearChange::offload, [](LayoutOptions &options) { options.optimizerOffload = true; }, {.optimizer = 0});
    if (layout_.dtype == plan::DType::bf16 && layout_.gradientType == plan::DType::f32)
      add(NearChange::gradients, [](LayoutOptions &options) { options.gradientType = "bf16"; }, {.gradients = 0.5});
    addPolicy();
    if (layout_.ep > 1 && layout_.capacityFactor == 0 && !asked_.all.rowsFactor)
      add(NearChange::rows, [](LayoutOptions &options) { options.rowsFactor = 2; }, {.others = 0.5});
    for (int64_t size = layout_.microBatchSize; size % 2 == 0;)
      add(NearChange::microbatch, [half = size /= 2](LayoutOptions &options) { options.mbs = half; },
          {.others = double(size) / double(layout_.microBatchSize)});
    if (layout_.hasExperts)
      for (const int64_t times : {2, 4, 8}) {
        const double share = 1.0 / double(times);
        add(NearChange::experts, [ranks = times * layout_.ep](LayoutOptions &options) { options.ep = ranks; },
            {share, share, share, 1});
      }
    addRanks(NearChange::tensor, &LayoutOptions::tp, layout_.tp, true);
    if (const LayoutOptions &all = asked_.all;
        !all.stages && !all.pipelineText && !all.firstStageLayers && !all.lastStageLayers)
      addRanks(NearChange::pipeline, &LayoutOptions::pp, layout_.pp, false);
    addRanks(NearChange::context, &LayoutOptions::cp, layout_.cp, true);
    return std::move(changes_);
  }

private:
  template <typename Make> void add(NearChange of, Make make, StateShare share) {
    changes_.push_back({of,
                        [make](LayoutOptions &options) {
                          make(options);
                          return true;
                        },
                        share});
  }

  void addLevels() {
    const double slice = 1.0 / double(layout_.replicas());
    for (int64_t zero = layout_.zero + 1; zero <= 3; ++zero) {
      const auto share = [&](int64_t from) { return layout_.zero < from && zero >= from ? slice : 1; };
      add(NearChange::level, [zero](LayoutOptions &options) { options.zero = zero; },
          {.parameters = share(3), .gradients = share(2), .optimizer = share(1)});
    }
  }

  // Full recomputation, where nothing is asked for. A flag that saves everything would contradict it.
  void addPolicy() {
    const LayoutOptions &all = asked_.all;
    if (all.memory || all.recomputeGranularity || all.recomputeActivations || all.moeLayerRecompute ||
        !asked_.flags.recompute.value_or(true))
      return;
    constexpr double kKept = 0.2; // about, of what layers keep
    add(NearChange::policy,
        [](LayoutOptions &options) {
          options.recomputeGranularity = "full", options.recomputeMethod = "uniform", options.recomputeLayers = 1;
        },
        {.others = kKept});
  }

  // Ranks of cp share out what is in slices, which may be all of the states.
  void addRanks(NearChange of, std::optional<int64_t> LayoutOptions::*axis, int64_t size, bool sharesActivations) {
    for (const int64_t times : {2, 4, 8}) {
      const double share = 1.0 / double(times);
      changes_.push_back({of,
                          [=, dp = layout_.dp](LayoutOptions &options) {
                            options.*axis = times * size;
                            const int64_t now = options.dp.value_or(dp);
                            options.dp = now % times == 0 ? now / times : now;
                            return now % times == 0 || dp == 1;
                          },
                          {share, share, share, sharesActivations ? share : 1}});
    }
  }

  const Asked &asked_;
  const Layout &layout_;
  std::vector<Change> changes_;
};

// Bytes of a rank of the mean stage.
struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0, others = 0;
  explicit StateBytes(const plan::Plan &plan) {
    for (const plan::StagePlan &stage : plan.stages)
      for (const plan::Region &region : stage.regions)
        (region.kind == "parameters"  ? parameters
         : region.kind == "gradients" ? gradients
         : region.kind == "optimizer" ? optimizer
                                      : others) += double(region.bytes) / double(plan.stages.size());
  }
  double least(const StateShare &share) const {
    return parameters * share.parameters + gradients * share.gradients + optimizer * share.optimizer;
  }
  double about(const StateShare &share) const { return least(share) + others * share.others; }
};

struct Candidate {
  LayoutOptions options;
  double bytes = 0; // about
};

class Neighbours {
public:
  Neighbours(const Asked &asked, const Layout &layout, const plan::Plan *present, const MemoryOfRank &memory,
             const MakeModule &make)
      : asked_(asked), layout_(layout), changes_(ChangesOf(asked, layout).all()), memory_(memory), make_(make) {
    if (present)
      states_.emplace(*present);
  }

  // All with exactly `count` changes, those first that need least.
  void tryAll(const LayoutOptions &base, int count) {
    std::vector<Candidate> candidates;
    collect(base, {}, 0, count, candidates);
    std::ranges::stable_sort(candidates, {}, &Candidate::bytes);
    const size_t tried = std::min(candidates.size(), size_t(kMostTrials));
    found.left += int64_t(candidates.size() - tried), found.tried += int64_t(tried);
    candidates.resize(tried);
    std::vector<LayoutOptions> options;
    for (Candidate &candidate : candidates)
      options.push_back(std::move(candidate.options));
    for (Trial &trial : tryEach(options, make_))
      if (trial.hasPlan() && trial.bytes <= memory_.device && trial.hostBytes <= memory_.host)
        found.fitting.push_back(std::move(trial));
  }

  Near found;

private:
  // Layouts with `count` changes more, behind the change `from`.
  void collect(const LayoutOptions &options, const StateShare &share, size_t from, int count,
               std::vector<Candidate> &candidates) {
    if (count == 0) {
      if (isPossible(options) && (!states_ || states_->least(share) <= double(memory_.device)))
        candidates.push_back({options, states_ ? states_->about(share) : 0});
      return;
    }
    for (size_t i = from; i < changes_.size(); ++i)
      if (std::ranges::find(made_, changes_[i].of) == made_.end())
        if (LayoutOptions changed = options; changes_[i].make(changed)) {
          made_.push_back(changes_[i].of);
          collect(changed, share * changes_[i].share, i + 1, count - 1, candidates);
          made_.pop_back();
        }
  }

  // On as many ranks as were asked for; a level is of several data ranks.
  bool isPossible(const LayoutOptions &options) const {
    const int64_t dp = options.dp.value_or(layout_.dp), cp = options.cp.value_or(layout_.cp);
    const int64_t ranks = options.tp.value_or(layout_.tp) * cp * options.pp.value_or(layout_.pp) * dp;
    const bool hasLevel = std::ranges::find(made_, NearChange::level) != made_.end();
    return (!asked_.all.world || ranks == layout_.world()) && (!hasLevel || dp * cp > 1);
  }

  const Asked &asked_;
  const Layout &layout_;
  std::vector<Change> changes_;
  std::optional<StateBytes> states_;
  const MemoryOfRank &memory_;
  const MakeModule &make_;
  std::vector<NearChange> made_;
};

} // namespace

Near tryNeighbours(const Asked &asked, const Layout &layout, const plan::Plan *present, const MemoryOfRank &memory,
                   size_t wanted, const MakeModule &make) {
  LayoutOptions base = asked.flags; // the step stays as it is
  base.gbs = layout.globalBatchSize;
  Neighbours neighbours(asked, layout, present, memory, make);
  for (int count = 1; count <= kMostChanges && neighbours.found.fitting.size() < wanted; ++count)
    neighbours.tryAll(base, count);
  std::ranges::stable_sort(neighbours.found.fitting, {}, &Trial::seconds);
  return std::move(neighbours.found);
}

} // namespace mgc::planner
