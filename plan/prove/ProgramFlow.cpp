// See ProgramFlow.h.
#include "plan/prove/ProgramFlow.h"

#include "plan/Expand.h"
#include "plan/Operands.h"

#include <algorithm>

namespace mgc::plan {

namespace {

constexpr int64_t kUntouched = -2; // as the caller left it

// Where one operand of an instruction lies when it runs.
struct OperandAccess {
  int64_t segment = 0, value = -1;
  ByteInterval span;
  int64_t rowBytes = 0, rowStride = 0; // of rows apart, else 0
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
      contents_.emplace_back(each, kUntouched), callers_.emplace_back(each, -1);
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
      contents_[i].peek({0, contents_[i].bytes()}, [&](ByteInterval range, int64_t value) {
        if (value != kUntouched)
          flow_.segments[i].writes.add(range);
      });
    return std::move(flow_);
  }

private:
  void run(const std::vector<OperandInfo> &infos, int64_t iteration) {
    for (size_t i = 0; i < infos.size(); ++i)
      if (infos[i].isRead())
        read(accessOf(infos[i], instruction_->operands[i], iteration), infos[i].name);
    for (size_t i = 0; i < infos.size(); ++i)
      if (infos[i].isWritten())
        write(accessOf(infos[i], instruction_->operands[i], iteration));
  }

  OperandAccess accessOf(const OperandInfo &info, const Operand &operand, int64_t iteration) const {
    const int64_t begin = operand.offset + iteration * operand.stride;
    return {place_[operand.segment],
            operand.value,
            {begin, begin + *info.span()},
            *info.rowBytes,
            *info.rowStride};
  }

  void read(const OperandAccess &access, std::string_view name) {
    bool isOther = false, isUntouched = false;
    contents_[access.segment].peek(access.span, [&](ByteInterval range, int64_t value) {
      if (value == kUntouched) {
        isUntouched = true;
        const ByteInterval inside = {std::max(range.begin, access.span.begin),
                                     std::min(range.end, access.span.end)};
        flow_.segments[access.segment].reads.add(inside);
        isOther |= !isCallers(access, inside);
      } else {
        isOther |= access.value >= 0 && value >= 0 && value != access.value;
      }
    });
    if (isOther)
      report(access, name, "reads bytes of another value");
    else if (!isUntouched && !hasColumns(access))
      report(access, name, "reads rows of which no instruction wrote all");
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

  // Of a value whose rows are written apart.
  bool hasColumns(const OperandAccess &access) const {
    const auto written = columns_.find(access.value);
    if (written == columns_.end())
      return true;
    const auto &[stride, columns] = written->second;
    if (access.rowStride == stride)
      return columns.contains(access.columns());
    const int64_t begin = access.span.begin % stride, length = access.span.end - access.span.begin;
    return columns.contains(length >= stride ? ByteInterval{0, stride} : ByteInterval{begin, begin + length});
  }

  bool holds(const OperandAccess &access) const {
    bool all = true;
    contents_[access.segment].peek(access.span,
                                   [&](ByteInterval, int64_t value) { all &= value == access.value; });
    return all;
  }

  void write(const OperandAccess &access) {
    if (access.rowStride > 0 && !columns_.contains(access.value) && holds(access))
      return; // rows of what is written whole already
    contents_[access.segment].set(access.span, access.value);
    if (access.value < 0)
      return;
    if (access.rowStride == 0) {
      columns_.erase(access.value);
      return;
    }
    auto &[stride, columns] = columns_[access.value];
    if (stride != access.rowStride)
      columns = ByteSet(), stride = access.rowStride;
    const auto [begin, end] = access.columns();
    columns.add({begin, std::min(end, stride)});
    columns.add({0, end - stride}); // rows that go on behind a multiple of the stride
  }

  void report(const OperandAccess &access, std::string_view name, std::string_view what) {
    problems_.add("program '{}': {}: operand {}, bytes [{}, {}) of segment '{}', {}", program_.name,
                  instruction_->label, name, access.span.begin, access.span.end,
                  program_.segments[access.segment], what);
  }

  struct Columns {
    int64_t stride = 0;
    ByteSet columns;
  };

  const Plan &plan_;
  const Program &program_;
  const std::vector<int64_t> &place_;
  Problems &problems_;
  const Instruction *instruction_ = nullptr;
  std::vector<ByteMap<int64_t>> contents_; // by segment: the value that was written last
  std::vector<ByteMap<int64_t>> callers_;  // by segment: the value that the caller brings
  std::map<int64_t, int64_t> segmentOf_;   // by value that the caller brings
  std::map<int64_t, Columns> columns_; // by value: what of its rows is written, where they are written apart
  ProgramFlow flow_;
};

} // namespace

ProgramFlow flowOf(const Plan &plan, const Program &program, const std::vector<int64_t> &place,
                   Problems &problems) {
  return FlowBuilder(plan, program, place, problems).build();
}

} // namespace mgc::plan
