// The choice that was made for a plan with a budget of memory (docs/memory.md, A budget). For people: `mgc explain` and
// pages show it, and nothing else reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgc::plan {

struct PlanBudget {
  // A policy among which instances of a block chose. Seconds are those that were predicted when the plan was compiled.
  struct Policy {
    std::string block;
    // As Program::policy.
    std::string policy;
    // Bytes of a microbatch: from a forward to its backward, and from a backward's first half to its second.
    int64_t kept = 0, split = 0;
    // Bytes while a function of the instance runs: of the largest.
    int64_t frame = 0;
    // All tasks of a microbatch together.
    double seconds = 0;
    bool operator==(const Policy &) const = default;
  };
  // The least seconds of all microbatches' tasks in so many bytes of a rank: sums of which that of the plan alone was placed.
  struct Point {
    int64_t bytes = 0;
    double seconds = 0;
    bool operator==(const Point &) const = default;
  };
  // Bytes of a rank; 0: there was no budget.
  int64_t bytes = 0;
  // Seconds of the plan, as of a point.
  double seconds = 0;
  // No choice takes less; 0: that is not known, as not all were compared.
  double leastSeconds = 0;
  // By block, what saves most first.
  std::vector<Policy> policies;
  // By rising bytes and falling seconds.
  std::vector<Point> curve;
  bool operator==(const PlanBudget &) const = default;

  // Bytes that a policy saves, and seconds that it adds, against the first of its block.
  struct Difference {
    int64_t bytes = 0;
    double seconds = 0;
  };
  Difference differenceOf(const Policy &policy) const {
    for (const Policy &first : policies)
      if (first.block == policy.block)
        return {first.kept + first.split - policy.kept - policy.split, policy.seconds - first.seconds};
    return {};
  }
};

} // namespace mgc::plan
