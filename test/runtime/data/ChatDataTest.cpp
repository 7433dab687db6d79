// Conversations: what is read, what is learned, how they are packed.
#include "runtime/data/ChatData.h"

#include "runtime/data/TextLines.h"
#include "test/Places.h"
#include "test/runtime/data/DataPlans.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::test;

namespace {

using ChatData = InTempDir;

const std::string kTokenizer = testFile("golden/tokenizers/qwen2");

plan::Plan planOf(int64_t length, bool packed) { return planOfData(length, 1024, packed); }

DataOptions chats(const std::string &chatTemplate = "") {
  DataOptions options;
  options.tokenizerFiles.model = kTokenizer;
  options.chats.areRead = true, options.chats.templateFile = chatTemplate;
  return options;
}

std::vector<int32_t> idsOf(std::string_view text) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(isOk(openTokenizer({"", kTokenizer}).take()->encoder()->encode(text, false, ids)));
  return ids;
}

std::string lineOf(std::string_view question, std::string_view answer) {
  return fmt::format(
      R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}]}})"
      "\n",
      question, answer);
}

} // namespace

TEST_F(ChatData, learnsAnswersAlone) {
  const GlobalBatch batch = batchOf(dir.write("a.jsonl", lineOf("the cat", "sat on")), planOf(40, false), chats());
  const auto whole = idsOf("<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\nsat on<|im_end|>\n");
  const auto answer = idsOf("sat on<|im_end|>\n");
  ASSERT_TRUE(std::equal(whole.begin(), whole.end(), batch.tokens.begin()));
  std::vector<int32_t> labels(40, kIgnoredLabel);
  std::ranges::copy(answer, labels.begin() + std::ssize(whole) - 1 - std::ssize(answer));
  EXPECT_EQ(batch.labels, labels);
  for (size_t i = whole.size(); i < 40; ++i)
    EXPECT_EQ(batch.tokens[i], 1000); // the tokenizer's end token pads
}

TEST_F(ChatData, pairsNeedNoTemplate) {
  const std::string path = dir.write("a.jsonl", R"({"prompt": "the cat", "completion": " sat"})"
                                                "\n");
  const GlobalBatch batch = batchOf(path, planOf(16, false), chats());
  const auto prompt = idsOf("the cat");
  auto answer = idsOf(" sat");
  answer.push_back(1000);
  std::vector<int32_t> labels(16, kIgnoredLabel);
  std::ranges::copy(answer, labels.begin() + std::ssize(prompt) - 1);
  EXPECT_EQ(batch.labels, labels);
}

// Ids are those of tokenizer("the cat sat") of transformers, and its end token.
TEST_F(ChatData, pairsBeginAsTextsDo) {
  DataOptions options = chats();
  options.tokenizerFiles.model = testFile("golden/tokenizers/llama2");
  for (const char *prompt : {"the cat", "<s>the cat"}) {
    const std::string line = fmt::format(R"({{"prompt": "{}", "completion": " sat"}})", prompt);
    const GlobalBatch batch = batchOf(dir.write("a.jsonl", line), planOf(8, false), options);
    EXPECT_EQ(std::vector(batch.tokens.begin(), batch.tokens.begin() + 8),
              (std::vector<int32_t>{1, 382, 409, 406, 384, 406, 2, 2}));
    EXPECT_EQ(std::vector(batch.labels.begin(), batch.labels.begin() + 8),
              (std::vector<int32_t>{-100, -100, -100, 384, 406, 2, -100, -100}));
  }
}

TEST_F(ChatData, aSearchThatIsGivenUpIsAnError) {
  DataOptions options;
  options.tokenizerFiles.model =
      dir.write("tokenizer.json",
                R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:x+x+)+y"}, "behavior": "Isolated"},
                            "model": {"type": "WordLevel", "vocab": {"x": 0, "[UNK]": 1}, "unk_token": "[UNK]"}})");
  const std::string slow = std::string(40, 'x') + "!y";
  EXPECT_TRUE(fails(openData(dir.write("texts.jsonl", "{\"text\": \"x\"}\n{\"text\": \"" + slow + "\"}\n"),
                             planOf(16, false), 1, options),
                    {"texts.jsonl: line 2: ", "tokenizer.json.pre_tokenizer: ", "retry"}));
  options.chats.areRead = true,
  options.chats.templateFile = dir.write("t.json", R"({"roles": {"user": {"learn": true}}})");
  EXPECT_TRUE(fails(
      openData(dir.write("chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"" + slow + "\"}]}\n"),
               planOf(16, false), 1, options),
      {"chats.jsonl: line 1: ", "tokenizer.json.pre_tokenizer: ", "retry"}));
}

TEST_F(ChatData, aRequestToEndIsHeard) {
  const std::atomic<bool> stop = true;
  DataOptions options = chats();
  options.reading.stop = &stop;
  for (const bool areChats : {true, false}) {
    options.chats.areRead = areChats;
    const std::string path = dir.write("a.jsonl", areChats ? lineOf("the cat", "sat on") : "{\"text\": \"the cat\"}\n");
    EXPECT_TRUE(fails(openData(path, planOf(40, false), 1, options), {"a.jsonl: a request to end came"}));
  }
}

TEST_F(ChatData, aFileOfTextsIsReadOnce) {
  const plan::Plan plan = planOf(4, false);
  const std::string path = dir.write("a.jsonl", "{\"text\": \"the cat sat on the mat the cat sat on the mat\"}\n");
  TokenizedLines texts;
  DataOptions options = chats();
  options.chats.areRead = false, options.reading.texts = &texts;
  const GlobalBatch first = batchOf(path, plan, options);
  std::filesystem::remove(path);
  EXPECT_EQ(batchOf(path, plan, options).tokens, first.tokens);
  options.reading.texts = nullptr;
  EXPECT_TRUE(fails(openData(path, plan, 1, options), {"a.jsonl"}));
}

TEST_F(ChatData, packsWhereDocumentsAreSeparate) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += lineOf("a", "b");
  const std::string path = dir.write("a.jsonl", lines);
  const auto each = std::ssize(idsOf("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"));
  const int64_t length = 3 * each + 2;
  const GlobalBatch packed = batchOf(path, planOf(length, true), chats());
  for (int64_t i = 0; i < length; ++i)
    EXPECT_EQ(packed.starts[i], i < 3 * each ? i / each * each : i) << i;
  for (const int64_t last : {each - 1, 2 * each - 1, 3 * each - 1})
    EXPECT_EQ(packed.labels[last], kIgnoredLabel); // nothing predicts the next conversation
  EXPECT_EQ(std::ranges::count_if(packed.labels, [](int32_t label) { return label >= 0; }),
            3 * std::ssize(idsOf("b<|im_end|>\n")));
  const auto described = [&](bool packed) {
    return openData(path, planOf(length, packed), 1, chats()).take()->describe();
  };
  EXPECT_TRUE(has(described(true), {"20 conversations in 7 samples"}));
  EXPECT_TRUE(has(described(false), {"20 conversations in 20 samples"}));
}

TEST_F(ChatData, cutsAndLeavesOut) {
  const std::string path = dir.write("a.jsonl", lineOf("a", "b") + lineOf(std::string(400, 'x'), "b"));
  const std::string text = openData(path, planOf(24, false), 1, chats()).take()->describe();
  EXPECT_TRUE(has(text, {"1 conversations in 1 samples", "1 of them cut off at 24; 1 left out"}));
  EXPECT_TRUE(fails(openData(dir.write("b.jsonl", lineOf(std::string(400, 'x'), "b")), planOf(24, false), 1, chats()),
                    {"b.jsonl: has no conversation with a token to be learned within 24 tokens"}));
}

TEST_F(ChatData, readsATemplate) {
  const std::string lines = dir.write("a.jsonl", lineOf("q", "r"));
  const auto open = [&](const std::string &text) {
    return openData(lines, planOf(40, false), 1, chats(dir.write("t.json", text)));
  };
  const std::string good =
      R"({"begin": "X", "roles": {"user": {"before": "<", "after": ">"}, "assistant": {"before": "[", "after": "]", "learn": true}}})";
  const GlobalBatch batch = batchOf(lines, planOf(40, false), chats(dir.write("t.json", good)));
  std::vector<int32_t> ids;
  for (const char *part : {"X", "<q>", "[r]"})
    std::ranges::copy(idsOf(part), std::back_inserter(ids));
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), batch.tokens.begin()));
  EXPECT_TRUE(fails(open("{}"), {"t.json: \"roles\""}));
  EXPECT_TRUE(
      fails(open(R"({"roles": {"user": {"before": 1}}})"), {"t.json: roles.user: \"before\": expected a text"}));
  EXPECT_TRUE(fails(open(R"({"roles": {"user": {"learn": 1}}})"), {"roles.user.learn: expected true or false"}));
  EXPECT_TRUE(fails(open(R"({"roles": {"user": {"learn": true}}})"),
                    {"a.jsonl: line 1: message 1: the role assistant", "one of user"}));
  EXPECT_TRUE(fails(open(R"({"roles": {"user": {}}})"), {"t.json: roles: none has \"learn\": true"}));
  EXPECT_TRUE(fails(open(R"({"roles": {"user": {"befor": ""}}})"),
                    {"t.json: roles.user: \"befor\" is unknown, expected before, after, learn"}));
  EXPECT_TRUE(fails(open(R"({"role": 1, "roles": {}})"), {"t.json: \"role\" is unknown, expected begin, roles"}));
}

// Without an end token the model would never learn to stop.
TEST_F(ChatData, aCompletionNeedsAnEnd) {
  DataOptions options = chats();
  options.tokenizerFiles.model = dir.write(
      "tokenizer.json",
      R"({"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "vocab": {"a": 0, "u": 1}, "unk_token": "u"}})");
  EXPECT_TRUE(
      fails(openData(dir.write("p.jsonl", R"({"prompt": "a", "completion": "a"})"), planOf(8, false), 1, options),
            {"p.jsonl: line 1: ", "names none", "eos_token"}));
}

TEST_F(ChatData, refusesWhatIsNone) {
  const auto open = [&](const std::string &lines, const plan::Plan &plan, const DataOptions &options) {
    return openData(dir.write("a.jsonl", lines), plan, 1, options);
  };
  const plan::Plan plan = planOf(24, false);
  EXPECT_TRUE(
      fails(open(lineOf("a", "b") + "{}\n", plan, chats()), {"a.jsonl: line 2: expected an object with \"messages\""}));
  EXPECT_TRUE(
      fails(open("{\"messages\": [{\"role\": \"user\"}]}\n", plan, chats()), {"line 1: message 0: \"content\""}));
  EXPECT_TRUE(fails(open("{\n", plan, chats()), {"a.jsonl: line 1"}));
  plan::Plan small = plan, masked = plan;
  small.vocabulary = 100;
  EXPECT_TRUE(fails(open(lineOf("a", "b"), small, chats()), {"has 1005 tokens, but the model's vocabulary has 100"}));
  masked.objective = plan::Objective::masked;
  EXPECT_TRUE(fails(open(lineOf("a", "b"), masked, chats()), {"--sft: the plan predicts masked tokens"}));
  DataOptions without = chats(), noTemplate = chats();
  without.tokenizerFiles = {};
  EXPECT_TRUE(fails(open(lineOf("a", "b"), plan, without), {"--sft needs --tokenizer-model"}));
  noTemplate.tokenizerFiles.model = testFile("golden/tokenizers/gpt2");
  EXPECT_TRUE(fails(open(lineOf("a", "b"), plan, noTemplate), {"no <|im_start|>", "--chat-template"}));
  EXPECT_TRUE(fails(openData(dir.write("a.bin", "ab"), plan, 1, chats()),
                    {"--tokenizer-model is for files that end in .jsonl"}));
}

TEST_F(ChatData, textsAreACorpus) {
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += fmt::format("{{\"text\": \"document {} of the cat\"}}\n", i);
  DataOptions options = chats();
  options.chats.areRead = false;
  const std::string path = dir.write("a.jsonl", lines);
  auto data = openData(path, planOf(16, false), 1, options);
  ASSERT_TRUE(isOk(data));
  EXPECT_TRUE((*data)->describe().starts_with(path)) << (*data)->describe();
  const GlobalBatch batch = batchOf(path, planOf(16, false), options);
  EXPECT_NE(std::ranges::find(batch.tokens, 1000), batch.tokens.end()); // behind each document
  EXPECT_TRUE(fails(openData(dir.write("b.jsonl", "{\"text\": 1}\n"), planOf(16, false), 1, options),
                    {"b.jsonl: line 1: byte 9"}));
}
