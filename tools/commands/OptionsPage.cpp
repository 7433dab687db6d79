// See OptionsPage.h.
#include "tools/commands/OptionsPage.h"

#include "model/ModelFlags.h"
#include "tools/commands/Flags.h"
#include "tools/commands/VocabularyPage.h"
#include "tools/flags/ForeignAnswers.h"
#include "tools/flags/Wrapped.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

using frontend::LayoutOption;
using frontend::OptionField;
using Json = nlohmann::ordered_json;

std::string valuesOf(const LayoutOption &option, const frontend::Supported &supported) {
  if (option.words)
    return fmt::format("{}", fmt::join(option.words(supported), ", "));
  if (std::holds_alternative<OptionField<bool>>(option.field))
    return option.hasNegation ? "switch; `" + option.negation() + "`" : "switch";
  if (std::holds_alternative<OptionField<std::vector<std::string>>>(option.field))
    return "words";
  if (std::holds_alternative<OptionField<std::string>>(option.field))
    return option.isSearchedCut ? "text; `auto`, as a flag: [searched](planner.md#the-cut-of-the-pipeline)" : "text";
  if (option.most == std::numeric_limits<int64_t>::max())
    return "whole numbers";
  return fmt::format("{} to {}{}{}", option.least, option.most, option.takesAuto() ? "; `auto`, as a flag" : "",
                     option.searched ? ": [searched](planner.md#one-choice)" : "");
}

std::string standardOf(const LayoutOption &option, const frontend::Supported &supported) {
  const std::string standard = option.standardOf(supported);
  return standard.empty() || option.reason.empty() || option.reason == standard
             ? standard
             : fmt::format("{}: {}", standard, option.reason);
}

std::string namesOf(const LayoutOption &option) {
  std::string names = "`" + option.flag + "`";
  for (const std::string &alias : option.aliases)
    names += ", `" + alias + "`";
  for (const frontend::OptionShorthand &shorthand : frontend::optionShorthands())
    if (shorthand.of == option.flag)
      names += fmt::format("; `{}`: {}", shorthand.flag, shorthand.value);
  for (const frontend::OptionWords &words : frontend::optionWords())
    if (words.of == option.flag)
      names += fmt::format("; beside `{}`, `{}`: {}", fmt::join(words.beside, "` or `"), words.flag,
                           fmt::join(words.words, ", "));
  return names;
}

Json schemaOf(const LayoutOption &option, const frontend::Supported &supported) {
  Json schema{{"description", option.help}};
  const auto of = [&](auto tag) {
    if constexpr (std::is_same_v<decltype(tag), int64_t>)
      return Json{{"type", "integer"}, {"minimum", option.least}, {"maximum", option.most}};
    else if constexpr (std::is_same_v<decltype(tag), double>)
      return Json{{"type", "number"}, {"minimum", option.least}, {"maximum", option.most}};
    else if constexpr (std::is_same_v<decltype(tag), bool>)
      return Json{{"type", "boolean"}};
    else if (option.words)
      return Json{{"type", "string"}, {"enum", option.words(supported)}};
    else
      return Json{{"type", "string"}};
  };
  std::visit(
      [&]<typename T>(OptionField<T>) {
        if constexpr (requires {
                        typename T::value_type;
                        requires !std::is_same_v<T, std::string>;
                      })
          schema.update(Json{{"type", "array"}, {"items", of(typename T::value_type())}});
        else
          schema.update(of(T()));
      },
      option.field);
  return schema;
}

// Answers, each with the flags that have it.
std::string answersPage(const Framework &framework, bool thatGoOn) {
  std::string text;
  for (const ForeignRow &row : framework.rows) {
    if (row.goesOn != thatGoOn)
      continue;
    std::vector<std::string> names;
    for (const std::string &entry : row.flags)
      names.push_back(fmt::format("`{}{}`", nameIn(entry), row.onlyValue.empty() ? "" : " " + row.onlyValue));
    for (const std::string &prefix : row.prefixes)
      names.push_back(fmt::format("`{}*`", prefix));
    text += wrapped(fmt::format("- {}: {}", row.answerTo("FLAG"), fmt::join(names, ", ")));
  }
  return text;
}

} // namespace

std::string optionsPage(const frontend::Supported &supported) {
  std::string text =
      "<!-- Made by `mgc options`; do not edit. -->\n\n# Options of a layout\n\n"
      "Flags of `mgc compile`, and keys of `\"mgc\"` in a model.json or config.json, which hold where the "
      "flags are silent\n([schema](model.schema.json)). Names after the first are Megatron-LM's: of "
      "its flags, or of\nthe arguments that it prints. frontend/layout/Options.cpp has a row for each.\n\n";
  for (const LayoutOption &option : frontend::layoutOptions()) {
    text += fmt::format("## {}\n\n{}\n{}- model.json: `{}`\n{}", option.flag, wrapped(option.help + "."),
                        wrapped("- flags: " + namesOf(option)), option.key(),
                        wrapped("- values: " + valuesOf(option, supported)));
    if (const std::string standard = standardOf(option, supported); !standard.empty())
      text += wrapped("- default: " + standard);
    if (!option.replaces.empty()) {
      std::vector<std::string> keys;
      for (const frontend::AnyOptionField &field : option.replaces)
        if (const std::string key = frontend::optionOf(field).key(); key != option.key())
          keys.push_back("`" + key + "`");
      text += wrapped(fmt::format("- as a flag{} in the place of the model.json's {}",
                                  option.hasNegation ? " that is off," : ",", fmt::join(keys, ", ")));
    }
    if (option.onResume != frontend::OnResume::free)
      text += wrapped(fmt::format("- a run that goes on from a checkpoint of another value: {}",
                                  option.onResume == frontend::OnResume::noted ? "says so"
                                  : option.valueIn(frontend::Layout()).empty()
                                      ? "is refused; `--finetune` begins a new training with the weights"
                                      : "is refused; `--ignore-config` goes on with the plan's, if the "
                                        "checkpoint has what this plan keeps"));
    for (const frontend::ResolvedField &field : {option.training, option.ofBlocks})
      if (const std::string_view name = frontend::nameOf(field); !name.empty())
        text += fmt::format("- in the program: `{}` of `mg.training`\n", name);
    text += "\n";
  }
  text += "# Flags of Megatron-LM\n\nOf the others, those that say what the model is may stay on a command line of\n"
          "`mgc compile`; they are compared with config.json:\n\n";
  for (const frontend::ModelFlag &flag : frontend::modelFlags()) {
    std::vector<std::string> names = {flag.flag};
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
    text += fmt::format("- `{}`: {}\n", fmt::join(names, "`, `"), flag.key());
  }
  for (const Framework &framework : frameworks()) {
    if (&framework != &frameworks().front())
      text +=
          fmt::format("\n# Flags of {}\n\nWith dashes or underscores, and behind the name of a section and a dot.\n",
                      framework.name);
    if (const std::string kept = answersPage(framework, true); !kept.empty())
      text += "\nThese may stay, and change nothing:\n\n" + kept;
    text += "\nThese are refused with an answer:\n\n" + answersPage(framework, false);
  }
  return text;
}

std::string optionsSchema(const frontend::Supported &supported) {
  Json properties = Json::object();
  for (const LayoutOption &option : frontend::layoutOptions())
    properties[option.key()] = schemaOf(option, supported);
  properties["model"] = vocabularySchema();
  const Json mgc{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  const Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                    {"title", "A model description with defaults of mgc compile"},
                    {"type", "object"},
                    {"properties", {{"mgc", mgc}}}};
  return schema.dump(2) + "\n";
}

std::string layoutFlagNames() {
  std::vector<std::string> names;
  for (const frontend::LayoutOption &option : frontend::layoutOptions()) {
    names.push_back(option.flag);
    if (option.hasNegation)
      names.push_back(option.negation());
    names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  }
  for (const frontend::OptionShorthand &shorthand : frontend::optionShorthands())
    names.push_back(shorthand.flag);
  for (const frontend::OptionWords &words : frontend::optionWords())
    names.push_back(words.flag);
  names.insert(names.end(), {kAutoFlag, kDevicesFlag, kTopFlag, kWhyFlag, kExplainFlag, kParetoFlag, kSensitivityFlag,
                             kImbalanceFlag});
  return nlohmann::json(names).dump(1) + "\n";
}

} // namespace mgc::tools
