// Completion of a program's command line in a shell.
//   in:  its commands and flags, as they are declared to CLI11
//   out: a script that bash or zsh reads: names of commands and flags, words of flags that have a closed set, else files
#pragma once

#include "runtime/base/Status.h"

#include <CLI/CLI.hpp>
#include <functional>

namespace mgc::tools {

inline const std::vector<std::string> kShells = {"bash", "zsh"};

// Words that a flag proposes, in addition to those that its check accepts.
using ProposedWords = std::function<std::vector<std::string>(const CLI::Option &option)>;

// An error: the shell is none of kShells.
Result<std::string> completionScript(const CLI::App &app, const std::string &shell, const ProposedWords &words);

// The command that prints the script of a shell, which parsing sets.
CLI::App *addCompletion(CLI::App &app, std::string &shell);

} // namespace mgc::tools
