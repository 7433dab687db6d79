// Products get the path that is the fastest here; what was measured is remembered, and nothing else is trusted.
#include "compiler/tune/ProductCache.h"
#include "compiler/tune/ProductTimes.h"
#include "compiler/tune/TuneProducts.h"
#include "runtime/base/Cores.h"
#include "runtime/kernels/GemmPaths.h"
#include "test/runtime/TempDir.h"

#include <thread>

using namespace mgc;
using namespace mgc::tune;
using plan::GemmPath;
using test::fails, test::isOk, test::TempDir;

// --- The choice --------------------------------------------------------------------------------------------

TEST(Fastest, beatsTheRuleByMoreThanItsNoise) {
  const auto of = [](double ruleA, double ruleB, double otherA, double otherB) {
    const PathTimes times[] = {{GemmPath::whole, {ruleA, ruleB}}, {GemmPath::rows, {otherA, otherB}}};
    return fastest(times, GemmPath::whole);
  };
  EXPECT_EQ(of(1.00, 1.00, 0.90, 0.92), GemmPath::rows);
  EXPECT_EQ(of(1.00, 1.00, 0.995, 0.995), GemmPath::whole) << "a gain below 1 %";
  EXPECT_EQ(of(1.00, 0.92, 0.92, 0.92), GemmPath::whole) << "the rule was as fast once";
  EXPECT_EQ(of(1.00, 1.00, 0.50, 1.01), GemmPath::whole) << "the other was slower once";
  EXPECT_EQ(of(1.00, 1.00, 1.20, 1.30), GemmPath::whole);
}

TEST(Fastest, isTheBestOfThoseThatWin) {
  const PathTimes times[] = {{GemmPath::whole, {1, 1}}, {GemmPath::rows, {0.8, 0.95}}, {GemmPath::columns, {0.9, 0.9}}};
  EXPECT_EQ(fastest(times, GemmPath::whole), GemmPath::columns);
}

// --- The cache ---------------------------------------------------------------------------------------------

static testing::AssertionResult loads(ProductCache &cache) {
  std::vector<std::string> notes;
  const Status status = cache.load(notes);
  return notes.empty() ? isOk(status) : testing::AssertionFailure() << notes[0];
}

TEST(ProductCache, remembersByKey) {
  TempDir folder;
  const std::string path = folder.path("deep/products.json");
  ProductCache cache(path);
  EXPECT_TRUE(loads(cache)) << "there is no file yet";
  cache.add("a processor, 2 threads, 1x2x3 NN", GemmPath::rows);
  ASSERT_TRUE(isOk(cache.save()));
  ProductCache again(path);
  ASSERT_TRUE(loads(again));
  EXPECT_EQ(again.find("a processor, 2 threads, 1x2x3 NN"), GemmPath::rows);
  EXPECT_EQ(again.find("another processor, 2 threads, 1x2x3 NN"), std::nullopt);
}

TEST(ProductCache, refusesAFileThatIsNone) {
  TempDir folder;
  const auto loading = [&](const std::string &text) {
    std::vector<std::string> notes;
    return ProductCache(folder.write("products.json", text)).load(notes);
  };
  EXPECT_TRUE(fails(loading("{\"format\""), {"products.json: not JSON", "; expected a cache of products"}));
  EXPECT_TRUE(fails(loading("[1, 2]"),
                    {"\"format\" is null; expected a cache of products (\"mgc products 2\") or a new name"}));
  EXPECT_TRUE(fails(loading(R"({"format": "other"})"), {"\"format\" is \"other\"; expected"}));
  std::vector<std::string> notes;
  EXPECT_TRUE(fails(ProductCache(folder.path()).load(notes), {"is a directory, expected a regular file"}));
}

TEST(ProductCache, usesNothingOfAFileThatIsNotAsWritten) {
  TempDir folder;
  const auto noteOf = [&](const std::string &text) {
    ProductCache cache(folder.write("products.json", text));
    std::vector<std::string> notes;
    EXPECT_TRUE(isOk(cache.load(notes))) << text;
    EXPECT_EQ(cache.find("good"), std::nullopt) << text;
    EXPECT_EQ(notes.size(), 1u) << text;
    return notes.empty() ? Status::ok() : Status::error(notes[0]);
  };
  const std::string header = R"({"format": "mgc products 2", "paths": ["whole", "rows", "columns"], )";
  EXPECT_TRUE(fails(noteOf(R"({"format": "mgc products 2", "paths": ["whole"], "fastest": {"good": "whole"}})"),
                    {R"(the paths ["whole"], this program has ["whole","rows","columns"])", "; measured anew"}));
  EXPECT_TRUE(fails(noteOf(header + R"("fastest": 3})"), {"\"fastest\" is number, expected an object"}));
}

// Others may have measured for days the entries next to them.
TEST(ProductCache, leavesOutEntriesThatAreNotAsWritten) {
  TempDir folder;
  ProductCache cache(
      folder.write("products.json", R"({"format": "mgc products 2", "paths": ["whole", "rows", "columns"],
      "fastest": {"aaa": "diagonals", "good": "rows", "yyy": 3, "zzz": "rule"}})"));
  std::vector<std::string> notes;
  ASSERT_TRUE(isOk(cache.load(notes)));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].ends_with(
      R"("aaa": found "diagonals", expected one of ["whole","rows","columns"] (and 2 more); measured anew)"))
      << notes[0];
  cache.add("mine", GemmPath::columns);
  ASSERT_TRUE(isOk(cache.save()));
  ProductCache again(folder.path("products.json"));
  ASSERT_TRUE(isOk(again.load(notes)));
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(again.find("good"), GemmPath::rows);
  EXPECT_EQ(again.find("mine"), GemmPath::columns);
}

TEST(ProductCache, leavesAnotherVersionAsItIs) {
  TempDir folder;
  const std::string newer = R"({"format": "mgc products 3", "fastest": {"good": "rows"}})";
  ProductCache cache(folder.write("products.json", newer));
  std::vector<std::string> notes;
  ASSERT_TRUE(isOk(cache.load(notes)));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("products.json: is of version 3, this program has version 2; it stays as it is"),
            std::string::npos)
      << notes[0];
  cache.add("mine", GemmPath::rows);
  EXPECT_TRUE(isOk(cache.save()));
  EXPECT_EQ(folder.read("products.json"), newer);
}

TEST(ProductCache, keepsWhatOthersAddMeanwhile) {
  TempDir folder;
  constexpr int count = 8;
  std::vector<std::thread> others;
  for (int i = 0; i < count; ++i)
    others.emplace_back([&, i] {
      ProductCache cache(folder.path("products.json"));
      EXPECT_TRUE(loads(cache));
      cache.add(std::to_string(i), GemmPath::rows);
      EXPECT_TRUE(isOk(cache.save()));
    });
  for (std::thread &other : others)
    other.join();
  ProductCache cache(folder.path("products.json"));
  ASSERT_TRUE(loads(cache));
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(cache.find(std::to_string(i)), GemmPath::rows) << i;
  EXPECT_EQ(folder.list(), std::set<std::string>{"products.json"});
}

TEST(ProductCache, replacesNothingThatCameMeanwhile) {
  TempDir folder;
  ProductCache cache(folder.path("products.json"));
  ASSERT_TRUE(loads(cache));
  for (const std::string text : {"a letter", R"({"format": "mgc products 3"})"}) {
    folder.write("products.json", text);
    EXPECT_TRUE(fails(cache.save(), {"products.json"}));
    EXPECT_EQ(folder.read("products.json"), text);
  }
}

TEST(ProductCache, saysWhyItCannotBeWritten) {
  TempDir folder;
  ProductCache cache(folder.write("file", "") + "/products.json");
  EXPECT_TRUE(fails(cache.save(), {"file/products.json: its folder cannot be made"}));
}

// --- The plan ----------------------------------------------------------------------------------------------

static plan::Plan planOf(std::vector<plan::Gemm> products) {
  plan::Plan plan;
  plan.programs.resize(1);
  for (const plan::Gemm &gemm : products)
    plan.programs[0].instructions.push_back({gemm, {}, "product"});
  return plan;
}
static GemmPath pathOf(const plan::Plan &plan, size_t i) {
  return std::get<plan::Gemm>(plan.programs[0].instructions[i].body).path;
}

class TuneProducts : public testing::Test {
protected:
  void SetUp() override {
    if (availableCores().size() < 2)
      GTEST_SKIP() << "one core: a product has one path";
  }
  TuneReport tune(plan::Plan &plan) {
    Result<TuneReport> report = tuneProducts(plan, {2, cache});
    EXPECT_TRUE(isOk(report));
    return report.isOk() ? report.take() : TuneReport();
  }
  // The cache with `from` replaced.
  void edit(const std::string &from, const std::string &to) {
    std::string text = folder.read("products.json");
    ASSERT_NE(text.find(from), std::string::npos) << text;
    folder.write("products.json", text.replace(text.find(from), from.size(), to));
  }

  TempDir folder;
  std::string cache = folder.path("products.json");
  const plan::Gemm small = {.m = 64, .n = 64, .k = 8}, dot = {.m = 1, .n = 1, .k = 8};
};

TEST_F(TuneProducts, choosesOncePerDistinctProduct) {
  plan::Gemm other = small;
  other.accumulate = true;
  plan::Plan plan = planOf({small, other, small, dot});
  const TuneReport report = tune(plan);
  EXPECT_EQ(report.threads, 2);
  ASSERT_EQ(report.products.size(), 2u);
  for (const TunedProduct &product : report.products)
    EXPECT_FALSE(product.isRemembered);
  for (size_t i : {0, 1, 2})
    EXPECT_NE(pathOf(plan, i), GemmPath::rule);
  EXPECT_EQ(pathOf(plan, 0), pathOf(plan, 2));
  EXPECT_EQ(pathOf(plan, 3), GemmPath::rule) << "it has one way";
  EXPECT_TRUE(report.notes.empty());
}

TEST_F(TuneProducts, takesWhatItRemembersOfThisMachine) {
  plan::Plan plan = planOf({small});
  tune(plan);
  edit("NN\": \"" + std::string(nameOf(pathOf(plan, 0))), "NN\": \"columns");
  const TuneReport report = tune(plan);
  ASSERT_EQ(report.products.size(), 1u);
  EXPECT_TRUE(report.products[0].isRemembered);
  EXPECT_EQ(pathOf(plan, 0), GemmPath::columns);
  EXPECT_EQ(report.products[0].isByRule, gemmRule(small, 2).path == GemmPath::columns);
}

TEST_F(TuneProducts, measuresWhatAnotherMachineKnows) {
  plan::Plan plan = planOf({small});
  tune(plan);
  edit(gemmLibrary(), "oneDNN 0.0.1");
  EXPECT_FALSE(tune(plan).products[0].isRemembered);
  EXPECT_NE(folder.read("products.json").find("oneDNN 0.0.1"), std::string::npos) << "the other machine's stays";
  EXPECT_TRUE(tune(plan).products[0].isRemembered);
}

TEST_F(TuneProducts, reportsADamagedCacheAndReplacesIt) {
  folder.write("products.json", R"({"format": "mgc products 2"})");
  plan::Plan plan = planOf({small});
  const TuneReport report = tune(plan);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("products.json: it compares the paths null"), std::string::npos) << report.notes[0];
  EXPECT_TRUE(report.notes[0].ends_with("; measured anew"));
  EXPECT_FALSE(report.products[0].isRemembered);
  EXPECT_TRUE(tune(plan).products[0].isRemembered);
}

TEST_F(TuneProducts, leavesAFileThatIsNoCache) {
  folder.write("products.json", R"({"model_type": "gpt2"})");
  plan::Plan plan = planOf({small});
  EXPECT_TRUE(fails(tuneProducts(plan, {2, cache}), {"products.json: \"format\" is null; expected a cache"}));
  EXPECT_EQ(pathOf(plan, 0), GemmPath::rule) << "refused before anything is measured";
  EXPECT_EQ(folder.read("products.json"), R"({"model_type": "gpt2"})");
}

TEST_F(TuneProducts, saysOnceThatItCannotRemember) {
  cache = folder.write("file", "") + "/products.json";
  plan::Gemm other = small;
  other.accumulate = true;
  plan::Plan plan = planOf({small, other});
  EXPECT_EQ(tune(plan).notes.size(), 1u);
}

TEST_F(TuneProducts, needsNoCache) {
  cache.clear();
  plan::Plan plan = planOf({small});
  EXPECT_TRUE(tune(plan).notes.empty());
  EXPECT_FALSE(tune(plan).products[0].isRemembered);
}

TEST_F(TuneProducts, measuresProductsOfAnySize) {
  plan::Plan plan = planOf({{.m = int64_t(1) << 40, .n = int64_t(1) << 20, .k = 3}});
  EXPECT_EQ(tune(plan).products.size(), 1u);
}

TEST(TuneProductsOptions, threadsAreAtMostTheCores) {
  plan::Plan plan = planOf({});
  const int cores = int(availableCores().size());
  EXPECT_TRUE(fails(tuneProducts(plan, {cores + 1, ""}), {"expected at most " + std::to_string(cores)}));
  plan.mesh.axes = {{"dp", 1000, plan::AxisRole::data}};
  Result<TuneReport> report = tuneProducts(plan, {0, ""});
  ASSERT_TRUE(isOk(report));
  EXPECT_EQ(report->threads, std::max(1, cores / 1000)) << "the cores over the ranks";
}
