// Words of a command line in place of the keys of a file of --config.
#pragma once

#include "tools/flags/ConfigFile.h"

#include <CLI/CLI.hpp>
#include <optional>

namespace mgc::tools {

// "-1", "-", "-inf" and "-nan" are values.
bool isFlag(const std::string &word);
// Whether it has the flag "--tp", or "-o" of "-oPLAN".
bool hasFlag(const CLI::App &app, const std::string &name);

// The file that the words name. Without a value after the flag there is none; the parser says so.
std::optional<std::string> configIn(const std::vector<std::string> &words);

struct ConfigWords {
  std::vector<std::string> words;      // for sortFlags: "--lr=1e-3", "--special-token-ids 1 2"
  std::vector<std::string> positional; // values of keys such as "plan"
  std::vector<std::string> flags;      // names in `words`
  std::vector<std::string> notes;      // for people: what was left out
};
// Without the entries whose flag, or one that excludes it, is among the words of the command line, and without "model" or "plan"
// where the command line has one.
Result<ConfigWords> wordsOf(const std::string &path, const std::vector<ConfigEntry> &entries, const CLI::App &app,
                            const std::vector<std::string> &commandLine, bool hasPositional);

} // namespace mgc::tools
