// See Shapes.h.
#include "planner/search/Shapes.h"

#include <algorithm>

namespace mgc::planner {

namespace {

constexpr size_t kMostKept = 48; // of some MB each

ShapeWork workOf(const ShapeBlocks &shape, const ShapeSizes &sizes) {
  const auto leastOf = [&](const ModelBlock &block, auto &&secondsOf) {
    double least = std::numeric_limits<double>::infinity();
    for (const ModelBlock *variant : shape.blocks().variantsOf(block))
      least = std::min(least, secondsOf(*variant));
    return least;
  };
  const auto forwardOf = [&](const ModelBlock &block) { return shape.timeOf(block.forward).seconds(); };
  const auto backwardOf = [&](const ModelBlock &block) {
    return shape.timeOf(block.backward).seconds() + shape.timeOf(block.input).seconds() +
           shape.timeOf(block.weight).seconds();
  };
  ShapeWork work{0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  std::map<const ModelBlock *, std::pair<double, double>> known;
  for (const Instance &instance : shape.chain()) {
    const auto [entry, isNew] = known.try_emplace(instance.block);
    auto &[forward, backward] = entry->second;
    if (isNew)
      forward = leastOf(*instance.block, forwardOf), backward = leastOf(*instance.block, backwardOf);
    work.all += forward + backward;
    if (!instance.block->stack.empty()) {
      ++work.layers;
      work.layerForward = std::min(work.layerForward, forward);
      work.layerBackward = std::min(work.layerBackward, backward);
    }
    for (const BlockParameter &parameter : shape.works().at(instance.block->name).parameters)
      work.elements += double(parameter.elements);
  }
  const double devices = double(sizes.tp * sizes.cp) / double(sizes.mbs);
  work.all *= devices, work.layerForward *= devices, work.layerBackward *= devices;
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
    shapes_.push_back({sizes, {}, {}});
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
  shapes_[size_t(shape)].work = planner::workOf(*blocks, shapes_[size_t(shape)].sizes);
  kept_.push_front({shape, std::move(context), std::move(blocks)});
  if (kept_.size() > kMostKept)
    kept_.pop_back();
  return kept_.front().blocks.get();
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
    bound->layerForward = std::max(bound->layerForward, work.layerForward);
    bound->layerBackward = std::max(bound->layerBackward, work.layerBackward);
    bound->elements = std::max(bound->elements, work.elements);
  }
  return bound;
}

} // namespace mgc::planner
