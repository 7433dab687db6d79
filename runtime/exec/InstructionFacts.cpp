#include "runtime/exec/InstructionFacts.h"

#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mgc {

namespace {

constexpr std::array kNames = {"product", "attention", "row kernel", "collective", "move", "transfer"};

WorkKind kindOf(const plan::RowKernel &) { return WorkKind::row; }
WorkKind kindOf(const plan::Gemm &) { return WorkKind::product; }
WorkKind kindOf(const plan::Attention &) { return WorkKind::attention; }
WorkKind kindOf(const plan::Collective &) { return WorkKind::collective; }
WorkKind kindOf(const plan::Move &) { return WorkKind::move; }

// That of a product stands in Plan.h.
std::string sizesOf(const plan::Attention &a) {
  return fmt::format("s {} t {} b {} g {} r {} d {}", a.s, a.t, a.b, a.g, a.r, a.d);
}
std::string sizesOf(const plan::Collective &collective) {
  const std::string elements = fmt::format(
      "{} of {}", collective.outer * collective.middle * collective.chunk, nameOf(collective.type));
  return collective.stages.empty()
             ? fmt::format("{} over {}", elements, fmt::join(collective.axes, " "))
             : fmt::format("{} over stages {}", elements, fmt::join(collective.stages, " "));
}
std::string sizesOf(const plan::Move &move) {
  return fmt::format("{} bytes",
                     move.kind == plan::Move::Kind::slice ? move.outer * move.chunkBytes : move.bytes);
}

} // namespace

std::string_view nameOf(WorkKind kind) { return kNames[static_cast<size_t>(kind)]; }

WorkKind kindOf(const plan::Instruction &instruction) {
  return std::visit([](const auto &body) { return kindOf(body); }, instruction.body);
}

std::string kernelOf(const plan::Instruction &instruction) {
  return std::visit(
      [&](const auto &body) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(body)>, plan::RowKernel>)
          return body.symbol;
        else
          return fmt::format("{} [{}]", instruction.label, sizesOf(body));
      },
      instruction.body);
}

} // namespace mgc
