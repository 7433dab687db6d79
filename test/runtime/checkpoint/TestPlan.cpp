#include "test/runtime/checkpoint/TestPlan.h"

#include "runtime/base/Bf16.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <random>

namespace mgc::test {

using plan::Axes;
using plan::Bucket;
using plan::InitKind;
using plan::Parameter;
using plan::ParameterDim;
using plan::Plan;

int64_t product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

// Local elements of the dimensions from `begin` on.
static int64_t localElements(const plan::Mesh &mesh, const Parameter &parameter, int64_t begin = 0) {
  int64_t elements = 1;
  for (const ParameterDim &dim : std::span(parameter.dims).subspan(size_t(begin)))
    elements *= dim.size / plan::groupSize(mesh, dim.axes);
  return elements;
}

int64_t positionInBucket(const plan::Mesh &mesh, const Parameter &parameter, int64_t local) {
  const auto [dims, offset, extent] = parameter.rows;
  const int64_t row = localElements(mesh, parameter, dims);
  return extent == 0 ? local : local / row * extent + offset + local % row;
}

static void setMesh(Plan &plan, const MeshSizes &sizes) {
  plan.mesh.axes = {{"pp", sizes.pp, plan::AxisRole::stage},
                    {"dp", sizes.dp, plan::AxisRole::data},
                    {"tpg", sizes.tpg},
                    {"tpr", sizes.tpr}};
  plan.mesh.named["tp"] = {"tpg", "tpr"};
  plan.stages.resize(size_t(sizes.pp));
}

// Puts a parameter, or the matrix that it is a part of, at the end of the stage's bucket.
static void place(Plan &plan, Parameter &parameter, int64_t stage, int64_t bucket) {
  std::vector<Bucket> &buckets = plan.stages[stage].buckets;
  if (int64_t(buckets.size()) <= bucket)
    buckets.resize(size_t(bucket) + 1);
  parameter.places.push_back({stage, bucket, buckets[bucket].elements});
  const int64_t elements = localElements(plan.mesh, parameter), extent = parameter.rows.extent;
  const int64_t row = localElements(plan.mesh, parameter, parameter.rows.dims);
  buckets[bucket].elements += extent == 0 ? elements : elements / row * extent;
}

// Pads the buckets and lays out their buffers one after another.
static void layOut(Plan &plan, bool zero) {
  for (plan::StagePlan &stage : plan.stages) {
    stage.bytes = plan::kAlignment;
    for (Bucket &bucket : stage.buckets) {
      bucket.name = "bucket";
      bucket.dataAxes = {"dp"};
      bucket.shardAxes = zero ? bucket.dataAxes : plan::Axes();
      int64_t ranks = plan::groupSize(plan.mesh, bucket.dataAxes),
              unit = plan::kAlignment / leastElementBytes(plan) * ranks;
      bucket.elements = (bucket.elements + 5 + unit - 1) / unit * unit;
      using plan::StateRole, plan::DType;
      const auto add = [&](const char *name, StateRole role, DType type, bool isSliced) {
        bucket.states.push_back({name, role, type, isSliced, stage.bytes});
        const int64_t bytes = bucket.elements / (isSliced ? ranks : 1) * sizeInBytes(type);
        stage.bytes += (bytes + plan::kAlignment - 1) / plan::kAlignment * plan::kAlignment;
      };
      add("value", StateRole::value, plan.dtype, false);
      add("gradient", StateRole::gradient, plan.gradientType, false);
      add("exp_avg", StateRole::optimizer, DType::f32, zero);
      add("exp_avg_sq", StateRole::optimizer, DType::f32, zero);
      if (zero)
        add("gradient_slice", StateRole::gradientSlice, plan.gradientType, true);
      if (plan.dtype == DType::bf16)
        add("master", StateRole::master, DType::f32, zero);
    }
  }
}

static Parameter makeParameter(const std::string &name, const std::string &tensor,
                               const std::vector<int64_t> &fileShape, const std::vector<int64_t> &grouping,
                               const std::vector<int64_t> &offset, const std::vector<ParameterDim> &dims,
                               InitKind init = InitKind::normal) {
  return {.name = name,
          .tensor = tensor,
          .fileShape = fileShape,
          .grouping = grouping,
          .offset = offset,
          .dims = dims,
          .init = init};
}

static std::vector<Parameter> layerParameters(int64_t layer) {
  const int64_t h = 16, q = 24, kv = 12, f = 20; // q = 4 g * 2 r * 3 d, kv = 4 g * 3 d
  ParameterDim H{"h", h, h, {}}, G{"g", 4, 4, {"tpg"}}, R{"r", 2, 2, {"tpr"}}, D{"d", 3, 3, {}}, F{"f", f, f, {"tp"}};
  std::string attention = fmt::format("h.{}.attn.c_attn.weight", layer);
  std::string bias = fmt::format("h.{}.attn.c_attn.bias", layer);
  std::vector<int64_t> shape = {h, q + 2 * kv}, biasShape = {q + 2 * kv};
  return {
      makeParameter(attention + "[q]", attention, shape, {1, 3}, {0, 0}, {H, G, R, D}),
      makeParameter(attention + "[k]", attention, shape, {1, 2}, {0, q}, {H, G, D}),
      makeParameter(attention + "[v]", attention, shape, {1, 2}, {0, q + kv}, {H, G, D}),
      makeParameter(bias + "[q]", bias, biasShape, {3}, {0}, {G, R, D}, InitKind::zeros),
      makeParameter(bias + "[k]", bias, biasShape, {2}, {q}, {G, D}, InitKind::zeros),
      makeParameter(bias + "[v]", bias, biasShape, {2}, {q + kv}, {G, D}, InitKind::zeros),
      makeParameter(fmt::format("h.{}.ln.weight", layer), fmt::format("h.{}.ln.weight", layer), {h}, {1}, {0}, {H},
                    InitKind::ones),
      makeParameter(fmt::format("h.{}.fc", layer), fmt::format("h.{}.mlp.c_fc.weight", layer), {h, f}, {1, 1}, {0, 0},
                    {H, F}),
      makeParameter(fmt::format("h.{}.proj", layer), fmt::format("h.{}.mlp.c_proj.weight", layer), {f, h}, {1, 1},
                    {0, 0}, {F, H}),
  };
}

// Joins q, k and v, in this order: parts of [.., g, r + 2, d] in local sizes, where `dims` are before r.
static void join(const plan::Mesh &mesh, std::span<Parameter> parts, int64_t dims) {
  int64_t extent = 0;
  for (Parameter &part : parts) {
    part.rows = {dims, extent, 0};
    extent += localElements(mesh, part, dims);
  }
  for (Parameter &part : parts)
    part.rows.extent = extent;
}

void freezeAll(Plan &plan) {
  for (plan::StagePlan &stage : plan.stages)
    for (plan::Bucket &bucket : stage.buckets) {
      bucket.use = plan::BucketUse::frozen;
      bucket.reduceAxes = bucket.dataAxes = bucket.shardAxes = {};
      std::erase_if(bucket.states, [](const plan::State &state) { return state.role != plan::StateRole::value; });
    }
}

Plan makePlan(const MeshSizes &sizes, bool zero, bool joined, plan::DType dtype, plan::DType gradientType) {
  Plan plan;
  plan.dtype = dtype, plan.gradientType = gradientType;
  setMesh(plan, sizes);
  plan.modelConfig = "{\"model_type\": \"gpt2\"}\n";
  plan.sequenceLength = 8, plan.globalBatchSize = 4, plan.vocabulary = 37;
  Parameter embedding =
      makeParameter("wte", "wte.weight", {37, 16}, {1, 1}, {0, 0}, {{"v", 40, 37, {"tp"}}, {"h", 16, 16, {}}});
  place(plan, embedding, 0, 0);
  if (sizes.pp > 1)
    place(plan, embedding, sizes.pp - 1, 0);
  plan.parameters.push_back(embedding);
  for (int64_t layer = 0; layer < 2; ++layer) {
    std::vector<Parameter> parameters = layerParameters(layer);
    if (joined) {
      join(plan.mesh, std::span(parameters).subspan(0, 3), 2);
      join(plan.mesh, std::span(parameters).subspan(3, 3), 1);
    }
    for (Parameter &parameter : parameters) {
      if (parameter.rows.offset > 0)
        parameter.places = plan.parameters.back().places;
      else
        place(plan, parameter, sizes.pp > 1 ? layer * (sizes.pp - 1) : 0, parameter.dims.size() < 2 ? 1 : 0);
      plan.parameters.push_back(std::move(parameter));
    }
  }
  layOut(plan, zero);
  return plan;
}

// In: a parameter with dimensions in the first of the file: all of them become whole.
static void makeStack(Parameter &parameter) {
  parameter.tensor += ".{#}.w";
  parameter.stacked = 1;
  for (int64_t i = 0; i < parameter.grouping[0]; ++i) {
    parameter.dims[i].valid = parameter.dims[i].size;
    parameter.stacked *= parameter.dims[i].size;
  }
  parameter.fileShape[0] = parameter.stacked;
  parameter.offset[0] = 0;
}

// Multiplies some of the file dimensions that are neighbours, but not the first one of a stack: what the tensor's shape is.
static void mergeSome(Parameter &parameter, const std::function<int64_t(int64_t)> &below) {
  std::vector<int64_t> shape;
  for (size_t j = 0; j < parameter.fileShape.size(); ++j)
    if (j > (parameter.stacked > 0 ? 1 : 0) && below(3) == 0)
      shape.back() *= parameter.fileShape[j];
    else
      shape.push_back(parameter.fileShape[j]);
  if (shape.size() < parameter.fileShape.size())
    parameter.tensorShape = shape;
}

Plan makeRandomPlan(uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
  Plan plan;
  setMesh(plan, {1 + below(2), 1 + below(3), 1 + below(2), 1 + below(2)});
  const std::vector<Axes> choices = {{}, {}, {"tp"}, {"tpg"}, {"tpr"}, {"tpr", "tpg"}, {"dp"}, {"dp", "tpr"}};
  for (int64_t i = 0, count = 1 + below(6); i < count; ++i) {
    Parameter parameter;
    parameter.name = parameter.tensor = fmt::format("p{}", i);
    for (int64_t j = 0, rank = below(4); j < rank; ++j) {
      int64_t extent = 1;
      parameter.grouping.push_back(below(4));
      for (int64_t d = 0; d < parameter.grouping.back(); ++d) {
        ParameterDim dim;
        dim.name = fmt::format("d{}", d);
        dim.axes = choices[below(int64_t(choices.size()))];
        dim.size = plan::groupSize(plan.mesh, dim.axes) * (1 + below(3));
        dim.valid = below(3) == 0 ? below(dim.size + 1) : dim.size;
        extent *= dim.valid;
        parameter.dims.push_back(dim);
      }
      parameter.offset.push_back(below(3));
      parameter.fileShape.push_back(parameter.offset.back() + extent + below(3));
    }
    const bool canStack = parameter.fileShape.size() > 1 && parameter.grouping[0] > 0;
    if (canStack && below(2) == 0)
      makeStack(parameter);
    mergeSome(parameter, below);
    if (below(2) == 0) {
      parameter.rows.dims = below(int64_t(parameter.dims.size()) + 1);
      parameter.rows.offset = below(3);
      parameter.rows.extent =
          parameter.rows.offset + localElements(plan.mesh, parameter, parameter.rows.dims) + below(3);
    }
    parameter.init = below(4) == 0 ? InitKind::ones : InitKind::normal;
    place(plan, parameter, below(int64_t(plan.stages.size())), below(2));
    plan.parameters.push_back(parameter);
  }
  layOut(plan, below(2) == 0);
  return plan;
}

Memory::Memory(const Plan &plan) {
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank) {
    size_t bytes = size_t(plan.stages[plan::stageOf(plan.mesh, rank)].bytes);
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    std::memset(memory_.back().get(), 0x7f, bytes);
    pointers_.push_back(memory_.back().get());
  }
}

std::span<float> Memory::floats(const Plan &, int64_t rank, int64_t byteOffset, int64_t count) const {
  return {reinterpret_cast<float *>(pointers_[rank] + byteOffset), size_t(count)};
}

// The bits of a number of a type, in the lower bytes.
static uint32_t bitsAs(plan::DType type, float value) {
  return type == plan::DType::bf16 ? uint32_t(toBf16(value)) : std::bit_cast<uint32_t>(value);
}

bool Memory::holds(int64_t rank, plan::DType type, int64_t byteOffset, int64_t element, float value) const {
  const uint32_t bits = bitsAs(type, value);
  const int64_t width = sizeInBytes(type);
  return std::memcmp(pointers_[rank] + byteOffset + element * width, &bits, size_t(width)) == 0;
}

void Memory::set(int64_t rank, plan::DType type, int64_t byteOffset, int64_t element, float value) const {
  const uint32_t bits = bitsAs(type, value);
  const int64_t width = sizeInBytes(type);
  std::memcpy(pointers_[rank] + byteOffset + element * width, &bits, size_t(width));
}

float *Memory::value(const Plan &plan, int64_t rank, const Parameter &parameter, size_t place) const {
  const Parameter::Place &at = parameter.places[place];
  int64_t offset = plan.stages[at.stage].buckets[at.bucket].offsetOf(plan::StateRole::value) +
                   4 * (at.elementOffset + parameter.rows.offset);
  return reinterpret_cast<float *>(pointers_[rank] + offset);
}

// Position of a local element along each dimension of the whole parameter.
static std::vector<int64_t> globalPosition(const plan::Mesh &mesh, const Parameter &parameter, int64_t rank,
                                           int64_t local) {
  std::vector<int64_t> position(parameter.dims.size());
  for (size_t i = parameter.dims.size(); i-- > 0;) {
    const ParameterDim &dim = parameter.dims[i];
    int64_t block = dim.size / plan::groupSize(mesh, dim.axes);
    position[i] = plan::coordinate(mesh, rank, dim.axes) * block + local % block;
    local /= block;
  }
  return position;
}

std::vector<int64_t> naiveFileIndices(const plan::Mesh &mesh, const Parameter &parameter, int64_t rank) {
  std::vector<int64_t> indices;
  for (int64_t local = 0; local < localElements(mesh, parameter); ++local) {
    std::vector<int64_t> position = globalPosition(mesh, parameter, rank, local);
    int64_t index = 0;
    bool padding = false;
    size_t dim = 0;
    for (size_t j = 0; j < parameter.fileShape.size(); ++j) {
      int64_t inGroup = 0;
      for (int64_t d = 0; d < parameter.grouping[j]; ++d, ++dim) {
        padding |= position[dim] >= parameter.dims[dim].valid;
        inGroup = inGroup * parameter.dims[dim].valid + position[dim];
      }
      index = index * parameter.fileShape[j] + parameter.offset[j] + inGroup;
    }
    indices.push_back(padding ? -1 : index);
  }
  return indices;
}

std::vector<float> bucketContents(const Plan &plan, int64_t rank, int64_t bucket, const ExpectedValue &expected) {
  const int64_t stage = plan::stageOf(plan.mesh, rank);
  std::vector<float> values(size_t(plan.stages[stage].buckets[bucket].elements), 0.0f);
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places)
      if (place.stage == stage && place.bucket == bucket) {
        const std::vector<int64_t> indices = naiveFileIndices(plan.mesh, parameter, rank);
        for (size_t i = 0; i < indices.size(); ++i)
          values[place.elementOffset + positionInBucket(plan.mesh, parameter, int64_t(i))] =
              indices[i] < 0 ? 0 : expected(parameter, indices[i]);
      }
  return values;
}

} // namespace mgc::test
