// See MemoryOverTime.h.
#include "plan/cost/MemoryOverTime.h"

#include "plan/Expand.h"

#include <algorithm>
#include <map>
#include <set>

namespace mgc::cost {

using plan::ExpandedStep;
using plan::StagePlan;

namespace {

struct HeldTime {
  double begin = 0, end = 0; // seconds
};

class MemoryPlayer {
public:
  MemoryPlayer(const StagePlan &stage, const std::vector<plan::Program> &programs)
      : stage_(stage), programs_(programs), deltas_(stage.regions.size()) {
    for (const plan::Input &input : stage.inputs)
      inputs_.insert(input.ring);
    for (const plan::Chunk &chunk : stage.chunks)
      frames_.push_back(frameOf(chunk));
  }

  void play(const ExpandedStep &step, HeldTime span, double done) {
    if (step.kind != ExpandedStep::Kind::run)
      return extend(ringOf(step), step.microbatch, {span.begin, done});
    const Frame &frame = frames_[step.chunk];
    hold(frame.region, frame.bytes, span);
    if (step.microbatch >= 0)
      for (const int64_t ring : stage_.chunks[step.chunk].slots)
        extend(ring, step.microbatch, {span.begin, done});
  }

  std::vector<MemoryCurve> take() {
    for (const auto &[value, span] : values_)
      hold(regionAt(stage_.rings[value.first].offset), stage_.rings[value.first].bytes, span);
    std::vector<MemoryCurve> curves;
    for (size_t region = 0; region < stage_.regions.size(); ++region)
      if (stage_.hostBytes == 0 || !stage_.isOnHost(stage_.regions[region].offset))
        add(curves, region);
    return curves;
  }

private:
  struct Frame {
    int64_t region = -1, bytes = 0;
  };

  // -1: the value is in no region.
  int64_t regionAt(int64_t offset) const {
    const auto found = std::ranges::find_if(stage_.regions, [&](const plan::Region &region) {
      return region.offset <= offset && offset < region.offset + region.bytes;
    });
    return found == stage_.regions.end() ? -1 : found - stage_.regions.begin();
  }

  Frame frameOf(const plan::Chunk &chunk) const {
    Frame frame;
    for (const plan::Call &call : chunk.calls) {
      const plan::Program &program = programs_[call.program];
      if (program.frame >= 0 && program.segmentBytes[program.frame] > frame.bytes)
        frame = {regionAt(call.segments[program.frame].offset), program.segmentBytes[program.frame]};
    }
    return frame;
  }

  int64_t ringOf(const ExpandedStep &transfer) const {
    const auto found = std::ranges::find_if(stage_.rings, [&](const plan::Ring &ring) {
      return ring.peer == transfer.peer && ring.value == transfer.value &&
             ring.offsetOf(transfer.microbatch) == transfer.offset;
    });
    return found == stage_.rings.end() ? -1 : found - stage_.rings.begin();
  }

  void extend(int64_t ring, int64_t microbatch, HeldTime span) {
    if (ring < 0 || inputs_.contains(ring))
      return;
    const auto [value, isNew] = values_.try_emplace({ring, microbatch}, span);
    value->second = {std::min(value->second.begin, span.begin), std::max(value->second.end, span.end)};
  }

  void hold(int64_t region, int64_t bytes, HeldTime span) {
    if (region < 0 || bytes == 0)
      return;
    deltas_[region][span.begin] += bytes;
    deltas_[region][span.end] -= bytes;
  }

  // Regions of one kind are one curve. A region that is not reused over time is held whole.
  void add(std::vector<MemoryCurve> &curves, size_t region) {
    std::map<double, int64_t> deltas = std::move(deltas_[region]);
    if (deltas.empty())
      deltas[0] = stage_.regions[region].bytes;
    const std::string &kind = stage_.regions[region].kind;
    const auto same = std::ranges::find(curves, kind, &MemoryCurve::kind);
    MemoryCurve &curve = same == curves.end() ? curves.emplace_back(MemoryCurve{kind, {}}) : *same;
    int64_t before = 0;
    for (const auto &[seconds, bytes] : curve.changes)
      deltas[seconds] += bytes - std::exchange(before, bytes);
    curve.changes = {{0, 0}};
    for (int64_t held = 0; const auto &[seconds, delta] : deltas)
      if (delta != 0) {
        held += delta;
        if (seconds > 0)
          curve.changes.push_back({seconds, held});
        else
          curve.changes.back().bytes = held;
      }
  }

  const StagePlan &stage_;
  const std::vector<plan::Program> &programs_;
  std::set<int64_t> inputs_;                               // rings that the runtime fills before the step
  std::vector<Frame> frames_;                              // by chunk
  std::map<std::pair<int64_t, int64_t>, HeldTime> values_; // by ring and microbatch
  std::vector<std::map<double, int64_t>> deltas_;          // by region: bytes more from then on
};

} // namespace

std::vector<MemoryCurve> memoryOverTime(const StagePlan &stage, const std::vector<plan::Program> &programs,
                                        const schedule::StepTimes &times) {
  MemoryPlayer player(stage, programs);
  const std::vector<ExpandedStep> steps = plan::expandedSchedule(stage);
  for (size_t i = 0; i < steps.size(); ++i)
    player.play(steps[i], {times.start[i], times.end[i]}, times.done[i]);
  return player.take();
}

} // namespace mgc::cost
