// Groups of rows on the device: orders and exchanges to the bit as the CPU makes them, products against sums in double, and wrong
// data, which ends the device with the CPU's words.
#include "GemmOnDevice.h"

#include "runtime/device/CallFacts.h"
#include "runtime/kernels/DropChoices.h"
#include "runtime/kernels/GroupRows.h"

#include <cmath>
#include <numeric>

using namespace mgc;
using namespace mgc::test;
using Form = plan::GroupedGemm::Form;
using Numbers = std::vector<int32_t>;

namespace {

std::string describe(const Numbers &numbers) { return fmt::format("[{}]", fmt::join(numbers, " ")); }

constexpr float kLeft = -7; // value of places without a row

class Rows : public GemmOnDevice {
protected:
  Rows() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // The error of what body() enqueues, which may be found by a later call, in a process of its own: the device fails.
  template <typename Body> void expectFailure(const std::string &message, const Body &body) {
    EXPECT_EXIT(
        {
          const Status enqueued = body();
          const std::string found =
              enqueued.isOk() ? errorOf(stream.synchronize(std::chrono::seconds(60))) : enqueued.message();
          const std::string later = errorOf(device().check());
          std::fprintf(stderr, "found: %s\n", found.c_str());
          std::_Exit(found.find("GPU 0 (") == 0 && found.find(message) != found.npos && later == found ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }

  // --- groupRows

  struct Order {
    Numbers counts, places, sources;
    bool operator==(const Order &) const = default;
  };
  Status enqueueOrder(const Numbers &numbers, int64_t groups, int64_t room, const GroupShare &share,
                      plugin::DeviceBuffer &result) {
    const auto rows = std::ssize(numbers);
    const auto given = uploaded(numbers);
    result = uploaded(Numbers(size_t(groups + rows + room), -7));
    const Status status =
        stream.groupRows({.groups = groups, .rows = rows, .places = room, .first = share.first, .all = share.all},
                         {.numbers = given.address(),
                          .counts = result.address(),
                          .places = result.address() + uint64_t(4 * groups),
                          .sources = result.address() + uint64_t(4 * (groups + rows))});
    if (status.isOk()) // `given` must live so long
      (void)stream.synchronize(std::chrono::seconds(60));
    return status;
  }
  Order orderOnDevice(const Numbers &numbers, int64_t groups, int64_t room, const GroupShare &share) {
    plugin::DeviceBuffer result;
    EXPECT_EQ(errorOf(enqueueOrder(numbers, groups, room, share, result)), "");
    const auto rows = std::ssize(numbers);
    const Numbers all = download<int32_t>(result.address(), groups + rows + room);
    return {{all.begin(), all.begin() + groups},
            {all.begin() + groups, all.begin() + groups + rows},
            {all.begin() + groups + rows, all.end()}};
  }
  void checkOrder(const Numbers &numbers, int64_t groups, int64_t room, const GroupShare &share) {
    Order cpu{Numbers(groups, -7), Numbers(numbers.size(), -7), Numbers(room, -7)};
    ASSERT_EQ(errorOf(groupRows({.groups = groups, .rows = std::ssize(numbers), .places = room}, share, numbers.data(),
                                cpu.counts.data(), cpu.places.data(), cpu.sources.data())),
              "");
    const Order found = orderOnDevice(numbers, groups, room, share);
    ASSERT_EQ(found.counts, cpu.counts);
    ASSERT_EQ(found.places, cpu.places);
    ASSERT_EQ(found.sources, cpu.sources);
  }

  // --- groupedGemm

  static mgc_grouped_gemm_facts factsFor(Form form, int64_t groups, int64_t rows, int64_t n, int64_t other) {
    plan::GroupedGemm gemm{.form = form, .groups = groups, .rows = rows, .n = n};
    (form == Form::sums ? gemm.m : gemm.k) = other;
    return factsOf(gemm);
  }
  static int64_t widthOf(const mgc_grouped_gemm_facts &f) { return f.sums ? f.m : f.k; }
  static int64_t results(const mgc_grouped_gemm_facts &f) { return f.sums ? f.groups * f.m * f.n : f.rows * f.n; }

  struct Product {
    Values a, b, c, found; // c: before
  };
  // Rows that no group has are NaN in the operands.
  Product multiplied(const mgc_grouped_gemm_facts &f, const Numbers &counts, int64_t shift = 0) {
    const int64_t used = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    Product p;
    p.a = randomValues(f.rows * widthOf(f), 1);
    p.b = randomValues(f.sums ? f.rows * f.n : f.groups * f.k * f.n, 2);
    p.c = randomValues(results(f), 3);
    std::fill(p.a.begin() + used * widthOf(f), p.a.end(), NAN);
    if (f.sums)
      std::fill(p.b.begin() + used * f.n, p.b.end(), NAN);
    const auto shifted = [&](Values values) { // begins `shift` elements later
      values.insert(values.begin(), size_t(shift), 0);
      return values;
    };
    Values left = shifted(p.a), right = shifted(p.b), result = shifted(p.c);
    const auto a = uploadedAs(f.input, left), b = uploadedAs(f.input, right), c = uploadedAs(f.output, result);
    const auto numbers = uploaded(counts);
    const auto at = [&](const plugin::DeviceBuffer &buffer, mgc_type type) {
      return buffer.address() + uint64_t(shift * (type == MGC_BF16 ? 2 : 4));
    };
    EXPECT_EQ(errorOf(stream.groupedGemm(f, {at(a, f.input), at(b, f.input), numbers.address(), at(c, f.output)})), "");
    EXPECT_EQ(errorOf(stream.synchronize(std::chrono::seconds(60))), "");
    p.a.assign(left.begin() + shift, left.end()), p.b.assign(right.begin() + shift, right.end());
    p.c.assign(result.begin() + shift, result.end());
    p.found = downloadAs(f.output, at(c, f.output), results(f));
    return p;
  }

  static std::vector<double> expected(const mgc_grouped_gemm_facts &f, const Product &p, const Numbers &counts) {
    std::vector<double> c(p.c.begin(), p.c.end());
    if (f.sums && !f.accumulate)
      std::ranges::fill(c, 0);
    int64_t row = 0;
    for (int64_t group = 0; group < f.groups; ++group)
      for (int64_t end = row + counts[group]; row < end; ++row)
        for (int64_t i = 0; i < (f.sums ? f.m : f.k); ++i)
          for (int64_t j = 0; j < f.n; ++j)
            if (f.sums)
              c[(group * f.m + i) * f.n + j] += double(p.a[row * f.m + i]) * p.b[row * f.n + j];
            else // behind the last row nothing is written
              c[row * f.n + j] =
                  (i > 0 ? c[row * f.n + j] : 0) +
                  double(p.a[row * f.k + i]) * p.b[group * f.k * f.n + (f.transpose_b ? j * f.k + i : i * f.n + j)];
    return c;
  }

  // Sums in f32 are off by some roundings of what they add up; bf16, of 8 bits, is rounded once more.
  void checkProduct(const mgc_grouped_gemm_facts &f, const Numbers &counts, int64_t shift = 0) {
    const Product p = multiplied(f, counts, shift);
    const std::vector<double> wanted = expected(f, p, counts);
    const double sums = 8e-6 * std::sqrt(double(f.sums ? f.rows : f.k) + 1);
    const double rounding = f.output == MGC_BF16 ? 1.0 / 256 : 0;
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(p.found[i], wanted[i], sums + rounding * std::abs(wanted[i]))
          << fmt::format("groups {} rows {} m {} n {} k {} sums {} transposed {} accumulate {} types {} {} "
                         "at {}, counts ",
                         f.groups, f.rows, f.m, f.n, f.k, f.sums, f.transpose_b, f.accumulate, int(f.input),
                         int(f.output), i)
          << describe(counts);
  }

  void checkAllTypes(mgc_grouped_gemm_facts f, const Numbers &counts, int64_t shift = 0) {
    for (const auto &[input, output] :
         {std::pair(MGC_F32, MGC_F32), std::pair(MGC_BF16, MGC_F32), std::pair(MGC_BF16, MGC_BF16)}) {
      f.input = input, f.output = output;
      checkProduct(f, counts, shift);
    }
  }
  void checkAllForms(int64_t groups, int64_t rows, int64_t n, int64_t other, const Numbers &counts, int64_t shift = 0) {
    for (const bool changes : {false, true}) {
      mgc_grouped_gemm_facts f = factsFor(Form::rows, groups, rows, n, other);
      f.transpose_b = changes;
      checkAllTypes(f, counts, shift);
      f = factsFor(Form::sums, groups, rows, n, other);
      f.accumulate = changes;
      checkAllTypes(f, counts, shift);
    }
  }

  // --- exchangeRows, of rank `index` alone: the sources of all ranks lie on the device.
  Values exchanged(const plan::ExchangeRows &what, const Numbers &counts, const std::vector<Values> &given,
                   int64_t index) {
    const auto numbers = uploaded(counts);
    std::vector<plugin::DeviceBuffer> buffers;
    std::vector<mgc_address> sources;
    Numbers names;
    for (const Values &values : given) {
      buffers.push_back(uploaded(values));
      sources.push_back(buffers.back().address());
      names.push_back(int32_t(10 + names.size()));
    }
    const int64_t room = (what.back ? what.rows : what.places) * what.width;
    const auto to = uploaded(Values(size_t(room), kLeft));
    EXPECT_EQ(errorOf(stream.exchangeRows(factsOf(what, std::ssize(given), index), {.counts = numbers.address(),
                                                                                    .other_counts = numbers.address(),
                                                                                    .sources = sources.data(),
                                                                                    .names = names.data(),
                                                                                    .destination = to.address()})),
              "");
    return download<float>(to.address(), room);
  }
};

Numbers randomNumbers(int64_t rows, int32_t groups, uint64_t seed) {
  std::mt19937_64 random(seed);
  Numbers numbers;
  for (int64_t i = 0; i < rows; ++i)
    numbers.push_back(int32_t(random() % uint64_t(groups)));
  return numbers;
}

} // namespace

// --- groupRows

TEST_F(Rows, areInTheOrderOfTheirGroups) {
  EXPECT_EQ(orderOnDevice({2, 0, 2, 0}, 3, 4, {0, 3}).sources, (Numbers{1, 3, 0, 2}));
  checkOrder({2, 3, 2, 0, 3}, 3, 5, {0, 3}); // 3: of none
  for (const int64_t rows : {1, 31, 32, 33, 257, 1000})
    for (const int32_t groups : {1, 2, 7, 64})
      checkOrder(randomNumbers(rows, groups, uint64_t(rows)), groups, rows, {0, groups});
}

TEST_F(Rows, ofOtherRanksHaveNoPlace) {
  for (const int64_t first : {0, 2, 6})
    checkOrder(randomNumbers(500, 8, 3), 2, 300, {first, 8});
  checkOrder(Numbers(100, 1), 2, 40, {2, 4}); // the rank has none
}

TEST_F(Rows, ofAGroupThatDoesNotExistEndTheDevice) {
  for (const int32_t wrong : {-1, 4, INT32_MAX, INT32_MIN})
    expectFailure(fmt::format("row 2 of 4 is of group {}; expected a group from 0 to 2, or 3, which is none", wrong),
                  [&] {
                    plugin::DeviceBuffer result;
                    return enqueueOrder({0, 2, wrong, 1}, 3, 4, {0, 3}, result);
                  });
}

TEST_F(Rows, moreThanPlacesEndTheDevice) {
  expectFailure("the rank's experts have 4 of 5 rows (expert 3: 3); the plan has room for 3\n", [&] {
    plugin::DeviceBuffer result;
    return enqueueOrder({3, 2, 3, 0, 3}, 2, 3, {2, 4}, result);
  });
}

// --- dropChoices

TEST_F(Rows, forWhichExpertsHaveRoom) {
  for (const bool byPosition : {false, true})
    for (const auto &[tokens, sequences, chosen, experts, capacity, together] :
         {std::array<int64_t, 6>{5, 1, 1, 2, 2, 1}, {40, 4, 2, 6, 9, 2}, {33, 3, 3, 3, 40, 3}, {64, 2, 4, 16, 1, 1}}) {
      const plan::DropChoices what{tokens, sequences, chosen, experts, capacity, together, byPosition};
      const int64_t choices = tokens * sequences * chosen;
      Numbers numbers, positions = randomNumbers(tokens * sequences, int32_t(tokens), 5);
      for (int64_t i = 0; i < choices; ++i) // distinct for each token
        numbers.push_back(int32_t((i / chosen * 7 + i % chosen) % experts));
      Values weights = randomValues(choices, 4);
      for (float &weight : weights)
        weight = std::round(4 * weight) / 4; // ties
      weights[2] = NAN;
      Numbers cpu(numbers.size(), -7), room(size_t(*what.workspaceBytes() / 4));
      ASSERT_EQ(errorOf(dropChoices(what, numbers.data(), weights.data(), positions.data(), cpu.data(), room.data())),
                "");
      const auto given = uploaded(numbers), at = uploaded(positions), kept = uploaded(Numbers(numbers.size(), -7));
      const auto by = uploadedAs(MGC_F32, weights);
      ASSERT_EQ(errorOf(stream.dropChoices(factsOf(what), {.experts = given.address(),
                                                           .weights = by.address(),
                                                           .positions = at.address(),
                                                           .kept = kept.address()})),
                "");
      ASSERT_EQ(errorOf(stream.synchronize(std::chrono::seconds(60))), "");
      ASSERT_EQ(download<int32_t>(kept.address(), choices), cpu) << what.sizes();
    }
}

// --- groupedGemm

TEST_F(Rows, areMultipliedByTheMatrixOfTheirGroup) {
  for (const Numbers &counts :
       {Numbers{3, 4, 5}, Numbers{0, 12, 0}, Numbers{0, 0, 0}, Numbers{1, 0, 1}, Numbers{12, 0, 0}, Numbers{0, 0, 12}})
    checkAllForms(3, 12, 7, 5, counts);
}

// Several tiles of each group, and slices along what is summed up; vectors, and elements one by one.
TEST_F(Rows, ofSeveralTiles) {
  checkAllForms(3, 300, 136, 72, {150, 0, 131});
  checkAllForms(2, 150, 131, 67, {1, 140});
}

TEST_F(Rows, ofManyGroups) {
  Numbers counts(70, 0);
  counts[3] = 5, counts[31] = 1, counts[32] = 2, counts[33] = 9, counts[69] = 3;
  checkAllForms(70, 24, 8, 16, counts);
}

TEST_F(Rows, atAnyPlace) { checkAllForms(2, 40, 16, 24, {17, 20}, 1); }

TEST_F(Rows, giveEqualBitsTwice) {
  mgc_grouped_gemm_facts f = factsFor(Form::sums, 3, 300, 40, 48);
  for (const mgc_type type : {MGC_F32, MGC_BF16}) {
    f.input = type, f.output = MGC_F32;
    EXPECT_EQ(multiplied(f, {150, 0, 131}).found, multiplied(f, {150, 0, 131}).found);
  }
}

TEST_F(Rows, wrongCountsEndTheDevice) {
  const auto multiply = [&](const Numbers &counts) {
    const mgc_grouped_gemm_facts f = factsFor(Form::rows, 3, 12, 2, 2);
    const auto memory = uploaded(Values(1000)), c = uploaded(Values(24)), numbers = uploaded(counts);
    const Status status = stream.groupedGemm(f, {memory.address(), memory.address(), numbers.address(), c.address()});
    (void)stream.synchronize(std::chrono::seconds(60));
    return status;
  };
  expectFailure("group 1 of 3 has -1 rows, 5 with those before it; expected from 0 to 12 in all",
                [&] { return multiply({6, -1, 2}); });
  expectFailure("group 2 of 3 has 4 rows, 13 with those before it; expected from 0 to 12 in all",
                [&] { return multiply({6, 3, 4}); });
  expectFailure("group 0 of 3 has 2147483647 rows, 2147483647 with those before it; expected from 0 to 12 in all",
                [&] { return multiply({INT32_MAX, INT32_MAX, 2}); });
}

TEST_F(Rows, typesThatAreNone) {
  mgc_grouped_gemm_facts f = factsFor(Form::rows, 1, 1, 1, 1);
  f.input = MGC_F32, f.output = MGC_BF16;
  EXPECT_NE(errorOf(stream.groupedGemm(f, {0, 0, 0, 0})).find("expected f32 -> f32, bf16 -> f32 or bf16 -> bf16"),
            std::string::npos);
}

// --- exchangeRows

// 2 ranks with a group each, rows of rank 0: a0 a1 b0, of rank 1: a2 b1 b2.
TEST_F(Rows, goToTheRankOfTheirGroupAndComeBack) {
  plan::ExchangeRows what{.groups = 1, .rows = 4, .places = 5, .width = 1};
  const Numbers counts = {2, 1, 1, 2};
  const std::vector<Values> own = {{1, 2, 11, NAN}, {3, 12, 13, NAN}};
  const std::vector<Values> hosted = {{1, 2, 3, kLeft, kLeft}, {11, 12, 13, kLeft, kLeft}};
  for (const int64_t rank : {0, 1}) {
    what.back = false;
    EXPECT_EQ(exchanged(what, counts, own, rank), hosted[rank]);
    what.back = true;
    Values wanted = own[rank];
    wanted.back() = kLeft;
    EXPECT_EQ(exchanged(what, counts, hosted, rank), wanted);
  }
}

TEST_F(Rows, withWrongCountsEndTheDevice) {
  const plan::ExchangeRows what{.groups = 1, .rows = 4, .places = 5, .width = 1};
  const auto exchange = [&](const Numbers &counts, const Numbers &others) {
    const auto mine = uploaded(counts), theirs = uploaded(others), rows = uploaded(Values(8)), to = uploaded(Values(8));
    const mgc_address sources[] = {rows.address(), rows.address()};
    const int32_t names[] = {10, 11};
    const Status status = stream.exchangeRows(factsOf(what, 2, 0), {.counts = mine.address(),
                                                                    .other_counts = theirs.address(),
                                                                    .sources = sources,
                                                                    .names = names,
                                                                    .destination = to.address()});
    (void)stream.synchronize(std::chrono::seconds(60));
    return status;
  };
  const auto expectAlike = [&](const std::string &message, const Numbers &counts) {
    expectFailure(message, [&] { return exchange(counts, counts); });
  };
  expectAlike("rank 11 has -1 rows for expert 0 of 2, -1 with those before it; expected from 0 to 4 in all",
              {2, 1, -1, 2});
  expectAlike("rank 10 has 3 rows for expert 1 of 2, 5 with those before it; expected from 0 to 4 in all",
              {2, 3, 0, 0});
  expectAlike("the experts of rank 11 get 6 rows (expert 1: 6); the plan has room for 5\n", {0, 3, 0, 3});
  expectFailure("rank 10 has other counts of rows than rank 11; expected the same on all ranks",
                [&] { return exchange({1, 1, 1, 1}, {1, 1, 1, 2}); });
}

TEST_F(Rows, amongTooManyRanks) {
  const plan::ExchangeRows what{.groups = 1, .rows = 1, .places = 1, .width = 1};
  EXPECT_NE(errorOf(stream.exchangeRows(factsOf(what, 257, 0), {})).find("possible are 1 to 256 ranks"),
            std::string::npos);
}
