// Parameters against the checkpoint tensor they view and the buckets that hold them; buckets against the allocation.
#include "plan/prove/VerifyParts.h"
#include "plan/prove/VerifyPositions.h"

#include "plan/Expand.h"
#include "plan/Optimizers.h"

#include <cmath>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <span>

namespace mgc::plan {

namespace {

using BucketKey = std::pair<int64_t, int64_t>; // stage, bucket

// The contents of a bucket, in elements.
struct Contents {
  // Parameters that are parts of one matrix: `rows` and `extent` as the first of them says.
  struct Matrix {
    int64_t rows = 0, extent = 0;
    std::vector<Interval> parts; // intervals of a row
  };
  std::vector<Interval> whole;      // parameters by themselves
  std::map<int64_t, Matrix> joined; // by the element where they begin
};
using Occupancy = std::map<BucketKey, Contents>;

// The local block of a parameter.
struct LocalRows {
  int64_t count = 1, elements = 0; // elements of each
};

// Primitive axes that have more than one rank, sorted.
Axes effectiveAxes(const Mesh &mesh, const Axes &axes) {
  Axes effective;
  for (const std::string &axis : primitiveAxes(mesh, axes))
    if (groupSize(mesh, {axis}) > 1)
      effective.push_back(axis);
  std::ranges::sort(effective);
  return effective;
}

// --- Parameters --------------------------------------------------------------------------------------------

// Whether each of `merged` is the product of the next one or more of the sizes, which are more. It takes as few as it can:
// a 1 that it leaves changes no product of the sizes after it.
bool isMerged(std::span<const int64_t> sizes, std::span<const int64_t> merged) {
  if (merged.size() >= sizes.size())
    return false;
  for (int64_t size : merged) {
    if (sizes.empty())
      return false;
    Checked product = 1;
    do {
      product = checkedMultiply(product, sizes.front());
      sizes = sizes.subspan(1);
    } while (!sizes.empty() && product && *product < size);
    if (product != Checked(size))
      return false;
  }
  return std::ranges::all_of(sizes, [](int64_t size) { return size == 1; });
}

constexpr double kMostInitStd = 1e37;

class ParameterChecks {
public:
  ParameterChecks(Checks &checks, const Parameter &parameter, const Place &place)
      : checks_(checks), violations_(checks.violations), parameter_(parameter), place_(place) {}

  void verify(Occupancy &occupancy) {
    violations_.expect(!parameter_.tensor.empty(), place_, "'{}' names no tensor", parameter_.name);
    violations_.expect(parameter_.initStd >= 0 && parameter_.initStd <= kMostInitStd, place_,
                       "initStd = {} must be from 0 to {}: the largest normal number times it is an f32",
                       parameter_.initStd, kMostInitStd);
    violations_.expect(parameter_.activeShare > 0 && parameter_.activeShare <= 1, place_,
                       "activeShare = {} must be above 0 and at most 1: a share of the tokens", parameter_.activeShare);
    verifyPositions(checks_, parameter_, place_);
    for (const ParameterDim &dim : parameter_.dims)
      violations_.expect(dim.name != kVocabularyDim || dim.valid == checks_.plan.vocabulary, place_,
                         "'{}' has {} valid rows {}, the plan vocabulary = {}", parameter_.name, dim.valid,
                         kVocabularyDim, checks_.plan.vocabulary);
    verifyStack();
    verifyFileView();
    if (const std::optional<LocalRows> rows = localRows())
      verifyPlaces(*rows, occupancy);
  }

private:
  void verifyFileView();
  void verifyStack();
  std::optional<std::vector<int64_t>> localSizes();
  std::optional<LocalRows> localRows();
  bool verifyRows(const LocalRows &rows);
  void verifyPlaces(const LocalRows &rows, Occupancy &occupancy);
  void addTo(Contents &contents, const LocalRows &rows, int64_t begin, int64_t span, const Place &place);
  void verifyBucket(const Bucket &bucket, const Place &place);

  Checks &checks_;
  Violations &violations_;
  const Parameter &parameter_;
  const Place &place_;
};

// A stack's tensors lie behind each other along the first file dimension, whose logical dimensions are whole and without padding;
// their names have the number.
void ParameterChecks::verifyStack() {
  const auto isNumbered = [](const std::string &name) {
    const size_t hole = name.find(kStackHole);
    return hole != std::string::npos && name.find(kStackHole, hole + 1) == std::string::npos;
  };
  std::vector<std::string> names = parameter_.aliases;
  names.push_back(parameter_.tensor);
  const int64_t stacked = parameter_.stacked;
  for (const std::string &name : names)
    violations_.expect(stacked > 0 ? isNumbered(name) : name.find(kStackHole) == std::string::npos, place_,
                       "tensor '{}' of a stack of {}: expected {} once in the names of a stack, and in no other", name,
                       stacked, kStackHole);
  if (stacked == 0)
    return;
  const std::vector<ParameterDim> &dims = parameter_.dims;
  const auto beginsWithStack = [&](const std::vector<int64_t> &shape) {
    return shape.size() > 1 && shape[0] == stacked;
  };
  const int64_t count = parameter_.grouping.empty() ? 0 : parameter_.grouping[0];
  Checked size = count > 0 && count < static_cast<int64_t>(dims.size()) ? Checked(1) : std::nullopt;
  for (int64_t i = 0; size && i < count; ++i)
    size = dims[i].size == dims[i].valid ? checkedMultiply(size, dims[i].size) : std::nullopt;
  violations_.expect(
      stacked > 0 && size == Checked(stacked) && beginsWithStack(parameter_.fileShape) &&
          beginsWithStack(parameter_.shapeOfTensor()),
      place_, "a stack of {} tensors; expected the first dimension of the file of that size, without padding", stacked);
}

// File dimension j holds offset[j] + the product of the valid sizes of its dims.
void ParameterChecks::verifyFileView() {
  const std::vector<int64_t> &shape = parameter_.fileShape, &grouping = parameter_.grouping;
  const std::vector<int64_t> &offset = parameter_.offset;
  const std::vector<ParameterDim> &dims = parameter_.dims;
  Checked grouped = 0;
  for (int64_t count : grouping)
    grouped = count < 0 ? std::nullopt : checkedAdd(grouped, count);
  bool sizes = grouping.size() == shape.size() && offset.size() == shape.size() &&
               grouped == Checked(static_cast<int64_t>(dims.size()));
  if (!violations_.expect(sizes, place_,
                          "fileShape, grouping and offset must have one entry per file dimension, and grouping must "
                          "add up to the {} dims; found {}, {}, {} entries",
                          dims.size(), shape.size(), grouping.size(), offset.size()))
    return;
  for (size_t j = 0, dim = 0; j < shape.size(); ++j) {
    Checked extent = 1;
    for (int64_t i = 0; i < grouping[j]; ++i)
      extent = checkedMultiply(extent, dims[dim++].valid);
    violations_.expect(shape[j] > 0 && fitsInside(offset[j], extent, shape[j]), place_,
                       "file dimension {}: {} elements from {} on do not lie inside fileShape = {}", j,
                       extent ? fmt::to_string(*extent) : "too many", offset[j], shape[j]);
  }
  const std::vector<int64_t> &tensor = parameter_.tensorShape;
  violations_.expect(tensor.empty() || isMerged(shape, tensor), place_,
                     "tensorShape = [{}] is not fileShape = [{}] with neighbours multiplied; expected fewer "
                     "dimensions, each the product of one or more",
                     fmt::join(tensor, ", "), fmt::join(shape, ", "));
}

// The extent of each dimension on one rank; nothing after a violation.
std::optional<std::vector<int64_t>> ParameterChecks::localSizes() {
  std::vector<int64_t> sizes;
  Axes all;
  Place dims = place_.field("dims");
  bool sound = true;
  for (size_t i = 0; i < parameter_.dims.size(); ++i) {
    const ParameterDim &dim = parameter_.dims[i];
    Place place = dims.element(i);
    Checked local = localSize(checks_, place, dim.size, dim.axes);
    sound &= local.has_value();
    sizes.push_back(local.value_or(0));
    violations_.expect(dim.valid >= 1 && dim.valid <= dim.size, place, "valid = {} is not in [1, size = {}]", dim.valid,
                       dim.size);
    all.insert(all.end(), dim.axes.begin(), dim.axes.end());
  }
  if (sound)
    violations_.expect(!hasStages(checks_.plan.mesh, all), dims,
                       "are split over stages; a stage holds whole parameters");
  if (!sound || !verifyAxesAt(checks_, dims, all))
    return std::nullopt;
  return sizes;
}

// The rows that a rank holds; nothing after a violation.
std::optional<LocalRows> ParameterChecks::localRows() {
  const std::optional<std::vector<int64_t>> sizes = localSizes();
  const Parameter::Rows &rows = parameter_.rows;
  Place place = place_.field("rows"), dims = place_.field("dims");
  if (!violations_.expect(rows.dims >= 0 && rows.dims <= int64_t(parameter_.dims.size()), place,
                          "dims = {} is not in [0, {}], the dimensions of '{}'", rows.dims, parameter_.dims.size(),
                          parameter_.name) ||
      !sizes)
    return std::nullopt;
  const std::span<const int64_t> all(*sizes);
  const Checked count = productOf(all.first(size_t(rows.dims))), elements = productOf(all.subspan(size_t(rows.dims)));
  if (!violations_.expect(checkedMultiply(count, elements).has_value(), dims,
                          "the sizes multiply to more than 64 bits hold"))
    return std::nullopt;
  const LocalRows local = {*count, *elements};
  return verifyRows(local) ? std::optional(local) : std::nullopt;
}

// A row lies inside the row of the matrix.
bool ParameterChecks::verifyRows(const LocalRows &local) {
  const Parameter::Rows &rows = parameter_.rows;
  Place place = place_.field("rows");
  if (rows.extent == 0)
    return violations_.expect(rows.dims == 0 && rows.offset == 0, place,
                              "dims = {} and offset = {} without an extent; a parameter by itself has neither",
                              rows.dims, rows.offset);
  return violations_.expect(fitsInside(rows.offset, local.elements, rows.extent), place,
                            "a row of '{}', {} elements from {} on, does not lie inside the matrix's of extent = {}",
                            parameter_.name, local.elements, rows.offset, rows.extent);
}

// The parameters of a matrix agree in its shape.
void ParameterChecks::addTo(Contents &contents, const LocalRows &rows, int64_t begin, int64_t span,
                            const Place &place) {
  const auto [offset, extent] = std::pair(parameter_.rows.offset, parameter_.rows.extent);
  if (extent == 0) {
    contents.whole.push_back({begin, begin + span, parameter_.name});
    return;
  }
  Contents::Matrix &matrix = contents.joined.try_emplace(begin, rows.count, extent).first->second;
  violations_.expect(matrix.rows == rows.count && matrix.extent == extent, place,
                     "'{}' has {} rows of a matrix of extent {}, but '{}', which begins there too, {} of {}; "
                     "the parts of one matrix agree",
                     parameter_.name, rows.count, extent,
                     matrix.parts.empty() ? parameter_.name : matrix.parts.front().owner, matrix.rows, matrix.extent);
  matrix.parts.push_back({offset, offset + rows.elements, parameter_.name});
}

void ParameterChecks::verifyPlaces(const LocalRows &rows, Occupancy &occupancy) {
  const int64_t extent = parameter_.rows.extent;
  const Checked span = checkedMultiply(rows.count, extent == 0 ? rows.elements : extent);
  std::set<int64_t> stages;
  const Bucket *known = nullptr;
  Place places = place_.field("places");
  for (size_t i = 0; i < parameter_.places.size(); ++i) {
    const auto &[stage, bucket, offset, first, count, stride, uses] = parameter_.places[i];
    Place place = places.element(i);
    if (!violations_.expect(inRange(stage, checks_.plan.stages.size()), place, "stage {} is not one of {}", stage,
                            checks_.plan.stages.size()))
      continue;
    violations_.expect(stages.insert(stage).second, place, "'{}' has two places in stage {}", parameter_.name, stage);
    const std::vector<Bucket> &buckets = checks_.plan.stages[stage].buckets;
    if (!violations_.expect(inRange(bucket, buckets.size()), place, "bucket {} is not one of {} of stage {}", bucket,
                            buckets.size(), stage))
      continue;
    verifyBucket(buckets[bucket], place);
    violations_.expect(uses == 1 || !buckets[bucket].isFrozen(), place,
                       "uses = {} of '{}', which is frozen; expected 1", uses, parameter_.name);
    known = known ? known : &buckets[bucket];
    violations_.expect(buckets[bucket].meanLoad == known->meanLoad && buckets[bucket].use == known->use, place,
                       "the bucket of '{}' has meanLoad = {} and use = {}, an earlier one {} and {}; expected the same",
                       parameter_.name, buckets[bucket].meanLoad, nameOf(buckets[bucket].use), known->meanLoad,
                       nameOf(known->use));
    const int64_t begin = parameter_.places.front().elementOffset;
    violations_.expect(offset == begin, place,
                       "'{}' begins at element {}, in stage {} at {}; a tied bucket is laid out alike in all "
                       "its stages, whose gradients are added",
                       parameter_.name, offset, parameter_.places.front().stage, begin);
    if (violations_.expect(fitsInside(offset, span, buckets[bucket].elements), place,
                           "{} elements from {} on do not lie inside the {} of bucket {}",
                           span ? fmt::to_string(*span) : "more than 2^63", offset, buckets[bucket].elements, bucket))
      addTo(occupancy[{stage, bucket}], rows, offset, *span, place);
  }
}

// The bucket treats the parameter as it needs to be treated.
void ParameterChecks::verifyBucket(const Bucket &bucket, const Place &place) {
  Axes split;
  for (const ParameterDim &dim : parameter_.dims)
    split.insert(split.end(), dim.axes.begin(), dim.axes.end());
  const Mesh &mesh = checks_.plan.mesh;
  if (verifyAxes(mesh, bucket.splitAxes).isOk()) // else the bucket's own violation
    violations_.expect(effectiveAxes(mesh, split) == effectiveAxes(mesh, bucket.splitAxes), place,
                       "'{}' is split over [{}], its bucket '{}' over [{}]", parameter_.name, fmt::join(split, ", "),
                       bucket.name, fmt::join(bucket.splitAxes, ", "));
  violations_.expect(!bucket.isCounter() || parameter_.init == InitKind::zeros, place,
                     "'{}' counts; expected zeros as its first values, which no step changes", parameter_.name);
  std::set<int64_t> tied(bucket.tiedStages.begin(), bucket.tiedStages.end()), stages;
  for (const Parameter::Place &other : parameter_.places)
    stages.insert(other.stage);
  violations_.expect(stages.size() > 1 ? tied == stages : tied.empty(), place,
                     "'{}' is in stages [{}], but its bucket '{}' is tied over stages [{}]", parameter_.name,
                     fmt::join(stages, ", "), bucket.name, fmt::join(tied, ", "));
}

// --- Buckets -----------------------------------------------------------------------------------------------

// Every rank of shardAxes has an equal, aligned slice of each unit of a sharded bucket, and every one of outerAxes of that slice. False
// after a violation that leaves it open how large they are.
bool verifySlices(Checks &checks, const Bucket &bucket, const Place &place) {
  const bool mayHaveUnits = bucket.hasUnitGradients() || bucket.isFrozen(); // frozen ones lie as those that are trained
  const bool divides = bucket.units >= 1 && bucket.elements % bucket.units == 0;
  if (!checks.violations.expect(divides && (bucket.units == 1 || mayHaveUnits), place,
                                "units = {}; expected 1, or of a bucket with a unitGradient or frozen parameters a "
                                "number that divides elements = {}",
                                bucket.units, bucket.elements))
    return false;
  const Axes axes = bucket.axesOfUpdate();
  const bool areOfData = std::ranges::all_of(
      axes, [&](const std::string &axis) { return std::ranges::find(bucket.dataAxes, axis) != bucket.dataAxes.end(); });
  if (!checks.violations.expect(
          areOfData && verifyAxes(checks.plan.mesh, axes).isOk(), place,
          "shardAxes = [{}], outerAxes = [{}]; expected of both some of dataAxes = [{}], each once",
          fmt::join(bucket.shardAxes, ", "), fmt::join(bucket.outerAxes, ", "), fmt::join(bucket.dataAxes, ", ")))
    return false;
  checks.violations.expect(bucket.outerAxes.empty() || bucket.hasUnitGradients(), place,
                           "outerAxes = [{}]; expected none of a bucket without a unitGradient",
                           fmt::join(bucket.outerAxes, ", "));
  int64_t ranks = groupSize(checks.plan.mesh, axes);
  int64_t multiple = ranks * (bucket.isSharded() ? kAlignment / leastElementBytes(checks.plan) : 1);
  checks.violations.expect(!bucket.isSharded() || checks.plan.zero > 0, place, "is sharded, but the plan has zero = 0");
  checks.violations.expect(bucket.unitElements() % multiple == 0, place,
                           "elements = {} does not divide into aligned slices for {} ranks; a multiple of {} would",
                           bucket.elements, ranks, checkedMultiply(multiple, bucket.units).value_or(multiple));
  return true;
}

// Values and what stands in the place of gradients are f32 where a bucket has load, else as the plan says.
DType valueType(const Plan &plan, const Bucket &bucket) { return bucket.hasLoad() ? DType::f32 : plan.dtype; }
DType gradientType(const Plan &plan, const Bucket &bucket) { return bucket.hasLoad() ? DType::f32 : plan.gradientType; }

// The states that a bucket has by its use and types: values; unless it is frozen a gradient, its slice where it is sharded, and
// masters where values are bf16; states of the optimizer where gradients update it. With ZeRO-2 a gradient of one unit, and slices in
// f32, to which microbatches add. With ZeRO-3 slices of the values, and values of one unit, in one memory or in two, or of all; at
// other levels slices and values of all, or values alone.
void verifyRoles(Checks &checks, const Bucket &bucket, const Place &place) {
  const auto expect = [&](StateRole role, bool isExpected, DType type, bool isSliced, std::string_view why) {
    const int64_t found = std::ranges::count(bucket.states, role, &State::role);
    const bool mayBeTwo = isExpected && (role == StateRole::unitValue || role == StateRole::unitGradient);
    checks.violations.expect(found == isExpected || (found == 2 && mayBeTwo), place,
                             "has {} states of the role {}; expected {}{}{}", found, nameOf(role), isExpected ? 1 : 0,
                             mayBeTwo ? " or 2" : "", why);
    for (const State &state : bucket.states)
      checks.violations.expect(state.role != role || (state.type == type && state.sliced == isSliced), place,
                               "'{}' is {}{}; expected {}{}", state.name, nameOf(state.type),
                               state.sliced ? " in slices" : "", nameOf(type), isSliced ? " in slices" : "");
  };
  const bool isTrained = !bucket.isFrozen();
  const bool isPerUnit = checks.plan.zero >= 2 && bucket.isSharded() && bucket.use == BucketUse::trained;
  const bool areKept = bucket.has(StateRole::gatheredValue);
  const bool areValuesSliced =
      bucket.isSharded() && (checks.plan.zero >= 3 || areKept) && (bucket.use == BucketUse::trained || !isTrained);
  const DType gradients = gradientType(checks.plan, bucket);
  expect(StateRole::value, true, valueType(checks.plan, bucket), areValuesSliced, "");
  expect(StateRole::unitValue, areValuesSliced && !areKept, valueType(checks.plan, bucket), false, "");
  expect(StateRole::gatheredValue, areValuesSliced && areKept, valueType(checks.plan, bucket), false, "");
  expect(StateRole::gradient, isTrained && !isPerUnit, gradients, false, isTrained ? "" : ", as it is frozen");
  expect(StateRole::unitGradient, isPerUnit, gradients, false, "");
  expect(StateRole::unitSum, isPerUnit, gradients, true, "");
  expect(StateRole::gradientSlice, isTrained && bucket.isSharded(), isPerUnit ? DType::f32 : gradients, true, "");
  expect(StateRole::gradientOfUpdate, !bucket.outerAxes.empty(), DType::f32, true, "");
  expect(StateRole::master, isTrained && valueType(checks.plan, bucket) == DType::bf16, DType::f32, bucket.isSharded(),
         "");
  std::set<std::string> names;
  std::vector<std::string_view> kept, expected;
  for (const State &state : bucket.states) {
    checks.violations.expect(names.insert(state.name).second, place, "has two states '{}'", state.name);
    if (state.role != StateRole::optimizer)
      continue;
    kept.push_back(state.name);
    checks.violations.expect(state.type == DType::f32 && state.sliced == bucket.isSharded(), place,
                             "'{}' is {}{}; expected {}{}", state.name, nameOf(state.type),
                             state.sliced ? " in slices" : "", nameOf(DType::f32),
                             bucket.isSharded() ? " in slices" : "");
  }
  for (const OptimizerState &state : kOptimizerStates)
    if (state.of == checks.plan.optimizer && bucket.use == BucketUse::trained)
      expected.push_back(state.name);
  checks.violations.expect(kept == expected, place,
                           "use = {} and optimizer = {}, but the states of the role optimizer are [{}]; expected [{}]",
                           nameOf(bucket.use), nameOf(checks.plan.optimizer), fmt::join(kept, ", "),
                           fmt::join(expected, ", "));
}

// The axes in the order in which the mesh has them.
Axes primitiveInMeshOrder(const Mesh &mesh, const Axes &axes) {
  Axes ordered;
  for (const Axis &axis : mesh.axes)
    if (std::ranges::find(axes, axis.name) != axes.end())
      ordered.push_back(axis.name);
  return ordered;
}

void verifyUse(Checks &checks, const Bucket &bucket, const Place &place) {
  checks.violations.expect(std::isfinite(bucket.meanLoad) && bucket.meanLoad >= 0, place,
                           "meanLoad = {}; expected how many tokens an expert has on average, or 0 for parameters with "
                           "gradients",
                           bucket.meanLoad);
  const bool isOfLoad = bucket.use == BucketUse::routerBias || bucket.isCounter();
  checks.violations.expect(bucket.isFrozen() || isOfLoad == bucket.hasLoad(), place,
                           "use = {}, but meanLoad = {}; expected a mean load of router biases and counters alone",
                           nameOf(bucket.use), bucket.meanLoad);
  checks.violations.expect(
      !bucket.isFrozen() || (bucket.reduceAxes.empty() && bucket.isSharded() == !bucket.dataAxes.empty() &&
                             bucket.isSharded() == bucket.areValuesSliced()),
      place,
      "is frozen, but reduceAxes = [{}], dataAxes = [{}] and shardAxes = [{}]; expected none of the former, as no "
      "gradient "
      "is reduced, and dataAxes where its values are in slices, with shardAxes",
      fmt::join(bucket.reduceAxes, ", "), fmt::join(bucket.dataAxes, ", "), fmt::join(bucket.shardAxes, ", "));
  const Axes ofMesh = primitiveInMeshOrder(checks.plan.mesh, bucket.dataAxes);
  checks.violations.expect(bucket.dataAxes == ofMesh, place, "dataAxes = [{}]; expected the order of the mesh, [{}]",
                           fmt::join(bucket.dataAxes, ", "), fmt::join(ofMesh, ", "));
}

void verifyBuffers(Checks &checks, const StagePlan &stage, const Bucket &bucket, const Place &place,
                   std::vector<Interval> &persistent) {
  const bool hasSizes = verifySlices(checks, bucket, place);
  verifyUse(checks, bucket, place);
  verifyRoles(checks, bucket, place);
  if (!hasSizes)
    return;
  for (const State &state : bucket.states) {
    const int64_t all = elementsOf(checks.plan, bucket, state);
    if (!verifyHostPart(checks, stage, bucket, state, all, place, persistent))
      continue;
    const int64_t elements = all - state.hostElements;
    Checked bytes = checkedMultiply(elements, sizeInBytes(state.type));
    bool fits = fitsInside(state.offset, bytes, stage.bytes);
    checks.violations.expect(fits && state.offset % kAlignment == 0, place,
                             "'{}' at {} must be at a multiple of {}, and its {} elements lie inside the allocation of "
                             "{} bytes",
                             state.name, state.offset, kAlignment, elements, stage.bytes);
    const auto isInRegion = [&](const Region &region) {
      return region.kind == regionOf(state.role) && region.offset <= state.offset &&
             state.offset + *bytes <= region.offset + region.bytes;
    };
    checks.violations.expect(!fits || std::ranges::any_of(stage.regions, isInRegion), place,
                             "'{}', bytes [{}, {}), does not lie in a region '{}'", state.name, state.offset,
                             state.offset + bytes.value_or(0), regionOf(state.role));
    // Slices are reused from step to step, and those of units within one: free to share memory. VerifyBucketUse.h has the latter.
    const bool isKept = !isOfOneUnit(state.role) && state.role != StateRole::gradientOfUpdate &&
                        (state.role != StateRole::gradientSlice || bucket.hasUnitGradients());
    if (fits && isKept)
      persistent.push_back(
          {state.offset, state.offset + *bytes, fmt::format("{} of bucket '{}'", state.name, bucket.name)});
  }
}

// Frozen parameters lie as where they are trained, by ranks of all axes along which they may be the same.
int64_t mostRanksWithSlices(const Mesh &mesh, const Bucket &bucket) {
  if (!bucket.isFrozen())
    return verifyAxes(mesh, bucket.dataAxes).isOk() ? groupSize(mesh, bucket.dataAxes) : 1;
  int64_t ranks = 1;
  for (const Axis &axis : mesh.axes)
    if (seesOtherTokens(axis.role) && std::ranges::find(bucket.splitAxes, axis.name) == bucket.splitAxes.end())
      ranks *= axis.size;
  return ranks;
}

// Elements of no parameter are padding: less than an aligned unit before each, and behind the last of a unit of the bucket what makes a
// slice for each rank, or of a large one less than a 64th of it.
void verifyPadding(Checks &checks, const Bucket &bucket, const Place &place, std::vector<Interval> contents) {
  const int64_t alignment = kAlignment / leastElementBytes(checks.plan);
  const int64_t ranks = mostRanksWithSlices(checks.plan.mesh, bucket);
  std::ranges::sort(contents, {}, &Interval::begin);
  int64_t next = 0;
  const auto verify = [&](int64_t begin, int64_t most) {
    checks.violations.expect(begin - next < most, place,
                             "elements [{}, {}) are of no parameter; expected fewer than {} that are only padding",
                             next, begin, most);
  };
  const int64_t each = bucket.units > 0 ? std::max<int64_t>(bucket.elements / bucket.units, 1) : bucket.elements;
  const int64_t mostAtEnd = std::max(alignment * ranks, each / 64 + 1);
  for (const Interval &content : contents) {
    const int64_t ofUnit = content.begin / each * each; // where its unit begins
    if (next < ofUnit) {
      verify(ofUnit, mostAtEnd);
      next = ofUnit;
    }
    checks.violations.expect(content.end - ofUnit <= each, place,
                             "{} [{}, {}) lies in several of its units of {} elements", content.owner, content.begin,
                             content.end, each);
    verify(content.begin, alignment);
    next = content.end;
  }
  verify(bucket.elements, mostAtEnd);
}

// No two contents of a bucket overlap: single parameters and matrices are apart, and the parts of a matrix fill it.
void verifyContents(Checks &checks, const Bucket &bucket, const Place &place, Contents contents) {
  for (auto &[begin, matrix] : contents.joined) {
    std::string names;
    Checked filled = 0;
    for (const Interval &part : matrix.parts) {
      names += (names.empty() ? "" : " + ") + part.owner;
      filled = checkedAdd(filled, part.end - part.begin);
    }
    checks.violations.expect(filled == Checked(matrix.extent), place,
                             "{} of the {} elements of a row of the matrix of {} belong to parameters; expected all",
                             filled.value_or(-1), matrix.extent, names);
    contents.whole.push_back({begin, begin + matrix.rows * matrix.extent, names});
    verifyDisjoint(checks, place, std::move(matrix.parts));
  }
  if (bucket.elements > 0)
    verifyPadding(checks, bucket, place, contents.whole);
  verifyDisjoint(checks, place, std::move(contents.whole));
}

void verifyBucketsOf(Checks &checks, int64_t stage, const Place &stagePlace, Occupancy &occupancy) {
  const StagePlan &plan = checks.plan.stages[stage];
  Place buckets = stagePlace.field("buckets");
  std::vector<Interval> persistent;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket &bucket = plan.buckets[i];
    Place place = buckets.element(i);
    Contents contents = std::move(occupancy[{stage, i}]);
    checks.violations.expect(bucket.elements == 0 || !contents.whole.empty() || !contents.joined.empty(), place,
                             "has {} elements and no parameter", bucket.elements);
    verifyContents(checks, bucket, place, std::move(contents));
    if (verifyStageList(checks, place.field("tiedStages"), bucket.tiedStages))
      checks.violations.expect(
          bucket.tiedStages.empty() || std::ranges::find(bucket.tiedStages, stage) != bucket.tiedStages.end(), place,
          "tiedStages [{}] does not have the bucket's own stage {}", fmt::join(bucket.tiedStages, ", "), stage);
    bool sized = checks.violations.expect(bucket.elements >= 0, place, "elements = {} is negative", bucket.elements);
    if (verifyAxesApart(checks, place, {&bucket.splitAxes, &bucket.reduceAxes, &bucket.dataAxes}) && sized)
      verifyBuffers(checks, plan, bucket, place, persistent);
  }
  verifyDisjoint(checks, buckets, std::move(persistent));
}

// --- Instances ---------------------------------------------------------------------------------------------

// Limit of the instances of all parameters: each counts as often as it has tensors.
constexpr int64_t kMostInstances = int64_t(1) << 20;

// Places with several instances belong to a parameter whose names have the instance's number. Adds the instances to `all`.
bool verifyInstances(Checks &checks, const Parameter &parameter, const Place &place, int64_t &all) {
  constexpr int64_t kMost = kMostInstances;
  const auto isNumbered = [](const std::string &name) { return name.find("{}") != std::string::npos; };
  Place places = place.field("places");
  bool sound = checks.violations.expect(!parameter.places.empty(), place, "'{}' has no place", parameter.name);
  for (size_t i = 0; i < parameter.places.size(); ++i) {
    const Parameter::Place &at = parameter.places[i];
    const Checked last = checkedAdd(at.elementOffset, checkedMultiply(at.stride, at.count - 1));
    sound &= checks.violations.expect(
        at.first >= 0 && at.first <= kMost && at.count >= 1 && at.count <= kMost && last &&
            (isNumbered(parameter.name) && isNumbered(parameter.tensor) ? true : at.count == 1),
        places.element(i),
        "instances from {} on, {} of them, {} elements apart: expected at least one, at most {}, and one where the "
        "names have no {{}}",
        at.first, at.count, at.stride, kMost);
    sound &= checks.violations.expect(at.uses >= 1 && at.uses <= kMost, places.element(i),
                                      "uses = {} is not in [1, {}]", at.uses, kMost);
    const Checked tensors = checkedMultiply(at.count, std::max<int64_t>(parameter.stacked, 1));
    all = sound && tensors && *tensors <= kMost ? all + *tensors : kMost + 1;
  }
  return sound;
}

} // namespace

void verifyParameters(Checks &checks) {
  Place root, parameters = root.field("parameters"), stages = root.field("stages");
  bool sound = true;
  int64_t instances = 0;
  for (size_t i = 0; i < checks.plan.parameters.size() && instances <= kMostInstances; ++i) {
    Place place = parameters.element(i);
    sound &= verifyInstances(checks, checks.plan.parameters[i], place, instances);
  }
  sound &= checks.violations.expect(instances <= kMostInstances, parameters,
                                    "have more than {} instances and tensors of stacks", kMostInstances);
  if (!sound)
    return;
  std::vector<Parameter> all;
  Occupancy occupancy;
  std::set<std::string> names;
  for (size_t i = 0; i < checks.plan.parameters.size(); ++i)
    for (Parameter &parameter : instancesOf(checks.plan.parameters[i])) {
      Place place = parameters.element(i);
      checks.violations.expect(!parameter.name.empty() && names.insert(parameter.name).second, place,
                               "name '{}' is empty or comes twice", parameter.name);
      ParameterChecks(checks, parameter, place).verify(occupancy);
      all.push_back(std::move(parameter));
    }
  if (checks.violations.count() == 0) // else the boxes may be none
    verifyTensors(checks, all, parameters);
  for (size_t i = 0; i < checks.plan.stages.size(); ++i)
    verifyBucketsOf(checks, static_cast<int64_t>(i), stages.element(i), occupancy);
}

} // namespace mgc::plan
