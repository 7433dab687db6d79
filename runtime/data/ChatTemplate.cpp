// See ChatTemplate.h.
#include "runtime/data/ChatTemplate.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

// A field that is a text; another is an error that names it.
Result<std::string> textOf(const nlohmann::json &object, const char *name, bool mayBeMissing = false) {
  if (mayBeMissing && !object.contains(name))
    return std::string();
  if (!object.is_object() || !object.contains(name) || !object[name].is_string())
    return errorf("\"{}\": expected a text", name);
  return object[name].get<std::string>();
}

// A field that is not read is a mistake.
Status verifyKeys(const nlohmann::json &object, std::initializer_list<std::string_view> known) {
  if (!object.is_object())
    return Status::ok(); // the reader of the field reports it
  for (const auto &entry : object.items())
    if (std::ranges::find(known, entry.key()) == known.end())
      return errorf("\"{}\" is unknown, expected {}", printable(entry.key()), fmt::join(known, ", "));
  return Status::ok();
}

Status append(std::string_view text, bool isLearned, Encoder &encoder, ChatTokens &out) {
  MGC_TRY(encoder.encode(text, /*special=*/false, out.ids));
  out.isLearned.resize(out.ids.size(), isLearned);
  return Status::ok();
}

} // namespace

Result<ChatTemplate> ChatTemplate::open(const std::string &path, const Tokenizer &tokenizer) {
  ChatTemplate chat;
  chat.end_ = tokenizer.endToken();
  if (path.empty()) {
    if (tokenizer.idOf("<|im_start|>") && tokenizer.idOf("<|im_end|>"))
      for (const char *role : {"system", "user", "assistant", "tool"})
        chat.roles_[role] = {fmt::format("<|im_start|>{}\n", role), "<|im_end|>\n", role == std::string("assistant")};
    return chat;
  }
  MGC_ASSIGN(text, readFile(path, 1 << 20));
  MGC_ASSIGN(json, parseJson(text).at(path));
  MGC_TRY(verifyKeys(json, {"begin", "roles"}).at(path));
  MGC_SET(chat.begin_, textOf(json, "begin", true).at(path));
  if (!json.is_object() || !json.contains("roles") || !json["roles"].is_object() || json["roles"].empty())
    return errorf("{}: \"roles\": expected an object of roles, each with \"before\", \"after\" and \"learn\"", path);
  for (const auto &[name, row] : json["roles"].items()) {
    MGC_TRY(verifyKeys(row, {"before", "after", "learn"}).at(fmt::format("{}: roles.{}", path, printable(name))));
    const auto before = textOf(row, "before", true), after = textOf(row, "after", true);
    const nlohmann::json learn = row.is_object() ? row.value("learn", nlohmann::json(false)) : nlohmann::json();
    for (const auto *field : {&before, &after})
      if (!field->isOk())
        return Status(field->status()).at(fmt::format("{}: roles.{}", path, printable(name)));
    if (!learn.is_boolean())
      return errorf("{}: roles.{}.learn: expected true or false", path, printable(name));
    chat.roles_[name] = {*before, *after, learn.get<bool>()};
  }
  if (std::ranges::none_of(chat.roles_, [](const auto &role) { return role.second.isLearned; }))
    return errorf("{}: roles: none has \"learn\": true, expected one whose messages are learned", path);
  return chat;
}

Result<ChatTokens> ChatTemplate::encode(const nlohmann::json &line, Encoder &encoder) const {
  ChatTokens out;
  if (line.is_object() && line.contains("prompt")) {
    MGC_TRY(addPair(line, encoder, out));
    return out;
  }
  if (!line.is_object() || !line.contains("messages") || !line["messages"].is_array())
    return errorf("expected an object with \"messages\", or with \"prompt\" and \"completion\"");
  if (roles_.empty())
    return errorf("the tokenizer has no <|im_start|> and <|im_end|>; expected --chat-template FILE, which says what is "
                  "put around messages (docs/data.md)");
  MGC_TRY(append(begin_, false, encoder, out));
  size_t number = 0;
  for (const nlohmann::json &message : line["messages"])
    MGC_TRY(addMessage(message, encoder, out).at(fmt::format("message {}", number++)));
  return out;
}

// A message is tokenized as one text; of one that is learned the tokens that its beginning has by itself are not.
Status ChatTemplate::addMessage(const nlohmann::json &message, Encoder &encoder, ChatTokens &out) const {
  MGC_ASSIGN(name, textOf(message, "role"));
  MGC_ASSIGN(content, textOf(message, "content"));
  const auto role = roles_.find(name);
  if (role == roles_.end()) {
    std::string known;
    for (const auto &[each, ignored] : roles_)
      known += (known.empty() ? "" : ", ") + each;
    return errorf("the role {} is not in the template, expected one of {}", printable(name), known);
  }
  const auto &[before, after, isLearned] = role->second;
  std::vector<int32_t> head;
  if (isLearned)
    MGC_TRY(encoder.encode(before, /*special=*/false, head));
  const size_t begin = out.ids.size();
  MGC_TRY(append(before + content + after, isLearned, encoder, out));
  for (size_t i = begin; i < std::min(begin + head.size(), out.ids.size()); ++i)
    out.isLearned[i] = false;
  return Status::ok();
}

Status ChatTemplate::addPair(const nlohmann::json &line, Encoder &encoder, ChatTokens &out) const {
  MGC_ASSIGN(prompt, textOf(line, "prompt"));
  MGC_ASSIGN(completion, textOf(line, "completion"));
  if (!end_)
    return errorf("a completion ends with the tokenizer's end token, and the tokenizer names none; expected "
                  "tokenizer_config.json with eos_token beside it, or \"messages\" and --chat-template FILE");
  MGC_TRY(append(prompt, false, encoder, out));
  MGC_TRY(append(completion, true, encoder, out));
  out.ids.push_back(*end_);
  out.isLearned.push_back(true);
  return Status::ok();
}

} // namespace mgc
