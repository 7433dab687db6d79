// JoinPoints against the definition: of two works that touch a byte, one of them writing, the first is done before the second
// begins, by the order of lanes and joins alone; and no join is there that this does not need. Then joins and turns of runs.
#include "plan/Joins.h"

#include "test/plan/SmallPlan.h"
#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using plan::BytesTouched;
using plan::JoinPoints;

namespace {

struct Work {
  int64_t lane;
  plan::Touched touched;
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
      work.touched.push_back({begin, begin + below(5), below(3) == 0});
    }
  }
  return works;
}

Joins joinsOf(const std::vector<Work> &works) {
  JoinPoints points;
  Joins joins;
  for (const Work &work : works)
    joins.push_back(points.enqueue(std::ssize(joins), work.lane, work.touched));
  joins.push_back(points.finish());
  return joins;
}

bool touchTheSame(const Work &a, const Work &b) {
  for (const BytesTouched &x : a.touched)
    for (const BytesTouched &y : b.touched)
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
  const BytesTouched dx{0, 64, true}, sum{64, 128, true}, dw{128, 192, true}, x{192, 256, false};
  const auto read = [](BytesTouched access) { return access.isWritten = false, access; };
  EXPECT_TRUE(points.enqueue(0, JoinPoints::kMain, {dx}).empty());
  EXPECT_TRUE(points.enqueue(1, 1, {read(dx), sum}).empty());
  EXPECT_TRUE(points.enqueue(2, JoinPoints::kMain, {x, dw}).empty());
  EXPECT_TRUE(points.enqueue(3, JoinPoints::kMain, {read(dx)}).empty()) << "both read it";
  EXPECT_EQ(points.enqueue(4, JoinPoints::kMain, {read(sum)}), std::vector<int64_t>{1});
  EXPECT_TRUE(points.finish().empty());
}

// --- Works of a plan -----------------------------------------------------------------------------------------------

const plan::Mesh &mesh() {
  static const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  return mesh;
}
std::vector<int64_t> numbersOf(const plan::Touched &touched) {
  std::vector<int64_t> numbers;
  for (const BytesTouched &bytes : touched)
    numbers.insert(numbers.end(), {bytes.begin, bytes.end, bytes.isWritten});
  return numbers;
}

TEST(ProgramWorks, AreWhereTheCallBindsThem) {
  plan::Program program;
  program.instructions = {{plan::Move{.bytes = 8}, {{0, 16, 32}, {1, 0, 8}}, "copy"}};
  program.repeats = {{0, 1, 3}};
  const plan::ProgramWorks works(mesh(), program);
  ASSERT_EQ(works.size(), 3u);
  EXPECT_EQ(&works.instruction(2), &program.instructions[0]);
  const plan::Call call{0, 0, 0, {{-1, 1000, 100}, {1, 4}}};
  const std::vector<int64_t> slots = {2000, 3000};
  EXPECT_EQ(numbersOf(works.touched(0, basesOf(call, 0, slots))), (std::vector<int64_t>{1016, 1024, 0, 3004, 3012, 1}));
  EXPECT_EQ(numbersOf(works.touched(2, basesOf(call, 3, slots))), (std::vector<int64_t>{1380, 1388, 0, 3020, 3028, 1}));
  const std::vector<int64_t> apart = works.basesApart();
  EXPECT_LE(apart[0] + 16 + 2 * 32 + 8, apart[1]);
}

TEST(Joins, OfAGroupAreInOrderOnWhicheverLanes) {
  EXPECT_TRUE(plan::collide({plan::orderOfGroup(1)}, {plan::orderOfGroup(1)}));
  EXPECT_FALSE(plan::collide({plan::orderOfGroup(1)}, {plan::orderOfGroup(2)}));
}

// An exchange, a reduction of another lane, a product that reads what the reduction wrote, two that read what was exchanged.
class ExchangeRun {
public:
  ExchangeRun() {
    const BytesTouched rows{0, 8, true}, sum{8, 16, true};
    const auto read = [](BytesTouched bytes) { return bytes.isWritten = false, bytes; };
    works_ = {{&product_, JoinPoints::kMain, {}},
              {&exchange_, 1, {rows}},
              {&reduce_, 2, {sum}},
              {&product_, JoinPoints::kMain, {read(sum)}},
              {&product_, JoinPoints::kMain, {read(rows)}},
              {&product_, JoinPoints::kMain, {read(rows)}},
              {&exchange_, 1, {rows}}};
  }
  std::vector<std::pair<int64_t, int64_t>> joins() const {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const auto &[before, work] : plan::joinsOf(works_))
      pairs.emplace_back(before, work);
    return pairs;
  }
  std::vector<int64_t> turns() const { return plan::turnsOf(works_, plan::joinsOf(works_)); }
  std::vector<plan::RunWork> works_;

private:
  const plan::Instruction product_{plan::Gemm{}, {}, "product"}, exchange_{plan::ExchangeRows{}, {}, "exchange"},
      reduce_{plan::Collective{}, {}, "reduce"};
};

TEST(Joins, OfARunAreBeforeItsReadersAndAtItsEnd) {
  EXPECT_EQ(ExchangeRun().joins(), (std::vector<std::pair<int64_t, int64_t>>{{3, 2}, {4, 1}, {7, 6}}));
  ExchangeRun inOrder;
  for (plan::RunWork &work : inOrder.works_)
    work.lane = JoinPoints::kMain;
  EXPECT_TRUE(inOrder.joins().empty());
}

// At the run's first work, and where it waits for its rows; not where it waits for the reduction, nor at its end.
TEST(Joins, TurnsBeginWhereARunWaitsForAnExchange) { EXPECT_EQ(ExchangeRun().turns(), (std::vector<int64_t>{0, 4})); }

} // namespace
