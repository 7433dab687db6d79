// See PartDifferences.h.
#include "tools/auto/PartDifferences.h"

#include "tools/page/Prediction.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace mgc::tools {

std::vector<PartDifference> differencesOf(const planner::Trial &best, const planner::Trial &other, size_t most) {
  constexpr double kLeastShare = 0.001; // in the best layout's step
  std::vector<PartDifference> differences;
  for (const NamedPart &part : namedParts()) {
    const std::string_view text = part.text;
    const double seconds = other.parts.*part.seconds - best.parts.*part.seconds;
    if (std::abs(seconds) >= kLeastShare * best.seconds)
      differences.push_back({std::string(text.substr(0, text.find(':'))), seconds});
  }
  std::ranges::stable_sort(differences, std::greater(),
                           [](const PartDifference &difference) { return std::abs(difference.seconds); });
  differences.resize(std::min(most, differences.size()));
  return differences;
}

} // namespace mgc::tools
