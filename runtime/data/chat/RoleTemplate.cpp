// Templates in JSON: a text before and after each message, by its role. See ChatTemplate.h.
#include "runtime/data/chat/ChatTemplate.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <ranges>

namespace mgc {

namespace {

// A field that is a text, or is missing.
Result<std::string> textIn(const nlohmann::json &object, const char *name) {
  if (!object.is_object() || (object.contains(name) && !object[name].is_string()))
    return errorf("\"{}\": expected a text", name);
  return object.value(name, std::string());
}

// A field that is not read is a mistake.
Status verifyKeys(const nlohmann::json &object, std::initializer_list<std::string_view> known) {
  for (const auto &entry : object.items())
    if (object.is_object() && std::ranges::find(known, entry.key()) == known.end())
      return errorf("\"{}\" is unknown, expected {}", printable(entry.key()), fmt::join(known, ", "));
  return Status::ok();
}

class RoleTemplate final : public ChatTemplate {
public:
  static Result<std::unique_ptr<ChatTemplate>> make(const nlohmann::json &json, const std::string &name) {
    auto chat = std::make_unique<RoleTemplate>();
    chat->name_ = name, chat->hash_ = hashName(json.dump());
    MGC_TRY(verifyKeys(json, {"begin", "roles"}));
    MGC_SET(chat->begin_, textIn(json, "begin"));
    if (!json.contains("roles") || !json["roles"].is_object() || json["roles"].empty())
      return errorf("\"roles\": expected an object of roles, each with \"before\", \"after\" and \"learn\"");
    for (const auto &[role, row] : json["roles"].items()) {
      const std::string where = "roles." + printable(role);
      MGC_TRY(verifyKeys(row, {"before", "after", "learn"}).at(where));
      MGC_ASSIGN(before, textIn(row, "before").at(where));
      MGC_ASSIGN(after, textIn(row, "after").at(where));
      if (row.contains("learn") && !row["learn"].is_boolean())
        return errorf("{}.learn: expected true or false", where);
      chat->roles_[role] = {before, after, row.value("learn", false)};
    }
    if (std::ranges::none_of(chat->roles_, [](const auto &role) { return role.second.isLearned; }))
      return errorf("roles: none has \"learn\": true, expected one whose messages are learned");
    return std::unique_ptr<ChatTemplate>(std::move(chat));
  }

  Result<std::vector<Result<ChatText>>> texts(std::span<const Conversation> chats, SftLearn learn) override {
    std::vector<Result<ChatText>> texts;
    for (const Conversation &chat : chats)
      texts.push_back(textOf(chat, learn));
    return texts;
  }
  std::string describe() const override { return name_; }
  uint64_t hash() const override { return hash_; }

  // A text in quotes is one of JSON: Jinja knows its escapes. Tags stand in one line, for Jinja may remove newlines behind them.
  std::string jinja() const override {
    const auto text = [](const std::string &value) { return nlohmann::json(value).dump(); };
    const auto isLearned = [](const auto &role) { return role.second.isLearned; };
    std::string out = begin_.empty() ? "" : fmt::format("{{{{ {} }}}}", text(begin_));
    out += "{% for message in messages %}";
    for (std::string_view branch = "if"; const auto &[name, role] : roles_) {
      const std::string written = fmt::format("{{{{ message[\"content\"] + {} }}}}", text(role.after));
      out += fmt::format("{{% {} message[\"role\"] == {} %}}{{{{ {} }}}}", branch, text(name), text(role.before));
      out += role.isLearned ? "{% generation %}" + written + "{% endgeneration %}" : written;
      branch = "elif";
    }
    const auto assistant = roles_.find("assistant");
    const auto answers =
        assistant != roles_.end() && isLearned(*assistant) ? assistant : std::ranges::find_if(roles_, isLearned);
    return out + fmt::format("{{% else %}}{{{{ raise_exception(\"the role \" + message[\"role\"] + \" is not in the "
                             "template\") }}}}{{% endif %}}{{% endfor %}}"
                             "{{% if add_generation_prompt %}}{{{{ {} }}}}{{% endif %}}\n",
                             text(answers->second.before));
  }

private:
  struct Role {
    std::string before, after;
    bool isLearned = false;
  };

  Result<ChatText> textOf(const Conversation &chat, SftLearn learn) const {
    MGC_TRY(verifyFields(chat, name_, [](std::string_view) { return false; }));
    if (!chat.tools.is_null() || !chat.variables.empty())
      return errorf("\"{}\" is not read by {}, expected a template in Jinja",
                    chat.tools.is_null() ? "chat_template_kwargs" : "tools", name_);
    ChatText out{begin_, {}};
    for (size_t i = 0; i < chat.messages.size(); ++i)
      MGC_TRY(addMessage(chat, i, learn, out).at(fmt::format("message {}", i)));
    if (learn == SftLearn::lastAnswer && out.learned.size() > 1)
      out.learned.erase(out.learned.begin(), std::prev(out.learned.end()));
    return out;
  }

  Status addMessage(const Conversation &chat, size_t i, SftLearn learn, ChatText &out) const {
    const auto &message = chat.messages[i];
    const auto name = message["role"].get<std::string>();
    const auto role = roles_.find(name);
    if (role == roles_.end())
      return errorf("the role {} is not in the template, expected one of {}", printable(name),
                    fmt::join(roles_ | std::views::keys, ", "));
    const auto &[before, after, isLearned] = role->second;
    out.text += before;
    const size_t begin = out.text.size();
    out.text += message["content"].get<std::string>() + after;
    // A role of another name than "assistant" may be learned; what a message says of itself stands before it.
    if (chat.saysLearned[i].value_or(isLearned) && learn != SftLearn::all)
      out.learned.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(out.text.size())});
    return Status::ok();
  }

  std::string name_, begin_;
  std::map<std::string, Role> roles_;
  uint64_t hash_ = 0;
};

} // namespace

Result<std::unique_ptr<ChatTemplate>> makeRoleTemplate(const nlohmann::json &json, const std::string &name) {
  return RoleTemplate::make(json, name);
}

} // namespace mgc
