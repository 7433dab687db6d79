// Parameters between Hugging Face checkpoints and the memory of the ranks. Any layout loads any checkpoint by
// slicing and saves one back.
//
// The plan is one that verifyPlan accepts. `arenas` has one allocation (StagePlan::bytes of the rank's stage) per
// rank of the mesh. All functions work on the bucket buffers in them: values of the plan's dtype and, where that is
// bf16 and they are trained, the f32 masters of which they are the rounding.
#pragma once

#include "runtime/checkpoint/Filler.h"
#include "runtime/checkpoint/RankMemory.h"
#include "runtime/io/Safetensors.h"

#include <functional>
#include <optional>

namespace mgc {

struct LoadOptions {
  bool ignoreExtra = false; // tensors of the checkpoint that the model does not have
  std::string hint = "; --ignore-extra-weights leaves such tensors out"; // in the error that names them
};

// Fills the values and masters of every rank from the checkpoint, zeroes padding and both moments. Masters take the
// precision of the file. A tensor is looked up by its name, then by its aliases. All that is missing or wrong in the
// checkpoint is reported at once (up to 20 lines); nothing is written then. Tensors that the model does not have are
// wrong too: biases or layers left out make another model. Tensors that the plan ignores, and copies of a tensor under
// an alias, are not.
Status loadWeights(const plan::Plan &plan, const Checkpoint &checkpoint, Arenas arenas, const LoadOptions &options = {},
                   const FillOptions &fill = {});

// Whether loadWeights takes the checkpoint; the error is its.
Status verifyFits(const plan::Plan &plan, const Checkpoint &checkpoint);

// Tensors of the checkpoint that loadWeights leaves out because the plan ignores them; weights that are saved lack them.
std::vector<std::string> ignoredTensors(const plan::Plan &plan, const Checkpoint &checkpoint);

// Whether all numbers that loadWeights takes from the checkpoint are finite in f32; up to 20 lines say where the first of
// a tensor is not. The checkpoint must fit the plan.
Status verifyFinite(const plan::Plan &plan, const Checkpoint &checkpoint);

// The same from InitKind. A normal value is keyed by (seed, name of the file tensor, index in the file
// tensor), so it depends neither on the layout nor on how a file tensor is cut into parameters.
Status initWeights(const plan::Plan &plan, uint64_t seed, Arenas arenas, const FillOptions &fill = {});

struct SaveOptions {
  int64_t maxShardBytes = 5'000'000'000; // tensor bytes of one file; above: several files and an index
  std::optional<plan::DType> type = {};  // f32: the masters, where there are; none: the plan's dtype
  // The communicator of this process's rank, where ranks are processes: all of them save, and rank 0 writes.
  Communicator *communicator = nullptr;
  bool areVerified = false; // verifyWeights has passed
};

// Whether ranks that hold the same block hold the same bits, and all values are finite and the rounding of their
// masters. Collective over processes; the answer is the writer's.
Status verifyWeights(const plan::Plan &plan, Arenas arenas, Communicator *communicator = nullptr);

// Whether a config.json is that of a family with other mathematics: "mgc": {"model": {..}}. No class of transformers computes it.
bool changesFamily(const std::string &modelConfig);

// Writes a directory (made if missing) Hugging Face loads: model.safetensors, or shards and an index, and config.json =
// plan.modelConfig, whose dtype becomes that of the tensors unless plan and tensors are f32, and whose model_type becomes
// plan::kOwnModelType if it changes its family. Weights that verifyWeights refuses are not written. A checkpoint that was in the directory stays whole until the new one is complete on disk.
Status saveWeights(const plan::Plan &plan, Arenas arenas, const std::string &directory,
                   const SaveOptions &options = {});

// Makes the directory if missing, and a file in it that it removes again: whether saveWeights will find it writable.
Status verifySavable(const std::string &directory);

// Writes the gradients, times `scale`, as f32 under the names and shapes of the weights to one safetensors file. Frozen
// parameters have none.
// They must be complete: after the chunk "reduce", before "update". The communicator is as in SaveOptions.
Status saveGradients(const plan::Plan &plan, Arenas arenas, float scale, const std::string &file,
                     Communicator *communicator = nullptr);

// The load of a router with a bias that load moves, or with a counter: how many tokens of the step chose one of its
// experts. The load is stored in the place of the gradients.
struct ExpertLoad {
  std::string router; // prefix of the names of its tensors: "model.layers.3.mlp.gate"
  double least = 0, mean = 0, most = 0;
};
// The loads of all such routers, by name; nothing in a process that does not write. Collective: all processes call at
// once.
Result<std::vector<ExpertLoad>> expertLoads(const plan::Plan &plan, Arenas arenas,
                                            Communicator *communicator = nullptr);

} // namespace mgc
