// A line of a file of conversations, in whichever form people write them.
//
//   {"messages": [{"role": "user", "content": "Hi"}, ..]}             messages
//   {"conversations": [{"from": "human", "value": "Hi"}, ..]}         ShareGPT
//   {"instruction": "Add", "input": "1 2", "output": "3"}             Alpaca
//   {"prompt": "the cat", "completion": " sat"}                       a pair, or one of lists of messages
#pragma once

#include "runtime/base/Json.h"

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mgc {

// The part of a text that is learned: the assistant's turns, the whole text, or the last turn of the assistant alone.
enum class SftLearn { answers, all, lastAnswer };
inline constexpr std::array<std::string_view, 3> kSftLearnNames = {"answers", "all", "last-answer"};

using OrderedJson = nlohmann::ordered_json; // templates write objects in the order that they have

struct Conversation {
  OrderedJson messages =
      OrderedJson::array(); // a list of objects; content, where there is some, is a text; no field is null
  OrderedJson tools;        // a list of objects; null: none
  OrderedJson variables = OrderedJson::object(); // the template's
  // By message: whether the line says that it is learned, or not. Nothing: the template, or the role, does.
  std::vector<std::optional<bool>> saysLearned;
};

// The texts of a pair: the second is learned.
struct TextPair {
  std::string prompt, completion;
};

using ChatLine = std::variant<Conversation, TextPair>;

struct ChatForm {
  SftLearn learn = SftLearn::answers;
  std::vector<std::string> ignored = {}; // fields of a line that are passed over
};

// A line as Python's json reads it: NaN and Infinity may stand in ignored fields, and are an error with the field's name elsewhere.
Result<OrderedJson> parseChatLine(std::string_view line, const ChatForm &form);

// An error names the message and the field. Fields "train": true or false and "weight": 0 or 1 of a message say whether it is
// learned.
Result<ChatLine> readChatLine(OrderedJson line, const ChatForm &form);

} // namespace mgc
