#include "runtime/kernels/DropChoices.h"

#include "plan/instructions/RowErrors.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace mgc {

namespace {

// The tokens that share the room: sequences [begin, begin + together).
class Group {
public:
  Group(const plan::DropChoices &what, int64_t begin, const int32_t *experts, const float *weights,
        const int32_t *positions, int32_t *workspace)
      : what_(what), begin_(begin), experts_(experts), weights_(weights), positions_(positions),
        ends_(workspace, size_t(what.experts) + 1), line_(workspace + what.experts + 1) {}

  void drop(int32_t *kept) {
    standInLine(kept);
    for (int64_t expert = 0; expert < what_.experts; ++expert) {
      const std::span<int32_t> line(line_ + ends_[expert], line_ + ends_[expert + 1]);
      if (std::ssize(line) <= what_.capacity)
        continue;
      const auto firstWithout = line.begin() + what_.capacity;
      std::ranges::nth_element(line, firstWithout, [&](int32_t a, int32_t b) { return isBefore(a, b); });
      for (const int32_t choice : std::span(firstWithout, line.end()))
        kept[choice] = static_cast<int32_t>(what_.experts);
    }
  }

private:
  template <typename Visit> void forEachChoice(Visit &&visit) const {
    for (int64_t token = 0; token < what_.tokens; ++token) {
      const int64_t first = (token * what_.sequences + begin_) * what_.chosen;
      for (int64_t choice = first; choice < first + what_.together * what_.chosen; ++choice)
        visit(static_cast<int32_t>(choice));
    }
  }

  // A counting sort by experts: ends_[e] is where the line of e begins, and ends_[e + 1] where it ends.
  void standInLine(int32_t *kept) {
    std::ranges::fill(ends_, 0);
    forEachChoice([&](int32_t choice) { ++ends_[experts_[choice] + 1]; });
    for (int64_t expert = 0; expert < what_.experts; ++expert)
      ends_[expert + 1] += ends_[expert];
    forEachChoice([&](int32_t choice) {
      line_[ends_[experts_[choice]]++] = choice;
      kept[choice] = experts_[choice];
    });
    std::copy_backward(ends_.begin(), ends_.end() - 1,
                       ends_.end()); // each is where its line ends: the next begins
    ends_[0] = 0;
  }

  // A total order: choices of one expert are of different tokens.
  bool isBefore(int32_t a, int32_t b) const {
    if (!what_.byPosition) {
      const float wa = weights_[a], wb = weights_[b];
      const bool isNan = std::isnan(wa), isOtherNan = std::isnan(wb);
      if (isNan != isOtherNan)
        return isNan;
      if (wa != wb && !isNan)
        return wa > wb;
    }
    const int64_t ta = a / what_.chosen, tb = b / what_.chosen;
    if (positions_[ta] != positions_[tb])
      return positions_[ta] < positions_[tb];
    return ta % what_.sequences != tb % what_.sequences ? ta % what_.sequences < tb % what_.sequences : a < b;
  }

  const plan::DropChoices &what_;
  const int64_t begin_;
  const int32_t *experts_;
  const float *weights_;
  const int32_t *positions_;
  std::span<int32_t> ends_;
  int32_t *line_;
};

} // namespace

Status dropChoices(const plan::DropChoices &what, const int32_t *experts, const float *weights,
                   const int32_t *positions, int32_t *kept, int32_t *workspace) {
  const int64_t choices = what.tokens * what.sequences * what.chosen;
  for (int64_t choice = 0; choice < choices; ++choice)
    if (experts[choice] < 0 || experts[choice] >= what.experts)
      return plan::choiceOfNoExpert(choice, choices, experts[choice], what.experts);
  for (int64_t begin = 0; begin < what.sequences; begin += what.together)
    Group(what, begin, experts, weights, positions, workspace).drop(kept);
  return Status::ok();
}

} // namespace mgc
