// See VerifyOffload.h.
#include "plan/prove/VerifyOffload.h"

#include "plan/Expand.h"
#include "plan/prove/Bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace mgc::plan {

bool isOffloaded(const Bucket &bucket) {
  return std::ranges::any_of(bucket.states, [](const State &state) { return state.hostElements > 0; });
}

namespace {

// Elements of a bucket, as the rank counts those of the states of the update.
struct ElementRange {
  size_t bucket = 0;
  int64_t begin = 0, end = 0;
  auto operator<=>(const ElementRange &) const = default;
};

class OffloadUse {
public:
  OffloadUse(const Plan &plan, int64_t index, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), problems_(problems), staged_(stage_.addresses(), {}),
        isUpdated_(stage_.addresses(), false), host_(stage_.addresses(), At::rest) {
    for (const Region &region : stage_.regions)
      if (region.kind == kStaging)
        staging_.add({region.offset, region.offset + region.bytes});
    for (size_t b = 0; b < stage_.buckets.size(); ++b)
      if (isOffloaded(stage_.buckets[b]))
        addParts(b);
  }

  void check() {
    std::set<int64_t> copied; // programs that were verified
    for (const Chunk &chunk : stage_.chunks)
      if (isUpdate_ = chunk.task == Task::update; isUpdate_)
        for (const Call &call : expandedCalls(chunk))
          run(call);
      else
        for (const Call &call : chunk.calls)
          if (const auto [program, isNew] = copied.insert(call.program); isNew)
            call_ = &call, verifyCopies(plan_.programs[call.program]);
    call_ = nullptr, isUpdate_ = true;
    for (auto &[offset, part] : parts_)
      if (stage_.isOnHost(offset))
        verifyAll({offset, offset + part.bytes}, At::done, "ends without having copied out bytes [{}, {}) of the host");
      else
        verifyBoundOnce(part);
  }

private:
  enum class At : uint8_t { rest, staged, done };
  // Content of staging memory: the host's bytes at an address that is larger by `shift`.
  struct Content {
    int64_t shift = 0;
    bool isThere = false;
    bool operator==(const Content &) const = default;
  };
  // A part of a state that an update in pieces binds.
  struct Part {
    size_t bucket;
    int64_t offset, bytes, firstElement, width;
    const State *state;
    std::vector<std::pair<int64_t, ByteInterval>> bound = {}; // by which call
  };

  void addParts(size_t b) {
    const Bucket &bucket = stage_.buckets[b];
    for (const State &state : bucket.states)
      if (&state == bucket.completeGradient() || (!isGradient(state.role) && !isOfMicrobatches(state.role)))
        for (const StateSpan &part : spansOf(plan_, bucket, state))
          parts_.insert(
              {part.offset, {b, part.offset, part.bytes, part.firstElement, sizeInBytes(state.type), &state}});
  }
  // The part that the range lies in; null: none has it.
  Part *partAt(ByteInterval range) {
    auto behind = parts_.upper_bound(range.begin);
    if (behind == parts_.begin())
      return nullptr;
    Part &part = std::prev(behind)->second;
    return range.end <= part.offset + part.bytes ? &part : nullptr;
  }
  // Whether the range has bytes of a part.
  bool meetsPart(ByteInterval range) {
    const auto behind = parts_.lower_bound(range.end);
    return behind != parts_.begin() && std::prev(behind)->second.offset + std::prev(behind)->second.bytes > range.begin;
  }
  static ElementRange elementsAt(const Part &part, ByteInterval range) {
    return {part.bucket, part.firstElement + (range.begin - part.offset) / part.width,
            part.firstElement + (range.end - part.offset) / part.width};
  }

  void run(const Call &call) {
    call_ = &call;
    ++number_;
    const Program &program = plan_.programs[call.program];
    verifyCopies(program);
    if (!verifyElements(call, program))
      return;
    forEachRun(program.instructions.size(), program.repeats, [&](int64_t number, int64_t iteration) {
      const Instruction &instruction = program.instructions[number];
      const OperandInfos infos = operandsOf(plan_.mesh, instruction.body);
      std::vector<ByteInterval> at;
      for (size_t i = 0; i < infos.size(); ++i) {
        const Operand operand = inIteration(instruction.operands[i], iteration);
        const int64_t begin = call.segments[operand.segment].offset + operand.offset;
        at.push_back({begin, begin + infos[i].span().value_or(0)});
      }
      if (const auto *copy = std::get_if<HostCopy>(&instruction.body))
        copy->direction == HostCopy::Direction::in ? copyIn(at[0], at[1]) : copyOut(at[0], at[1]);
      else
        for (size_t i = 0; i < infos.size(); ++i)
          if (staging_.meets(at[i]))
            use(at[i], infos[i].isWritten());
    });
  }

  void copyIn(ByteInterval from, ByteInterval to) {
    if (!staging_.contains(to))
      return report("copies bytes of the host to [{}, {}), which are no staging memory", to.begin, to.end);
    if (const Part *part = partAt(from); !part || !stage_.isOnHost(from.begin))
      return report("copies in bytes [{}, {}) of the host, which are not of one state", from.begin, from.end);
    if (!staged_.all(to, [](ByteInterval, const Content &content) { return !content.isThere; }))
      report("copies in over bytes [{}, {}) of the staging memory, whose content was not copied out", to.begin, to.end);
    verifyAll(from, At::rest, "copies in bytes [{}, {}) of the host a second time, or before they were copied out");
    staged_.merge(to, {from.begin - to.begin, true});
    isUpdated_.merge(to, false);
    host_.merge(from, At::staged);
  }

  void copyOut(ByteInterval from, ByteInterval to) {
    const auto isOwn = [own = Content{to.begin - from.begin, true}](ByteInterval, const Content &content) {
      return content == own;
    };
    if (!staging_.contains(from) || !staged_.all(from, isOwn) ||
        !isUpdated_.all(from, [](ByteInterval, bool isUpdated) { return isUpdated; }))
      return report("copies out bytes [{}, {}) of the staging memory to [{}, {}) of the host, which were not copied in "
                    "from there and updated",
                    from.begin, from.end, to.begin, to.end);
    staged_.merge(from, {});
    host_.merge(to, At::done);
  }

  void use(ByteInterval at, bool isWritten) {
    if (isWritten)
      isUpdated_.merge(at, true);
    if (!staging_.contains(at) ||
        !staged_.all(at, [](ByteInterval, const Content &content) { return content.isThere; }))
      report("uses bytes [{}, {}) of the staging memory, to which nothing was copied in", at.begin, at.end);
  }

  void verifyAll(ByteInterval range, At expected, fmt::format_string<int64_t &, int64_t &> format) {
    if (!host_.all(range, [&](ByteInterval, At found) { return found == expected; }))
      report(format, range.begin, range.end);
  }

  // A program of copies has nothing else, and they are of whole segments: then what is proved of calls holds for their bytes.
  void verifyCopies(const Program &program) {
    if (!hasHostCopies(program))
      return;
    if (!std::ranges::all_of(program.instructions, [](const Instruction &instruction) {
          return std::holds_alternative<HostCopy>(instruction.body);
        }))
      report("has other instructions beside copies between host and device");
    for (const Instruction &instruction : program.instructions) {
      const OperandInfos infos = operandsOf(plan_.mesh, instruction.body);
      for (size_t i = 0; i < infos.size(); ++i)
        if (const Operand &operand = instruction.operands[i];
            operand.offset != 0 || operand.stride != 0 ||
            infos[i].span() != program.segmentBytes[size_t(operand.segment)])
          report("copies a part of segment '{}'; expected all of it", program.segments[size_t(operand.segment)]);
    }
  }

  // A call binds the same elements of one offloaded bucket. Returns whether each segment holds one range of a state at
  // most, so that no instruction reads several.
  bool verifyElements(const Call &call, const Program &program) {
    bool isOfOne = true;
    std::optional<ElementRange> first;
    const auto add = [&](const ElementRange &range) {
      if (!first)
        first = range;
      else if (range != *first)
        report("binds elements [{}, {}) of bucket {} and elements [{}, {}) of bucket {}; expected the same",
               first->begin, first->end, stage_.buckets[first->bucket].name, range.begin, range.end,
               stage_.buckets[range.bucket].name);
    };
    for (size_t i = 0; i < call.segments.size(); ++i) {
      const ByteInterval at = {call.segments[i].offset, call.segments[i].offset + program.segmentBytes[i]};
      if (at.begin >= at.end)
        continue;
      if (Part *part = partAt(at); !part && meetsPart(at)) {
        report("binds bytes [{}, {}), which are not of one part of a state", at.begin, at.end);
      } else if (part && ((at.begin - part->offset) % part->width != 0 || (at.end - at.begin) % part->width != 0)) {
        report("binds bytes [{}, {}), which are no whole elements of '{}'", at.begin, at.end, part->state->name);
      } else if (part) {
        part->bound.emplace_back(number_, at);
        add(elementsAt(*part, at));
      } else if (staging_.meets(at)) {
        std::optional<ByteInterval> from;
        const bool isOne = staged_.all(at, [&](ByteInterval range, const Content &content) {
          if (!content.isThere)
            return true;
          const bool isFirst = !from;
          from = {std::max(range.begin, at.begin) + content.shift, std::min(range.end, at.end) + content.shift};
          return isFirst && partAt(*from);
        });
        isOfOne &= isOne;
        if (!isOne)
          report("binds bytes [{}, {}) of the staging memory, which hold more than one range of a state", at.begin,
                 at.end);
        else if (from)
          add(elementsAt(*partAt(*from), *from));
      }
    }
    return isOfOne;
  }

  // By one call, which may read and write it in two segments.
  void verifyBoundOnce(Part &part) {
    auto &bound = part.bound;
    std::ranges::sort(bound, {},
                      [](const auto &one) { return std::tuple(one.second.begin, one.second.end, one.first); });
    bound.erase(std::ranges::unique(bound).begin(), bound.end());
    int64_t covered = part.offset;
    for (const auto &[call, range] : bound)
      covered = range.begin == covered ? range.end : -1;
    if (covered != part.offset + part.bytes)
      report("binds the {} bytes at {} of '{}' of bucket {} not once each", part.bytes, part.offset, part.state->name,
             stage_.buckets[part.bucket].name);
  }

  template <typename... Args> void report(fmt::format_string<Args...> format, Args &&...args) {
    problems_.add(
        "stage {} {}: {}{}", index_, isUpdate_ ? "update" : "copies",
        call_ ? fmt::format("the call of '{}' for piece {} ", plan_.programs[call_->program].name, call_->instance)
              : "",
        fmt::format(format, std::forward<Args>(args)...));
  }

  const Plan &plan_;
  const int64_t index_;
  const StagePlan &stage_;
  Problems &problems_;
  ByteSet staging_;
  ByteMap<Content> staged_;
  ByteMap<bool> isUpdated_; // whether staged content is
  ByteMap<At> host_;
  std::map<int64_t, Part> parts_; // by offset
  const Call *call_ = nullptr;
  int64_t number_ = 0; // the number of the call
  bool isUpdate_ = true;
};

} // namespace

void verifyOffload(const Plan &plan, int64_t stage, Problems &problems) {
  if (plan.stages[stage].hostBytes > 0)
    OffloadUse(plan, stage, problems).check();
}

} // namespace mgc::plan
