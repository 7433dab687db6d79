// Conversations -> texts, and which bytes of them are learned.
//
//   {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
//   <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n        learned: Hello<|im_end|>\n
#pragma once

#include "runtime/data/chat/Conversation.h"
#include "runtime/tokenizers/Tokenizer.h"

#include <atomic>
#include <functional>
#include <span>

namespace mgc {

struct ChatText {
  std::string text;
  std::vector<TextRange> learned; // in order, apart
  int64_t shortened = 0; // answers before the last that the template writes without a part of them, as their thoughts
};

struct ChatTokens {
  std::vector<int32_t> ids;
  std::vector<bool> isLearned; // by token
};
// The text is tokenized whole, without the tokens that the tokenizer puts around texts. A token is learned if one of its bytes is.
Result<ChatTokens> tokenize(const ChatText &text, SftLearn learn, Encoder &encoder);

class ChatTemplate {
public:
  virtual ~ChatTemplate() = default;
  // The texts in the order of the conversations, each or why there is none. An error: the template does not work at all.
  virtual Result<std::vector<Result<ChatText>>> texts(std::span<const Conversation> chats, SftLearn learn) = 0;
  virtual std::string describe() const = 0; // "the chat template of DIR"
  // By what a training that goes on knows the template again.
  virtual uint64_t hash() const = 0;
  // A template in Jinja that writes the same, of one that is not in Jinja itself; else empty.
  virtual std::string jinja() const { return ""; }
};

struct ChatTemplateOptions {
  // A file of a template in Jinja, or of JSON: {"begin": TEXT, "roles": {NAME: {"before": TEXT, "after": TEXT, "learn": true or
  // false}, ..}}, of which all but "roles" may be missing. Empty: that of the tokenizer's folder, else ChatML, for tokenizers
  // that have its tokens.
  std::string file = {};
  std::string tokenizer = {};                    // its folder, or a file there
  OrderedJson variables = OrderedJson::object(); // the template's, in the place of its own
  const std::atomic<bool> *stop = nullptr;       // see RenderProcess::start
};
// Null: there is none, and every conversation is an error.
Result<std::unique_ptr<ChatTemplate>> openChatTemplate(const ChatTemplateOptions &options, const Tokenizer &tokenizer);

// A template in Jinja, and what the tokenizer's folder says of it.
struct JinjaSource {
  std::string name, text; // name: for messages
  std::string toolText;   // the template of conversations with tools; empty: the same
  OrderedJson variables = OrderedJson::object();
  bool isThere = false;                // a file has it, be it empty
  std::vector<std::string> given = {}; // variables that are an error if the template does not read them
};
Result<std::unique_ptr<ChatTemplate>> makeJinjaTemplate(JinjaSource source, const std::atomic<bool> *stop);

// The texts before and after a message by its role. The JSON is that of ChatTemplateOptions::file.
Result<std::unique_ptr<ChatTemplate>> makeRoleTemplate(const nlohmann::json &json, const std::string &name);

// An error that names the first field of a message that `reads` does not know: it would be lost without a word. Names that only
// say which call a tool answers may be lost.
Status verifyFields(const Conversation &chat, const std::string &name,
                    const std::function<bool(const std::string &)> &reads);

} // namespace mgc
