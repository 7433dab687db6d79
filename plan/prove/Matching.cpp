// See Matching.h.
#include "plan/prove/Matching.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;

// The messages of one stage to or from another, in order.
class MessageList {
public:
  MessageList(const StagePlan &stage, int64_t index, Kind kind, int64_t peer) : stage_(stage), index_(index) {
    size_t next = 0;
    for (int64_t item = 0; item < static_cast<int64_t>(stage.schedule.size());) {
      while (next < stage.repeats.size() && stage.repeats[next].end <= item)
        ++next;
      const bool isRepeat = next < stage.repeats.size() && stage.repeats[next].begin == item;
      const Repeat repeat = isRepeat ? stage.repeats[next] : Repeat{item, item + 1, 1};
      Part part{{}, repeat.count};
      for (; item < repeat.end; ++item)
        if (const ScheduleStep &step = stage.schedule[item]; step.kind == kind && stage.rings[step.ring].peer == peer)
          part.steps.push_back(item);
      if (!part.steps.empty())
        parts_.push_back(std::move(part));
    }
  }

  bool atEnd() const { return part_ == parts_.size(); }
  const ScheduleStep &step() const { return stage_.schedule[parts_[part_].steps[item_]]; }
  const Ring &ring() const { return stage_.rings[step().ring]; }
  int64_t microbatch() const { return step().microbatch + iteration_ * step().microbatchStride; }
  std::string describe() const {
    return fmt::format("stage {} schedule[{}], iteration {}: value {} of microbatch {} in {} bytes", index_,
                       parts_[part_].steps[item_], iteration_, ring().value, microbatch(), ring().bytes);
  }

  void advance() {
    if (++item_ < parts_[part_].steps.size())
      return;
    item_ = 0;
    if (++iteration_ == parts_[part_].count)
      iteration_ = 0, ++part_;
  }

  size_t part() const { return part_; }
  size_t item() const { return item_; }
  int64_t iteration() const { return iteration_; }
  int64_t iterationsLeft() const { return parts_[part_].count - 1 - iteration_; } // behind this one
  void skip(int64_t iterations) { iteration_ += iterations; }
  // By which all messages of the part go on in each iteration; nothing: they differ.
  std::optional<int64_t> stride() const {
    std::set<int64_t> strides;
    for (int64_t item : parts_[part_].steps)
      strides.insert(stage_.schedule[item].microbatchStride);
    return strides.size() == 1 ? std::optional(*strides.begin()) : std::nullopt;
  }

private:
  struct Part {
    std::vector<int64_t> steps; // steps that are messages of the list
    int64_t count = 1;
  };
  const StagePlan &stage_;
  int64_t index_;
  std::vector<Part> parts_;
  size_t part_ = 0, item_ = 0;
  int64_t iteration_ = 0;
};

// Passes over iterations that are like those since both lists stood at the same items of the same parts.
class CommonPeriod {
public:
  void visit(MessageList &sends, MessageList &receives) {
    const auto parts = std::pair(sends.part(), receives.part());
    if (parts != parts_)
      seen_.clear(), parts_ = parts;
    const auto [seen, isNew] =
        seen_.try_emplace({sends.item(), receives.item()}, std::pair(sends.iteration(), receives.iteration()));
    const int64_t a = sends.iteration() - seen->second.first, b = receives.iteration() - seen->second.second;
    const std::optional<int64_t> strideA = sends.stride(), strideB = receives.stride();
    if (isNew || a < 1 || b < 1 || !strideA || !strideB || a * *strideA != b * *strideB)
      return;
    const int64_t periods = std::min(sends.iterationsLeft() / a, receives.iterationsLeft() / b);
    sends.skip(periods * a);
    receives.skip(periods * b);
    seen_.clear();
  }

private:
  std::pair<size_t, size_t> parts_;
  std::map<std::pair<size_t, size_t>, std::pair<int64_t, int64_t>> seen_; // by items: iterations
};

void provePair(const Plan &plan, int64_t source, int64_t target, Problems &problems) {
  MessageList sends(plan.stages[source], source, Kind::send, target);
  MessageList receives(plan.stages[target], target, Kind::recv, source);
  CommonPeriod period;
  for (; !sends.atEnd() && !receives.atEnd(); sends.advance(), receives.advance()) {
    period.visit(sends, receives);
    const Ring &sent = sends.ring(), &received = receives.ring();
    if (sent.value != received.value || sent.bytes != received.bytes || sends.microbatch() != receives.microbatch())
      return problems.add("{} is sent where {} is received; they must agree", sends.describe(), receives.describe());
  }
  if (!sends.atEnd())
    problems.add("{} is sent, and stage {} receives no more from it", sends.describe(), target);
  if (!receives.atEnd())
    problems.add("{} is received, and stage {} sends no more to it", receives.describe(), source);
}

} // namespace

void proveMatching(const Plan &plan, Problems &problems) {
  std::set<std::pair<int64_t, int64_t>> pairs; // source, target
  for (int64_t stage = 0; stage < static_cast<int64_t>(plan.stages.size()); ++stage)
    for (const Ring &ring : plan.stages[stage].rings)
      if (ring.peer >= 0)
        pairs.insert({stage, ring.peer}), pairs.insert({ring.peer, stage});
  for (const auto &[source, target] : pairs)
    provePair(plan, source, target, problems);
}

} // namespace mgc::plan
