// See PlayLists.h.
#include "plan/play/PlayLists.h"

namespace mgc::schedule {

std::vector<plan::Repeat> partsOf(const PlayList &list) {
  std::vector<plan::Repeat> parts;
  int64_t item = 0;
  const auto addUpTo = [&](int64_t end) {
    if (item < end)
      parts.push_back({item, end, 1});
  };
  for (const plan::Repeat &repeat : list.repeats) {
    addUpTo(repeat.begin);
    parts.push_back(repeat);
    item = repeat.end;
  }
  addUpTo(std::ssize(list.steps));
  return parts;
}

} // namespace mgc::schedule
