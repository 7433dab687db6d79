// Runs the row ops of a function as one kernel. In: the function's text and a buffer per argument. Out: a
// buffer per result.
#pragma once

#include "plan/Types.h"
#include "test/codegen/rows/Harness.h"

#include <map>

namespace mgc::test {

using rowgen::test::Buffer;
using rowgen::test::expectClose;
using rowgen::test::randomFloats;
using rowgen::test::randomInts;

struct KernelContext {
  std::map<std::string, int64_t> coordinates; // by the axis of a one-axis list
  int64_t seed = 0, instance = 0;
  bool accumulate = false; // results are added to `start`
  float start = 0;
};

std::vector<Buffer> runRowOps(const std::string &function, std::vector<Buffer> arguments,
                              const KernelContext &context = {});

// "tensor<3x5xf32, #mg.layout<s, h>>" for f32("s:3 h:5").
std::string f32(const std::string &dims);
std::string i32(const std::string &dims);
std::string bf16(const std::string &dims);
// A function of one op: types of operands and results in order, optional operands with their keyword before the type
// ("gamma tensor<..>"); attributes as text, with braces.
std::string oneOp(const std::string &name, std::vector<std::string> operands, const std::vector<std::string> &results,
                  const std::string &attributes = "");

// Central difference of f at x.
template <typename F> double slope(F f, double x, double step = 1e-5) {
  return (f(x + step) - f(x - step)) / (2 * step);
}

} // namespace mgc::test
