// See ShapeBlocks.h.
#include "planner/search/ShapeBlocks.h"

#include "compiler/Phases.h"
#include "dialects/mg/Target.h"
#include "plan/Expand.h"
#include "plan/cost/InstructionTime.h"

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

bool fillsDevice(const cost::Machine &machine, const plan::ProductSizes &sizes) {
  return std::ranges::all_of(machine.products.tiles, [&](const cost::ProductTile &tile) {
    const auto tilesOf = [](int64_t size, int64_t edge) { return (size + edge - 1) / edge; };
    return sizes.count * tilesOf(sizes.m, std::max(tile.m, tile.n)) * tilesOf(sizes.n, std::max(tile.m, tile.n)) >=
           machine.products.units;
  });
}

// Seconds if all units were at work from begin to end: parts of the product take as long at the least.
double atFullDevice(const cost::Machine &machine, const plan::Work &work) {
  const auto &[m, n, k, count] = work.product;
  const double peak = work.type == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
  double least = std::numeric_limits<double>::infinity();
  for (const cost::ProductTile &tile : machine.products.tiles)
    for (const auto &[rows, columns] : {std::pair(tile.m, tile.n), std::pair(tile.n, tile.m)}) {
      const auto whole = [](int64_t size, int64_t edge) { return double((size + edge - 1) / edge * edge); };
      const double depth = double(k) + machine.products.startDepth;
      least = std::min(least, 2 * double(count) * whole(m, rows) * whole(n, columns) * depth / (peak * tile.fraction));
    }
  return machine.launch + least;
}

double smallProductsOf(const cost::Cluster &cluster, const plan::Program &program) {
  double excess = 0;
  plan::forEachRun(program.instructions.size(), program.repeats, [&](int64_t number, int64_t) {
    const plan::InstructionBody &body = program.instructions[size_t(number)].body;
    if (kindOf(body) != plan::WorkKind::product)
      return;
    const plan::Work work = workOf(cluster.mesh, body);
    if (!fillsDevice(cluster.machine, work.product))
      excess += std::max(0.0, cost::secondsOf(cluster, body, work) - atFullDevice(cluster.machine, work));
  });
  return excess;
}

} // namespace

Result<std::unique_ptr<ShapeBlocks>> ShapeBlocks::compile(MLIRContext &context, const frontend::LayoutOptions &options,
                                                          const MakeModule &make, const cost::Machine &machine) {
  auto out = std::make_unique<ShapeBlocks>();
  MGC_SET(out->module_, make(context, options));
  MGC_TRY(runPhasesOfBlocks(*out->module_, "local"));
  MGC_ASSIGN(logical, blocksOf(*out->module_));
  for (const auto &[name, block] : logical)
    out->works_.emplace(name, workOf(block));
  MGC_TRY(runPhasesOfBlocks(*out->module_, ""));
  MGC_TRY(out->read(machine));
  return out;
}

Status ShapeBlocks::read(const cost::Machine &machine) {
  MGC_SET(blocks_, blocksOf(*module_));
  target_ = targetOf(*module_);
  const plan::Mesh mesh = meshOf(*module_);
  const cost::Cluster cluster{machine, mesh, target_};
  KernelGraphs graphs;
  for (const auto &[name, block] : *blocks_)
    for (const BlockFunction *function : block.functions()) {
      const std::string symbol = nameOf(*function);
      MGC_ASSIGN(frame, placeFrame(function->function));
      if (!llvm::hasSingleElement(func::FuncOp(function->function).getBody().front())) {
        MGC_ASSIGN(program, assembleProgram(function->function, frame, function, 0, graphs));
        mlir::Operation *op = func::FuncOp(function->function);
        times_[op] = cost::secondsOf(cluster, program.program);
        smallProducts_[op] = smallProductsOf(cluster, program.program);
        addHiding(cluster, *function, program);
        programs_[op] = std::move(program.program);
      }
      frames_[symbol].bytes = frame.bytes, frames_[symbol].leastBytes = frame.leastBytes;
    }
  return Status::ok();
}

static double hidingOf(const cost::ProgramTime &time) {
  return std::max(0.0, time.products + time.attention - cost::total(time.hidden));
}

// Before repeated instructions alone.
void ShapeBlocks::addHiding(const cost::Cluster &cluster, const BlockFunction &function,
                            const AssembledProgram &program) {
  const plan::Program &all = program.program;
  const auto end = all.repeats.empty() ? std::ssize(all.instructions) : all.repeats.front().begin;
  std::map<int64_t, double> known; // by number of instructions
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
    const auto [hiding, isNew] = known.try_emplace(first);
    if (isNew) {
      plan::Program before = all;
      before.instructions.resize(size_t(first));
      before.repeats.clear();
      hiding->second = hidingOf(cost::secondsOf(cluster, before));
    }
    hiding_[{func::FuncOp(function.function).getOperation(), function.arguments[source.index].index}] = hiding->second;
  }
}

double ShapeBlocks::smallProductsIn(const BlockFunction &function) const {
  const auto found =
      function ? smallProducts_.find(func::FuncOp(function.function).getOperation()) : smallProducts_.end();
  return found == smallProducts_.end() ? 0 : found->second;
}

double ShapeBlocks::hidingIn(const BlockFunction &function) const { return hidingOf(timeOf(function)); }

double ShapeBlocks::hidingBefore(const BlockFunction &function, int64_t argument) const {
  const auto found = hiding_.find({func::FuncOp(function.function).getOperation(), argument});
  return found == hiding_.end() ? 0 : found->second;
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

} // namespace mgc::planner
