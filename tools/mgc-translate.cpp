// mgc translate, which mgc starts: a command line of Megatron-LM as commands of mgc.
// Exit code: 0 all well; 1 an error, or commands that would not compile; 2 wrong usage; 3 a flag is not supported, or needs a value; with --run that of
// the last command that ran.
#include "tools/process/CompilerProcess.h"
#include "tools/supported/SupportedByCompiler.h"
#include "tools/translate/Translation.h"

#include <fmt/ranges.h>

using namespace mgc;
using namespace mgc::tools;

static constexpr int kNotWhole = 3;

static Result<int> run(const TranslateFlags &flags) {
  MGC_ASSIGN(translation, translate(flags, supportedByCompiler()));
  say(stdout, "{}", flags.json ? jsonOf(translation) : textOf(translation));
  MGC_TRY(checkOutput());
  if (!translation.problem.empty())
    return Status::error(translation.problem);
  if (const auto unread = translation.unread(); flags.run && !unread.empty()) {
    say(stderr, "mgc translate: --run: nothing runs, for these flags need a value: {}; behind -- they can be given\n",
        fmt::join(unread, "; "));
    return kNotWhole;
  }
  if (!flags.output.empty() && !translation.config.is_null())
    MGC_TRY(writeConfig(translation, flags.force));
  if (flags.run)
    return runCommands(translation);
  return translation.isWhole() ? 0 : kNotWhole;
}

int main(int argc, char **argv) {
  prepareCompiler("mgc translate");
  const ParsedTranslate parsed = parseTranslate(argc, argv);
  if (parsed.exitCode >= 0)
    return parsed.exitCode;
  const Result<int> code = run(parsed.flags);
  if (!code.isOk())
    say(stderr, "mgc translate: {}\n", code.status().message());
  return code.isOk() ? *code : 1;
}
