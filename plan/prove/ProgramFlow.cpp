// See ProgramFlow.h.
#include "plan/prove/ProgramFlow.h"

#include "plan/Expand.h"
#include "plan/Plan.h"

#include <algorithm>

namespace mgc::plan {

namespace {

constexpr int64_t kUntouched = -2; // as the caller left it

// The content of bytes: a value, or only some columns of its rows, which begin `stride` bytes apart; or of all its rows only
// those that there are.
struct Held {
  int64_t value = kUntouched, stride = 0; // 0: all
  ByteSet columns;
  bool isCounted = false;

  bool has(ByteInterval range) const {
    if (stride == 0)
      return true;
    const int64_t begin = range.begin % stride, length = range.end - range.begin;
    if (length >= stride)
      return columns.contains({0, stride});
    return columns.contains({begin, std::min(begin + length, stride)}) &&
           (begin + length <= stride || columns.contains({0, begin + length - stride}));
  }
};

// Where one operand of an instruction lies when it runs.
struct OperandAccess {
  int64_t segment = 0, value = -1;
  ByteInterval span;
  int64_t rowBytes = 0, rowStride = 0; // for rows with gaps between them, else 0
  bool isCounted = false, isElementwise = false, isWholeValue = false;
  // Columns of its rows, counted from multiples of the stride.
  ByteInterval columns() const { return {span.begin % rowStride, span.begin % rowStride + rowBytes}; }
};

class FlowBuilder {
public:
  FlowBuilder(const Plan &plan, const Program &program, const std::vector<int64_t> &place, Problems &problems)
      : plan_(plan), program_(program), place_(place), problems_(problems) {
    std::vector<int64_t> bytes = program.segmentBytes;
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[place[i]] = std::max(bytes[place[i]], bytes[i]);
    for (int64_t each : bytes)
      contents_.emplace_back(each, Held()), callers_.emplace_back(each, -1);
    flow_.segments.resize(program.segments.size());
  }

  ProgramFlow build() {
    std::vector<std::vector<OperandInfo>> infos;
    for (const Instruction &instruction : program_.instructions)
      infos.push_back(operandsOf(plan_.mesh, instruction.body));
    forEachRun(program_.instructions.size(), program_.repeats, [&](int64_t number, int64_t iteration) {
      instruction_ = &program_.instructions[number];
      run(infos[number], iteration);
    });
    for (size_t i = 0; i < contents_.size(); ++i)
      addWrites(i);
    return std::move(flow_);
  }

private:
  // Rows with missing columns may not be read: outside of the frame they are an error.
  void addWrites(size_t segment) {
    bool isPartial = false;
    contents_[segment].peek({0, contents_[segment].bytes()}, [&](ByteInterval range, const Held &held) {
      if (held.value == kUntouched)
        return;
      flow_.segments[segment].writes.add(range);
      if (held.isCounted)
        flow_.segments[segment].countedWrites.add(range);
      isPartial |= static_cast<int64_t>(segment) != program_.frame && !held.has(range);
    });
    if (isPartial)
      problems_.add("program '{}': writes columns of rows of segment '{}' and leaves others out", program_.name,
                    program_.segments[segment]);
  }

  void run(const std::vector<OperandInfo> &infos, int64_t iteration) {
    passesCounted_ = false;
    for (size_t i = 0; i < infos.size(); ++i)
      if (infos[i].isRead())
        read(accessOf(infos[i], instruction_->operands[i], iteration), infos[i].name);
    for (size_t i = 0; i < infos.size(); ++i)
      if (infos[i].isWritten())
        write(accessOf(infos[i], instruction_->operands[i], iteration));
  }

  OperandAccess accessOf(const OperandInfo &info, const Operand &operand, int64_t iteration) const {
    const int64_t begin = operand.offset + iteration * operand.stride;
    return {place_[operand.segment], operand.value,    {begin, begin + *info.span()},
            *info.rowBytes,          *info.rowStride,  info.isCounted,
            info.isElementwise,      info.isWholeValue};
  }

  void read(const OperandAccess &access, std::string_view name) {
    bool isOther = false, isUntouched = false, isPartial = false, isBehind = false;
    contents_[access.segment].peek(access.span, [&](ByteInterval range, const Held &held) {
      const ByteInterval inside = {std::max(range.begin, access.span.begin), std::min(range.end, access.span.end)};
      if (held.value == kUntouched) {
        isUntouched = true;
        flow_.segments[access.segment].reads.add(inside);
        if (!access.isCounted)
          flow_.segments[access.segment].wholeReads.add(inside);
        isOther |= !isCallers(access, inside);
      } else {
        isOther |= access.value >= 0 && held.value >= 0 && held.value != access.value;
        isBehind |= held.isCounted && !access.isCounted && !access.isElementwise;
        passesCounted_ |= held.isCounted && access.isElementwise;
        isPartial |=
            held.stride == access.rowStride && held.stride > 0 ? !held.has(access.columns()) : !held.has(inside);
      }
    });
    const auto written = bytesOf_.find(access.value);
    if (isOther)
      report(access, name, "reads bytes of another value");
    else if (access.isWholeValue && written != bytesOf_.end() && written->second != access.span.end - access.span.begin)
      report(access, name, "is not all of its value: the counts of all groups");
    else if (isPartial)
      report(access, name, "reads rows of which no instruction wrote all");
    else if (isBehind)
      report(access, name, "reads rows behind the last one, of which only those that there are were written");
    else if (isUntouched && access.segment == program_.frame)
      report(access, name, "reads bytes of the frame that no instruction wrote");
  }

  // Whether the caller's bytes can be of that value: they are of one, and a value that the caller brings lies in one segment.
  bool isCallers(const OperandAccess &access, ByteInterval range) {
    if (access.value < 0)
      return true;
    bool isOne = segmentOf_.try_emplace(access.value, access.segment).first->second == access.segment;
    callers_[access.segment].forEach(range, [&](ByteInterval, int64_t &value) {
      isOne &= value < 0 || value == access.value;
      value = access.value;
    });
    return isOne;
  }

  void write(const OperandAccess &access) {
    const bool isCounted = access.isCounted || (access.isElementwise && passesCounted_);
    if (access.value >= 0)
      bytesOf_[access.value] = access.span.end - access.span.begin;
    if (access.rowStride == 0)
      return contents_[access.segment].set(access.span, {access.value, 0, {}, isCounted});
    const auto [begin, end] = access.columns();
    const ByteSet &callers = flow_.segments[access.segment].reads; // whole, and read before
    contents_[access.segment].forEach(access.span, [&](ByteInterval range, Held &held) {
      const bool isWhole =
          held.value == kUntouched ? callers.contains(range) : held.value == access.value && held.stride == 0;
      if (held.value != access.value || held.stride != access.rowStride)
        held = {access.value, isWhole ? 0 : access.rowStride, {}, isCounted};
      held.isCounted |= isCounted;
      if (held.stride == 0)
        return;
      held.columns.add({begin, std::min(end, access.rowStride)});
      held.columns.add({0, end - access.rowStride}); // rows that go on behind a multiple of the stride
    });
  }

  void report(const OperandAccess &access, std::string_view name, std::string_view what) {
    problems_.add("program '{}': {}: operand {}, bytes [{}, {}) of segment '{}', {}", program_.name,
                  instruction_->label, name, access.span.begin, access.span.end, program_.segments[access.segment],
                  what);
  }

  const Plan &plan_;
  const Program &program_;
  const std::vector<int64_t> &place_;
  Problems &problems_;
  const Instruction *instruction_ = nullptr;
  bool passesCounted_ = false; // the instruction that runs has read counted rows that it writes where they were
  std::vector<ByteMap<Held>> contents_;   // by segment: what was written last
  std::vector<ByteMap<int64_t>> callers_; // by segment: the value that the caller brings
  std::map<int64_t, int64_t> segmentOf_;  // by value that the caller brings
  std::map<int64_t, int64_t> bytesOf_;    // by value: what was written of it last
  ProgramFlow flow_;
};

} // namespace

ProgramFlow flowOf(const Plan &plan, const Program &program, const std::vector<int64_t> &place, Problems &problems) {
  return FlowBuilder(plan, program, place, problems).build();
}

} // namespace mgc::plan
