// See ShapeFacts.h.
#include "planner/search/ShapeFacts.h"

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/step/BlockParameters.h"

#include <algorithm>
#include <set>

namespace mgc::planner {

void BlockLeast::lessen(double share) {
  const double less = share * all;
  for (double *part : {&forward, &passes, &all, &unhiding, &unexposed, &onNetwork})
    *part = std::max(0.0, *part - less);
  for (auto *counts : {&elements, &reads})
    for (auto &[axes, count] : *counts)
      count *= 1 - share;
  for (int64_t *bytes : {&kept, &frame})
    *bytes -= int64_t(share * double(*bytes));
}

BlockLeast leastOf(std::span<const VariantFacts> variants) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  BlockLeast least{kNone,
                   kNone,
                   kNone,
                   kNone,
                   kNone,
                   kNone,
                   std::numeric_limits<int64_t>::max(),
                   std::numeric_limits<int64_t>::max(),
                   {},
                   {}};
  for (const VariantFacts &variant : variants) {
    double unexposed = 0, unhiding = 0, onNetwork = 0;
    std::array<double, plan::kBlockTasks.size()> seconds = {};
    for (size_t task = 0; task < seconds.size(); ++task)
      if (const cost::ProgramTime *time = variant.times[task]) {
        seconds[task] = time->seconds();
        unexposed -= cost::total(time->exposed);
        onNetwork += cost::total(time->exposed) + cost::total(time->hidden) + time->rows + time->moves;
        unhiding += time->seconds() - hidingOf(*time);
      }
    const auto [forward, backward, input, weight] = seconds;
    least.forward = std::min(least.forward, forward);
    least.passes = std::min(least.passes, forward + backward + input);
    least.all = std::min(least.all, forward + backward + input + weight);
    least.unhiding = std::min(least.unhiding, unhiding);
    least.unexposed = std::min(least.unexposed, forward + backward + input + weight + unexposed);
    least.onNetwork = std::min(least.onNetwork, onNetwork);
    least.kept = std::min(least.kept, variant.kept), least.frame = std::min(least.frame, variant.frame);
  }
  return least;
}

std::vector<PolicyFacts> policiesOf(std::span<const VariantFacts> variants) {
  std::vector<PolicyFacts> all, best;
  for (const VariantFacts &variant : variants) {
    const BlockLeast only = leastOf(std::span(&variant, 1));
    all.push_back({only.all, only.unexposed, only.kept});
  }
  std::ranges::sort(all, {}, [](const PolicyFacts &one) { return std::tuple(one.seconds, one.unexposed, one.kept); });
  for (const PolicyFacts &one : all)
    if (std::ranges::none_of(
            best, [&](const PolicyFacts &other) { return other.unexposed <= one.unexposed && other.kept <= one.kept; }))
      best.push_back(one);
  return best;
}

namespace {

using Names = std::set<std::pair<std::string, std::string>>; // tensor, part

Names sharedParameters(const ShapeBlocks &shape) {
  Names seen, shared;
  for (const auto &[name, work] : shape.works())
    if (const ModelBlock &block = shape.blocks().at(name); block.base == block.name)
      for (const BlockParameter &parameter : work.parameters)
        if (!seen.insert({parameter.tensor, parameter.part}).second)
          shared.insert({parameter.tensor, parameter.part});
  return shared;
}

// Functions of the block that read the parameter which is its forward's argument; of the policy with the fewest.
int64_t readsOf(const ShapeBlocks &shape, const ModelBlock &block, int64_t argument) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ModelBlock *variant : shape.blocks().variantsOf(block)) {
    const std::vector<const BlockFunction *> functions = variant->functions();
    least = std::min<int64_t>(
        least, std::ranges::count_if(functions, [&](const BlockFunction *function) {
          return shape.hasProgram(*function) &&
                 std::ranges::any_of(function->arguments, [&](const BlockFunction::Argument &taken) {
                   return taken.kind == BlockFunction::ArgumentKind::parameter && taken.index == argument;
                 });
        }));
  }
  return least;
}

} // namespace

std::vector<std::vector<CountedParameter>> countedParametersOf(const ShapeBlocks &shape,
                                                               std::span<const ModelBlock *const> blocks) {
  const Names shared = sharedParameters(shape);
  std::vector<std::vector<CountedParameter>> all;
  for (const ModelBlock *block : blocks) {
    std::vector<CountedParameter> &own = all.emplace_back();
    for (const BlockParameter &parameter : shape.works().at(block->name).parameters)
      if (parameter.key.use == plan::BucketUse::trained && !shared.contains({parameter.tensor, parameter.part}))
        own.push_back({parameter.key.data, parameter.elements, readsOf(shape, *block, parameter.argument)});
  }
  return all;
}

std::vector<const ModelBlock *> blocksOfChain(const ShapeBlocks &shape) {
  std::vector<const ModelBlock *> blocks;
  for (const Instance &instance : shape.chain())
    if (std::ranges::find(blocks, instance.block) == blocks.end())
      blocks.push_back(instance.block);
  return blocks;
}

// Units of several layers keep what enters their first layer alone.
static bool hasUnits(const ShapeBlocks &shape) { return trainingOf(shape.module()).recomputeLayers > 1; }

std::vector<int64_t> keptSizesOf(const ShapeBlocks &shape, const ModelBlock &variant) {
  return hasUnits(shape) ? std::vector<int64_t>() : ChunkLayout::keptSizes(variant);
}

std::vector<VariantFacts> variantsOf(const ShapeBlocks &shape, const ModelBlock &block) {
  std::vector<VariantFacts> variants;
  for (const ModelBlock *variant : shape.blocks().variantsOf(block)) {
    VariantFacts &facts = variants.emplace_back();
    for (size_t task = 0; task < plan::kBlockTasks.size(); ++task)
      if (const BlockFunction *function = variant->functionOf(plan::kBlockTasks[task]);
          function && shape.hasProgram(*function)) {
        facts.times[task] = &shape.timeOf(*function);
        facts.frame = std::max(facts.frame, shape.frameOf(*function).bytes);
      }
    facts.kept = hasUnits(shape) ? 0 : ChunkLayout::keptBytes(*variant);
  }
  return variants;
}

ShapeFacts factsOf(const ShapeBlocks &shape) {
  ShapeFacts facts;
  const std::vector<const ModelBlock *> blocks = blocksOfChain(shape);
  const std::vector<std::vector<CountedParameter>> parameters = countedParametersOf(shape, blocks);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::vector<VariantFacts> variants = variantsOf(shape, *blocks[b]);
    BlockLeast &least = facts.blocks.emplace_back(leastOf(variants));
    facts.policies.push_back(variants.size() > 1 && !blocks[b]->returnsLoss() ? policiesOf(variants)
                                                                              : std::vector<PolicyFacts>());
    for (const CountedParameter &parameter : parameters[b]) {
      least.elements[parameter.axes] += double(parameter.elements);
      least.reads[parameter.axes] += double(parameter.reads * parameter.elements);
    }
  }
  const std::vector<Instance> chain = shape.chain();
  for (const Instance &instance : chain)
    facts.chain.push_back(size_t(std::ranges::find(blocks, instance.block) - blocks.begin()));
  facts.cost = costOf(chain, shape.works(), trainingOf(shape.module()), shardingOf(shape.module()));
  // Without these, equal cuts are parted otherwise, if layers that work as much have other parameters: bounds by one of these cuts are
  // taken for those by the other.
  facts.cost.costs.states.clear(), facts.cost.costs.kept.clear();
  return facts;
}

void takeLeast(ShapeFacts &facts, const ShapeFacts &other) {
  for (size_t b = 0; b < facts.blocks.size(); ++b) {
    BlockLeast &one = facts.blocks[b];
    const BlockLeast &two = other.blocks[b];
    for (double BlockLeast::*part : {&BlockLeast::forward, &BlockLeast::passes, &BlockLeast::all, &BlockLeast::unhiding,
                                     &BlockLeast::unexposed, &BlockLeast::onNetwork})
      one.*part = std::min(one.*part, two.*part);
    one.kept = std::min(one.kept, two.kept), one.frame = std::min(one.frame, two.frame);
    for (auto &[axes, reads] : one.reads)
      reads = std::min(reads, two.reads.at(axes));
  }
}

} // namespace mgc::planner
