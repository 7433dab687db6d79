// The plan: what every rank computes, sends, receives and stores. The one contract between compiler and runtime.
// compiler/emit writes it as plan.json (docs/plan-format.md); plan/json reads it back as hostile input.
//
// Its size follows the number of distinct stages and blocks, not of ranks, layers, tiles or microbatches: ranks of a
// stage share everything but their mesh coordinates, and a list says with `repeats` which of its items run several
// times (Repeat). Three levels of address keep it so:
//   program   typed instructions over `segments`; an operand is {segment, byte offset in it}. Equal layers
//             share one.
//   chunk     an ordered list of calls; a call binds each segment of its program to a {slot, byte offset}. A slot is
//             one of the stage's rings, slot -1 the rank's one allocation itself.
//   schedule  an ordered list of steps per stage; a `run` step names a microbatch, and a ring has a place in the
//             allocation for each microbatch.
#pragma once

#include "plan/KernelLevel.h"
#include "plan/ParameterBuckets.h"
#include "plan/PlanBudget.h"
#include "plan/PlanFit.h"
#include "plan/PlanInputs.h"
#include "plan/PlanPrograms.h"
#include "plan/PlanSchedule.h"
#include "plan/StepTotals.h"

namespace mgc::plan {

enum class Optimizer : uint8_t; // plan/Optimizers.h

inline constexpr int64_t kVersion = 33;

// A part of the rank's memory; together the regions cover the device's arena and the host's exactly.
struct Region {
  // On the device: parameters gradients optimizer activations gathered units transient staging frame inputs scalars. On the host:
  // hostActivations hostOptimizer.
  std::string kind;
  int64_t offset = 0, bytes = 0;
  bool operator==(const Region &) const = default;
};

struct StagePlan {
  std::vector<Bucket> buckets;
  std::vector<Ring> rings;
  std::vector<Chunk> chunks;
  // One training step.
  std::vector<ScheduleStep> schedule;
  // Repeated steps of the schedule.
  std::vector<Repeat> repeats;
  std::vector<Input> inputs;
  std::vector<Region> regions;
  // Size of the allocation on the device.
  int64_t bytes = 0;
  // Size of the allocation in pinned memory of the host. Its addresses follow those of the device's: [bytes, bytes + hostBytes).
  int64_t hostBytes = 0;
  int64_t addresses() const { return bytes + hostBytes; }
  bool isOnHost(int64_t address) const { return address >= bytes; }
  // A lower bound of `bytes` over all placements, for people: the largest set of buffers that live at the same time.
  int64_t leastBytes = 0;
  // StepScalar and StepTotal, in bytes.
  int64_t stepScalarsOffset = 0, resultsOffset = 0;
  bool operator==(const StagePlan &) const = default;
};

// A file with every row kernel of the plan: a shared object for CPUs of a level, or PTX text for GPUs.
struct KernelFile {
  KernelLevel level = KernelLevel::v3;
  // In the bundle: "kernels/x86-64-v3.so", "kernels/sm_90.ptx".
  std::string path;
  // The hash of the file's bytes.
  uint64_t hash = 0;
  bool operator==(const KernelFile &) const = default;
};

// The images of a plan whose encoder reads them: patches (squares of pixels) row by row, after the class token if there
// is one. The decoder reads the features of an image: the encoder's positions from firstFeature to the last patch.
struct Images {
  // 0: no images are read.
  int64_t channels = 0, patchSize = 0, rows = 0, columns = 0;
  // 0 or 1.
  int64_t classTokens = 0;
  // Features replace the decoder's tokens that are equal to `token`.
  int64_t token = 0, firstFeature = 0;
  int64_t positions() const { return classTokens + rows * columns; }
  int64_t features() const { return positions() - firstFeature; }
  int64_t height() const { return rows * patchSize; }
  int64_t width() const { return columns * patchSize; }
  int64_t pixels() const { return channels * height() * width(); }
  bool operator==(const Images &) const = default;
};

// An option of mgc compile that changes what is learned.
struct Setting {
  // How mgrun treats a run that goes on from a checkpoint of another value.
  enum class Resume { refused, noted };
  // Like "--moe-aux-loss-coeff".
  std::string flag;
  std::string value;
  Resume resume = Resume::refused;
  bool operator==(const Setting &) const = default;
};
template <> inline constexpr auto enumNames<Setting::Resume> = std::to_array<std::string_view>({"refused", "noted"});

struct Plan {
  int64_t version = kVersion;
  // The config.json that the plan was compiled from, verbatim; it is written next to saved weights. Empty: none fits.
  std::string modelConfig;
  std::string modelType;
  Mesh mesh;
  int64_t sequenceLength = 0, microBatchSize = 0, globalBatchSize = 0, microbatches = 0, vocabulary = 0;
  // The number of token types; 0: no stage reads them.
  int64_t tokenTypes = 0;
  // Length of the encoder's sequences (sequenceLength is the decoder's); 0: there is no encoder.
  int64_t encoderLength = 0;
  // If the data lack the decoder's tokens, it reads its labels shifted by one place: startToken first, paddingToken
  // where there is no label. -1: the data must have the tokens.
  int64_t startToken = -1, paddingToken = -1;
  // The images that the encoder reads.
  Images images = {};
  Objective objective = Objective::causal;
  // The order of the positions of a sequence (SequenceOrder.h).
  int64_t zigzag = 1;
  // The longest document whose positionIds have a learned embedding; 0: a document may be as long as a sequence.
  int64_t longestDocument = 0;
  int64_t zero = 0;
  Optimizer optimizer{};
  std::string schedule;
  int64_t virtualStages = 1;
  // Where chunks are, if stages have several.
  ChunkPlacement placement = ChunkPlacement::loop;
  Target target = Target::cpu;
  // The type of parameters' values and of activations.
  DType dtype = DType::f32;
  // The type of the buckets' gradients.
  DType gradientType = DType::f32;
  PlanBudget budget = {};
  PlanFit fit = {};
  // For the comparison with a checkpoint's alone: what they mean is in the programs.
  std::vector<Setting> settings;
  // At most one file per level of the target; the runtime uses the highest level that the device has.
  std::vector<KernelFile> kernels;
  std::vector<Parameter> parameters;
  // Names of tensors that a checkpoint may have in addition to the parameters. "{}" stands for a number:
  // "h.{}.attn.bias"; "*" at the end for any text: "vision_tower.*".
  std::vector<std::string> ignoredTensors;
  std::vector<Program> programs;
  // By the coordinate along the axes of the role stage (0 when the mesh has none).
  std::vector<StagePlan> stages;
  bool operator==(const Plan &) const = default;
};

// Whether the parameter only counts load: BucketUse::loadCounter. It has a place.
bool isCounter(const Plan &plan, const Parameter &parameter);
// Whether the parameter is not trained: BucketUse::frozen. It has a place.
bool isFrozen(const Plan &plan, const Parameter &parameter);

// Whether a call of a microbatch gathers the values of a unit, or clears or adds up its gradient: it binds these, and nothing of the
// microbatch.
bool isOfUnit(const StagePlan &stage, const Call &call);

// Whether the program has copies between host and device. Such a program has nothing else (prove/VerifyOffload.h).
bool hasHostCopies(const Program &program);

// Numbers in kResults of the terms of the loss that some task of a microbatch adds to, ascending.
std::vector<size_t> lossTermsOf(const Plan &plan);

// Whether some stage reads such an input, of the decoder's sequence where there are two.
bool reads(const Plan &plan, bool (*isWanted)(Input::Kind));

// Whether a sequence of it is cut in documents: some stage reads where they begin.
bool readsDocuments(const Plan &plan);

// Whether the plan's encoder reads images.
bool readsImages(const Plan &plan);

// The bytes of the smallest element that the plan has: what every address is a multiple of.
int64_t leastElementBytes(const Plan &plan);

// Its target and the levels of its kernels: "cpu:x86-64-v3,x86-64-v4", "cuda:sm_90".
std::string describeTarget(const Plan &plan);

} // namespace mgc::plan
