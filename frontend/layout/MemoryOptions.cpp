// See OptionRows.h.
#include "dialects/mg/training/OffloadWords.h"
#include "frontend/layout/OptionRows.h"
#include "frontend/layout/Recomputation.h"

namespace mgc::frontend {

namespace {

std::vector<std::string> offloads(const Supported &) { return {std::string(kOffloadGiven), std::string(kOffloadAuto)}; }
std::vector<std::string> offloadModules(const Supported &) { return namesOf(kOffloadModules); }
std::vector<std::string> granularities(const Supported &) { return {"selective", "full"}; }
std::vector<std::string> methods(const Supported &) { return wordsOf<RecomputeMethod>(); }
std::vector<std::string> modules(const Supported &) { return recomputeModuleNames(); }

} // namespace

std::vector<LayoutOption> memoryOptions() {
  using Options = LayoutOptions;
  const std::vector<AnyOptionField> policy = {&Options::recompute,         &Options::recomputeGranularity,
                                              &Options::recomputeMethod,   &Options::recomputeLayers,
                                              &Options::recomputeModules,  &Options::recomputeActivations,
                                              &Options::moeLayerRecompute, &Options::memory};
  return {
      {.flag = "--recompute",
       .field = &Options::recompute,
       .help = "Backward recomputes norms, activation functions and gated products; --no-recompute saves all that it "
               "reads, where time is worth more than memory",
       .standard = "on",
       .reason = "they take more memory than time",
       .hasNegation = true,
       .replaces = policy},
      {.flag = "--recompute-granularity",
       .field = &Options::recomputeGranularity,
       .words = granularities,
       .help =
           "What else layers recompute: selective, the modules of --recompute-modules; full, all but their input and "
           "choices of experts, of the layers that --recompute-method says",
       .standard = "none",
       .reason = "nothing else unless asked for",
       .replaces = policy,
       .training = &Layout::recompute},
      {.flag = "--recompute-method",
       .field = &Options::recomputeMethod,
       .words = methods,
       .help = "With --recompute-granularity full: uniform, all layers, in units of --recompute-num-layers; block, the "
               "first so many of each stage, and of each virtual stage",
       .standard = "none, one must be given",
       .training = &Layout::recomputeMethod},
      {.flag = "--recompute-num-layers",
       .field = &Options::recomputeLayers,
       .most = 1 << 16,
       .help = "With --recompute-granularity full: the layers of a unit (uniform), or of a stage (block)",
       .standard = "none, one must be given",
       .training = &Layout::recomputeLayers},
      {.flag = "--recompute-modules",
       .field = &Options::recomputeModules,
       .words = modules,
       .whyNot = whyNoRecomputeModule,
       .help =
           "With --recompute-granularity selective: parts of a layer that backward recomputes; layernorm and moe_act "
           "always are",
       .standard = "core_attn",
       .reason = "as Megatron-LM",
       .training = &Layout::recomputeModules},
      {.flag = "--recompute-activations",
       .field = &Options::recomputeActivations,
       .help = "Megatron-LM's short way to say --recompute-granularity selective",
       .standard = "off",
       .replaces = policy},
      {.flag = "--moe-layer-recompute",
       .field = &Options::moeLayerRecompute,
       .help = "Megatron-LM's older way to say --recompute-granularity selective --recompute-modules moe",
       .standard = "off",
       .replaces = policy},
      {.flag = "--memory",
       .field = &Options::memory,
       .help =
           "Memory of a rank (80GB, 22GiB), or a part of the device's (90%): each layer recomputes what it must for "
           "that, and the step is shortest",
       .standard = "none",
       .replaces = policy,
       .training = &Layout::memory},
      {.flag = "--optimizer-cpu-offload",
       .field = &Options::optimizerOffload,
       .help =
           "On GPUs: masters and what the optimizer keeps are in memory of the host, and pass through the device in "
           "pieces when they are updated",
       .standard = "off",
       .hasNegation = true,
       .replaces = {&Options::offloadFraction, &Options::offload},
       .isEstimated = false},
      {.flag = "--optimizer-offload-fraction",
       .field = &Options::offloadFraction,
       .least = 0,
       .most = 1,
       .help = "With --optimizer-cpu-offload: the part of their bytes that is on the host",
       .standard = "1",
       .reason = "all of them",
       .training = &Layout::optimizerOffload},
      {.flag = "--offload",
       .field = &Options::offload,
       .words = offloads,
       .help =
           "With --memory, on GPUs: auto chooses between none and each quarter of --optimizer-offload-fraction, within "
           "--host-memory",
       .reason = "by --optimizer-cpu-offload",
       .isEstimated = false},
      {.flag = "--fine-grained-activation-offloading",
       .field = &Options::activationOffload,
       .help = "On GPUs: what layers save of --offload-modules is in memory of the host until their backward",
       .standard = "off",
       .hasNegation = true,
       .replaces = {&Options::offloadModules, &Options::activationFraction},
       .isEstimated = false},
      {.flag = "--offload-modules",
       .field = &Options::offloadModules,
       .words = offloadModules,
       .help = "With --fine-grained-activation-offloading: parts of a layer whose saved inputs are on the host",
       .standard = "none, one must be given",
       .training = &Layout::offloadModules},
      {.flag = "--activation-offload-fraction",
       .field = &Options::activationFraction,
       .least = 0,
       .most = 1,
       .help = "With --fine-grained-activation-offloading: the part of a chunk's layers, but for its last, the first "
               "of them",
       .standard = "1",
       .reason = "all of them",
       .training = &Layout::activationOffload},
      {.flag = "--host-memory",
       .field = &Options::hostMemory,
       .help = "With --optimizer-cpu-offload, --fine-grained-activation-offloading or --offload auto: the most memory "
               "of the "
               "host that a rank may take (64GB, 22GiB), or a part of what the machine has for each device (90%)",
       .standard = "none",
       .reason = "any",
       .training = &Layout::hostMemory}};
}

} // namespace mgc::frontend
