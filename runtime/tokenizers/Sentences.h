// A text -> its sentences, without the white space around them, by Unicode's rules (UAX 29).
#pragma once

#include <string_view>
#include <vector>

namespace mgc {

std::vector<std::string_view> sentencesOf(std::string_view text);

} // namespace mgc
