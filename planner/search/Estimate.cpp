// See Estimate.h.
#include "planner/search/Estimate.h"

#include "compiler/assemble/LayerPolicies.h"
#include "compiler/assemble/MemoryBudget.h"
#include "compiler/schedule/PeriodicLists.h"
#include "compiler/stage/ChunkParameters.h"
#include "compiler/step/StateBuffers.h"
#include "compiler/step/UpdateRules.h"
#include "dialects/mg/Parameter.h"
#include "dialects/mg/training/MemorySize.h"
#include "plan/play/Player.h"
#include "planner/search/PairTimes.h"
#include "planner/search/StageBounds.h"
#include "planner/search/UnitCalls.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace mgc::planner {

namespace {

using cost::ProgramTime;
using plan::Task;
using schedule::BufferKind;

// Stands for the functions of the step's end among those of a stage.
std::string nameOfStep(int64_t stage) { return fmt::format("step.{}", stage); }

bool hasDataAxes(const plan::Mesh &mesh) {
  return std::ranges::any_of(mesh.axes, [](const plan::Axis &axis) { return plan::seesOtherTokens(axis.role); });
}

class Estimator {
public:
  Estimator(const ShapeBlocks &shape, const frontend::Layout &layout, const PricedMachine &machine,
            EstimateCache &cache, Policies policies)
      : shape_(shape), layout_(layout), cache_(cache), policies_(policies), mesh_(layout.mesh()),
        sharding_{mesh_, layout.zero, layout.shardsOuter, layout.reshardsAfterForward, layout.overlapsParamGather},
        cluster_(machine.cluster(mesh_, shape.target())),
        decisions_{shape.module(), shape.blocks(), shape.frames(), {}, layout.scheduleMemory, {}, {}, {}},
        pairs_(shape, cluster_) {}

  Result<double> leastOfChunks() {
    MGC_TRY(cut());
    MGC_TRY(planStages());
    takesLeast_ = true;
    const schedule::Costs costs = this->costs();
    std::vector<StageLeast> stages(parts_.size());
    for (size_t chunk = 0; chunk < costs.chunks.size(); ++chunk) {
      const schedule::ChunkCost &cost = costs.chunks[chunk];
      StageLeast &stage = stages[size_t(pipeline().stageOf(int64_t(chunk)))];
      const double passes = cost.forward + cost.backward + cost.input;
      stage.passes += passes, stage.all += passes + cost.weight;
      if (pipeline().chunkOf(int64_t(chunk)) == 0)
        stage.first.forward = cost.forward, stage.first.passes = passes;
    }
    return costs.begin + planner::leastSeconds(stages, pipeline().microbatches, false) + costs.reduce + costs.update;
  }

  Result<Estimate> run() {
    MGC_TRY(cut());
    MGC_TRY(planStages());
    const auto place = [&](Decisions &) { return placeStages(); };
    if (layout_.memory.empty() || policies_ == Policies::fastest) {
      MGC_TRY(placeStages());
    } else {
      MGC_ASSIGN(question, policyQuestion(secondsOfCompile()));
      std::optional<int64_t> ignored;
      MGC_TRY(fitIntoMemory(decisions_, question, place, ignored));
      if (isByTime_) // the last that was placed need not be what was chosen
        MGC_TRY(placeStages());
    }
    Estimate out{seconds_, 0, {}, {}};
    for (const StageDecisions &stage : decisions_.stages)
      out.stages.push_back({stage.memory.bytes, stage.memory.hostBytes, 0});
    const schedule::Costs costs = this->costs();
    for (size_t chunk = 0; chunk < costs.chunks.size(); ++chunk) {
      const schedule::ChunkCost &cost = costs.chunks[chunk];
      out.stages[size_t(pipeline().stageOf(int64_t(chunk)))].seconds +=
          cost.forward + cost.backward + cost.input + cost.weight;
    }
    if (isByTime_ || layout_.memory.empty() ||
        policies_ == Policies::fitting) // by time: other policies have other orders
      return out;
    MGC_ASSIGN(question, policyQuestion(secondsOfLoad()));
    if (out.bytes() > question.budget) {
      out.slowdown = leastSlowdown(decisions_, question);
      if (!hasPairs_) // a policy that is slower alone may be faster in a pair
        MGC_SET(out.least, leastSeconds());
    }
    return out;
  }

private:
  // The parts of a stage and the end of its step, beside its decisions.
  struct StageParts {
    std::vector<std::vector<int64_t>> ofChunks; // ChunkParameters::partsOf
    std::vector<int64_t> ofBuckets;             // the part of the stage that each is of; -1: of none
    StepEnd end;
    std::optional<UnitPlaces> places; // where the stage has units
    int64_t count() const {
      return std::accumulate(ofChunks.begin(), ofChunks.end(), int64_t(0),
                             [](int64_t sum, const auto &own) { return sum + std::ssize(own); });
    }
  };

  schedule::Shape pipeline() const {
    return {plan::stageCount(mesh_), layout_.virtualStages, layout_.microbatches,
            layout_.chunksInV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
  }

  // --- Stages

  Status cut() {
    const std::vector<Instance> chain = decisions_.blocks.instancesOf(shape_.chainRegion());
    const ChainCost cost = costOf(chain, shape_.works(), layout_, sharding_);
    const int64_t chunks = pipeline().chunks();
    if (std::ssize(cost.costs.layers) < chunks)
      return errorf("{} layers do not fill {} chunks", cost.costs.layers.size(), chunks);
    MGC_ASSIGN(sizes, chunksOf(cost, std::ssize(chain), layout_, chunks));
    auto next = chain.begin();
    for (const int64_t count : sizes) {
      chunks_.emplace_back(next, next + count);
      next += count;
    }
    return Status::ok();
  }

  Status planStages() {
    auto parameters = ChunkParameters::of(chunks_);
    if (failed(parameters))
      return errorf("the blocks' parameters cannot be read");
    std::vector<std::vector<int64_t>> parts;
    for (const std::vector<Instance> &chunk : chunks_)
      parts.push_back(parameters->partsOf(chunk, layout_, hasDataAxes(mesh_)));
    const BucketProblem buckets = parameters->problemOf(chunks_, parts, pipeline(), sharding_, layout_);
    MGC_ASSIGN(planned, planBuckets(buckets));
    for (int64_t s = 0; s < pipeline().stages; ++s) {
      StageParts &own = parts_.emplace_back();
      StageDecisions &stage = decisions_.stages.emplace_back(
          StageDecisions{{}, contentsOf(planned[size_t(s)], *parameters, own.ofBuckets), {}, {}, {}, {}});
      stage.contents.ofStep.others.insert(nameOfStep(s));
      for (int64_t c = 0; c < pipeline().virtualStages; ++c) {
        const size_t global = size_t(pipeline().globalChunk(s, c));
        stage.chunks.emplace_back(instancesOf(chunks_[global]));
        own.ofChunks.push_back(parts[global]);
      }
      stage.firstGathers = FirstGathers(stage.contents, stage.chunks);
      own.end = stepEndOf(cluster_, stage.contents, own.ofBuckets, own.count());
      if (hasUnits(stage))
        own.places.emplace(stage.contents, decisions_.blocks);
      decisions_.frames[nameOfStep(s)].bytes = own.end.frame;
    }
    return Status::ok();
  }

  std::vector<Instance> instancesOf(const std::vector<Instance> &chunk) const {
    if (layout_.memory.empty() || policies_ != Policies::fastest)
      return withVariants(chunk, decisions_.blocks, layout_);
    std::vector<Instance> instances = chunk;
    for (Instance &instance : instances)
      instance.block = std::ranges::min(decisions_.blocks.variantsOf(*instance.block), {},
                                        [&](const ModelBlock *variant) { return evenSecondsOf(*variant); });
    return instances;
  }
  double evenSecondsOf(const ModelBlock &block) const {
    double seconds = 0;
    for (const BlockFunction *function : block.functions())
      seconds += shape_.evenSecondsOf(*function);
    return seconds;
  }

  StageContents contentsOf(const StageBuckets &planned, const ChunkParameters &parameters,
                           std::vector<int64_t> &partOf) const {
    StageContents contents{&layout_, mesh_, {}, {}, {}, {}, {}};
    for (const PlannedBucket &bucket : planned.buckets) {
      contents.buckets.push_back(describe(bucket));
      contents.gathers.push_back(bucket.gather);
      partOf.push_back(bucket.key.part);
    }
    const std::map<int64_t, std::string> names = parameters.names();
    for (const PlannedPlace &place : planned.places)
      contents.places.push_back({names.at(place.block),
                                 parameters.blocks()[size_t(place.block)][size_t(place.parameter)].argument,
                                 place.first, place.count, place.bucket, place.offset, place.stride});
    return contents;
  }

  plan::Bucket describe(const PlannedBucket &planned) const {
    plan::Bucket bucket;
    bucket.elements = planned.elements;
    bucket.use = planned.key.use;
    bucket.units = planned.units;
    bucket.splitAxes = planned.key.split;
    bucket.reduceAxes = planned.key.reduce;
    bucket.dataAxes = planned.key.data;
    bucket.shardAxes = planned.shard;
    bucket.outerAxes = planned.outer;
    bucket.tiedStages = planned.key.tied;
    bucket.meanLoad = planned.key.meanLoad;
    const UpdateRule &rule = ruleOf(planned.key.use, layout_.optimizer);
    const BucketTraits traits{!planned.shard.empty(), planned.key.unit >= 0, !planned.outer.empty(), planned.gather};
    for (const StateBuffer &state : statesOf(traits, rule, precisionOf(shape_.module(), planned.key.meanLoad)))
      bucket.states.push_back({state.name.str(), state.role, dtypeOf(state.element), state.sliced});
    return bucket;
  }

  // --- Seconds

  // Chunks of as many instances of the same blocks take as long, but for what units add.
  double secondsOf(const StageDecisions &stage, const StageParts &parts, const ChunkLayout &chunk, Task task) {
    if (parts.places)
      return secondsOfCalls(stage, parts, chunk, task, {});
    std::vector<const void *> key = {reinterpret_cast<const void *>(size_t(task))};
    for (const Instance &instance : chunk.instances())
      key.insert(key.end(), {instance.block, instance.recomputed});
    std::map<std::vector<const void *>, double> &known = known_[takesLeast_];
    const auto [entry, isNew] = known.try_emplace(std::move(key));
    if (isNew)
      entry->second = secondsOfCalls(stage, parts, chunk, task, {});
    return entry->second;
  }
  static bool hasUnits(const StageDecisions &stage) {
    return std::ranges::any_of(stage.contents.buckets, [](const plan::Bucket &bucket) {
      return std::ranges::any_of(bucket.states, [](const plan::State &state) { return isOfMicrobatches(state.role); });
    });
  }

  void addHiding(UnitCalls::Call &call) const {
    call.hiding = shape_.hidingIn(*call.function);
    for (const BlockFunction::Argument &argument : call.function->arguments)
      if (argument.kind == BlockFunction::ArgumentKind::parameter)
        call.hidingBefore[argument.index] = shape_.hidingBefore(*call.function, argument.index);
  }

  struct CallsOf {
    bool unitsAlone = false;             // without the calls of blocks
    std::optional<int64_t> firstOf = {}; // the first microbatch's forward of this chunk of the stage
  };
  double secondsOfCalls(const StageDecisions &stage, const StageParts &parts, const ChunkLayout &chunk, Task task,
                        const CallsOf &of) const {
    double seconds = 0;
    std::vector<UnitCalls::Call> calls;
    for (const ChunkLayout::Call &call : chunk.callsOf(task)) {
      UnitCalls::Call &one = calls.emplace_back();
      if (of.firstOf)
        for (const FirstGathers::Unit &unit : stage.firstGathers.of(*of.firstOf, call.instance))
          one.gathersOnce.push_back(unit.bucket);
      if (!call.function || !shape_.hasProgram(*call.function))
        continue;
      const Instance &instance = chunk.instances()[call.instance];
      const ProgramTime time =
          takesLeast_ ? leastTimeOf(*instance.block, *call.function) : shape_.timeOf(*call.function);
      one.function = call.function, one.instance = &instance;
      one.keepsGathered = task != Task::forward && shape_.hasProgram(instance.block->forward);
      if (parts.places)
        addHiding(one);
      seconds += time.seconds();
    }
    const double blocks = of.unitsAlone ? 0 : seconds;
    if (!parts.places && !of.firstOf)
      return blocks;
    const UnitPlaces none;
    const bool hides = leavesCoresToProducts(shape_.target());
    return blocks + UnitCalls(stage.contents, parts.places ? *parts.places : none, parts.end, hides, hasPairs_)
                        .secondsBeside(calls, of.firstOf.has_value());
  }

  // The least of the block's variants.
  ProgramTime leastTimeOf(const ModelBlock &block, const BlockFunction &function) const {
    const Task task = *taskOf(function.function);
    ProgramTime least = shape_.timeOf(function);
    for (const ModelBlock *variant : decisions_.blocks.variantsOf(block))
      if (const BlockFunction *other = variant->functionOf(task); other && shape_.hasProgram(*other))
        if (const ProgramTime &time = shape_.timeOf(*other); time.seconds() < least.seconds())
          least = time;
    return least;
  }

  schedule::Costs costs() {
    schedule::Costs costs;
    costs.chunks.resize(size_t(pipeline().chunks()));
    for (size_t s = 0; s < parts_.size(); ++s) {
      const StageDecisions &stage = decisions_.stages[s];
      const StageParts &parts = parts_[s];
      const StepEnd &end = parts.end;
      size_t part = 0;
      for (size_t c = 0; c < stage.chunks.size(); ++c) {
        const auto seconds = [&](Task task) { return secondsOf(stage, parts, stage.chunks[c], task); };
        schedule::ChunkCost &cost = costs.chunks[size_t(pipeline().globalChunk(int64_t(s), int64_t(c)))];
        cost = {seconds(Task::forward), seconds(Task::backward), seconds(Task::input), seconds(Task::weight), 0};
        for (size_t own = 0; own < parts_[s].ofChunks[c].size(); ++own)
          cost.gradients += end.gradients[part++];
        if (stage.firstGathers.has(int64_t(c)))
          costs.firsts[{Task::forward, pipeline().globalChunk(int64_t(s), int64_t(c))}] =
              secondsOfCalls(stage, parts, stage.chunks[c], Task::forward, {false, int64_t(c)});
      }
      costs.begin = std::max(costs.begin, end.begin);
      costs.reduce = std::max(costs.reduce, end.reduce);
      costs.update = std::max(costs.update, end.update);
    }
    const cost::MessageRates rates = cost::messageRates(cluster_);
    costs.messageLatency = rates.latency, costs.secondsPerByte = rates.secondsPerByte;
    return costs;
  }

  schedule::Problem problemOfNow() const {
    schedule::Problem problem;
    problem.schedule = layout_.schedule;
    problem.shape = pipeline();
    problem.memory = decisions_.scheduleMemory.value_or(1);
    for (size_t s = 0; s < parts_.size(); ++s) {
      std::vector<int64_t> parts;
      for (const std::vector<int64_t> &ofChunk : parts_[s].ofChunks)
        parts.push_back(std::ssize(ofChunk));
      addChunks(decisions_.stages[s], std::move(parts), problem);
    }
    return problem;
  }

  Status placeStages() {
    decisions_.problem = problemOfNow();
    schedule::Problem &problem = decisions_.problem;
    schedule::Costs seconds = costs();
    MGC_ASSIGN(row, schedule::rowOf(problem));
    isByTime_ = row.byTime;
    if (row.byTime) {
      setTimes(problem);
      problem.orders = row.orders(problem);
    }
    MGC_ASSIGN(solution, cache_.schedules.solve(problem));
    if (!hasPairs_ && std::ranges::any_of(solution.stages, hasPair)) {
      hasPairs_ = true;
      seconds = costs();
    }
    if (hasPairs_)
      addPairs(solution, seconds);
    seconds_ = schedule::play(schedule::listsOf(solution, seconds)).makespan;
    if (takesLeast_)
      return Status::ok();
    for (size_t s = 0; s < decisions_.stages.size(); ++s) {
      StageDecisions &stage = decisions_.stages[s];
      stage.schedule = std::move(solution.stages[s]);
      MGC_SET(stage.memory, placeStage(stage.contents, stage.chunks, stage.schedule, decisions_.frames));
    }
    return Status::ok();
  }
  static bool hasPair(const schedule::PeriodicStage &stage) {
    return std::ranges::any_of(stage.steps,
                               [](const schedule::PeriodicStep &one) { return schedule::isPaired(one.step); });
  }
  void addPairs(const schedule::PeriodicSolution &solution, schedule::Costs &seconds) {
    std::vector<const std::vector<ChunkLayout> *> chunks;
    for (const StageDecisions &stage : decisions_.stages)
      chunks.push_back(&stage.chunks);
    pairs_.add(solution, chunks, seconds);
    for (auto &[pair, cost] : seconds.pairs)
      for (const auto &[task, chunk] : pair) {
        const auto stage = size_t(pipeline().stageOf(chunk));
        const StageDecisions &decisions = decisions_.stages[stage];
        if (parts_[stage].places)
          cost += secondsOfCalls(decisions, parts_[stage], decisions.chunks[size_t(pipeline().chunkOf(chunk))], task,
                                 {true});
      }
  }
  // As addTimes of compiler/assemble/TaskTimes.h.
  void setTimes(schedule::Problem &problem) const {
    const ProgramSeconds seconds = secondsOfCompile();
    problem.costs.resize(size_t(problem.shape.chunks()));
    for (size_t s = 0; s < decisions_.stages.size(); ++s)
      for (size_t c = 0; c < decisions_.stages[s].chunks.size(); ++c)
        problem.costs[size_t(problem.shape.globalChunk(int64_t(s), int64_t(c)))] =
            seconds.of(decisions_.stages[s].chunks[c]);
    problem.messageSeconds = seconds.message(problem.bytes[0][0][size_t(BufferKind::output)]);
  }

  // --- Policies

  // No path of tasks gets shorter when a task takes longer.
  Result<double> leastSeconds() {
    const double seconds = seconds_;
    takesLeast_ = true;
    MGC_TRY(placeStages());
    takesLeast_ = false;
    return std::min(seconds, std::exchange(seconds_, seconds));
  }

  // Seconds of functions by which `mgc compile` chooses policies and orders tasks. The load that a search assumes is no option of the
  // layout: the plan of the command that is printed has the policies that are best with an even load, and takes so long with them as
  // the load lets it.
  ProgramSeconds secondsOfCompile() const {
    return programSeconds([&](const BlockFunction &function) { return shape_.evenSecondsOf(function); });
  }
  // Bounds are of the seconds that the step takes with whatever policies.
  ProgramSeconds secondsOfLoad() const {
    return programSeconds([&](const BlockFunction &function) { return shape_.timeOf(function).seconds(); });
  }
  ProgramSeconds programSeconds(const std::function<double(const BlockFunction &)> &secondsOf) const {
    std::map<std::string, double> seconds;
    for (const auto &[name, block] : decisions_.blocks)
      for (const BlockFunction *function : block.functions())
        seconds[func::FuncOp(function->function).getName().str()] = secondsOf(*function);
    return {std::move(seconds), cost::messageRates(cluster_)};
  }

  Result<PolicyQuestion> policyQuestion(ProgramSeconds times) const {
    MGC_ASSIGN(size, parseMemorySize(layout_.memory));
    return PolicyQuestion{.training = layout_,
                          .times = std::move(times),
                          .budget = size.bytes > 0 ? size.bytes : int64_t(cluster_.machine.memory.bytes * size.share),
                          .known = &cache_.choices,
                          .isDescribed = false};
  }

  const ShapeBlocks &shape_;
  const frontend::Layout &layout_;
  EstimateCache &cache_;
  const Policies policies_;
  const plan::Mesh mesh_;
  const Sharding sharding_;
  const cost::Cluster cluster_;
  Decisions decisions_;
  PairTimes pairs_;
  Chunks chunks_;
  std::vector<StageParts> parts_;                                    // by stage
  std::array<std::map<std::vector<const void *>, double>, 2> known_; // seconds of chunks without units, by takesLeast_
  double seconds_ = 0;
  bool takesLeast_ = false, isByTime_ = false, hasPairs_ = false;
};

} // namespace

Result<double> leastSecondsOf(const ShapeBlocks &shape, const frontend::Layout &layout, const PricedMachine &machine) {
  EstimateCache none;
  return Estimator(shape, layout, machine, none, Policies::fastest).leastOfChunks();
}

int64_t Estimate::bytes() const {
  return stages.empty() ? 0 : std::ranges::max_element(stages, {}, &StageEstimate::bytes)->bytes;
}
int64_t Estimate::hostBytes() const {
  return stages.empty() ? 0 : std::ranges::max_element(stages, {}, &StageEstimate::hostBytes)->hostBytes;
}

Result<Estimate> estimate(const ShapeBlocks &shape, const frontend::Layout &layout, const PricedMachine &machine,
                          EstimateCache &cache, Policies policies) {
  return Estimator(shape, layout, machine, cache, policies).run();
}

} // namespace mgc::planner
