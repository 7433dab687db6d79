// The logical module: it verifies, every argument is used, and its parameters are exactly those of the description.
#include "frontend/import/Import.h"
#include "frontend/Load.h"
#include "mlir/Parser/Parser.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mgc;
using namespace mgc::frontend;

namespace {

const Supported kSupported = {{{"1f1b", false, 1, 1}, {"interleaved", false, 2, 64}, {"zb-h1", true, 1, 1}},
                              {"f32", "bf16"},
                              {{"cpu", 9, false}}};

const std::string kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 32, "n_layer": 4, "n_head": 4,
  "n_positions": 64, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0)";
const std::string kDecoder =
    R"("vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 80, "max_position_embeddings": 64, "rope_theta": 10000.0)";

struct Imported {
  MLIRContext context;
  ModelDescription model;
  Layout layout;
  OwningOpRef<ModuleOp> module;

  func::FuncOp block(StringRef name) { return module->lookupSymbol<func::FuncOp>(name); }
  template <typename Op> int64_t count(StringRef name) {
    int64_t found = 0;
    block(name).walk([&](Op) { ++found; });
    return found;
  }
};

std::unique_ptr<Imported> import(const std::string &text, const LayoutOptions &options = {.seq = 16, .mbs = 2}) {
  auto result = std::make_unique<Imported>();
  Result<ModelFile> file = parseModel(text, "config.json");
  EXPECT_TRUE(file.isOk()) << file.status().message();
  Result<Layout> layout = resolveLayout(file->model, options, file->defaults, kSupported);
  EXPECT_TRUE(layout.isOk()) << layout.status().message();
  result->model = file->model;
  result->layout = *layout;
  result->module = importModel(result->context, result->model, result->layout);
  EXPECT_TRUE(result->module);
  return result;
}

std::string decoder(const std::string &type, const std::string &more = "") {
  return "{\"model_type\": \"" + type + "\", " + kDecoder + more + "}";
}

// Names of all parameters of all instances, as the chain calls them; a tied one counts once per block that holds it.
std::map<std::string, int64_t> parametersOf(Imported &imported) {
  std::map<std::string, int64_t> uses;
  imported.module->walk([&](InstanceOp instance) {
    func::FuncOp block = imported.block(instance.getBlock());
    for (int64_t number = instance.getFirst(); number < int64_t(instance.getFirst() + instance.getCount()); ++number)
      for (unsigned i = 0; i < block.getNumArguments(); ++i)
        if (auto parameter = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr)) {
          std::string name = parameter.getAs<StringAttr>("tensor").str();
          if (size_t at = name.find("{}"); at != std::string::npos)
            name.replace(at, 2, std::to_string(number));
          StringRef part = parameter.getAs<StringAttr>("part");
          ++uses[part.empty() ? name : name + "[" + part.str() + "]"];
        }
  });
  return uses;
}

void expectParametersOfModel(Imported &imported) {
  std::map<std::string, int64_t> expected;
  for (const plan::Parameter &parameter : allParameters(imported.model))
    expected[parameter.name] = 1;
  if (imported.model.head.tied)
    expected[findParameter(imported.model.parameters, "embed.tokens")->name] = 2;
  EXPECT_EQ(parametersOf(imported), expected);
}

void expectEveryArgumentUsed(Imported &imported) {
  imported.module->walk([&](func::FuncOp block) {
    for (BlockArgument argument : block.getArguments())
      EXPECT_FALSE(argument.use_empty()) << block.getName().str() << " argument " << argument.getArgNumber();
  });
}

const std::string kRouted = R"(, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
  "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1)";

std::string latent(const std::string &type, const std::string &more) {
  std::string text = decoder(type, more + R"(, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4,
    "v_head_dim": 8)");
  const std::string grouped = "\"num_key_value_heads\": 2";
  return text.replace(text.find(grouped), grouped.size(), "\"num_key_value_heads\": 4");
}

TEST(Import, EveryFamilyVerifiesAndUsesItsParameters) {
  for (const std::string &text :
       {kGpt2 + "}", kGpt2 + R"(, "tie_word_embeddings": false})", decoder("llama"),
        decoder("llama", R"(, "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true)"),
        decoder("mistral", R"(, "sliding_window": 8)"), decoder("qwen2"), decoder("qwen3", R"(, "head_dim": 16)"),
        decoder("mixtral", R"(, "num_local_experts": 8, "num_experts_per_tok": 2)"),
        decoder("qwen2_moe", R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
          "shared_expert_intermediate_size": 20, "mlp_only_layers": [1])"),
        decoder("glm4_moe", kRouted + R"(, "head_dim": 16, "use_qk_norm": true, "attention_bias": true)"),
        decoder("gpt_oss",
                R"(, "num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 4,
                "rope_scaling": {"rope_type": "default"})"),
        latent("deepseek_v2", kRouted + R"(, "q_lora_rank": null)"),
        latent("deepseek_v3", kRouted + R"(, "q_lora_rank": 24, "attention_bias": true)")}) {
    auto imported = import(text);
    expectParametersOfModel(*imported);
    expectEveryArgumentUsed(*imported);
  }
}

TEST(Import, DropoutBringsSamples) {
  auto without = import(kGpt2 + "}");
  EXPECT_EQ(without->count<DropoutOp>("layer"), 0);
  auto with = import(R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 32, "n_layer": 4, "n_head": 4,
    "n_positions": 64})");
  expectEveryArgumentUsed(*with);
  EXPECT_EQ(with->count<DropoutOp>("layer"), 2);
  EXPECT_EQ(with->count<DropoutOp>("embed"), 1);
  with->block("layer").walk([](AttentionOp op) {
    EXPECT_TRUE(op.getSamples());
    EXPECT_EQ(op.getDropout().convertToDouble(), 0.1);
  });
}

TEST(Import, Operations) {
  auto gpt2 = import(kGpt2 + "}");
  EXPECT_EQ(gpt2->count<EinsumOp>("layer"), 6);
  EXPECT_EQ(gpt2->count<AddOp>("layer"), 8); // 6 biases, 2 residuals
  EXPECT_EQ(gpt2->count<LayerNormOp>("layer"), 2);
  EXPECT_EQ(gpt2->count<RopeOp>("layer"), 0);
  EXPECT_EQ(gpt2->count<EmbedOp>("embed"), 2);
  auto qwen3 = import(decoder("qwen3", R"(, "head_dim": 16)"));
  EXPECT_EQ(qwen3->count<EinsumOp>("layer"), 7);
  EXPECT_EQ(qwen3->count<RmsNormOp>("layer"), 4);
  EXPECT_EQ(qwen3->count<RopeOp>("layer"), 2);
  EXPECT_EQ(qwen3->count<CosSinOp>("layer"), 1);
  EXPECT_EQ(qwen3->count<AddOp>("layer"), 2);
}

TEST(Import, Activations) {
  const auto count = [](const char *activation, auto... ops) {
    auto imported = import(decoder("llama", fmt::format(R"(, "hidden_act": "{}")", activation)));
    return std::vector<int64_t>{imported->template count<decltype(ops)>("layer")...};
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(count("gelu_10", GeluOp(), ClampOp()), Counts({1, 1}));
  EXPECT_EQ(count("hardswish", HardSwishOp()), Counts({1}));
  EXPECT_EQ(count("laplace", LaplaceOp()), Counts({1}));
  EXPECT_EQ(count("linear", SiluOp(), MulOp()), Counts({0, 1}));
  EXPECT_EQ(count("mish", MishOp()), Counts({1}));
  EXPECT_EQ(count("relu2", ReluOp(), MulOp()), Counts({1, 2})); // its square, and times up
  EXPECT_EQ(count("sigmoid", SigmoidOp()), Counts({1}));
  EXPECT_EQ(count("tanh", TanhOp()), Counts({1}));
  import(decoder("llama", R"(, "hidden_act": "leaky_relu")"))->block("layer").walk([](ReluOp op) {
    EXPECT_EQ(op.getSlope().convertToDouble(), 0.01);
    EXPECT_FALSE(op.getMost());
  });
  import(decoder("llama", R"(, "hidden_act": "relu6")"))->block("layer").walk([](ReluOp op) {
    EXPECT_TRUE(op.getSlope().isZero());
    EXPECT_EQ(op.getMost()->convertToDouble(), 6);
  });
}

std::string chainOf(Imported &imported) {
  std::string chain;
  imported.module->walk([&](InstanceOp op) {
    chain += (chain.empty() ? "" : ", ") + op.getBlock().str() + " " + std::to_string(op.getFirst());
    if (op.getCount() > 1)
      chain += " to " + std::to_string(op.getFirst() + op.getCount() - 1);
  });
  return chain;
}

TEST(Import, TowerAndDecoderAreOneChain) {
  auto imported = import(tinyLlava().dump(), {.seq = 16, .mbs = 2});
  expectEveryArgumentUsed(*imported);
  expectParametersOfModel(*imported);
  EXPECT_EQ(chainOf(*imported), "encoder_embed 0, encoder_layer 0 to 1, bridge 0, layer 0 to 1, head 0");
  EXPECT_EQ(imported->count<RelocateOp>("bridge"), 1);
  EXPECT_EQ(imported->count<EmbedOp>("encoder_embed"), 2); // the class token and positions
  EXPECT_EQ(tensorOf(imported->block("encoder_layer").getArgument(0)).getShape(), (ArrayRef<int64_t>{10, 2, 24}));
  EXPECT_EQ(tensorOf(imported->block("layer").getArgument(0)).getShape(), (ArrayRef<int64_t>{16, 2, 32}));
}

// Modules that predict later tokens have the model's embedding and head, and parameters numbered behind the layers.
TEST(Import, LaterTokens) {
  auto imported = import(latent("deepseek_v3", kRouted + R"(, "q_lora_rank": null, "num_nextn_predict_layers": 1)"),
                         {.seq = 16, .mbs = 2, .laterTokens = 2});
  EXPECT_EQ(chainOf(*imported), "embed 0, layer0 0, layer1 1 to 3, head 0, later1 4, later2 5");
  expectEveryArgumentUsed(*imported);
  std::map<std::string, int64_t> uses = parametersOf(*imported);
  EXPECT_EQ(uses["model.embed_tokens.weight"], 3);
  EXPECT_EQ(uses["lm_head.weight"], 3);
  for (const char *name : {"enorm.weight", "hnorm.weight", "eh_proj.weight[token]", "eh_proj.weight[hidden]",
                           "shared_head.norm.weight", "self_attn.kv_b_proj.weight", "mlp.gate.weight"})
    for (const char *layer : {"4", "5"})
      EXPECT_EQ(uses["model.layers." + std::string(layer) + "." + name], 1) << layer << " " << name;
  EXPECT_EQ(imported->block("head").getNumResults(), 3u);
  EXPECT_EQ(imported->block("later1").getNumResults(), 2u);
  EXPECT_EQ(imported->block("later2").getNumResults(), 1u);
  std::vector<std::string> data;
  func::FuncOp last = imported->block("later2");
  for (unsigned i = 0; i < last.getNumArguments(); ++i)
    if (auto kind = last.getArgAttrOfType<StringAttr>(i, kDataAttr))
      data.push_back(kind.str());
  EXPECT_EQ(data, (std::vector<std::string>{"tokens+2", "labels+2", "loss_shares+2", "positions", "key_positions",
                                            "step_tokens"}));
  last.walk([](LossTermOp op) { EXPECT_EQ(op.getScale().convertToDouble(), 0.05); });
  auto ignored = imported->module.get()->getAttrOfType<DictionaryAttr>("mg.model").getAs<ArrayAttr>("ignored_tensors");
  EXPECT_EQ(ignored.size(), 2u) << "both modules are trained";
}

std::string printed(Imported &imported) {
  std::string text;
  llvm::raw_string_ostream(text) << **imported.module;
  return text;
}

// Each layer with experts has a counter, also in modules that predict later tokens; none has one where a bias has the
// load.
TEST(Import, CountersOfLoad) {
  const std::string mixtral = decoder("mixtral", R"(, "num_local_experts": 8, "num_experts_per_tok": 2)");
  auto imported = import(mixtral, {.seq = 16, .mbs = 2, .countsLoad = true, .dtype = "bf16", .laterTokens = 1});
  expectEveryArgumentUsed(*imported);
  std::map<std::string, int64_t> uses = parametersOf(*imported);
  for (const char *layer : {"0", "1", "2", "3", "4"})
    EXPECT_EQ(uses["model.layers." + std::string(layer) + ".block_sparse_moe.gate.load"], 1) << layer;
  imported->module->walk([](RouteOp op) {
    EXPECT_FALSE(op.getBias());
    ASSERT_TRUE(op.getLoad());
    EXPECT_TRUE(elementOf(op.getLoad()).isF32());
  });
  EXPECT_EQ(printed(*import(mixtral)).find("gate.load"), std::string::npos);
  const std::string biased = latent("deepseek_v3", kRouted + R"(, "q_lora_rank": 24)");
  EXPECT_EQ(printed(*import(biased, {.seq = 16, .countsLoad = true})), printed(*import(biased, {.seq = 16})));
}

TEST(Import, LaterTokensOfATiedHead) {
  auto imported = import(decoder("llama", R"(, "tie_word_embeddings": true)"), {.seq = 16, .laterTokens = 1});
  expectEveryArgumentUsed(*imported);
  EXPECT_EQ(parametersOf(*imported)["model.embed_tokens.weight"], 3);
}

TEST(Import, PaddingIsOutsideTheLoss) {
  auto imported = import(kGpt2 + "}");
  imported->block("head").walk([](CrossEntropyOp op) {
    EXPECT_EQ(op.getValid(), 100u);
    EXPECT_EQ(tensorOf(op.getLogits()).getDimSize(2), 128);
  });
  EXPECT_EQ(imported->count<CrossEntropyOp>("head"), 1);
}

TEST(Import, LayersOfTwoKindsAreTwoBlocks) {
  auto imported = import("{\"model_type\": \"qwen2\"" + std::string(R"(, "vocab_size": 128, "hidden_size": 32,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 80,
    "max_position_embeddings": 64, "rope_theta": 10000.0, "sliding_window": 4, "use_sliding_window": true,
    "max_window_layers": 3})"));
  std::vector<std::string> chain;
  imported->module->walk([&](InstanceOp op) {
    chain.push_back(op.getBlock().str() + " " + std::to_string(op.getFirst()) + " " + std::to_string(op.getCount()));
  });
  EXPECT_EQ(chain, std::vector<std::string>({"embed 0 1", "layer0 0 3", "layer1 3 1", "head 0 1"}));
  imported->block("layer1").walk([](AttentionOp op) { EXPECT_EQ(op.getWindow(), 4u); });
  expectParametersOfModel(*imported);
}

TEST(Import, SizesAreThoseOfOneMicrobatchOverAllDataRanks) {
  auto imported = import(decoder("llama"), {.tp = 4, .dp = 3, .seq = 16, .mbs = 2});
  EXPECT_EQ(tensorOf(imported->block("layer").getArgument(0)).getShape(), ArrayRef<int64_t>({16, 6, 32}));
}

std::string printed(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

// Rows of a dimension for all ops.
std::vector<std::string> generalRows(ModuleOp module, StringRef dimension) {
  std::vector<std::string> rows;
  for (auto row : module->getAttrOfType<ArrayAttr>(kPlacementAttr).getAsRange<DictionaryAttr>())
    if (row.getAs<StringAttr>("dimension") == dimension && !row.get("ops"))
      rows.push_back(printed(row));
  return rows;
}

TEST(Import, ModuleAttributes) {
  auto imported = import(decoder("llama"), {.tp = 4, .pp = 2, .dp = 3, .seq = 16, .schedule = "zb-h1"});
  auto module = *imported->module;
  EXPECT_EQ(printed(module->getAttr(kMeshAttr)),
            "#mg.mesh<pp = 2 : stage, dp = 3 : data, tpg = 2, tpr = 2, cp = [], cpg = [], cpi = [], cpig = [], cpir = "
            "[], cpo = [], cpr = [], tp = [tpg, tpr]>");
  EXPECT_EQ(generalRows(module, "s"),
            (std::vector<std::string>{R"({axes = ["cp"], dimension = "s"})",
                                      R"({axes = ["tp"], dimension = "s", with = "h", without = "g", yields})"}));
  EXPECT_EQ(generalRows(module, "r"), std::vector<std::string>{R"({axes = ["tpr"], dimension = "r"})"});
  const TrainingSettings &training = trainingOf(module);
  EXPECT_EQ(training.microbatches, 2);
  EXPECT_EQ(training.schedule, "zb-h1");
  EXPECT_TRUE(training.splitBackward);
  EXPECT_EQ(module->getAttrOfType<DictionaryAttr>("mg.model").getAs<TextAttr>("config").getText(),
            imported->model.text);
  auto whole = import(decoder("llama"), {.tp = 2, .seq = 16, .sp = false});
  EXPECT_EQ(generalRows(*whole->module, "s"), std::vector<std::string>{R"({axes = ["cp"], dimension = "s"})"});
}

TEST(Import, ParameterAttributes) {
  auto imported = import(kGpt2 + "}");
  func::FuncOp layer = imported->block("layer");
  for (unsigned i = 0; i < layer.getNumArguments(); ++i) {
    auto parameter = layer.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    if (!parameter || parameter.getAs<StringAttr>("part") != "k" ||
        !parameter.getAs<StringAttr>("tensor").getValue().ends_with("weight"))
      continue;
    EXPECT_EQ(printed(parameter),
              "{aliases = [\"h.{}.attn.c_attn.weight\"], file_shape = array<i64: 32, 96>, grouping = array<i64: 1, 2>, "
              "init = \"normal\", offset = array<i64: 0, 32>, part = \"k\", std = 2.000000e-02 : f64, tensor = "
              "\"transformer.h.{}.attn.c_attn.weight\", valid = array<i64: 32, 4, 8>}");
    return;
  }
  ADD_FAILURE() << "no key weight";
}

TEST(Import, ReadsBackFromText) {
  auto imported = import(kGpt2 + "}");
  std::string text;
  llvm::raw_string_ostream stream(text);
  imported->module->print(stream);
  MLIRContext fresh; // in which no other text is called config
  fresh.loadDialect<func::FuncDialect, MgDialect>();
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(text, &fresh);
  ASSERT_TRUE(again);
  std::string second;
  llvm::raw_string_ostream secondStream(second);
  again->print(secondStream);
  EXPECT_EQ(text, second);
}

} // namespace
