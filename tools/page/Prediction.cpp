// See Prediction.h.
#include "tools/page/Prediction.h"

#include "plan/cost/Fit.h"
#include "plan/cost/Machine.h"
#include "runtime/base/Json.h"
#include "runtime/base/NumberText.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::cost;

namespace {

constexpr tools::NamedPart kParts[] = {
    {"products", "products", &StepParts::products},
    {"attention", "attention", &StepParts::attention},
    {"row_kernels", "row kernels", &StepParts::rows},
    {"moves", "moves", &StepParts::moves},
    {"launches", "waiting for the host to start kernels", &StepParts::launches},
    {"tensor", "collectives of tensor parallelism", &StepParts::tensor},
    {"context", "collectives of context parallelism", &StepParts::context},
    {"experts", "exchanges of experts", &StepParts::experts},
    {"gradients", "collectives of gradients and parameters", &StepParts::gradients},
    {"optimizer", "optimizer", &StepParts::optimizer},
    {"host_copies", "copies between host and device", &StepParts::hostCopies},
    {"messages", "messages between stages", &StepParts::messages},
    {"bubble", "bubble: waiting for other stages", &StepParts::bubble},
};

constexpr double kLeastShare = 0.0005; // share of the step: smaller parts are not printed

std::string partsText(const StepCost &step) {
  std::string text;
  for (const tools::NamedPart &part : kParts)
    if (const double seconds = step.parts.*part.seconds; seconds > kLeastShare * step.seconds)
      text +=
          fmt::format("  {:<40} {:>10}  {:>5.1f} %\n", part.text, secondsText(seconds), 100 * seconds / step.seconds);
  return text;
}

// The collectives that the parts leave out.
std::string hiddenText(const plan::Plan &plan, const StepCost &step) {
  if (!plan::leavesCoresToProducts(plan.target) && step.hiddenGradients <= 0)
    return "";
  const double exchanges = step.hiddenExchanges + step.parts.experts;
  const std::string ofExchanges = exchanges > 0 ? fmt::format("{} of the {} of exchanges of experts behind products, ",
                                                              secondsText(step.hiddenExchanges), secondsText(exchanges))
                                                : "";
  return fmt::format(
      "  hidden, by the rules of docs/cost.md: {} of the layers' collectives behind products, {}{} of the "
      "gradients' and parameters' behind layers\n",
      secondsText(step.hiddenLayers), ofExchanges, secondsText(step.hiddenGradients));
}

std::string hostText(const plan::Plan &plan, const StepCost &step) {
  const auto needed = std::ranges::max(plan.stages, {}, &plan::StagePlan::hostBytes).hostBytes;
  if (needed == 0)
    return "";
  return fmt::format("  hidden, of the copies between host and device: {} behind other work\n",
                     secondsText(step.hiddenHostCopies));
}

// Warns where the user named a machine that runs plans of another target.
std::string targetText(const plan::Plan &plan, const Machine &machine) {
  if (machine.target.starts_with(nameOf(plan.target)))
    return "";
  return fmt::format(
      "  the machine runs plans for {}, this one is for {}: its kernels and its order of collectives are others\n",
      machine.target, describeTarget(plan));
}

} // namespace

std::span<const tools::NamedPart> mgc::tools::namedParts() { return kParts; }

std::string mgc::tools::predictionText(const plan::Plan &plan, const Machine &machine, const StepCost &step) {
  const std::string load =
      step.imbalance > 1 ? fmt::format(", the fullest rank with {} times the mean of experts' rows", step.imbalance)
                         : "";
  return fmt::format(
      "predicted step on {} ({}){}\n  {} a step, {:.0f} tokens/s of each device; model FLOPs utilisation "
      "{:.1f} %, hardware FLOPs utilisation {:.1f} %\n{}{}{}{}",
      machine.name, machine.device, load, secondsText(step.seconds), step.tokensPerSecond, 100 * step.modelUtilisation,
      100 * step.hardwareUtilisation, partsText(step), hiddenText(plan, step), hostText(plan, step),
      targetText(plan, machine));
}

std::string mgc::tools::stackDifferenceText(const SoftwareStack &stack, const StepCost &step, const StepCost &own) {
  const auto line = [](std::string_view name, double theirs, double ours) {
    return fmt::format("  {:<40} {:>10}  {:>10}  {:>+7.2f} %\n", name, secondsText(theirs), secondsText(ours),
                       100 * (theirs - ours) / ours);
  };
  std::string text = fmt::format("by the stack {} ({})\n  {:<40} {:>10}  {:>10}  of our step\n", printable(stack.name),
                                 printable(stack.description), "", "the stack", own.stack);
  for (const tools::NamedPart &part : kParts) {
    const double theirs = step.parts.*part.seconds, ours = own.parts.*part.seconds;
    if (std::max(theirs, ours) > kLeastShare * own.seconds)
      text += fmt::format("  {:<40} {:>10}  {:>10}  {:>+7.2f} %\n", part.text, secondsText(theirs), secondsText(ours),
                          100 * (theirs - ours) / own.seconds);
  }
  return text + line("a step", step.seconds, own.seconds);
}

nlohmann::json mgc::tools::fitJson(const plan::Plan &plan, const Fit &fit) {
  nlohmann::json changes = nlohmann::json::array();
  if (knowsChanges(plan, fit))
    for (const plan::PlanFit::Change &change : plan.fit.changes)
      changes.push_back(
          {{"flags", change.flags}, {"ranks", change.ranks}, {"bytes", change.bytes}, {"seconds", change.seconds}});
  return {{"machine", fit.machine},
          {"fits", fit.fits()},
          {"needed_bytes", fit.device.needed},
          {"device_bytes", fit.device.available},
          {"spare_bytes", fit.device.spare()},
          {"host_needed_bytes", fit.host.needed},
          {"host_bytes", fit.host.available},
          {"host_spare_bytes", fit.host.spare()},
          {"changes", changes}};
}

nlohmann::json mgc::tools::predictionJson(const Machine &machine, const StepCost &step) {
  nlohmann::json parts = nlohmann::json::object();
  for (const tools::NamedPart &part : kParts)
    parts[part.key] = step.parts.*part.seconds;
  return {{"machine", machine.name},
          {"stack", step.stack},
          {"load_imbalance", step.imbalance},
          {"seconds", step.seconds},
          {"parts", parts},
          {"hidden",
           {{"layers", step.hiddenLayers},
            {"exchanges", step.hiddenExchanges},
            {"gradients", step.hiddenGradients},
            {"host_copies", step.hiddenHostCopies}}},
          {"bubble", step.bubble()},
          {"tokens_per_second_per_device", step.tokensPerSecond},
          {"model_flops", step.modelFlops},
          {"hardware_flops", step.hardwareFlops},
          {"mfu", step.modelUtilisation},
          {"hfu", step.hardwareUtilisation}};
}
