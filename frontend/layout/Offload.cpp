// See Offload.h.
#include "frontend/layout/Offload.h"

#include "dialects/mg/training/MemorySize.h"
#include "dialects/mg/training/OffloadWords.h"
#include "frontend/layout/Options.h"
#include "frontend/layout/Recomputation.h"
#include "runtime/base/Problems.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::frontend {

static const std::string &flagOf(const AnyOptionField &field) { return optionOf(field).flag; }

static bool isOnCpu(const Layout &layout) { return layout.target.name == nameOf(plan::Target::cpu); }

static std::vector<std::string> modulesOf(const ModelDescription &model) {
  std::vector<std::string> names;
  for (const OffloadModule &module : kOffloadModules)
    if (module.of.empty() || hasRecomputeModule(model, module.of))
      names.emplace_back(module.name);
  return names;
}

bool offloadNeedsSlices(const Layout &layout) {
  return layout.optimizerOffload > 0 && (layout.zero == 1 || layout.zero == 2) && layout.hasSlices();
}

namespace {

class OffloadResolver {
public:
  OffloadResolver(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems)
      : model(model), asked(asked), layout(layout), problems(problems) {}

  void run() {
    if (asked.offload == kOffloadAuto) { // with --memory it has been settled
      const std::string &offload = flagOf(&LayoutOptions::offload), &memory = flagOf(&LayoutOptions::memory);
      problems.add("{} auto without {}: less of it takes more time", offload, memory);
      problems.hint("possible: {} 90% with it, or {} instead of it", memory, flagOf(&LayoutOptions::optimizerOffload));
    }
    const bool ofOptimizer = asked.optimizerOffload.value_or(false),
               ofActivations = asked.activationOffload.value_or(false);
    if (ofOptimizer)
      resolveOptimizer();
    else
      refuseWithout(asked.offloadFraction.has_value(), &LayoutOptions::offloadFraction,
                    &LayoutOptions::optimizerOffload);
    if (ofActivations)
      resolveActivations();
    for (const auto &[isGiven, field] :
         {std::pair(asked.offloadModules.has_value(), AnyOptionField(&LayoutOptions::offloadModules)),
          std::pair(asked.activationFraction.has_value(), AnyOptionField(&LayoutOptions::activationFraction))})
      refuseWithout(isGiven && !ofActivations, field, &LayoutOptions::activationOffload);
    if (ofOptimizer || ofActivations)
      resolveBudget();
    else
      refuseWithout(asked.hostMemory.has_value(), &LayoutOptions::hostMemory, &LayoutOptions::optimizerOffload,
                    fmt::format(" or {}", flagOf(&LayoutOptions::activationOffload)));
  }

private:
  void refuseWithout(bool isGiven, const AnyOptionField &field, const AnyOptionField &needed,
                     const std::string &orOther = "") {
    if (!isGiven)
      return;
    problems.add("{} without {}{}: nothing is on the host", flagOf(field), flagOf(needed), orOther);
    problems.hint("possible: {}{} with it, or without {}", flagOf(needed), orOther, flagOf(field));
  }

  void refuseOnCpu(const AnyOptionField &field, std::string_view instead) {
    if (!isOnCpu(layout))
      return;
    problems.add("{} with --target {}: a CPU computes in the host's memory, so nothing is gained", flagOf(field),
                 layout.target.name);
    problems.hint("possible: without it, with {}, or a --target of GPUs", instead);
  }

  void refuseFraction(double fraction, const AnyOptionField &field, const AnyOptionField &of, std::string_view what) {
    if (fraction > 0 && fraction <= 1)
      return;
    problems.add("{} {} is not above 0 and at most 1", flagOf(field), fraction);
    problems.hint("possible: a fraction of {}, or without {}", what, flagOf(of));
  }

  void resolveOptimizer() {
    const AnyOptionField field = &LayoutOptions::optimizerOffload;
    refuseOnCpu(field, "--zero 1 over --dp");
    layout.optimizerOffload = asked.offloadFraction.value_or(1);
    refuseFraction(layout.optimizerOffload, &LayoutOptions::offloadFraction, field,
                   "the bytes of masters and optimizer states");
    if (layout.shardsOuter) {
      problems.add("{} with {} {}: pieces of values would be gathered inside of an instance", flagOf(field),
                   flagOf(&LayoutOptions::outerSharding), kShardsOuter);
      problems.hint("possible: one of the two");
    }
  }

  void resolveActivations() {
    const AnyOptionField field = &LayoutOptions::activationOffload, modules = &LayoutOptions::offloadModules;
    refuseOnCpu(field, "--recompute-activations");
    layout.activationOffload = asked.activationFraction.value_or(1);
    refuseFraction(layout.activationOffload, &LayoutOptions::activationFraction, field, "a chunk's layers");
    const std::vector<std::string> names = asked.offloadModules.value_or(std::vector<std::string>());
    if (names.empty()) {
      problems.add("{} without {}", flagOf(field), flagOf(modules));
      problems.hint("possible with this model: {}", fmt::join(modulesOf(model), ", "));
    }
    for (const std::string &name : names)
      resolveModule(name, modules);
    if (asked.memory) {
      problems.add("{} with {}: that chooses among what stays on the device", flagOf(field),
                   flagOf(&LayoutOptions::memory));
      problems.hint("possible: one of the two, or options of what is recomputed");
    }
    if (asked.recomputeMethod == "uniform" && asked.recomputeLayers.value_or(1) > 1) {
      problems.add("{} with units of several layers: of these only what enters stays, and backward reads it twice",
                   flagOf(field));
      problems.hint("possible: {} 1, or without {}", flagOf(&LayoutOptions::recomputeLayers), flagOf(field));
    }
  }

  void resolveModule(const std::string &name, const AnyOptionField &modules) {
    const auto row = std::ranges::find(kOffloadModules, name, &OffloadModule::name);
    if (row == kOffloadModules.end()) {
      problems.add("{} {} is not known", flagOf(modules), name);
      problems.hint("possible with this model: {}", fmt::join(modulesOf(model), ", "));
      return;
    }
    if (!row->of.empty() && !hasRecomputeModule(model, row->of)) {
      problems.add("{} {}: the model has no such layers", flagOf(modules), name);
      problems.hint("possible with this model: {}", fmt::join(modulesOf(model), ", "));
    } else if (row->isRecomputed && asked.recompute.value_or(true)) {
      layout.warnings.push_back(alwaysRecomputed(flagOf(modules), name));
    }
    if (std::ranges::find(layout.offloadModules, name) == layout.offloadModules.end())
      layout.offloadModules.push_back(name);
  }

  void resolveBudget() {
    if (!asked.hostMemory)
      return;
    if (const Result<MemorySize> size = parseMemorySize(*asked.hostMemory); !size.isOk())
      problems.add("{} {}", flagOf(&LayoutOptions::hostMemory), size.status().message());
    layout.hostMemory = *asked.hostMemory;
  }

  const ModelDescription &model;
  const LayoutOptions &asked;
  Layout &layout;
  Problems &problems;
};

} // namespace

void resolveOffload(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems) {
  OffloadResolver(model, asked, layout, problems).run();
}

void setNearestOffload(const ModelDescription &model, const Layout &layout, LayoutOptions &options) {
  options.offload.reset();
  if (isOnCpu(layout))
    options.optimizerOffload.reset(), options.activationOffload.reset();
  const auto setFraction = [](std::optional<double> &fraction, bool isOn) {
    if (!isOn || (fraction && !(*fraction > 0 && *fraction <= 1)))
      fraction.reset();
  };
  if (options.memory || (options.recomputeMethod == "uniform" && options.recomputeLayers.value_or(1) > 1))
    options.activationOffload.reset();
  const bool ofOptimizer = options.optimizerOffload.value_or(false),
             ofActivations = options.activationOffload.value_or(false);
  setFraction(options.offloadFraction, ofOptimizer), setFraction(options.activationFraction, ofActivations);
  if ((!ofOptimizer && !ofActivations) || (options.hostMemory && !parseMemorySize(*options.hostMemory).isOk()))
    options.hostMemory.reset();
  if (!ofActivations) {
    options.offloadModules.reset();
  } else {
    const std::vector<std::string> possible = modulesOf(model);
    std::vector<std::string> &names = options.offloadModules.emplace(options.offloadModules.value_or(possible));
    std::erase_if(names, [&](const std::string &name) { return std::ranges::find(possible, name) == possible.end(); });
    if (names.empty())
      names = {"core_attn"};
  }
  if (ofOptimizer) {
    options.outerSharding.reset();
    if (options.zero == 1 || options.zero == 2)
      options.overlapParamGather.reset();
  }
}

} // namespace mgc::frontend
