#include "test/plan/SmallPlan.h"

namespace mgc::plan {

namespace {

Mesh makeMesh() {
  Mesh mesh;
  mesh.axes = {{"pp", 2, plan::AxisRole::stage}, {"dp", 2, plan::AxisRole::data}, {"tpg", 2}, {"tpr", 1}};
  mesh.named = {{"pp", {"pp"}}, {"dp", {"dp"}}, {"tpg", {"tpg"}}, {"tpr", {"tpr"}}, {"tp", {"tpg", "tpr"}}};
  return mesh;
}

std::vector<Parameter> makeParameters() {
  Parameter tied; // 8 x 4, the last row is padding; 16 elements per rank
  tied.name = tied.tensor = "wte.weight";
  tied.fileShape = {7, 4};
  tied.grouping = {1, 1};
  tied.offset = {0, 0};
  tied.dims = {{"v", 8, 7, {"tpg", "tpr"}}, {"h", 4, 4, {}}};
  tied.places = {{0, 0, 0}, {1, 0, 0}};
  Parameter k = tied; // columns [0, 4) of [4, 8]: 8 elements per rank, which with v's are [h, g, 2, d]
  k.name = "h.0.attn.c_attn.weight[k]";
  k.tensor = "h.0.attn.c_attn.weight";
  k.fileShape = {4, 8};
  k.grouping = {1, 2};
  k.offset = {0, 0};
  k.dims = {{"h", 4, 4, {}}, {"g", 2, 2, {"tpg"}}, {"d", 2, 2, {}}};
  k.places = {{0, 1, 0}};
  k.rows = {2, 0, 4};
  Parameter v = k;
  v.name = "h.0.attn.c_attn.weight[v]";
  v.offset = {0, 4};
  v.rows.offset = 2;
  Parameter norm;
  norm.name = norm.tensor = "ln_f.weight";
  norm.fileShape = {4};
  norm.grouping = {1};
  norm.offset = {0};
  norm.dims = {{"h", 4, 4, {}}};
  norm.init = InitKind::ones;
  norm.places = {{1, 1, 0}};
  return {tied, k, v, norm};
}

// Two segments of 1024 bytes: everything reads x and writes y.
Program makeBlock() {
  Program program;
  program.name = "block.fwd";
  program.segments = {"x", "y"};
  program.segmentBytes = {1024, 1024};
  auto add = [&](decltype(Instruction::body) body, std::vector<Operand> operands) {
    std::string label = "block.fwd/" + std::to_string(program.instructions.size());
    program.instructions.push_back({std::move(body), std::move(operands), label});
  };
  add(Gemm{.m = 4, .n = 8, .k = 2}, {{0, 0}, {0, 64}, {1, 0}});
  RowKernel kernel{.symbol = "gelu", .range = 16, .scalars = {{}}, .flops = 32, .bytes = 128};
  kernel.scalars[0].terms = {{{"tp"}, 4}};
  kernel.uses = {{OperandUse::read, 64}, {OperandUse::written, 64}};
  add(kernel, {{0, 0}, {1, 64}});
  Attention forward{.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 2, .scale = 0.7, .workspaceBytes = 64};
  add(forward, {{0, 0}, {0, 64}, {0, 128}, {0, 192}, {0, 256}, {1, 0}, {1, 64}, {1, 128}});
  Attention backward = forward;
  backward.backward = true;
  backward.dropout = 0.1;
  backward.seed.kind = Scalar::Kind::seed;
  backward.instance.kind = Scalar::Kind::instance;
  // q, k, v and their gradients are parts of [4, 1, 1, 3, 2].
  backward.qStride = backward.kStride = backward.vStride = 6;
  backward.dqStride = backward.dkStride = backward.dvStride = 6;
  add(backward, {{0, 0},
                 {0, 8},
                 {0, 16},
                 {0, 192},
                 {0, 256},
                 {0, 320},
                 {0, 384},
                 {0, 448},
                 {0, 512},
                 {1, 0},
                 {1, 8},
                 {1, 16},
                 {1, 192}});
  using Kind = Collective::Kind;
  add(Collective{.axes = {"tp"}, .chunk = 16}, {{1, 0}, {1, 0}});
  add(Collective{.kind = Kind::allGather, .axes = {"tp"}, .outer = 2, .chunk = 8}, {{0, 0}, {1, 0}});
  add(Collective{.kind = Kind::reduceScatter, .axes = {"tp"}, .outer = 2, .chunk = 8}, {{0, 0}, {1, 0}});
  add(Collective{.kind = Kind::allToAll, .axes = {"tp"}, .outer = 2, .chunk = 8, .middle = 2}, {{0, 0}, {1, 0}});
  add(Move{.bytes = 64}, {{0, 0}, {1, 0}});
  add(Move{.kind = Move::Kind::fill, .bytes = 64}, {{1, 0}});
  add(Move{.kind = Move::Kind::slice, .outer = 2, .chunkBytes = 16, .axes = {"dp"}}, {{0, 0}, {1, 0}});
  add(Move{.kind = Move::Kind::demote, .bytes = 64, .axes = {"tp"}}, {{1, 0}, {1, 0}});
  add(GroupedGemm{.groups = 2, .rows = 4, .n = 4, .k = 2}, {{0, 0}, {0, 64}, {0, 128}, {1, 0}});
  add(GroupedGemm{.form = GroupedGemm::Form::sums, .groups = 2, .rows = 4, .m = 2, .n = 4, .accumulate = true},
      {{0, 0}, {0, 64}, {0, 128}, {1, 0}});
  add(GroupRows{.groups = 3, .rows = 5, .places = 5}, {{0, 0}, {1, 0}, {1, 64}, {1, 128}});
  add(DropChoices{.tokens = 2, .sequences = 2, .chosen = 1, .experts = 3, .capacity = 1},
      {{0, 0}, {0, 64}, {0, 128}, {1, 0}, {1, 64}});
  add(ExchangeRows{.groups = 2, .rows = 4, .places = 6, .width = 2, .axes = {"tp"}}, {{0, 0}, {0, 64}, {1, 0}});
  return program;
}

// Sums the gradient of the tied parameter over both stages.
Program makeTiedSum() {
  Program program;
  program.name = "tied";
  program.segments = {"gradient"};
  program.segmentBytes = {128};
  program.instructions = {{Collective{.stages = {0, 1}, .chunk = 32}, {{0, 0}, {0, 0}}, "tied/sum"}};
  return program;
}

// Layout of both stages: parameters [0, 256), gradients [256, 576), optimizer [576, 896), activations [896,
// 1920), frame [1920, 2944), inputs [2944, 3072), activations [3072, 3136), scalars [3136, 3392): the results are the
// last 28 bytes, and there is room for 57 step scalars.
std::vector<Region> makeRegions() {
  return {{"parameters", 0, 256}, {"gradients", 256, 320}, {"optimizer", 576, 320},   {"activations", 896, 1024},
          {"frame", 1920, 1024},  {"inputs", 2944, 128},   {"activations", 3072, 64}, {"scalars", 3136, 256}};
}

std::vector<Bucket> makeBuckets(int64_t stage) {
  Bucket tied{.name = "tied", .elements = 32, .splitAxes = {"tp"}, .dataAxes = {"dp"}, .shardAxes = {"dp"}};
  tied.tiedStages = {0, 1};
  tied.states = {{"value", StateRole::value, DType::f32, false, 0},
                 {"gradient", StateRole::gradient, DType::f32, false, 256},
                 {"gradient_slice", StateRole::gradientSlice, DType::f32, true, 512},
                 {"exp_avg", StateRole::optimizer, DType::f32, true, 576},
                 {"exp_avg_sq", StateRole::optimizer, DType::f32, true, 640}};
  Bucket plain{.name = "plain", .elements = 16, .dataAxes = {"dp"}};
  if (stage == 0)
    plain.splitAxes = {"tpg"};
  plain.states = {{"value", StateRole::value, DType::f32, false, 128},
                  {"gradient", StateRole::gradient, DType::f32, false, 384},
                  {"exp_avg", StateRole::optimizer, DType::f32, false, 704},
                  {"exp_avg_sq", StateRole::optimizer, DType::f32, false, 768}};
  return {tied, plain};
}

std::vector<Input> makeInputs(int64_t stage) {
  Input positions{.kind = Input::Kind::positions, .dims = {{"s", 4, {}}}, .ring = 1};
  Input data{.kind = stage == 0 ? Input::Kind::tokens : Input::Kind::labels};
  data.dims = {{"s", 4, {}}, {"b", 2, {"dp"}}};
  data.ring = 2;
  Input weights = data;
  weights.kind = Input::Kind::lossWeights;
  weights.type = DType::f32;
  weights.ring = 3;
  return stage == 0 ? std::vector{positions, data} : std::vector{positions, data, weights};
}

// Ring 0 is a value saved by forward, 1 to 3 are inputs, 4 and 5 are sent and received.
std::vector<Ring> makeRings(int64_t stage) {
  return {{"saved", 1024, 896, 0},
          {"positions", 16, 2944, 0},
          {"tokens", 16, 3008, 16, {{0, 2, 0}}},
          {"lossWeights", 16, 3040, 16, {{0, 2, 0}}},
          {"sent", 64, 896, 0, {{}}, 1 - stage, 0},
          {"received", 64, 896, 0, {{}}, 1 - stage, 0}};
}

// Two microbatches; stage 0: run, send; stage 1: receive, run, and a message back.
std::vector<ScheduleStep> makeSchedule(int64_t stage) {
  using Kind = ScheduleStep::Kind;
  const ScheduleStep forward{.chunk = 0, .microbatch = 0, .microbatchStride = 1};
  ScheduleStep run = forward, send = forward, receive = forward;
  send.kind = Kind::send, receive.kind = Kind::recv;
  send.chunk = receive.chunk = -1;
  send.ring = 4, receive.ring = 5;
  send.waits = {1};
  (stage == 0 ? receive : run).waits = {1};
  const ScheduleStep reduce{.chunk = 1};
  return stage == 0 ? std::vector{run, send, receive, reduce} : std::vector{receive, run, send, reduce};
}

StagePlan makeStage(int64_t stage) {
  StagePlan plan;
  plan.buckets = makeBuckets(stage);
  plan.regions = makeRegions();
  plan.rings = makeRings(stage);
  plan.inputs = makeInputs(stage);
  plan.bytes = 3392;
  plan.leastBytes = 3136;
  plan.stepScalarsOffset = 3136;
  plan.resultsOffset = 3364;
  Chunk forward{.task = Task::forward, .slots = {0}};
  forward.calls = {{.program = 0, .instance = stage, .segments = {{0, 0}, {-1, 1920}}}};
  Chunk reduce{.task = Task::reduce};
  reduce.calls = {{.program = 1, .instance = 0, .segments = {{-1, 256}}}};
  plan.chunks = {forward, reduce};
  plan.schedule = makeSchedule(stage);
  plan.repeats = {{0, 3, 2}};
  return plan;
}

} // namespace

Plan makeSmallPlan() {
  Plan plan;
  plan.modelConfig = "{\"model_type\": \"gpt2\"}\n";
  plan.modelType = "gpt2";
  plan.mesh = makeMesh();
  plan.sequenceLength = 4;
  plan.microBatchSize = 1;
  plan.globalBatchSize = 4;
  plan.microbatches = 2;
  plan.vocabulary = 7;
  plan.zero = 1;
  plan.schedule = "1f1b";
  plan.kernels = {{KernelLevel::v3, "kernels/x86-64-v3.so", 0xfedcba9876543210},
                  {KernelLevel::v4, "kernels/x86-64-v4.so", 1}};
  plan.parameters = makeParameters();
  plan.programs = {makeBlock(), makeTiedSum()};
  plan.stages = {makeStage(0), makeStage(1)};
  return plan;
}

} // namespace mgc::plan
