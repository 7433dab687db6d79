// JoinPoints against the definition: of two works that touch a byte, one of them writing, the first is done before the second
// begins, by the order of lanes and joins alone; and no join is there that this does not need.
#include "runtime/exec/JoinPoints.h"

#include <gtest/gtest.h>
#include <random>

namespace mgc::test {
namespace {

using Access = JoinPoints::Access;

struct Work {
  int64_t lane;
  std::vector<Access> accesses;
};
using Joins = std::vector<std::vector<int64_t>>; // by work; then those of the end

std::vector<Work> randomProgram(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<int64_t>(random() % limit); };
  std::vector<Work> works(4 + static_cast<size_t>(below(20)));
  for (Work &work : works) {
    work.lane = below(2) == 0 ? JoinPoints::kMain : 1 + below(2);
    for (int64_t i = below(4); i > 0; --i) {
      const int64_t begin = below(24);
      work.accesses.push_back({begin, begin + below(5), below(3) == 0});
    }
  }
  return works;
}

Joins joinsOf(const std::vector<Work> &works) {
  JoinPoints points;
  Joins joins;
  for (const Work &work : works)
    joins.push_back(points.enqueue(work.lane, work.accesses));
  joins.push_back(points.finish());
  return joins;
}

bool touchTheSame(const Work &a, const Work &b) {
  for (const Access &x : a.accesses)
    for (const Access &y : b.accesses)
      for (int64_t byte = x.begin; byte < x.end; ++byte)
        if (byte >= y.begin && byte < y.end && (x.isWritten || y.isWritten))
          return true;
  return false;
}

// done[i]: what is done before work i begins; the last one's: before the end.
std::vector<std::vector<bool>> doneBefore(const std::vector<Work> &works, const Joins &joins) {
  const size_t size = works.size();
  std::vector<std::vector<bool>> done(size + 1, std::vector<bool>(size, false));
  std::vector<bool> main(size, false); // works done at the main lane's position
  std::map<int64_t, std::vector<bool>> lanes;
  const auto merge = [](std::vector<bool> &to, const std::vector<bool> &from) {
    for (size_t i = 0; i < from.size(); ++i)
      to[i] = to[i] || from[i];
  };
  const auto finish = [&](std::vector<bool> &to, size_t work) {
    merge(to, done[work]);
    to[work] = true;
  };
  for (size_t i = 0; i <= size; ++i) {
    for (int64_t joined : joins[i])
      finish(main, static_cast<size_t>(joined));
    done[i] = main;
    if (i == size || works[i].lane == JoinPoints::kMain) {
      if (i < size)
        finish(main, i);
      continue;
    }
    std::vector<bool> &lane = lanes.try_emplace(works[i].lane, size, false).first->second;
    merge(done[i], lane);
    finish(lane, i);
  }
  return done;
}

bool isInOrder(const std::vector<Work> &works, const Joins &joins) {
  const std::vector<std::vector<bool>> done = doneBefore(works, joins);
  for (size_t i = 0; i < works.size(); ++i) {
    if (!done[works.size()][i])
      return false;
    for (size_t j = 0; j < i; ++j)
      if (touchTheSame(works[j], works[i]) && !done[i][j])
        return false;
  }
  return true;
}

TEST(JoinPoints, keepWhatCollidesInOrderAndNothingElse) {
  int64_t joined = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const std::vector<Work> works = randomProgram(seed);
    const Joins joins = joinsOf(works);
    ASSERT_TRUE(isInOrder(works, joins)) << "seed " << seed;
    for (size_t i = 0; i < joins.size(); ++i)
      for (size_t k = 0; k < joins[i].size(); ++k) {
        Joins fewer = joins;
        fewer[i].erase(fewer[i].begin() + static_cast<int64_t>(k));
        ASSERT_FALSE(isInOrder(works, fewer)) << "seed " << seed << ", work " << i;
        ++joined;
      }
  }
  EXPECT_GT(joined, 3000) << "the programs say little";
}

// dgrad, reduce concurrently with remake and wgrad, norm_grad.
TEST(JoinPoints, aReductionRunsBesideTheProductBehindIt) {
  JoinPoints points;
  const Access dx{0, 64, true}, sum{64, 128, true}, dw{128, 192, true}, x{192, 256, false};
  const auto read = [](Access access) { return access.isWritten = false, access; };
  EXPECT_TRUE(points.enqueue(JoinPoints::kMain, {dx}).empty());
  EXPECT_TRUE(points.enqueue(1, {read(dx), sum}).empty());
  EXPECT_TRUE(points.enqueue(JoinPoints::kMain, {x, dw}).empty());
  EXPECT_TRUE(points.enqueue(JoinPoints::kMain, {read(dx)}).empty()) << "both read it";
  EXPECT_EQ(points.enqueue(JoinPoints::kMain, {read(sum)}), std::vector<int64_t>{1});
  EXPECT_TRUE(points.finish().empty());
}

} // namespace
} // namespace mgc::test
