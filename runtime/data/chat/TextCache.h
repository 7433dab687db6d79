// The texts of a file of conversations, kept in a folder: rendering takes longer than all else that is done with them.
#pragma once

#include "runtime/base/File.h"
#include "runtime/data/chat/ChatTemplate.h"

namespace mgc {

// A text as it is tokenized; of a pair the end token follows.
struct LineText {
  ChatText chat;
  bool isPair = false;
};

class TextCache {
public:
  // The texts that `key` stands for: all that they are made of.
  TextCache(std::string folder, uint64_t key) : path_(folder + fmt::format("/chats-{:016x}.jsonl", key)), folder_(std::move(folder)) {}
  // Nothing: they are not there, or the file is damaged, and will be replaced.
  std::optional<std::vector<LineText>> load() const;
  // All lines of the file. An error: the folder cannot be written.
  Status save(const std::vector<LineText> &texts) const;

private:
  std::string path_, folder_;
};

} // namespace mgc
