// Whether bytes are UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace mgc {

// Where the first byte stands that begins no well-formed character (overlong forms, surrogates and values
// above U+10FFFF are not); nothing: all of it is UTF-8.
std::optional<size_t> firstInvalidUtf8(std::string_view text);

} // namespace mgc
