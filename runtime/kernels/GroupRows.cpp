#include "runtime/kernels/GroupRows.h"

#include <algorithm>

namespace mgc {

static Status verifyNumbers(const plan::GroupRows &what, const int32_t *numbers) {
  for (int64_t row = 0; row < what.rows; ++row)
    if (numbers[row] < 0 || numbers[row] >= what.groups)
      return errorf("row {} of {} is of group {}; expected a group from 0 to {}", row, what.rows,
                    numbers[row], what.groups - 1);
  return Status::ok();
}

Status groupRows(const plan::GroupRows &what, const int32_t *numbers, int32_t *counts, int32_t *places,
                 int32_t *sources) {
  MGC_TRY(verifyNumbers(what, numbers));
  std::fill_n(counts, what.groups, 0);
  for (int64_t row = 0; row < what.rows; ++row)
    places[row] = counts[numbers[row]]++; // in its group
  for (int64_t group = 0, before = 0; group < what.groups; ++group) {
    const int32_t count = counts[group];
    counts[group] = static_cast<int32_t>(before); // for a while: where the group begins
    before += count;
  }
  for (int64_t row = 0; row < what.rows; ++row)
    sources[places[row] += counts[numbers[row]]] = static_cast<int32_t>(row);
  for (int64_t group = 0; group < what.groups; ++group)
    counts[group] =
        static_cast<int32_t>((group + 1 < what.groups ? counts[group + 1] : what.rows) - counts[group]);
  return Status::ok();
}

} // namespace mgc
