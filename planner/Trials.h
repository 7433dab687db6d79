// Layouts of one model that are compared: each is compiled up to its plan, without code, and predicted. In: options of layouts, and what
// makes their modules. Out: memory and seconds of each, or why it has no plan.
#pragma once

#include "frontend/layout/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mgc::planner {

// The module in phase import; an error where the options make no layout.
using MakeModule =
    std::function<Result<mlir::OwningOpRef<mlir::ModuleOp>>(mlir::MLIRContext &, const frontend::LayoutOptions &)>;

struct Trial {
  frontend::LayoutOptions options;
  std::string refusal;                // the first line of why there is no plan; empty: there is one
  std::optional<int64_t> leastBudget; // where it does not fit into --memory: the least that would do
  int64_t bytes = 0;                  // the rank that takes most has so many
  double seconds = 0;                 // one step takes so long, predicted
  bool hasPlan() const { return refusal.empty(); }
};

Trial tryOptions(const frontend::LayoutOptions &options, const MakeModule &make);

// Options as they were given: those of flags go before those of the model's file.
struct Asked {
  frontend::LayoutOptions flags, all;
};

// Whether some option is left to tryAll: --zero auto, --offload auto.
bool isOpen(const Asked &asked);
// Flags with level 0, and no offloading, where these are open.
frontend::LayoutOptions settledOf(const Asked &asked);
// --zero auto: each level with each way to keep values and each number of instances that is not asked for otherwise; instances are
// tried that are as large as a node. --offload auto: each of these with none of the optimizer's state on the host, and with each
// quarter. `layout` is that of settledOf.
std::vector<Trial> tryAll(const Asked &asked, const frontend::Layout &layout, const MakeModule &make);
// The one with a plan that takes least time. Error: none has one; the least --memory with which one had.
Result<Trial> fastest(const Asked &asked, const std::vector<Trial> &trials);

// Layouts near one that does not fit into --memory that do: a higher level of ZeRO, the optimizer's state on the host, smaller
// microbatches, twice tp or pp on as many ranks where half of the data ranks do; where none of these, two of them. Those that take
// least time first.
std::vector<Trial> tryNeighbours(const Asked &asked, const frontend::Layout &layout, const MakeModule &make);

// A line for each: the options that flags have not, bytes and seconds or the refusal.
std::string describe(const Asked &asked, const std::vector<Trial> &trials);

} // namespace mgc::planner
