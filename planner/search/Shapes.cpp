// See Shapes.h.
#include "planner/search/Shapes.h"

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/step/BlockParameters.h"

#include <algorithm>

namespace mgc::planner {

namespace {

constexpr size_t kMostKept = 48; // shapes of some MB each

BlockLeast leastOf(const ShapeBlocks &shape, const ModelBlock &block) {
  const auto secondsOf = [&](const BlockFunction &function) { return shape.timeOf(function).seconds(); };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  BlockLeast least{kNone, kNone, kNone, std::numeric_limits<int64_t>::max()};
  for (const ModelBlock *variant : shape.blocks().variantsOf(block)) {
    least.forward = std::min(least.forward, secondsOf(variant->forward));
    least.backward = std::min(least.backward, secondsOf(variant->backward) + secondsOf(variant->input));
    least.weight = std::min(least.weight, secondsOf(variant->weight));
    least.kept = std::min(least.kept, ChunkLayout::keptBytes(*variant));
  }
  for (const BlockParameter &parameter : shape.works().at(block.name).parameters)
    if (parameter.key.use == plan::BucketUse::trained)
      least.elements[parameter.key.data] += double(parameter.elements);
  return least;
}

ShapeFacts factsOf(const ShapeBlocks &shape) {
  ShapeFacts facts;
  std::map<const ModelBlock *, size_t> known;
  const std::vector<Instance> chain = shape.chain();
  for (const Instance &instance : chain) {
    const auto [number, isNew] = known.try_emplace(instance.block, facts.blocks.size());
    if (isNew)
      facts.blocks.push_back(leastOf(shape, *instance.block));
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
    work.all += least.forward + least.backward + least.weight;
    work.elements += least.allElements();
  }
  work.all *= double(sizes.tp * sizes.cp) / double(sizes.mbs);
  return work;
}

} // namespace

bool ShapeSizes::bounds(const ShapeSizes &other) const {
  const auto divides = [](int64_t a, int64_t b) { return b % a == 0; };
  // Samples of a rank: mbs / cp.
  return splitsBackward == other.splitsBackward && divides(tp, other.tp) && divides(cp, other.cp) &&
         divides(ep, other.ep) && divides(etp, other.etp) && divides(other.mbs * cp, mbs * other.cp);
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
    const auto shareOf = [](int64_t whole, int64_t part) { return double(whole) / double(part); };
    work.elements *= shareOf(other.sizes.tp, shape.sizes.tp) *
                     std::min(1.0, shareOf(other.sizes.ep * other.sizes.etp * shape.sizes.tp,
                                           shape.sizes.ep * shape.sizes.etp * other.sizes.tp));
    if (!bound)
      bound = work;
    bound->all = std::max(bound->all, work.all);
    bound->elements = std::max(bound->elements, work.elements);
  }
  return bound;
}

} // namespace mgc::planner
