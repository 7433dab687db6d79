// Layouts of one model that are compared: each is compiled up to its plan, without code, and predicted. In: options of layouts, and what
// makes their modules. Out: memory and seconds of each, or why it has no plan.
#pragma once

#include "frontend/layout/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "plan/cost/StepTime.h"

namespace mgc::planner {

// The module in phase import; an error where the options make no layout. It is called from several threads at once.
using MakeModule =
    std::function<Result<mlir::OwningOpRef<mlir::ModuleOp>>(mlir::MLIRContext &, const frontend::LayoutOptions &)>;

struct Trial {
  frontend::LayoutOptions options;
  std::string refusal;                // the first line of why there is no plan; empty: there is one
  std::optional<int64_t> leastBudget; // where it does not fit into --memory: the least that would do
  int64_t bytes = 0, hostBytes = 0;   // the rank that takes most has so many, of the device and of the host
  int64_t ranks = 0;
  double seconds = 0;                               // one step takes so long, predicted
  double tokensPerSecond = 0, modelUtilisation = 0; // likewise: StepCost
  cost::StepParts parts;
  std::vector<double> secondsOn; // the same on TrialAssumptions::others
  bool hasPlan() const { return refusal.empty(); }
};

// Facts that predictions depend on, and plans do not.
struct TrialAssumptions {
  double imbalance = 1;                   // cost::Cluster::imbalance
  std::vector<cost::Machine> others = {}; // each is predicted on these machines too
};
// Several at once, as many as the machine has cores; in the order of `options`.
std::vector<Trial> tryEach(const std::vector<frontend::LayoutOptions> &options, const MakeModule &make,
                           const TrialAssumptions &assumptions = {});

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

// The options that flags have not, "no more options" where there are none.
std::string differing(const Asked &asked, const frontend::LayoutOptions &options);
// A line for each: the options that flags have not, bytes and seconds or the refusal.
std::string describe(const Asked &asked, const std::vector<Trial> &trials);

} // namespace mgc::planner
