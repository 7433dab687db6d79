// Conversations -> token ids, and which of them are to be learned.
//
//   {"role": "user", "content": "Hi"}            before Hi after           nothing is learned
//   {"role": "assistant", "content": "Hello"}    before Hello after        "Hello" and `after` are
#pragma once

#include "runtime/base/Json.h"
#include "runtime/tokenizers/Tokenizer.h"

#include <map>

namespace mgc {

struct ChatTokens {
  std::vector<int32_t> ids;
  std::vector<bool> isLearned; // by token
};

class ChatTemplate {
public:
  // A JSON file: {"begin": TEXT, "roles": {NAME: {"before": TEXT, "after": TEXT, "learn": true or false}, ..}}. All but "roles"
  // may be missing. An empty path is ChatML, for tokenizers that have its tokens.
  static Result<ChatTemplate> open(const std::string &path, const Tokenizer &tokenizer);

  // A line of data: {"messages": [{"role", "content"}, ..]}, or {"prompt", "completion"}: these are put together without a
  // template, and the completion is learned, with the tokenizer's end token behind it.
  Result<ChatTokens> encode(const nlohmann::json &line, Encoder &encoder) const;

private:
  struct Role {
    std::string before, after;
    bool isLearned = false;
  };
  Status addMessage(const nlohmann::json &message, Encoder &encoder, ChatTokens &out) const;
  Status addPair(const nlohmann::json &line, Encoder &encoder, ChatTokens &out) const;

  std::string begin_;
  std::map<std::string, Role> roles_;
  std::optional<int32_t> end_;
};

} // namespace mgc
