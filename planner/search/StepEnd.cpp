// See StepEnd.h.
#include "planner/search/StepEnd.h"

#include "plan/StepScalars.h"
#include "plan/cost/InstructionTime.h"

#include <algorithm>

namespace mgc::planner {

namespace {

using plan::Bucket;
using plan::Collective;
using plan::State;
using plan::StateRole;

class StepPricer {
public:
  StepPricer(const cost::Cluster &cluster, const StageContents &stage) : cluster_(cluster), stage_(stage) {}

  StepEnd run(const std::vector<int64_t> &partOf, int64_t parts) {
    out_.gradients.resize(size_t(parts));
    out_.units.resize(stage_.buckets.size());
    for (size_t b = 0; b < stage_.buckets.size(); ++b) {
      const Bucket &bucket = stage_.buckets[b];
      if (!bucket.isFrozen()) {
        out_.begin += fill(bytesOf(bucket, accumulated(bucket)));
        (partOf[b] < 0 ? out_.reduce : out_.gradients[size_t(partOf[b])]) += completion(bucket);
        addNorm(bucket);
        addUpdate(bucket, stage_.gathers[b]);
      }
      addUnit(b);
    }
    out_.begin += fill(results());
    // Totals of all ranks, the norm's too, are packed, summed up and unpacked; kernels add up the norm's parts, and make clipping's factor.
    constexpr int64_t kTotals = 3;
    if (ranksOf(allAxes()) > 1)
      out_.reduce += 2 * kTotals * copy(kPartBytes);
    out_.reduce += 2 * rows(kPartBytes);
    out_.reduce += collective(Collective::Kind::allReduce, plan::DType::f32, allAxes(), results() / 4);
    return std::move(out_);
  }

private:
  static constexpr int64_t kPartBytes = 4;
  static int64_t results() { return int64_t(plan::kResults.size()) * 4; }

  plan::Axes allAxes() const {
    plan::Axes axes;
    for (const plan::Axis &axis : stage_.mesh.axes)
      axes.push_back(axis.name);
    return axes;
  }
  int64_t ranksOf(const plan::Axes &axes) const { return plan::groupSize(stage_.mesh, axes); }
  int64_t elementsOf(const Bucket &bucket, const State &state) const {
    return bucket.elementsOf(state, ranksOf(bucket.axesOf(state)));
  }
  int64_t bytesOf(const Bucket &bucket, const State *state) const {
    return state ? elementsOf(bucket, *state) * plan::sizeInBytes(state->type) : 0;
  }
  // The gradient that begin clears, and to which microbatches add.
  static const State *accumulated(const Bucket &bucket) {
    return bucket.stateOf(bucket.hasUnitGradients() ? StateRole::gradientSlice : StateRole::gradient);
  }

  double seconds(const plan::InstructionBody &body) const { return cost::secondsOf(cluster_, body); }
  double fill(int64_t bytes) const {
    if (bytes == 0)
      return 0;
    plan::Move move;
    move.kind = plan::Move::Kind::fill;
    move.bytes = bytes;
    return seconds(move);
  }
  double copy(int64_t bytes) const {
    plan::Move move;
    move.kind = plan::Move::Kind::copy;
    move.bytes = bytes;
    return seconds(move);
  }
  double slice(int64_t bytes, const plan::Axes &axes) const {
    plan::Move move;
    move.kind = plan::Move::Kind::slice;
    move.chunkBytes = bytes, move.axes = axes;
    return seconds(move);
  }
  double rows(double bytes) const {
    plan::RowKernel kernel;
    kernel.bytes = bytes;
    return bytes > 0 ? seconds(kernel) : 0;
  }
  double collective(Collective::Kind kind, plan::DType type, const plan::Axes &axes, int64_t chunk,
                    const std::vector<int64_t> &stages = {}) const {
    if (chunk == 0 || (stages.size() < 2 && ranksOf(axes) < 2))
      return 0;
    Collective body;
    body.kind = kind, body.type = type, body.axes = axes, body.chunk = chunk, body.stages = stages;
    return seconds(body);
  }

  // Sums over the axes that are no data axes, over those that share the bucket out, over those that do not, and over a tie's stages.
  double completion(const Bucket &bucket) const {
    const State *gradient = accumulated(bucket);
    if (!gradient)
      return 0;
    const plan::DType type = gradient->type;
    int64_t elements = elementsOf(bucket, *gradient);
    double all = collective(Collective::Kind::allReduce, type, bucket.reduceAxes, elements);
    plan::Axes others;
    std::ranges::copy_if(bucket.dataAxes, std::back_inserter(others), [&](const std::string &axis) {
      return std::ranges::find(bucket.shardAxes, axis) == bucket.shardAxes.end();
    });
    if (bucket.isSharded() && !bucket.hasUnitGradients()) {
      elements /= ranksOf(bucket.shardAxes);
      all += collective(Collective::Kind::reduceScatter, type, bucket.shardAxes, elements);
    }
    if (!bucket.outerAxes.empty()) {
      elements /= ranksOf(bucket.outerAxes);
      all += collective(Collective::Kind::reduceScatter, type, bucket.outerAxes, elements);
    } else {
      all += collective(Collective::Kind::allReduce, type, others, elements);
    }
    return all + collective(Collective::Kind::allReduce, type, {}, elements, bucket.tiedStages);
  }

  void addNorm(const Bucket &bucket) {
    if (bucket.use != plan::BucketUse::trained)
      return;
    const int64_t bytes = bytesOf(bucket, bucket.completeGradient());
    out_.reduce += rows(double(bytes));
    // The parts are added up by another kernel, and where other ranks have the same gradient all but one of them count zero.
    const int64_t parts = ranksOf(bucket.splitAxes) * ranksOf(bucket.axesOfUpdate());
    out_.reduce += parts * plan::stageCount(stage_.mesh) < ranksOf(allAxes()) ? rows(kPartBytes) + copy(kPartBytes) : 0;
  }

  // Reads and writes what the update has of the bucket; values of which the rank has a slice alone are gathered later.
  void addUpdate(const Bucket &bucket, GatherTime gather) {
    if (bucket.isCounter())
      return;
    double bytes = double(bytesOf(bucket, bucket.completeGradient()));
    const State *value = bucket.stateOf(StateRole::value);
    for (const State &state : bucket.states)
      if (state.role == StateRole::master || state.role == StateRole::optimizer)
        bytes += 2 * double(bytesOf(bucket, &state));
    const int64_t part = elementsOfUpdate(bucket);
    const int64_t valueBytes = part * plan::sizeInBytes(value->type);
    bytes += double(valueBytes) * (bucket.has(StateRole::master) ? 1 : 2);
    out_.update += rows(bytes);
    if (!bucket.has(StateRole::master) && elementsOf(bucket, *value) > part)
      out_.update += slice(valueBytes, bucket.axesOfUpdate());
    plan::Axes axes = bucket.outerAxes;
    if (gather == GatherTime::never)
      axes = bucket.axesOfUpdate();
    const double gathering = collective(Collective::Kind::allGather, value->type, axes, part);
    out_.update += gathering;
    if (gathering > 0)
      out_.frame += plan::aligned(valueBytes);
  }
  int64_t elementsOfUpdate(const Bucket &bucket) const { return bucket.elements / ranksOf(bucket.axesOfUpdate()); }

  void addUnit(size_t b) {
    const Bucket &bucket = stage_.buckets[b];
    UnitSeconds &unit = out_.units[b];
    const int64_t slice = bucket.unitElements() / ranksOf(bucket.shardAxes);
    const State *value = bucket.stateOf(StateRole::value);
    if (bucket.has(StateRole::unitValue) || bucket.has(StateRole::gatheredValue))
      unit.gather = collective(Collective::Kind::allGather, value->type, bucket.shardAxes, slice);
    if (!bucket.hasUnitGradients())
      return;
    const State *gradient = bucket.stateOf(StateRole::unitGradient);
    const int64_t width = plan::sizeInBytes(gradient->type);
    unit.clear = fill(bucket.unitElements() * width);
    unit.sum = collective(Collective::Kind::reduceScatter, gradient->type, bucket.shardAxes, slice);
    unit.accumulate = rows(double(slice * (width + 2 * 4)));
  }

  const cost::Cluster &cluster_;
  const StageContents &stage_;
  StepEnd out_;
};

} // namespace

StepEnd stepEndOf(const cost::Cluster &cluster, const StageContents &stage, const std::vector<int64_t> &partOf,
                  int64_t parts) {
  return StepPricer(cluster, stage).run(partOf, parts);
}

} // namespace mgc::planner
