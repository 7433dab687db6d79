// Tokenizers and texts that are refused: what the message names.
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/base/Json.h"
#include "test/runtime/TempDir.h"

using namespace mgc;
using namespace mgc::test;

namespace {

class Refusal : public InTempDir {
protected:
  // A tokenizer.json of the words "x", "y" and "[UNK]", with `fields` besides.
  std::string write(const nlohmann::json &fields) const {
    nlohmann::json json = {
        {"model", {{"type", "WordLevel"}, {"vocab", {{"x", 0}, {"y", 1}, {"[UNK]", 2}}}, {"unk_token", "[UNK]"}}}};
    json.update(fields);
    return dir.write("tokenizer.json", json.dump());
  }
  Status encoded(const nlohmann::json &fields, std::string_view text) const {
    const auto tokenizer = openTokenizer({"", write(fields)});
    EXPECT_TRUE(isOk(tokenizer));
    std::vector<int32_t> ids;
    return (*tokenizer)->encoder()->encode(text, false, ids);
  }
};

// An expression that needs 2^n steps where n "x" are followed by no "y".
nlohmann::json slowSplit(const char *behavior) {
  return {{"type", "Split"}, {"pattern", {{"Regex", "(?:x+x+)+y"}}}, {"behavior", behavior}};
}
const std::string kSlowText = "x " + std::string(40, 'x') + "!y";

} // namespace

TEST_F(Refusal, aSearchThatIsGivenUpIsAnError) {
  for (const char *behavior : {"Isolated", "Removed"}) {
    const nlohmann::json fields = {{"pre_tokenizer", slowSplit(behavior)}};
    EXPECT_TRUE(fails(encoded(fields, kSlowText),
                      {"tokenizer.json.pre_tokenizer: ", "(?:x+x+)+y", "44 bytes", "from byte 0", "x!y", "retry"}))
        << behavior;
    EXPECT_TRUE(isOk(encoded(fields, "x xxxx!y")));
  }
}

TEST_F(Refusal, anErrorOfASearchLeavesASequence) {
  const nlohmann::json words = {{"type", "WhitespaceSplit"}}, slow = slowSplit("Isolated");
  const auto sequence = [&](const nlohmann::json &first, const nlohmann::json &second) {
    return nlohmann::json{
        {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({first, second})}}}};
  };
  EXPECT_TRUE(fails(encoded(sequence(words, slow), kSlowText), {"pretokenizers[1]: ", "42 bytes"}));
  EXPECT_TRUE(fails(encoded(sequence(slow, words), kSlowText), {"pretokenizers[0]: ", "44 bytes"}));
}

TEST_F(Refusal, aNormalizersSearchToo) {
  const nlohmann::json normalizer = {
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "(?:x+x+)+y"}}}, {"content", "y"}}}};
  EXPECT_TRUE(fails(encoded(normalizer, kSlowText), {"tokenizer.json.normalizer: ", "retry"}));
  nlohmann::json added = normalizer;
  added["added_tokens"] = {{{"content", kSlowText}, {"id", 3}, {"normalized", true}}};
  EXPECT_TRUE(fails(openTokenizer({"", write(added)}), {"added_tokens[0].content", "tokenizer.json.normalizer: "}));
}

TEST_F(Refusal, idsAroundATextAreOfTokens) {
  const auto open = [&](const nlohmann::json &processor) {
    const nlohmann::json added = {{{"content", "<s>"}, {"id", 7}, {"special", true}}};
    return openTokenizer({"", write({{"post_processor", processor}, {"added_tokens", added}})});
  };
  const auto templateOf = [](const nlohmann::json &special) {
    return nlohmann::json{{"type", "TemplateProcessing"},
                          {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                          {"special_tokens", special}};
  };
  const auto withIds = [&](const nlohmann::json &ids) { return templateOf({{"<s>", {{"ids", ids}}}}); };
  EXPECT_TRUE(isOk(open(withIds({7, 0}))));
  for (const nlohmann::json &bad : {nlohmann::json(3), nlohmann::json(-1), nlohmann::json("<s>"), nlohmann::json(),
                                    nlohmann::json(int64_t(1) << 32)})
    EXPECT_TRUE(fails(open(withIds(nlohmann::json::array({7, bad}))),
                      {"tokenizer.json.post_processor.special_tokens.<s>.ids[1]: is ", "expected the id of a token"}))
        << bad;
  EXPECT_TRUE(fails(open(templateOf(nlohmann::json::object())), {"special_tokens.<s>.ids: is missing", "<s>"}));
  const auto bert = [](int64_t id) {
    return nlohmann::json{{"type", "BertProcessing"},
                          {"cls", nlohmann::json::array({"<s>", 7})},
                          {"sep", nlohmann::json::array({"y", id})}};
  };
  EXPECT_TRUE(isOk(open(bert(1))));
  EXPECT_TRUE(fails(open(bert(102)), {"tokenizer.json.post_processor.sep[1]: is 102, expected the id of a token"}));
  EXPECT_TRUE(fails(open({{"type", "Sequence"}, {"processors", nlohmann::json::array({bert(102)})}}),
                    {"post_processor.processors[0].sep[1]: is 102"}));
}

TEST_F(Refusal, theEndTokenIsOne) {
  const std::string path = write(nlohmann::json::object());
  const auto open = [&](const char *config, const char *map) {
    dir.write("tokenizer_config.json", config), dir.write("special_tokens_map.json", map);
    return openTokenizer({"", path});
  };
  for (const char *good : {R"({"eos_token": "y"})", R"({"eos_token": {"content": "y"}})"}) {
    EXPECT_EQ(open(good, "{}").take()->endToken(), 1);
    EXPECT_EQ(open(R"({"eos_token": null})", good).take()->endToken(), 1);
  }
  EXPECT_FALSE(open("{}", "{}").take()->endToken());
  EXPECT_TRUE(fails(open(R"({"eos_token": "</s>"})", "{}"), {"tokenizer_config.json: eos_token is </s>", "no token"}));
  EXPECT_TRUE(fails(open("{}", R"({"eos_token": "</s>"})"), {"special_tokens_map.json: eos_token is </s>"}));
  for (const char *bad : {R"({"eos_token": 2})", R"({"eos_token": {"id": 1}})", R"({"eos_token": ["y"]})"})
    EXPECT_TRUE(fails(open(bad, "{}"), {"tokenizer_config.json: eos_token is ", "expected a token"})) << bad;
}
