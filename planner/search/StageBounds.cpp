// See StageBounds.h.
#include "planner/search/StageBounds.h"

#include "compiler/assemble/budget/LeastOfStage.h"
#include "plan/cost/InstructionTime.h"

#include <algorithm>

namespace mgc::planner {

namespace {

double seconds(const cost::Cluster &cluster, plan::Collective::Kind kind, plan::DType type, const plan::Axes &axes,
               double slice) {
  if (plan::groupSize(cluster.mesh, axes) < 2)
    return 0;
  plan::Collective body;
  body.kind = kind, body.type = type, body.axes = axes, body.chunk = int64_t(slice);
  return cost::secondsOf(cluster, body);
}

} // namespace

std::vector<StageLeast> stagesOf(const ShapeFacts &facts, const std::vector<int64_t> &cut,
                                 const schedule::Shape &pipeline) {
  std::vector<StageLeast> stages(static_cast<size_t>(pipeline.stages));
  auto next = facts.chain.begin();
  for (size_t chunk = 0; chunk < cut.size(); ++chunk) {
    StageLeast &stage = stages[size_t(pipeline.stageOf(int64_t(chunk)))];
    const bool isFirst = pipeline.chunkOf(int64_t(chunk)) == 0;
    int64_t &kept = stage.kept.emplace_back();
    std::vector<int64_t> instances(facts.blocks.size());
    for (const auto end = next + cut[chunk]; next != end; ++next)
      ++instances[*next];
    for (size_t b = 0; b < instances.size(); ++b) {
      if (instances[b] == 0)
        continue;
      const BlockLeast &block = facts.blocks[b];
      const auto count = double(instances[b]);
      stage.passes += count * block.passes, stage.all += count * block.all;
      stage.unhiding += count * block.unhiding, stage.onNetwork += count * block.onNetwork;
      stage.unexposed += count * block.unexposed, kept += instances[b] * block.kept;
      stage.frame = std::max(stage.frame, block.frame);
      if (isFirst)
        stage.first.forward += count * block.forward, stage.first.passes += count * block.passes;
      for (const auto &[axes, elements] : block.elements)
        stage.elements[axes] += count * elements;
      for (const auto &[axes, elements] : block.reads)
        stage.reads[axes] += count * elements;
    }
  }
  return stages;
}

// A stage begins behind the forwards of a microbatch in the first chunks of those before it, and behind its last backward of its
// first chunk these have theirs. Halves that make gradients of weights alone may come later. The microbatch that begins last, behind
// the forwards of all others in the first chunk, passes all chunks one after another.
double leastSeconds(const std::vector<StageLeast> &stages, int64_t microbatches, bool pairs) {
  double most = 0, before = 0, around = 0, through = 0;
  for (const StageLeast &stage : stages) {
    most = std::max(most,
                    before + double(microbatches) * (pairs ? std::max(stage.unexposed, stage.onNetwork) : stage.all));
    if (!pairs)
      most = std::max(most, around + double(microbatches) * stage.passes);
    before += stage.first.forward, around += stage.first.passes;
    through += pairs ? 0 : stage.passes;
  }
  return std::max(most, double(microbatches - 1) * stages.front().first.forward + through);
}

// From level 2 on each microbatch sums up gradients of units; at level 3 it gathers their values too, for each task that reads some or
// once. Products of layers hide that second for second, and stages wait for the rest.
void addUnits(const frontend::Layout &layout, const cost::Cluster &cluster, std::vector<StageLeast> &stages) {
  if (!layout.hasSlices() || layout.zero < 2 || layout.instances > 1)
    return;
  for (StageLeast &stage : stages) {
    double units = 0;
    for (const auto &[axes, elements] : stage.elements) {
      const auto ranks = double(plan::groupSize(cluster.mesh, axes));
      units += seconds(cluster, plan::Collective::Kind::reduceScatter, layout.gradientType, axes, elements / ranks);
      if (layout.zero > 2)
        units += seconds(cluster, plan::Collective::Kind::allGather, layout.dtype, axes,
                         (layout.reshardsAfterForward ? stage.reads.at(axes) : elements) / ranks);
    }
    const double waiting = std::max(0.0, units + stage.unhiding - stage.all);
    stage.all += waiting, stage.unexposed += waiting;
    if (!layout.splitBackward)
      stage.passes += waiting;
  }
}

// Begin clears gradients, and the update reads and writes what is kept of each element; below level 3 it gathers the values behind
// that, if they are not gathered ahead. Of the stage that has most.
double leastStepEnd(const frontend::Layout &layout, const cost::Cluster &cluster,
                    const std::vector<StageLeast> &stages) {
  const auto rowSeconds = [&](double bytes) {
    plan::RowKernel kernel;
    kernel.bytes = bytes;
    return cost::secondsOf(cluster, kernel);
  };
  const double values = double(plan::sizeInBytes(layout.dtype)),
               gradients = double(plan::sizeInBytes(layout.gradientType));
  double most = 0;
  for (const StageLeast &stage : stages) {
    double cleared = 0, updated = 0, gathering = 0;
    for (const auto &[axes, elements] : stage.elements) {
      const double ranks = double(plan::groupSize(cluster.mesh, axes));
      const double slice = layout.hasSlices() ? elements / ranks : elements;
      cleared += (layout.zero > 1 ? slice : elements) * gradients;
      updated += slice * (gradients + values + 2 * 4); // and one state of f32, at the least
      if (layout.hasSlices() && layout.instances == 1 && layout.zero < 3 && !layout.overlapsParamGather)
        gathering += seconds(cluster, plan::Collective::Kind::allGather, layout.dtype, axes, slice);
    }
    most = std::max(most, rowSeconds(cleared) + rowSeconds(updated) + gathering);
  }
  return most;
}

// Bytes of what is kept of its parameters.
static double stateBytes(const StageLeast &stage, int64_t level, const ElementBytes &ofElement, RanksAlong ranks) {
  double bytes = 0;
  for (const auto &[axes, elements] : stage.elements) {
    const double slice = elements / double(ranks(axes));
    bytes += (level > 2 ? slice : elements) * ofElement.value + (level > 1 ? slice : elements) * ofElement.gradient +
             (level > 0 ? slice : elements) * ofElement.states;
  }
  return bytes;
}

double leastBytes(const std::vector<StageLeast> &stages, int64_t level, const ElementBytes &ofElement, RanksAlong ranks,
                  const InFlight::Counts &inFlight) {
  double most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageLeast &stage = stages[s];
    double bytes = double(stage.frame) + stateBytes(stage, level, ofElement, ranks);
    for (size_t chunk = 0; chunk < stage.kept.size(); ++chunk)
      bytes += double(stage.kept[chunk] * inFlight[s][chunk]);
    most = std::max(most, bytes);
  }
  return most;
}

void addSlowdown(const std::vector<double> &slowdown, bool splits, std::vector<StageLeast> &stages) {
  for (size_t s = 0; s < slowdown.size(); ++s) {
    StageLeast &stage = stages[s];
    stage.all += slowdown[s], stage.unexposed += slowdown[s];
    if (!splits)
      stage.passes += slowdown[s];
  }
}

// A stage by its largest moment: what it keeps of the microbatches that are in flight. Blocks without a choice take what they take.
std::vector<double> leastSlowdown(const ShapeFacts &facts, const std::vector<int64_t> &cut,
                                  const schedule::Shape &pipeline, bool pairs, const std::vector<StageLeast> &stages,
                                  int64_t level, const ElementBytes &ofElement, RanksAlong ranks,
                                  const InFlight::Counts &inFlight, int64_t memory) {
  std::vector<budget::StageLayers> described(stages.size());
  std::vector<double> fastest(stages.size());
  auto next = facts.chain.begin();
  for (size_t chunk = 0; chunk < cut.size(); ++chunk) {
    const auto stage = size_t(pipeline.stageOf(int64_t(chunk)));
    budget::ChunkLayers &own = described[stage].chunks.emplace_back();
    std::map<size_t, int64_t> instances; // by block
    for (const auto end = next + cut[chunk]; next != end; ++next)
      ++instances[*next];
    for (const auto &[block, count] : instances) {
      if (facts.policies[block].empty()) {
        own.kept += count * facts.blocks[block].kept;
        continue;
      }
      budget::Layers &layers = own.layers.emplace_back(budget::Layers{count, {}});
      for (const PolicyFacts &policy : facts.policies[block])
        layers.options.push_back({policy.kept, 0, 0, 0, {pairs ? policy.unexposed : policy.seconds, 0, 0}});
      fastest[stage] += double(count) * (pairs ? facts.blocks[block].unexposed : facts.blocks[block].all);
    }
  }
  std::vector<double> slowdown;
  for (size_t s = 0; s < stages.size(); ++s) {
    budget::StageLayers &stage = described[s];
    stage.bytes = int64_t(stateBytes(stages[s], level, ofElement, ranks)), stage.frame = stages[s].frame;
    stage.ways = {{{0, inFlight[s], std::vector<int64_t>(stage.chunks.size())}}};
    slowdown.push_back(std::max(0.0, budget::leastSeconds(stage, memory) - fastest[s]));
  }
  return slowdown;
}

} // namespace mgc::planner
