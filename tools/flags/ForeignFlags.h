// A command line before it is parsed, with the keys of its --config: flags that the tool does not have are answered, all at once. A
// flag of another framework may stay where it changes nothing; a flag of the model is compared with the model; the others are
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
  std::string config;                          // the file of --config; empty: there is none
  std::vector<std::string> ofConfig;           // flags among the words that come from it
};
// `words` follow the name of the program, or of its command, whose flags are those of `app`. What the command line has holds before
// what the file has.
Result<SortedFlags> sortFlags(const CLI::App &app, const std::vector<std::string> &words, Tool tool);

// The names among `known` that are fewest edits away from `name`; none where that is as good as another word.
std::vector<std::string> nearestNames(const std::string &name, const std::vector<std::string> &known);

} // namespace mgc::tools
