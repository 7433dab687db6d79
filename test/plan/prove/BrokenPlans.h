// Shared code of verifyPlan's tests: each rule is broken once in a sound plan, and the message must say so and where.
#pragma once

#include "plan/prove/VerifyPlan.h"
#include "test/plan/SmallPlan.h"

#include <functional>
#include <gtest/gtest.h>
#include <limits>

namespace mgc::plan {

inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Broken {
  const char *name;
  std::function<void(Plan &)> breakIt;
  const char *message; // a line of the error begins with it
};

inline void PrintTo(const Broken &broken, std::ostream *out) { *out << broken.name; }
inline std::string ruleName(const testing::TestParamInfo<Broken> &info) { return info.param.name; }

// In the small plan; a test file for each part of verifyPlan has its rules.
class Verify : public testing::TestWithParam<Broken> {};

inline void refuses(Plan plan, const Broken &broken) {
  broken.breakIt(plan);
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(("\n" + status.message()).find(std::string("\n") + broken.message), std::string::npos) << status.message();
}

// An instruction of the first program.
inline Instruction &instruction(Plan &plan, SmallInstruction index) { return plan.programs[0].instructions[index]; }
template <typename T> T &body(Plan &plan, SmallInstruction index) { return std::get<T>(instruction(plan, index).body); }

} // namespace mgc::plan
