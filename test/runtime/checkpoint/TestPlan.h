// Small plans with parameters of every kind, over any mesh; and memory for their ranks.
#pragma once

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace mgc::test {

struct MeshSizes {
  int64_t pp = 1, dp = 1, tpg = 1, tpr = 1;
};

// Two layers of a GPT-2 with 8 query heads in groups of 2 on 4 kv heads, tied embedding on the first and the
// last stage, vocabulary 37 padded to 40. All sizes divide by tpg, tpr in {1, 2} and tp in {1, 2, 4}. Joined: the
// weights of q, k and v are parts of one matrix [h, g, r + 2, d], and so are their biases.
plan::Plan makePlan(const MeshSizes &sizes, bool zero = false, bool joined = false,
                    plan::DType dtype = plan::DType::f32, plan::DType gradientType = plan::DType::f32);

// Buckets with nothing but values.
void freezeAll(plan::Plan &plan);

// A plan of random parameters on a random mesh: any number of dimensions, grouped at will, cut with offsets
// from larger tensors, some with dimensions that the tensors have not, padded, split over any axes, some in rows of larger
// matrices, some stacks.
plan::Plan makeRandomPlan(uint32_t seed);

// One allocation per rank, full of a byte that is no zero.
class Memory {
public:
  explicit Memory(const plan::Plan &plan);
  std::span<std::byte *const> arenas() const { return pointers_; }
  // The values of a parameter on a rank, in a plan of f32.
  float *value(const plan::Plan &plan, int64_t rank, const plan::Parameter &parameter, size_t place = 0) const;
  std::span<float> floats(const plan::Plan &plan, int64_t rank, int64_t byteOffset, int64_t count) const;
  // Whether an element of what lies at the offset is this value, or its rounding to bf16, to the bit.
  bool holds(int64_t rank, plan::DType type, int64_t byteOffset, int64_t element, float value) const;
  void set(int64_t rank, plan::DType type, int64_t byteOffset, int64_t element, float value) const;

private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::byte *> pointers_;
};

// The file index of each local element of a parameter on a rank, -1 for padding: computed from the
// definition, element by element.
std::vector<int64_t> naiveFileIndices(const plan::Mesh &mesh, const plan::Parameter &parameter, int64_t rank);

// Where the local element (row-major in the parameter's block) lies, counted from Place::elementOffset.
int64_t positionInBucket(const plan::Mesh &mesh, const plan::Parameter &parameter, int64_t local);

// Contents of a rank's bucket where every element is `expected` of its file index: 0 where the file has none, which is
// padding of dimensions, the rest of a matrix, and the bucket between and after parameters.
using ExpectedValue = std::function<float(const plan::Parameter &, int64_t index)>;
std::vector<float> bucketContents(const plan::Plan &plan, int64_t rank, int64_t bucket, const ExpectedValue &expected);

int64_t product(std::span<const int64_t> sizes);

} // namespace mgc::test
