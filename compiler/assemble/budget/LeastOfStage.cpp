// See LeastOfStage.h.
#include "compiler/assemble/budget/LeastOfStage.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace mgc::budget {
namespace {

// A change of layers to a policy that is smaller, in the order in which it pays.
struct PolicyStep {
  double seconds = 0, bytes = 0; // more, and fewer, of one layer
  int64_t count = 0;
};

// One moment of a stage, as a sum over layers.
class Relaxation {
public:
  Relaxation(const StageLayers &stage, const Moment &moment) {
    const auto chunks = double(stage.chunks.size());
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      const ChunkLayers &chunk = stage.chunks[c];
      // Slots that chunks share are as large as the largest, and so as the mean.
      const double kept = double(moment.kept[c]) + double(moment.sharedKept) / chunks,
                   split = double(moment.split[c]) + double(moment.sharedSplit) / chunks;
      bytes_ += kept * double(chunk.kept) + split * double(chunk.split);
      seconds_ += sumOf(chunk.seconds);
      for (const Layers &layers : chunk.layers)
        add(layers, kept, split);
    }
    std::ranges::sort(steps_, {}, [](const PolicyStep &step) { return step.seconds / step.bytes; });
  }

  double bytes() const { return bytes_; } // bytes of the fastest
  double secondsIn(double room) const {
    double bytes = bytes_, seconds = seconds_;
    for (const PolicyStep &step : steps_) {
      if (bytes <= room)
        return seconds;
      const double part = std::min(double(step.count), (bytes - room) / step.bytes);
      bytes -= part * step.bytes, seconds += part * step.seconds;
    }
    return bytes <= room * (1 + 1e-12) ? seconds : std::numeric_limits<double>::infinity();
  }

private:
  // The lower convex hull of what the options take, from the fastest on.
  void add(const Layers &layers, double kept, double split) {
    std::vector<std::pair<double, double>> points; // seconds, bytes
    for (const Option &option : layers.options)
      points.emplace_back(sumOf(option.seconds), kept * double(option.kept) + split * double(option.split));
    if (points.empty())
      return;
    std::ranges::sort(points);
    std::pair<double, double> now = points.front();
    seconds_ += double(layers.count) * now.first, bytes_ += double(layers.count) * now.second;
    while (true) {
      std::optional<std::pair<double, double>> next;
      const auto price = [&](const auto &point) { return (point.first - now.first) / (now.second - point.second); };
      for (const auto &point : points)
        if (point.second < now.second && (!next || price(point) <= price(*next)))
          next = point;
      if (!next)
        return;
      steps_.push_back({next->first - now.first, now.second - next->second, layers.count});
      now = *next;
    }
  }

  double bytes_ = 0, seconds_ = 0;
  std::vector<PolicyStep> steps_;
};

int64_t leastFrame(const StageLayers &stage) {
  int64_t frame = stage.frame, forwardFrame = stage.forwardFrame;
  for (const ChunkLayers &chunk : stage.chunks)
    for (const Layers &layers : chunk.layers)
      if (!layers.options.empty()) {
        frame = std::max(frame, std::ranges::min(layers.options, {}, &Option::frame).frame);
        forwardFrame = std::max(forwardFrame, std::ranges::min(layers.options, {}, &Option::forwardFrame).forwardFrame);
      }
  return frame + forwardFrame;
}

} // namespace

int64_t leastBytes(const StageLayers &stage) {
  const auto leastOf = [](const Layers &layers, int64_t Option::*bytes) {
    return layers.options.empty() ? 0 : std::ranges::min(layers.options, {}, bytes).*bytes;
  };
  std::vector<int64_t> kept, split;
  for (const ChunkLayers &chunk : stage.chunks) {
    kept.push_back(chunk.kept), split.push_back(chunk.split);
    for (const Layers &layers : chunk.layers) {
      kept.back() += layers.count * leastOf(layers, &Option::kept);
      split.back() += layers.count * leastOf(layers, &Option::split);
    }
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::vector<Moment> &way : stage.ways) {
    int64_t most = 0;
    for (const Moment &moment : way) {
      int64_t bytes = moment.bytes + moment.sharedKept * (kept.empty() ? 0 : std::ranges::max(kept)) +
                      moment.sharedSplit * (split.empty() ? 0 : std::ranges::max(split));
      for (size_t chunk = 0; chunk < kept.size(); ++chunk)
        bytes += moment.kept[chunk] * kept[chunk] + moment.split[chunk] * split[chunk];
      most = std::max(most, bytes);
    }
    least = std::min(least, most);
  }
  return stage.bytes + leastFrame(stage) + (stage.ways.empty() ? 0 : least);
}

double leastSeconds(const StageLayers &stage, int64_t capacity) {
  if (stage.ways.empty())
    return 0;
  const double room = double(capacity) - double(stage.bytes) - double(leastFrame(stage));
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<Moment> &way : stage.ways) {
    double most = 0, largest = -1; // seconds of the moment that is largest
    for (const Moment &moment : way)
      if (const Relaxation relaxed(stage, moment); double(moment.bytes) + relaxed.bytes() > largest) {
        largest = double(moment.bytes) + relaxed.bytes();
        most = relaxed.secondsIn(room - double(moment.bytes));
      }
    least = std::min(least, most);
  }
  return least;
}

} // namespace mgc::budget
