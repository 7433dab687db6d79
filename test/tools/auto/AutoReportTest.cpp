// The report of a search: what is an error of the search, and what a training takes.
#include "tools/auto/AutoReport.h"

#include <gtest/gtest.h>

namespace mgc::tools {
namespace {

constexpr int64_t kMemory = 1000, kHostMemory = 100;

ProvedLayout layoutOf(double seconds, double searchedSeconds, int64_t bytes = kMemory) {
  ProvedLayout layout{"tp 2", "mgc compile model --tp 2 -o PLAN"};
  layout.seconds = seconds, layout.searchedSeconds = searchedSeconds;
  layout.bytes = bytes, layout.searchedBytes = 900;
  return layout;
}

TEST(AutoReport, aPlanMayDifferByOnePercent) {
  EXPECT_EQ(differenceIn(layoutOf(1, 1), kMemory, kHostMemory), "");
  EXPECT_EQ(differenceIn(layoutOf(1, 1.009), kMemory, kHostMemory), "");
  EXPECT_EQ(differenceIn(layoutOf(1, 0.991), kMemory, kHostMemory), "");
  EXPECT_EQ(differenceIn(layoutOf(1, 1.02), kMemory, kHostMemory),
            "the search says 1.020000 s, the plan 1.000000 s (+2.00 %)");
  EXPECT_EQ(differenceIn(layoutOf(2, 1.9), kMemory, kHostMemory),
            "the search says 1.900000 s, the plan 2.000000 s (-5.00 %)");
}

TEST(AutoReport, aPlanHasNoMoreBytesThanTheBudget) {
  EXPECT_EQ(differenceIn(layoutOf(1, 1, kMemory + 1), kMemory, kHostMemory),
            "the search says 900 bytes, the plan 1001, of 1000");
  ProvedLayout layout = layoutOf(1, 1);
  layout.hostBytes = kHostMemory + 1;
  EXPECT_EQ(differenceIn(layout, kMemory, kHostMemory), "the plan has 101 bytes of the host, of 100");
}

AutoReport reportOf(int64_t trainSamples) {
  AutoReport report{"model", "h100", "cuda:sm_90", "bf16", kMemory, 8, 64, trainSamples, {}, {}};
  AutoSize &size = report.sizes.emplace_back();
  size.devices = 2;
  size.layouts.push_back(layoutOf(86400, 86400));
  return report;
}

TEST(AutoReport, aTrainingTakesWholeSteps) {
  EXPECT_EQ(reportOf(16).daysOf(86400), 2);
  EXPECT_EQ(reportOf(17).daysOf(86400), 3);
  EXPECT_NE(textOf(reportOf(17)).find("  3.00         144.0  tp 2\n"), std::string::npos) << textOf(reportOf(17));
  EXPECT_EQ(textOf(reportOf(0)).find("device-hours"), std::string::npos);
  EXPECT_NE(jsonOf(reportOf(17)).find("\"device_hours\": 144.0"), std::string::npos);
}

TEST(AutoReport, saysTheLoadOfExperts) {
  AutoReport report = reportOf(0);
  EXPECT_EQ(jsonOf(report).find("expert_load"), std::string::npos); // there are none
  EXPECT_NE(textOf(report).find(" a step, bf16\n"), std::string::npos) << textOf(report);
  report.imbalance = 1;
  EXPECT_NE(jsonOf(report).find("\"expert_load\": \"even\""), std::string::npos);
  EXPECT_NE(textOf(report).find(" a step, bf16, experts loaded evenly\n"), std::string::npos) << textOf(report);
  report.imbalance = 1.25;
  EXPECT_NE(jsonOf(report).find("\"expert_load\": 1.25"), std::string::npos);
  EXPECT_NE(textOf(report).find(", bf16, the fullest rank with 1.25 times the mean of experts' rows\n"),
            std::string::npos)
      << textOf(report);
}

TEST(AutoReport, partsThatDifferStandBehindALayout) {
  AutoReport report = reportOf(0);
  AutoSize &size = report.sizes.front();
  size.others = std::vector<OtherValue>{
      {"--tp", "4", "tp 4", 1.1 * 86400, 500, {{"products", 0.2 * 86400}, {"bubble", -0.1 * 86400}}, ""},
      {"--pp", "2", "", 0, 0, {}, "too large"}};
  const std::string text = textOf(report);
  EXPECT_NE(text.find("  --tp 4  +10.0 %  500 B  tp 4       products +20.0 %, bubble -10.0 %\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  --pp 2     none         too large\n"), std::string::npos) << text;
}

TEST(AutoReport, aLayoutOfOnesOwnHasAPlace) {
  AutoReport report = reportOf(0);
  AutoSize &size = report.sizes.front();
  size.layouts.push_back(layoutOf(2 * 86400, 2 * 86400));
  size.asked = {{"tp=2", layoutOf(86400, 86400), {}, ""},
                {"tp=4", layoutOf(1.5 * 86400, 1.5 * 86400), {{"bubble", 0.5 * 86400}}, ""},
                {"tp=8", layoutOf(3 * 86400, 3 * 86400), {}, ""},
                {"tp=3", {}, {}, "too large"}};
  const std::string text = textOf(report);
  EXPECT_NE(text.find("  tp=2: 86400.00 s, as fast as the first, number 1, 1000 B\n    tp 2\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  tp=4: 129600.00 s, 50.0 % slower than the first, number 2, 1000 B\n    tp 2\n"
                      "    bubble +50.0 %\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("200.0 % slower than the first, behind number 2, "), std::string::npos) << text;
  EXPECT_NE(text.find("  tp=3: none: too large\n"), std::string::npos) << text;
}

TEST(AutoReport, layoutsChangePlacesOnAnotherMachine) {
  const ChangedMachine changed{"slow links", {3, 1, 2, 2}};
  EXPECT_EQ(changed.order(), (std::vector<int64_t>{2, 3, 4, 1}));
  AutoReport report = reportOf(0);
  report.sizes.front().changes = {{changed, {"fast links", {1, 1, 1, 1}}}};
  const std::string text = textOf(report);
  EXPECT_NE(
      text.find("sensitivity, the order of the first 4:\n  slow links  4 before 1\n  fast links  does not change\n"),
      std::string::npos)
      << text;
}

TEST(AutoReport, rowsOfMoreMemoryThatAreNoFasterGo) {
  ParetoRows rows;
  for (const auto [seconds, bytes] :
       {std::pair(1.0, 900), std::pair(3.0, 800), std::pair(2.5, 700), std::pair(2.5, 600)})
    rows.add(layoutOf(seconds, seconds, bytes));
  ASSERT_EQ(rows.layouts.size(), 2U);
  EXPECT_EQ(rows.layouts[0].bytes, 900);
  EXPECT_EQ(rows.layouts[1].bytes, 600);
  ProvedLayout none;
  none.problem = "it has no plan";
  rows.add(none);
  EXPECT_EQ(rows.layouts.size(), 3U);
}

TEST(AutoReport, problemsOfAllLayoutsAreFound) {
  AutoReport report = reportOf(0);
  AutoSize &size = report.sizes.front();
  size.pareto = {{layoutOf(2, 2)}, 1};
  size.asked = {{"tp=2", layoutOf(3, 3), {}, ""}};
  size.nearest = {layoutOf(4, 4), 0, ""};
  EXPECT_EQ(size.all().size(), 4U);
}

// A path of a model may be any bytes.
TEST(AutoReport, aNameThatIsNoTextIsReplaced) {
  AutoReport report = reportOf(0);
  report.model = "\xff";
  EXPECT_NE(jsonOf(report).find("\"model\": \"\xef\xbf\xbd\""), std::string::npos);
}

} // namespace
} // namespace mgc::tools
