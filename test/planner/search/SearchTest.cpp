// A search finds what trying all layouts finds: of five models; of twenty, in minutes:
//   MGC_TEST_SEARCHES=all search_test --gtest_filter=*TryingAll*
#include "planner/search/Search.h"

#include "dialects/mg/training/StageSizes.h"
#include "planner/search/Cuts.h"
#include "planner/search/Shapes.h"
#include "planner/search/StageBounds.h"
#include "test/planner/search/AskedModel.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::planner;
using frontend::kAuto;
using frontend::LayoutOptions;

namespace {

constexpr size_t kWanted = 5;

struct Tried {
  double seconds = 0;
  int64_t bytes = 0;
  std::string flags;
};

schedule::Shape pipelineOf(const frontend::Layout &layout) {
  return {layout.pp, layout.virtualStages, layout.microbatches,
          layout.chunksInV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
}

// The bounds by the layout's shape hold for what it takes, with policies that fit into `memory` where it does.
void expectBounds(const PricedMachine &machine, const frontend::Layout &layout, const ShapeBlocks &shape,
                  const Estimate &made, int64_t memory) {
  const schedule::Shape pipeline = pipelineOf(layout);
  const ShapeFacts facts = factsOf(shape);
  const std::vector<int64_t> cut = chunksOf(facts.cost, std::ssize(facts.chain), layout, pipeline.chunks()).take();
  std::vector<StageLeast> stages = stagesOf(facts, cut, pipeline);
  const plan::Mesh mesh = layout.mesh();
  const auto ranks = [&](const plan::Axes &axes) { return plan::groupSize(mesh, axes); };
  const bool pairs = (*schedule::findSchedule(layout.schedule, pipeline))->pairs;
  const int64_t mostRanks =
      std::max(layout.replicas(), layout.tp * layout.replicas() / (layout.hasExperts ? layout.ep * layout.etp : 1));
  for (const bool isExact : {false, true})
    EXPECT_LE(leastBytes(
                  stages, layout.zero, elementBytesOf(layout),
                  [&](const plan::Axes &axes) { return isExact ? plan::groupSize(mesh, axes) : mostRanks; },
                  InFlight().of(layout.schedule, pipeline)),
              double(made.bytes()));
  const cost::Cluster cluster = machine.cluster(mesh, shape.target());
  if (made.bytes() <= memory && !layout.memory.empty()) {
    std::vector<StageLeast> slower = stages;
    addSlowdown(leastSlowdown(facts, cut, pipeline, pairs, stages, layout.zero, elementBytesOf(layout), ranks,
                              InFlight().of(layout.schedule, pipeline), memory),
                layout.splitBackward, slower);
    addUnits(layout, cluster, slower);
    EXPECT_LE(leastSeconds(slower, layout.microbatches, pairs) + leastStepEnd(layout, cluster, slower),
              made.seconds * (1 + 1e-9));
  }
  addUnits(layout, cluster, stages);
  const double most = made.seconds * (1 + 1e-9);
  EXPECT_LE(leastSeconds(stages, layout.microbatches, pairs) + leastStepEnd(layout, cluster, stages), most);
  EXPECT_LE(made.least, most);
  if (!pairs)
    EXPECT_LE(*leastSecondsOf(shape, layout, machine), most);
}

// The layout with its cut by work, and, where it is searched, with that by seconds.
std::vector<LayoutOptions> cutsOf(const LayoutOptions &options, const frontend::Layout &layout,
                                  const ShapeBlocks &shape, bool opensCut) {
  std::vector<LayoutOptions> cuts = {options};
  if (opensCut && layout.pp > 1) {
    cuts.push_back(options);
    cuts.back().stages = stageSizesText(cutBySeconds(factsOf(shape), pipelineOf(layout)));
  }
  return cuts;
}

// All layouts of the space that fit, with the faster of these cuts, the fastest first.
std::vector<Tried> tryAll(const AskedModel &model, const PricedMachine &machine, int64_t memory, int64_t &enumerated) {
  std::vector<Tried> all;
  SpaceOfLayouts space(model.space, model.given);
  EstimateCache cache;
  std::map<ShapeSizes, std::pair<std::unique_ptr<mlir::MLIRContext>, std::unique_ptr<ShapeBlocks>>> shapes;
  space.forEach([&](const LayoutOptions &options, const Picks &) {
    ++enumerated;
    const Result<frontend::Layout> layout = model.resolve(options);
    if (!layout.isOk())
      return;
    auto &[context, shape] = shapes[sizesOf(options, layout->splitBackward)];
    if (!shape) {
      context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
      context->loadDialect<MgDialect, mlir::func::FuncDialect>();
      auto compiled = ShapeBlocks::compile(*context, options, model.make, machine);
      if (!compiled.isOk())
        return;
      shape = compiled.take();
    }
    std::vector<Tried> tried;
    for (const LayoutOptions &cut : cutsOf(options, *layout, *shape, space.opensCut())) {
      const frontend::Layout own = model.resolve(cut).take();
      Result<Estimate> made = estimate(*shape, own, machine, cache, Policies::fastest);
      if (made.isOk() && made->bytes() > memory)
        made = estimate(*shape, own, machine, cache, Policies::fitting);
      if (made.isOk()) {
        SCOPED_TRACE(frontend::flagsOf(cut));
        expectBounds(machine, own, *shape, *made, memory);
      }
      if (made.isOk() && made->bytes() <= memory)
        tried.push_back({made->seconds, made->bytes(), frontend::flagsOf(cut)});
    }
    if (!tried.empty())
      all.push_back(std::ranges::min(tried, {}, &Tried::seconds));
  });
  std::ranges::stable_sort(all, {}, [](const Tried &one) { return std::pair(one.seconds, one.bytes); });
  return all;
}

struct SearchCase {
  std::string name, example;
  int64_t devices, gbs, seq;
  int64_t memory; // bytes
  LayoutOptions fixed = {};
  double imbalance = 1;
};

// Seconds with the best cut whose chunks have at most 2 layers more or fewer than others would, and with that by work.
std::pair<double, double> bestOfCuts(const AskedModel &model, const LayoutOptions &options, int64_t layers) {
  LayoutOptions byWork = options;
  byWork.stages.reset();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  const auto shape = ShapeBlocks::compile(context, byWork, model.make, model.machine).take();
  EstimateCache cache;
  const auto secondsOf = [&](const LayoutOptions &asked) {
    return estimate(*shape, *model.resolve(asked), model.machine, cache)->seconds;
  };
  double best = INFINITY;
  const int64_t chunks = *options.pp * *options.vpp, mean = layers / chunks;
  Cut cut;
  const std::function<void(int64_t)> tryFrom = [&](int64_t left) {
    const bool isLast = std::ssize(cut) + 1 == chunks;
    for (int64_t own = std::max<int64_t>(1, mean - 2); own <= mean + 2; ++own) {
      if (isLast && own != left)
        continue;
      cut.push_back(own);
      if (isLast) {
        LayoutOptions asked = options;
        asked.stages = stageSizesText(cut);
        best = std::min(best, secondsOf(asked));
      } else
        tryFrom(left - own);
      cut.pop_back();
    }
  };
  tryFrom(layers);
  return {best, secondsOf(byWork)};
}

class SearchTest : public testing::TestWithParam<SearchCase> {};

} // namespace

TEST_P(SearchTest, FindsWhatTryingAllFinds) {
  const SearchCase &of = GetParam();
  LayoutOptions options = frontend::either(of.fixed, gpuOptions(of.gbs, of.seq));
  options.memory = std::to_string(of.memory);
  const AskedModel model(of.example, options, of.devices);
  int64_t enumerated = 0;
  const PricedMachine machine(model.machine, of.imbalance);
  const std::vector<Tried> all = tryAll(model, machine, of.memory, enumerated);
  const SearchRequest request{
      model.space,      model.given, machine,    of.memory,
      int64_t(1) << 50, kWanted,     model.make, [&](const LayoutOptions &asked) { return model.resolve(asked); }};
  const FoundLayouts found = search(request);
  EXPECT_EQ(found.counts.enumerated, enumerated);
  ASSERT_EQ(found.answers.size(), std::min(kWanted, all.size()));
  // Other cuts of the fastest may be faster still.
  const bool hasOtherCuts =
      std::ranges::any_of(found.answers, [](const Answer &answer) { return answer.options.stages.has_value(); });
  for (size_t i = 0; i < found.answers.size(); ++i) {
    const double seconds = found.answers[i].estimate.seconds;
    EXPECT_LE(seconds, all[i].seconds * (1 + 1e-9))
        << frontend::flagsOf(found.answers[i].options) << "\n  expected " << all[i].flags;
    if (!hasOtherCuts)
      EXPECT_NEAR(seconds, all[i].seconds, 1e-9 * all[i].seconds);
  }
  EXPECT_LT(found.counts.estimated + found.counts.fitted, enumerated); // bounds leave some out
  EXPECT_EQ(found.counts.refused + found.counts.tooLarge + found.counts.tooSlow + found.counts.estimated, enumerated);
}

// Counts of many microbatches, which follow from those of few, are those of their orders.
TEST(Search, KnowsMicrobatchesInFlight) {
  InFlight inFlight;
  int64_t compared = 0;
  for (const schedule::ScheduleRow &row : schedule::schedules())
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t chunks = row.minVirtualStages; chunks <= std::min<int64_t>(row.maxVirtualStages, 3); ++chunks)
        for (int64_t microbatches = 1; microbatches <= 7 * stages + 1; ++microbatches) {
          schedule::Problem problem;
          problem.schedule = row.name, problem.shape = {stages, chunks, microbatches, row.placement};
          if (row.byTime || !schedule::findSchedule(row.name, problem.shape).isOk())
            continue;
          SCOPED_TRACE(fmt::format("{} {} {} {}", row.name, stages, chunks, microbatches));
          const InFlight::Counts found = inFlight.of(row.name, problem.shape);
          const std::vector<schedule::Order> orders = row.orders(problem);
          for (size_t stage = 0; stage < orders.size(); ++stage) {
            int64_t now = 0, most = 0;
            for (const schedule::ScheduledTask &task : orders[stage]) {
              now += task.kind == schedule::TaskKind::forward ? 1 : -schedule::makesGradient(task.kind);
              most = std::max(most, now);
            }
            EXPECT_EQ(std::accumulate(found[stage].begin(), found[stage].end(), int64_t(0)), most);
            ++compared;
          }
        }
  EXPECT_GT(compared, 1000);
}

// One layout, whose cuts are few: the search of the cut alone finds the best of all, or, where moving one layer makes no cut between
// faster, about the best.
TEST(Search, FindsTheBestCutOfALayout) {
  LayoutOptions options = gpuOptions(16, 512);
  options.tp = 2, options.pp = 2, options.dp = 1, options.mbs = 1, options.zero = 0, options.recompute = false;
  int64_t faster = 0;
  for (const auto &[example, layers, schedule, vpp, isExact] :
       {std::tuple("llama-3-8b", 32, "1f1b", 1, true), std::tuple("llama-3-8b", 32, "interleaved", 2, true),
        std::tuple("llama-3-8b", 32, "zb-v", 2, true), std::tuple("gpt2", 12, "interleaved", 3, true),
        std::tuple("deepseek-v2-lite", 27, "zb-v", 2, true), std::tuple("deepseek-v2-lite", 27, "interleaved", 2, true),
        std::tuple("gemma-2-9b", 42, "zb-v", 2, true), std::tuple("t5-large", 48, "zb-h1", 1, true),
        std::tuple("t5-large", 48, "interleaved", 2, false)}) {
    SCOPED_TRACE(fmt::format("{} {}", example, schedule));
    options.schedule = schedule, options.vpp = vpp, options.stages = frontend::kAutoCut;
    const AskedModel model(example, options, 4);
    const SearchRequest request{
        model.space,      model.given, model.machine, int64_t(1) << 50,
        int64_t(1) << 50, 1,           model.make,    [&](const LayoutOptions &asked) { return model.resolve(asked); }};
    const FoundLayouts found = search(request);
    ASSERT_EQ(found.answers.size(), 1);
    const auto [best, byWork] = bestOfCuts(model, found.answers.front().options, layers);
    EXPECT_LE(found.answers.front().estimate.seconds, best * (isExact ? 1 + 1e-9 : 1.003))
        << frontend::flagsOf(found.answers.front().options);
    faster += found.answers.front().estimate.seconds < byWork * (1 - 1e-9);
  }
  EXPECT_GT(faster, 0);
}

// Where the policy of recomputation is given, what does not fit is no answer.
TEST(Search, OfAPolicyThatIsGiven) {
  LayoutOptions options = gpuOptions(16, 4096);
  options.recompute = false, options.cp = 1;
  const AskedModel model("qwen3-0.6b", options, 8);
  const int64_t memory = int64_t(12) << 30;
  const SearchRequest request{
      model.space,      model.given, model.machine, memory,
      int64_t(1) << 50, kWanted,     model.make,    [&](const LayoutOptions &asked) { return model.resolve(asked); }};
  const FoundLayouts found = search(request);
  EXPECT_GT(found.counts.unfit, 0);
  EXPECT_FALSE(found.answers.empty());
  for (const Answer &answer : found.answers)
    EXPECT_LE(answer.estimate.bytes(), memory);
}

constexpr int64_t kGiB = int64_t(1) << 30;
static std::vector<SearchCase> searchCases() {
  std::vector<SearchCase> cases = {
      {"gpt", "tiny-gpt", 8, 16, 64, 75 * kGiB},
      {"memory", "qwen3-0.6b", 8, 16, 4096, 8 * kGiB, {.tp = 1, .cp = 1, .zero = 1}},
      {"context", "qwen3-0.6b", 8, 8, 4096, 75 * kGiB, {.tp = 1, .zero = 1}},
      {"open",
       "qwen3-0.6b",
       8,
       32,
       256,
       75 * kGiB,
       {.tp = kAuto, .pp = kAuto, .mbs = kAuto, .zero = kAuto, .schedule = "zb-v"}},
      {"encoder", "t5-large", 8, 8, 512, 75 * kGiB, {.tp = 2, .cp = 1, .zero = 1}},
      {"experts", "qwen1.5-moe-a2.7b", 8, 8, 2048, 60 * kGiB, {.tp = 2, .cp = 1, .mbs = 1}},
      {"uneven", "qwen1.5-moe-a2.7b", 8, 8, 2048, 40 * kGiB, {.tp = 1, .cp = 1, .mbs = 1, .zero = 1}, 3}};
  if (std::getenv("MGC_TEST_SEARCHES"))
    cases.insert(cases.end(),
                 {{"gpt16", "tiny-gpt", 16, 32, 64, 75 * kGiB},
                  {"gpt64", "tiny-gpt", 64, 64, 64, 75 * kGiB, {.cp = 1}},
                  {"llama", "tiny-llama", 8, 16, 64, 75 * kGiB},
                  {"qwen64", "qwen3-0.6b", 64, 64, 2048, 75 * kGiB, {.tp = 1, .cp = 1}},
                  {"qwen16", "qwen2.5-0.5b", 16, 32, 2048, 10 * kGiB, {.cp = 1, .zero = 1}},
                  {"gemma", "gemma-2-9b", 16, 16, 2048, 75 * kGiB, {.tp = 2, .cp = 1, .zero = 1}},
                  {"mixtral", "mixtral-8x7b-v0.1", 32, 32, 4096, 75 * kGiB, {.tp = 1, .cp = 1, .mbs = 1}},
                  {"oss", "gpt-oss-20b", 16, 16, 2048, 75 * kGiB, {.tp = 1, .cp = 1, .mbs = 1}},
                  {"latent", "deepseek-v2-lite", 16, 16, 2048, 75 * kGiB, {.tp = 1, .cp = 1, .mbs = 1}},
                  {"latent_uneven", "deepseek-v2-lite", 16, 16, 2048, 60 * kGiB, {.tp = 1, .cp = 1, .mbs = 1}, 4},
                  {"olmoe", "olmoe-1b-7b-0924", 8, 8, 2048, 40 * kGiB, {.tp = 1, .cp = 1}},
                  {"bart", "bart-large-cnn", 8, 8, 512, 75 * kGiB, {.cp = 1, .mbs = 1}},
                  {"bert", "bert-large-uncased", 8, 16, 512, 75 * kGiB, {.cp = 1}},
                  {"llama32", "llama-3-8b", 32, 32, 4096, 75 * kGiB, {.tp = 4, .cp = 1}},
                  {"phi", "phi-2", 8, 8, 2048, 20 * kGiB, {.tp = 2, .cp = 1}},
                  {"neox", "pythia-6.9b", 16, 16, 2048, 40 * kGiB, {.cp = 1, .zero = 3}}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, SearchTest, testing::ValuesIn(searchCases()),
                         [](const auto &info) { return info.param.name; });
