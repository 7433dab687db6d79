// See VerifyMemory.h.
#include "runtime/exec/VerifyMemory.h"
#include "runtime/base/Rounding.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <sys/resource.h>

namespace mgc {

namespace {

constexpr int64_t kOfProcess = 256 << 20; // address space: libraries' generated code, batches, files
constexpr int64_t kOfThread = 2 << 20;    // in addition to its stack: scratch memory of matrix products
constexpr int64_t kCommonStack = 8 << 20; // where stacks are not limited

int64_t stackBytes() {
  const int64_t limit = softLimit(RLIMIT_STACK);
  return limit < INT64_MAX ? limit : kCommonStack;
}

struct Need {
  int64_t ranks = 0, bytes = 0, greatest = 0; // one rank's
  int64_t others = 0;                         // other needs of the process
};

Need needOf(const plan::Plan &plan, std::span<const LocalRank> ranks, int64_t threads, const MemoryLimit &limit) {
  Need need;
  for (const LocalRank &rank : ranks) {
    const bool counts = limit.of == MemoryLimit::Of::machine || (limit.of == MemoryLimit::Of::process && rank.isOwn) ||
                        (limit.of == MemoryLimit::Of::group && isInGroup(rank.memoryGroup, limit.group));
    if (!counts)
      continue;
    const int64_t bytes = machineBytes(plan, plan.stages[plan::stageOf(plan.mesh, rank.rank)]) + rank.extra;
    ++need.ranks;
    need.bytes += bytes;
    need.greatest = std::max(need.greatest, bytes);
  }
  if (limit.of == MemoryLimit::Of::process)
    need.others = kOfProcess + threads * (kOfThread + stackBytes());
  return need;
}

// The changes that make this plan smaller, for its user.
std::string smallerPlan(const plan::Plan &plan) {
  std::string ways = plan.microBatchSize > 1 ? "a smaller --mbs or --seq" : "a shorter --seq";
  if (plan.dtype == plan::DType::f32)
    ways += ", --bf16";
  const bool hasInstances = plan.mesh.named.contains(std::string(plan::kInstanceAxis));
  const bool canShare = std::ranges::any_of(plan.stages, [&](const plan::StagePlan &stage) {
    return std::ranges::any_of(stage.buckets, [&](const plan::Bucket &bucket) {
      return plan::groupSize(plan.mesh, hasInstances ? bucket.shardAxes : bucket.dataAxes) > 1;
    });
  });
  if (plan.target != plan::Target::cpu) // on the host are optimizer states
    return plan.zero == 0 && canShare ? "less offloading, --zero 1"
                                      : "a smaller --optimizer-offload-fraction or --activation-offload-fraction";
  const bool gathersOnce = std::ranges::any_of(plan.stages, [](const plan::StagePlan &stage) {
    return std::ranges::any_of(stage.buckets,
                               [](const plan::Bucket &bucket) { return bucket.has(plan::StateRole::gatheredValue); });
  });
  if (gathersOnce)
    ways += plan.zero < 3 ? ", --no-overlap-param-gather" : ", --reshard-after-forward";
  if (canShare && plan.zero < 3)
    ways += fmt::format(", --zero {}", plan.zero + 1);
  if (hasInstances)
    ways += ", fewer --num-distributed-optimizer-instances";
  return ways;
}

std::string whatWouldFit(const plan::Plan &plan, const MemoryLimit &limit, const Need &need) {
  const int64_t available = limit.available - need.others;
  std::vector<std::string> ways;
  if (limit.of != MemoryLimit::Of::machine)
    ways.push_back(
        limit.of == MemoryLimit::Of::process && plan.target != plan::Target::cpu
            ? "no such limit (unlimited), since a GPU's driver reserves addresses for all memory of host and devices"
            : fmt::format("a limit that is {} higher", inGib(need.bytes + need.others - limit.available)));
  if (available > 0)
    ways.push_back(
        fmt::format("a plan whose ranks need {} ({})", howMuchLess(need.bytes, available), smallerPlan(plan)));
  if (limit.of != MemoryLimit::Of::process && need.ranks > 1 && need.greatest <= available) {
    const int64_t each = available / need.greatest; // ranks
    ways.push_back(fmt::format("{} machines like this one with at most {} of the ranks each, as processes",
                               divideUp(plan.mesh.worldSize(), each), each));
  }
  if (limit.of == MemoryLimit::Of::machine)
    ways.push_back("a machine with as much");
  return fmt::format("{}", fmt::join(ways, "; or "));
}

} // namespace

std::string howMuchLess(int64_t bytes, int64_t available) {
  return bytes >= 2 * available ? fmt::format("{:.1f} times less", double(bytes) / double(available))
                                : fmt::format("{} less", inGib(bytes - available));
}

bool takesMachineMemory(const plan::Plan &plan) {
  return std::ranges::any_of(plan.stages, [&](const plan::StagePlan &stage) { return machineBytes(plan, stage) > 0; });
}

Status verifyMemory(const plan::Plan &plan, std::span<const LocalRank> ranks, int64_t threads,
                    std::span<const MemoryLimit> limits) {
  for (const MemoryLimit &limit : limits) {
    const Need need = needOf(plan, ranks, threads, limit);
    if (need.bytes + need.others <= limit.available)
      continue;
    const std::string others =
        need.others > 0 ? fmt::format(" and, with {} threads, {} for the process itself", threads, inGib(need.others))
                        : "";
    return errorf("not enough memory: {} of the plan's ranks here need {}{}, {} are available ({}); nothing was "
                  "allocated\n  what would fit: {}",
                  need.ranks, inGib(need.bytes), others, inGib(limit.available), limit.name,
                  whatWouldFit(plan, limit, need));
  }
  return Status::ok();
}

} // namespace mgc
