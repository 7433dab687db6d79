// The characters that GPT-2's vocabulary has for bytes: printable ASCII and Latin-1 for themselves, U+0100 and up for the rest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgc {

// "Ġthe" -> " the"; none where a character stands for no byte.
std::optional<std::string> bytesOfToken(std::string_view token);

} // namespace mgc
