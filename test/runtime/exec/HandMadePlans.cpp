#include "test/runtime/exec/HandMadePlans.h"
#include "test/Places.h"

#include "plan/Plan.h"
#include "plan/json/PlanJson.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/VerifyPlan.h"
#include "runtime/base/File.h"
#include "runtime/random/Philox.h"
#include "test/runtime/exec/Bundle.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace mgc::test {

std::string testKernels() { return builtFile("test/runtime/exec/libexec_test_kernels.so"); }

StageLayout::StageLayout(plan::StagePlan &stage) : stage_(stage) {
  stage.stepScalarsOffset = place("scalars", plan::kAlignment);
  stage.resultsOffset = place("scalars", plan::kAlignment);
}

int64_t StageLayout::place(const std::string &kind, int64_t bytes) {
  const int64_t offset = bytes_;
  const int64_t padded = (bytes + plan::kAlignment - 1) / plan::kAlignment * plan::kAlignment;
  regions_.push_back({kind, offset, padded});
  bytes_ += padded;
  return offset;
}

void StageLayout::finish() {
  stage_.regions = regions_;
  stage_.bytes = bytes_;
}

plan::KernelFile kernelFileOf(plan::KernelLevel level, const std::filesystem::path &path) {
  Result<MappedFile> file = MappedFile::open(path);
  EXPECT_TRUE(file.isOk());
  return {level, path.filename(), file.isOk() ? hashName(file->text()) : 0};
}

plan::Plan emptyPlan(const std::vector<plan::Axis> &axes, const PlanSizes &sizes) {
  plan::Plan plan;
  plan.mesh.axes = axes;
  for (const plan::Axis &axis : axes)
    plan.mesh.named[axis.name] = {axis.name};
  int64_t dp = 1;
  for (const plan::Axis &axis : axes)
    if (axis.name == "dp")
      dp = axis.size;
  plan.modelConfig = "{}";
  plan.modelType = "hand-made";
  plan.sequenceLength = sizes.sequence;
  plan.microBatchSize = sizes.microBatch;
  plan.microbatches = sizes.microbatches;
  plan.globalBatchSize = sizes.microBatch * dp * sizes.microbatches;
  plan.vocabulary = 100;
  plan.dtype = sizes.dtype;
  plan.gradientType = sizes.gradientType;
  plan.schedule = "by hand";
  plan.kernels = {kernelFileOf(plan::KernelLevel::v3, testKernels())};
  plan.stages.resize(plan::stageCount(plan.mesh));
  return plan;
}

ProgramBuilder::ProgramBuilder(std::string name, std::vector<int64_t> segmentBytes) {
  program.name = std::move(name);
  for (size_t i = 0; i < segmentBytes.size(); ++i)
    program.segments.push_back(fmt::format("segment{}", i));
  program.segmentBytes = std::move(segmentBytes);
}

ProgramBuilder &ProgramBuilder::add(decltype(plan::Instruction::body) body, const std::vector<int64_t> &segments) {
  plan::Instruction instruction;
  instruction.body = std::move(body);
  for (int64_t segment : segments)
    instruction.operands.push_back({segment, 0});
  if (auto *kernel = std::get_if<plan::RowKernel>(&instruction.body))
    for (size_t i = 0; i < segments.size(); ++i)
      kernel->uses[i].bytes = program.segmentBytes[segments[i]];
  instruction.label = fmt::format("{}/{}", program.name, program.instructions.size());
  program.instructions.push_back(std::move(instruction));
  return *this;
}

// r: read, w: written, u: updated; of kernels of other types too, whose names go on behind these.
static std::string_view usesOf(std::string_view symbol) {
  for (auto [name, uses] : std::to_array<std::array<std::string_view, 2>>({{"scaleForward", "rrw"},
                                                                           {"scaleBackward", "rru"},
                                                                           {"linearLoss", "rrwu"},
                                                                           {"norm", "ru"},
                                                                           {"descendMasters", "wrrruuu"},
                                                                           {"descend", "urrruu"},
                                                                           {"encoderLoss", "rrrru"},
                                                                           {"showScalars", "w"}}))
    if (symbol.starts_with(name))
      return uses;
  return "";
}

plan::Move copyOf(int64_t bytes) { return {.bytes = bytes}; }
plan::Move fillOf(int64_t bytes) { return {.kind = plan::Move::Kind::fill, .bytes = bytes}; }

plan::RowKernel rowKernel(const std::string &symbol, int64_t range, const std::vector<int64_t> &scalars) {
  plan::RowKernel kernel;
  for (char use : usesOf(symbol))
    kernel.uses.push_back({use == 'r'   ? plan::OperandUse::read
                           : use == 'w' ? plan::OperandUse::written
                                        : plan::OperandUse::updated});
  kernel.symbol = symbol;
  kernel.range = range;
  for (int64_t value : scalars)
    kernel.scalars.push_back({.value = value});
  return kernel;
}

int64_t addRing(plan::Plan &plan, int64_t stage, int64_t offset, int64_t bytes, int64_t slots, int64_t peer,
                int64_t value) {
  std::vector<plan::Ring> &rings = plan.stages[stage].rings;
  rings.push_back({fmt::format("ring{}", rings.size()), bytes, offset, bytes, {{0, slots, 0}}, peer, value});
  return static_cast<int64_t>(rings.size()) - 1;
}

int64_t addRing(plan::Plan &plan, int64_t stage, int64_t offset, int64_t bytes, int64_t slots) {
  return addRing(plan, stage, offset, bytes, slots, -1, -1);
}

int64_t addChunk(plan::Plan &plan, int64_t stage, plan::Task task, const ProgramBuilder &program,
                 const std::vector<int64_t> &offsets) {
  plan::Chunk chunk;
  chunk.task = task;
  plan::Call call;
  call.program = static_cast<int64_t>(plan.programs.size());
  for (int64_t offset : offsets) {
    const bool inSlot = offset < 0;
    call.segments.push_back({inSlot ? static_cast<int64_t>(chunk.slots.size()) : -1, inSlot ? 0 : offset});
    if (inSlot)
      chunk.slots.push_back(-1 - offset);
  }
  chunk.calls.push_back(call);
  plan.programs.push_back(program.program);
  plan.stages[stage].chunks.push_back(chunk);
  return static_cast<int64_t>(plan.stages[stage].chunks.size()) - 1;
}

plan::ScheduleStep runStep(int64_t chunk, int64_t microbatch, std::vector<int64_t> waits) {
  return {.chunk = chunk, .microbatch = microbatch, .waits = std::move(waits)};
}

plan::ScheduleStep sendStep(int64_t ring, int64_t microbatch, std::vector<int64_t> waits) {
  return {.kind = plan::ScheduleStep::Kind::send, .ring = ring, .microbatch = microbatch, .waits = std::move(waits)};
}

plan::ScheduleStep receiveStep(int64_t ring, int64_t microbatch, std::vector<int64_t> waits) {
  return {.kind = plan::ScheduleStep::Kind::recv, .ring = ring, .microbatch = microbatch, .waits = std::move(waits)};
}

namespace {

plan::Collective allReduce(int64_t elements, const plan::Axes &axes, const std::vector<int64_t> &stages = {},
                           plan::DType type = plan::DType::f32) {
  return {.type = type, .axes = axes, .stages = stages, .chunk = elements};
}

plan::Input makeInput(const plan::Plan &plan, plan::Input::Kind kind, int64_t ring) {
  return {.kind = kind,
          .type = plan::typeOf(kind),
          .dims = {{"s", plan.sequenceLength, {}}, {"b", plan.globalBatchSize / plan.microbatches, {"dp"}}},
          .ring = ring};
}

constexpr int64_t kActivation = 1, kGradient = 2; // values that travel
constexpr int64_t kLine = plan::kAlignment;
const int64_t kScalarBytes = int64_t(plan::kStepScalars.size()) * 4; // scalars that the runtime writes

// Sizes and offsets that both stages of the pipeline plan use.
struct PipelineBuilder {
  PipelinePlan result;
  plan::Plan &plan = result.plan;
  int64_t wBytes, gradientBytes, masterBytes;
  int64_t inputBytes, activationBytes; // for one microbatch, one rank
  explicit PipelineBuilder(int64_t dp, const PlanSizes &sizes)
      : result{emptyPlan({{"pp", 2, plan::AxisRole::stage}, {"dp", dp, plan::AxisRole::data}}, sizes), 0, 0},
        wBytes(sizes.sequence * sizeInBytes(sizes.dtype)),
        gradientBytes(sizes.sequence * sizeInBytes(sizes.gradientType)), masterBytes(sizes.sequence * 4),
        inputBytes(sizes.sequence * sizes.microBatch * 4),
        activationBytes(sizes.sequence * sizes.microBatch * sizeInBytes(sizes.dtype)) {
    buildFirstStage();
    buildLastStage();
  }
  bool isBf16() const { return plan.dtype == plan::DType::bf16; }
  // The kernel for values, and for gradients of weights, of the plan's types.
  std::string ofValues(const std::string &kernel) const { return kernel + (isBf16() ? "Bf16" : ""); }
  std::string ofGradients(const std::string &kernel) const {
    return kernel + (plan.gradientType == plan::DType::bf16 ? "Bf16" : "");
  }
  ProgramBuilder updateProgram() const;
  // Loss and tokens are pending over dp, the norm (of the first stage alone) is not.
  static void reduceResults(ProgramBuilder &program) {
    program.add(allReduce(2, {"dp"}), {0, 0}).add(allReduce(3, {}, {0, 1}), {0, 0});
  }
  void addParameter(int64_t firstMoment, int64_t secondMoment);
  void buildFirstStage();
  void buildLastStage();
};

void PipelineBuilder::addParameter(int64_t firstMoment, int64_t secondMoment) {
  plan::Bucket bucket;
  bucket.name = "all";
  bucket.elements = plan.sequenceLength;
  bucket.dataAxes = {"dp"};
  using plan::StateRole, plan::DType;
  bucket.states = {{"value", StateRole::value, plan.dtype, false, result.valueOffset},
                   {"gradient", StateRole::gradient, plan.gradientType, false, result.gradientOffset},
                   {"exp_avg", StateRole::optimizer, DType::f32, false, firstMoment},
                   {"exp_avg_sq", StateRole::optimizer, DType::f32, false, secondMoment}};
  if (isBf16())
    bucket.states.push_back({"master", StateRole::master, DType::f32, false, result.masterOffset});
  plan.stages[0].buckets = {bucket};
  plan::Parameter w;
  w.name = w.tensor = "w";
  w.fileShape = {plan.sequenceLength};
  w.grouping = {1};
  w.offset = {0};
  w.dims = {{"s", plan.sequenceLength, plan.sequenceLength, {}}};
  w.init = plan::InitKind::ones;
  w.places = {{0, 0, 0}};
  plan.parameters = {w};
}

ProgramBuilder PipelineBuilder::updateProgram() const {
  if (!isBf16())
    return ProgramBuilder("update", {wBytes, gradientBytes, kScalarBytes, kLine, masterBytes, masterBytes})
        .add(rowKernel("descend", plan.sequenceLength), {0, 1, 2, 3, 4, 5});
  return ProgramBuilder("update", {wBytes, gradientBytes, kScalarBytes, kLine, masterBytes, masterBytes, masterBytes})
      .add(rowKernel(ofGradients("descendMasters"), plan.sequenceLength), {0, 1, 2, 3, 4, 5, 6});
}

void PipelineBuilder::buildFirstStage() {
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t w = result.valueOffset = layout.place("parameters", wBytes);
  const int64_t wGradient = result.gradientOffset = layout.place("gradients", gradientBytes);
  const int64_t firstMoment = layout.place("optimizer", masterBytes),
                secondMoment = layout.place("optimizer", masterBytes);
  if (isBf16())
    result.masterOffset = layout.place("optimizer", masterBytes);
  const int64_t tokens = layout.place("inputs", inputBytes * plan.microbatches);
  const int64_t buffers = layout.place("activations", activationBytes * plan.microbatches);
  layout.finish();
  const int64_t tokensRing = addRing(plan, 0, tokens, inputBytes, plan.microbatches),
                activations = addRing(plan, 0, buffers, activationBytes, plan.microbatches, 1, kActivation),
                gradients = addRing(plan, 0, buffers, activationBytes, plan.microbatches, 1, kGradient);
  stage.inputs = {makeInput(plan, plan::Input::Kind::tokens, tokensRing)};
  addParameter(firstMoment, secondMoment);

  const int64_t s = plan.sequenceLength, b = plan.microBatchSize;
  const int64_t begin =
      addChunk(plan, 0, plan::Task::begin,
               ProgramBuilder("begin", {gradientBytes, kLine}).add(fillOf(gradientBytes), {0}).add(fillOf(kLine), {1}),
               {wGradient, stage.resultsOffset});
  const int64_t forward = addChunk(plan, 0, plan::Task::forward,
                                   ProgramBuilder("forward", {inputBytes, wBytes, activationBytes})
                                       .add(rowKernel(ofValues("scaleForward"), s, {b}), {0, 1, 2}),
                                   {inRing(tokensRing), w, inRing(activations)});
  const int64_t backward = addChunk(plan, 0, plan::Task::backward,
                                    ProgramBuilder("backward", {inputBytes, activationBytes, gradientBytes})
                                        .add(rowKernel(ofGradients(ofValues("scaleBackward")), s, {b}), {0, 1, 2}),
                                    {inRing(tokensRing), inRing(gradients), wGradient});
  ProgramBuilder reduceProgram("reduce.first", {kLine, gradientBytes});
  reduceProgram.add(allReduce(s, {"dp"}, {}, plan.gradientType), {1, 1})
      .add(rowKernel(ofGradients("norm"), 1, {s}), {1, 0});
  reduceResults(reduceProgram);
  const int64_t reduce = addChunk(plan, 0, plan::Task::reduce, reduceProgram, {stage.resultsOffset, wGradient});
  std::vector<int64_t> updated = {w, wGradient, stage.stepScalarsOffset, stage.resultsOffset};
  if (isBf16())
    updated.push_back(result.masterOffset);
  updated.insert(updated.end(), {firstMoment, secondMoment}); // the kernels leave both as they are
  const int64_t update = addChunk(plan, 0, plan::Task::update, updateProgram(), updated);

  std::vector<plan::ScheduleStep> &steps = stage.schedule;
  steps.push_back(runStep(begin));
  for (int64_t m = 0; m < plan.microbatches; ++m) {
    steps.push_back(runStep(forward, m));
    steps.push_back(sendStep(activations, m, {1}));
    steps.push_back(receiveStep(gradients, m, {1}));
  }
  // Each run waits for its receive: there are 3 steps for each microbatch.
  for (int64_t m = 0; m < plan.microbatches; ++m)
    steps.push_back(runStep(backward, m, {1 + 3 * (plan.microbatches - 1 - m) + m}));
  steps.push_back(runStep(reduce));
  steps.push_back(runStep(update));
}

void PipelineBuilder::buildLastStage() {
  plan::StagePlan &stage = plan.stages[1];
  StageLayout layout(stage);
  const int64_t weights = layout.place("inputs", inputBytes * plan.microbatches);
  const int64_t received = layout.place("activations", activationBytes * plan.microbatches);
  const int64_t gradients = layout.place("activations", activationBytes * plan.microbatches);
  layout.finish();
  const int64_t weightsRing = addRing(plan, 1, weights, inputBytes, plan.microbatches),
                activationsRing = addRing(plan, 1, received, activationBytes, plan.microbatches, 0, kActivation),
                gradientsRing = addRing(plan, 1, gradients, activationBytes, plan.microbatches, 0, kGradient);
  stage.inputs = {makeInput(plan, plan::Input::Kind::lossWeights, weightsRing)};

  const int64_t elements = plan.sequenceLength * plan.microBatchSize;
  const int64_t begin = addChunk(plan, 1, plan::Task::begin,
                                 ProgramBuilder("begin.last", {kLine}).add(fillOf(kLine), {0}), {stage.resultsOffset});
  const int64_t loss =
      addChunk(plan, 1, plan::Task::forward,
               ProgramBuilder("loss", {activationBytes, inputBytes, activationBytes, kLine})
                   .add(rowKernel(ofValues("linearLoss"), 1, {elements}), {0, 1, 2, 3}),
               {inRing(activationsRing), inRing(weightsRing), inRing(gradientsRing), stage.resultsOffset});
  ProgramBuilder reduceProgram("reduce.last", {kLine});
  reduceResults(reduceProgram);
  const int64_t reduce = addChunk(plan, 1, plan::Task::reduce, reduceProgram, {stage.resultsOffset});
  const int64_t update = addChunk(plan, 1, plan::Task::update, ProgramBuilder("update.last", {}), {});

  std::vector<plan::ScheduleStep> &steps = stage.schedule;
  steps.push_back(runStep(begin));
  for (int64_t m = 0; m < plan.microbatches; ++m) {
    steps.push_back(receiveStep(activationsRing, m));
    steps.push_back(runStep(loss, m, {1}));
    steps.push_back(sendStep(gradientsRing, m, {1}));
  }
  steps.push_back(runStep(reduce));
  steps.push_back(runStep(update));
}

} // namespace

PipelinePlan makePipelinePlan(int64_t dp, const PlanSizes &sizes) { return PipelineBuilder(dp, sizes).result; }

plan::Plan makeEncoderPlan(int64_t dp, int64_t cp, const PlanSizes &sizes) {
  using Kind = plan::Input::Kind;
  plan::Plan plan = emptyPlan({{"dp", dp, plan::AxisRole::data}, {"cp", cp, plan::AxisRole::sequence}}, sizes);
  plan.objective = plan::Objective::masked, plan.tokenTypes = 3;
  plan::StagePlan &stage = plan.stages[0];
  const int64_t s = plan.sequenceLength / cp, t = plan.sequenceLength, b = plan.microBatchSize;
  StageLayout layout(stage);
  std::vector<int64_t> bytes, offsets;
  for (const Kind kind : {Kind::tokenTypes, Kind::documentEnds, Kind::keyDocumentEnds, Kind::lossWeights}) {
    const bool isOfKeys = kind == Kind::keyDocumentEnds;
    bytes.push_back((isOfKeys ? t : s) * b * 4);
    const int64_t at = layout.place("inputs", bytes.back() * plan.microbatches);
    const int64_t ring = addRing(plan, 0, at, bytes.back(), plan.microbatches);
    stage.inputs.push_back(makeInput(plan, kind, ring));
    stage.inputs.back().dims[0] = isOfKeys ? plan::Input::Dim{"t", t, {}} : plan::Input::Dim{"s", t, {"cp"}};
    offsets.push_back(inRing(ring));
  }
  layout.finish();
  bytes.push_back(kLine), offsets.push_back(stage.resultsOffset);
  const int64_t begin = addChunk(plan, 0, plan::Task::begin, ProgramBuilder("begin", {kLine}).add(fillOf(kLine), {0}),
                                 {stage.resultsOffset});
  const int64_t forward =
      addChunk(plan, 0, plan::Task::forward,
               ProgramBuilder("loss", bytes).add(rowKernel("encoderLoss", 1, {s, t, b}), {0, 1, 2, 3, 4}), offsets);
  const int64_t reduce =
      addChunk(plan, 0, plan::Task::reduce, ProgramBuilder("reduce", {kLine}).add(allReduce(2, {"dp", "cp"}), {0, 0}),
               {stage.resultsOffset});
  const int64_t update = addChunk(plan, 0, plan::Task::update, ProgramBuilder("update", {}), {});
  stage.schedule = {runStep(begin)};
  for (int64_t m = 0; m < plan.microbatches; ++m)
    stage.schedule.push_back(runStep(forward, m));
  stage.schedule.push_back(runStep(reduce));
  stage.schedule.push_back(runStep(update));
  return plan;
}

std::unique_ptr<Engine> makeEngine(const plan::Plan &plan, EngineOptions options) {
  const Status verified = plan::verifyPlan(plan);
  EXPECT_TRUE(verified.isOk()) << verified.message();
  if (options.threadsPerRank == 0)
    options.threadsPerRank = 1;
  const std::string bundle = std::filesystem::path(testKernels()).parent_path();
  options.poison = true;
  Result<std::unique_ptr<Engine>> engine = Engine::create(plan, bundle, std::move(options));
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
  return engine.isOk() ? engine.take() : nullptr;
}

Bundle::Bundle(int64_t dp, const PlanSizes &sizes) : pipeline_(makePipelinePlan(dp, sizes)) {
  EXPECT_TRUE(isOk(plan::writePlan(pipeline_.plan, folder())));
  std::error_code error;
  std::filesystem::copy_file(testKernels(), folder() + "/" + pipeline_.plan.kernels[0].path, error);
  EXPECT_FALSE(error) << error.message();
}

void setWeights(const PipelinePlan &pipeline, Engine &engine) {
  for (int64_t rank = 0; rank < std::ssize(engine.arenas()); ++rank)
    if (engine.arenas()[rank] && plan::stageOf(pipeline.plan.mesh, rank) == 0)
      for (int64_t s = 0; s < pipeline.plan.sequenceLength; ++s)
        inArena<float>(engine, rank, pipeline.valueOffset)[s] = 0.25f * static_cast<float>(s + 1);
  EXPECT_TRUE(isOk(engine.upload(Part::weights)));
}

std::string failureOf(Engine &engine, const std::function<Status()> &beforeUpdate) {
  const Result<StepResult> result = engine.step(5, makeBatch(engine.plan(), 5), StepScalars{}, beforeUpdate);
  EXPECT_FALSE(result.isOk());
  return result.isOk() ? "" : result.status().message();
}

GlobalBatch makeBatch(const plan::Plan &plan, int64_t step) {
  GlobalBatch batch = GlobalBatch::create(plan).take();
  for (int64_t i = 0; i < static_cast<int64_t>(batch.tokens.size()); ++i) {
    batch.tokens[i] = static_cast<int32_t>((i * 7 + step * 13 + i / 5) % plan.vocabulary);
    batch.labels[i] = i % 11 == 3 ? kIgnoredLabel : static_cast<int32_t>(i % plan.vocabulary);
  }
  return batch;
}

} // namespace mgc::test
