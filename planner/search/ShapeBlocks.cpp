// See ShapeBlocks.h.
#include "planner/search/ShapeBlocks.h"

#include "compiler/Phases.h"
#include "dialects/mg/Target.h"

using namespace mlir;

namespace mgc::planner {

namespace {

std::string nameOf(const BlockFunction &function) { return func::FuncOp(function.function).getName().str(); }

Result<Blocks> blocksOf(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return errorf("the module's functions are not those of blocks");
  return std::move(*blocks);
}

} // namespace

Result<std::unique_ptr<ShapeBlocks>> ShapeBlocks::compile(MLIRContext &context, const frontend::LayoutOptions &options,
                                                          const MakeModule &make, const PricedMachine &machine) {
  auto out = std::unique_ptr<ShapeBlocks>(new ShapeBlocks(machine));
  MGC_SET(out->module_, make(context, options));
  MGC_TRY(runPhasesOfBlocks(*out->module_, "local"));
  MGC_ASSIGN(logical, blocksOf(*out->module_));
  for (const auto &[name, block] : logical)
    out->works_.emplace(name, workOf(block));
  MGC_TRY(runPhasesOfBlocks(*out->module_, ""));
  MGC_TRY(out->read());
  return out;
}

Status ShapeBlocks::read() {
  MGC_SET(blocks_, blocksOf(*module_));
  target_ = targetOf(*module_);
  const plan::Mesh mesh = meshOf(*module_);
  const cost::Cluster cluster = machine_.cluster(mesh, target_), even = machine_.evenlyLoaded().cluster(mesh, target_);
  KernelGraphs graphs;
  for (const auto &[name, block] : *blocks_)
    for (const BlockFunction *function : block.functions()) {
      const std::string symbol = nameOf(*function);
      MGC_ASSIGN(frame, placeFrame(function->function));
      if (!llvm::hasSingleElement(func::FuncOp(function->function).getBody().front())) {
        MGC_ASSIGN(program, assembleProgram(function->function, frame, function, 0, graphs));
        mlir::Operation *op = func::FuncOp(function->function);
        times_[op] = cost::secondsOf(cluster, program.program);
        if (cluster.imbalance != even.imbalance)
          evenSeconds_[op] = cost::secondsOf(even, program.program).seconds();
        addReads(*function, program);
        programs_[op] = std::move(program.program);
      }
      frames_[symbol].bytes = frame.bytes, frames_[symbol].leastBytes = frame.leastBytes;
      frames_[symbol].buffers = std::move(frame.buffers);
    }
  return Status::ok();
}

const FunctionFrame &ShapeBlocks::frameOf(const BlockFunction &function) const { return frames_.at(nameOf(function)); }

double hidingOf(const cost::ProgramTime &time) {
  return std::max(0.0, time.products + time.attention - cost::total(time.hidden));
}

// Before repeated instructions alone.
void ShapeBlocks::addReads(const BlockFunction &function, const AssembledProgram &program) {
  const plan::Program &all = program.program;
  const auto end = all.repeats.empty() ? std::ssize(all.instructions) : all.repeats.front().begin;
  for (size_t segment = 0; segment < program.segments.size(); ++segment) {
    const SegmentSource &source = program.segments[segment];
    if (source.kind != SegmentSource::Kind::argument ||
        function.arguments[source.index].kind != BlockFunction::ArgumentKind::parameter)
      continue;
    int64_t first = 0;
    while (first < end && std::ranges::none_of(
                              all.instructions[size_t(first)].operands,
                              [&](const plan::Operand &one) { return one.segment == int64_t(segment); }))
      ++first;
    reads_[{func::FuncOp(function.function).getOperation(), function.arguments[source.index].index}] = first;
  }
}

double ShapeBlocks::hidingOfFirst(Operation *function, int64_t instructions) const {
  const auto [hiding, isNew] = hiding_.try_emplace({function, instructions});
  if (isNew) {
    plan::Program before = programs_.at(function);
    before.instructions.resize(size_t(instructions));
    before.repeats.clear();
    const plan::Mesh mesh = meshOf(*module_);
    hiding->second = hidingOf(cost::secondsOf(machine_.cluster(mesh, target_), before));
  }
  return hiding->second;
}

double ShapeBlocks::hidingIn(const BlockFunction &function) const { return hidingOf(timeOf(function)); }

double ShapeBlocks::hidingBefore(const BlockFunction &function, int64_t argument) const {
  Operation *op = func::FuncOp(function.function);
  const auto found = reads_.find({op, argument});
  return found == reads_.end() ? 0 : hidingOfFirst(op, found->second);
}

Region &ShapeBlocks::chainRegion() const { return (*ModuleOp(*module_).getOps<ChainOp>().begin()).getBody(); }

bool ShapeBlocks::hasProgram(const BlockFunction &function) const {
  return function && times_.contains(func::FuncOp(function.function).getOperation());
}

const plan::Program *ShapeBlocks::programOf(const BlockFunction &function) const {
  const auto found = function ? programs_.find(func::FuncOp(function.function).getOperation()) : programs_.end();
  return found == programs_.end() ? nullptr : &found->second;
}

const cost::ProgramTime &ShapeBlocks::timeOf(const BlockFunction &function) const {
  static const cost::ProgramTime none;
  const auto found = times_.find(func::FuncOp(function.function).getOperation());
  return found == times_.end() ? none : found->second;
}

double ShapeBlocks::evenSecondsOf(const BlockFunction &function) const {
  const auto found = evenSeconds_.find(func::FuncOp(function.function).getOperation());
  return found == evenSeconds_.end() ? timeOf(function).seconds() : found->second;
}

} // namespace mgc::planner
