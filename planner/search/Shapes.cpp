// See Shapes.h.
#include "planner/search/Shapes.h"

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/step/BlockParameters.h"

#include <algorithm>
#include <set>

namespace mgc::planner {

namespace {

constexpr size_t kMostKept = 48; // shapes of some MB each

using Names = std::set<std::pair<std::string, std::string>>; // tensor, part

// Parameters of several blocks, which a stage may have once: they are in no bound.
Names sharedParameters(const ShapeBlocks &shape) {
  Names seen, shared;
  for (const auto &[name, work] : shape.works())
    if (const ModelBlock &block = shape.blocks().at(name); block.base == block.name)
      for (const BlockParameter &parameter : work.parameters)
        if (!seen.insert({parameter.tensor, parameter.part}).second)
          shared.insert({parameter.tensor, parameter.part});
  return shared;
}

BlockLeast leastOf(const ShapeBlocks &shape, const ModelBlock &block, const Names &shared) {
  const auto secondsOf = [&](const BlockFunction &function) { return shape.timeOf(function).seconds(); };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  BlockLeast least{kNone, kNone, kNone, 0, 0, std::numeric_limits<int64_t>::max(), {}};
  for (const ModelBlock *variant : shape.blocks().variantsOf(block)) {
    double exposed = 0, small = 0;
    for (const BlockFunction *function : variant->functions()) {
      exposed += cost::total(shape.timeOf(*function).exposed);
      small += shape.smallProductsIn(*function);
    }
    least.exposed = std::max(least.exposed, exposed), least.small = std::max(least.small, small);
    least.forward = std::min(least.forward, secondsOf(variant->forward));
    least.backward = std::min(least.backward, secondsOf(variant->backward) + secondsOf(variant->input));
    least.weight = std::min(least.weight, secondsOf(variant->weight));
    least.kept = std::min(least.kept, ChunkLayout::keptBytes(*variant));
  }
  if (trainingOf(shape.module()).recomputeLayers > 1) // a unit keeps what enters its first layer alone
    least.kept = 0;
  for (const BlockParameter &parameter : shape.works().at(block.name).parameters)
    if (parameter.key.use == plan::BucketUse::trained && !shared.contains({parameter.tensor, parameter.part}))
      least.elements[parameter.key.data] += double(parameter.elements);
  return least;
}

ShapeFacts factsOf(const ShapeBlocks &shape) {
  ShapeFacts facts;
  const Names shared = sharedParameters(shape);
  std::map<const ModelBlock *, size_t> known;
  const std::vector<Instance> chain = shape.chain();
  for (const Instance &instance : chain) {
    const auto [number, isNew] = known.try_emplace(instance.block, facts.blocks.size());
    if (isNew)
      facts.blocks.push_back(leastOf(shape, *instance.block, shared));
    facts.chain.push_back(number->second);
  }
  facts.cost = costOf(chain, shape.works(), trainingOf(shape.module()), shardingOf(shape.module()));
  facts.cost.costs.states.clear(), facts.cost.costs.kept.clear(); // they part equal cuts alone
  return facts;
}

ShapeWork workOf(const ShapeFacts &facts, const ShapeSizes &sizes) {
  ShapeWork work;
  for (const size_t block : facts.chain) {
    const BlockLeast &least = facts.blocks[block];
    const double all = least.forward + least.backward + least.weight;
    work.all += all, work.unexposed += std::max(0.0, all - least.exposed);
    work.small += least.small;
    work.elements += least.allElements();
  }
  const double devices = double(sizes.tp * sizes.cp) / double(sizes.mbs);
  work.all *= devices, work.unexposed *= devices, work.small *= devices;
  return work;
}

} // namespace

bool ShapeSizes::bounds(const ShapeSizes &other) const {
  const auto divides = [](int64_t a, int64_t b) { return b % a == 0; };
  // Samples of a rank: mbs / cp.
  return splitsBackward == other.splitsBackward && divides(tp, other.tp) && divides(cp, other.cp) && ep == other.ep &&
         etp == other.etp && divides(other.mbs * cp, mbs * other.cp);
}

int64_t Shapes::numberOf(const ShapeSizes &sizes) {
  const auto [number, isNew] = numbers_.try_emplace(sizes, std::ssize(shapes_));
  if (isNew)
    shapes_.push_back({sizes, {}, {}, {}});
  return number->second;
}

Result<const ShapeBlocks *> Shapes::get(int64_t shape, const frontend::LayoutOptions &options) {
  const auto found = std::ranges::find(kept_, shape, &Kept::shape);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().blocks.get();
  }
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<MgDialect, mlir::func::FuncDialect>();
  MGC_ASSIGN(blocks, ShapeBlocks::compile(*context, options, make_, machine_));
  ++compiled_;
  Shape &known = shapes_[size_t(shape)];
  if (!known.facts) {
    known.facts = std::make_unique<ShapeFacts>(planner::factsOf(*blocks));
    known.work = planner::workOf(*known.facts, known.sizes);
  }
  kept_.push_front({shape, std::move(context), std::move(blocks)});
  if (kept_.size() > kMostKept)
    kept_.pop_back();
  return kept_.front().blocks.get();
}

const std::vector<int64_t> &Shapes::cutOf(int64_t shape, int64_t chunks) {
  ShapeFacts &facts = *shapes_[size_t(shape)].facts;
  const auto [cut, isNew] = facts.cuts.try_emplace(chunks);
  if (isNew)
    cut->second = balancedChunks(facts.cost, std::ssize(facts.chain), chunks);
  return cut->second;
}

std::optional<ShapeWork> Shapes::workOf(int64_t number) const {
  const Shape &shape = shapes_[size_t(number)];
  if (shape.work)
    return shape.work;
  std::optional<ShapeWork> bound;
  for (const Shape &other : shapes_) {
    if (!other.work || !other.sizes.bounds(shape.sizes))
      continue;
    ShapeWork work = *other.work;
    work.all -= work.small, work.unexposed -= work.small;
    work.elements *= double(other.sizes.tp) / double(shape.sizes.tp);
    if (!bound)
      bound = work;
    bound->all = std::max(bound->all, work.all);
    bound->unexposed = std::max(bound->unexposed, work.unexposed);
    bound->elements = std::max(bound->elements, work.elements);
  }
  return bound;
}

} // namespace mgc::planner
