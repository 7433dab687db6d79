// JSON text from an untrusted file -> a document, or an error that says where it is wrong.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace mgc {

// Refuses, besides what is no JSON: a name given twice in one object, and nesting deeper than 64. Throws nothing.
Result<nlohmann::json> parseJson(std::string_view text);
// The same with the names of objects in the order of the text, for whom that matters.
Result<nlohmann::ordered_json> parseOrderedJson(std::string_view text);

// Python writes NaN, Infinity and -Infinity for numbers that JSON has not. They become texts, which no reader of
// numbers takes, or null.
enum class SpecialNumbers { asTexts, asNull };
std::string withoutSpecialNumbers(std::string_view text, SpecialNumbers numbers = SpecialNumbers::asTexts);

// A JSON integer >= 0 that fits int64_t, else nothing.
std::optional<int64_t> jsonSize(const nlohmann::json &value);

// Foreign text fit for a message: control characters escaped, cut after 160 bytes.
std::string printable(std::string_view text);

} // namespace mgc
