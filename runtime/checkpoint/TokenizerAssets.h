// The small files that a folder of weights needs to be used as it is: of its tokenizer, its chat template, how it generates.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace mgc {

class TokenizerAssets {
public:
  // The first of the folders that has a tokenizer; each may be a file in its folder, and an iter_ folder stands for the one that it
  // is in. None of them: there are no assets. The contents are kept, for the folder may change until they are written.
  // Notes for people: files that no program could read, and which are left out.
  static Result<TokenizerAssets> read(const std::vector<std::string> &folders, std::vector<std::string> &notes);
  // Takes the place of the chat template. `text`: in Jinja.
  void setChatTemplate(std::string text);
  bool isEmpty() const { return files_.empty(); }
  // Beside the weights in the folder; files that are equal stay as they are.
  Status write(const std::string &folder) const;

private:
  std::vector<std::pair<std::string, std::string>> files_; // path in the folder, content
};

} // namespace mgc
