// See Completion.h.
#include "tools/flags/Completion.h"

#include "tools/flags/FlagChecks.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

using Words = std::vector<std::string>;

struct CompletedFlag {
  Words names; // "--tp", "-o"
  std::string help;
  bool hasValue = false;
  Words words; // for its value; empty: files
};

struct CompletedCommand {
  std::string name, help; // name: empty of the program itself
  std::vector<CompletedFlag> flags;
  Words words; // for words without a flag; empty: files
};

struct CompletedProgram {
  std::string name;
  std::vector<CompletedCommand> commands; // the program itself first
};

// "{bash,zsh}" in the name of the type, as CLI::IsMember writes it.
Words wordsOfCheck(const CLI::Option &option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.rfind('}');
  return begin == type.npos || end == type.npos || end < begin ? Words()
                                                               : splitAtCommas(type.substr(begin + 1, end - begin - 1));
}

Words wordsOf(const CLI::Option &option, const ProposedWords &proposed) {
  Words words = proposed(option);
  for (std::string &word : wordsOfCheck(option))
    if (std::ranges::find(words, word) == words.end())
      words.push_back(std::move(word));
  return words;
}

// Up to the end of the first sentence or clause, and to 80 characters.
std::string shortHelp(const std::string &help) {
  std::string text = help.substr(0, std::min(help.find_first_of("\n;:("), help.find(". ")));
  if (text.size() > 80)
    text = text.substr(0, text.rfind(' ', 77)) + " ..";
  std::erase_if(text, [](char c) { return c == '\'' || c == '\\' || c == '`'; });
  return CLI::detail::trim(text);
}

void addFlags(const CLI::App &app, const ProposedWords &proposed, CompletedCommand &command) {
  for (const CLI::Option *option : app.get_options()) {
    CompletedFlag flag{
        {}, shortHelp(option->get_description()), option->get_items_expected_max() > 0, wordsOf(*option, proposed)};
    for (const std::string &name : option->get_lnames())
      flag.names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      flag.names.push_back("-" + name);
    if (flag.names.empty() && command.words.empty())
      command.words = flag.words;
    if (!flag.names.empty())
      command.flags.push_back(std::move(flag));
  }
  for (const CLI::App *group : app.get_subcommands([](const CLI::App *one) { return one->get_name().empty(); }))
    addFlags(*group, proposed, command);
}

CompletedProgram programOf(const CLI::App &app, const ProposedWords &proposed) {
  CompletedProgram program{app.get_name(), {{}}};
  addFlags(app, proposed, program.commands.front());
  for (const CLI::App *one : app.get_subcommands([](const CLI::App *each) { return !each->get_name().empty(); })) {
    CompletedCommand command{one->get_name(), shortHelp(one->get_description()), {}, {}};
    addFlags(*one, proposed, command);
    program.commands.push_back(std::move(command));
  }
  return program;
}

Words commandsOf(const CompletedProgram &program) {
  Words names;
  for (const CompletedCommand &command : program.commands)
    if (!command.name.empty())
      names.push_back(command.name);
  return names;
}

// For a case of the shell: 'compile --tp'|'compile --tensor-model-parallel-size'
std::string patternOf(const CompletedCommand &command, const CompletedFlag &flag) {
  Words patterns;
  for (const std::string &name : flag.names)
    patterns.push_back(fmt::format("'{} {}'", command.name, name));
  return fmt::format("{}", fmt::join(patterns, "|"));
}

Words namesOf(const CompletedCommand &command) {
  Words names;
  for (const CompletedFlag &flag : command.flags)
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

std::string patternOfNames(const Words &names) {
  return names.empty() ? "''" : fmt::format("{}", fmt::join(names, "|"));
}

// `action` is formatted with the words; flags with a value of another kind get `files`.
std::string casesOfValues(const CompletedProgram &program, std::string_view action, std::string_view files) {
  std::string text;
  Words ofFiles;
  for (const CompletedCommand &command : program.commands)
    for (const CompletedFlag &flag : command.flags)
      if (!flag.words.empty())
        text += fmt::format("  {}) {} ;;\n", patternOf(command, flag),
                            fmt::format(fmt::runtime(action), fmt::join(flag.words, " ")));
      else if (flag.hasValue)
        ofFiles.push_back(patternOf(command, flag));
  return ofFiles.empty() ? text : text + fmt::format("  {}) {} ;;\n", fmt::join(ofFiles, "|"), files);
}

std::string howToPrint(const CompletedProgram &program, std::string_view shell) {
  return fmt::format("{} {} {}", program.name, program.commands.size() > 1 ? "completion" : "--completion", shell);
}

std::string bashWordsOf(const CompletedProgram &program) {
  std::string text;
  for (const CompletedCommand &command : program.commands)
    text += fmt::format("    '{}') [[ $current == -* ]] && words='{}' || words='{}' ;;\n", command.name,
                        fmt::join(namesOf(command), " "),
                        fmt::join(command.name.empty() ? commandsOf(program) : command.words, " "));
  return text;
}

// bash splits words at '=' and ':', too, and replaces the last part alone.
std::string bashScript(const CompletedProgram &program) {
  const std::string function = "_" + CLI::detail::find_and_replace(program.name, "-", "_");
  return fmt::format(R"(# Completion of {program} in bash: source <({print})
{function}() {{
  local line=${{COMP_LINE:0:COMP_POINT}} current previous command='' word words=''
  current=${{line##*[[:space:]=]}}
  line=${{line%"$current"}}
  line=${{line%"${{line##*[![:space:]=]}}"}}
  previous=${{line##*[[:space:]]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in {commands}) command=$word; break ;; esac
  done
  case "$command $previous" in
{values}  *)
    case $command in
{words}    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  COMPREPLY=("${{COMPREPLY[@]#${{current%"${{current##*:}}"}}}}")
}}
complete -o default -F {function} {program}
)",
                     fmt::arg("program", program.name), fmt::arg("print", howToPrint(program, "bash")),
                     fmt::arg("function", function), fmt::arg("commands", patternOfNames(commandsOf(program))),
                     fmt::arg("values", casesOfValues(program, "words='{}'", ":")),
                     fmt::arg("words", bashWordsOf(program)));
}

// 'NAME:HELP' of each, where ':' of a name would have to be escaped; names have none.
std::string described(const std::vector<CompletedFlag> &flags) {
  std::string text;
  for (const CompletedFlag &flag : flags)
    for (const std::string &name : flag.names)
      text += fmt::format("{}'{}:{}'", text.empty() ? "" : " ", name, flag.help);
  return text;
}

std::string zshWordsOf(const CompletedProgram &program) {
  std::string text;
  for (const CompletedCommand &command : program.commands) {
    text += fmt::format("    '{}') if [[ $PREFIX == -* ]]; then proposed=({})", command.name, described(command.flags));
    if (const Words words = command.name.empty() ? commandsOf(program) : command.words; !words.empty())
      text += fmt::format("; else proposed=({})", fmt::join(words, " "));
    text += "; fi ;;\n";
  }
  return text;
}

std::string zshScript(const CompletedProgram &program) {
  return fmt::format(R"(#compdef {program}
# Completion of {program} in zsh: source <({print}), or a file _{program} in a folder of $fpath
_{program}() {{
  local command='' previous=${{words[CURRENT-1]}} word
  local -a proposed
  if [[ $PREFIX == --*=* ]]; then
    previous=${{PREFIX%%=*}}
    compset -P '*='
  fi
  for word in ${{words[2,CURRENT-1]}}; do
    case $word in {commands}) command=$word; break ;; esac
  done
  case "$command $previous" in
{values}  *)
    case $command in
{words}    esac
    if (( $#proposed )); then _describe word proposed; else _files; fi ;;
  esac
}}
if [[ $funcstack[1] == _{program} ]]; then _{program} "$@"; else compdef _{program} {program}; fi
)",
                     fmt::arg("program", program.name), fmt::arg("print", howToPrint(program, "zsh")),
                     fmt::arg("commands", patternOfNames(commandsOf(program))),
                     fmt::arg("values", casesOfValues(program, "compadd -- {}", "_files")),
                     fmt::arg("words", zshWordsOf(program)));
}

} // namespace

CLI::App *addCompletion(CLI::App &app, std::string &shell) {
  CLI::App *command = app.add_subcommand("completion", "Print the completion of this program in a shell");
  command->add_option("shell", shell, "Shell that reads it")->required()->check(CLI::IsMember(kShells));
  return command;
}

Result<std::string> completionScript(const CLI::App &app, const std::string &shell, const ProposedWords &words) {
  if (shell == kShells[0])
    return bashScript(programOf(app, words));
  if (shell == kShells[1])
    return zshScript(programOf(app, words));
  return errorf("completion: found '{}', expected a shell: {}", shell, fmt::join(kShells, " or "));
}

} // namespace mgc::tools
