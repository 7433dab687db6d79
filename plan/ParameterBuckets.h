// Parameters of a plan and the buckets that hold them.
#pragma once

#include "plan/Reflection.h"
#include "plan/Types.h"

#include <array>

namespace mgc::plan {

// The dimension of tokens, in parameters that have one; a layout pads it.
inline constexpr std::string_view kVocabularyDim = "v";

// One dimension of a logical parameter. `size` is padded (vocabulary); rows >= `valid` are zero and in no file.
struct ParameterDim {
  std::string name;
  int64_t size = 0;
  int64_t valid = 0;
  // The axes that split the dimension.
  Axes axes;
  bool operator==(const ParameterDim &) const = default;
};

enum class InitKind { normal, zeros, ones };
template <> inline constexpr auto enumNames<InitKind> = std::to_array<std::string_view>({"normal", "zeros", "ones"});

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
  // Whether the parameter is the encoder's: of its embedding, layers or norms. A table that both stacks read is not.
  bool ofEncoder = false;
  // The positions of a sample that meet the parameter; 0: those of the sequence (Plan::sequenceLength).
  int64_t positions = 0;
  // The position in a stage of instances first .. first + count - 1, each `stride` elements after the one before. A
  // tied parameter may have several places for one instance.
  struct Place {
    int64_t stage = 0;
    // Index into StagePlan::buckets.
    int64_t bucket = 0;
    int64_t elementOffset = 0;
    int64_t first = 0, count = 1, stride = 0;
    // Calls of a microbatch that add to the gradient of each: 2 of a table that is the head's too, if both are on the stage.
    int64_t uses = 1;
    // The same elements, whatever uses them.
    bool coincidesWith(Place other) const {
      other.uses = uses;
      return *this == other;
    }
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

// The meaning of a flat buffer of a bucket.
//   gradient          the blocks add to it
//   gradientSlice     of a sharded bucket: the rank's slice of the gradient, complete after the step's reduction; with units f32, and
//                     microbatches add to it
//   gradientOfUpdate  the rank's part of the complete gradient, where what the update needs is cut further than gradientSlice
//   master            f32, the values are rounded from it
//   optimizer         what the update rule keeps from step to step
//   unitGradient      the gradient of one unit at a time (ZeRO-2): blocks add to it. There may be two, which calls use in turn, so that
//                     one is summed up while blocks add to the other
//   unitSum           its sum over shardAxes, before it is added to gradientSlice
//   unitValue         the values of one unit at a time (ZeRO-3): gathered from the slices of `value` before a call reads them. There
//                     may be two: where two runs are paired the second is the forward's; where values are gathered ahead calls use
//                     them in turn
//   gatheredValue     likewise, of all units at once: gathered before each forward call that reads them, and read by the
//                     microbatch's backward too; or once in a step, by chunks of its first microbatch, before the first call that reads
//                     them (Chunk::first)
enum class StateRole {
  value,
  gradient,
  gradientSlice,
  gradientOfUpdate,
  master,
  optimizer,
  unitGradient,
  unitSum,
  unitValue,
  gatheredValue
};
template <>
inline constexpr auto enumNames<StateRole> =
    std::to_array<std::string_view>({"value", "gradient", "gradientSlice", "gradientOfUpdate", "master", "optimizer",
                                     "unitGradient", "unitSum", "unitValue", "gatheredValue"});

// The kind of the region for what lives while a chunk runs: what the backward of a unit of layers recomputes, and activations on
// their way to and from the host. That for activations on the host.
inline constexpr std::string_view kTransient = "transient", kHostActivations = "hostActivations";
// The kind of the region that states of the role lie in (Region::kind).
constexpr std::string_view regionOf(StateRole role) {
  switch (role) {
  case StateRole::value:
    return "parameters";
  case StateRole::gradient:
  case StateRole::gradientSlice:
  case StateRole::gradientOfUpdate:
    return "gradients";
  case StateRole::gatheredValue:
    return "gathered";
  case StateRole::unitGradient:
  case StateRole::unitSum:
  case StateRole::unitValue:
    return "units";
  case StateRole::master:
  case StateRole::optimizer:
    return "optimizer";
  }
  return {};
}

// The kind of the region that states lie in which are on the host.
inline constexpr std::string_view kHostOptimizer = "hostOptimizer";
// The kind of the region on the device through which they are copied.
inline constexpr std::string_view kStaging = "staging";

// A flat buffer of a bucket in the rank's memory.
struct State {
  // Unique in its bucket. Of the role optimizer what checkpoints and PyTorch call it: "exp_avg".
  std::string name;
  StateRole role = StateRole::value;
  DType type = DType::f32;
  // The rank has one of equal contiguous slices, by its coordinate along Bucket::axesOf.
  bool sliced = false;
  // The address of the elements on the device: of all but the first hostElements that the rank has.
  int64_t offset = 0;
  // The first elements may be in the host's arena, from hostOffset on; of master and optimizer alone.
  int64_t hostElements = 0, hostOffset = 0;
  bool operator==(const State &) const = default;
};

// Whether it has one unit at a time, in memory that units share.
constexpr bool isOfOneUnit(StateRole role) {
  return role == StateRole::unitGradient || role == StateRole::unitSum || role == StateRole::unitValue;
}

// Whether nothing of it is kept from step to step.
constexpr bool isOfMicrobatches(StateRole role) { return isOfOneUnit(role) || role == StateRole::gatheredValue; }

inline bool isGradient(StateRole role) {
  return role == StateRole::gradient || role == StateRole::gradientSlice || role == StateRole::gradientOfUpdate ||
         role == StateRole::unitGradient || role == StateRole::unitSum;
}

// Whether the update works on it, and no microbatch does.
constexpr bool isOfUpdate(StateRole role) {
  return role == StateRole::gradientOfUpdate || role == StateRole::master || role == StateRole::optimizer;
}

// The fate of the parameters of a bucket at the end of a step. trained: gradients update them. routerBias: the load of experts
// stands in the place of their gradients, and moves them. loadCounter: they exist for their load alone, their values are zero, and
// they are in no file. frozen: they have only values, which no task writes.
enum class BucketUse { trained, routerBias, loadCounter, frozen };
template <>
inline constexpr auto enumNames<BucketUse> =
    std::to_array<std::string_view>({"trained", "routerBias", "loadCounter", "frozen"});

// Parameters of one stage whose gradients are treated alike, laid out one after another: one flat buffer for each of its states.
// ZeRO-1 gives each rank of `shardAxes` one of equal contiguous slices of some. Values and loads of parameters with a meanLoad are
// f32.
struct Bucket {
  std::string name;
  // Per rank, padded so that it divides over shardAxes, outerAxes and alignment.
  int64_t elements = 0;
  BucketUse use = BucketUse::trained;
  // Equal parts of it, each the parameters of one instance of a block: a slice is one of each. 1: the bucket is one.
  int64_t units = 1;
  // The axes that split the parameters. All other axes hold replicas; the norm counts coordinate 0.
  Axes splitAxes;
  // The pending axes that are no data axes: gradients are all-reduced over them before dataAxes.
  Axes reduceAxes;
  // The data axes along which ranks have the same parameters: gradients are all-reduced (ZeRO-0), or reduce-scattered over shardAxes, at the
  // end of a step (ZeRO-1) or in each microbatch (ZeRO-2).
  Axes dataAxes;
  // ZeRO-1: those of dataAxes whose ranks share out what is kept for the update; between the others, the instances of the distributed
  // optimizer, it is replicated. Values too where areValuesSliced(). Empty: each rank has all.
  Axes shardAxes;
  // Other dataAxes along which states of the update are cut again, behind shardAxes.
  Axes outerAxes;
  // Gradients are summed over these stages behind dataAxes. Empty: the parameters are not tied.
  std::vector<int64_t> tiedStages;
  // Tokens that choose an expert in a step, on average; 0 of what has gradients.
  double meanLoad = 0;
  std::vector<State> states;

  bool isSharded() const { return !shardAxes.empty(); }
  int64_t unitElements() const { return elements / units; }
  bool hasUnitGradients() const { return has(StateRole::unitGradient); }
  // Ranks keep slices of the values too, and gather them for each use (ZeRO-3) or once a step.
  bool areValuesSliced() const {
    const State *values = stateOf(StateRole::value);
    return values && values->sliced;
  }
  bool hasLoad() const { return meanLoad > 0; }
  bool isFrozen() const { return use == BucketUse::frozen; }
  bool isCounter() const { return use == BucketUse::loadCounter; }
  bool isRouterBias() const { return hasLoad() && !isCounter(); } // also a frozen one
  bool isMovedByLoad() const { return use == BucketUse::routerBias; }
  bool receivesLoad() const { return hasLoad() && !isFrozen(); }
  // At the end of a step.
  bool isReduced() const {
    const bool isPendingOverData = hasUnitGradients() ? dataAxes != shardAxes : !dataAxes.empty();
    return !isFrozen() && (!reduceAxes.empty() || isPendingOverData || !tiedStages.empty());
  }
  // Axes along which states of the update are in slices: shardAxes, then outerAxes.
  Axes axesOfUpdate() const;
  // Axes along which ranks have slices of the state, the first by the largest; empty: each has all of it.
  Axes axesOf(const State &state) const;
  // Elements that a rank has of the state; `ranks` share the slices.
  int64_t elementsOf(const State &state, int64_t ranks) const;
  // Null: there is none.
  const State *stateNamed(std::string_view name) const;
  const State *stateOf(StateRole role) const; // the first
  int64_t offsetOf(StateRole role) const;     // -1: there is none
  bool has(StateRole role) const { return stateOf(role) != nullptr; }
  // The rank's part of the gradient once it is complete; null: there is none.
  const State *completeGradient() const;
  bool operator==(const Bucket &) const = default;
};

} // namespace mgc::plan
