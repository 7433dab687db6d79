// See Conversation.h.
#include "runtime/data/chat/Conversation.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <ranges>

namespace mgc {

namespace {

using Json = OrderedJson;

Result<std::string> textOf(const Json &object, const char *name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string())
    return errorf("\"{}\": expected a text", name);
  return object[name].get<std::string>();
}

void dropNulls(Json &object) {
  for (auto entry = object.begin(); entry != object.end();)
    entry = entry->is_null() ? object.erase(entry) : std::next(entry);
}

// A text, or a list of parts that are texts.
Status readContent(Json &content) {
  if (content.is_string())
    return Status::ok();
  if (!content.is_array())
    return errorf("\"content\": expected a text, or a list of parts {{\"type\": \"text\", \"text\": ..}}");
  std::string text;
  for (const Json &part : content) {
    const bool isText = part.is_object() && part.value("type", Json("text")) == "text";
    if (!part.is_string() && !isText)
      return errorf("\"content\": a part of type {}, expected text alone",
                    part.is_object() ? printable(part["type"].dump()) : "unknown");
    MGC_ASSIGN(more, part.is_string() ? Result<std::string>(part.get<std::string>()) : textOf(part, "text"));
    text += more;
  }
  content = std::move(text);
  return Status::ok();
}

// Arguments of a call are an object: a text of one, as OpenAI writes it, is read, as servers do before they render.
Status readToolCalls(Json &calls) {
  if (!calls.is_array())
    return errorf("\"tool_calls\": expected a list");
  for (Json &call : calls) {
    Json *const function = call.is_object() && call.contains("function") ? &call["function"] : &call;
    if (!function->is_object() || !function->contains("name"))
      return errorf("\"tool_calls\": expected calls of a function with a \"name\"");
    Json &arguments = (*function)["arguments"];
    if (!arguments.is_string())
      continue;
    if (Result<Json> read = parseOrderedJson(arguments.get<std::string>()); read.isOk() && read->is_object())
      arguments = read.take();
  }
  return Status::ok();
}

// Whether "train" and "weight" say that a message is learned; they are taken out of it.
Result<std::optional<bool>> readTraining(Json &message) {
  std::optional<bool> learned;
  if (message.contains("train")) {
    if (!message["train"].is_boolean())
      return errorf("\"train\": expected true or false");
    learned = message["train"].get<bool>();
  }
  if (message.contains("weight")) {
    const Json &weight = message["weight"];
    if (!weight.is_number() || (weight != 0 && weight != 1))
      return errorf("\"weight\": is {}, expected 0 or 1", printable(weight.dump()));
    if (learned && *learned != (weight == 1))
      return errorf("\"weight\": {} contradicts \"train\": {}", weight.dump(), *learned);
    learned = weight == 1;
  }
  message.erase("train"), message.erase("weight");
  return learned;
}

class ConversationReader {
public:
  explicit ConversationReader(const ChatForm &form) : form_(form) {}

  // `learnsNone`: a message before the part that is learned, whatever its role is.
  Status add(Json message, bool learnsNone = false) {
    const size_t number = out_.messages.size();
    return addMessage(std::move(message), learnsNone).at(fmt::format("message {}", number));
  }
  Status addAll(const Json &list, const char *name, bool learnsNone = false) {
    if (!list.is_array() || list.empty())
      return errorf("\"{}\": expected a list of messages", name);
    for (const Json &message : list)
      MGC_TRY(add(message, learnsNone));
    return Status::ok();
  }
  Status addText(const char *role, std::string text) { return add({{"role", role}, {"content", std::move(text)}}); }

  // The fields that lines of all forms with messages may have.
  Result<ChatLine> finish(Json &line) {
    if (line.contains("tools"))
      MGC_TRY(readTools(line["tools"]));
    if (line.contains("chat_template_kwargs")) {
      out_.variables = line["chat_template_kwargs"];
      if (!out_.variables.is_object())
        return errorf("\"chat_template_kwargs\": expected an object");
    }
    return ChatLine(std::move(out_));
  }

private:
  Status addMessage(Json message, bool learnsNone) {
    if (!message.is_object())
      return errorf("expected an object with \"role\" and \"content\"");
    dropNulls(message);
    MGC_TRY(renameShareGpt(message));
    MGC_TRY(textOf(message, "role").status());
    if (message.contains("tool_calls"))
      MGC_TRY(readToolCalls(message["tool_calls"]));
    if (message.contains("content"))
      MGC_TRY(readContent(message["content"]));
    else if (!message.contains("tool_calls"))
      return errorf("\"content\": expected a text");
    MGC_ASSIGN(learned, readTraining(message));
    if (learned == false && form_.learn == SftLearn::all)
      return errorf("says that it is not learned, but with --sft-learn all the whole text is");
    out_.saysLearned.push_back(learned || !learnsNone ? learned : false);
    out_.messages.push_back(std::move(message));
    return Status::ok();
  }

  static Status readFunctionCall(Json &message) {
    const Json &content = message["content"];
    Result<Json> calls = content.is_string() ? parseOrderedJson(content.get<std::string>()) : Result<Json>(content);
    if (calls.isOk() && calls->is_object())
      calls = Json::array({calls.take()});
    const auto isCall = [](const Json &call) {
      return call.is_object() && call.contains("name") && call["name"].is_string() && call.contains("arguments");
    };
    if (!calls.isOk() || !calls->is_array() || calls->empty() || !std::ranges::all_of(*calls, isCall))
      return errorf(
          "\"value\": of a function_call is {}, expected {{\"name\": .., \"arguments\": ..}} as JSON, or a list of "
          "them",
          printable(content.is_string() ? content.get<std::string>() : content.dump()));
    message["tool_calls"] = Json::array();
    for (Json &call : *calls)
      message["tool_calls"].push_back({{"type", "function"}, {"function", std::move(call)}});
    message["content"] = "";
    return Status::ok();
  }

  // {"from", "value"} -> {"role", "content"}; the value of a function_call is JSON: a call, or a list of calls.
  static Status renameShareGpt(Json &message) {
    if (!message.contains("from") && !message.contains("value"))
      return Status::ok();
    if (message.contains("role") || message.contains("content"))
      return errorf("has \"from\" and \"value\" beside \"role\" and \"content\", expected one of both pairs");
    static constexpr std::pair<std::string_view, const char *> kRoles[] = {
        {"human", "user"},        {"user", "user"},        {"gpt", "assistant"},          {"assistant", "assistant"},
        {"chatgpt", "assistant"}, {"bot", "assistant"},    {"model", "assistant"},        {"system", "system"},
        {"tool", "tool"},         {"observation", "tool"}, {"function_call", "assistant"}};
    MGC_ASSIGN(from, textOf(message, "from"));
    const auto row = std::ranges::find(kRoles, from, &std::pair<std::string_view, const char *>::first);
    if (row == std::end(kRoles))
      return errorf("\"from\": is {}, expected {}", printable(from), fmt::join(kRoles | std::views::keys, ", "));
    message["role"] = row->second;
    if (message.contains("value"))
      message["content"] = std::move(message["value"]);
    if (from == "function_call")
      MGC_TRY(readFunctionCall(message));
    message.erase("from"), message.erase("value");
    return Status::ok();
  }

  Status readTools(Json &tools) {
    if (tools.is_string()) { // JSON in a text, for files whose columns have one type
      MGC_ASSIGN(read, parseOrderedJson(tools.get<std::string>()).at("\"tools\""));
      tools = std::move(read);
    }
    if (!tools.is_array() || !std::ranges::all_of(tools, [](const Json &tool) { return tool.is_object(); }))
      return errorf("\"tools\": expected a list of objects, or a text of one");
    if (!tools.empty())
      out_.tools = std::move(tools);
    return Status::ok();
  }

  const ChatForm &form_;
  Conversation out_;
};

Result<ChatLine> readMessages(Json &line, const ChatForm &form) {
  ConversationReader reader(form);
  MGC_TRY(reader.addAll(line["messages"], "messages"));
  return reader.finish(line);
}

Result<ChatLine> readShareGpt(Json &line, const ChatForm &form) {
  ConversationReader reader(form);
  if (line.contains("system")) {
    MGC_ASSIGN(text, textOf(line, "system"));
    if (!text.empty())
      MGC_TRY(reader.addText("system", std::move(text)));
  }
  MGC_TRY(reader.addAll(line["conversations"], "conversations"));
  return reader.finish(line);
}

// The user says the instruction and, a line later, its input.
Result<ChatLine> readAlpaca(Json &line, const ChatForm &form) {
  ConversationReader reader(form);
  std::string texts[4];
  for (const auto &[name, text] :
       {std::pair("system", &texts[0]), {"instruction", &texts[1]}, {"input", &texts[2]}, {"output", &texts[3]}})
    if (line.contains(name) || text == &texts[1] || text == &texts[3])
      MGC_SET(*text, textOf(line, name));
  if (!texts[0].empty())
    MGC_TRY(reader.addText("system", texts[0]));
  if (line.contains("history")) {
    const Json &history = line["history"];
    const auto isTurn = [](const Json &turn) {
      return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    };
    if (!history.is_array() || !std::ranges::all_of(history, isTurn))
      return errorf("\"history\": expected a list of [question, answer]");
    for (const Json &turn : history)
      for (const auto &[role, text] : {std::pair("user", turn[0]), {"assistant", turn[1]}})
        MGC_TRY(reader.addText(role, text.get<std::string>()));
  }
  MGC_TRY(reader.addText("user", texts[2].empty() ? texts[1] : texts[1] + "\n" + texts[2]));
  MGC_TRY(reader.addText("assistant", texts[3]));
  return reader.finish(line);
}

Result<ChatLine> readPair(Json &line, const ChatForm &form) {
  const Json prompt = line.value("prompt", Json()), completion = line.value("completion", Json());
  if (prompt.is_array() && completion.is_array()) {
    ConversationReader reader(form);
    MGC_TRY(reader.addAll(prompt, "prompt", /*learnsNone=*/true));
    MGC_TRY(reader.addAll(completion, "completion"));
    return reader.finish(line);
  }
  if (!prompt.is_string() || !completion.is_string())
    return errorf("\"{}\": expected a text, or lists of messages in both of prompt and completion",
                  prompt.is_string() ? "completion" : "prompt");
  for (const char *name : {"tools", "chat_template_kwargs"})
    if (line.contains(name))
      return errorf("\"{}\": a pair of texts has no template that reads it", name);
  return ChatLine(TextPair{prompt.get<std::string>(), completion.get<std::string>()});
}

struct FormRow {
  std::string_view mark; // a line that has the field is of the form
  std::vector<std::string_view> more;
  Result<ChatLine> (*read)(Json &line, const ChatForm &form);
};
const FormRow kForms[] = {
    {"messages", {"tools", "chat_template_kwargs"}, readMessages},
    {"conversations", {"system", "tools", "chat_template_kwargs"}, readShareGpt},
    {"instruction", {"input", "output", "system", "history", "chat_template_kwargs"}, readAlpaca},
    {"prompt", {"completion", "tools", "chat_template_kwargs"}, readPair},
};

} // namespace

Result<Json> parseChatLine(std::string_view line, const ChatForm &form) {
  Result<Json> json = parseOrderedJson(line);
  if (json.isOk())
    return json;
  Result<Json> texts = parseOrderedJson(withoutSpecialNumbers(line));
  Result<Json> nulls = parseOrderedJson(withoutSpecialNumbers(line, SpecialNumbers::asNull));
  if (!texts.isOk() || !nulls.isOk() || !texts->is_object())
    return json;
  for (const auto &entry : texts->items())
    if (entry.value() != (*nulls)[entry.key()] && std::ranges::find(form.ignored, entry.key()) == form.ignored.end())
      return errorf("\"{0}\": has NaN or Infinity, expected numbers; --sft-ignore-fields {0} passes over it",
                    printable(entry.key()));
  return texts;
}

Result<ChatLine> readChatLine(Json line, const ChatForm &form) {
  constexpr const char *kExpected =
      "\"messages\", \"conversations\", \"instruction\" and \"output\", or \"prompt\" and "
      "\"completion\"";
  if (!line.is_object())
    return errorf("expected an object with {}", kExpected);
  dropNulls(line);
  for (const std::string &name : form.ignored)
    line.erase(name);
  const FormRow *found = nullptr;
  for (const FormRow &row : kForms) {
    if (!line.contains(row.mark))
      continue;
    if (found)
      return errorf(
          "has both \"{}\" and \"{}\", which are two forms; expected one of them (--sft-ignore-fields {} passes "
          "over the other)",
          found->mark, row.mark, row.mark);
    found = &row;
  }
  if (!found)
    return errorf("expected an object with {}", kExpected);
  for (const auto &entry : line.items())
    if (entry.key() != found->mark && std::ranges::find(found->more, entry.key()) == found->more.end())
      return errorf("\"{}\" is not understood, expected {}, {}; --sft-ignore-fields {} passes over it",
                    printable(entry.key()), found->mark, fmt::join(found->more, ", "), printable(entry.key()));
  return found->read(line, form);
}

} // namespace mgc
