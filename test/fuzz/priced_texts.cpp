// Texts of machine and stack files, read and priced: by machine_files.py, many in one process.
//   priced_texts PLAN..     reads "machine SIZE" or "stack SIZE", a line's end and so many bytes, again and again, from standard input.
//                           Each is answered by a line of JSON: {"refused": message}, or for each plan its step's numbers. A stack is
//                           priced on the machine that is the last one that was read, a machine with our own stack.
#include "plan/cost/Stack.h"
#include "plan/cost/StepTime.h"
#include "plan/json/PlanJson.h"

#include <iostream>
#include <nlohmann/json.hpp>

using namespace mgc;

namespace {

nlohmann::json numbersOf(const cost::StepCost &step) {
  const cost::StepParts &parts = step.parts;
  return {
      {"seconds", step.seconds},
      {"parts",
       {parts.products, parts.attention, parts.rows, parts.moves, parts.launches, parts.tensor, parts.context,
        parts.experts, parts.gradients, parts.optimizer, parts.hostCopies, parts.messages, parts.bubble}},
      {"hidden", {step.hiddenLayers, step.hiddenExchanges, step.hiddenGradients, step.hiddenHostCopies}},
      {"rates",
       {step.tokensPerSecond, step.modelFlops, step.hardwareFlops, step.modelUtilisation, step.hardwareUtilisation}}};
}

class PricedTexts {
public:
  explicit PricedTexts(std::vector<plan::Plan> plans)
      : plans_(std::move(plans)), machine_(cost::machineOf(plans_.front())) {}

  nlohmann::json answer(const std::string &kind, const std::string &text) {
    const Result<nlohmann::json> priced = kind == "machine" ? ofMachine(text) : ofStack(text);
    return priced.isOk() ? *priced : nlohmann::json{{"refused", priced.status().message()}};
  }

private:
  Result<nlohmann::json> ofMachine(const std::string &text) {
    MGC_ASSIGN(machine, cost::parseMachine(text));
    machine_ = machine;
    return priceAll(cost::ownStack());
  }
  Result<nlohmann::json> ofStack(const std::string &text) {
    MGC_ASSIGN(stack, cost::parseStack(text));
    return priceAll(stack);
  }
  nlohmann::json priceAll(const cost::SoftwareStack &stack) const {
    nlohmann::json all = nlohmann::json::array();
    for (const plan::Plan &plan : plans_)
      all.push_back(numbersOf(cost::predict(plan, machine_, {stack})));
    return {{"steps", all}};
  }

  std::vector<plan::Plan> plans_;
  cost::Machine machine_;
};

Status answerAll(char **begin, char **end) {
  std::vector<plan::Plan> plans;
  for (; begin != end; ++begin) {
    MGC_ASSIGN(plan, plan::readPlan(*begin));
    plans.push_back(std::move(plan));
  }
  PricedTexts texts(std::move(plans));
  std::string kind;
  for (size_t size = 0; std::cin >> kind >> size;) {
    std::cin.get();
    std::string text(size, '\0');
    std::cin.read(text.data(), std::streamsize(size));
    std::cout << texts.answer(kind, text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: priced_texts PLAN..\n";
    return 2;
  }
  const Status answered = answerAll(argv + 1, argv + argc);
  if (!answered.isOk())
    std::cerr << "priced_texts: " << answered.message() << "\n";
  return answered.isOk() ? 0 : 1;
}
