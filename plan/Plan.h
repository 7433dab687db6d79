// The plan: what every rank computes, sends, receives and stores. The one contract between compiler and
// runtime. compiler/emit writes it as plan.json (docs/plan-format.md); plan/json reads it back as hostile
// input.
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

#include "plan/instructions/Instruction.h"
#include "plan/mesh/Mesh.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mgc::plan {

inline constexpr int64_t kVersion = 21;
// The processor that a file of row kernels needs: a CPU of a level of the x86-64 ABI, each with all that the one before has (v3 is
// AVX2 and FMA, v4 AVX-512: F, BW, CD, DQ, VL), or a GPU of that compute capability or a higher one.
enum class KernelLevel { v3, v4, sm80, sm90, sm100 };
struct KernelLevelFacts {
  std::string_view name;
  Target target;
  int64_t
      capability; // of a CPU its level of the x86-64 ABI; of a GPU its compute capability, 10 * major + minor
};
inline constexpr auto kKernelLevels = std::to_array<KernelLevelFacts>({
    {"x86-64-v3", Target::cpu, 3},
    {"x86-64-v4", Target::cpu, 4},
    {"sm_80", Target::cuda, 80},
    {"sm_90", Target::cuda, 90},
    {"sm_100", Target::cuda, 100},
});
constexpr const KernelLevelFacts &factsOf(KernelLevel level) {
  return kKernelLevels[static_cast<size_t>(level)];
}

// Items [begin, end) of a list run `count` times before the item behind them; items in no repeat run once. Repeats are in
// order and do not overlap. Numbers of an item that are called strides are added in each iteration after the first.
//   items a b c d, repeat {1, 3, 3}:  a b c b c b c d
struct Repeat {
  int64_t begin = 0, end = 0, count = 1;
  bool operator==(const Repeat &) const = default;
};

// --- Parameters --------------------------------------------------------------------------------------------

// The dimension of tokens, in parameters that have one; a layout pads it.
inline constexpr std::string_view kVocabularyDim = "v";

// One dimension of a logical parameter. `size` is padded (vocabulary); rows >= `valid` are zero and in no
// file.
struct ParameterDim {
  std::string name;
  int64_t size = 0;
  int64_t valid = 0;
  Axes axes; // that split it
  bool operator==(const ParameterDim &) const = default;
};

enum class InitKind { normal, zeros, ones };

// A logical parameter is a view of one tensor of the Hugging Face checkpoint: dimension j of fileShape, from
// offset[j] on, is the row-major product of the next grouping[j] logical dimensions. GPT-2's c_attn.weight
// [h, 3h] holds q, k and v: k is dims h g d, grouping [1, 2], offset [0, h]. Where each group has its q, k and v together, the
// tensor [3 g d, h] is seen as fileShape [g, 3 d, h]: k is dims g d h, grouping [1, 1, 1], offset [0, d, 0]. Two parameters of
// one name are tied: they are one parameter. Equal parameters of a block's instances are one entry, with "{}" where their names have
// the instance's number: expandedParameters() (Expand.h) lists them one by one.
struct Parameter {
  std::string name; // unique: "h.{}.attn.c_attn.weight[k]"
  std::string tensor;
  std::vector<std::string>
      aliases; // other names that a checkpoint may have for the tensor, tried in this order
  // 0: the tensor is one of the file. n: it stands for n tensors of the file, which lie behind each other as its first
  // dimension: "experts.{#}.w1.weight" [8, f, h] is experts.0.w1.weight [f, h] to experts.7.w1.weight.
  int64_t stacked = 0;
  std::vector<int64_t> fileShape;
  std::vector<int64_t>
      tensorShape; // the tensor's own shape: fileShape with neighbours multiplied; empty: as fileShape
  std::vector<int64_t> grouping;
  std::vector<int64_t> offset;
  std::vector<ParameterDim> dims;
  InitKind init = InitKind::normal;
  double initStd = 0.02;
  // The share of a step's tokens that meet it: of a stack of experts, of which the router chooses k among E, k / E.
  double activeShare = 1;
  // Where a stage keeps instances first .. first + count - 1, each `stride` elements behind the one before; those of one
  // instance, of a tied parameter, are several.
  struct Place {
    int64_t stage = 0;
    int64_t bucket = 0; // index into StagePlan::buckets
    int64_t elementOffset = 0;
    int64_t first = 0, count = 1, stride = 0;
    bool operator==(const Place &) const = default;
  };
  std::vector<Place> places;
  // A parameter may be part of a larger matrix in the rank's memory: its local block is rows over its first `dims`
  // dimensions, each the product of the others; they begin `extent` elements apart, each `offset` into its own row
  // of the matrix. Place::elementOffset is where the matrix begins, so the parts of one have equal places.
  //   q [h, g, 1, d] in W [h, g, 3, d]: {2, 0, 3 d}, k [h, g, d]: {2, d, 3 d}; up [f, h] in W [2, f, h]: {0, 0, 2 f h}
  // extent 0: rows follow each other, the parameter is by itself.
  struct Rows {
    int64_t dims = 0, offset = 0, extent = 0;
    bool operator==(const Rows &) const = default;
  } rows;
  // In the checkpoint: of the tensor, or of the stack.
  const std::vector<int64_t> &shapeOfTensor() const { return tensorShape.empty() ? fileShape : tensorShape; }
  bool operator==(const Parameter &) const = default;
};

// Parameters of one stage whose gradients are treated alike, laid out one after another: one flat buffer each
// for values (of Plan::dtype), gradients (of Plan::gradientType), the two moments (f32) and, where values are
// bf16, the master weights (f32). ZeRO-1 gives each rank of `dataAxes` one of equal contiguous slices.
// Parameters with a meanLoad have the load of experts, the tokens that chose each, in the place of gradients; values and gradients
// are f32, and there are no moments. Biases of routers are moved by the load. Counters (counts) are there for their load alone: their
// values are zero, and they are in no file. Frozen parameters are not trained: they have values alone, which no task writes.
struct Bucket {
  std::string name;
  int64_t elements = 0; // per rank, padded so that it divides over dataAxes and alignment
  Axes splitAxes;  // that split the parameters; all other axes hold replicas (the norm counts coordinate 0)
  Axes reduceAxes; // other pending axes: all-reduced before dataAxes
  Axes dataAxes;   // pending data axes: reduced (ZeRO-0) or reduce-scattered (ZeRO-1)
  bool sharded = false;            // ZeRO-1: moments, masters and the updated slice are 1 / |dataAxes|
  std::vector<int64_t> tiedStages; // gradients are summed over these stages before dataAxes; empty: not tied
  // Bytes in the rank; -1: none.
  int64_t valueOffset = 0, gradientOffset = 0;
  int64_t firstMomentOffset = 0, secondMomentOffset = 0;
  int64_t gradientShardOffset = 0; // ZeRO-1: where the reduced slice lies; else = gradientOffset
  int64_t masterOffset = -1;       // the weights in f32, of which the values are the rounding
  double meanLoad = 0; // tokens that an expert has in a step on average; 0: parameters that AdamW updates
  bool counts = false;
  bool frozen = false;
  bool hasLoad() const { return meanLoad > 0; }
  bool isRouterBias() const { return hasLoad() && !counts; }
  bool receivesLoad() const { return hasLoad() && !frozen; }
  bool isMovedByLoad() const { return isRouterBias() && !frozen; }
  bool hasGradients() const { return !frozen; } // or load in their place
  bool hasMoments() const { return !frozen && !hasLoad(); }
  bool operator==(const Bucket &) const = default;
};

// --- Programs ----------------------------------------------------------------------------------------------

struct Program {
  std::string name; // "layer.fwd"
  std::vector<std::string> segments;
  std::vector<int64_t> segmentBytes; // least size of each; offsets + sizes stay inside
  int64_t frame = -1;                // the segment of values that live in a call only; -1: there are none
  std::vector<Instruction> instructions;
  std::vector<Repeat> repeats; // of instructions: the tiles of a loss
  bool operator==(const Program &) const = default;
};

// --- Chunks and schedule -----------------------------------------------------------------------------------

struct Binding {
  int64_t slot = -1;  // of the chunk; -1: the rank's allocation
  int64_t offset = 0; // bytes
  int64_t stride = 0; // bytes
  bool operator==(const Binding &) const = default;
};
struct Call {
  int64_t program = 0;
  int64_t instance = 0; // number of the block instance: the layer
  int64_t instanceStride = 0;
  std::vector<Binding> segments;
  bool operator==(const Call &) const = default;
};
// The task of a chunk in the training step. begin zeroes the gradients; forward, backward and its halves input
// and weight run once per microbatch and virtual stage; gradients completes those of some layers of a virtual stage,
// a call for each part of its last backward, while what is before them is still computed; reduce completes the others;
// update ends the step.
enum class Task { begin, forward, backward, input, weight, gradients, reduce, update };
constexpr bool isPerMicrobatch(Task task) {
  return task != Task::begin && task != Task::gradients && task != Task::reduce && task != Task::update;
}
// One function of each block; the other tasks are a stage's.
inline constexpr std::array kBlockTasks{Task::forward, Task::backward, Task::input, Task::weight};
constexpr bool isPerVirtualStage(Task task) { return isPerMicrobatch(task) || task == Task::gradients; }

struct Chunk {
  Task task = Task::begin;
  int64_t virtualStage = 0;   // of the stage's layers, which part; 0 for what is not per virtual stage
  std::string name() const;   // "forward.0", "begin"
  std::vector<int64_t> slots; // rings of the stage
  std::vector<Call> calls;
  std::vector<Repeat> repeats; // of calls: equal layers
  bool operator==(const Chunk &) const = default;
};

// Memory of a value of which each microbatch has its own: slots of `bytes` bytes, `stride` apart, which microbatches use in
// turn. With p turns microbatch m takes turn m mod p, and m, m + p, m + 2p .. go around the slots of that turn:
//   one turn {0, 3, 0}                  microbatches 0 1 2 3 4 5 have slots 0 1 2 0 1 2
//   two turns {0, 2, 0} and {2, 2, 1}   microbatches 0 1 2 3 4 5 have slots 0 3 1 2 0 3
struct Ring {
  struct Turn {
    int64_t first = 0, slots = 1; // slots first .. first + slots - 1
    int64_t phase = 0;            // where the first microbatch of the turn begins among them
    bool operator==(const Turn &) const = default;
  };
  std::string name;  // "activation.0", "tokens"
  int64_t bytes = 0; // of one microbatch
  int64_t offset = 0, stride = 0;
  std::vector<Turn> turns = {{}};
  int64_t peer = -1;  // the stage that its values come from or go to; -1: none
  int64_t value = -1; // identity of what travels: both ends agree
  int64_t slotOf(int64_t microbatch) const {
    const auto period = static_cast<int64_t>(turns.size());
    const Turn &turn = turns[microbatch % period];
    return turn.first + (turn.phase + microbatch / period) % turn.slots;
  }
  int64_t offsetOf(int64_t microbatch) const { return offset + stride * slotOf(microbatch); }
  int64_t slots() const; // one past the last that a turn has
  int64_t pitch() const {
    return slots() == 1 ? bytes : stride;
  } // from a slot to the next; of one slot, its own
  int64_t end() const { return offset + pitch() * (slots() - 1) + bytes; }
  bool operator==(const Ring &) const = default;
};

// One step of a stage's ordered list. run executes on stream "compute" in list order, one of task gradients on a
// stream of its own, in list order too. send and recv are
// asynchronous: they start once their `waits` are done and complete when matched; per ordered pair of stages
// they match in list order, untagged. A step with waits starts after those events.
// Two runs are a pair if the second is `paired`: they may run at the same time, as one step. Both begin behind the waits of the first,
// the second has none; what comes after them, or waits for one of them, comes behind both. Neither uses bytes that the other writes.
struct ScheduleStep {
  enum class Kind { run, send, recv } kind = Kind::run;
  int64_t chunk = -1;      // run: which
  int64_t ring = -1;       // send, recv: of what travels
  int64_t microbatch = -1; // -1: once per training step
  int64_t microbatchStride = 0;
  int64_t firstCall = 0;      // run: of the chunk's calls, repeats run, from this one on,
  int64_t callCount = -1;     // so many; -1: all. The runs of a chunk for one microbatch make all, in order.
  bool paired = false;        // run: with the run right before it in the list, see above
  std::vector<int64_t> waits; // k: for the step that ran k steps before, repeats run
  bool operator==(const ScheduleStep &) const = default;
};

// Data the runtime writes into each rank at the start of a step, for all microbatches: [microbatch][dims], local. positions
// are places in the sequence; positionIds count from the beginning of a document, which documentStarts has the place of.
// documentEnds has the place behind its last token: attention that is not causal sees the keys before it. Where documents are
// not kept apart, a sequence is one document, which ends where its padding begins. Kinds of keys have the whole sequence
// where others may have a part of it. stepTokens is one number: how many labels of the whole step count, over all
// microbatches and ranks. lossShares are 1 / n where a label counts, and else 0, with n labels that count in the whole step.
// Shifted by n, position i has what i + n has; where that is behind the end of the sequence, or in another document of a plan
// that reads documents, there is token 0 and no label. Of a model with an encoder a sample has two sequences: an input is of
// the decoder's, unless it is `ofEncoder`. encoderEnds is of the decoder's: the place behind the last of the encoder's tokens
// that is no padding, which cross-attention ends at. Of a model that reads images a sample has one or none: patches are the
// pixels at each of the encoder's positions, zeros where there is no patch. imagePlaces say for each of the decoder's
// positions which of the encoder's stands there, and for each of the encoder's where it stands, -1: none; a token in whose
// place one stands is -1.
struct Input {
  enum class Kind {
    tokens,
    labels,
    lossWeights,
    positions,
    keyPositions,
    samples,
    positionIds,
    documentStarts,
    keyDocumentStarts,
    stepTokens,
    lossShares,
    tokenTypes,
    documentEnds,
    keyDocumentEnds,
    encoderEnds,
    patches,
    imagePlaces
  } kind;
  DType type = DType::i32;
  struct
      Dim { // names are s (or t: key positions), b; of patches also n, o, u: channels, rows and columns of pixels
    std::string name;
    int64_t size = 0; // global, of one microbatch over all data ranks
    Axes axes;
    bool operator==(const Dim &) const = default;
  };
  std::vector<Dim> dims = {};
  int64_t ring = -1;      // its memory: a slot for each microbatch, or one for all of them
  int64_t shift = 0;      // positions, of kinds that are shiftable
  bool ofEncoder = false; // of its sequence, for kinds that it has (isOfEither)
  bool operator==(const Input &) const = default;
};

struct Region {     // of the rank's allocation; together they cover it exactly
  std::string kind; // parameters gradients optimizer activations frame inputs scalars
  int64_t offset = 0, bytes = 0;
  bool operator==(const Region &) const = default;
};

struct StagePlan {
  std::vector<Bucket> buckets;
  std::vector<Ring> rings;
  std::vector<Chunk> chunks;
  std::vector<ScheduleStep> schedule; // one training step
  std::vector<Repeat> repeats;        // of its steps
  std::vector<Input> inputs;
  std::vector<Region> regions;
  int64_t bytes = 0;      // the allocation
  int64_t leastBytes = 0; // below which no placement can be, for people: the largest set that lives together
  // f32 scalars. The runtime writes stepScalars before the step: lr, beta1, beta2, eps, weight_decay, clip,
  // bias_correction1 (1 - beta1^t), bias_correction2, router_bias_rate. It reads results after: kResults.
  int64_t stepScalarsOffset = 0, resultsOffset = 0;
  bool operator==(const StagePlan &) const = default;
};
inline const std::vector<std::string> kStepScalars = {"lr",
                                                      "beta1",
                                                      "beta2",
                                                      "eps",
                                                      "weight_decay",
                                                      "clip",
                                                      "bias_correction1",
                                                      "bias_correction2",
                                                      "router_bias_rate"};
// loss_sum / tokens is the cross-entropy. From kFirstLossTerm on: what the loss has beside it, each term as it counts there,
// 0 where the model has no such term (docs/experts.md, docs/multi-token-prediction.md).
inline const std::vector<std::string> kResults = {"loss_sum", "tokens",   "grad_norm", "seq_aux_loss",
                                                  "z_loss",   "aux_loss", "mtp_loss"};
inline constexpr size_t kFirstLossTerm = 3;

// A file with every row kernel of the plan: a shared object for CPUs of a level, or PTX text for GPUs.
struct KernelFile {
  KernelLevel level = KernelLevel::v3;
  std::string path;  // in the bundle: "kernels/x86-64-v3.so", "kernels/sm_90.ptx"
  uint64_t hash = 0; // of the file's bytes
  bool operator==(const KernelFile &) const = default;
};

// What the label of a token is: causal: the token behind it; masked: the token itself, where it was chosen to be predicted.
enum class Objective { causal, masked };

// Images of a plan whose encoder reads them: squares of pixels, row by row, behind the class token if there is one. What the
// decoder has of an image are the encoder's positions from firstFeature to its last patch.
struct Images {
  int64_t channels = 0, patchSize = 0, rows = 0, columns = 0; // 0: none are read
  int64_t classTokens = 0;                                    // 0 or 1
  int64_t token = 0, firstFeature = 0; // of the decoder's tokens, in whose places they stand
  int64_t positions() const { return classTokens + rows * columns; }
  int64_t features() const { return positions() - firstFeature; }
  int64_t height() const { return rows * patchSize; }
  int64_t width() const { return columns * patchSize; }
  int64_t pixels() const { return channels * height() * width(); }
  bool operator==(const Images &) const = default;
};

struct Plan {
  int64_t version = kVersion;
  std::string
      modelConfig; // the config.json it was compiled from, verbatim: written beside saved weights; empty: none fits
  std::string modelType;
  Mesh mesh;
  int64_t sequenceLength = 0, microBatchSize = 0, globalBatchSize = 0, microbatches = 0, vocabulary = 0;
  int64_t tokenTypes = 0; // token types are below it; 0: no stage reads them
  int64_t encoderLength =
      0; // of the encoder's sequences, sequenceLength is of the decoder's; 0: there is no encoder
  // The decoder reads its labels a place later, behind startToken and with paddingToken where there is no label, if data do not
  // say what it reads; -1: they must.
  int64_t startToken = -1, paddingToken = -1;
  Images images = {}; // of the encoder
  Objective objective = Objective::causal;
  int64_t zigzag = 1; // order of the positions of a sequence (SequenceOrder.h)
  int64_t longestDocument =
      0; // whose positionIds have a learned embedding; 0: any may be as long as a sequence
  int64_t zero = 0;
  std::string schedule;
  int64_t virtualStages = 1;
  Target target = Target::cpu;
  DType dtype = DType::f32;        // of parameters' values and activations
  DType gradientType = DType::f32; // of the buckets' gradients
  std::vector<KernelFile>
      kernels; // of the target, at most one per level; the highest that the device has is used
  std::vector<Parameter> parameters;
  // Names of tensors that a checkpoint may have besides the parameters; "{}" stands for a number: "h.{}.attn.bias", "*" at the
  // end for any text: "vision_tower.*".
  std::vector<std::string> ignoredTensors;
  std::vector<Program> programs;
  std::vector<StagePlan> stages;
  // A stage is the coordinate along the axes of the role stage (0 when the mesh has none).
  bool operator==(const Plan &) const = default;
};

// Whether it only counts load: Bucket::counts. It has a place.
bool isCounter(const Plan &plan, const Parameter &parameter);
// Whether it is not trained: Bucket::frozen. It has a place.
bool isFrozen(const Plan &plan, const Parameter &parameter);

// The types of a bucket's values and of its gradients: f32 where it has load, else those of the plan.
DType valueType(const Plan &plan, const Bucket &bucket);
// Whether it has f32 masters: of narrower values that are trained.
bool hasMasters(const Plan &plan, const Bucket &bucket);
DType gradientType(const Plan &plan, const Bucket &bucket);

// Whether it says where the elements of a sequence stand, whatever the data.
bool isPosition(Input::Kind kind);
// Whether it holds the same in every microbatch.
bool isOneForAllMicrobatches(Input::Kind kind);
// Whether it has a value of each token that may be read of a later one (Input::shift).
bool isShiftable(Input::Kind kind);
DType typeOf(Input::Kind kind);

// Numbers in kResults of the terms of the loss that some task of a microbatch adds to, ascending.
std::vector<size_t> lossTermsOf(const Plan &plan);

// Whether some stage reads such an input, of the decoder's sequence where there are two.
bool reads(const Plan &plan, bool (*isWanted)(Input::Kind));

// Whether a sequence of it is cut in documents: some stage reads where they begin.
bool readsDocuments(const Plan &plan);
bool readsDocuments(Input::Kind kind);

// Whether attention keeps the documents of a sequence apart, as where they begin alone (positionIds) does not.
bool separatesDocuments(Input::Kind kind);

// Whether it says where documents end.
bool isEnd(Input::Kind kind);

bool isTokenType(Input::Kind kind);
// Whether the encoder's sequence of a sample has such data, too or alone.
bool isOfEither(Input::Kind kind);
// Whether no other sequence has them.
bool isOfEncoderAlone(Input::Kind kind);
// Whether the plan's encoder reads images.
bool readsImages(const Plan &plan);

// The bytes of the smallest element that the plan has: what every address is a multiple of.
int64_t leastElementBytes(const Plan &plan);

// Its target and the levels of its kernels: "cpu:x86-64-v3,x86-64-v4", "cuda:sm_90".
std::string describeTarget(const Plan &plan);

// As plan.json spells them.
std::string_view nameOf(Task task);
std::string_view nameOf(KernelLevel level);
std::optional<Task> taskNamed(std::string_view name);

} // namespace mgc::plan
