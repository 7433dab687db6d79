// See Recomputation.h.
#include "frontend/layout/Recomputation.h"

#include "dialects/mg/training/MemorySize.h"
#include "frontend/layout/Options.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::frontend {

namespace {

const std::string &flagOf(const AnyOptionField &field) { return optionOf(field).flag; }

// The layers that have a module; one without a row here is in every layer.
constexpr std::pair<std::string_view, bool (*)(const BlockDescription &)> kLayersWith[] = {
    {"mlp", [](const BlockDescription &block) { return !block.experts; }},
    {"moe", [](const BlockDescription &block) { return block.experts.has_value(); }},
    {"moe_act", [](const BlockDescription &block) { return block.experts.has_value(); }},
    {"shared_experts", [](const BlockDescription &block) { return block.experts && block.experts->shared; }},
    {"mla_up_proj", [](const BlockDescription &block) { return block.attention.latent.has_value(); }}};

} // namespace

bool hasRecomputeModule(const ModelDescription &model, std::string_view name) {
  const auto row = std::ranges::find(kLayersWith, name, [](const auto &entry) { return entry.first; });
  return row == std::end(kLayersWith) ||
         std::ranges::any_of(model.kinds, [&](const BlockKind &kind) { return row->second(kind.block); }) ||
         (model.encoder && row->second(model.encoder->layer));
}

namespace {

std::vector<std::string> modulesOf(const ModelDescription &model) {
  std::vector<std::string> names;
  for (const RecomputeModule &module : kRecomputeModules)
    if (hasRecomputeModule(model, module.name))
      names.emplace_back(module.name);
  return names;
}

std::optional<RecomputeGranularity> granularityOf(const LayoutOptions &asked) {
  if (asked.recomputeGranularity)
    return plan::valueNamed<RecomputeGranularity>(*asked.recomputeGranularity);
  if (asked.recomputeActivations.value_or(false) || asked.moeLayerRecompute.value_or(false))
    return RecomputeGranularity::selective;
  return std::nullopt;
}

// The modules that are asked for by whichever option; Megatron-LM's default is the first.
std::vector<std::string> modulesAsked(const LayoutOptions &asked) {
  std::vector<std::string> names;
  for (const std::string &name : asked.recomputeModules.value_or(std::vector<std::string>()))
    if (std::ranges::find(names, name) == names.end())
      names.push_back(name);
  if (asked.moeLayerRecompute.value_or(false) && std::ranges::find(names, "moe") == names.end())
    names.emplace_back("moe");
  if (names.empty())
    names.emplace_back(kRecomputeModules.front().name);
  return names;
}

class RecomputeResolver {
public:
  RecomputeResolver(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems)
      : model(model), asked(asked), layout(layout), problems(problems) {}

  void run() {
    const std::optional<RecomputeGranularity> granularity = granularityOf(asked);
    if (asked.memory)
      return resolveMemory(granularity);
    if (!asked.recompute.value_or(true))
      return refuseWithNone(granularity);
    if (granularity == RecomputeGranularity::full)
      return resolveFull();
    const std::string needed = fmt::format("{} full", flagOf(&LayoutOptions::recomputeGranularity));
    refuse(asked.recomputeMethod.has_value(), &LayoutOptions::recomputeMethod, needed,
           "all layers recompute the modules");
    refuse(asked.recomputeLayers.has_value(), &LayoutOptions::recomputeLayers, needed,
           "all layers recompute the modules");
    if (granularity == RecomputeGranularity::selective)
      resolveModules();
    else
      refuse(asked.recomputeModules.has_value(), &LayoutOptions::recomputeModules,
             fmt::format("{} selective", flagOf(&LayoutOptions::recomputeGranularity)), "nothing reads it");
  }

private:
  void refuse(bool isGiven, const AnyOptionField &field, const std::string &needed, std::string_view why) {
    if (!isGiven)
      return;
    problems.add("{} without {}: {}", flagOf(field), needed, why);
    problems.hint("possible: {} with it, or without {}", needed, flagOf(field));
  }

  void resolveMemory(std::optional<RecomputeGranularity> granularity) {
    const std::string &flag = flagOf(&LayoutOptions::memory);
    if (const Result<MemorySize> size = parseMemorySize(*asked.memory); !size.isOk())
      problems.add("{} {}", flag, size.status().message());
    if (granularity || asked.recompute || asked.recomputeMethod || asked.recomputeLayers || asked.recomputeModules) {
      problems.add("{} {} with an option of what is recomputed: it chooses that for each layer", flag, *asked.memory);
      problems.hint("possible: {} alone, or without it", flag);
    }
    layout.memory = *asked.memory;
  }

  void refuseWithNone(std::optional<RecomputeGranularity> granularity) {
    layout.recompute = RecomputeGranularity::none;
    const std::string &flag = optionOf(&LayoutOptions::recompute).negation();
    const bool hasMore = granularity || asked.recomputeMethod || asked.recomputeLayers || asked.recomputeModules;
    if (!hasMore)
      return;
    problems.add("{} with an option of what is recomputed: it saves all that backward reads", flag);
    problems.hint("possible: without {}, or without the others", flag);
  }

  void resolveFull() {
    const std::string full = fmt::format("{} full", flagOf(&LayoutOptions::recomputeGranularity));
    const std::string &method = flagOf(&LayoutOptions::recomputeMethod);
    const std::string &layers = flagOf(&LayoutOptions::recomputeLayers);
    if (asked.recomputeActivations.value_or(false)) {
      problems.add("{} with {}: it is selective recomputation of core_attn",
                   flagOf(&LayoutOptions::recomputeActivations), full);
      problems.hint("possible: one of the two");
    }
    refuse(asked.recomputeModules || asked.moeLayerRecompute.value_or(false),
           asked.recomputeModules ? AnyOptionField(&LayoutOptions::recomputeModules)
                                  : AnyOptionField(&LayoutOptions::moeLayerRecompute),
           fmt::format("{} selective", flagOf(&LayoutOptions::recomputeGranularity)),
           "with full all modules are recomputed");
    if (!asked.recomputeMethod || !asked.recomputeLayers) {
      problems.add("{} without {}", full,
                   asked.recomputeMethod   ? layers
                   : asked.recomputeLayers ? method
                                           : fmt::format("{} and {}", method, layers));
      problems.hint("possible: {} uniform {} 1, all layers; {} block {} N, the first N of each stage", method, layers,
                    method, layers);
      return;
    }
    layout.recompute = RecomputeGranularity::full;
    layout.recomputeMethod = plan::valueNamed<RecomputeMethod>(*asked.recomputeMethod)
                                 .value_or(RecomputeMethod::uniform); // has been checked
    layout.recomputeLayers = *asked.recomputeLayers;
    if (layout.recomputeMethod == RecomputeMethod::uniform && layout.recomputeLayers > 1 && layout.splitBackward) {
      problems.add("{} {} with {} uniform: schedule {} computes gradients of weights in a pass of its own, until which "
                   "recomputed layers of a unit would have to stay",
                   layers, layout.recomputeLayers, method, layout.schedule);
      problems.hint("possible: {} 1 with it, {} block, or {} {}", layers, method, flagOf(&LayoutOptions::schedule),
                    layout.virtualStages > 1 ? "interleaved" : "1f1b");
    }
  }

  void resolveModules() {
    for (const std::string &name : modulesAsked(asked)) {
      const auto row = std::ranges::find(kRecomputeModules, name, &RecomputeModule::name);
      if (row == kRecomputeModules.end()) {
        const std::string why = whyNoRecomputeModule(name);
        problems.add("{} {} {}", flagOf(&LayoutOptions::recomputeModules), name, why.empty() ? "is not known" : why);
        problems.hint("possible with this model: {}", listOf(modulesOf(model)));
      } else if (!hasRecomputeModule(model, name)) {
        problems.add("{} {}: the model has no {}", flagOf(&LayoutOptions::recomputeModules), name, row->needs);
        problems.hint("possible with this model: {}", listOf(modulesOf(model)));
      } else if (row->isAlways) {
        layout.warnings.push_back(alwaysRecomputed(flagOf(&LayoutOptions::recomputeModules), name));
      } else {
        layout.recomputeModules.push_back(name);
      }
    }
    if (!layout.recomputeModules.empty())
      layout.recompute = RecomputeGranularity::selective;
  }

  const ModelDescription &model;
  const LayoutOptions &asked;
  Layout &layout;
  Problems &problems;
};

} // namespace

void resolveRecompute(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems) {
  RecomputeResolver(model, asked, layout, problems).run();
}

void setNearestRecompute(const ModelDescription &model, LayoutOptions &options) {
  if (options.memory && !parseMemorySize(*options.memory).isOk())
    options.memory.reset();
  if (options.memory)
    options.recompute.reset(), options.recomputeGranularity.reset(), options.recomputeMethod.reset(),
        options.recomputeLayers.reset(), options.recomputeModules.reset(), options.recomputeActivations.reset(),
        options.moeLayerRecompute.reset();
  if (options.recomputeModules) {
    const std::vector<std::string> possible = modulesOf(model);
    std::erase_if(*options.recomputeModules,
                  [&](const std::string &name) { return std::ranges::find(possible, name) == possible.end(); });
    if (options.recomputeModules->empty())
      options.recomputeModules.reset();
  }
  if (options.moeLayerRecompute && !hasRecomputeModule(model, "moe"))
    options.moeLayerRecompute.reset();
  const std::optional<RecomputeGranularity> granularity = granularityOf(options);
  const bool isNone = !options.recompute.value_or(true);
  if (isNone)
    options.recomputeGranularity.reset();
  if (isNone || granularity != RecomputeGranularity::selective)
    options.recomputeModules.reset(), options.recomputeActivations.reset(), options.moeLayerRecompute.reset();
  if (isNone || granularity != RecomputeGranularity::full) {
    options.recomputeMethod.reset(), options.recomputeLayers.reset();
  } else {
    options.recomputeMethod = options.recomputeMethod.value_or("uniform");
    const bool isSplit = options.schedule && options.recomputeMethod == "uniform"; // it may be
    options.recomputeLayers = isSplit ? 1 : options.recomputeLayers.value_or(1);
  }
}

std::string alwaysRecomputed(std::string_view flag, std::string_view module) {
  return fmt::format("{} {} does nothing here: it is recomputed anyway, unless {} is given", flag, module,
                     optionOf(&LayoutOptions::recompute).negation());
}

std::vector<std::string> recomputeModuleNames() {
  std::vector<std::string> names;
  for (const RecomputeModule &module : kRecomputeModules)
    names.emplace_back(module.name);
  return names;
}

std::string whyNoRecomputeModule(const std::string &word) {
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"gdn_norm_out", "linear attention (gated delta net)"},
      {"gdp_in_proj", "linear attention (gated delta product)"},
      {"gdp_qkv", "linear attention (gated delta product)"},
      {"mhc", "hyper-connections"}};
  for (const auto &[name, of] : kOthers)
    if (word == name)
      return fmt::format("is of {}, which no model has here", of);
  return "";
}

} // namespace mgc::frontend
