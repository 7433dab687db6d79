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

#include "plan/mesh/Mesh.h"
#include "runtime/base/Rounding.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mgc::plan {

inline constexpr int64_t kVersion = 13;
inline constexpr int64_t kAlignment = 64; // bytes; every buffer, slot and region starts on it
constexpr int64_t aligned(int64_t bytes) { return roundUp(bytes, kAlignment); }

// The kind of device that runs a plan.
enum class Target { cpu, cuda };

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

// bf16 is the upper half of an f32, rounded to nearest even.
enum class DType { f32, bf16, i32 };
int64_t sizeInBytes(DType type);
constexpr bool isFloat(DType type) { return type != DType::i32; }

// Items [begin, end) of a list run `count` times before the item behind them; items in no repeat run once. Repeats are in
// order and do not overlap. Numbers of an item that are called strides are added in each iteration after the first.
//   items a b c d, repeat {1, 3, 3}:  a b c b c b c d
struct Repeat {
  int64_t begin = 0, end = 0, count = 1;
  bool operator==(const Repeat &) const = default;
};

// --- Parameters --------------------------------------------------------------------------------------------

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

// A logical parameter is a view of one tensor of the Hugging Face checkpoint: file dimension j, from
// offset[j] on, is the row-major product of the next grouping[j] logical dimensions. GPT-2's c_attn.weight
// [h, 3h] holds q, k and v: k is dims h g r d, grouping [1, 3], offset [0, h]. Two parameters of one name are
// tied: they are one parameter. Equal parameters of a block's instances are one entry, with "{}" where their names have
// the instance's number: expandedParameters() (Expand.h) lists them one by one.
struct Parameter {
  std::string name; // unique: "h.{}.attn.c_attn.weight[k]"
  std::string tensor;
  std::vector<std::string>
      aliases; // other names that a checkpoint may have for the tensor, tried in this order
  std::vector<int64_t> fileShape;
  std::vector<int64_t> grouping;
  std::vector<int64_t> offset;
  std::vector<ParameterDim> dims;
  InitKind init = InitKind::normal;
  double initStd = 0.02;
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
  bool operator==(const Parameter &) const = default;
};

// Parameters of one stage whose gradients are treated alike, laid out one after another: one flat buffer each
// for values (of Plan::dtype), gradients (of Plan::gradientType), the two moments (f32) and, where values are
// bf16, the master weights (f32). ZeRO-1 gives each rank of `dataAxes` one of equal contiguous slices.
struct Bucket {
  std::string name;
  int64_t elements = 0; // per rank, padded so that it divides over dataAxes and alignment
  Axes splitAxes; // that split the parameters; all other axes hold replicas (the norm counts coordinate 0)
  Axes dataAxes;  // pending data axes: reduced (ZeRO-0) or reduce-scattered (ZeRO-1)
  bool sharded = false;            // ZeRO-1: moments, masters and the updated slice are 1 / |dataAxes|
  std::vector<int64_t> tiedStages; // gradients are summed over these stages before dataAxes; empty: not tied
  // Bytes in the rank.
  int64_t valueOffset = 0, gradientOffset = 0, firstMomentOffset = 0, secondMomentOffset = 0;
  int64_t gradientShardOffset = 0; // ZeRO-1: where the reduced slice lies; else = gradientOffset
  int64_t masterOffset = -1; // the weights in f32, of which the values are the rounding; -1: values are f32
  bool operator==(const Bucket &) const = default;
};

// --- Programs ----------------------------------------------------------------------------------------------

struct Operand {
  int64_t segment = 0;
  int64_t offset = 0; // bytes
  int64_t stride = 0; // bytes
  // Number of the value, in its program, that these bytes are of: what an instruction writes as one value is read as no
  // other. -1: any.
  int64_t value = -1;
  bool operator==(const Operand &) const = default;
};

// A number an instruction needs that is not known until the rank, the call or the step is.
struct Scalar {
  // linear: value + sum over terms of coordinate(axes) * scale.  instance: Call::instance.  seed: of the run.
  enum class Kind { linear, instance, seed } kind = Kind::linear;
  struct Term {
    Axes axes; // the rank's position along these axes, major first
    int64_t scale = 0;
    bool operator==(const Term &) const = default;
  };
  int64_t value = 0;
  std::vector<Term> terms;
  bool operator==(const Scalar &) const = default;
};

enum class ReduceKind { sum, max };

// The use an instruction makes of an operand. updated: reads it and writes it.
enum class OperandUse { read, written, updated };

// Generated: void symbol(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end), and what the plan
// must give it: const int64_t symbol_needs[] = {range, least number of scalars, n = number of operands, then the numbers of
// RowKernel::Operand for each: use, bytes, rowBytes, rowStride}.
inline constexpr std::string_view kNeedsSuffix = "_needs";
// On a GPU: .entry symbol(operands.., scalars..), each of 64 bits, which covers the whole range at once when it is launched
// as const int64_t symbol_launch[] = {blocks, threads of a block, bytes of dynamic shared memory} says.
inline constexpr std::string_view kLaunchSuffix = "_launch";
struct RowKernel {
  // What the kernel does with an operand, in rows of `rowBytes` that begin `rowStride` bytes apart, `bytes` in all; 0: one
  // after another.
  struct Operand {
    OperandUse use = OperandUse::read;
    int64_t bytes = 0, rowBytes = 0, rowStride = 0;
    bool operator==(const Operand &) const = default;
  };
  std::string symbol; // in kernels/
  int64_t range = 0;  // the kernel may be split over [0, range) at will: parts are independent
  std::vector<Scalar> scalars;
  double flops = 0, bytes = 0; // cost of the whole range
  std::vector<Operand> uses;   // of each of Instruction::operands
  bool operator==(const RowKernel &) const = default;
};
// How a product is divided into library calls: runtime/kernels/GemmPaths.h. rule: the runtime chooses. Each gives the
// same result, to rounding.
enum class GemmPath { rule, whole, rows, columns };
// An epilogue is applied to a product's sums X before they are rounded. bias: C = X + bias. gelu: C is the GELU of X + bias, in
// the tanh form, and X + bias, the preactivation, is written too.
enum class Epilogue { none, bias, gelu };
// Whether products of plans for the target may have one: if its library makes it.
constexpr bool hasEpilogues(Target target) { return target == Target::cuda; }
inline constexpr int64_t kGeluColumns = 8; // with gelu n is a multiple of it: cuBLASLt's auxiliary matrix
// C[m,n] = (accumulate ? C : 0) + op(A)[m,k] * op(B)[k,n], row-major, without an epilogue. Operands A, B, [bias[n]], C,
// [preactivation[m,n]], [workspace]. Sums are made in f32 and rounded once, to C's type.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false; // A is stored [k,m]; B is stored [n,k]
  bool accumulate = false;                     // then there is no epilogue
  Epilogue epilogue = Epilogue::none;
  GemmPath path = GemmPath::rule;
  DType inputType = DType::f32,
        outputType = DType::f32; // of A and B; of all others. f32 gives f32, bf16 either
  int64_t workspaceBytes = 0;    // of the last operand, for a device's library; 0: there is none
  bool operator==(const Gemm &) const = default;
};
// Attention over q[s,b,g,r,d], k,v[t,b,g,d], query positions [s,b] and key positions [t,b] (i32).
// Key t is visible to query s when pos_t <= pos_s and, with a window w > 0, pos_s - pos_t < w; with documents,
// start_s <= pos_t too.
// forward operands:  q k v queryPos keyPos [start] [sample] -> o, lse[s,b,g,r], workspace
// backward operands: q k v o lse do queryPos keyPos [start] [sample] -> dq dk dv, workspace
// start[s,b] (i32) only with documents: where the query's begins. sample[b] (i32) only with dropout. dk and dv sum over r.
// lse is f32, all others but those of integers of `type`, or results of f32.
struct Attention {
  bool backward = false;
  int64_t s = 0, t = 0, b = 0, g = 0, r = 0, d = 0;
  double scale = 1;
  int64_t window = 0;
  double dropout = 0; // probability; mask keyed by seed, site, instance, sample, head, positions
  int64_t site = 0;   // hash of the dropout's name
  // headOffset: global number of local head 0 (g major, r minor); the global head of (g, r) is
  // headOffset + g * groupStride + r.
  Scalar seed = {}, instance = {}, headOffset = {};
  int64_t groupStride = 0;
  // Where operands are parts of a larger buffer, as in qkv[s,b,g,r+2,d]: elements from one group's part to the
  // next group's, in order of position, b and g. 0: they follow each other, r d apart (q, dq) or d (k, v, dk, dv).
  int64_t qStride = 0, kStride = 0, vStride = 0, dqStride = 0, dkStride = 0, dvStride = 0;
  int64_t workspaceBytes = 0;
  DType type = DType::f32;
  // Positions that are known before the data is: keys are a whole sequence in the order of SequenceOrder.h, queries the
  // rank's part of it along these axes. 0: they are data alone.
  int64_t zigzag = 0;
  Axes queryAxes = {};
  bool documents = false; // a query sees only its own
  bool resultsInF32 =
      false; // o, or dq, dk and dv, are f32 whatever the type: to be merged with those of other keys
  bool operator==(const Attention &) const = default;
};
// Collectives read operand 0 and write operand 1 (which may be the same buffer for all_reduce only). The
// buffer is seen as [outer, n * chunk] elements: all_gather concatenates and reduce_scatter splits the second
// dimension. bf16 is summed in f32, in the order of the group, and rounded once.
struct Collective {
  enum class Kind { allReduce, allGather, reduceScatter, allToAll, permute } kind = Kind::allReduce;
  ReduceKind reduce = ReduceKind::sum;
  DType type = DType::f32;
  Axes axes;
  std::vector<int64_t> stages; // if any: the group is the ranks of these stages, other coordinates equal
  int64_t outer = 1; // all_gather: local [outer, chunk] -> [outer, n*chunk]; reduce_scatter: the reverse
  int64_t chunk = 0; // elements; all_reduce, permute: outer = 1, chunk = all elements
  // permute: rank i of the group gets what rank i - 1 has, the first what the last has.
  // all_to_all: local [outer, n, middle, chunk] -> [outer, middle, n, chunk]: block j of the first n goes to
  // rank j; what rank i sent lands at position i of the second n.
  int64_t middle = 1;
  bool splitsInner =
      false; // all_to_all the other way: [outer, middle, n, chunk] -> [outer, n, middle, chunk]
  int64_t workspaceBytes = 0; // of operand 2, where a device packs the blocks of all_to_all; 0: there is none
  bool operator==(const Collective &) const = default;
};
// Whether attention of plans for the target may have resultsInF32.
constexpr bool hasF32AttentionResults(Target target) { return target == Target::cpu; }
// Whether plans for the target have a workspace in which an all_to_all of more than one row packs them by ranks: what its
// communicators send lies together.
constexpr bool packsRows(Target target) { return target == Target::cuda; }
// Whether collectives of plans for the target leave the cores to the products that they run beside: on a CPU they are work of
// the same cores, and what is won is the wait for other ranks.
constexpr bool leavesCoresToProducts(Target target) { return target == Target::cuda; }
// Local data movement. slice: [outer, n*chunk] -> [outer, chunk], the part at the rank's coordinate along
// axes.
struct Move {
  enum class Kind { copy, fill, slice, demote } kind = Kind::copy;
  int64_t bytes = 0; // copy, fill (with zero byte), demote: whole size. demote: copy where the coordinate
                     // along axes is 0, else zero
  int64_t outer = 1, chunkBytes = 0; // slice
  Axes axes;
  bool operator==(const Move &) const = default;
};

struct Instruction {
  std::variant<RowKernel, Gemm, Attention, Collective, Move> body;
  std::vector<Operand> operands;
  std::string label; // where it comes from, for errors and traces: "layer.fwd/attn.q"
  bool operator==(const Instruction &) const = default;
};

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
struct ScheduleStep {
  enum class Kind { run, send, recv } kind = Kind::run;
  int64_t chunk = -1;      // run: which
  int64_t ring = -1;       // send, recv: of what travels
  int64_t microbatch = -1; // -1: once per training step
  int64_t microbatchStride = 0;
  int64_t firstCall = 0;      // run: of the chunk's calls, repeats run, from this one on,
  int64_t callCount = -1;     // so many; -1: all. The runs of a chunk for one microbatch make all, in order.
  std::vector<int64_t> waits; // k: for the step that ran k steps before, repeats run
  bool operator==(const ScheduleStep &) const = default;
};

// Data the runtime writes into each rank at the start of a step, for all microbatches: [microbatch][dims],
// local. positions are places in the sequence; positionIds count from the beginning of a document, which documentStarts
// has the place of. Kinds of keys have the whole sequence where others may have a part of it.
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
    keyDocumentStarts
  } kind;
  DType type = DType::i32;
  struct Dim { // names are s (or t: key positions), b
    std::string name;
    int64_t size = 0; // global, of one microbatch over all data ranks
    Axes axes;
    bool operator==(const Dim &) const = default;
  };
  std::vector<Dim> dims;
  int64_t ring = -1; // its memory: a slot for each microbatch, or one for all of them
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
  // bias_correction1 (1 - beta1^t), bias_correction2. It reads results after: loss_sum, tokens, grad_norm.
  int64_t stepScalarsOffset = 0, resultsOffset = 0;
  bool operator==(const StagePlan &) const = default;
};
inline const std::vector<std::string> kStepScalars = {
    "lr", "beta1", "beta2", "eps", "weight_decay", "clip", "bias_correction1", "bias_correction2"};
inline const std::vector<std::string> kResults = {"loss_sum", "tokens", "grad_norm"};

// A file with every row kernel of the plan: a shared object for CPUs of a level, or PTX text for GPUs.
struct KernelFile {
  KernelLevel level = KernelLevel::v3;
  std::string path;  // in the bundle: "kernels/x86-64-v3.so", "kernels/sm_90.ptx"
  uint64_t hash = 0; // of the file's bytes
  bool operator==(const KernelFile &) const = default;
};

struct Plan {
  int64_t version = kVersion;
  std::string
      modelConfig; // the config.json it was compiled from, verbatim: written beside saved weights; empty: none fits
  std::string modelType;
  Mesh mesh;
  int64_t sequenceLength = 0, microBatchSize = 0, globalBatchSize = 0, microbatches = 0, vocabulary = 0;
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
  // Names of tensors that a checkpoint may have besides the parameters; "{}" stands for a number: "h.{}.attn.bias".
  std::vector<std::string> ignoredTensors;
  std::vector<Program> programs;
  std::vector<StagePlan> stages;
  // A stage is the coordinate along the axes of the role stage (0 when the mesh has none).
  bool operator==(const Plan &) const = default;
};

// Whether it holds the same in every microbatch: where the elements of a sequence stand, whatever the data.
bool isPosition(Input::Kind kind);

// Whether a sequence of it is cut in documents: some stage reads where they begin.
bool readsDocuments(const Plan &plan);
bool readsDocuments(Input::Kind kind);

// The bytes of the smallest element that the plan has: what every address is a multiple of.
int64_t leastElementBytes(const Plan &plan);

// Its target and the levels of its kernels: "cpu:x86-64-v3,x86-64-v4", "cuda:sm_90".
std::string describeTarget(const Plan &plan);

// As plan.json spells them.
std::string_view nameOf(Task task);
std::string_view nameOf(Collective::Kind kind);
std::string_view nameOf(ReduceKind kind);
std::string_view nameOf(OperandUse use);
std::string_view nameOf(DType type);
std::string_view nameOf(Target target);
std::string_view nameOf(KernelLevel level);
std::string_view nameOf(GemmPath path);
std::string_view nameOf(Epilogue epilogue);
std::optional<Task> taskNamed(std::string_view name);
std::optional<GemmPath> gemmPathNamed(std::string_view name);

// m x n x k, and A and B as in a BLAS call: "256x768x3072 NT+" has B transposed and is added to C. Types that are not f32
// follow: "bf16" of all, "bf16>f32" of the operands alone; then the epilogue: "bias", "gelu".
std::string sizesOf(const Gemm &gemm);

} // namespace mgc::plan
