// Rows of tensors that hold several parameters: where each lies, that all together have every element once, and what rows
// that say nothing sensible are told.
#include "model/Parameters.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::frontend;

namespace {

// 4 heads of size 8 in 2 groups, h = 32, f = 80.
ModelDescription tinyLlama() { return model(tinyDecoder("llama")); }

// The layer's rows but those of `own`, which take their place.
constexpr TensorRow kOthers[] = {{"embed.tokens", "embed", "v h"},      {"attn_norm.weight", "{}.attn_norm", "h"},
                                 {"attn.q.weight", "{}.q", "grd h"},    {"attn.k.weight", "{}.k", "gd h"},
                                 {"attn.v.weight", "{}.v", "gd h"},     {"attn.q.bias", "{}.q.bias", "grd"},
                                 {"attn.k.bias", "{}.k.bias", "gd"},    {"attn.v.bias", "{}.v.bias", "gd"},
                                 {"attn.o.weight", "{}.o", "h grd"},    {"mlp_norm.weight", "{}.mlp_norm", "h"},
                                 {"mlp.gate.weight", "{}.gate", "f h"}, {"mlp.up.weight", "{}.up", "f h"},
                                 {"mlp.down.weight", "{}.down", "h f"}, {"final_norm.weight", "norm", "h"},
                                 {"head.weight", "head", "v h"}};

// "q = [1, 2, 1] of [2, 32, 32] in [64, 32] at [0, 0, 0]: g2 r2 d8 h32", of a role in the layer.
std::string textOf(const ModelDescription &model, std::string_view role) {
  const plan::Parameter *parameter = findParameter(model.kinds[0].parameters, role);
  if (!parameter)
    return "none";
  std::string dims;
  for (const plan::ParameterDim &dim : parameter->dims)
    dims += fmt::format(" {}{}", dim.name, dim.size);
  return fmt::format("{} = [{}] of [{}] in [{}] at [{}]:{}", parameter->name, fmt::join(parameter->grouping, ", "),
                     fmt::join(parameter->fileShape, ", "), fmt::join(parameter->tensorShape, ", "),
                     fmt::join(parameter->offset, ", "), dims);
}

// How often the parameters of the tensor hold each of its elements: from least to most.
std::pair<int64_t, int64_t> timesHeld(const ModelDescription &model, std::string_view tensor) {
  std::vector<int64_t> times;
  for (const ModelParameter &entry : model.kinds[0].parameters) {
    const plan::Parameter &parameter = entry.parameter;
    if (parameter.tensor != tensor)
      continue;
    int64_t elements = 1;
    std::vector<int64_t> extents;
    for (size_t j = 0, dim = 0; j < parameter.fileShape.size(); ++j) {
      elements *= parameter.fileShape[j];
      extents.push_back(1);
      for (int64_t i = 0; i < parameter.grouping[j]; ++i)
        extents.back() *= parameter.dims[dim++].valid;
    }
    times.resize(size_t(elements));
    for (int64_t element = 0; element < elements; ++element) {
      bool isHeld = true;
      for (int64_t j = int64_t(extents.size()) - 1, rest = element; j >= 0; rest /= parameter.fileShape[j--]) {
        const int64_t at = rest % parameter.fileShape[j] - parameter.offset[j];
        isHeld &= at >= 0 && at < extents[j];
      }
      times[size_t(element)] += isHeld;
    }
  }
  const auto [least, most] = std::ranges::minmax_element(times);
  return times.empty() ? std::pair<int64_t, int64_t>(0, 0) : std::pair(*least, *most);
}

ModelDescription bound(ModelDescription model, std::span<const TensorRow> own) {
  const Status status = bindParameters(model, {"model.", kOthers, {}, own});
  EXPECT_TRUE(status.isOk()) << status.message();
  return model;
}

const std::pair<int64_t, int64_t> kOnce = {1, 1};

TEST(TensorRows, PartsOfTheFirstDimension) {
  static constexpr TensorRow kRows[] = {{"attn.q.weight", "{}.qkv_proj", "grd|gd|gd h", "q", 0},
                                        {"attn.k.weight", "{}.qkv_proj", "grd|gd|gd h", "k", 1},
                                        {"attn.v.weight", "{}.qkv_proj", "grd|gd|gd h", "v", 2},
                                        {"mlp.gate.weight", "{}.gate_up_proj", "f|f h", "gate", 0},
                                        {"mlp.up.weight", "{}.gate_up_proj", "f|f h", "up", 1}};
  const ModelDescription phi = bound(tinyLlama(), kRows);
  EXPECT_EQ(textOf(phi, "attn.q.weight"), "{}.qkv_proj[q] = [3, 1] of [64, 32] in [] at [0, 0]: g2 r2 d8 h32");
  EXPECT_EQ(textOf(phi, "attn.k.weight"), "{}.qkv_proj[k] = [2, 1] of [64, 32] in [] at [32, 0]: g2 d8 h32");
  EXPECT_EQ(textOf(phi, "attn.v.weight"), "{}.qkv_proj[v] = [2, 1] of [64, 32] in [] at [48, 0]: g2 d8 h32");
  EXPECT_EQ(textOf(phi, "mlp.up.weight"), "{}.gate_up_proj[up] = [1, 1] of [160, 32] in [] at [80, 0]: f80 h32");
  EXPECT_EQ(timesHeld(phi, "{}.qkv_proj"), kOnce);
  EXPECT_EQ(timesHeld(phi, "{}.gate_up_proj"), kOnce);
}

TEST(TensorRows, PartsOfEachGroup) {
  static constexpr TensorRow kRows[] = {{"attn.q.weight", "{}.query_key_value", "g(rd|d|d) h", "q", 0},
                                        {"attn.k.weight", "{}.query_key_value", "g(rd|d|d) h", "k", 1},
                                        {"attn.v.weight", "{}.query_key_value", "g(rd|d|d) h", "v", 2},
                                        {"attn.q.bias", "{}.query_key_value.bias", "g(rd|d|d)", "q", 0},
                                        {"attn.k.bias", "{}.query_key_value.bias", "g(rd|d|d)", "k", 1},
                                        {"attn.v.bias", "{}.query_key_value.bias", "g(rd|d|d)", "v", 2}};
  ModelDescription llama = tinyLlama();
  llama.kinds[0].block.attention.qkvBias = true;
  const ModelDescription falcon = bound(llama, kRows);
  EXPECT_EQ(textOf(falcon, "attn.q.weight"),
            "{}.query_key_value[q] = [1, 2, 1] of [2, 32, 32] in [64, 32] at [0, 0, 0]: g2 r2 d8 h32");
  EXPECT_EQ(textOf(falcon, "attn.k.weight"),
            "{}.query_key_value[k] = [1, 1, 1] of [2, 32, 32] in [64, 32] at [0, 16, 0]: g2 d8 h32");
  EXPECT_EQ(textOf(falcon, "attn.v.bias"), "{}.query_key_value.bias[v] = [1, 1] of [2, 32] in [64] at [0, 24]: g2 d8");
  EXPECT_EQ(timesHeld(falcon, "{}.query_key_value"), kOnce);
  EXPECT_EQ(timesHeld(falcon, "{}.query_key_value.bias"), kOnce);
}

// One group is the case of all queries, then k, then v.
TEST(TensorRows, PartsOfOneGroup) {
  static constexpr TensorRow kRows[] = {{"attn.q.weight", "{}.c_attn", "g(rd|d|d) h", "q", 0},
                                        {"attn.k.weight", "{}.c_attn", "g(rd|d|d) h", "k", 1},
                                        {"attn.v.weight", "{}.c_attn", "g(rd|d|d) h", "v", 2}};
  ModelDescription llama = tinyLlama();
  llama.kinds[0].block.attention.groups = 1;
  const ModelDescription bigcode = bound(llama, kRows);
  EXPECT_EQ(textOf(bigcode, "attn.v.weight"),
            "{}.c_attn[v] = [1, 1, 1] of [1, 48, 32] in [48, 32] at [0, 40, 0]: g1 d8 h32");
  EXPECT_EQ(timesHeld(bigcode, "{}.c_attn"), kOnce);
}

TEST(TensorRows, OneRowOfAWeightAndItsBias) {
  static constexpr TensorRow kRows[] = {{"attn.q.*", ".layers.{}.c_attn.*", "h grd|gd|gd; grd|gd|gd", "q", 0}};
  const TensorTable table({"base.", kRows, {}});
  ASSERT_EQ(table.rows().size(), 2u);
  const TensorRow &weight = table.rows().front(), &bias = table.rows().back();
  EXPECT_EQ(weight.role, "attn.q.weight");
  EXPECT_EQ(weight.tensor, "base.layers.{}.c_attn.weight");
  EXPECT_EQ(weight.dims, "h grd|gd|gd");
  EXPECT_EQ(bias.role, "attn.q.bias");
  EXPECT_EQ(bias.tensor, "base.layers.{}.c_attn.bias");
  EXPECT_EQ(bias.dims, "grd|gd|gd");
  EXPECT_EQ(bias.view, "q");
}

TEST(TensorRows, OneRowOfAllParts) {
  static constexpr TensorRow kRows[] = {{"attn.{q,k}.*", ".layers.{}.qk.*", "h grd|gd; grd|gd"}};
  const TensorTable table({"model.", kRows, {}});
  std::vector<std::string> rows;
  for (const TensorRow &row : table.rows())
    rows.push_back(fmt::format("{} {} {} {} {}", row.role, row.tensor, row.dims, row.view, row.part));
  EXPECT_EQ(rows, (std::vector<std::string>{"attn.q.weight model.layers.{}.qk.weight h grd|gd q 0",
                                            "attn.q.bias model.layers.{}.qk.bias grd|gd q 0",
                                            "attn.k.weight model.layers.{}.qk.weight h grd|gd k 1",
                                            "attn.k.bias model.layers.{}.qk.bias grd|gd k 1"}));
}

TEST(TensorRows, RefusedRows) {
  struct Case {
    TensorRow row;
    std::string problem;
  };
  const std::string words = " expected words such as grd, and one of several parts at most: grd|gd|gd or g(rd|d|d)";
  for (const Case &c : std::vector<Case>{
           {{"attn.q.weight", "{}.w", "grd|gd|gd h", "q", 3}, " has no part 3, expected one from 0 to 2"},
           {{"attn.q.weight", "{}.w", "grd|gd|gd h", "q", -1}, " has no part -1, expected one from 0 to 2"},
           {{"attn.q.weight", "{}.w", "grd h", "", 1}, " has no part 1, expected one from 0 to 0"},
           {{"attn.q.weight", "{}.w", "grd|gd|gd h"},
            " has 3 parts, but the row's view is ''; expected a name where there are several"},
           {{"attn.q.weight", "{}.w", "grd h", "q"},
            " has 1 part, but the row's view is 'q'; expected a name where there are several"},
           {{"attn.q.weight", "{}.w", "grd|gd h|h", "q"}, words},
           {{"attn.q.weight", "{}.w", "g(rd) h"}, words},
           {{"attn.q.weight", "{}.w", "grd||gd h", "q"}, words},
           {{"attn.q.weight", "{}.w", "g(rd|d|d h", "q"}, words},
           {{"attn.q.weight", "{}.w", "grd|d|d) h", "q"}, words},
           {{"attn.q.weight", "{}.w", "g(r(d|d)) h", "q"}, words}}) {
    ModelDescription llama = tinyLlama();
    const Status status = bindParameters(llama, {"model.", kOthers, {}, std::span(&c.row, 1)});
    EXPECT_EQ(status.isOk() ? "" : status.message(),
              fmt::format("the row of attn.q.weight for tensor {{}}.w: \"{}\"{}", c.row.dims, c.problem));
  }
}

} // namespace
