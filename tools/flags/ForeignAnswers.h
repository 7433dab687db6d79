// Flags of other frameworks that neither tool has: what corresponds to each here. The table is foreign-flags.json: rows by
// framework, each with
//   answer    for people; {flag} is the flag
//   flags     names; of those that may stay, " VALUE" or " VALUES" says that something follows
//   prefixes  beginnings of names; a whole name goes before them, and of two the longer one
//   goesOn    the flag may stay: leaving it out changes neither results nor memory that was asked for
//   onlyValue ... with this value
//   here      the same as flags of a tool: "mgrun --timeout {value*60}"; see Rewriting.h
//   instead   likewise, of a flag that is not supported: the nearest that there is
//   group     for mgc translate, where it does not follow from these: see FlagGroup
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::tools {

// FlagGroup: a flag has the same name here; others say the same; it changes no result; nothing does what it does; its value is
// missing or cannot be read.
enum class FlagGroup { same, otherwise, nothing, unsupported, needsValue };

struct ForeignRow;
struct ForeignAnswer {
  std::string text;
  bool goesOn = false;
  size_t values = 0; // words that follow the flag at most, where it goes on
  const ForeignRow *row = nullptr;
};
// `value`: what follows the flag, if anything does. Nothing for flags that no framework of the table has.
std::optional<ForeignAnswer> answerOf(const std::string &flag, std::string_view value);
// The answer to a flag that the table names by their beginning alone.
std::optional<ForeignAnswer> answerByPrefix(const std::string &flag);

// The ways to write a flag that are looked up: "--training.seq_len", "--training.seq-len", "--seq-len".
std::vector<std::string> spellingsOf(const std::string &flag);

struct ForeignRow {
  std::string answer; // with {flag} in it
  bool goesOn = false;
  std::string onlyValue;
  std::vector<std::string> flags, prefixes;
  std::string here, instead; // flags of a tool; empty: none
  FlagGroup group = FlagGroup::unsupported;
  std::string answerTo(std::string_view flag) const; // with the flag in the place of {flag}
};
struct Framework {
  std::string name; // "Hugging Face"; the first is Megatron-LM, whose names the flags here have
  std::vector<ForeignRow> rows;
};
const std::vector<Framework> &frameworks();
// All names of the options of "mgc compile" or "mgrun" (tool-flags.json, written by scripts/docs), for the other tool to know.
const std::vector<std::string> &flagsOfTool(const std::string &tool);
// Without the word for a value.
std::string_view nameIn(std::string_view entryOfFlags);

} // namespace mgc::tools
