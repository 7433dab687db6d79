// See FormPass.h.
#include "compiler/program/FormPass.h"

#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace mlir;
using namespace mgc;

namespace {

// A phase, and the passes that bring a module from the phase before to it. Passes of an optional phase may be left out.
struct PhasePasses {
  StringLiteral phase;
  StringLiteral passes;
  bool isOptional = false;
};

// The order of compiler/Phases.cpp, which the test pass-forms.test compares with it.
constexpr auto kPhasePasses = std::to_array<PhasePasses>({
    {"import", ""},
    {"merge", "mg-merge", /*isOptional=*/true},
    {"grad", "mg-grad"},
    {"shard", "mg-shard"},
    {"local", "mg-local, mg-ring, mg-order-rows"},
    {"stage", "mg-stage"},
    {"step", "mg-local"},
    {"tile", "mg-tile", /*isOptional=*/true},
    {"fuse", "mg-fuse"},
});

// The passes that bring a module from the phase to the first later one of `takes`; none: there is no later one.
std::vector<StringRef> missingPasses(StringRef phase, ArrayRef<StringRef> takes) {
  std::vector<StringRef> missing;
  const auto *from = llvm::find_if(kPhasePasses, [&](const PhasePasses &row) { return row.phase == phase; });
  if (from == kPhasePasses.end())
    return {};
  for (const PhasePasses &row : llvm::make_range(from + 1, kPhasePasses.end())) {
    const bool isTaken = llvm::is_contained(takes, row.phase);
    if (isTaken || !row.isOptional)
      missing.push_back(row.passes);
    if (isTaken)
      return missing;
  }
  return {};
}

} // namespace

LogicalResult mgc::verifyPhase(ModuleOp module, StringRef pass, ArrayRef<StringRef> takes) {
  const auto recorded = module->getAttrOfType<StringAttr>(kPhaseAttr);
  if (!recorded || llvm::is_contained(takes, recorded.getValue()))
    return success();
  auto error = emitError(module.getLoc()) << pass << ": the module is in phase " << recorded.getValue()
                                          << "; expected phase " << llvm::join(takes, " or ");
  if (const auto missing = missingPasses(recorded, takes); !missing.empty())
    return error << ": " << llvm::join(missing, ", ") << " must run before";
  return error;
}
