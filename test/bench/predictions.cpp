// Predicted seconds of many plans on many machines, for who fits constants of a machine (calibrate.py).
//   predictions PLAN..    reads lines "MACHINE STACK" (names or files) from standard input; for each prints the seconds of a step of
//                         each plan, separated by blanks. "-" in the place of the stack: this project's own
#include "plan/cost/StepTime.h"
#include "plan/json/PlanJson.h"

#include <iostream>
#include <sstream>

using namespace mgc;

static Status answer(const std::vector<plan::Plan> &plans, const std::string &line) {
  std::istringstream words(line);
  std::string machineName, stackName;
  words >> machineName >> stackName;
  MGC_ASSIGN(machine, cost::findMachine(machineName));
  MGC_ASSIGN(stack, stackName == "-" ? Result<cost::SoftwareStack>(cost::ownStack()) : cost::findStack(stackName));
  for (const plan::Plan &plan : plans)
    std::cout << fmt::format("{} ", cost::predict(plan, machine, {stack}).seconds);
  std::cout << std::endl;
  return Status::ok();
}

static Status answerAll(char **begin, char **end) {
  std::vector<plan::Plan> plans;
  for (; begin != end; ++begin) {
    MGC_ASSIGN(plan, plan::readPlan(*begin));
    plans.push_back(std::move(plan));
  }
  for (std::string line; std::getline(std::cin, line);)
    MGC_TRY(answer(plans, line));
  return Status::ok();
}

int main(int argc, char **argv) {
  const Status answered = answerAll(argv + 1, argv + argc);
  if (!answered.isOk())
    std::cerr << "predictions: " << answered.message() << "\n";
  return answered.isOk() ? 0 : 1;
}
