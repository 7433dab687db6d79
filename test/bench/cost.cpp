// How long a prediction of a training step takes.
//   cost_bench PLAN [MACHINE]    prints the best and the median of 200 predictions, and of their parts
#include "compiler/cost/PlanWalk.h"
#include "compiler/cost/StepTime.h"
#include "plan/json/PlanJson.h"

#include <algorithm>
#include <chrono>
#include <iostream>

using namespace mgc;

namespace {

constexpr int kRounds = 200;

template <typename Body> void time(const char *name, const Body &body) {
  std::vector<double> milliseconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(taken.count());
  }
  std::ranges::sort(milliseconds);
  std::cout << fmt::format("{:<20} best {:.3f} ms, median {:.3f} ms\n", name, milliseconds.front(),
                           milliseconds[kRounds / 2]);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "cost_bench PLAN [MACHINE]\n";
    return 2;
  }
  Result<plan::Plan> plan = plan::readPlan(argv[1]);
  Result<cost::Machine> machine = !plan.isOk() ? Result<cost::Machine>(plan.status())
                                  : argc == 3  ? cost::findMachine(argv[2])
                                               : Result<cost::Machine>(cost::machineOf(*plan));
  if (!machine.isOk()) {
    std::cerr << machine.status().message() << "\n";
    return 1;
  }
  const cost::Cluster cluster{*machine, plan->mesh, plan->target};
  time("predict", [&] { cost::predict(*plan, *machine); });
  time("  costsOf", [&] { cost::costsOf(cluster, *plan); });
  const schedule::Costs costs = cost::costsOf(cluster, *plan);
  const schedule::Solution solution = cost::solutionOf(*plan);
  time("  solutionOf", [&] { cost::solutionOf(*plan); });
  time("  simulate, once", [&] { schedule::simulate(solution, costs); });
}
