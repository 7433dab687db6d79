// Layout: how a model is spread over ranks. Takes what the user gave (flags, and defaults in model.json), fills in the
// rest with reasons, and refuses what cannot work: all violations at once, each with the values that would work.
#pragma once

#include "dialects/mg/training/TrainingSettings.h"
#include "model/Description.h"
#include "plan/mesh/MeshViews.h"

#include <functional>
#include <limits>

namespace mgc::frontend {

// A number that is left to `mgc compile`: to its search, or to --memory (LayoutOption::takesAuto).
inline constexpr int64_t kAuto = std::numeric_limits<int64_t>::min();
inline constexpr const char *kAutoCut = "auto"; // the cut of the chain: LayoutOption::isSearchedCut

struct LayoutOptions { // the options that were given
  std::optional<int64_t> ep = {}, etp = {};
  std::optional<std::string> dispatcher = {};
  std::optional<int64_t> tp = {}, pp = {}, dp = {}, world = {}, vpp = {}, seq = {}, mbs = {}, gbs = {}, zero = {},
                         lossTile = {}, bucketSize = {}, cp = {}, layersPerChunk = {}, instances = {};
  std::optional<std::string> outerSharding = {}; // no_shard, or kShardsOuter
  std::optional<bool> sp = {}, overlapGradReduce = {}, overlapParamGather = {}, reshard = {}, resetPositionIds = {},
                      resetAttentionMask = {}, countsLoad = {}, fp32Residual = {};
  std::optional<int64_t> encoderLength = {};
  std::optional<std::string> schedule = {}, optimizer = {}, dtype = {}, gradientType = {}, target = {},
                             contextOrder = {};
  std::optional<double> scheduleMemory = {}, auxLossCoefficient = {}, zLossCoefficient = {}, capacityFactor = {},
                        rowsFactor = {};
  std::optional<bool> recompute = {}, recomputeActivations = {}, moeLayerRecompute = {};
  std::optional<std::string> recomputeGranularity = {}, recomputeMethod = {}, memory = {};
  std::optional<bool> optimizerOffload = {}, activationOffload = {};
  std::optional<double> offloadFraction = {}, activationFraction = {};
  std::optional<std::vector<std::string>> offloadModules = {};
  std::optional<std::string> hostMemory = {}, offload = {}; // offload: kOffloadGiven or kOffloadAuto
  std::optional<int64_t> recomputeLayers = {};
  std::optional<std::string> stages = {}, pipelineText = {}; // StageCut.h
  std::optional<int64_t> firstStageLayers = {}, lastStageLayers = {};
  std::optional<bool> countsEmbedding = {}, countsLoss = {};
  std::optional<std::vector<std::string>> recomputeModules = {};
  std::optional<int64_t> laterTokens = {};
  std::optional<double> laterTokensFactor = {};
  std::optional<std::string> machine = {}, balanceType = {}, dropPolicy = {};
  std::optional<std::vector<std::string>> contextTypes = {}; // for all layers, or one per layer
  std::optional<std::vector<std::string>> freeze = {};       // parts of the model, and patterns of tensors
  std::optional<std::vector<int64_t>> contextHierarchy = {}; // cpi, cpo
};

// A row of the caller's table of schedules.
struct ScheduleInfo {
  std::string name;
  bool splitBackward = false;
  int64_t minVirtualStages = 1, maxVirtualStages = 1; // inclusive
  bool byDefault = false; // for these numbers of virtual stages, where no schedule is asked for
  // With so many stages of so many chunks; 0: no microbatch.
  std::function<int64_t(int64_t pp, int64_t vpp)> maxMicrobatches = [](int64_t, int64_t) { return INT64_MAX; };
  bool chunksInV = false; // with several chunks: chunk 1 of the first stage is the last chunk
  bool byTime = false;    // planned under a cap on memory
  bool pairs = false;     // its runs may be pairs, which hide the collectives of each other
  // For a schedule that a file gives: its name and text in the program, and the numbers it is for; 0: any.
  std::string nameInProgram = {}, text = {};
  int64_t stages = 0, microbatches = 0;
  bool takes(int64_t virtualStages) const {
    return minVirtualStages <= virtualStages && virtualStages <= maxVirtualStages;
  }
};

inline constexpr std::string_view kShardsOuter = "optim"; // a word of --outer-dp-sharding-strategy
inline constexpr std::string_view kOffloadGiven = "given", kOffloadAuto = "auto"; // words of --offload
inline constexpr std::string_view kAdam = "adam"; // adamw, in command lines of Megatron-LM

// A row of the caller's table of machines.
struct MachineInfo {
  std::string name, inProgram; // its name in the program, or its description
};

// A row of the caller's table of targets.
struct TargetInfo {
  std::string name;
  int64_t balance;            // operations of a product per byte of memory traffic, where both take as long
  bool leavesCoresToProducts; // for concurrent collectives
};

struct Supported { // by the caller
  std::vector<ScheduleInfo> schedules;
  std::vector<std::string> dtypes = {"f32", "bf16"}; // widest first
  std::vector<TargetInfo> targets;                   // the first is the default
  std::vector<MachineInfo> machines = {};
};

struct Choice { // for people
  std::string flag, value;
  std::string reason; // "given", "given in model.json", "because ..."
};

struct Layout : TrainingSettings {
  int64_t tp = 1, cp = 1, pp = 1, dp = 1;
  int64_t instances = 1; // groups of data ranks that each have all of the distributed optimizer's state
  int64_t cpInner = 1;   // ranks of cp that exchange heads for positions in a hierarchy: cp = cpo x cpi
  // cpGroups of the ranks that exchange heads share out groups of keys; the others share the queries of a group.
  int64_t cpGroups = 1, cpInnerGroups = 1;
  // If the model has experts, ep ranks share them out, and etp ranks the columns of each. Both are taken from the ranks
  // of tp, cp and dp, the nearest first; edp = tp cp dp / (etp ep) have the same part of the same experts.
  int64_t ep = 1, etp = 1;
  bool hasExperts = false;
  bool exchangesRows = false; // the dispatcher alltoall: tokens' rows travel; else tokens are gathered (allgather)
  int64_t tpGroups = 1, tpQueries = 1; // tp = tpg x tpr: key/value groups, and query heads of one group
  // For packed sequences: positions count from the beginning of a document; attention sees nothing of other documents.
  bool resetPositionIds = false, resetAttentionMask = false;
  TargetInfo target = {};
  std::vector<Choice> choices;
  std::vector<std::string> warnings;

  int64_t world() const { return tp * cp * pp * dp; }
  // Tokens and padding: a multiple of 128, so that products of the head are fast, and of tp, which splits it. Padding is
  // masked exactly, so that neither loss nor gradients know of it.
  int64_t paddedVocabulary(const ModelDescription &model) const;
  int64_t replicas() const { return dp * cp; } // ranks that see other tokens and share gradients
  // Whether ranks of an instance of the optimizer share out what --zero says; those of experts may have no other.
  bool hasSlices() const { return zero > 0 && dp / (instances > 0 ? instances : 1) * cp > 1; }
  // How the ranks are numbered: tp is fastest, as in Megatron-LM, then cp, dp, pp; and tp by key/value groups.
  std::vector<plan::MeshView> views() const;
  // Their refinement, which exists: checkLayout.
  plan::Mesh mesh() const;
};

// `defaults` (of the model file) hold where `flags` are silent. An error ends with the flags of a near layout
// that works, where one is found.
Result<Layout> resolveLayout(const ModelDescription &model, const LayoutOptions &flags, const LayoutOptions &defaults,
                             const Supported &supported);

// The split of tp over key/value groups and the queries of one: tpg = gcd(groups, tp), tpr = tp / tpg.
// Nothing when the query heads of a group do not divide over tpr.
std::optional<std::pair<int64_t, int64_t>> splitTensorAxis(const AttentionDescription &attention, int64_t tp);

// The split of n ranks that exchange heads, in addition to tp: over groups of keys (the first), and queries of a group.
std::optional<std::pair<int64_t, int64_t>> splitHeads(const AttentionDescription &attention, const Layout &layout,
                                                      int64_t ranks);

// "--tp 4   given", one line per choice.
std::string describe(const Layout &layout);

} // namespace mgc::frontend
