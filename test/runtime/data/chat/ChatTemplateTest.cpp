// Chat templates: ids and learned tokens are those of transformers (test/golden/chat); what a template would lose is refused.
#include "runtime/data/chat/ChatTemplate.h"

#include "runtime/random/Philox.h"
#include "test/Places.h"
#include "test/runtime/TempDir.h"

#include <regex>

using namespace mgc;
using namespace mgc::test;

namespace {

const std::string kGolden = testFile("golden/chat/");

std::string readText(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Conversation> conversations() {
  std::vector<Conversation> chats;
  std::istringstream lines(readText(kGolden + "conversations.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto read = readChatLine(parseOrderedJson(line).take(), {});
    EXPECT_TRUE(isOk(read));
    chats.push_back(std::get<Conversation>(read.take()));
  }
  return chats;
}

std::string digestOf(const ChatTokens &tokens) {
  nlohmann::json learned = nlohmann::json::array();
  for (const bool each : tokens.isLearned)
    learned.push_back(int(each));
  return fmt::format("{:016x}", hashName(nlohmann::json{tokens.ids, learned}.dump()));
}

std::unique_ptr<Tokenizer> tokenizerOf(const std::string &name) {
  return openTokenizer({"", testFile("golden/tokenizers/" + name + "/tokenizer.json")}).take();
}

// The template of a text without {% generation %}.
std::string withoutMarks(const std::string &text) {
  const std::string begun = std::regex_replace(text, std::regex(R"((\{%-?\s*)generation(\s*-?%\}))"), "$1if true$2");
  return std::regex_replace(begun, std::regex(R"((\{%-?\s*)endgeneration(\s*-?%\}))"), "$1endif$2");
}

class ChatGolden : public testing::TestWithParam<std::string> {};

} // namespace

// The template of that text, with the special tokens of a row of expected.json.
Result<std::unique_ptr<ChatTemplate>> goldenTemplate(const std::string &name, const std::string &text,
                                                     const nlohmann::json &row) {
  JinjaSource source{name, text, ""};
  for (const auto &[variable, token] : row["special"].items())
    source.variables[variable] = token.get<std::string>();
  return makeJinjaTemplate(std::move(source), nullptr);
}

TEST_P(ChatGolden, areThoseOfTransformers) {
  const nlohmann::json row = nlohmann::json::parse(readText(kGolden + "expected.json"))[GetParam()];
  const auto tokenizer = tokenizerOf(row["tokenizer"].get<std::string>());
  const auto encoder = tokenizer->encoder();
  const std::vector<Conversation> chats = conversations();
  const std::string marked = readText(kGolden + "templates/" + GetParam() + ".jinja");
  for (const std::string &text : {marked, withoutMarks(marked)}) {
    const auto made = goldenTemplate(GetParam(), text, row);
    ASSERT_TRUE(isOk(made));
    const auto texts = (*made)->texts(chats, SftLearn::answers);
    ASSERT_TRUE(isOk(texts));
    for (size_t i = 0; i < chats.size(); ++i) {
      EXPECT_EQ((*texts)[i].isOk(), !row["rows"][i].is_null())
          << i << ((*texts)[i].isOk() ? "" : " " + (*texts)[i].status().message());
      if (!(*texts)[i].isOk() || row["rows"][i].is_null())
        continue;
      const auto tokens = tokenize(*(*texts)[i], SftLearn::answers, *encoder);
      ASSERT_TRUE(isOk(tokens));
      EXPECT_EQ(digestOf(*tokens), row["rows"][i].get<std::string>())
          << i << " " << (&text == &marked) << " " << (*texts)[i]->text;
    }
  }
}

// Parts that are known by those of others that stand alike are those that {% generation %} marks, and the first ones are those of
// a short conversation.
TEST_P(ChatGolden, learnTheSameOfLongConversations) {
  const nlohmann::json row = nlohmann::json::parse(readText(kGolden + "expected.json"))[GetParam()];
  Conversation longOne;
  std::vector<Conversation> chats = conversations();
  for (size_t i = 0; i < chats.size() && longOne.messages.size() < 40; ++i)
    if (!row["rows"][i].is_null() && chats[i].tools.is_null() && chats[i].messages[0]["role"] == "user" &&
        std::ranges::none_of(chats[i].messages, [](const auto &message) { return message.size() > 2; }))
      for (const auto &message : chats[i].messages)
        longOne.messages.push_back(message), longOne.saysLearned.emplace_back();
  longOne.messages.back()["content"] = "the end";
  const std::string marked = readText(kGolden + "templates/" + GetParam() + ".jinja");
  std::vector<ChatText> texts;
  for (const std::string &text : {marked, withoutMarks(marked)}) {
    const auto made = goldenTemplate(GetParam(), text, row);
    ASSERT_TRUE(isOk(made));
    auto read = (*made)->texts(std::span(&longOne, 1), SftLearn::answers);
    ASSERT_TRUE(isOk(read));
    ASSERT_TRUE(isOk(read->front()));
    texts.push_back(read->front().take());
  }
  EXPECT_EQ(texts[0].text, texts[1].text);
  const auto tokenizer = tokenizerOf(row["tokenizer"].get<std::string>());
  const auto encoder = tokenizer->encoder();
  const auto one = tokenize(texts[0], SftLearn::answers, *encoder),
             two = tokenize(texts[1], SftLearn::answers, *encoder);
  ASSERT_TRUE(isOk(one) && isOk(two));
  EXPECT_EQ(one->isLearned, two->isLearned);
}

INSTANTIATE_TEST_SUITE_P(All, ChatGolden, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           std::ifstream file(testFile("golden/chat/expected.json"));
                           const nlohmann::json rows = nlohmann::json::parse(file);
                           for (const auto &[name, row] : rows.items())
                             names.push_back(name);
                           return names;
                         }()),
                         [](const auto &info) { return info.param; });
