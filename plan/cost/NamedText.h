// Files of the library that stand in the binary, by name: machines, stacks.
#pragma once

#include "runtime/base/Status.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::cost {

struct NamedText {
  std::string_view name, text;
};

// A kind of such files, as messages call it.
struct TextKind {
  std::string_view name; // "machine"
  std::string_view page; // "docs/cost.md"
};

std::vector<std::string> namesOf(std::span<const NamedText> texts);

// The text of that name, or of the file at this path where there is none. An error says which names there are.
Result<std::string> findText(std::span<const NamedText> texts, const std::string &nameOrPath, const TextKind &kind);

} // namespace mgc::cost
