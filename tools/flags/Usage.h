// Wrong usage of a program, said to whoever typed it.
#pragma once

#include "runtime/base/Status.h"
#include "tools/flags/ForeignFlags.h"

namespace mgc::tools {

// All long names: "--tp".
std::vector<std::string> longNamesOf(const CLI::App &app);

// Refuses a first word that is no command of the program, with the nearest one.
Status verifyCommand(const CLI::App &app, const std::vector<std::string> &words);

// Prints the help that was asked for, or what is wrong with the flags, of which some may be of a file of --config; the exit code:
// 0, 1 where nothing can be printed, 2.
int leaveWith(const CLI::App &app, const CLI::ParseError &end, const SortedFlags &sorted = {});

// The error of flags, with a line that says which of those that it names are of the file of --config.
Status withConfig(const Status &error, const std::string &config, const std::vector<std::string> &ofConfig);

} // namespace mgc::tools
