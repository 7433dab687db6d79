// Throughput: how much a device computed in a step, of what the model needs: --log-throughput.
#pragma once

#include "plan/Plan.h"

#include <functional>

namespace mgc {

// The work that utilisation is computed from.
struct StepWork {
  double modelFlops = 0; // all devices' in a step (docs/cost.md, Utilisation)
  double peakFlops = 0;  // a second, of one device; 0: not known
};
using FindStepWork = std::function<StepWork(const plan::Plan &plan)>;

struct Throughput {
  double tokens = 0;      // a second, of one device; that went in, counted in the loss or not
  double flops = 0;       // the same of the model's
  double utilisation = 0; // share of the peak; 0: not known
};

inline Throughput throughputOf(const StepWork &work, const plan::Plan &plan, double seconds, int64_t devices) {
  const double all = seconds * static_cast<double>(devices), flops = work.modelFlops / all;
  return {static_cast<double>(plan.globalBatchSize * plan.sequenceLength) / all, flops,
          work.peakFlops > 0 ? flops / work.peakFlops : 0};
}

} // namespace mgc
