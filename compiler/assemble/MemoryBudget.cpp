// See MemoryBudget.h.
#include "compiler/assemble/MemoryBudget.h"

#include "compiler/assemble/TaskTimes.h"
#include "compiler/assemble/budget/LeastOfStage.h"
#include "compiler/schedule/OrderTiming.h"
#include "dialects/mg/training/MemorySize.h"

#include <set>

using namespace mlir;

namespace mgc {

namespace {

using schedule::BufferKind;

constexpr int64_t kMostPlans = 3; // times that a schedule is planned by the times of its policies
constexpr int64_t kCurveSteps = 8;
constexpr double kLeastGain = 0.9995; // seconds of a point of the curve, as a part of those of the one before
constexpr double kScheduleMemories[] = {0.5, 0.75, 1, 1.5, 2};
constexpr budget::Limits kCurveLimits{.points = 64, .slotSizes = 8, .combined = 256, .choices = 64};
constexpr int64_t kNoBound = int64_t(1) << 62;

// The instances of a base block in a chunk, and the variants among which they choose.
struct LayerClass {
  std::vector<size_t> instances;
  std::vector<const ModelBlock *> variants;
};

// Seconds of a step as the schedule orders its tasks, where chunks take so long.
class PolicyTimer {
public:
  static Result<PolicyTimer> of(const Decisions &decisions, const ProgramSeconds &seconds) {
    PolicyTimer timer;
    const schedule::Problem &problem = decisions.problem;
    MGC_ASSIGN(row, schedule::rowOf(problem));
    timer.shape_ = problem.shape;
    timer.orders_ = row.orders(problem);
    timer.splits_ = row.splitBackward;
    timer.times_.chunks.resize(size_t(problem.shape.chunks()));
    for (auto [s, stage] : llvm::enumerate(decisions.stages))
      for (auto [c, chunk] : llvm::enumerate(stage.chunks))
        timer.times_.chunks[size_t(problem.shape.globalChunk(int64_t(s), int64_t(c)))] = seconds.of(chunk);
    timer.times_.message = seconds.message(problem.bytes[0][0][size_t(BufferKind::output)]);
    return timer;
  }

  double stepSeconds(const std::vector<std::vector<budget::Seconds>> &seconds) const {
    schedule::TaskTimes times = times_;
    for (size_t s = 0; s < seconds.size(); ++s)
      for (size_t c = 0; c < seconds[s].size(); ++c) {
        schedule::ChunkCost &cost = times.chunks[size_t(shape_.globalChunk(int64_t(s), int64_t(c)))];
        cost.forward = seconds[s][c][0];
        (splits_ ? cost.input : cost.backward) = seconds[s][c][1];
        cost.weight = seconds[s][c][2];
      }
    return schedule::timed(shape_, times, orders_).makespan;
  }

private:
  schedule::Shape shape_;
  std::vector<schedule::Order> orders_;
  schedule::TaskTimes times_;
  bool splits_ = false;
};

class Fitter {
public:
  Fitter(Decisions &decisions, const PolicyQuestion &question, PlaceStages place)
      : decisions_(decisions), question_(question), place_(place), training_(question.training), times_(question.times),
        budget_(question.budget) {}

  Status run(std::optional<int64_t> &leastBudget) {
    for (const StageDecisions &stage : decisions_.stages)
      addClasses(stage);
    const std::vector<StageDecisions> standard = decisions_.stages;
    for (const std::optional<double> memory : scheduleMemories()) {
      decisions_.stages = standard;
      decisions_.scheduleMemory = memory;
      MGC_TRY(fitInto());
      if (question_.isDescribed)
        MGC_TRY(addCurve());
    }
    if (!best_) {
      leastBudget = excess_->bytes;
      return refuse();
    }
    decisions_.stages = std::move(best_->stages);
    decisions_.problem = std::move(best_->problem);
    decisions_.scheduleMemory = best_->scheduleMemory;
    if (question_.isDescribed)
      decisions_.budget = describeChoice();
    return Status::ok();
  }

  std::vector<double> leastSlowdown() {
    for (const StageDecisions &stage : decisions_.stages)
      addClasses(stage);
    describeStages();
    std::vector<double> slowdown;
    for (const budget::StageLayers &stage : stages_)
      slowdown.push_back(budget::leastSeconds(stage, budget_) - budget::leastSeconds(stage, kNoBound));
    return slowdown;
  }

private:
  // Decisions that fit.
  struct Fit {
    double seconds = 0; // all microbatches' tasks
    std::vector<StageDecisions> stages;
    schedule::Problem problem;
    std::optional<double> scheduleMemory;
  };

  struct Excess {
    int64_t stage = 0, bytes = 0;
  };

  bool isByTime() const {
    return training_.scheduleText.empty() && llvm::any_of(schedule::schedules(), [&](const schedule::ScheduleRow &row) {
             return row.byTime && row.name == training_.schedule;
           });
  }
  // Caps that are tried on what a stage keeps.
  std::vector<std::optional<double>> scheduleMemories() const {
    if (!isByTime() || training_.scheduleMemory)
      return {training_.scheduleMemory};
    return std::vector<std::optional<double>>(std::begin(kScheduleMemories), std::end(kScheduleMemories));
  }

  // Chooses under the orders of the schedule. Where these follow the times of what was chosen, until it is chosen again.
  Status fitInto() {
    MGC_TRY(place_(decisions_));
    std::vector<Counts> before;
    for (int64_t plan = 0; plan < kMostPlans; ++plan) {
      describeStages();
      MGC_ASSIGN(fits, fitPolicies());
      if (!fits)
        return Status::ok();
      if (!isByTime() || counts_ == before)
        return Status::ok();
      before = counts_;
    }
    isCut_ = true;
    return Status::ok();
  }

  // The stage that takes most at the least, if that is too much before anything is placed.
  std::optional<Excess> excessAtLeast() const {
    std::optional<Excess> most;
    for (size_t s = 0; s < stages_.size(); ++s)
      if (const int64_t bytes = budget::leastBytes(stages_[s]); bytes > std::max(budget_, most ? most->bytes : 0))
        most = Excess{int64_t(s), bytes};
    return most;
  }

  // Chooses until what was chosen fits as it is placed.
  Result<bool> fitPolicies() {
    if (const std::optional<Excess> excess = excessAtLeast(); excess && !question_.isDescribed) {
      excess_ = excess;
      return false;
    }
    bounds_.assign(stages_.size(), budget_);
    for (int64_t round = 0; round <= question_.mostRounds; ++round) {
      const bool isLast = round == question_.mostRounds;
      isCut_ |= isLast;
      MGC_ASSIGN(least, choose(isLast));
      if (round == 0) // later ones have what of its choices did not fit as it was placed left out
        least_ = std::min(least_, least);
      MGC_TRY(place_(decisions_));
      if (!exceeds()) {
        MGC_TRY(keep());
        return true;
      }
      noteExcess();
      if (!lowerBounds())
        break;
    }
    return false;
  }

  Status keep() {
    MGC_ASSIGN(timer, PolicyTimer::of(decisions_, times_));
    const double seconds = timer.stepSeconds({});
    if (!best_ || seconds < best_->seconds)
      best_ = Fit{seconds, decisions_.stages, decisions_.problem, decisions_.scheduleMemory};
    return Status::ok();
  }

  // --- Layers
  void addClasses(const StageDecisions &stage) {
    auto &ofStage = classes_.emplace_back();
    for (const ChunkLayout &chunk : stage.chunks) {
      std::map<const ModelBlock *, size_t> known;
      auto &ofChunk = ofStage.emplace_back();
      for (auto [i, instance] : llvm::enumerate(chunk.instances())) {
        std::vector<const ModelBlock *> variants = decisions_.blocks.variantsOf(*instance.block);
        if (variants.size() < 2)
          continue;
        auto [it, isNew] = known.try_emplace(instance.block, ofChunk.size());
        if (isNew)
          ofChunk.push_back({{}, std::move(variants)});
        ofChunk[it->second].instances.push_back(i);
      }
    }
  }

  // In one stage that does nothing but these tasks only the sum counts.
  budget::Seconds secondsOf(const ModelBlock &block) const {
    const double forward = times_.of(block.forward), first = times_.of(block.backward) + times_.of(block.input),
                 second = times_.of(block.weight);
    return decisions_.stages.size() > 1 ? budget::Seconds{forward, first, second}
                                        : budget::Seconds{forward + first + second, 0, 0};
  }

  int64_t frameOf(const BlockFunction &function) const {
    return plan::aligned(decisions_.frames.at(func::FuncOp(function.function).getName().str()).bytes);
  }

  budget::Option optionOf(const ModelBlock &block, bool hasPairs) const {
    budget::Option option{ChunkLayout::keptBytes(block), ChunkLayout::splitBytes(block), 0, 0, secondsOf(block)};
    for (const BlockFunction *function : block.functions()) {
      int64_t &frame = hasPairs && function == &block.forward ? option.forwardFrame : option.frame;
      frame = std::max(frame, frameOf(*function));
    }
    return option;
  }

  static void addTo(budget::Seconds &sum, const budget::Seconds &seconds, double times) {
    for (size_t task = 0; task < sum.size(); ++task)
      sum[task] += times * seconds[task];
  }

  // --- Stages
  // As the stages are placed now.
  void describeStages() {
    stages_.clear();
    for (auto [s, stage] : llvm::enumerate(decisions_.stages))
      stages_.push_back(describe(stage, classes_[s]));
  }

  budget::StageLayers describe(const StageDecisions &stage, const std::vector<std::vector<LayerClass>> &classes) const {
    budget::StageLayers out;
    for (auto [c, layout] : llvm::enumerate(stage.chunks)) {
      budget::ChunkLayers chunk;
      chunk.kept = plan::aligned(layout.bytes()[size_t(BufferKind::activation)]);
      chunk.split = plan::aligned(layout.bytes()[size_t(BufferKind::split)]);
      for (const Instance &instance : layout.instances())
        addTo(chunk.seconds, secondsOf(*instance.block), 1);
      for (const LayerClass &layers : classes[c])
        addLayers(layers, layout, hasPairs(stage), chunk);
      out.chunks.push_back(std::move(chunk));
    }
    for (bool sharesKept : {false, true})
      for (bool sharesSplit : {false, true})
        if (std::optional<std::vector<budget::Moment>> way = momentsOf(stage, sharesKept, sharesSplit))
          out.ways.push_back(std::move(*way));
    const StageFunctions functions = functionsOf(stage.contents, stage.chunks);
    const std::set<std::string> ofLayers = functionsOfLayers(classes);
    out.frame = largestFrame(functions.others, ofLayers);
    out.forwardFrame = largestFrame(functions.forward, ofLayers);
    const int64_t others = largestFrame(functions.others, {}), forward = largestFrame(functions.forward, {});
    out.bytes = stage.memory.bytes - plan::aligned(stage.schedule.bytes) -
                (hasPairs(stage) ? others + forward : std::max(others, forward));
    if (!hasPairs(stage))
      out.frame = std::max(out.frame, std::exchange(out.forwardFrame, 0));
    return out;
  }

  // Buffers that live at one time, where chunks share slots or do not. Nothing: they cannot.
  static std::optional<std::vector<budget::Moment>> momentsOf(const StageDecisions &stage, bool sharesKept,
                                                              bool sharesSplit) {
    const auto shares = [&](BufferKind kind) {
      return kind == BufferKind::activation ? sharesKept : kind == BufferKind::split && sharesSplit;
    };
    const auto isChosen = [](BufferKind kind) { return kind == BufferKind::activation || kind == BufferKind::split; };
    std::vector<schedule::BufferArea> areas;
    llvm::copy_if(stage.schedule.areas, std::back_inserter(areas), [&](const schedule::BufferArea &area) {
      return !isChosen(area.kind) || shares(area.kind) == (area.chunk < 0);
    });
    for (BufferKind kind : {BufferKind::activation, BufferKind::split})
      if (shares(kind) && llvm::none_of(areas, [&](const schedule::BufferArea &area) { return area.kind == kind; }))
        return std::nullopt;
    std::vector<budget::Moment> moments;
    for (const schedule::BufferArea &beginning : areas) { // the most lives where something begins
      budget::Moment moment{0, std::vector<int64_t>(stage.chunks.size(), 0),
                            std::vector<int64_t>(stage.chunks.size(), 0)};
      for (const schedule::BufferArea &area : areas)
        if (area.begin <= beginning.begin && beginning.begin < area.end) {
          if (!isChosen(area.kind))
            moment.bytes += area.slots * area.stride;
          else if (area.chunk < 0)
            (area.kind == BufferKind::activation ? moment.sharedKept : moment.sharedSplit) += area.slots;
          else
            (area.kind == BufferKind::activation ? moment.kept : moment.split)[size_t(area.chunk)] += area.slots;
        }
      moments.push_back(std::move(moment));
    }
    return moments;
  }

  static std::set<std::string> functionsOfLayers(const std::vector<std::vector<LayerClass>> &classes) {
    std::set<std::string> names;
    for (const std::vector<LayerClass> &ofChunk : classes)
      for (const LayerClass &layers : ofChunk)
        for (const ModelBlock *variant : layers.variants)
          for (const BlockFunction *function : variant->functions())
            names.insert(func::FuncOp(function->function).getName().str());
    return names;
  }

  int64_t largestFrame(const std::set<std::string> &functions, const std::set<std::string> &without) const {
    int64_t most = 0;
    for (const std::string &name : functions)
      if (!without.contains(name))
        most = std::max(most, plan::aligned(decisions_.frames.at(name).bytes));
    return most;
  }
  // Where runs are paired forward has a frame of its own.
  static bool hasPairs(const StageDecisions &stage) { return stage.memory.twice == StageMemory::Twice::forPairs; }

  // Takes what the class has now out of what the chunk has without choice.
  void addLayers(const LayerClass &layers, const ChunkLayout &layout, bool hasPairs, budget::ChunkLayers &chunk) const {
    budget::Layers out{int64_t(layers.instances.size()), {}};
    for (const ModelBlock *variant : layers.variants)
      out.options.push_back(optionOf(*variant, hasPairs));
    for (size_t instance : layers.instances) {
      const ModelBlock &now = *layout.instances()[instance].block;
      chunk.kept -= ChunkLayout::keptBytes(now);
      chunk.split -= ChunkLayout::splitBytes(now);
      addTo(chunk.seconds, secondsOf(now), -1);
    }
    chunk.layers.push_back(std::move(out));
  }

  // --- Choices
  // Where nothing is within the bound of a stage, and at last where a bound was lowered, its smallest choice.
  // No choice within the bounds takes less than the seconds that are returned.
  Result<double> choose(bool isLast) {
    std::vector<std::vector<budget::StageChoice>> choices;
    isSmallest_.assign(stages_.size(), false);
    for (size_t s = 0; s < stages_.size(); ++s) {
      choices.push_back(
          (question_.known ? *question_.known : known_).of(stages_[s], bounds_[s], isCut_, question_.limits));
      if (choices.back().empty() && !question_.isDescribed) {
        excess_ = Excess{int64_t(s), std::max(budget_ + 1, budget::leastBytes(stages_[s]))};
        return refuse();
      }
      if (choices.back().empty() || (isLast && bounds_[s] < budget_)) {
        choices.back() = {budget::smallest(stages_[s])};
        isSmallest_[s] = true;
      }
    }
    MGC_ASSIGN(timer, PolicyTimer::of(decisions_, times_));
    const budget::Selection selection = budget::select(
        choices, [&](const auto &seconds) { return timer.stepSeconds(seconds); }, mostTried(question_.mostTasks));
    chosen_.clear();
    counts_.clear();
    for (size_t s = 0; s < stages_.size(); ++s) {
      chosen_.push_back(choices[s][selection.choices[s]].bytes);
      counts_.push_back(choices[s][selection.choices[s]].counts);
      apply(s, choices[s][selection.choices[s]]);
    }
    return selection.least;
  }

  int64_t mostTried(int64_t mostTasks) const {
    const int64_t tasks = 3 * training_.microbatches * int64_t(stages_.size()) * training_.virtualStages;
    return std::max<int64_t>(question_.mostTasks == 0 ? 1 : 16, mostTasks / std::max<int64_t>(1, tasks));
  }

  // The first layers of a class keep least.
  void apply(size_t number, const budget::StageChoice &choice) {
    StageDecisions &stage = decisions_.stages[number];
    const std::vector<std::vector<LayerClass>> &classes = classes_[number];
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      std::vector<Instance> instances = stage.chunks[c].instances();
      for (auto [layers, counts] : llvm::zip(classes[c], choice.counts[c])) {
        std::vector<const ModelBlock *> variants;
        for (auto [variant, count] : llvm::zip(layers.variants, counts))
          variants.insert(variants.end(), size_t(count), variant);
        llvm::stable_sort(variants, [](const ModelBlock *a, const ModelBlock *b) {
          return ChunkLayout::keptBytes(*a) < ChunkLayout::keptBytes(*b);
        });
        for (auto [i, variant] : llvm::zip(layers.instances, variants))
          instances[i].block = variant;
      }
      stage.chunks[c] = ChunkLayout(std::move(instances));
    }
    stage.firstGathers = FirstGathers(stage.contents, stage.chunks);
  }

  // The least that the stage with most has taken so far.
  void noteExcess() {
    const auto takesMost = llvm::max_element(decisions_.stages, [](const StageDecisions &a, const StageDecisions &b) {
      return a.memory.bytes < b.memory.bytes;
    });
    if (!excess_ || takesMost->memory.bytes < excess_->bytes)
      excess_ = Excess{takesMost - decisions_.stages.begin(), takesMost->memory.bytes};
  }

  Status refuse() const {
    const auto [stage, most] = *excess_;
    return errorf(
        "stage {} takes {} bytes with what recomputes most, {} more than the {} of --memory {}\n  possible: --memory "
        "{}, or less for a rank: more of --tp, --pp, --cp or, with data ranks, of --zero; a smaller --mbs or "
        "--loss-tile",
        stage, most, most - budget_, budget_, training_.memory, most);
  }

  bool exceeds(const StageDecisions &stage) const { return stage.memory.bytes > budget_; }
  bool exceeds() const {
    return llvm::any_of(decisions_.stages, [&](const StageDecisions &stage) { return exceeds(stage); });
  }

  // Stages that take more than the budget as they are placed have from now on choices that should take less. False: one of
  // them has the smallest.
  bool lowerBounds() {
    bool areAllLowered = true;
    for (auto [s, stage] : llvm::enumerate(decisions_.stages))
      if (exceeds(stage)) {
        bounds_[s] = std::min(bounds_[s], chosen_[s]) - 1;
        areAllLowered &= !isSmallest_[s];
      }
    return areAllLowered;
  }

  // --- The choice, described
  // The least seconds that a short search finds in some budgets, from the smallest to that of what takes least time, under the
  // orders of now.
  Status addCurve() {
    bool isCut = false; // says nothing here
    int64_t least = 0, most = 0;
    for (const budget::StageLayers &stage : stages_) {
      least = std::max(least, budget::smallest(stage).bytes);
      most = std::max(most, budget::choicesOf(stage, kNoBound, isCut, kCurveLimits).front().bytes);
    }
    MGC_ASSIGN(timer, PolicyTimer::of(decisions_, times_));
    for (int64_t step = 0; step <= kCurveSteps; ++step) {
      const int64_t bytes = least + (most - least) * step / kCurveSteps;
      std::vector<std::vector<budget::StageChoice>> choices;
      for (const budget::StageLayers &stage : stages_)
        choices.push_back(budget::choicesOf(stage, bytes, isCut, kCurveLimits));
      if (llvm::any_of(choices, [](const auto &ofStage) { return ofStage.empty(); }))
        continue;
      const budget::Selection selection = budget::select(
          choices, [&](const auto &seconds) { return timer.stepSeconds(seconds); },
          mostTried(question_.mostTasks / kCurveSteps));
      int64_t taken = 0;
      for (size_t s = 0; s < choices.size(); ++s)
        taken = std::max(taken, choices[s][selection.choices[s]].bytes);
      curve_.push_back({taken, selection.seconds});
    }
    return Status::ok();
  }

  plan::PlanBudget describeChoice() {
    plan::PlanBudget out{budget_, best_->seconds, isCut_ ? 0 : std::min(least_, best_->seconds), {}, {}};
    std::set<std::string> known;
    for (const auto &ofStage : classes_)
      for (const auto &ofChunk : ofStage)
        for (const LayerClass &layers : ofChunk)
          if (known.insert(layers.variants.front()->base).second)
            for (const ModelBlock *variant : layers.variants)
              out.policies.push_back(describePolicy(*variant));
    llvm::stable_sort(out.policies, [](const auto &a, const auto &b) {
      return a.block != b.block ? a.block < b.block : a.kept + a.split > b.kept + b.split;
    });
    int64_t bytes = 0;
    for (const StageDecisions &stage : decisions_.stages)
      bytes = std::max(bytes, stage.memory.bytes);
    llvm::erase_if(curve_, [&](const plan::PlanBudget::Point &point) { // the plan itself, summed up otherwise
      return std::abs(point.seconds / best_->seconds - 1) < 1e-9;
    });
    curve_.push_back({bytes, best_->seconds});
    llvm::sort(curve_, [](const auto &a, const auto &b) {
      return std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
    });
    for (const plan::PlanBudget::Point &point : curve_) // the larger and hardly faster are no choice
      if (out.curve.empty() ||
          (point.bytes > out.curve.back().bytes &&
           point.seconds < (point.seconds == out.seconds ? 1 : kLeastGain) * out.curve.back().seconds))
        out.curve.push_back(point);
    return out;
  }

  plan::PlanBudget::Policy describePolicy(const ModelBlock &variant) const {
    plan::PlanBudget::Policy out{
        variant.base, variant.policy, ChunkLayout::keptBytes(variant), ChunkLayout::splitBytes(variant), 0, 0};
    for (const BlockFunction *function : variant.functions()) {
      out.frame = std::max(out.frame, frameOf(*function));
      out.seconds += times_.of(*function);
    }
    return out;
  }

  using Counts = std::vector<std::vector<std::vector<int64_t>>>; // budget::StageChoice::counts

  Decisions &decisions_;
  const PolicyQuestion &question_;
  const PlaceStages place_;
  const TrainingSettings &training_;
  const ProgramSeconds &times_;
  const int64_t budget_;
  std::vector<std::vector<std::vector<LayerClass>>> classes_; // by stage and chunk
  std::vector<budget::StageLayers> stages_;
  std::vector<int64_t> bounds_, chosen_; // by stage: bytes that are allowed, and those of the choice
  std::vector<Counts> counts_;           // by stage: those of the choice
  std::vector<bool> isSmallest_;         // by stage: the choice
  budget::KnownChoices known_;
  bool isCut_ = false;
  double least_ = INFINITY; // seconds: no choice takes less, for all orders that were tried
  std::vector<plan::PlanBudget::Point> curve_;
  std::optional<Fit> best_;
  std::optional<Excess> excess_;
};

} // namespace

Result<PolicyQuestion> policyQuestionOf(ModuleOp module, const ProgramDecisions &programs) {
  const TrainingSettings &training = trainingOf(module);
  MGC_ASSIGN(size, parseMemorySize(training.memory));
  MGC_ASSIGN(times, ProgramSeconds::of(module, programs));
  PolicyQuestion question{training, std::move(times), size.bytes};
  if (size.share > 0) {
    MGC_ASSIGN(machine, machineNamedIn(module));
    question.budget = int64_t(machine.memory.bytes * size.share);
  }
  return question;
}

std::vector<double> leastSlowdown(Decisions &decisions, const PolicyQuestion &question) {
  return Fitter(decisions, question, [](Decisions &) { return Status::ok(); }).leastSlowdown();
}

Status fitIntoMemory(Decisions &decisions, const PolicyQuestion &question, PlaceStages place,
                     std::optional<int64_t> &leastBudget) {
  return Fitter(decisions, question, place).run(leastBudget);
}

} // namespace mgc
