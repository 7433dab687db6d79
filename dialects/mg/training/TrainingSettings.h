// The fields of #mg.training: how a program is trained, as far as its ops and its mesh do not say it.
#pragma once

#include "dialects/mg/training/RecomputeWords.h"
#include "plan/Plan.h"

#include <tuple>

namespace mgc {

// A field that a program does not have is at its default. Layout begins with these fields; those that the model decides
// (vocabulary, objective, ..) are set by import.
struct TrainingSettings {
  // Tokens of a sequence, of the decoder's where there is an encoder; sequences per microbatch and data rank; per step.
  // 0: unknown; a plan needs them.
  int64_t sequenceLength = 0, microBatchSize = 0, globalBatchSize = 0;
  int64_t microbatches = 1;             // gbs / (mbs * dp)
  int64_t vocabulary = 0;               // tokens without padding; 0: unknown
  std::string schedule, scheduleText;   // the text of one that a file gives
  std::optional<double> scheduleMemory; // cap on live activations in units of 1F1B's; none: the schedule has its own
  std::string machine; // the schedule plans by its times: a name or a description; empty: by the target
  int64_t virtualStages = 1;
  bool chunksInV = false; // chunk 1 of the first stage is the last chunk
  std::string stages;     // layers of each chunk (StageSizes.h); empty: by their work
  bool splitBackward = false;
  int64_t zero = 0;
  bool shardsOuter = false;         // instances of the optimizer share out what the update needs
  bool reshardsAfterForward = true; // where values are sliced: they are gathered again for the backward
  bool overlapsGradReduce = false;  // gradients of units are summed up while the next instance computes
  bool overlapsParamGather = false; // values are gathered while other layers compute
  RecomputeGranularity recompute = RecomputeGranularity::standard;
  RecomputeMethod recomputeMethod = RecomputeMethod::uniform; // where granularity is full
  int64_t recomputeLayers = 0;                                // likewise; 0: it is another
  std::vector<std::string> recomputeModules;                  // where it is selective: names in kRecomputeModules
  std::string
      memory; // bytes of a rank, or a part of the device's (MemorySize.h), by which layers have policies; empty: they do not
  plan::Optimizer optimizer{};
  double optimizerOffload = 0;             // the part of the bytes of masters and optimizer states that is on the host
  std::vector<std::string> offloadModules; // names in kOffloadModules
  double activationOffload = 0; // the part of the layers of a chunk, but for its last, whose saved values are there
  std::string hostMemory;       // bytes that a rank may take of it (MemorySize.h); empty: any
  // The least number of parameters whose gradients are completed together; 0: all, at the end.
  int64_t bucketElements = 0;
  int64_t lossTile = 0;         // tokens whose logits exist at once; 0: all of a microbatch
  bool choosesLossTile = false; // `memory` chooses among lossTile and others
  bool sequenceParallel = false;
  // Types of parameters and activations, and of parameters' gradients.
  plan::DType dtype = plan::DType::f32, gradientType = plan::DType::f32;
  bool fp32Residual = false; // where dtype is bf16: the residual stream is f32
  // How attention of each layer sees the sequence (frontend/layout/Context.h), also its mg.tag; empty: cp is 1.
  std::vector<std::string> contextTypes;
  int64_t zigzag = 1;                                  // plan::Plan::zigzag: cp, or 1 where the order is the sequence's
  plan::Objective objective = plan::Objective::causal; // the meaning of a label
  int64_t tokenTypes = 0;                              // types of tokens that the model reads; 0: none
  int64_t longestDocument = 0;                         // plan::Plan::longestDocument
  int64_t encoderLength = 0;                           // tokens of the encoder's sequences; 0: there is no encoder
  std::optional<int64_t> startToken, paddingToken;     // plan::Plan::startToken and paddingToken
  plan::Images images = {};                            // input of the encoder; no channels: none
  // Terms of the loss in addition to the cross-entropy, of models with experts (frontend/layout/ExpertBalance.h).
  std::string balanceType = "none";
  double auxLossCoefficient = 0, zLossCoefficient = 0;
  // Factor of the room that experts have (docs/experts.md, Capacity); 0: no token is dropped.
  double capacityFactor = 0;
  // How many times the mean rows of experts a rank has room for (docs/experts.md, Sizes); 0: for all that may come.
  double rowsFactor = 0;
  std::string dropPolicy = "probs";
  // Counts each router's load, also where no bias needs it (docs/experts.md, Routers).
  bool countsLoad = false;
  // Modules that each predict a token further ahead, and the factor of their mean loss (docs/multi-token-prediction.md).
  int64_t laterTokens = 0;
  double laterTokensFactor = 0;
  // The parameters that are not trained: words of --freeze, separated by commas (frontend/layout/Frozen.h).
  std::string freeze;
  std::vector<plan::Setting> settings; // plan::Plan::settings
  bool operator==(const TrainingSettings &) const = default;
};

// The fields with their names in programs, in the order in which they are printed.
constexpr auto trainingFields() {
  using T = TrainingSettings;
  return std::tuple(
      std::pair("sequence_length", &T::sequenceLength), std::pair("encoder_seq_length", &T::encoderLength),
      std::pair("micro_batch_size", &T::microBatchSize), std::pair("global_batch_size", &T::globalBatchSize),
      std::pair("microbatches", &T::microbatches), std::pair("vocabulary", &T::vocabulary),
      std::pair("schedule", &T::schedule), std::pair("schedule_text", &T::scheduleText),
      std::pair("schedule_memory", &T::scheduleMemory), std::pair("machine", &T::machine),
      std::pair("virtual_stages", &T::virtualStages), std::pair("chunks_in_v", &T::chunksInV),
      std::pair("stages", &T::stages), std::pair("split_backward", &T::splitBackward), std::pair("zero", &T::zero),
      std::pair("shards_outer", &T::shardsOuter), std::pair("reshards_after_forward", &T::reshardsAfterForward),
      std::pair("overlaps_grad_reduce", &T::overlapsGradReduce),
      std::pair("overlaps_param_gather", &T::overlapsParamGather), std::pair("recompute_granularity", &T::recompute),
      std::pair("recompute_method", &T::recomputeMethod), std::pair("recompute_num_layers", &T::recomputeLayers),
      std::pair("recompute_modules", &T::recomputeModules), std::pair("memory", &T::memory),
      std::pair("optimizer", &T::optimizer), std::pair("optimizer_offload_fraction", &T::optimizerOffload),
      std::pair("offload_modules", &T::offloadModules), std::pair("activation_offload_fraction", &T::activationOffload),
      std::pair("host_memory", &T::hostMemory), std::pair("bucket_elements", &T::bucketElements),
      std::pair("loss_tile", &T::lossTile), std::pair("chooses_loss_tile", &T::choosesLossTile),
      std::pair("sequence_parallel", &T::sequenceParallel), std::pair("dtype", &T::dtype),
      std::pair("gradient_dtype", &T::gradientType), std::pair("fp32_residual_connection", &T::fp32Residual),
      std::pair("context_types", &T::contextTypes), std::pair("zigzag", &T::zigzag),
      std::pair("objective", &T::objective), std::pair("token_types", &T::tokenTypes),
      std::pair("longest_document", &T::longestDocument), std::pair("start_token", &T::startToken),
      std::pair("padding_token", &T::paddingToken), std::pair("images", &T::images),
      std::pair("moe_router_load_balancing_type", &T::balanceType),
      std::pair("moe_aux_loss_coeff", &T::auxLossCoefficient), std::pair("moe_z_loss_coeff", &T::zLossCoefficient),
      std::pair("moe_expert_capacity_factor", &T::capacityFactor), std::pair("moe_token_drop_policy", &T::dropPolicy),
      std::pair("moe_rows_factor", &T::rowsFactor), std::pair("moe_per_layer_logging", &T::countsLoad),
      std::pair("mtp_num_layers", &T::laterTokens), std::pair("mtp_loss_scaling_factor", &T::laterTokensFactor),
      std::pair("freeze", &T::freeze), std::pair("settings", &T::settings));
}

// Calls visit(name, member) for each field.
template <typename Visit> constexpr void forEachTrainingField(Visit &&visit) {
  std::apply([&](auto... field) { (visit(std::string_view(field.first), field.second), ...); }, trainingFields());
}

// The name of the field; empty if trainingFields() lacks it.
template <typename T> constexpr std::string_view nameOf(T TrainingSettings::*member) {
  std::string_view found;
  forEachTrainingField([&](std::string_view name, auto other) {
    if constexpr (std::is_same_v<decltype(other), T TrainingSettings::*>)
      found = other == member ? name : found;
  });
  return found;
}

} // namespace mgc
