#include "plan/instructions/RowErrors.h"

#include <string_view>

namespace mgc::plan {

Status rowOfNoGroup(int64_t row, int64_t rows, int64_t number, int64_t all) {
  return errorf("row {} of {} is of group {}; expected a group from 0 to {}, or {}, which is none", row, rows, number,
                all - 1, all);
}

Status choiceOfNoExpert(int64_t choice, int64_t choices, int64_t number, int64_t experts) {
  return errorf("choice {} of {} is expert {}; expected one from 0 to {}", choice, choices, number, experts - 1);
}

// A plan has less room than for all rows that may come only if that was asked for.
static constexpr std::string_view kMoreRoom = "\n  possible: a plan of a larger --moe-rows-factor (mgc compile), or of "
                                              "0, with room for all rows that may come; a "
                                              "run goes on with it from the last checkpoint";

Status moreRowsThanPlaces(int64_t own, int64_t rows, int64_t largest, int64_t most, int64_t places) {
  return errorf("the rank's experts have {} of {} rows (expert {}: {}); the plan has room for {}{}", own, rows, largest,
                most, places, kMoreRoom);
}

Status wrongCount(int64_t group, int64_t groups, int64_t count, int64_t upTo, int64_t rows) {
  return errorf("group {} of {} has {} rows, {} with those before it; expected from 0 to {} in all", group, groups,
                count, upTo, rows);
}

Status wrongCountOfRank(int64_t rank, int64_t count, int64_t group, int64_t all, int64_t upTo, int64_t rows) {
  return errorf("rank {} has {} rows for expert {} of {}, {} with those before it; expected from 0 to {} in all", rank,
                count, group, all, upTo, rows);
}

Status moreRowsThanPlacesOfRank(int64_t rank, int64_t own, int64_t largest, int64_t most, int64_t places) {
  return errorf("the experts of rank {} get {} rows (expert {}: {}); the plan has room for {}{}", rank, own, largest,
                most, places, kMoreRoom);
}

Status otherCounts(int64_t rank, int64_t other) {
  return errorf("rank {} has other counts of rows than rank {}; expected the same on all ranks", rank, other);
}

} // namespace mgc::plan
