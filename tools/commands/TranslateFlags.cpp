// See TranslateFlags.h.
#include "tools/commands/TranslateFlags.h"

#include "tools/flags/FlagChecks.h"
#include "tools/flags/ForeignFlags.h"
#include "tools/flags/Usage.h"

#include <algorithm>

namespace mgc::tools {

void addTranslateFlags(CLI::App &app, TranslateFlags &flags) {
  app.footer("Flags of Megatron-LM stand behind --: mgc translate [MODEL] -- --num-layers 24 ..");
  app.add_option("sources", flags.sources,
                 "Files with flags of Megatron-LM, and a config.json, or a folder with one, where they are for a model "
                 "that there is")
      ->check(notEmpty());
  CLI::Option *output =
      app.add_option("-o,--output", flags.output, "Folder to write config.json to, and the plan")->check(notEmpty());
  app.add_flag("--run", flags.run, "Run the commands: compile the plan into the folder, and train by it")
      ->disable_flag_override()
      ->needs(output);
  app.add_flag("--force", flags.force,
               "Replace a config.json in the folder that says something else, or lies beside weights")
      ->disable_flag_override()
      ->needs(output);
  app.add_flag("--json", flags.json, "Machine-readable")->disable_flag_override();
}

// Takes the words behind -- off.
static std::vector<std::string> takeLine(std::vector<std::string> &words) {
  const auto dashes = std::ranges::find(words, "--");
  std::vector<std::string> line(dashes == words.end() ? dashes : dashes + 1, words.end());
  words.erase(dashes, words.end());
  return line;
}

ParsedTranslate parseTranslate(int argc, char **argv) {
  ParsedTranslate parsed;
  CLI::App app("Translates a command line of Megatron-LM: the model that it describes, the commands that do the same "
               "training, and what becomes of each flag (docs/megatron-lm.md).",
               "mgc translate");
  addTranslateFlags(app, parsed.flags);
  std::vector<std::string> words(argv + 1, argv + argc);
  parsed.flags.line = takeLine(words);
  try {
    std::ranges::reverse(words); // as the parser wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError &error) {
    parsed.exitCode = leaveWith(app, error);
  }
  return parsed;
}

} // namespace mgc::tools
