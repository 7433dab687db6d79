// See NamedText.h.
#include "plan/cost/NamedText.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc::cost {

static constexpr int64_t kMostFileBytes = int64_t(1) << 20;

std::vector<std::string> namesOf(std::span<const NamedText> texts) {
  std::vector<std::string> names;
  for (const NamedText &text : texts)
    names.emplace_back(text.name);
  return names;
}

Result<std::string> findText(std::span<const NamedText> texts, const std::string &nameOrPath, const TextKind &kind) {
  if (const auto found = std::ranges::find(texts, nameOrPath, &NamedText::name); found != texts.end())
    return std::string(found->text);
  std::error_code ignored;
  if (std::filesystem::exists(nameOrPath, ignored))
    return readFile(nameOrPath, kMostFileBytes);
  return errorf("{}: is neither a {} nor a file; expected one of {}, or the path of a {} file ({})", nameOrPath,
                kind.name, fmt::join(namesOf(texts), ", "), kind.name, kind.page);
}

} // namespace mgc::cost
