// See LineFacts.h.
#include "tools/translate/LineFacts.h"

#include "model/ModelFlags.h"
#include "tools/flags/FlagChecks.h"

#include <charconv>
#include <fmt/format.h>

namespace mgc::tools {

static constexpr int64_t kMost = 1 << 30; // far above every size of a model

const LineFlag *LineFacts::find(const std::string &flag) const {
  std::vector<std::string> names = {flag};
  if (const frontend::ModelFlag *row = frontend::findModelFlag(flag))
    names.insert(names.end(), row->aliases.begin(), row->aliases.end());
  return line_.last(names);
}

std::string LineFacts::nameOf(const std::string &flag) const {
  const LineFlag *found = find(flag);
  return found ? found->name : flag;
}

void LineFacts::refuse(const std::string &flag, const std::string &why) { unusable_.emplace(nameOf(flag), why); }

bool LineFacts::isOn(const std::string &flag) {
  const LineFlag *found = find(flag);
  if (found && !found->values.empty())
    refuse(flag, fmt::format("takes no value, found '{}'", found->values.front()));
  return found != nullptr;
}

std::optional<std::string> LineFacts::word(const std::string &flag) {
  const LineFlag *found = find(flag);
  if (!found)
    return std::nullopt;
  if (!found->values.empty())
    return found->values.front();
  refuse(flag, "its value is missing");
  return std::nullopt;
}

std::optional<int64_t> LineFacts::whole(const std::string &flag, int64_t least) {
  std::optional<std::string> text = word(flag);
  if (!text)
    return std::nullopt;
  if (const std::string problem = wholeNumber(least, kMost)(*text); !problem.empty()) {
    refuse(flag, problem);
    return std::nullopt;
  }
  return std::stoll(*text);
}

std::optional<double> LineFacts::number(const std::string &flag, double least) {
  std::optional<std::string> text = word(flag);
  if (!text)
    return std::nullopt;
  if (const std::string problem = finiteNumber(least)(*text); !problem.empty()) {
    refuse(flag, problem);
    return std::nullopt;
  }
  double value = 0;
  std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

} // namespace mgc::tools
