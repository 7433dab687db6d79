// Tokenizers and texts that are refused: what the message names.
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/base/Json.h"
#include "test/runtime/TempDir.h"

using namespace mgc;
using namespace mgc::test;

namespace {

// A tokenizer.json of the words "x", "y" and "[UNK]", with `fields` besides.
std::string write(const TempDir &dir, const nlohmann::json &fields) {
  nlohmann::json json = {
      {"model",
       {{"type", "WordLevel"}, {"vocab", {{"x", 0}, {"y", 1}, {"[UNK]", 2}}}, {"unk_token", "[UNK]"}}}};
  json.update(fields);
  return dir.write("tokenizer.json", json.dump());
}

// An expression that needs 2^n steps where n "x" are followed by no "y".
nlohmann::json slowSplit(const char *behavior) {
  return {{"type", "Split"}, {"pattern", {{"Regex", "(?:x+x+)+y"}}}, {"behavior", behavior}};
}
const std::string kSlowText = "x " + std::string(40, 'x') + "!y";

Status encoded(const TempDir &dir, const nlohmann::json &fields, std::string_view text) {
  const auto tokenizer = openTokenizer({"", write(dir, fields)});
  EXPECT_TRUE(isOk(tokenizer));
  std::vector<int32_t> ids;
  return (*tokenizer)->encoder()->encode(text, false, ids);
}

} // namespace

TEST(Refusal, aSearchThatIsGivenUpIsAnError) {
  const TempDir dir;
  for (const char *behavior : {"Isolated", "Removed"}) {
    const nlohmann::json fields = {{"pre_tokenizer", slowSplit(behavior)}};
    EXPECT_TRUE(fails(encoded(dir, fields, kSlowText), {"tokenizer.json.pre_tokenizer: ", "(?:x+x+)+y",
                                                        "44 bytes", "from byte 0", "x!y", "retry"}))
        << behavior;
    EXPECT_TRUE(isOk(encoded(dir, fields, "x xxxx!y")));
  }
}

TEST(Refusal, anErrorOfASearchLeavesASequence) {
  const TempDir dir;
  const nlohmann::json words = {{"type", "WhitespaceSplit"}}, slow = slowSplit("Isolated");
  const auto sequence = [&](const nlohmann::json &first, const nlohmann::json &second) {
    return nlohmann::json{
        {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({first, second})}}}};
  };
  EXPECT_TRUE(fails(encoded(dir, sequence(words, slow), kSlowText), {"pretokenizers[1]: ", "42 bytes"}));
  EXPECT_TRUE(fails(encoded(dir, sequence(slow, words), kSlowText), {"pretokenizers[0]: ", "44 bytes"}));
}

TEST(Refusal, aNormalizersSearchToo) {
  const TempDir dir;
  const nlohmann::json normalizer = {
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "(?:x+x+)+y"}}}, {"content", "y"}}}};
  EXPECT_TRUE(fails(encoded(dir, normalizer, kSlowText), {"tokenizer.json.normalizer: ", "retry"}));
  nlohmann::json added = normalizer;
  added["added_tokens"] = {{{"content", kSlowText}, {"id", 3}, {"normalized", true}}};
  EXPECT_TRUE(fails(openTokenizer({"", write(dir, added)}),
                    {"added_tokens[0].content", "tokenizer.json.normalizer: "}));
}
