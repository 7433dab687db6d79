// Lines of conversations: their forms, and what is refused.
#include "runtime/data/chat/Conversation.h"

#include "test/runtime/TempDir.h"

using namespace mgc;
using namespace mgc::test;

namespace {

Result<ChatLine> read(std::string_view line, const ChatForm &form = {}) {
  auto json = parseChatLine(line, form);
  return json.isOk() ? readChatLine(json.take(), form) : json.status();
}

// "role: content" of each message, and + or - where the line says that it is learned or not.
std::string shown(const Result<ChatLine> &line) {
  if (!line.isOk())
    return line.status().message();
  if (const auto *pair = std::get_if<TextPair>(&*line))
    return pair->prompt + " -> " + pair->completion;
  const auto &chat = std::get<Conversation>(*line);
  std::string text;
  for (size_t i = 0; i < chat.messages.size(); ++i)
    text += fmt::format("{}{}: {}{}", i > 0 ? ", " : "", chat.messages[i]["role"].get<std::string>(),
                        chat.messages[i].value("content", "none"),
                        !chat.saysLearned[i]   ? ""
                        : *chat.saysLearned[i] ? " +"
                                               : " -");
  return text;
}

} // namespace

TEST(Conversation, readsAllForms) {
  EXPECT_EQ(shown(read(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})")),
            "user: a, assistant: b");
  EXPECT_EQ(
      shown(read(R"({"system": "s", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"},
                           {"role": "user", "content": "c"}]})")),
      "system: s, user: a, assistant: b, user: c");
  EXPECT_EQ(shown(read(R"({"instruction": "a", "input": "b", "output": "c", "history": [["d", "e"]]})")),
            "user: d, assistant: e, user: a\nb, assistant: c");
  EXPECT_EQ(shown(read(R"({"instruction": "a", "output": "c"})")), "user: a, assistant: c");
  EXPECT_EQ(shown(read(R"({"prompt": "a", "completion": " b"})")), "a ->  b");
  EXPECT_EQ(shown(read(R"({"prompt": [{"role": "assistant", "content": "a"}], "completion": [{"role": "assistant",
                           "content": "b"}]})")),
            "assistant: a -, assistant: b");
}

TEST(Conversation, readsWhatMessagesSay) {
  EXPECT_EQ(
      shown(read(
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                           "train": true}, {"role": "assistant", "content": "c", "weight": 0, "name": null}]})")),
      "user: ab +, assistant: c -");
  const auto calls =
      read(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
                              "arguments": "{\"z\": 1, \"a\": 2}"}}]}], "tools": "[{\"type\": \"function\"}]"})");
  ASSERT_TRUE(isOk(calls));
  const auto &chat = std::get<Conversation>(*calls);
  EXPECT_EQ(chat.messages[0]["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(chat.tools.dump(), R"([{"type":"function"}])");
}

TEST(Conversation, readsCallsOfShareGpt) {
  const auto line = read(R"({"conversations": [{"from": "human", "value": "a"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}"},
      {"from": "observation", "value": "b"},
      {"from": "function_call", "value": "[{\"name\": \"g\", \"arguments\": \"{}\"}, {\"name\": \"h\", \"arguments\": {}}]"},
      {"from": "tool", "value": "c"}, {"from": "gpt", "value": "d"}]})");
  EXPECT_EQ(shown(line), "user: a, assistant: , tool: b, assistant: , tool: c, assistant: d");
  ASSERT_TRUE(isOk(line));
  const auto &messages = std::get<Conversation>(*line).messages;
  EXPECT_EQ(messages[1]["tool_calls"].dump(),
            R"([{"type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}}])");
  EXPECT_EQ(messages[3]["tool_calls"].dump(), R"([{"type":"function","function":{"name":"g","arguments":{}}},)"
                                              R"({"type":"function","function":{"name":"h","arguments":{}}}])");
}

TEST(Conversation, refusesWhatItDoesNotUnderstand) {
  const std::pair<const char *, const char *> rows[] = {
      {R"({"messages": [], "prompt": "a"})", "has both \"messages\" and \"prompt\""},
      {R"({"text": "a"})", "expected an object with \"messages\""},
      {R"([1])", "expected an object with \"messages\""},
      {R"({"messages": []})", "\"messages\": expected a list of messages"},
      {R"({"messages": [{"role": "user"}]})", "message 0: \"content\": expected a text"},
      {R"({"messages": [{"content": "a"}]})", "message 0: \"role\": expected a text"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "a part of type \"image_url\""},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 0.5}]})", "\"weight\": is 0.5, expected 0 or 1"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 0, "train": true}]})", "\"weight\": 0 contradicts"},
      {R"({"messages": [{"role": "user", "content": "a"}], "id": 3})", "--sft-ignore-fields id"},
      {R"({"conversations": [{"from": "function_call", "value": "a"}]})",
       "message 0: \"value\": of a function_call is a, exp"},
      {R"({"conversations": [{"from": "function_call", "value": "[]"}]})", "of a function_call is [], expected"},
      {R"({"conversations": [{"from": "function_call", "value": "{\"name\": \"f\"}"}]})",
       "expected {\"name\": .., \"arg"},
      {R"({"conversations": [{"from": "me", "value": "a"}]})", "\"from\": is me, expected human"},
      {R"({"conversations": [{"from": "human", "value": "a", "role": "user"}]})", "expected one of both pairs"},
      {R"({"prompt": "a"})", "\"completion\": expected a text"},
      {R"({"prompt": "a", "completion": [{"role": "user", "content": "a"}]})", "\"completion\": expected a text"},
      {R"({"instruction": "a"})", "\"output\": expected a text"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [1]})", "\"tools\": expected a list of objects"}};
  for (const auto &[line, message] : rows)
    EXPECT_TRUE(fails(read(line), {message})) << line;
  EXPECT_EQ(shown(read(R"({"messages": [{"role": "user", "content": "a"}], "id": 3})", {.ignored = {"id"}})),
            "user: a");
  const char *special =
      R"({"messages": [{"role": "user", "content": "NaN a"}], "score": -Infinity, "more": [{"x": NaN}]})";
  EXPECT_EQ(shown(read(special, {.ignored = {"score", "more"}})), "user: NaN a");
  EXPECT_TRUE(
      fails(read(special, {.ignored = {"score"}}), {"\"more\": has NaN or Infinity", "--sft-ignore-fields more"}));
  EXPECT_TRUE(
      fails(read(R"({"messages": [{"role": "user", "content": NaN}]})"), {"\"messages\": has NaN or Infinity"}));
  EXPECT_TRUE(fails(read(R"({"messages": NaN)"), {"not JSON"}));
  EXPECT_TRUE(
      fails(read(R"({"messages": [{"role": "user", "content": "a", "train": false}]})", {.learn = SftLearn::all}),
            {"message 0", "--sft-learn all"}));
}
