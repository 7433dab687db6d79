// See Decisions.h.
#include "compiler/assemble/Decisions.h"

#include "compiler/assemble/HostBudget.h"
#include "compiler/assemble/LayerPolicies.h"
#include "compiler/assemble/MemoryBudget.h"
#include "compiler/assemble/TaskTimes.h"
#include "compiler/schedule/Text.h"
#include "compiler/stage/PipelineShape.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace mgc {

namespace {

std::vector<StageDecisions> readStages(ModuleOp module, const Blocks &blocks) {
  std::vector<StageDecisions> stages;
  for (StageOp stage : module.getOps<StageOp>()) {
    stages.push_back({stage, contentsOf(stage), {}, {}, {}, {}});
    for (ChunkOp chunk : stage.all<ChunkOp>())
      stages.back().chunks.emplace_back(withVariants(blocks.instancesOf(chunk.getBody()), blocks, trainingOf(module)));
    stages.back().firstGathers = FirstGathers(stages.back().contents, stages.back().chunks);
  }
  return stages;
}

// Orders that are given as text.
Status readOrders(ModuleOp module, schedule::Problem &problem) {
  const std::string &text = trainingOf(module).scheduleText;
  if (text.empty())
    return Status::ok();
  MGC_ASSIGN(read, schedule::readScheduleText(text));
  if (read.shape != problem.shape)
    return errorf("schedule_text is not for the stages, virtual_stages, microbatches and chunks_in_v of mg.training");
  problem.orders = std::move(read.orders);
  return Status::ok();
}

// Whether some total of the step has summands from forwards and from backwards of the stage, as the balance of experts may
// have: a layer adds it in its forward, a block with a loss in its backward.
bool sharesTotals(const StageDecisions &stage) {
  std::set<int64_t> forward, backward;
  const auto add = [](const BlockFunction &function, std::set<int64_t> &totals) {
    for (const BlockFunction::Result &result : function.results)
      if (const std::optional<int64_t> total = result.total())
        totals.insert(*total);
  };
  for (const ChunkLayout &chunk : stage.chunks)
    for (const ModelBlock *block : chunk.blocks()) {
      add(block->forward, forward);
      for (const BlockFunction *function : {&block->backward, &block->input, &block->weight})
        add(*function, backward);
    }
  return std::ranges::any_of(forward, [&](int64_t total) { return backward.contains(total); });
}

std::vector<int64_t> partsOf(const StageDecisions &stage, int64_t chunks) {
  std::vector<int64_t> parts(chunks, 0);
  for (ReductionOp reduction : StageOp(stage.op).all<ReductionOp>())
    if (reduction.getChunk() < parts.size())
      ++parts[reduction.getChunk()];
  return parts;
}

// The scheduling problem that the chunks of all stages pose.
Result<schedule::Problem> readProblem(const Decisions &decisions, const ProgramDecisions &programs) {
  ModuleOp module = decisions.module;
  const std::vector<StageDecisions> &stages = decisions.stages;
  const TrainingSettings &training = trainingOf(module);
  schedule::Problem problem;
  problem.schedule = training.schedule;
  problem.shape = shapeOf(module, int64_t(stages.size()));
  problem.memory = decisions.scheduleMemory.value_or(1);
  MGC_TRY(readOrders(module, problem));
  for (const StageDecisions &stage : stages)
    addChunks(stage, partsOf(stage, problem.shape.virtualStages), problem);
  MGC_ASSIGN(row, schedule::rowOf(problem));
  if (row.splitBackward != training.splitBackward)
    return errorf("schedule '{}' needs split_backward = {} in mg.training", problem.schedule, row.splitBackward);
  if (row.byTime)
    MGC_TRY(addTimes(module, stages, programs, problem));
  if (row.byTime) // planned once
    problem.orders = row.orders(problem);
  return problem;
}

Status scheduleStages(Decisions &decisions, const ProgramDecisions &programs) {
  MGC_SET(decisions.problem, readProblem(decisions, programs));
  MGC_ASSIGN(solution, schedule::generatePeriodic(decisions.problem));
  for (auto [stage, schedule] : llvm::zip(decisions.stages, solution.stages))
    stage.schedule = std::move(schedule);
  return Status::ok();
}

// programs: those whose times a schedule may go by.
Status placeStages(Decisions &decisions, const ProgramDecisions &programs) {
  MGC_TRY(scheduleStages(decisions, programs).at("schedule"));
  for (StageDecisions &stage : decisions.stages)
    MGC_SET(stage.memory, placeStage(stage.contents, stage.chunks, stage.schedule, decisions.frames)
                              .at(fmt::format("memory: stage {}", int64_t(stage.op.getNumber()))));
  return Status::ok();
}

Status placeFrames(ModuleOp module, Frames &frames) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!taskOf(function))
      continue;
    const std::string name = function.getName().str();
    MGC_SET(frames[name], placeFrame(function).at("frame of function " + name));
  }
  return Status::ok();
}

// Blocks that some chunk runs.
std::set<std::string> usedBlocks(const std::vector<StageDecisions> &stages) {
  std::set<std::string> used;
  for (const StageDecisions &stage : stages)
    for (const ChunkLayout &chunk : stage.chunks)
      for (const ModelBlock *block : chunk.blocks())
        used.insert(block->name);
  return used;
}

std::set<std::string> allBlocks(const Blocks &blocks) {
  std::set<std::string> all;
  for (const auto &[name, block] : blocks)
    all.insert(name);
  return all;
}

// Programs of the functions of these blocks, and of those of no block.
Status addPrograms(const Decisions &decisions, const std::set<std::string> &used, ProgramDecisions &programs) {
  const Blocks &blocks = decisions.blocks;
  const Frames &frames = decisions.frames;
  for (auto function : ModuleOp(decisions.module).getOps<func::FuncOp>()) {
    const std::optional<plan::Task> task = taskOf(function);
    auto name = function->getAttrOfType<StringAttr>(kBlockAttr);
    if (!task || (name && !used.contains(name.str())))
      continue;
    const BlockFunction *block = name ? blocks.at(name).functionOf(*task) : nullptr;
    if (block && llvm::hasSingleElement(function.getBody().front())) // does nothing: no chunk calls it
      continue;
    const std::string symbol = function.getName().str();
    const size_t number = programs.programs.size();
    programs.byFunction[symbol] = int64_t(number);
    MGC_ASSIGN(program, assembleProgram(function, frames.at(symbol), block, number, programs.kernels));
    programs.programs.push_back(std::move(program));
  }
  return Status::ok();
}

} // namespace

void addChunks(const StageDecisions &stage, std::vector<int64_t> parts, schedule::Problem &problem) {
  problem.sharesTotals.push_back(sharesTotals(stage));
  auto &sizes = problem.bytes.emplace_back();
  auto &idle = problem.idle.emplace_back();
  auto &opened = problem.opened.emplace_back();
  for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
    sizes.push_back(stage.chunks[chunk].bytes());
    opened.push_back(stage.firstGathers.has(int64_t(chunk)));
    idle.emplace_back();
    for (plan::Task task : plan::kBlockTasks)
      if (task != plan::Task::forward && !stage.chunks[chunk].computes(task))
        idle.back().push_back(task);
  }
  problem.parts.push_back(std::move(parts));
}

Result<Decisions> decide(ModuleOp module, std::optional<int64_t> *leastBudget) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return errorf("the module's functions are not those of phase fuse");
  Decisions decisions{module, std::move(*blocks), {}, {}, trainingOf(module).scheduleMemory, {}, {}, {}};
  decisions.stages = readStages(module, decisions.blocks);
  MGC_TRY(placeFrames(module, decisions.frames).at("memory"));
  const bool hasBudget = !trainingOf(module).memory.empty();
  ProgramDecisions all; // programs of all variants of blocks, where they are chosen by memory
  if (hasBudget) {
    MGC_TRY(addPrograms(decisions, allBlocks(decisions.blocks), all));
    std::optional<int64_t> ignored;
    MGC_ASSIGN(question, policyQuestionOf(module, all));
    MGC_TRY(fitIntoMemory(
                decisions, question, [&](Decisions &tried) { return placeStages(tried, all); },
                leastBudget ? *leastBudget : ignored)
                .at("memory"));
  }
  MGC_TRY(addPrograms(decisions, usedBlocks(decisions.stages), decisions.programs));
  for (const StageDecisions &stage : decisions.stages)
    decisions.programs.hostCopies.add(stage.op, stage.chunks, decisions.programs.programs);
  if (!hasBudget)
    MGC_TRY(placeStages(decisions, decisions.programs));
  MGC_TRY(verifyHostMemory(decisions).at("memory"));
  return decisions;
}

} // namespace mgc
