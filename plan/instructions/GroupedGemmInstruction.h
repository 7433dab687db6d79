// The instruction "groupedGemm": matrix products of groups of rows with a matrix for each group, as of the tokens that
// go to each expert. How many rows a group has is data: the plan has the bound of all groups together.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Rows of group 0, of group 1, .. follow each other from row 0 on; counts[g] is how many group g has, from none to all `rows`.
//   rows    C[i, n] = A[i, k] B[g][k, n] for each row i of group g; behind the last group rows are not read, and C may be anything
//   sums    C[g][m, n] = (accumulate ? C[g] : 0) + sum over rows i of group g of A[i, m] B[i, n]; a group without rows adds nothing
// Operands A, B, counts[groups] (i32), C. Sums are made in f32 and rounded once, to C's type.
// A count below 0, or counts whose sum is above `rows`, end the step with an error that names the group.
struct GroupedGemm {
  static constexpr std::string_view kName = "groupedGemm";
  static constexpr WorkKind kWork = WorkKind::product;
  enum class Form { rows, sums } form = Form::rows;
  int64_t groups = 0, rows = 0;
  int64_t m = 0, n = 0, k = 0;                           // sums use m and n, rows use n and k; the third is 0
  bool transposeB = false;                               // rows only: B[g] is stored [n, k]
  bool accumulate = false;                               // sums only
  DType inputType = DType::f32, outputType = DType::f32; // A and B, and C: f32 gives f32, bf16 either
  bool operator==(const GroupedGemm &) const = default;

  OperandInfos operands(const Mesh &) const;
  Work work(const Mesh &) const; // counts all `rows`
  std::string sizes() const;     // "8 groups of 4096 rows: 768x3072 T"
  void verify(AttributeChecks &checks) const;
};
template <> inline constexpr auto enumNames<GroupedGemm::Form> = std::to_array<std::string_view>({"rows", "sums"});

template <typename V> constexpr void fields(V &v, Of<GroupedGemm>) {
  required<&GroupedGemm::form, &GroupedGemm::groups, &GroupedGemm::rows>(v);
  optional<&GroupedGemm::m>(v);
  required<&GroupedGemm::n>(v);
  optional<&GroupedGemm::k, &GroupedGemm::transposeB, &GroupedGemm::accumulate, &GroupedGemm::inputType,
           &GroupedGemm::outputType>(v);
}

} // namespace mgc::plan
