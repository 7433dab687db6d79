// See Offload.h.
#include "frontend/layout/Offload.h"

#include "dialects/mg/training/MemorySize.h"
#include "frontend/layout/Options.h"
#include "runtime/base/Problems.h"

namespace mgc::frontend {

static const std::string &flagOf(const AnyOptionField &field) { return optionOf(field).flag; }

static bool isOnCpu(const Layout &layout) { return layout.target.name == nameOf(plan::Target::cpu); }

bool offloadNeedsSlices(const Layout &layout) {
  return layout.optimizerOffload > 0 && (layout.zero == 1 || layout.zero == 2) && layout.hasSlices();
}

void resolveOffload(const LayoutOptions &asked, Layout &layout, Problems &problems) {
  const std::string &flag = flagOf(&LayoutOptions::optimizerOffload);
  const std::string &fraction = flagOf(&LayoutOptions::offloadFraction), &budget = flagOf(&LayoutOptions::hostMemory);
  if (asked.offload == kOffloadAuto) { // with --memory it has been settled
    const std::string &offload = flagOf(&LayoutOptions::offload), &memory = flagOf(&LayoutOptions::memory);
    problems.add("{} auto without {}: less of it takes more time", offload, memory);
    problems.hint("possible: {} 90% with it, or {}", memory, flag);
  }
  if (!asked.optimizerOffload.value_or(false)) {
    for (const auto &[isGiven, of] :
         {std::pair(asked.offloadFraction.has_value(), &fraction), std::pair(asked.hostMemory.has_value(), &budget)})
      if (isGiven) {
        problems.add("{} without {}: nothing is on the host", *of, flag);
        problems.hint("possible: {} with it, or without {}", flag, *of);
      }
    return;
  }
  if (isOnCpu(layout)) {
    problems.add("{} with --target {}: a CPU computes in the host's memory, so nothing is gained", flag,
                 layout.target.name);
    problems.hint("possible: without it, with --zero 1 over --dp, or a --target of GPUs");
  }
  layout.optimizerOffload = asked.offloadFraction.value_or(1);
  if (!(layout.optimizerOffload > 0 && layout.optimizerOffload <= 1)) {
    problems.add("{} {} is not above 0 and at most 1", fraction, layout.optimizerOffload);
    problems.hint("possible: a fraction of the bytes of masters and optimizer states, or without {}", flag);
  }
  if (layout.shardsOuter) {
    problems.add("{} with {} {}: pieces of values would be gathered inside of an instance", flag,
                 flagOf(&LayoutOptions::outerSharding), kShardsOuter);
    problems.hint("possible: one of the two");
  }
  if (asked.hostMemory) {
    if (const Result<MemorySize> size = parseMemorySize(*asked.hostMemory); !size.isOk())
      problems.add("{} {}", budget, size.status().message());
    layout.hostMemory = *asked.hostMemory;
  }
}

void setNearestOffload(const Layout &layout, LayoutOptions &options) {
  options.offload.reset();
  if (isOnCpu(layout))
    options.optimizerOffload.reset();
  if (!options.optimizerOffload.value_or(false))
    options.offloadFraction.reset(), options.hostMemory.reset();
  if (options.offloadFraction && !(*options.offloadFraction > 0 && *options.offloadFraction <= 1))
    options.offloadFraction.reset();
  if (options.hostMemory && !parseMemorySize(*options.hostMemory).isOk())
    options.hostMemory.reset();
  if (options.optimizerOffload.value_or(false)) {
    options.outerSharding.reset();
    if (options.zero == 1 || options.zero == 2)
      options.overlapParamGather.reset();
  }
}

} // namespace mgc::frontend
