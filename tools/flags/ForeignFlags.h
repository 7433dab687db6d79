// A command line before it is parsed: flags that the tool does not have are answered, all at once. A flag of
// another framework may stay where it changes nothing; a flag of the model is compared with the model; the others are
// refused with the flag that corresponds here, or with the nearest flag that there is.
#pragma once

#include "model/ModelFlags.h"

#include <CLI/CLI.hpp>

namespace mgc::tools {

enum class Tool { mgc, mgrun };

struct SortedFlags {
  std::vector<std::string> words;              // for the parser
  std::vector<std::string> notes;              // for people: what was left out
  std::vector<frontend::GivenModelFlag> facts; // facts of the model
};
// `words` follow the name of the program, or of its command, whose flags are those of `app`.
Result<SortedFlags> sortFlags(const CLI::App &app, const std::vector<std::string> &words, Tool tool);

// The names among `known` that are fewest edits away from `name`; none where that is as good as another word.
std::vector<std::string> nearestNames(const std::string &name, const std::vector<std::string> &known);

// Prints the help that was asked for, or what is wrong with the flags; the exit code: 0, 1 where nothing can be printed, 2.
int leaveWith(const CLI::App &app, const CLI::ParseError &end);

} // namespace mgc::tools
