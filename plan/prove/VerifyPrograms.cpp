// Instructions against the segments of their program.
#include "plan/instructions/AttributeChecks.h"
#include "plan/prove/VerifyParts.h"

namespace mgc::plan {

namespace {

class InstructionChecks {
public:
  InstructionChecks(Checks &checks, const Program &program, const Instruction &instruction, int64_t iterations,
                    const Place &place)
      : violations_(checks.violations), program_(program), instruction_(instruction), place_(place),
        leastBytes_(leastElementBytes(checks.plan)), iterations_(iterations) {
    AttributeChecks attributes(checks, place);
    plan::verify(attributes, instruction.body);
    if (attributes.isSound()) {
      infos_ = operandsOf(checks.plan.mesh, instruction.body);
      counted_ =
          violations_.expect(infos_.size() == instruction.operands.size(), place, "found {} operands, expected {} ({})",
                             instruction.operands.size(), infos_.size(), instruction.label);
    }
  }

  void verify() {
    for (size_t i = 0; i < instruction_.operands.size(); ++i)
      verifyOperand(i);
    for (size_t i = 0; counted_ && i < infos_.size(); ++i)
      for (size_t j = 0; j < infos_.size(); ++j)
        if (infos_[i].isWritten() && (j < i || !infos_[j].isWritten()))
          verifyApart(i, j);
  }

private:
  // How far from the operand's offset on it reaches: known if `counted_`, else just its first byte's position.
  Checked spanOf(size_t i) const { return counted_ ? infos_[i].span() : Checked(0); }
  int64_t elementBytesOf(size_t i) const {
    return counted_ && infos_[i].elementBytes > 0 ? infos_[i].elementBytes : leastBytes_;
  }
  std::string nameOf(size_t i) const { return counted_ ? fmt::format("operand {}", infos_[i].name) : "operand"; }

  void verifyOperand(size_t i) {
    const auto &[segment, offset, stride, value] = instruction_.operands[i];
    Place operands = place_.field("operands"), place = operands.element(i);
    violations_.expect(value >= -1, place, "value = {}, expected -1 or a number", value);
    if (!violations_.expect(inRange(segment, program_.segmentBytes.size()), place, "segment {} is not one of {} ({})",
                            segment, program_.segmentBytes.size(), instruction_.label))
      return;
    int64_t limit = program_.segmentBytes[segment];
    Checked bytes = spanOf(i);
    violations_.expect(fitsInEach(offset, stride, iterations_, bytes, limit), place,
                       "{} ({} bytes from {} on) is not inside segment '{}' of {} bytes ({})", nameOf(i),
                       bytes ? fmt::to_string(*bytes) : "more than 2^63", offset, program_.segments[segment], limit,
                       instruction_.label);
    violations_.expect(offset % elementBytesOf(i) == 0 && stride % elementBytesOf(i) == 0, place,
                       "offset {} or stride {} is not a multiple of {} ({})", offset, stride, elementBytesOf(i),
                       instruction_.label);
  }

  // Written memory is no other operand's memory, unless the instruction may work in place on the same start. An
  // operand without a span has its own violation.
  void verifyApart(size_t written, size_t other) {
    const Operand &w = instruction_.operands[written], &o = instruction_.operands[other];
    if (w.segment != o.segment || !infos_[written].span() || !infos_[other].span() ||
        (w.offset == o.offset && w.stride == o.stride && areAlike(infos_[written], infos_[other]) &&
         mayWorkInPlace(instruction_.body)))
      return;
    violations_.expect(areApartInEach(written, other), place_, "operand {} is written and overlaps operand {} ({})",
                       infos_[written].name, infos_[other].name, instruction_.label);
  }

  static bool areAlike(const OperandInfo &a, const OperandInfo &b) {
    return a.bytes == b.bytes && a.rowBytes == b.rowBytes && a.rowStride == b.rowStride;
  }

  // In the first iteration and the last, on the same side: else they meet between. Rows that interleave move on alike.
  bool areApartInEach(size_t a, size_t b) const {
    const Operand &first = instruction_.operands[a], &second = instruction_.operands[b];
    OperandInfo x0 = infos_[a], y0 = infos_[b];
    if (first.stride != second.stride) // as if they had no gaps
      x0 = {x0.name, x0.span()}, y0 = {y0.name, y0.span()};
    const auto apart = [&](int64_t iteration) {
      const Checked x = checkedAdd(first.offset, checkedMultiply(first.stride, iteration)),
                    y = checkedAdd(second.offset, checkedMultiply(second.stride, iteration));
      return x && y && areApart(x0, *x, y0, *y) ? std::optional(*x < *y) : std::nullopt;
    };
    const std::optional<bool> begin = apart(0), end = apart(iterations_ - 1);
    return begin && begin == end;
  }

  Violations &violations_;
  const Program &program_;
  const Instruction &instruction_;
  const Place &place_;
  const int64_t leastBytes_, iterations_;
  std::vector<OperandInfo> infos_;
  bool counted_ = false;
};

} // namespace

// Memory of the host is used as such by all instructions of the program.
static void verifyArenas(Checks &checks, const Program &program, const Place &place) {
  std::vector<int> arena(program.segments.size(), -1); // 1: the host's
  for (const Instruction &instruction : program.instructions) {
    const OperandInfos infos = operandsOf(checks.plan.mesh, instruction.body);
    for (size_t i = 0; i < infos.size(); ++i) {
      int &of = arena[instruction.operands[i].segment];
      checks.violations.expect(of < 0 || of == int(infos[i].isOnHost), place,
                               "segment '{}' is memory of the host for some instructions and of the device for others, "
                               "such as {}; expected one of the two",
                               program.segments[instruction.operands[i].segment], instruction.label);
      of = int(infos[i].isOnHost);
    }
  }
}

static void verifyProgram(Checks &checks, const Program &program, const Place &place) {
  for (size_t i = 0; i < program.segmentBytes.size(); ++i)
    checks.violations.expect(program.segmentBytes[i] >= 0, place, "segmentBytes[{}] = {} is negative", i,
                             program.segmentBytes[i]);
  if (!checks.violations.expect(program.segments.size() == program.segmentBytes.size(), place,
                                "found {} segments and {} segmentBytes, expected as many", program.segments.size(),
                                program.segmentBytes.size()))
    return;
  checks.violations.expect(program.frame == -1 || inRange(program.frame, program.segments.size()), place,
                           "frame = {} is neither -1 nor one of {} segments", program.frame, program.segments.size());
  if (!verifyRepeats(checks, place, program.repeats, program.instructions.size(), kMaxProgramRuns))
    return;
  Place instructions = place.field("instructions");
  const size_t known = checks.violations.count();
  forEachItem(program.instructions.size(), program.repeats, [&](size_t i, int64_t iterations) {
    Place here = instructions.element(i);
    InstructionChecks(checks, program, program.instructions[i], iterations, here).verify();
  });
  if (checks.violations.count() == known)
    verifyArenas(checks, program, place);
}

void verifyPrograms(Checks &checks) {
  Place root, programs = root.field("programs");
  for (size_t i = 0; i < checks.plan.programs.size(); ++i)
    verifyProgram(checks, checks.plan.programs[i], programs.element(i));
}

} // namespace mgc::plan
