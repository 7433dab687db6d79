// Instructions against the segments of their program.
#include "plan/Operands.h"
#include "plan/SequenceOrder.h"
#include "plan/json/Fields.h"
#include "plan/prove/VerifyParts.h"

#include <cmath>
#include <fmt/ranges.h>

namespace mgc::plan {

namespace {

// Checks the attributes of each kind of instruction. `sound` stays true when operandsOf may be asked.
class BodyChecks {
public:
  BodyChecks(Checks &checks, const Place &place)
      : checks_(checks), violations_(checks.violations), place_(place) {}
  bool sound() const { return sound_; }

  void operator()(const RowKernel &kernel) {
    const auto isOfIdentifier = [](char c) {
      return c == '_' || std::isalnum(static_cast<unsigned char>(c));
    };
    violations_.expect(
        !kernel.symbol.empty() && std::ranges::all_of(kernel.symbol, isOfIdentifier) &&
            !kernel.symbol.ends_with(kNeedsSuffix),
        place_, "symbol '{}' names no row kernel; expected letters, digits and _, and no {} at the end",
        kernel.symbol, kNeedsSuffix);
    violations_.expect(kernel.range >= 0, place_, "range = {} is negative", kernel.range);
    notNegative("flops", kernel.flops);
    notNegative("bytes", kernel.bytes);
    for (const Scalar &scalar : kernel.scalars)
      verify(scalar);
    for (const RowKernel::Operand &operand : kernel.uses)
      verify(operand);
  }
  void operator()(const Gemm &gemm) {
    arePositive({{"m", gemm.m}, {"n", gemm.n}, {"k", gemm.k}});
    notNegative("workspaceBytes", gemm.workspaceBytes);
    isFloatType("inputType", gemm.inputType);
    isFloatType("outputType", gemm.outputType);
    violations_.expect(gemm.inputType != DType::f32 || gemm.outputType != DType::bf16, place_,
                       "outputType bf16 of f32 operands; expected f32, or operands of bf16");
    isNamed("path", gemm.path);
    sound_ = isNamed("epilogue", gemm.epilogue);
    if (sound_ && gemm.epilogue != Epilogue::none)
      verifyEpilogue(gemm);
  }
  void operator()(const Attention &attention);
  void operator()(const Collective &collective);
  void operator()(const Move &move);

private:
  using Named = std::pair<std::string_view, int64_t>;

  bool arePositive(std::initializer_list<Named> sizes) {
    bool all = true;
    for (auto [name, size] : sizes)
      all &= violations_.expect(size > 0, place_, "{} = {} must be positive", name, size);
    return all;
  }
  void isFloatType(std::string_view name, DType type) {
    violations_.expect(isFloat(type), place_, "{} is {}, expected f32 or bf16", name, plan::nameOf(type));
  }
  // Elements between rows of `row` elements.
  bool isStride(std::string_view name, int64_t stride, Checked row) {
    return violations_.expect(stride == 0 || (row && stride >= *row), place_,
                              "{} = {} is below the {} elements of a row; expected 0, for rows one after "
                              "another, or at least as many",
                              name, stride, row ? fmt::to_string(*row) : "more than 2^63");
  }
  template <typename Enum> bool isNamed(std::string_view name, Enum value) {
    const auto number = static_cast<int64_t>(value);
    return violations_.expect(inRange(number, enumNames<Enum>.size()), place_,
                              "{} {} is none; expected one of {}", name, number,
                              fmt::join(enumNames<Enum>, " "));
  }
  void verifyEpilogue(const Gemm &gemm);
  bool verifyStrides(const Attention &attention);
  void verifyOrder(const Attention &attention);
  void verifyWorkspace(const Collective &collective);
  void notNegative(std::string_view name, double value) {
    violations_.expect(std::isfinite(value) && value >= 0, place_, "{} = {} must be finite and not negative",
                       name, value);
  }
  void verify(const RowKernel::Operand &operand) {
    const auto [use, bytes, rowBytes, rowStride] = operand;
    isNamed("use", use);
    sound_ &= violations_.expect(
        bytes >= 0 &&
            (rowStride == 0 ? rowBytes == 0
                            : rowBytes > 0 && rowStride >= rowBytes && bytes > 0 && bytes % rowBytes == 0),
        place_, "an operand of {} bytes in rows of {}, {} apart; expected whole rows that do not overlap",
        bytes, rowBytes, rowStride);
  }
  void verify(const Scalar &scalar) {
    Checked most = checkedAdd(scalar.value < 0 ? -(scalar.value + 1) : scalar.value, 1);
    for (const Scalar::Term &term : scalar.terms)
      if (verifyAxesAt(checks_, place_, term.axes))
        most = checkedAdd(most, checkedMultiply(groupSize(checks_.plan.mesh, term.axes),
                                                term.scale < 0 ? -(term.scale + 1) + 1 : term.scale));
    violations_.expect(most.has_value(), place_, "a scalar's terms add up to more than 64 bits hold");
  }

  Checks &checks_;
  Violations &violations_;
  const Place &place_;
  bool sound_ = true;
};

void BodyChecks::verifyEpilogue(const Gemm &gemm) {
  const std::string_view epilogue = plan::nameOf(gemm.epilogue);
  violations_.expect(hasEpilogues(checks_.plan.target), place_,
                     "epilogue {} in a plan for {}, whose products have none; compile for cuda, or without",
                     epilogue, plan::nameOf(checks_.plan.target));
  violations_.expect(!gemm.accumulate, place_,
                     "epilogue {} of a product that is added to C; expected one or the other", epilogue);
  violations_.expect(gemm.epilogue != Epilogue::gelu || gemm.n % kGeluColumns == 0, place_,
                     "n = {} with epilogue gelu; expected a multiple of {}", gemm.n, kGeluColumns);
}

bool BodyChecks::verifyStrides(const Attention &attention) {
  const Checked query = checkedMultiply(attention.r, attention.d), key = attention.d;
  bool sound = true;
  for (auto [name, stride] : {Named("qStride", attention.qStride), Named("dqStride", attention.dqStride)})
    sound &= isStride(name, stride, query);
  for (auto [name, stride] : {Named("kStride", attention.kStride), Named("vStride", attention.vStride),
                              Named("dkStride", attention.dkStride), Named("dvStride", attention.dvStride)})
    sound &= isStride(name, stride, key);
  return sound;
}

void BodyChecks::verifyOrder(const Attention &attention) {
  violations_.expect(attention.zigzag >= 0, place_, "zigzag = {} is negative", attention.zigzag);
  sound_ = verifyAxesAt(checks_, place_, attention.queryAxes) && sound_;
  if (!sound_ || attention.zigzag <= 0)
    return;
  const int64_t parts = groupSize(checks_.plan.mesh, attention.queryAxes);
  violations_.expect(checkedMultiply(attention.s, parts) == Checked(attention.t), place_,
                     "s = {} queries on each of {} ranks are not all of t = {} positions", attention.s, parts,
                     attention.t);
  violations_.expect(attention.zigzag == checks_.plan.zigzag, place_,
                     "zigzag = {}, but the sequences of the plan have zigzag = {}", attention.zigzag,
                     checks_.plan.zigzag);
  violations_.expect(isOrder(attention.t, attention.zigzag), place_,
                     "t = {} positions are not 2 * zigzag = 2 * {} chunks", attention.t, attention.zigzag);
}

void BodyChecks::operator()(const Attention &attention) {
  sound_ = arePositive({{"s", attention.s},
                        {"t", attention.t},
                        {"b", attention.b},
                        {"g", attention.g},
                        {"r", attention.r},
                        {"d", attention.d}}) &&
           verifyStrides(attention);
  isFloatType("type", attention.type);
  violations_.expect(!attention.resultsInF32 || attention.type == DType::bf16, place_,
                     "resultsInF32 of type {}; expected of bf16 alone", plan::nameOf(attention.type));
  violations_.expect(!attention.resultsInF32 || hasF32AttentionResults(checks_.plan.target), place_,
                     "resultsInF32 in a plan for {}, whose attention has results of its type; expected cpu",
                     plan::nameOf(checks_.plan.target));
  verifyOrder(attention);
  violations_.expect(std::isfinite(attention.scale), place_, "scale = {} must be finite", attention.scale);
  violations_.expect(attention.window >= 0, place_, "window = {} is negative", attention.window);
  violations_.expect(attention.dropout >= 0 && attention.dropout < 1, place_, "dropout = {} is not in [0, 1)",
                     attention.dropout);
  violations_.expect(attention.groupStride >= 0, place_, "groupStride = {} is negative",
                     attention.groupStride);
  for (const Scalar *scalar : {&attention.seed, &attention.instance, &attention.headOffset})
    verify(*scalar);
}

void BodyChecks::operator()(const Collective &collective) {
  arePositive({{"outer", collective.outer}, {"chunk", collective.chunk}, {"middle", collective.middle}});
  bool hasRows =
           collective.kind != Collective::Kind::allReduce && collective.kind != Collective::Kind::permute,
       toAll = collective.kind == Collective::Kind::allToAll;
  violations_.expect(hasRows || collective.outer == 1, place_, "outer = {}, but {} has outer = 1",
                     collective.outer, plan::nameOf(collective.kind));
  violations_.expect(toAll || collective.middle == 1, place_, "middle = {}, but only all_to_all has a middle",
                     collective.middle);
  violations_.expect(toAll || !collective.splitsInner, place_, "splitsInner, but only all_to_all splits");
  violations_.expect(collective.stages.empty() || collective.axes.empty(), place_,
                     "a collective goes along axes or over stages, not both");
  sound_ =
      verifyAxesAt(checks_, place_, collective.axes) && verifyStageList(checks_, place_, collective.stages);
  if (sound_)
    verifyWorkspace(collective);
}

void BodyChecks::verifyWorkspace(const Collective &collective) {
  const Checked rows = checkedMultiply(collective.outer, collective.middle);
  const bool packs =
      collective.kind == Collective::Kind::allToAll && packsRows(checks_.plan.target) && (!rows || *rows > 1);
  const Checked row = checkedMultiply(collective.chunk, groupSize(checks_.plan.mesh, collective)),
                needed =
                    packs ? checkedMultiply(checkedMultiply(rows, row), sizeInBytes(collective.type)) : 0;
  violations_.expect(needed && collective.workspaceBytes == *needed, place_,
                     "workspaceBytes = {}, expected {}{}", collective.workspaceBytes,
                     needed ? fmt::to_string(*needed) : "more than 2^63",
                     packs ? ": the rows of all_to_all" : ": nothing is packed");
}

void BodyChecks::operator()(const Move &move) {
  if (move.kind == Move::Kind::slice)
    arePositive({{"outer", move.outer}, {"chunkBytes", move.chunkBytes}});
  else
    violations_.expect(move.bytes >= 0, place_, "bytes = {} is negative", move.bytes);
  sound_ = verifyAxesAt(checks_, place_, move.axes);
}

class InstructionChecks {
public:
  InstructionChecks(Checks &checks, const Program &program, const Instruction &instruction,
                    int64_t iterations, const Place &place)
      : violations_(checks.violations), program_(program), instruction_(instruction), place_(place),
        leastBytes_(leastElementBytes(checks.plan)), iterations_(iterations) {
    BodyChecks body(checks, place);
    std::visit(body, instruction.body);
    if (body.sound()) {
      infos_ = operandsOf(checks.plan.mesh, instruction.body);
      counted_ = violations_.expect(infos_.size() == instruction.operands.size(), place,
                                    "found {} operands, expected {} ({})", instruction.operands.size(),
                                    infos_.size(), instruction.label);
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
  std::string nameOf(size_t i) const {
    return counted_ ? fmt::format("operand {}", infos_[i].name) : "operand";
  }

  void verifyOperand(size_t i) {
    const auto &[segment, offset, stride, value] = instruction_.operands[i];
    Place operands = place_.field("operands"), place = operands.element(i);
    violations_.expect(value >= -1, place, "value = {}, expected -1 or a number", value);
    if (!violations_.expect(inRange(segment, program_.segmentBytes.size()), place,
                            "segment {} is not one of {} ({})", segment, program_.segmentBytes.size(),
                            instruction_.label))
      return;
    int64_t limit = program_.segmentBytes[segment];
    Checked bytes = spanOf(i);
    violations_.expect(fitsInEach(offset, stride, iterations_, bytes, limit), place,
                       "{} ({} bytes from {} on) is not inside segment '{}' of {} bytes ({})", nameOf(i),
                       bytes ? fmt::to_string(*bytes) : "more than 2^63", offset, program_.segments[segment],
                       limit, instruction_.label);
    violations_.expect(offset % elementBytesOf(i) == 0 && stride % elementBytesOf(i) == 0, place,
                       "offset {} or stride {} is not a multiple of {} ({})", offset, stride,
                       elementBytesOf(i), instruction_.label);
  }

  // Written memory is no other operand's memory, unless the instruction may work in place on the same start. An
  // operand without a span has its own violation.
  void verifyApart(size_t written, size_t other) {
    const Operand &w = instruction_.operands[written], &o = instruction_.operands[other];
    if (w.segment != o.segment || !infos_[written].span() || !infos_[other].span() ||
        (w.offset == o.offset && w.stride == o.stride && areAlike(infos_[written], infos_[other]) &&
         mayWorkInPlace(instruction_.body)))
      return;
    violations_.expect(areApartInEach(written, other), place_,
                       "operand {} is written and overlaps operand {} ({})", infos_[written].name,
                       infos_[other].name, instruction_.label);
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

static void verifyProgram(Checks &checks, const Program &program, const Place &place) {
  for (size_t i = 0; i < program.segmentBytes.size(); ++i)
    checks.violations.expect(program.segmentBytes[i] >= 0, place, "segmentBytes[{}] = {} is negative", i,
                             program.segmentBytes[i]);
  if (!checks.violations.expect(program.segments.size() == program.segmentBytes.size(), place,
                                "found {} segments and {} segmentBytes, expected as many",
                                program.segments.size(), program.segmentBytes.size()))
    return;
  checks.violations.expect(program.frame == -1 || inRange(program.frame, program.segments.size()), place,
                           "frame = {} is neither -1 nor one of {} segments", program.frame,
                           program.segments.size());
  if (!verifyRepeats(checks, place, program.repeats, program.instructions.size(), kMaxProgramRuns))
    return;
  Place instructions = place.field("instructions");
  forEachItem(program.instructions.size(), program.repeats, [&](size_t i, int64_t iterations) {
    Place here = instructions.element(i);
    InstructionChecks(checks, program, program.instructions[i], iterations, here).verify();
  });
}

void verifyPrograms(Checks &checks) {
  Place root, programs = root.field("programs");
  for (size_t i = 0; i < checks.plan.programs.size(); ++i)
    verifyProgram(checks, checks.plan.programs[i], programs.element(i));
}

} // namespace mgc::plan
