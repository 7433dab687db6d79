#include "plan/instructions/RowErrors.h"

namespace mgc::plan {

Status rowOfNoGroup(int64_t row, int64_t rows, int64_t number, int64_t all) {
  return errorf("row {} of {} is of group {}; expected a group from 0 to {}, or {}, which is none", row, rows, number,
                all - 1, all);
}

Status choiceOfNoExpert(int64_t choice, int64_t choices, int64_t number, int64_t experts) {
  return errorf("choice {} of {} is expert {}; expected one from 0 to {}", choice, choices, number, experts - 1);
}

Status moreRowsThanPlaces(int64_t first, int64_t groups, int64_t own, int64_t places) {
  return errorf("groups {} to {} have {} rows; expected at most {}, as rows of one token are of different groups",
                first, first + groups - 1, own, places);
}

Status wrongCount(int64_t group, int64_t groups, int64_t count, int64_t upTo, int64_t rows) {
  return errorf("group {} of {} has {} rows, {} with those before it; expected from 0 to {} in all", group, groups,
                count, upTo, rows);
}

Status wrongCountOfRank(int64_t rank, int64_t count, int64_t group, int64_t all, int64_t upTo, int64_t rows) {
  return errorf("rank {} has {} rows for expert {} of {}, {} with those before it; expected from 0 to {} in all", rank,
                count, group, all, upTo, rows);
}

Status moreRowsThanPlacesOfRank(int64_t rank, int64_t upTo, int64_t group, int64_t all, int64_t places) {
  return errorf("rank {} gets {} rows up to expert {} of {}; expected at most {}, as rows of one token are of "
                "different experts",
                rank, upTo, group, all, places);
}

Status otherCounts(int64_t rank, int64_t other) {
  return errorf("rank {} has other counts of rows than rank {}; expected the same on all ranks", rank, other);
}

} // namespace mgc::plan
