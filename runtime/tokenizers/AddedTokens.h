// Added tokens of a tokenizer.json: they are cut out of a text before anything else happens to it.
#pragma once

#include "runtime/tokenizers/Normalizers.h"

#include <array>
#include <functional>
#include <map>
#include <vector>

namespace mgc {

struct AddedToken {
  std::string content, where; // where: of the content, for messages
  int32_t id = 0;
  bool isSingleWord = false;                    // not within a word
  bool stripsLeft = false, stripsRight = false; // white space around it belongs to it
  bool isNormalized = false;                    // it is found in the normalized text, in its own normalized form
};

Result<std::vector<AddedToken>> readAddedTokens(const JsonPlace &json);

// Some of them, as they are found in a text: of those that begin at one place the longest.
class TokenFinder {
public:
  void add(const AddedToken &token, std::string_view content);
  // Visits the parts of the text in their order, up to the first error of `visit`: a part that is a token has its id, others
  // have -1. None is empty.
  using Visit = std::function<Status(size_t begin, size_t end, int32_t id)>;
  Status forEach(std::string_view text, const Visit &visit) const;

private:
  struct Node {
    std::map<char, size_t> children;
    std::optional<size_t> token;
  };
  // Where the longest token at `begin` ends.
  std::pair<const AddedToken *, size_t> longestAt(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = {{}};
  std::array<bool, 256> begins_{}; // whether a token begins with the byte
};

} // namespace mgc
