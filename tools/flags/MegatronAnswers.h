// Flags of Megatron-LM that neither tool has: what corresponds to each here. The table is megatron-flags.json, whose rows have
//   answer    for people; {flag} is the flag
//   flags     names; of those that may stay, " VALUE" or " VALUES" says that something follows
//   prefixes  beginnings of names; a name among `flags` goes before them, and of two the longer one
//   goesOn    the flag may stay: leaving it out changes neither results nor memory that was asked for
//   onlyValue ... with this value
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::tools {

struct MegatronAnswer {
  std::string text;
  bool goesOn = false;
  size_t values = 0; // how many values follow the flag at most, where it goes on
};
// `value`: what follows the flag, if anything does. Nothing for flags that Megatron-LM does not have.
std::optional<MegatronAnswer> answerOf(std::string_view flag, std::string_view value);

struct MegatronRow {
  std::string answer; // with {flag} in it
  bool goesOn = false;
  std::string onlyValue;
  std::vector<std::string> flags, prefixes;
};
const std::vector<MegatronRow> &megatronRows();
// Without the word for a value.
std::string_view nameIn(std::string_view entryOfFlags);

} // namespace mgc::tools
