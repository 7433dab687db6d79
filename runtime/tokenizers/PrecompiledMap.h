// sentencepiece's map of characters, as Precompiled of a tokenizer.json has it: a double-array trie of UTF-8 texts, and what
// each becomes.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgc {

class PrecompiledMap {
public:
  // Base64 of: size of the trie in bytes (u32), its units (u32 each), texts that end with NUL.
  static Result<PrecompiledMap> parse(std::string_view base64);
  // The map's entry for the shortest beginning of `text` that is in it; nothing where none is.
  std::optional<std::string_view> find(std::string_view text) const;

private:
  std::vector<uint32_t> units_;
  std::string texts_;
};

} // namespace mgc
