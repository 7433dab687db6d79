// See OptimizerSchedule.h.
#include "runtime/train/OptimizerSchedule.h"

#include "runtime/base/Problems.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mgc {

namespace {

double cosineCoefficient(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

// Stays at 1 and falls to 0 in the last lrWsdDecay before `decay`.
double wsdCoefficient(const OptimizerOptions &options, int64_t decay, int64_t done) {
  const int64_t annealStart = decay - options.lrWsdDecay;
  if (done <= annealStart)
    return 1;
  const double ratio = static_cast<double>(done - annealStart) / static_cast<double>(options.lrWsdDecay);
  if (options.lrWsdDecayStyle == "linear")
    return 1.0 - ratio;
  if (options.lrWsdDecayStyle == "cosine")
    return cosineCoefficient(ratio);
  return options.lrWsdDecayStyle == "minus_sqrt" ? 1.0 - std::sqrt(ratio) : 2.0 * std::pow(0.5, ratio) - 1.0;
}

double decayCoefficient(const OptimizerOptions &options, int64_t decay, int64_t done) {
  if (options.lrDecayStyle == "WSD")
    return wsdCoefficient(options, decay, done);
  const double ratio = static_cast<double>(done - options.lrWarmup) / static_cast<double>(decay - options.lrWarmup);
  return options.lrDecayStyle == "cosine" ? cosineCoefficient(ratio) : 1.0 - ratio;
}

int64_t decayOf(const OptimizerOptions &options, int64_t length) {
  return options.lrDecay > 0 ? options.lrDecay : length;
}

std::string nameOf(const OptimizerOptions &options, std::string_view flag) {
  return fmt::format("{}{}", flag, options.bySamples ? "samples" : "iters");
}

bool isOneOf(const std::string &value, const std::vector<std::string> &names) {
  return std::ranges::find(names, value) != names.end();
}

// The update computes in float: a value counts as what it is there.
bool isFiniteFloat(double value) { return std::isfinite(static_cast<float>(value)); }

// Scores are between 0 and 1: a larger step would order experts by it alone.
constexpr double kMostRouterBiasRate = 1;

void checkUpdate(const OptimizerOptions &options, Problems &problems) {
  for (size_t i = 0; i < options.numbers.size(); ++i) {
    const plan::OptimizerNumber &number = plan::kOptimizerNumbers[i];
    const double value = options.numbers[i];
    if (number.of != options.rule)
      continue;
    if (number.isShare)
      problems.expect(value >= 0 && static_cast<float>(value) < 1, "{} = {}: at least 0 and below 1 in float",
                      number.flag, value);
    else
      problems.expect(static_cast<float>(value) > 0 && isFiniteFloat(value),
                      "{} = {}: must be above 0 and finite in float", number.flag, value);
  }
  problems.expect(options.weightDecay >= 0 && isFiniteFloat(options.weightDecay),
                  "--weight-decay = {}: must not be negative, and finite in float", options.weightDecay);
  problems.expect(
      options.clipGrad == 0 || (static_cast<float>(options.clipGrad) > 0 && isFiniteFloat(options.clipGrad)),
      "--clip-grad = {}: expected 0, which is no clipping, or above 0 and finite in float", options.clipGrad);
  problems.expect(options.routerBiasRate >= 0 && options.routerBiasRate <= kMostRouterBiasRate,
                  "--moe-router-bias-update-rate = {}: expected 0, by which biases stay, to {}; DeepSeek-V3 "
                  "was trained with 0.001",
                  options.routerBiasRate, kMostRouterBiasRate);
}

void checkSchedule(const OptimizerOptions &options, int64_t decay, Problems &problems) {
  problems.expect(options.lr >= 0 && isFiniteFloat(options.lr), "--lr = {}: must be finite in float and not negative",
                  options.lr);
  problems.expect(options.lrDecay >= 0, "{} = {}: must not be negative; 0 is {}", nameOf(options, "--lr-decay-"),
                  options.lrDecay, nameOf(options, "--train-"));
  problems.expect(options.lrWarmupInit >= 0 && (options.lrWarmupInit <= options.lr || !(options.lr >= 0)),
                  "--lr-warmup-init = {}: at least 0, at most --lr = {}", options.lrWarmupInit, options.lr);
  problems.expect(options.minLr >= 0 && (options.minLr <= options.lr || !(options.lr >= 0)),
                  "--min-lr = {}: at least 0, at most --lr = {}", options.minLr, options.lr);
  problems.expect(isOneOf(options.lrDecayStyle, kDecayStyles), "--lr-decay-style = {}: constant, linear, cosine or WSD",
                  options.lrDecayStyle);
  problems.expect(options.lrWarmup >= 0 && (options.lrWarmup == 0 || options.lrWarmup < decay),
                  "{} = {}: at least 0, below the {} {} of the decay; so is what --lr-warmup-fraction gives",
                  nameOf(options, "--lr-warmup-"), options.lrWarmup, decay, options.bySamples ? "samples" : "steps");
  if (options.lrDecayStyle != "WSD")
    return;
  problems.expect(isOneOf(options.lrWsdDecayStyle, kWsdDecayStyles),
                  "--lr-wsd-decay-style = {}: linear, cosine, exponential or minus_sqrt", options.lrWsdDecayStyle);
  problems.expect(options.lrWsdDecay > 0 && options.lrWsdDecay <= decay, "{} = {}: WSD needs 1 to {}",
                  nameOf(options, "--lr-wsd-decay-"), options.lrWsdDecay, decay);
}

void checkList(const std::vector<double> &rates, int64_t steps, Problems &problems) {
  problems.expect(static_cast<int64_t>(rates.size()) >= steps, "--lr-list: {} rates for {} training steps",
                  rates.size(), steps);
  const auto bad = std::ranges::find_if_not(rates, [](double rate) { return rate >= 0 && isFiniteFloat(rate); });
  problems.expect(bad == rates.end(), "--lr-list: rate {} is {}: must be finite in float and not negative",
                  bad - rates.begin(), bad == rates.end() ? 0 : *bad);
}

} // namespace

Status checkOptimizer(const OptimizerOptions &options, int64_t length, int64_t steps) {
  Problems problems;
  checkUpdate(options, problems);
  if (options.lrList.empty())
    checkSchedule(options, decayOf(options, length), problems);
  else
    checkList(options.lrList, steps, problems);
  return problems.status();
}

double learningRate(const OptimizerOptions &options, int64_t length, const TrainedSoFar &trained) {
  if (!options.lrList.empty())
    return options.lrList[std::min<size_t>(trained.steps, options.lrList.size() - 1)];
  const int64_t decay = decayOf(options, length), done = options.bySamples ? trained.samples : trained.steps;
  if (options.lrWarmup > 0 && done <= options.lrWarmup)
    return options.lrWarmupInit +
           (options.lr - options.lrWarmupInit) * static_cast<double>(done) / static_cast<double>(options.lrWarmup);
  if (options.lrDecayStyle == "constant")
    return options.lr;
  if (done > decay)
    return options.minLr;
  return options.minLr + decayCoefficient(options, decay, done) * (options.lr - options.minLr);
}

StepScalars stepScalars(const OptimizerOptions &options, double lr, int64_t step) {
  StepScalars scalars{};
  const auto set = [&](plan::StepScalar scalar, double value) { scalars[indexOf(scalar)] = static_cast<float>(value); };
  set(plan::StepScalar::lr, lr);
  set(plan::StepScalar::weightDecay, options.weightDecay);
  set(plan::StepScalar::clip, options.clipGrad);
  set(plan::StepScalar::routerBiasRate, options.routerBiasRate);
  for (size_t i = 0; i < options.numbers.size(); ++i) {
    const plan::OptimizerNumber &number = plan::kOptimizerNumbers[i];
    // As the update has it, in f32: the correction of the double would not undo what the update does.
    const auto value = static_cast<float>(options.numbers[i]);
    scalars[plan::scalarNamed(number.name)] = value;
    if (!number.correction.empty())
      scalars[plan::scalarNamed(number.correction)] =
          static_cast<float>(1 - std::pow(static_cast<double>(value), static_cast<double>(step + 1)));
  }
  return scalars;
}

} // namespace mgc
