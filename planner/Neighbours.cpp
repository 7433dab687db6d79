// See Neighbours.h.
#include "planner/Neighbours.h"

#include "dialects/mg/Target.h"

#include <algorithm>

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

enum class NearChange { level, offload, gradients, policy, microbatch, tensor, context, pipeline };

// The part that a change leaves of a rank's parameters, gradients and optimizer states, at the least.
struct StateShare {
  double parameters = 1, gradients = 1, optimizer = 1;
  StateShare operator*(const StateShare &other) const {
    return {parameters * other.parameters, gradients * other.gradients, optimizer * other.optimizer};
  }
};

struct Change {
  NearChange of; // two of one are none
  std::function<void(LayoutOptions &)> make;
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
    addPolicies();
    for (int64_t size = layout_.microBatchSize; size % 2 == 0;)
      add(NearChange::microbatch, [half = size /= 2](LayoutOptions &options) { options.mbs = half; });
    addRanks(NearChange::tensor, &LayoutOptions::tp, layout_.tp);
    addRanks(NearChange::pipeline, &LayoutOptions::pp, layout_.pp);
    addRanks(NearChange::context, &LayoutOptions::cp, layout_.cp);
    return std::move(changes_);
  }

private:
  void add(NearChange of, std::function<void(LayoutOptions &)> make, StateShare share = {}) {
    changes_.push_back({of, std::move(make), share});
  }

  void addLevels() {
    const double slice = 1.0 / double(layout_.replicas());
    for (int64_t zero = layout_.zero + 1; zero <= 3 && layout_.replicas() > 1; ++zero) {
      const auto share = [&](int64_t from) { return layout_.zero < from && zero >= from ? slice : 1; };
      add(NearChange::level, [zero](LayoutOptions &options) { options.zero = zero; },
          {.parameters = share(3), .gradients = share(2), .optimizer = share(1)});
    }
  }

  // Policies that save more than the standard one, where nothing is asked for.
  void addPolicies() {
    const LayoutOptions &all = asked_.all;
    if (all.memory || all.recomputeGranularity || all.recomputeActivations || all.moeLayerRecompute)
      return;
    add(NearChange::policy, [](LayoutOptions &options) {
      options.recompute.reset();
      options.recomputeGranularity = "full", options.recomputeMethod = "uniform", options.recomputeLayers = 1;
    });
  }

  void addRanks(NearChange of, std::optional<int64_t> LayoutOptions::*axis, int64_t size) {
    for (const int64_t times : {2, 4, 8}) {
      const bool areShared = layout_.dp % times == 0;
      if (!areShared && (layout_.dp > 1 || asked_.all.world))
        continue;
      const double share = of == NearChange::context ? 1 : 1.0 / double(times);
      add(of,
          [=, dp = layout_.dp](LayoutOptions &options) {
            options.*axis = times * size;
            const int64_t now = options.dp.value_or(dp);
            options.dp = areShared && now % times == 0 ? now / times : now;
          },
          {.parameters = share, .gradients = share, .optimizer = share});
    }
  }

  const Asked &asked_;
  const Layout &layout_;
  std::vector<Change> changes_;
};

// Bytes of a rank of the mean stage that hold parameters, gradients and optimizer states.
struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  explicit StateBytes(const plan::Plan &plan) {
    for (const plan::StagePlan &stage : plan.stages)
      for (const plan::Region &region : stage.regions) {
        const double mean = double(region.bytes) / double(plan.stages.size());
        parameters += region.kind == "parameters" ? mean : 0;
        gradients += region.kind == "gradients" ? mean : 0;
        optimizer += region.kind == "optimizer" ? mean : 0;
      }
  }
  double least(const StateShare &share) const {
    return parameters * share.parameters + gradients * share.gradients + optimizer * share.optimizer;
  }
};

class Neighbours {
public:
  Neighbours(const Asked &asked, const Layout &layout, const plan::Plan *present, const MemoryOfRank &memory,
             const MakeModule &make)
      : changes_(ChangesOf(asked, layout).all()), memory_(memory), make_(make) {
    if (present)
      states_.emplace(*present);
  }

  // All with exactly `count` changes more, behind the change `from`.
  void tryAll(const LayoutOptions &options, const StateShare &share, size_t from, int count) {
    if (count == 0)
      return tryOne(options, share);
    for (size_t i = from; i < changes_.size(); ++i)
      if (std::ranges::find(made_, changes_[i].of) == made_.end()) {
        LayoutOptions changed = options;
        changes_[i].make(changed);
        made_.push_back(changes_[i].of);
        tryAll(changed, share * changes_[i].share, i + 1, count - 1);
        made_.pop_back();
      }
  }

  Near found;

private:
  void tryOne(const LayoutOptions &options, const StateShare &share) {
    if (states_ && states_->least(share) > double(memory_.device))
      return;
    if (tried_ == kMostTrials) {
      ++found.left;
      return;
    }
    ++tried_;
    Trial trial = tryOptions(options, make_);
    if (trial.hasPlan() && trial.bytes <= memory_.device && trial.hostBytes <= memory_.host)
      found.fitting.push_back(std::move(trial));
  }

  std::vector<Change> changes_;
  std::optional<StateBytes> states_;
  const MemoryOfRank &memory_;
  const MakeModule &make_;
  std::vector<NearChange> made_;
  int64_t tried_ = 0;
};

} // namespace

Near tryNeighbours(const Asked &asked, const Layout &layout, const plan::Plan *present, const MemoryOfRank &memory,
                   size_t wanted, const MakeModule &make) {
  LayoutOptions base = asked.flags; // the step stays as it is
  base.gbs = layout.globalBatchSize;
  Neighbours neighbours(asked, layout, present, memory, make);
  for (int count = 1; count <= kMostChanges && neighbours.found.fitting.size() < wanted; ++count)
    neighbours.tryAll(base, {}, 0, count);
  std::ranges::stable_sort(neighbours.found.fitting, {}, &Trial::seconds);
  return std::move(neighbours.found);
}

} // namespace mgc::planner
