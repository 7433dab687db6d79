// See UnknownWords.h.
#include "frontend/layout/UnknownWords.h"

#include <algorithm>

namespace mgc::frontend {

std::string refusalOf(const LayoutOption &option, const std::string &word) {
  const std::string why = option.whyNot ? option.whyNot(word) : "";
  return why.empty() ? "is not known" : why;
}

void refuseUnknownWords(const LayoutOptions &ofFile, const Supported &supported, Problems &problems) {
  const auto refuse = [&](const LayoutOption &option, const std::string &word) {
    const std::vector<std::string> possible = option.words(supported);
    if (std::ranges::find(possible, word) != possible.end())
      return;
    problems.add("mgc.{}: '{}' {}", option.key(), word, refusalOf(option, word));
    problems.hint("possible {}: {}{}", option.key(), listOf(possible), option.orFile);
  };
  for (const LayoutOption &option : layoutOptions()) {
    if (!option.words)
      continue;
    if (const auto *word = std::get_if<OptionField<std::string>>(&option.field); word && ofFile.**word)
      refuse(option, *(ofFile.**word));
    if (const auto *words = std::get_if<OptionField<std::vector<std::string>>>(&option.field); words && ofFile.**words)
      for (const std::string &word : *(ofFile.**words))
        refuse(option, word);
  }
}

} // namespace mgc::frontend
