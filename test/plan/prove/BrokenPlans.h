// Shared code of verifyPlan's tests: each rule is broken once in a sound plan, and the message must say so and where.
#pragma once

#include "plan/prove/VerifyPlan.h"
#include "test/plan/SmallPlan.h"

#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

namespace mgc::plan {

inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// An instruction of the first program.
inline Instruction &instruction(Plan &plan, SmallInstruction index) { return plan.programs[0].instructions[index]; }
template <typename T> T &body(Plan &plan, SmallInstruction index) { return std::get<T>(instruction(plan, index).body); }

// A part of a plan, by one number or two: parameters[i]; the instruction i of the first program, or its body; stages[i];
// or a part j of stages[i]. With its name in messages.
template <typename Part> std::pair<Part *, std::string> partOf(Plan &plan, int64_t i, int64_t j) {
  const auto ofStage = [&](const char *name, auto member) {
    return std::pair(&(plan.stages[i].*member)[j], fmt::format("stages[{}].{}[{}]", i, name, j));
  };
  if constexpr (std::is_same_v<Part, Parameter>)
    return {&plan.parameters[i], fmt::format("parameters[{}]", i)};
  else if constexpr (std::is_same_v<Part, StagePlan>)
    return {&plan.stages[i], fmt::format("stages[{}]", i)};
  else if constexpr (std::is_same_v<Part, Bucket>)
    return ofStage("buckets", &StagePlan::buckets);
  else if constexpr (std::is_same_v<Part, Input>)
    return ofStage("inputs", &StagePlan::inputs);
  else if constexpr (std::is_same_v<Part, Ring>)
    return ofStage("rings", &StagePlan::rings);
  else if constexpr (std::is_same_v<Part, Chunk>)
    return ofStage("chunks", &StagePlan::chunks);
  else if constexpr (std::is_same_v<Part, ScheduleStep>)
    return ofStage("schedule", &StagePlan::schedule);
  else if constexpr (std::is_same_v<Part, Instruction>)
    return {&plan.programs[0].instructions[i], fmt::format("programs[0].instructions[{}]", i)};
  else
    return {&body<Part>(plan, SmallInstruction(i)), fmt::format("programs[0].instructions[{}]", i)};
}

struct Broken {
  const char *name;
  std::function<std::string(Plan &)>
      breakIt;         // returns the part that it broke, as messages name it; "" is the plan itself
  std::string message; // a line of the error begins with the part's name and this

  Broken(const char *name, std::function<void(Plan &)> change, std::string message)
      : name(name), breakIt([=](Plan &plan) { return change(plan), std::string(); }), message(std::move(message)) {}

  // `change` has the part as its argument.
  template <typename Change>
  Broken(const char *name, int64_t i, Change change, std::string message)
      : Broken(name, i, 0, change, std::move(message)) {}
  template <typename Change>
  Broken(const char *name, int64_t i, int64_t j, Change change, std::string message)
      : name(name), breakIt(breaks(i, j, std::function(change))), message(std::move(message)) {}

private:
  template <typename Part>
  static std::function<std::string(Plan &)> breaks(int64_t i, int64_t j, std::function<void(Part &)> change) {
    return [=](Plan &plan) {
      const auto [part, name] = partOf<Part>(plan, i, j);
      change(*part);
      return name;
    };
  }
};

inline void PrintTo(const Broken &broken, std::ostream *out) { *out << broken.name; }
inline std::string ruleName(const testing::TestParamInfo<Broken> &info) { return info.param.name; }

// In the small plan; a test file for each part of verifyPlan has its rules.
class Verify : public testing::TestWithParam<Broken> {};

inline void refuses(Plan plan, const Broken &broken) {
  const std::string line = "\n" + broken.breakIt(plan) + broken.message;
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(("\n" + status.message()).find(line), std::string::npos) << status.message();
}

} // namespace mgc::plan
