// Layouts: what is filled in, and every violation with the values that would work.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

TEST(LayoutDefaults, OneRank) {
  Layout one = layout(tinyGpt2(), {});
  EXPECT_EQ(one.world(), 1);
  EXPECT_FALSE(one.sequenceParallel);
  EXPECT_EQ(one.sequenceLength, 64); // the model's positions
  EXPECT_EQ(one.globalBatchSize, 1);
  EXPECT_EQ(one.microbatches, 1);
  EXPECT_EQ(one.schedule, "1f1b");
  EXPECT_EQ(one.dtype, mgc::plan::DType::f32);
  EXPECT_TRUE(one.mesh().axes.empty());
  EXPECT_EQ(one.mesh().worldSize(), 1);
}

TEST(LayoutDefaults, FollowFromWhatIsGiven) {
  Layout layout = ::layout(tinyGpt2(), {.tp = 2, .pp = 2, .world = 8, .mbs = 2});
  EXPECT_EQ(layout.dp, 2);
  EXPECT_TRUE(layout.sequenceParallel);
  EXPECT_EQ(layout.globalBatchSize, 8); // mbs 2, dp 2, pp 2
  EXPECT_EQ(layout.microbatches, 2);
  EXPECT_EQ(reasonOf(layout, "--tp"), "2: given");
  EXPECT_EQ(reasonOf(layout, "--dp"), "2: world / (tp * cp * pp)");
  EXPECT_EQ(reasonOf(layout, "--sp"), "true: tp > 1");
  EXPECT_EQ(reasonOf(layout, "--gbs"), "8: mbs * dp * pp");
}

TEST(LayoutDefaults, VirtualStagesInterleave) {
  Layout asked = layout(tinyGpt2(), {.pp = 2, .vpp = 2});
  EXPECT_EQ(asked.schedule, "interleaved");
  Layout implied = layout(tinyGpt2(), {.pp = 2, .schedule = "interleaved"});
  EXPECT_EQ(implied.virtualStages, 2);
  EXPECT_TRUE(layout(tinyGpt2(), {.pp = 2, .schedule = "zb-h1"}).splitBackward);
}

TEST(LayoutDefaults, FileThenFlags) {
  Result<ModelFile> file = parse(with(tinyGpt2(), {{"mgc", {{"tp", 2}, {"sp", false}, {"seq", 32}}}}));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  Result<Layout> layout = resolveLayout(file->model, {.tp = 4}, file->defaults, kSupported);
  ASSERT_TRUE(layout.isOk()) << layout.status().message();
  EXPECT_EQ(layout->tp, 4);
  EXPECT_FALSE(layout->sequenceParallel);
  EXPECT_EQ(reasonOf(*layout, "--tp"), "4: given");
  EXPECT_EQ(reasonOf(*layout, "--seq"), "32: given in config.json");
}

TEST(LayoutDefaults, WrongFieldsOfTheFile) {
  EXPECT_EQ(
      frontend::errorOf(with(tinyGpt2(), {{"mgc", {{"tp", "two"}, {"fast", true}}}})),
      "config.json: mgc.tp = \"two\" is not a whole number from 1 to 65536\n"
      "config.json: mgc.fast = true is not understood for the defaults of mgc compile\n"
      "  possible: model, tp, cp, cp_comm_type, hierarchical_context_parallel_sizes, cp_order, ep, etp, "
      "moe_token_dispatcher_type, pp, dp, world, vpp, num_layers_per_virtual_pipeline_stage, stages, "
      "decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers, account_for_embedding_in_pipeline_split, "
      "account_for_loss_in_pipeline_split, pipeline_model_parallel_layout, sp, seq, "
      "encoder_seq_length, mbs, gbs, zero, num_distributed_optimizer_instances, outer_dp_sharding_strategy, "
      "reshard_after_forward, optimizer, "
      "schedule, schedule_memory, machine, "
      "dtype, "
      "grad_dtype, fp32_residual_connection, reset_position_ids, reset_attention_mask, moe_router_load_balancing_type, "
      "moe_aux_loss_coeff, moe_z_loss_coeff, moe_expert_capacity_factor, moe_token_drop_policy, moe_rows_factor, "
      "moe_per_layer_logging, "
      "mtp_num_layers, mtp_loss_scaling_factor, freeze, recompute, recompute_granularity, recompute_method, "
      "recompute_num_layers, recompute_modules, recompute_activations, moe_layer_recompute, memory, "
      "optimizer_cpu_offload, optimizer_offload_fraction, offload, fine_grained_activation_offloading, "
      "offload_modules, activation_offload_fraction, host_memory, loss_tile, "
      "overlap_grad_reduce, overlap_param_gather, "
      "ddp_bucket_size, target");
}

TEST(LayoutMesh, TensorAxisSplitsIntoGroupsAndQueries) {
  Layout layout = ::layout(tinyDecoder("llama"), {.tp = 4, .pp = 2, .dp = 3, .gbs = 6}); // 4 heads in 2 groups
  EXPECT_EQ(layout.tpGroups, 2);
  EXPECT_EQ(layout.tpQueries, 2);
  plan::Mesh mesh = layout.mesh();
  std::vector<std::string> axes;
  for (const plan::Axis &axis : mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  EXPECT_EQ(axes, std::vector<std::string>({"pp=2", "dp=3", "tpg=2", "tpr=2"}));
  EXPECT_EQ(mesh.named.at("tp"), plan::Axes({"tpg", "tpr"}));
  EXPECT_EQ(mesh.worldSize(), 24);
}

TEST(LayoutMesh, OneNameWhereTheTensorAxisIsNotSplit) {
  plan::Mesh groups = layout(tinyDecoder("llama"), {.tp = 2}).mesh();
  ASSERT_EQ(groups.axes.size(), 1u);
  EXPECT_EQ(groups.axes[0].name, "tp");
  EXPECT_EQ(groups.named.at("tpg"), plan::Axes({"tp"}));
  EXPECT_EQ(groups.named.at("tpr"), plan::Axes());
  EXPECT_EQ(groups.named.at("dp"), plan::Axes());
  json oneGroup = with(tinyDecoder("llama"), {{"num_key_value_heads", 1}});
  EXPECT_EQ(layout(oneGroup, {.tp = 2}).mesh().named.at("tpr"), plan::Axes({"tp"}));
}

TEST(LayoutMesh, GroupsAndQueriesOfTheCalculus) {
  auto split = [](int64_t groups, int64_t perGroup, int64_t tp) {
    AttentionDescription attention;
    attention.groups = groups;
    attention.heads = groups * perGroup;
    return splitTensorAxis(attention, tp);
  };
  EXPECT_EQ(split(2, 4, 4), std::pair(int64_t(2), int64_t(2)));
  EXPECT_EQ(split(6, 2, 4), std::pair(int64_t(2), int64_t(2)));
  EXPECT_EQ(split(30, 1, 4), std::nullopt);
  EXPECT_EQ(split(1, 4, 4), std::pair(int64_t(1), int64_t(4)));
}

TEST(LayoutViolation, SharedExpertsOverTensorRanks) {
  EXPECT_EQ(errorOf(with(tinyDecoder("qwen2_moe"), {{"shared_expert_intermediate_size", 18}}), {.tp = 4}),
            "config.json: shared_expert_intermediate_size = 18 does not divide over tp = 4\n"
            "  possible tp: 1, 2, 3, 6, 9, 18");
  EXPECT_EQ(errorOf(with(tinyDecoder("glm4_moe"), {{"n_shared_experts", 1}, {"moe_intermediate_size", 6}}),
                    {.etp = 1, .tp = 4}),
            "config.json: n_shared_experts * moe_intermediate_size = 6 does not divide over tp = 4\n"
            "  possible tp: 1, 2, 3, 6");
}

TEST(LayoutViolation, HeadsOverTensorRanks) {
  json config = with(tinyGpt2(), {{"n_embd", 60}, {"n_head", 30}, {"n_inner", 64}});
  EXPECT_EQ(errorOf(config, {.tp = 4}), "config.json: n_head = 30 does not divide over tp = 4\n"
                                        "  possible tp: 1, 2, 3, 5, 6, 10, 15, 30");
}

TEST(LayoutViolation, GroupedHeads) {
  json config = with(tinyDecoder("llama"), {{"intermediate_size", 96}, {"max_position_embeddings", 96}});
  EXPECT_EQ(errorOf(config, {.tp = 8}),
            "config.json: num_attention_heads = 4 (in num_key_value_heads = 2 groups) does not divide over tp = 8\n"
            "  possible tp: 1, 2, 4");
}

TEST(LayoutVocabulary, IsPaddedForProductsAndTp) {
  const ModelDescription described = model(with(tinyGpt2(), {{"vocab_size", 100}}));
  for (const auto &[tp, padded] :
       {std::pair(1, 128), std::pair(2, 128), std::pair(3, 384), std::pair(12, 384), std::pair(256, 256)}) {
    Layout layout;
    layout.tp = tp;
    EXPECT_EQ(layout.paddedVocabulary(described), padded) << tp;
  }
}

TEST(LayoutViolation, FfnAndSequence) {
  json config = with(tinyDecoder("llama"), {{"num_attention_heads", 6}, {"num_key_value_heads", 6}, {"head_dim", 8}});
  EXPECT_EQ(errorOf(config, {.tp = 3}), "config.json: intermediate_size = 80 does not divide over tp = 3\n"
                                        "  possible tp: 1, 2, 4, 5, 8, 10, 16, 20, 40, 80\n"
                                        "config.json: --seq 64 with --sp true does not divide over tp = 3\n"
                                        "  possible tp: 1, 2, 4, 8, 16, 32, 64\n"
                                        "  possible tp for all of this: 1, 2");
}

TEST(LayoutViolation, SequenceNeedNotDivideWithoutSequenceParallelism) {
  EXPECT_NE(errorOf(tinyGpt2(), {.tp = 2, .seq = 33}), "");
  EXPECT_EQ(errorOf(tinyGpt2(), {.tp = 2, .seq = 33, .sp = false}), "");
}

TEST(LayoutViolation, PositionsAreAnErrorOnlyWhenLearned) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.seq = 65}),
            "config.json: --seq 65 exceeds n_positions = 64: there are no learned positions beyond\n"
            "  possible --seq: 1 to 64; any with --reset-position-ids, for documents of at most 64 tokens");
  Layout llama = layout(tinyDecoder("llama"), {.seq = 128});
  ASSERT_EQ(llama.warnings.size(), 1u); // printed by mgc compile
  EXPECT_NE(llama.warnings[0].find("--seq 128 exceeds max_position_embeddings = 64"), std::string::npos);
}

TEST(LayoutViolation, RotaryAnglesEnd) {
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.seq = (1 << 22) + 1}),
            "config.json: --seq 4194305 exceeds the 4194304 positions that rotary angles are computed for\n"
            "  possible --seq: 1 to 4194304");
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.seq = 1 << 22}), "");
}

TEST(LayoutViolation, BytesOfAStepFitIn64Bits) {
  json config = with(tinyGpt2(), {{"n_positions", 1 << 30}, {"n_embd", 1 << 12}});
  EXPECT_EQ(errorOf(config, {.seq = 1 << 30, .mbs = 1 << 20, .gbs = 1 << 20}),
            "config.json: --gbs 1048576 with --seq 1073741824: a step has more than 1099511627776 tokens\n"
            "  possible --gbs with this --seq and mbs * dp = 1048576: none\n"
            "  possible --seq with this --gbs: 1 to 1048576\n"
            "config.json: --seq 1073741824 with 1048576 sequences: the bytes of a step exceed 64 bits\n"
            "  possible --seq with as many sequences: 1 to 419430");
  EXPECT_EQ(errorOf(config, {.seq = 1 << 20, .mbs = 1, .gbs = 1}), "");
}

TEST(LayoutViolation, Batch) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 2, .mbs = 2, .gbs = 10}),
            "config.json: --gbs 10 is not mbs * dp * microbatches with mbs = 2, dp = 2\n"
            "  possible --gbs: multiples of 4: 8, 12\n"
            "  possible --mbs: 1, 5");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .gbs = 3}),
            "config.json: --gbs 3 is not mbs * dp * microbatches with mbs = 1, dp = 4\n"
            "  possible --gbs: multiples of 4: 4");
}

TEST(Layout, LossTilesAreAsLargeAsTheTargetsMemoryIsSlow) {
  const auto tileOf = [&](const LayoutOptions &flags) { return layout(tinyGpt2(), flags).lossTile; };
  EXPECT_EQ(tileOf({}), 512);                 // 12 / 512 < 2.4 %
  EXPECT_EQ(tileOf({.target = "gpu"}), 8192); // 267 / 8192 < 3.3 %
  EXPECT_EQ(tileOf({.lossTile = 7, .target = "gpu"}), 7);
}

// A schedule that takes 12 microbatches over its stages and their chunks.
Status limited(const LayoutOptions &flags) {
  const Supported few = {{{"few", false, 1, INT64_MAX, true, [](int64_t pp, int64_t vpp) { return 12 / (pp * vpp); }}},
                         kSupported.dtypes,
                         kSupported.targets};
  return resolveLayout(model(tinyGpt2()), flags, {}, few).status();
}

TEST(LayoutViolation, MoreMicrobatchesThanTheScheduleTakes) {
  EXPECT_TRUE(limited({.gbs = 12}).isOk());
  EXPECT_EQ(
      limited({.gbs = 1000000000}).message(),
      "config.json: --gbs 1000000000 with mbs = 1, dp = 1 is 1000000000 microbatches: --schedule few with pp = 1, vpp "
      "= 1 takes at most 12\n"
      "  possible --gbs: 1 to 12\n"
      "  a layout that works: --tp 1 --pp 1 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 12 --zero 0 --schedule few");
  EXPECT_EQ(
      limited({.pp = 2, .dp = 2, .mbs = 3, .gbs = 43}).message(),
      "config.json: --gbs 43 with mbs = 3, dp = 2 is 7 microbatches: --schedule few with pp = 2, vpp = 1 takes at most "
      "6\n"
      "  possible --gbs: multiples of 6: 6 to 36\n"
      "  a layout that works: --tp 1 --pp 2 --dp 2 --vpp 1 --no-sp --seq 64 --mbs 3 --gbs 36 --zero 0 --schedule few");
}

TEST(LayoutViolation, ProposalsKeepToTheMicrobatchesOfTheSchedule) {
  EXPECT_NE(limited({.dp = 2, .gbs = 25}).message().find("possible --gbs: multiples of 2: 24\n"), std::string::npos);
  EXPECT_NE(limited({.dp = 1000000, .gbs = 1000000})
                .message()
                .find("works: --tp 1 --pp 1 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 12 "),
            std::string::npos);
  const std::string none = limited({.pp = 4, .vpp = 4}).message();
  EXPECT_NE(none.find("possible --gbs: none with so many stages and chunks"), std::string::npos) << none;
}

TEST(LayoutViolation, Pipeline) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 4, .vpp = 2}),
            "config.json: n_layer = 4 is fewer than the pp * vpp = 4 * 2 = 8 chunks\n"
            "  possible --pp with --vpp 2: 1 to 2\n"
            "  possible --vpp with --pp 4: 1 to 1");
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 8, .vpp = 8}),
            "config.json: n_layer = 4 is fewer than the pp * vpp = 8 * 8 = 64 chunks\n"
            "  possible pp * vpp: 1 to 4");
  EXPECT_EQ(errorOf(tinyGpt2(), {.vpp = 2}),
            "config.json: --vpp 2 needs --pp > 1: one stage has nothing to interleave with\n"
            "  possible --vpp with --pp 1: 1");
  Supported supported = kSupported;
  supported.schedules.push_back({.name = "pairs", .minVirtualStages = 2, .maxVirtualStages = 2});
  EXPECT_EQ(
      resolveLayout(model(tinyGpt2()), {.schedule = "pairs"}, {}, supported).status().message(),
      "config.json: --schedule pairs needs --pp > 1: one stage has nothing to interleave with\n"
      "  possible --pp with it: 2 or more\n"
      "  a layout that works: --tp 1 --pp 1 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 1 --zero 0 --schedule 1f1b");
}

TEST(LayoutViolation, Schedules) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 2, .vpp = 2, .schedule = "1f1b"}),
            "config.json: --schedule 1f1b does not take --vpp 2\n"
            "  possible --vpp with it: 1\n"
            "  possible --schedule with --vpp 2: interleaved");
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 2, .vpp = 1, .schedule = "interleaved"}),
            "config.json: --schedule interleaved does not take --vpp 1\n"
            "  possible --vpp with it: 2 or more\n"
            "  possible --schedule with --vpp 1: gpipe, 1f1b, zb-h1");
  EXPECT_EQ(errorOf(tinyGpt2(), {.schedule = "fast"}),
            "config.json: --schedule fast is not known\n  possible --schedule: gpipe, 1f1b, interleaved, zb-h1, or a "
            "file: its path has a dot or a slash, or is there");
  for (const char *schedule : {"1f1b", "zb-h1"}) // these schedules have no use for a machine
    EXPECT_NE(errorOf(tinyGpt2(), {.schedule = schedule, .machine = "nothere"}).find("--machine nothere is not known"),
              std::string::npos);
}

// A schedule that a file gives, and one that is planned: rows that the caller adds.
TEST(LayoutDefaults, SchedulesOfFilesAndTimes) {
  Supported supported = kSupported;
  ScheduleInfo file{"mine.txt", true, 2, 2};
  file.chunksInV = true;
  file.nameInProgram = "file:mine.txt";
  file.text = "stage 0: ..";
  file.stages = 2;
  file.microbatches = 4;
  supported.schedules.push_back(file);
  ScheduleInfo planned{"auto", true, 1, 2};
  planned.byTime = true;
  supported.schedules.push_back(planned);
  supported.machines = {{"h100", "h100"}, {"mine.json", "{..}"}};
  auto resolve = [&](const LayoutOptions &flags) { return resolveLayout(model(tinyGpt2()), flags, {}, supported); };
  Result<Layout> layout = resolve({.pp = 2, .gbs = 4, .schedule = "mine.txt"});
  ASSERT_TRUE(layout.isOk()) << layout.status().message();
  EXPECT_EQ(layout->virtualStages, 2);
  EXPECT_EQ(layout->schedule, "file:mine.txt");
  EXPECT_EQ(layout->scheduleText, "stage 0: ..");
  EXPECT_TRUE(layout->chunksInV && layout->splitBackward);
  EXPECT_FALSE(layout->scheduleMemory);
  EXPECT_EQ(resolve({.pp = 2, .schedule = "auto", .scheduleMemory = 0.0})->scheduleMemory, 0);
  layout = resolve({.pp = 2, .gbs = 4, .schedule = "auto", .scheduleMemory = 0.5});
  ASSERT_TRUE(layout.isOk()) << layout.status().message();
  EXPECT_EQ(layout->scheduleMemory, 0.5);
  EXPECT_FALSE(layout->chunksInV || !layout->scheduleText.empty());
  EXPECT_EQ(resolve({.pp = 2, .schedule = "auto"})->scheduleMemory, 1);
  EXPECT_EQ(resolve({.pp = 2, .schedule = "auto"})->machine, "");
  EXPECT_EQ(resolve({.pp = 2, .schedule = "auto", .machine = "h100"})->machine, "h100");
  EXPECT_EQ(resolve({.pp = 2, .schedule = "auto", .machine = "mine.json"})->machine, "{..}");
  EXPECT_NE(resolve({.pp = 2, .schedule = "auto", .machine = "h1000"})
                .status()
                .message()
                .find("--machine h1000 is not known\n  possible --machine: h100, mine.json"),
            std::string::npos);
  EXPECT_EQ(resolve({.pp = 2, .machine = "h100"})->machine, "h100"); // a plan is compared with its memory
  EXPECT_EQ(resolve({.pp = 2, .scheduleMemory = 2.0})->warnings.back(),
            "--schedule-memory does nothing here: --schedule 1f1b has its own order");
  layout = resolve({.pp = 4, .vpp = 1, .gbs = 6, .schedule = "mine.txt"});
  ASSERT_FALSE(layout.isOk());
  EXPECT_EQ(
      layout.status().message(),
      "config.json: --schedule mine.txt has 2 stages, --pp is 4\n"
      "  possible --pp with it: 2\n"
      "config.json: --schedule mine.txt has 4 microbatches; --gbs 6 with mbs = 1, dp = 1 is 6\n"
      "  possible --gbs with it: 4\n"
      "config.json: --schedule mine.txt does not take --vpp 1\n"
      "  possible --vpp with it: 2\n"
      "  possible --schedule with --vpp 1: gpipe, 1f1b, zb-h1, auto\n"
      "  a layout that works: --tp 1 --pp 4 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 6 --zero 0 --schedule 1f1b");
  for (double memory : {-1.0, 1e9, double(NAN)})
    EXPECT_NE(resolve({.pp = 2, .schedule = "auto", .scheduleMemory = memory})
                  .status()
                  .message()
                  .find("is not from 0 to 65536"),
              std::string::npos);
}

// --- Context parallelism: 4 heads, 64 positions ------------------------------------------------------------

TEST(LayoutContext, IsFilledIn) {
  const Layout gathered = layout(tinyGpt2(), {.seq = 64, .cp = 4});
  EXPECT_EQ(gathered.contextTypes, std::vector<std::string>(gathered.contextTypes.size(), "all_gather"));
  EXPECT_EQ(gathered.zigzag, gathered.cp);
  EXPECT_EQ(gathered.world(), 4);
  const Layout exchanged = layout(tinyGpt2(), {.cp = 4, .contextTypes = {{"a2a"}}});
  EXPECT_EQ(exchanged.zigzag, 1);
  EXPECT_EQ(exchanged.cpGroups, 4);
  const Layout both = layout(tinyGpt2(), {.cp = 8, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{4, 2}}});
  EXPECT_EQ(both.zigzag, both.cp);
  EXPECT_EQ(both.cpInner, 4);
  EXPECT_EQ(both.mesh().named.at("cpi"), both.mesh().named.at("cpig"));
  EXPECT_EQ(both.mesh().named.at("cp"), (std::vector<std::string>{"cpo", "cpi"})); // neighbours exchange heads
}

TEST(LayoutContext, OfHierarchiesAloneTheInnerRanksShareHeads) { // 2 groups over 6 ranks would be cut at 3
  const json config = with(tinyDecoder("llama"), {{"num_attention_heads", 4}, {"num_key_value_heads", 2}});
  const LayoutOptions options{.seq = 48, .cp = 6, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{2, 3}}};
  EXPECT_EQ(layout(config, options).cpInnerGroups, 2);
}

TEST(LayoutContext, FewGroupsShareQueries) {
  const json config =
      with(tinyDecoder("llama"), {{"num_attention_heads", 8}, {"num_key_value_heads", 2}, {"head_dim", 4}});
  const Layout split = layout(config, {.tp = 2, .cp = 4, .contextTypes = {{"a2a"}}});
  EXPECT_EQ(split.tpGroups, 2);
  EXPECT_EQ(split.cpGroups, 1); // a rank of tp has one group, four ranks of cp share its queries
  EXPECT_EQ(split.mesh().named.at("cpr").size(), 1u);
}

TEST(LayoutViolation, Context) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.seq = 60, .cp = 8}),
            "config.json: --seq 60 in two chunks a rank (--cp-order zigzag) does not divide over cp = 8\n"
            "  possible cp: 1, 2, 3, 5, 6, 10, 15, 30");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 8, .contextTypes = {{"a2a"}}}),
            "config.json: --cp-comm-type a2a: n_head = 4 in 4 groups, less tp = 1, does not divide over cp = 8\n"
            "  possible cp: 1, 2, 4");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 2, .contextTypes = {{"ulysses"}}}),
            "config.json: --cp-comm-type ulysses: is not known\n"
            "  possible --cp-comm-type: all_gather, a2a, a2a+p2p, a2a+all_gather, p2p");
  EXPECT_EQ(errorOf(tinyGpt2(), {.seq = 60, .cp = 8, .contextTypes = {{"p2p"}}}),
            "config.json: --seq 60 in two chunks a rank (--cp-order zigzag) does not divide over cp = 8\n"
            "  possible cp: 1, 2, 3, 5, 6, 10, 15, 30");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 4, .contextTypes = {{"a2a+p2p"}}}),
            "config.json: --cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B: ranks that exchange "
            "heads, and groups of them\n"
            "  possible --hierarchical-context-parallel-sizes: 1 4, 2 2, 4 1");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 4, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{3, 2}}}),
            "config.json: --hierarchical-context-parallel-sizes 3 2 are not two sizes whose product is cp = 4\n"
            "  possible --hierarchical-context-parallel-sizes: 1 4, 2 2, 4 1");
  EXPECT_EQ(
      errorOf(tinyGpt2(), {.cp = 16, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{8, 2}}}),
      "config.json: --hierarchical-context-parallel-sizes 8 2: n_head = 4, less tp = 1, do not divide over the first\n"
      "  possible first of --hierarchical-context-parallel-sizes with cp = 16: 1, 2, 4");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 8, .contextTypes = {{"a2a+all_gather"}}}),
            "config.json: --cp-comm-type a2a+all_gather needs --hierarchical-context-parallel-sizes A B: ranks that "
            "exchange heads, and groups of them\n"
            "  possible --hierarchical-context-parallel-sizes: 1 8, 2 4, 4 2, 8 1");
  EXPECT_EQ(errorOf(tinyGpt2(), {.cp = 2, .contextTypes = {{"a2a", "all_gather", "a2a"}}}),
            "config.json: --cp-comm-type: 3 types for n_layer = 4\n"
            "  possible: one type for all layers, or one per layer");
  const json bias = {{"buckets", 8}, {"max_distance", 16}};
  const json sharesBias = {{"model", {{"layer", {{"attention", {{"relative_bias", bias}}}}}}}};
  EXPECT_EQ(errorOf(with(tinyDecoder("llama"), {{"mgc", sharesBias}}),
                    {.cp = 2, .contextTypes = {{"p2p", "a2a", "all_gather", "p2p"}}}),
            "config.json: --cp-comm-type p2p, a2a, all_gather, p2p: layers that share one table of biases "
            "(attention.relative_bias) exchange heads in several ways\n"
            "  possible: one type for all layers, or any of those that exchange no heads");
  EXPECT_EQ(errorOf(tinyGpt2(), {.contextTypes = {{"a2a"}}}),
            "config.json: --cp-comm-type with cp = 1: each rank has the whole sequence\n"
            "  possible: --cp-comm-type with --cp 2 or more, or without --cp-comm-type");
}

TEST(LayoutViolation, ContextNear) {
  EXPECT_EQ(suggestion(tinyGpt2(), {.seq = 60, .cp = 8}).find("--tp 1 --cp 6 --cp-comm-type all_gather "), 0u);
  EXPECT_EQ(suggestion(tinyGpt2(), {.cp = 8, .contextTypes = {{"a2a"}}}).find("--tp 1 --cp 4 --cp-comm-type a2a "), 0u);
  EXPECT_EQ(
      suggestion(tinyGpt2(), {.seq = 60, .cp = 8, .contextTypes = {{"p2p"}}}).find("--tp 1 --cp 6 --cp-comm-type p2p "),
      0u);
  EXPECT_EQ(suggestion(tinyGpt2(), {.cp = 8, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{8, 1}}})
                .find("--tp 1 --cp 8 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 4 2 "),
            0u);
  EXPECT_EQ(suggestion(tinyGpt2(), {.seq = 60, .cp = 8, .contextTypes = {{"a2a+p2p"}}, .contextHierarchy = {{2, 4}}})
                .find("--tp 1 --cp 6 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 3 "),
            0u);
}

} // namespace

// Scripts that try many layouts ask for these everywhere: said, not refused.
TEST(LayoutInstances, AreEqualGroupsOfDataRanks) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .zero = 1, .instances = 2}), "");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .zero = 1, .instances = 3}),
            "config.json: --num-distributed-optimizer-instances 3 does not divide dp = 4 into groups of equal size\n"
            "  possible --num-distributed-optimizer-instances with this dp: 1, 2, 4");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .instances = 2}),
            "config.json: --num-distributed-optimizer-instances 2 with --zero 0: every data rank has all of the "
            "optimizer's state\n  possible --zero with it: 1, 2, 3");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .zero = 1, .instances = 0}),
            "config.json: --num-distributed-optimizer-instances 0 is not from 1 to 65536");
}

TEST(LayoutInstances, AreCutWhereExpertsAre) {
  EXPECT_EQ(errorOf(tinyDecoder("mixtral"), {.ep = 2, .dp = 6, .gbs = 12, .zero = 3}), "");
  EXPECT_EQ(errorOf(tinyDecoder("mixtral"), {.ep = 2, .dp = 6, .gbs = 12, .zero = 3, .instances = 2}),
            "config.json: --num-distributed-optimizer-instances 2: its groups of dp = 6 data ranks are not cut where "
            "those of etp * ep = 1 * 2 are\n"
            "  possible --num-distributed-optimizer-instances with these experts: 1, 3, 6");
}

TEST(LayoutInstances, ShareOutTheUpdateOfFullSharding) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .zero = 3, .instances = 2, .outerSharding = "optim"}), "");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dp = 4, .zero = 2, .instances = 2, .outerSharding = "optim"}),
            "config.json: --outer-dp-sharding-strategy optim with --zero 2: it is of values that are in slices, with "
            "--zero 3\n  possible: --zero 3 with it, or --outer-dp-sharding-strategy no_shard");
  EXPECT_NE(errorOf(tinyGpt2(), {.dp = 4, .zero = 3, .instances = 2, .outerSharding = "full"}), "");
}

TEST(Layout, whatDoesNothingIsSaid) {
  const auto warnings = [](const LayoutOptions &flags, const LayoutOptions &defaults = {},
                           const std::string &family = "llama") {
    std::string all;
    for (const std::string &warning : layout(tinyDecoder(family), flags, defaults).warnings)
      all += warning.substr(0, warning.find(':')) + "\n";
    return all;
  };
  EXPECT_EQ(warnings({}), "");
  EXPECT_EQ(warnings({.sp = true}), "--sp does nothing here\n");
  EXPECT_EQ(warnings({.zero = 1}), "--zero does nothing here\n");
  EXPECT_EQ(warnings({.overlapGradReduce = true}), "--overlap-grad-reduce does nothing here\n");
  EXPECT_EQ(warnings({.dp = 2, .zero = 1, .overlapGradReduce = true, .overlapParamGather = true}), "");
  EXPECT_EQ(warnings({.dp = 2, .overlapParamGather = true}), "--overlap-param-gather does nothing here\n");
  EXPECT_EQ(warnings({.dp = 2, .zero = 3, .instances = 2}),
            "--num-distributed-optimizer-instances does nothing here\n");
  EXPECT_EQ(warnings({.dp = 2, .zero = 3, .outerSharding = "optim"}),
            "--outer-dp-sharding-strategy does nothing here\n");
  EXPECT_EQ(warnings({.lossTile = 1 << 20}), "--loss-tile does nothing here\n");
  EXPECT_EQ(warnings({}, {.schedule = "gpipe"}), "--schedule does nothing here\n");
  EXPECT_EQ(warnings({.dispatcher = "alltoall"}, {}, "mixtral"), "--moe-token-dispatcher-type does nothing here\n");
  EXPECT_EQ(warnings({.ep = 2, .dispatcher = "alltoall", .dp = 2}, {}, "mixtral"), "");
  EXPECT_EQ(warnings({.tp = 2, .dp = 2, .zero = 1, .sp = true, .overlapGradReduce = true}), "");
  EXPECT_EQ(warnings({.pp = 2, .schedule = "gpipe"}), "");
}
