// The options of the tools by the names that a line has for them, and what a value must be.
#pragma once

#include "frontend/layout/Options.h"
#include "runtime/train/RunOptions.h"
#include "tools/flags/ForeignAnswers.h"

namespace mgc::tools {

// An option of a tool that a flag names. `own`: the name that all its names and shorthands share.
struct NamedOption {
  std::string own;
  bool isSum = false; // several shorthands of it may be given: the greatest number counts
  const frontend::LayoutOption *layout = nullptr;
  const frontend::OptionWords *words = nullptr;
  const RunOption *run = nullptr;
  bool isSwitch = false;
};
std::optional<NamedOption> compileOptionNamed(const std::string &flag);
std::optional<NamedOption> runOptionNamed(const std::string &flag);

// How many words behind a flag can be its values: by the tables of the tools, of a model, and of flags with an answer. 1 where none
// has it.
size_t mostValuesOf(const std::string &flag);

// Why the values of a flag cannot be those of the option, as "found 'X', expected a whole number"; empty: they can. Whether files
// exist is not looked at.
struct ValueProblem {
  std::string text;
  bool isRefused = false; // a value that Megatron-LM knows, and that nothing here does
};
ValueProblem problemOf(const NamedOption &option, const std::vector<std::string> &values,
                       const frontend::Supported &supported);

} // namespace mgc::tools
