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
// The processor that a file of row kernels needs: a CPU of a level of the x86-64 ABI, each with all that the one before
// has (v3 is AVX2 and FMA, v4 AVX-512: F, BW, CD, DQ, VL), or a GPU of that compute capability or a higher one.
enum class KernelLevel { v3, v4, sm80, sm90, sm100 };
struct KernelLevelFacts {
  std::string_view name;
  Target target;
  // A CPU's level of the x86-64 ABI, or a GPU's compute capability, 10 * major + minor.
  int64_t capability;
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

// Items [begin, end) of a list run `count` times before the item behind them; items in no repeat run once. Repeats are
// in order and do not overlap. Numbers of an item that are called strides are added in each iteration after the first.
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
  // The axes that split the dimension.
  Axes axes;
  bool operator==(const ParameterDim &) const = default;
};

enum class InitKind { normal, zeros, ones };

// A logical parameter is a view of one tensor of the Hugging Face checkpoint: dimension j of fileShape, from offset[j]
// on, is the row-major product of the next grouping[j] logical dimensions. GPT-2's c_attn.weight [h, 3h] holds q, k and
// v: k is dims h g d, grouping [1, 2], offset [0, h]. Where each group has its q, k and v together, the tensor [3 g d,
// h] is seen as fileShape [g, 3 d, h]: k is dims g d h, grouping [1, 1, 1], offset [0, d, 0]. Two parameters of one
// name are tied: they are one parameter. Equal parameters of a block's instances are one entry, with "{}" where their
// names have the instance's number: expandedParameters() (Expand.h) lists them one by one.
struct Parameter {
  std::string name; // unique: "h.{}.attn.c_attn.weight[k]"
  std::string tensor;
  // Other names that a checkpoint may have for the tensor, tried in this order.
  std::vector<std::string> aliases;
  // 0: the tensor is one of the file. n: the tensor is a stack of n tensors of the file along its first dimension:
  // "experts.{#}.w1.weight" [8, f, h] is experts.0.w1.weight [f, h] to experts.7.w1.weight.
  int64_t stacked = 0;
  std::vector<int64_t> fileShape;
  // The tensor's own shape, fileShape with neighbouring dimensions multiplied. Empty: fileShape.
  std::vector<int64_t> tensorShape;
  std::vector<int64_t> grouping;
  std::vector<int64_t> offset;
  std::vector<ParameterDim> dims;
  InitKind init = InitKind::normal;
  double initStd = 0.02;
  // The share of a step's tokens that use the parameter. A stack of E experts of which the router chooses k: k / E.
  double activeShare = 1;
  // The position in a stage of instances first .. first + count - 1, each `stride` elements after the one before. A
  // tied parameter may have several places for one instance.
  struct Place {
    int64_t stage = 0;
    // Index into StagePlan::buckets.
    int64_t bucket = 0;
    int64_t elementOffset = 0;
    int64_t first = 0, count = 1, stride = 0;
    bool operator==(const Place &) const = default;
  };
  std::vector<Place> places;
  // A parameter may be part of a larger matrix in the rank's memory. Its local block then consists of rows: one for
  // each index of its first `dims` dimensions, as long as the product of the others. Rows begin `extent` elements
  // apart, each `offset` elements into its row of the matrix. Place::elementOffset is where the matrix begins, so all
  // parts of a matrix have equal places.
  //   q [h, g, 1, d] in W [h, g, 3, d]: {2, 0, 3 d}, k [h, g, d]: {2, d, 3 d}; up [f, h] in W [2, f, h]: {0, 0, 2 f h}
  // extent 0: the parameter is not part of a matrix, its rows are contiguous.
  struct Rows {
    int64_t dims = 0, offset = 0, extent = 0;
    bool operator==(const Rows &) const = default;
  } rows;
  // The shape in the checkpoint of the tensor, or of the stack.
  const std::vector<int64_t> &shapeOfTensor() const { return tensorShape.empty() ? fileShape : tensorShape; }
  bool operator==(const Parameter &) const = default;
};

// Parameters of one stage whose gradients are treated alike, laid out one after another: one flat buffer each for
// values (of Plan::dtype), gradients (of Plan::gradientType), the two moments (f32) and, where values are bf16, the
// master weights (f32). ZeRO-1 gives each rank of `dataAxes` one of equal contiguous slices. Parameters with a meanLoad
// receive the load of experts, the number of tokens that chose each expert, instead of gradients. Their values and
// loads are f32, and they have no moments. The load updates the biases of routers. Counters (counts) exist for their
// load alone: their values are zero, and they are in no file. Frozen parameters are not trained: they have only values,
// which no task writes.
struct Bucket {
  std::string name;
  // Per rank, padded so that it divides over dataAxes and alignment.
  int64_t elements = 0;
  // The axes that split the parameters. All other axes hold replicas; the norm counts coordinate 0.
  Axes splitAxes;
  // The pending axes that are no data axes: gradients are all-reduced over them before dataAxes.
  Axes reduceAxes;
  // The pending data axes: gradients are all-reduced (ZeRO-0) or reduce-scattered (ZeRO-1) over them.
  Axes dataAxes;
  // ZeRO-1: moments, masters and the updated slice are 1 / |dataAxes| of the bucket.
  bool sharded = false;
  // Gradients are summed over these stages before dataAxes. Empty: the parameters are not tied.
  std::vector<int64_t> tiedStages;
  // Bytes from the beginning of the rank's allocation; -1: none.
  int64_t valueOffset = 0, gradientOffset = 0;
  int64_t firstMomentOffset = 0, secondMomentOffset = 0;
  // ZeRO-1: offset of the reduced slice. ZeRO-0: gradientOffset.
  int64_t gradientShardOffset = 0;
  // The f32 weights from which the values are rounded.
  int64_t masterOffset = -1;
  // Tokens that choose an expert in a step, on average. 0: AdamW updates the parameters.
  double meanLoad = 0;
  bool counts = false;
  bool frozen = false;
  bool hasLoad() const { return meanLoad > 0; }
  bool isRouterBias() const { return hasLoad() && !counts; }
  bool receivesLoad() const { return hasLoad() && !frozen; }
  bool isMovedByLoad() const { return isRouterBias() && !frozen; }
  bool hasGradients() const { return !frozen; } // or load instead
  bool hasMoments() const { return !frozen && !hasLoad(); }
  bool operator==(const Bucket &) const = default;
};

// --- Programs ----------------------------------------------------------------------------------------------

struct Program {
  // Like "layer.fwd".
  std::string name;
  std::vector<std::string> segments;
  // The least size of each segment: all operands lie inside.
  std::vector<int64_t> segmentBytes;
  // The segment of the values that live only during a call; -1: there are none.
  int64_t frame = -1;
  std::vector<Instruction> instructions;
  // Repeated instructions, such as the tiles of a loss.
  std::vector<Repeat> repeats;
  bool operator==(const Program &) const = default;
};

// --- Chunks and schedule -----------------------------------------------------------------------------------

struct Binding {
  // Index into Chunk::slots; -1: the rank's allocation.
  int64_t slot = -1;
  // In bytes.
  int64_t offset = 0, stride = 0;
  bool operator==(const Binding &) const = default;
};
struct Call {
  int64_t program = 0;
  // Number of the block instance: the layer.
  int64_t instance = 0;
  int64_t instanceStride = 0;
  std::vector<Binding> segments;
  bool operator==(const Call &) const = default;
};
// The task of a chunk in the training step. begin zeroes the gradients. forward, backward and the halves of backward,
// input and weight, run once per microbatch and virtual stage. gradients completes the gradients of some layers of a
// virtual stage, a call for each part of its last backward, while the gradients of earlier layers are still computed.
// reduce completes the other gradients. update ends the step.
enum class Task { begin, forward, backward, input, weight, gradients, reduce, update };
constexpr bool isPerMicrobatch(Task task) {
  return task != Task::begin && task != Task::gradients && task != Task::reduce && task != Task::update;
}
// The tasks that run a function of each block; the other tasks run a function of the stage.
inline constexpr std::array kBlockTasks{Task::forward, Task::backward, Task::input, Task::weight};
constexpr bool isPerVirtualStage(Task task) { return isPerMicrobatch(task) || task == Task::gradients; }

struct Chunk {
  Task task = Task::begin;
  // The part of the stage's layers that the chunk runs; 0 for a task that is not per virtual stage.
  int64_t virtualStage = 0;
  // Like "forward.0", "begin".
  std::string name() const;
  // The rings of the stage that the chunk uses.
  std::vector<int64_t> slots;
  std::vector<Call> calls;
  // Repeated calls, such as equal layers.
  std::vector<Repeat> repeats;
  bool operator==(const Chunk &) const = default;
};

// The memory of a value that exists once per microbatch: slots of `bytes` bytes, `stride` apart, which microbatches use
// cyclically. With p turns microbatch m belongs to turn m mod p, and m, m + p, m + 2p .. cycle through the slots of
// that turn:
//   one turn {0, 3, 0}                  microbatches 0 1 2 3 4 5 have slots 0 1 2 0 1 2
//   two turns {0, 2, 0} and {2, 2, 1}   microbatches 0 1 2 3 4 5 have slots 0 3 1 2 0 3
struct Ring {
  struct Turn {
    // The turn's slots are first .. first + slots - 1.
    int64_t first = 0, slots = 1;
    // The slot of the turn's first microbatch, counted from `first`.
    int64_t phase = 0;
    bool operator==(const Turn &) const = default;
  };
  // Like "activation.0", "tokens".
  std::string name;
  // Bytes of one microbatch.
  int64_t bytes = 0;
  int64_t offset = 0, stride = 0;
  std::vector<Turn> turns = {{}};
  // The stage that the values come from or go to; -1: none.
  int64_t peer = -1;
  // Number of the value that is sent, equal at both ends.
  int64_t value = -1;
  int64_t slotOf(int64_t microbatch) const {
    const auto period = static_cast<int64_t>(turns.size());
    const Turn &turn = turns[microbatch % period];
    return turn.first + (turn.phase + microbatch / period) % turn.slots;
  }
  int64_t offsetOf(int64_t microbatch) const { return offset + stride * slotOf(microbatch); }
  // One past the last slot of any turn.
  int64_t slots() const;
  // Bytes from a slot to the next; the size of the slot if there is only one.
  int64_t pitch() const { return slots() == 1 ? bytes : stride; }
  int64_t end() const { return offset + pitch() * (slots() - 1) + bytes; }
  bool operator==(const Ring &) const = default;
};

// One step of a stage's ordered list. Runs execute in list order on stream "compute", or, for task gradients, on a
// stream of their own. send and recv are asynchronous: they start once their `waits` are done and complete when
// matched. Messages from one stage to another match in list order, untagged. Two runs are a pair if the second is
// `paired`: they may run concurrently, as one step. Both start after the waits of the first; the second has none. A
// step after them, or one that waits for one of them, starts after both. Neither run uses bytes that the other writes.
struct ScheduleStep {
  enum class Kind { run, send, recv } kind = Kind::run;
  // run: the chunk.
  int64_t chunk = -1;
  // send, recv: the ring of the value that is sent.
  int64_t ring = -1;
  // -1: once per training step.
  int64_t microbatch = -1;
  int64_t microbatchStride = 0;
  // run: calls firstCall .. firstCall + callCount - 1 of the chunk, counted with repeats unrolled; callCount -1: all.
  // The runs of a chunk for one microbatch execute all its calls in order.
  int64_t firstCall = 0, callCount = -1;
  // run: paired with the run right before it in the list.
  bool paired = false;
  // k: the step starts after the step k places before it, counted with repeats unrolled.
  std::vector<int64_t> waits;
  bool operator==(const ScheduleStep &) const = default;
};

// Data that the runtime writes into each rank at the start of a step, for all microbatches: [microbatch][dims], local.
//   positions        places in the sequence
//   positionIds      places counted from the beginning of the document
//   documentStarts   the place of the document's beginning
//   documentEnds     the place after the document's last token; attention that is not causal sees the keys before it
//   stepTokens       one number: how many labels count in the whole step, over all microbatches and ranks
//   lossShares       1 / n where a label counts, else 0, with n labels that count in the whole step
//   encoderEnds      for the decoder: the place after the encoder's last token that is no padding, where cross-attention ends
//   patches          the pixels at each of the encoder's positions, zeros where there is no patch
//   imagePlaces      for each of the decoder's positions the encoder's position whose feature stands there, and for each of
//                    the encoder's positions the place of its feature; -1: none. A token that a feature replaces is -1.
// Kinds of keys (keyPositions ..) cover the whole sequence where the others may cover a part of it. Where documents are
// not kept apart, a sequence is one document, which ends where its padding begins. A shift by n gives position i the
// data of position i + n; if that is after the end of the sequence, or in another document of a plan that reads
// documents, token 0 and no label. A model with an encoder has two sequences per sample: an input is the decoder's
// unless it is `ofEncoder`. A sample of a model that reads images has one image or none.
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
  struct Dim {
    // s (or t: key positions) or b; patches also have n, o, u: channels, rows and columns of pixels.
    std::string name;
    // The global size: one microbatch over all data ranks.
    int64_t size = 0;
    Axes axes;
    bool operator==(const Dim &) const = default;
  };
  std::vector<Dim> dims = {};
  // The memory: a slot for each microbatch, or one for all of them.
  int64_t ring = -1;
  // In positions, for kinds that are shiftable.
  int64_t shift = 0;
  // The input is for the encoder's sequence; only for kinds that both sequences have (isOfEither).
  bool ofEncoder = false;
  bool operator==(const Input &) const = default;
};

// A part of the rank's allocation; together the regions cover it exactly.
struct Region {
  // One of: parameters gradients optimizer activations frame inputs scalars.
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
  // Size of the allocation.
  int64_t bytes = 0;
  // A lower bound of `bytes` over all placements, for people: the largest set of buffers that live at the same time.
  int64_t leastBytes = 0;
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
// loss_sum / tokens is the cross-entropy. From kFirstLossTerm on: the other terms of the loss, each already weighted, 0
// where the model has no such term (docs/experts.md, docs/multi-token-prediction.md).
inline const std::vector<std::string> kResults = {"loss_sum", "tokens",   "grad_norm", "seq_aux_loss",
                                                  "z_loss",   "aux_loss", "mtp_loss"};
inline constexpr size_t kFirstLossTerm = 3;

// A file with every row kernel of the plan: a shared object for CPUs of a level, or PTX text for GPUs.
struct KernelFile {
  KernelLevel level = KernelLevel::v3;
  // In the bundle: "kernels/x86-64-v3.so", "kernels/sm_90.ptx".
  std::string path;
  // The hash of the file's bytes.
  uint64_t hash = 0;
  bool operator==(const KernelFile &) const = default;
};

// The label of a token. causal: the next token; masked: the token itself, where it was chosen to be predicted.
enum class Objective { causal, masked };

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
  std::string schedule;
  int64_t virtualStages = 1;
  Target target = Target::cpu;
  // The type of parameters' values and of activations.
  DType dtype = DType::f32;
  // The type of the buckets' gradients.
  DType gradientType = DType::f32;
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

// Whether the parameter only counts load: Bucket::counts. It has a place.
bool isCounter(const Plan &plan, const Parameter &parameter);
// Whether the parameter is not trained: Bucket::frozen. It has a place.
bool isFrozen(const Plan &plan, const Parameter &parameter);

// The types of a bucket's values and of its gradients: f32 where it has load, else those of the plan.
DType valueType(const Plan &plan, const Bucket &bucket);
// Whether the bucket has f32 masters: its values are narrower and trained.
bool hasMasters(const Plan &plan, const Bucket &bucket);
DType gradientType(const Plan &plan, const Bucket &bucket);

// Whether inputs of the kind are places of a sequence's elements, whatever the data.
bool isPosition(Input::Kind kind);
// Whether the input is equal in every microbatch.
bool isOneForAllMicrobatches(Input::Kind kind);
// Whether the kind has a value per token, which Input::shift may take from a later one.
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

// Whether the input holds the ends of documents.
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
