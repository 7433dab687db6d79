// Options.h: options that were given, together and as text.
#include "frontend/layout/Options.h"

#include <fmt/ranges.h>

namespace mgc::frontend {

bool isGiven(const LayoutOptions &options) {
  return std::ranges::any_of(layoutOptions(), [&](const LayoutOption &option) {
    return std::visit([&](auto field) { return (options.*field).has_value(); }, option.field);
  });
}

bool isOpen(const LayoutOption &option, const LayoutOptions &options) {
  if (const auto *number = std::get_if<OptionField<int64_t>>(&option.field))
    return options.**number == kAuto;
  return option.isSearchedCut && options.*std::get<OptionField<std::string>>(option.field) == kAutoCut;
}

LayoutOptions openOf(const LayoutOptions &options) {
  LayoutOptions open;
  for (const LayoutOption &option : layoutOptions())
    if (isOpen(option, options))
      std::visit([&](auto field) { open.*field = options.*field; }, option.field);
  return open;
}

bool leavesToSearch(const LayoutOptions &options) {
  return std::ranges::any_of(layoutOptions(), [&](const LayoutOption &option) {
    return isOpen(option, options) && (option.searched || option.isSearchedCut) && !option.orAuto;
  });
}

// Whether the value decides anew. A switch does when it is off, or where it can only be on.
template <typename T> static bool decides(const LayoutOption &, const T &) { return true; }
static bool decides(const LayoutOption &option, bool value) { return value != option.hasNegation; }

LayoutOptions defaultsBeside(const LayoutOptions &flags, LayoutOptions defaults) {
  const LayoutOptions all = defaults;
  for (const LayoutOption &option : layoutOptions()) {
    const bool replaces = std::visit(
        [&](auto field) { return flags.*field && flags.*field != all.*field && decides(option, *(flags.*field)); },
        option.field);
    if (replaces)
      for (const AnyOptionField &other : option.replaces)
        std::visit([&](auto field) { (defaults.*field).reset(); }, other);
  }
  return defaults;
}

LayoutOptions either(LayoutOptions flags, const LayoutOptions &ofModel) {
  const LayoutOptions defaults = defaultsBeside(flags, ofModel);
  for (const LayoutOption &option : layoutOptions())
    std::visit(
        [&](auto field) {
          if (!(flags.*field))
            flags.*field = defaults.*field;
        },
        option.field);
  return flags;
}

static std::string spelled(const LayoutOption &option, bool value) { return value ? option.flag : option.negation(); }
static std::string spelled(const LayoutOption &option, const std::vector<int64_t> &values) {
  return fmt::format("{} {}", option.flag, fmt::join(values, " "));
}
static std::string spelled(const LayoutOption &option, const std::vector<std::string> &values) {
  return fmt::format("{} {}", option.flag, fmt::join(values, ","));
}
static std::string spelled(const LayoutOption &option, int64_t value) {
  return value == kAuto ? option.flag + " auto" : fmt::format("{} {}", option.flag, value);
}
template <typename T> static std::string spelled(const LayoutOption &option, const T &value) {
  return fmt::format("{} {}", option.flag, value);
}

std::string flagsOf(const LayoutOptions &options) { return changedFlags({}, options); }

std::string changedFlags(const LayoutOptions &before, const LayoutOptions &options) {
  std::vector<std::string> texts;
  for (const LayoutOption &option : layoutOptions())
    std::visit(
        [&](auto field) {
          if (const auto &value = options.*field; value && value != before.*field)
            texts.push_back(spelled(option, *value));
        },
        option.field);
  std::erase(texts, ""); // a switch that is off, and is so anyway
  return fmt::format("{}", fmt::join(texts, " "));
}

} // namespace mgc::frontend
