#include "plan/instructions/Instruction.h"

#include <fmt/format.h>

namespace mgc::plan {

void verify(AttributeChecks &checks, const InstructionBody &body) {
  std::visit([&](const auto &kind) { kind.verify(checks); }, body);
}

OperandInfos operandsOf(const Mesh &mesh, const InstructionBody &body) {
  return std::visit([&](const auto &kind) { return kind.operands(mesh); }, body);
}

// An operand that is updated is read and written.
static double bytesOf(const OperandInfos &infos) {
  double bytes = 0;
  for (const OperandInfo &info : infos)
    if (!info.isScratch)
      bytes += double(info.bytes.value_or(0)) * (info.use == OperandUse::updated ? 2 : 1);
  return bytes;
}

WorkKind kindOf(const InstructionBody &body) {
  return std::visit([](const auto &kind) { return kind.kWork; }, body);
}

Work workOf(const Mesh &mesh, const InstructionBody &body) {
  return std::visit(
      [&](const auto &kind) {
        Work work = kind.work(mesh);
        if (work.bytes < 0)
          work.bytes = bytesOf(kind.operands(mesh));
        return work;
      },
      body);
}

bool mayWorkInPlace(const InstructionBody &body) {
  return std::visit(
      [](const auto &kind) {
        if constexpr (requires { kind.mayWorkInPlace(); })
          return kind.mayWorkInPlace();
        return false;
      },
      body);
}

std::vector<const Scalar *> runScalarsOf(const InstructionBody &body) {
  return std::visit(
      [](const auto &kind) -> std::vector<const Scalar *> {
        if constexpr (requires { kind.runScalars(); })
          return kind.runScalars();
        return {};
      },
      body);
}

const Axes &placementOf(const InstructionBody &body) {
  static const Axes none;
  return std::visit(
      [](const auto &kind) -> const Axes & {
        if constexpr (requires { kind.placement(); })
          return kind.placement();
        return none;
      },
      body);
}

std::string kernelOf(const Instruction &instruction) {
  return std::visit(
      [&](const auto &kind) {
        if constexpr (requires { kind.kernel(instruction.label); })
          return kind.kernel(instruction.label);
        else
          return fmt::format("{} [{}]", instruction.label, kind.sizes());
      },
      instruction.body);
}

std::optional<RankGroup> groupOf(const InstructionBody &body) {
  return std::visit(
      [](const auto &kind) -> std::optional<RankGroup> {
        if constexpr (requires { kind.group(); })
          return kind.group();
        return std::nullopt;
      },
      body);
}

Communication communicationOf(const Mesh &mesh, const InstructionBody &body) {
  return std::visit(
      [&](const auto &kind) -> Communication {
        if constexpr (requires { kind.communication(1); })
          return kind.communication(groupSize(mesh, kind.group()));
        return {};
      },
      body);
}

std::string agreementOf(const InstructionBody &body) {
  return std::visit(
      [](const auto &kind) -> std::string {
        if constexpr (requires { kind.agreement(); })
          return kind.agreement();
        return {};
      },
      body);
}

} // namespace mgc::plan
