// The optimizer's numbers for each step: Megatron-LM's learning rate schedules and the scalars the update reads.
#pragma once

#include "plan/Optimizers.h"
#include "runtime/base/Status.h"
#include "runtime/exec/Engine.h"

#include <algorithm>
#include <string>
#include <vector>

namespace mgc {

// Steps with an update, and the samples that they took.
struct TrainedSoFar {
  int64_t steps = 0, samples = 0;
};

// Defaults are Megatron-LM's where it has one; it asks for lr.
inline const std::vector<std::string> kDecayStyles = {"constant", "linear", "cosine", "WSD"},
                                      kWsdDecayStyles = {"linear", "cosine", "exponential", "minus_sqrt"};

struct OptimizerOptions {
  bool bySamples = false; // --train-samples: the schedule's lengths are samples, else steps
  double lr = 1e-3, minLr = 0;
  std::string lrDecayStyle = "linear"; // constant linear cosine WSD
  int64_t lrDecay = 0;                 // 0: the length of the training
  int64_t lrWarmup = 0;
  double lrWarmupInit = 0;
  std::string lrWsdDecayStyle = "exponential"; // linear cosine exponential minus_sqrt
  int64_t lrWsdDecay = 0;
  std::vector<double> lrList; // not empty: the rate of each step, and nothing above counts
  double weightDecay = 0.01;
  plan::Optimizer rule = plan::Optimizer::adamw; // the plan's
  // Values of plan::kOptimizerNumbers; those of other rules do not count.
  std::array<double, plan::kOptimizerNumbers.size()> numbers = [] {
    std::array<double, plan::kOptimizerNumbers.size()> standard{};
    std::ranges::transform(plan::kOptimizerNumbers, standard.begin(), &plan::OptimizerNumber::standard);
    return standard;
  }();
  double clipGrad = 1.0;       // 0: no clipping
  double routerBiasRate = 0.0; // by which a step moves the biases of routers towards even load; 0: they stay
};

// Reports options that contradict each other, all at once. `length`: of the training, in what the schedule counts; `steps`: its
// steps.
Status checkOptimizer(const OptimizerOptions &options, int64_t length, int64_t steps);

// The learning rate of the next step, as Megatron's OptimizerParamScheduler gives it: it counts what has been trained before, so
// with warmup the first step's rate is lrWarmupInit.
double learningRate(const OptimizerOptions &options, int64_t length, const TrainedSoFar &trained);

StepScalars stepScalars(const OptimizerOptions &options, double lr, int64_t step);

} // namespace mgc
