// See Estimate.h.
#include "planner/search/Estimate.h"

#include "compiler/assemble/LayerPolicies.h"
#include "compiler/assemble/StageMemory.h"
#include "compiler/schedule/PeriodicLists.h"
#include "compiler/stage/ChunkParameters.h"
#include "compiler/step/StateBuffers.h"
#include "compiler/step/UpdateRules.h"
#include "dialects/mg/Parameter.h"
#include "plan/play/Player.h"
#include "planner/search/UnitCalls.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace mgc::planner {

namespace {

using cost::ProgramTime;
using plan::Task;
using schedule::BufferKind;

constexpr std::string_view kStepFunctions = "step"; // stands for those of the step's end among a stage's functions

bool hasDataAxes(const plan::Mesh &mesh) {
  return std::ranges::any_of(mesh.axes, [](const plan::Axis &axis) { return plan::seesOtherTokens(axis.role); });
}

class Estimator {
public:
  Estimator(const ShapeBlocks &shape, const frontend::Layout &layout, const cost::Machine &machine,
            schedule::SolutionCache &schedules)
      : shape_(shape), layout_(layout), schedules_(schedules), mesh_(layout.mesh()),
        sharding_{mesh_, layout.zero, layout.shardsOuter, layout.reshardsAfterForward, layout.overlapsParamGather},
        cluster_{machine, mesh_, shape.target()} {
    problem_.schedule = layout.schedule;
    problem_.shape = {plan::stageCount(mesh_), layout.virtualStages, layout.microbatches,
                      layout.chunksInV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
    problem_.memory = layout.scheduleMemory.value_or(1);
  }

  Result<Estimate> run() {
    MGC_TRY(cut());
    MGC_TRY(planStages());
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      price(stages_[stage]);
    MGC_TRY(schedule());
    return place();
  }

private:
  struct Stage {
    std::vector<ChunkLayout> chunks;
    std::vector<std::vector<int64_t>> parts; // by chunk: ChunkParameters::partsOf
    std::optional<StageContents> contents;
    std::vector<int64_t> partOf; // by bucket
    StepEnd end;
    std::vector<std::array<double, 4>> seconds; // by chunk and block task
    std::vector<double> gradients;              // by chunk
  };

  const schedule::Shape &pipeline() const { return problem_.shape; }

  Status cut() {
    const std::vector<Instance> &chain = shape_.chain();
    const ChainCost cost = costOf(chain, shape_.works(), layout_, sharding_);
    const int64_t chunks = pipeline().chunks();
    if (std::ssize(cost.costs.layers) < chunks)
      return errorf("{} layers do not fill {} chunks", cost.costs.layers.size(), chunks);
    auto next = chain.begin();
    for (const int64_t count : balancedChunks(cost, std::ssize(chain), chunks)) {
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
    const std::map<int64_t, std::string> names = parameters->names();
    for (int64_t s = 0; s < pipeline().stages; ++s) {
      Stage &stage = stages_.emplace_back();
      for (int64_t c = 0; c < pipeline().virtualStages; ++c) {
        const size_t global = size_t(pipeline().globalChunk(s, c));
        stage.chunks.emplace_back(withVariants(chunks_[global], shape_.blocks(), layout_));
        stage.parts.push_back(parts[global]);
      }
      addContents(planned[size_t(s)], names, *parameters, stage);
    }
    return Status::ok();
  }

  void addContents(const StageBuckets &planned, const std::map<int64_t, std::string> &names,
                   const ChunkParameters &parameters, Stage &stage) {
    StageContents &contents = stage.contents.emplace(StageContents{layout_, mesh_, {}, {}, {}, {}, {}});
    for (const PlannedBucket &bucket : planned.buckets) {
      contents.buckets.push_back(describe(bucket));
      contents.gathers.push_back(bucket.gather);
      stage.partOf.push_back(bucket.key.part);
    }
    for (const PlannedPlace &place : planned.places)
      contents.places.push_back({names.at(place.block),
                                 parameters.blocks()[size_t(place.block)][size_t(place.parameter)].argument,
                                 place.first, place.count, place.bucket});
    addFunctions(stage.chunks, contents.functions);
    contents.functions.others.emplace(kStepFunctions);
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

  void price(Stage &stage) {
    const int64_t parts = std::accumulate(stage.parts.begin(), stage.parts.end(), int64_t(0),
                                          [](int64_t sum, const auto &own) { return sum + std::ssize(own); });
    stage.end = stepEndOf(cluster_, *stage.contents, stage.partOf, parts);
    size_t part = 0;
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      auto &seconds = stage.seconds.emplace_back();
      for (size_t task = 0; task < plan::kBlockTasks.size(); ++task)
        seconds[task] = secondsOf(stage, stage.chunks[c], plan::kBlockTasks[task]);
      double &gradients = stage.gradients.emplace_back();
      for (size_t own = 0; own < stage.parts[c].size(); ++own)
        gradients += stage.end.gradients[part++];
    }
  }

  double secondsOf(const Stage &stage, const ChunkLayout &chunk, Task task) const {
    double seconds = 0;
    std::vector<UnitCalls::Call> calls;
    for (const ChunkLayout::Call &call : chunk.callsOf(task)) {
      UnitCalls::Call &one = calls.emplace_back();
      if (!call.function || !shape_.hasProgram(*call.function))
        continue;
      const Instance &instance = chunk.instances()[call.instance];
      one = {call.function, &instance, shape_.timeOf(*call.function),
             task != Task::forward && shape_.hasProgram(instance.block->forward)};
      seconds += one.time.seconds();
    }
    const bool hides = leavesCoresToProducts(shape_.target());
    return seconds + UnitCalls(*stage.contents, stage.end, hides).secondsBeside(calls);
  }

  schedule::Costs costs() const {
    schedule::Costs costs;
    costs.chunks.resize(size_t(pipeline().chunks()));
    for (size_t s = 0; s < stages_.size(); ++s) {
      const Stage &stage = stages_[s];
      for (size_t c = 0; c < stage.chunks.size(); ++c) {
        const auto &[forward, backward, input, weight] = stage.seconds[c];
        costs.chunks[size_t(pipeline().globalChunk(int64_t(s), int64_t(c)))] = {forward, backward, input, weight,
                                                                               stage.gradients[c]};
      }
      costs.begin = std::max(costs.begin, stage.end.begin);
      costs.reduce = std::max(costs.reduce, stage.end.reduce);
      costs.update = std::max(costs.update, stage.end.update);
    }
    const cost::MessageRates rates = cost::messageRates(cluster_);
    costs.messageLatency = rates.latency, costs.secondsPerByte = rates.secondsPerByte;
    return costs;
  }

  Status schedule() {
    for (const Stage &stage : stages_) {
      auto &bytes = problem_.bytes.emplace_back();
      auto &idle = problem_.idle.emplace_back();
      auto &parts = problem_.parts.emplace_back();
      for (size_t c = 0; c < stage.chunks.size(); ++c) {
        bytes.push_back(stage.chunks[c].bytes());
        idle.emplace_back();
        for (Task task : plan::kBlockTasks)
          if (task != Task::forward && !stage.chunks[c].computes(task))
            idle.back().push_back(task);
        parts.push_back(std::ssize(stage.parts[c]));
      }
    }
    const schedule::Costs seconds = costs();
    MGC_ASSIGN(row, schedule::rowOf(problem_));
    if (row.byTime) {
      problem_.costs = seconds.chunks;
      problem_.messageSeconds =
          seconds.messageLatency +
          seconds.secondsPerByte * double(problem_.bytes[0][0][size_t(BufferKind::output)]);
      problem_.orders = row.orders(problem_);
    }
    MGC_SET(solution_, schedules_.solve(problem_));
    seconds_ = schedule::play(schedule::listsOf(solution_, seconds)).makespan;
    return Status::ok();
  }

  // --- Memory

  Result<Estimate> place() {
    Estimate out{seconds_, {}};
    for (size_t s = 0; s < stages_.size(); ++s) {
      Frames frames = shape_.frames();
      FunctionFrame &ofStep = frames[std::string(kStepFunctions)];
      ofStep.bytes = ofStep.leastBytes = stages_[s].end.frame;
      MGC_ASSIGN(memory, placeStage(*stages_[s].contents, stages_[s].chunks, solution_.stages[s], frames));
      out.stages.push_back({memory.bytes, memory.hostBytes, 0});
    }
    return out;
  }

  const ShapeBlocks &shape_;
  const frontend::Layout &layout_;
  schedule::SolutionCache &schedules_;
  const plan::Mesh mesh_;
  const Sharding sharding_;
  const cost::Cluster cluster_;
  schedule::Problem problem_;
  Chunks chunks_;
  std::vector<Stage> stages_;
  schedule::PeriodicSolution solution_;
  double seconds_ = 0;
};

} // namespace

int64_t Estimate::bytes() const {
  return stages.empty() ? 0 : std::ranges::max_element(stages, {}, &StageEstimate::bytes)->bytes;
}
int64_t Estimate::hostBytes() const {
  return stages.empty() ? 0 : std::ranges::max_element(stages, {}, &StageEstimate::hostBytes)->hostBytes;
}

Result<Estimate> estimate(const ShapeBlocks &shape, const frontend::Layout &layout, const cost::Machine &machine,
                          schedule::SolutionCache &schedules) {
  return Estimator(shape, layout, machine, schedules).run();
}

} // namespace mgc::planner
