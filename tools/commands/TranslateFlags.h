// The command line of mgc translate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace mgc::tools {

struct TranslateFlags {
  std::vector<std::string> sources; // files of flags, and a model
  std::vector<std::string> line;    // words behind --
  std::string output;               // -o: folder of config.json and plan; empty: nothing is written
  bool force = false;               // --force: replace another config.json
  bool run = false;                 // --run: the commands are started
  bool json = false;
};

void addTranslateFlags(CLI::App &app, TranslateFlags &flags);

// Parses; on --help or a usage error prints it and gives the exit code (0 or 2) instead.
struct ParsedTranslate {
  TranslateFlags flags;
  int exitCode = -1; // >= 0: leave with it
};
ParsedTranslate parseTranslate(int argc, char **argv);

} // namespace mgc::tools
