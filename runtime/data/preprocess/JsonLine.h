// The texts of one line of a .jsonl: an object, as Python's json reads it. NaN and Infinity are numbers, the last of equal
// names counts.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace mgc {

// A text, or a list of texts.
using LineTexts = std::vector<std::string>;

// Texts of a line of JSON, key by key; `line` is an object that has all keys. Errors name the byte. `remedy`: what helps where a
// key is missing.
Status readJsonLine(std::string_view line, const std::vector<std::string> &keys, std::string_view remedy,
                    std::vector<LineTexts> &texts);

} // namespace mgc
