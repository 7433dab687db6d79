// See Usage.h.
#include "tools/flags/Usage.h"

#include "tools/flags/ConfigWords.h"
#include "tools/flags/ForeignAnswers.h"
#include "tools/process/Process.h"

#include <algorithm>
#include <cctype>
#include <fmt/ranges.h>
#include <span>

namespace mgc::tools {

namespace {

using Words = std::vector<std::string>;

// The command whose flags were parsed, or the program.
const CLI::App &commandOf(const CLI::App &app) {
  const std::vector<CLI::App *> parsed = app.get_subcommands();
  return parsed.empty() || parsed.front()->get_name().empty() ? app : *parsed.front();
}

// "mgc compile"
std::string nameOf(const CLI::App &app) {
  const CLI::App &command = commandOf(app);
  return &command == &app ? app.get_name() : fmt::format("{} {}", app.get_name(), command.get_name());
}

// "run.toml: " where the text is about a flag of the file.
std::string placeOf(const CLI::App &app, const std::string &text, const SortedFlags &sorted) {
  const CLI::App &command = commandOf(app);
  const CLI::Option *option = command.get_option_no_throw(text.substr(0, text.find_first_of(":, \n")));
  const bool isOfConfig = option && std::ranges::any_of(sorted.ofConfig, [&](const std::string &flag) {
                            return command.get_option_no_throw(flag) == option;
                          });
  return isOfConfig ? sorted.config + ": " : "";
}

std::string nearText(const std::string &name, const Words &known) {
  const Words near = nearestNames(name, known);
  return near.empty() ? "" : fmt::format("; near: {}", fmt::join(near, ", "));
}

// The error of a flag that the command does not have.
std::string unknownFlag(const CLI::App &command, const std::string &word) {
  const std::string flag = word.substr(0, word.find('='));
  if (const Words &flags = flagsOfTool("mgc compile"); std::ranges::find(flags, flag) != flags.end())
    return fmt::format("{}: belongs to mgc compile", flag);
  return fmt::format("{}: there is no such flag{}", flag, nearText(flag, longNamesOf(command)));
}

void sayHelp() { say(stderr, "Run with --help for what is.\n"); }

void sayExtras(const CLI::App &app) {
  Words others;
  for (const std::string &word : app.remaining(true))
    if (word.starts_with('-'))
      say(stderr, "{}: {}\n", nameOf(app), unknownFlag(commandOf(app), word));
    else
      others.push_back(word);
  if (!others.empty())
    say(stderr, "{}: not expected: {}\n", nameOf(app), fmt::join(others, " "));
  sayHelp();
}

Words commandsOf(const CLI::App &app) {
  Words names;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *one) { return !one->get_name().empty(); }))
    names.push_back(command->get_name());
  return names;
}

bool haveFlags(const CLI::App &command, const std::string &name, std::span<const std::string> words) {
  bool areKnown = true;
  for (const std::string &word : words) {
    if (word == "--")
      break;
    if (!isFlag(word) || hasFlag(command, word.substr(0, word.find('='))))
      continue;
    say(stderr, "{}: {}\n", name, unknownFlag(command, word));
    areKnown = false;
  }
  if (!areKnown)
    sayHelp();
  return areKnown;
}

// Whole, as "--lr" is not in "--lr-list".
bool names(std::string_view text, const std::string &flag) {
  for (size_t at = text.find(flag); at != text.npos; at = text.find(flag, at + 1)) {
    const size_t behind = at + flag.size();
    if (behind == text.size() || !(text[behind] == '-' || std::isalnum(static_cast<unsigned char>(text[behind]))))
      return true;
  }
  return false;
}

} // namespace

Words longNamesOf(const CLI::App &app) {
  Words names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  for (const CLI::App *group : app.get_subcommands([](const CLI::App *one) { return one->get_name().empty(); }))
    std::ranges::move(longNamesOf(*group), std::back_inserter(names));
  return names;
}

bool isCommandLine(const CLI::App &app, const Words &words, std::string_view sorted) {
  const Words names = commandsOf(app);
  const auto command = std::ranges::find_if(words, [](const std::string &word) { return !isFlag(word); });
  if (!haveFlags(app, app.get_name(), {words.begin(), command}))
    return false;
  if (words.empty())
    say(stderr, "{}: expected a command: {}\n", app.get_name(), fmt::join(names, ", "));
  else if (command != words.end() && std::ranges::find(names, *command) == names.end())
    say(stderr, "{}: {}: there is no such command; expected one of {}{}\n", app.get_name(), *command,
        fmt::join(names, ", "), nearText(*command, names));
  else
    return command == words.end() || *command == sorted ||
           haveFlags(*app.get_subcommand(*command), fmt::format("{} {}", app.get_name(), *command),
                     {command + 1, words.end()});
  return false;
}

Status withConfig(const Status &error, const std::string &config, const Words &ofConfig) {
  Words named;
  if (!error.isOk())
    std::ranges::copy_if(ofConfig, std::back_inserter(named),
                         [&](const std::string &flag) { return names(error.message(), flag); });
  return named.empty() ? error : errorf("{}\n  {} has {}", error.message(), config, fmt::join(named, ", "));
}

int leaveWith(const CLI::App &app, const CLI::ParseError &end, const SortedFlags &sorted) {
  if (dynamic_cast<const CLI::ExtrasError *>(&end)) {
    sayExtras(app);
    return 2;
  }
  if (end.get_exit_code() != 0) {
    std::string text = end.what();
    constexpr std::string_view kTooOften = "At Most 1 required but received ";
    if (const size_t at = text.find(kTooOften); at != text.npos)
      text = fmt::format("{}is given {} times, expected once", text.substr(0, at), text.substr(at + kTooOften.size()));
    say(stderr, "{}: {}{}\nRun with --help for more information.\n", nameOf(app), placeOf(app, text, sorted), text);
    return 2;
  }
  app.exit(end);
  const Status printed = checkOutput();
  if (printed.isOk())
    return 0;
  say(stderr, "{}: {}\n", app.get_name(), printed.message());
  return 1;
}

} // namespace mgc::tools
