// See VerifyWeights.h.
#include "runtime/checkpoint/VerifyWeights.h"

#include "runtime/base/InParallel.h"
#include "runtime/base/Problems.h"

#include "runtime/base/Bf16.h"
#include "runtime/checkpoint/BucketBuffer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <optional>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

using Staged = std::array<float, kStaged>;

// One rank's copy of a block.
struct Copy {
  int64_t rank = 0, begin = 0; // begin: offset of the block in the bucket
  BucketBuffer values;
  std::optional<BucketBuffer> masters;
};

// Whether a block is fit to be saved: its copies have equal bits, its values are finite and, where there are masters, the
// rounding of them.
class BlockCheck {
public:
  BlockCheck(const Plan &plan, const Parameter &parameter, const std::vector<Holder> &holders, Arenas arenas);
  // Lines that begin with a line end; nothing: it is fit.
  std::string run();

private:
  void check(BucketRange part, int64_t number);
  void compare(const Copy &copy, const float *own, const float *other, int64_t count, int64_t number);
  void checkMasters(BucketRange part, const Staged &values, int64_t number);

  const Parameter &parameter_;
  const Shard shard_;
  std::vector<Copy> copies_;
  std::vector<int64_t> differing_; // ranks
  std::string example_, notFinite_, notRounded_;
};

BlockCheck::BlockCheck(const Plan &plan, const Parameter &parameter, const std::vector<Holder> &holders, Arenas arenas)
    : parameter_(parameter), shard_(shardOf(plan.mesh, parameter, holders[0].rank)) {
  for (const Holder &holder : holders) {
    const plan::Bucket &bucket = bucketOf(plan, parameter, holder);
    // Ranks that share slices share one copy.
    const auto isFirst = [&](const plan::State &state) {
      return plan::coordinate(plan.mesh, holder.rank, bucket.axesOf(state)) == 0;
    };
    if (!isFirst(valuesOf(bucket)))
      continue;
    copies_.push_back({holder.rank, beginOf(parameter, holder), BucketBuffer(plan, parameter, holder, valuesOf, arenas),
                       std::nullopt});
    if (bucket.has(plan::StateRole::master) && isFirst(weightsOf(bucket)))
      copies_.back().masters = BucketBuffer(plan, parameter, holder, weightsOf, arenas);
  }
}

std::string BlockCheck::run() {
  for (int64_t row = 0; row < shard_.rows; ++row)
    for (int64_t done = 0; done < shard_.rowElements; done += kStaged)
      check({row * shard_.rowStride + done, std::min(kStaged, shard_.rowElements - done)},
            row * shard_.rowElements + done);
  std::string problems = notFinite_ + notRounded_;
  if (!differing_.empty())
    problems = fmt::format("\n  parameter {}: ranks {} differ from rank {}: {}", parameter_.name,
                           fmt::join(differing_, ", "), copies_[0].rank, example_) +
               problems;
  return problems;
}

// `part` counts from where the block begins; its first element has that number in the block.
void BlockCheck::check(BucketRange part, int64_t number) {
  Staged values, others;
  copies_[0].values.read({copies_[0].begin + part.begin, part.count}, values.data());
  for (int64_t i = 0; i < part.count && notFinite_.empty(); ++i)
    if (!std::isfinite(values[i]))
      notFinite_ = fmt::format("\n  parameter {}: element {} on rank {} is {}", parameter_.name, number + i,
                               copies_[0].rank, values[i]);
  for (const Copy &copy : std::span(copies_).subspan(1)) {
    copy.values.read({copy.begin + part.begin, part.count}, others.data());
    compare(copy, values.data(), others.data(), part.count, number);
  }
  checkMasters(part, values, number);
}

void BlockCheck::compare(const Copy &copy, const float *own, const float *other, int64_t count, int64_t number) {
  if (std::memcmp(own, other, size_t(count) * sizeof(float)) == 0)
    return;
  if (std::ranges::find(differing_, copy.rank) == differing_.end())
    differing_.push_back(copy.rank);
  for (int64_t i = 0; i < count && example_.empty(); ++i)
    if (std::memcmp(own + i, other + i, sizeof(float)) != 0)
      example_ = fmt::format("element {} is {} on rank {} and {} on rank {}", number + i, own[i], copies_[0].rank,
                             other[i], copy.rank);
}

void BlockCheck::checkMasters(BucketRange part, const Staged &values, int64_t number) {
  const Copy *first = nullptr;
  Staged masters, others;
  for (const Copy &copy : copies_) {
    if (!copy.masters)
      continue;
    copy.masters->read({copy.begin + part.begin, part.count}, first ? others.data() : masters.data());
    if (first)
      compare(copy, masters.data(), others.data(), part.count, number);
    else
      first = &copy;
  }
  for (int64_t i = 0; first && i < part.count && notRounded_.empty(); ++i)
    if (toBf16(masters[i]) != toBf16(values[i]))
      notRounded_ = fmt::format("\n  parameter {}: element {} on rank {} is {}, expected the rounding of its master {}",
                                parameter_.name, number + i, first->rank, values[i], masters[i]);
}

} // namespace

Status verifySavableWeights(const Plan &plan, Arenas arenas) {
  std::vector<std::string> perParameter(plan.parameters.size());
  forEachInParallel(int64_t(plan.parameters.size()), [&](int64_t i) {
    for (const std::vector<Holder> &holders : blocksOf(plan, plan.parameters[i]))
      perParameter[i] += BlockCheck(plan, plan.parameters[i], holders, arenas).run();
  });
  return reportProblems(kNotSaved, perParameter);
}

Status reportProblems(std::string_view what, const std::vector<std::string> &perParameter) {
  Problems problems;
  for (const std::string &problem : perParameter)
    problems.expect(problem.empty(), "{}", problem.empty() ? "" : problem.substr(1));
  return problems.empty() ? Status::ok() : errorf("{}\n{}", what, problems.text());
}

} // namespace mgc
