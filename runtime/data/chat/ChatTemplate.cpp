// See ChatTemplate.h.
#include "runtime/data/chat/ChatTemplate.h"

#include "runtime/base/File.h"
#include "runtime/base/Utf8.h"

#include <filesystem>

namespace mgc {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t(1) << 30, kMostBytesOfTemplate = int64_t(1) << 22;

// The file's object; an empty one where it is missing.
Result<nlohmann::json> readObject(const fs::path &path) {
  if (!isThere(path))
    return nlohmann::json::object();
  MGC_ASSIGN(text, readFile(path.string(), kMostBytes));
  MGC_ASSIGN(json, parseJson(text).at(path.string()));
  return json.is_object() ? Result<nlohmann::json>(std::move(json))
                          : errorf("{}: is {}, expected an object", path.string(), printable(json.dump()));
}

// "chat_template" of a tokenizer_config.json: a text, or [{"name": "default", "template": TEXT}, ..]; null: none.
Status readTemplates(const nlohmann::json &field, JinjaSource &out) {
  if (field.is_null())
    return Status::ok();
  bool isUnderstood = field.is_string() || field.is_array();
  if (field.is_string())
    out.text = field.get<std::string>();
  for (const nlohmann::json &row : field.is_array() ? field : nlohmann::json::array()) {
    isUnderstood = isUnderstood && row.is_object() && row.value("name", nlohmann::json()).is_string() &&
                   row.value("template", nlohmann::json()).is_string();
    if (isUnderstood && (row["name"] == "default" || row["name"] == "tool_use"))
      (row["name"] == "default" ? out.text : out.toolText) = row["template"].get<std::string>();
  }
  if (!isUnderstood || out.text.empty())
    return errorf("chat_template: is {}, expected a text, or a list of objects with \"name\" and \"template\", one of "
                  "them with the name \"default\"",
                  printable(field.dump()));
  for (const std::string *text : {&out.text, &out.toolText})
    if (std::ssize(*text) > kMostBytesOfTemplate)
      return errorf("chat_template: has {} bytes, expected at most {}", text->size(), kMostBytesOfTemplate);
  return Status::ok();
}

// As AutoTokenizer finds it: chat_template.jinja before the field of tokenizer_config.json. Special tokens are variables.
Result<JinjaSource> templateOfFolder(const fs::path &folder) {
  JinjaSource out{"the chat template of " + folder.string(), {}, {}};
  MGC_ASSIGN(config, readObject(folder / "tokenizer_config.json"));
  MGC_ASSIGN(map, readObject(folder / "special_tokens_map.json"));
  MGC_TRY(readTemplates(config.value("chat_template", nlohmann::json()), out)
              .at((folder / "tokenizer_config.json").string()));
  for (const auto &[path, text] : {std::pair(folder / "chat_template.jinja", &out.text),
                                   {folder / "additional_chat_templates" / "tool_use.jinja", &out.toolText}})
    if (isThere(path)) {
      MGC_SET(*text, readFile(path.string(), kMostBytesOfTemplate));
      out.isThere = true;
    }
  for (const char *name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    for (const nlohmann::json *file : {&map, &config}) {
      const nlohmann::json token = file->value(name, nlohmann::json());
      if (const nlohmann::json text = token.is_object() ? token.value("content", nlohmann::json()) : token;
          text.is_string())
        out.variables[name] = text;
    }
  return out;
}

bool isOfCall(const OrderedJson &message, std::string_view field) {
  return field == "tool_call_id" || (field == "name" && message["role"] == "tool");
}

Status verifyNoVariables(const ChatTemplateOptions &options) {
  return options.variables.empty() ? Status::ok()
                                   : errorf("--chat-template-kwargs: there is no template in Jinja that reads them");
}

nlohmann::json chatMl() {
  nlohmann::json roles;
  for (const char *role : {"system", "user", "assistant", "tool"})
    roles[role] = {{"before", fmt::format("<|im_start|>{}\n", role)},
                   {"after", "<|im_end|>\n"},
                   {"learn", std::string_view(role) == "assistant"}};
  return {{"roles", roles}};
}

} // namespace

Result<ChatTokens> tokenize(const ChatText &text, SftLearn learn, Encoder &encoder) {
  ChatTokens tokens;
  std::vector<TextRange> places;
  MGC_TRY(encoder.encode(text.text, /*special=*/false, tokens.ids, &places));
  auto part = text.learned.begin();
  for (const TextRange &place : places) { // both in order
    while (part != text.learned.end() && part->end <= place.begin)
      ++part;
    tokens.isLearned.push_back(learn == SftLearn::all || (part != text.learned.end() && place.end > part->begin));
  }
  return tokens;
}

Status verifyFields(const Conversation &chat, const std::string &name,
                    const std::function<bool(const std::string &)> &reads) {
  for (size_t i = 0; i < chat.messages.size(); ++i)
    for (const auto &[field, value] : chat.messages[i].items())
      if (field != "role" && field != "content" && !isOfCall(chat.messages[i], field) && !reads(field))
        return errorf(
            "message {}: \"{}\" is not read by {}, so that it would be lost; expected it left out, or a template that "
            "reads it (--chat-template FILE)",
            i, printable(field), name);
  return Status::ok();
}

Result<std::unique_ptr<ChatTemplate>> openChatTemplate(const ChatTemplateOptions &options, const Tokenizer &tokenizer) {
  std::error_code ignored;
  const fs::path path = options.tokenizer, folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  JinjaSource source;
  if (!path.empty())
    MGC_SET(source, templateOfFolder(folder.empty() ? fs::path(".") : folder));
  if (!options.file.empty()) {
    MGC_SET(source.text, readFile(options.file, kMostBytesOfTemplate));
    const Result<nlohmann::json> json = parseJson(source.text);
    if (json.isOk() && json->is_object()) {
      MGC_TRY(verifyNoVariables(options));
      return makeRoleTemplate(*json, options.file).at(options.file);
    }
    if (options.file.ends_with(".json"))
      return errorf("{}: {}", options.file,
                    json.isOk() ? "expected an object with \"roles\"" : json.status().message());
    source.name = options.file, source.toolText.clear(), source.isThere = true;
  }
  if (const auto at = firstInvalidUtf8(source.text))
    return errorf("{}: byte {:#04x} at position {} is not UTF-8", source.name,
                  static_cast<unsigned char>(source.text[*at]), *at);
  if (source.isThere && source.text.empty())
    return errorf("{}: is empty, expected a template in Jinja", source.name);
  if (!source.text.empty()) {
    for (const auto &entry : options.variables.items())
      source.variables[entry.key()] = entry.value(), source.given.push_back(entry.key());
    return makeJinjaTemplate(std::move(source), options.stop);
  }
  MGC_TRY(verifyNoVariables(options));
  if (!tokenizer.idOf("<|im_start|>") || !tokenizer.idOf("<|im_end|>"))
    return std::unique_ptr<ChatTemplate>();
  return makeRoleTemplate(chatMl(), "ChatML");
}

} // namespace mgc
