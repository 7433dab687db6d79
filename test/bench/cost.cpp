// How long it takes to predict a training step.
//   cost_bench PLAN [MACHINE]            prints the best and the median of 200 predictions of a plan, and of their parts
//   cost_bench CONFIG TP PP DP GBS       the same of 20 evaluations of a model that has been read: imported at the layout,
//                                        compiled up to the plan in memory, predicted
#include "compiler/Phases.h"
#include "compiler/assemble/Assemble.h"
#include "frontend/Load.h"
#include "frontend/import/Import.h"
#include "plan/cost/StepTime.h"
#include "plan/json/PlanJson.h"
#include "plan/play/Player.h"

#include <algorithm>
#include <chrono>
#include <iostream>

using namespace mgc;

namespace {

template <typename Body> void time(const char *name, const Body &body, int rounds = 200) {
  std::vector<double> milliseconds;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(taken.count());
  }
  std::ranges::sort(milliseconds);
  std::cout << fmt::format("{:<20} best {:.3f} ms, median {:.3f} ms\n", name, milliseconds.front(),
                           milliseconds[rounds / 2]);
}

int fail(const Status &status) {
  std::cerr << status.message() << "\n";
  return 1;
}

Status evaluate(mlir::MLIRContext &context, const frontend::ModelDescription &model,
                const frontend::LayoutOptions &layout, const frontend::Supported &supported) {
  MGC_ASSIGN(resolved, frontend::resolveLayout(model, layout, {}, supported));
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(context, model, resolved);
  MGC_TRY(runPhases(*module, {}));
  MGC_ASSIGN(assembled, assemble(*module));
  cost::predict(assembled.plan, cost::machineOf(assembled.plan));
  return Status::ok();
}

int evaluate(char **arguments) {
  Result<frontend::ModelFile> file = frontend::loadModel(arguments[0]);
  if (!file.isOk())
    return fail(file.status());
  frontend::LayoutOptions layout;
  layout.tp = std::atoll(arguments[1]), layout.pp = std::atoll(arguments[2]);
  layout.dp = std::atoll(arguments[3]), layout.gbs = std::atoll(arguments[4]);
  frontend::Supported supported;
  supported.schedules = {{.name = "1f1b", .byDefault = true}};
  supported.targets = {{"cpu", 9, false}};
  mlir::MLIRContext context;
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  Status status;
  time(
      "evaluate",
      [&] {
        if (status.isOk())
          status = evaluate(context, file->model, layout, supported);
      },
      20);
  return status.isOk() ? 0 : fail(status);
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 6)
    return evaluate(argv + 1);
  if (argc < 2 || argc > 3) {
    std::cerr << "cost_bench PLAN [MACHINE]\ncost_bench CONFIG TP PP DP GBS\n";
    return 2;
  }
  Result<plan::Plan> plan = plan::readPlan(argv[1]);
  Result<cost::Machine> machine = !plan.isOk() ? Result<cost::Machine>(plan.status())
                                  : argc == 3  ? cost::findMachine(argv[2])
                                               : Result<cost::Machine>(cost::machineOf(*plan));
  if (!machine.isOk())
    return fail(machine.status());
  const cost::Cluster cluster{*machine, plan->mesh, plan->target};
  time("predict", [&] { cost::predict(*plan, *machine); });
  time("  costsOf", [&] { cost::costsOf(cluster, *plan); });
  const schedule::PlayCosts costs = cost::costsOf(cluster, *plan);
  time("  play, once", [&] { schedule::play(schedule::listsOf(*plan, costs)); });
  time("  each step, once", [&] { schedule::timesOfSteps(schedule::listsOf(*plan, costs)); }, 5);
}
