#include "runtime/kernels/GroupRows.h"

#include "plan/instructions/RowErrors.h"

#include <algorithm>
#include <vector>

namespace mgc {

static bool isOwn(const plan::GroupRows &what, const GroupShare &share, int32_t number) {
  return number >= share.first && number < share.first + what.groups;
}

static Status moreRowsThanPlaces(const plan::GroupRows &what, const GroupShare &share, const int32_t *numbers,
                                 int64_t own) {
  std::vector<int64_t> counts(static_cast<size_t>(what.groups));
  for (int64_t row = 0; row < what.rows; ++row)
    if (isOwn(what, share, numbers[row]))
      ++counts[static_cast<size_t>(numbers[row] - share.first)];
  const auto largest = std::ranges::max_element(counts);
  return plan::moreRowsThanPlaces(own, what.rows, share.first + (largest - counts.begin()), *largest, what.places);
}

static Status verifyNumbers(const plan::GroupRows &what, const GroupShare &share, const int32_t *numbers) {
  int64_t own = 0;
  for (int64_t row = 0; row < what.rows; ++row) {
    if (numbers[row] < 0 || numbers[row] > share.all)
      return plan::rowOfNoGroup(row, what.rows, numbers[row], share.all);
    own += isOwn(what, share, numbers[row]);
  }
  return own > what.places ? moreRowsThanPlaces(what, share, numbers, own) : Status::ok();
}

Status groupRows(const plan::GroupRows &what, const GroupShare &share, const int32_t *numbers, int32_t *counts,
                 int32_t *places, int32_t *sources) {
  MGC_TRY(verifyNumbers(what, share, numbers));
  std::fill_n(counts, what.groups, 0);
  for (int64_t row = 0; row < what.rows; ++row) // in its group
    places[row] =
        isOwn(what, share, numbers[row]) ? counts[numbers[row] - share.first]++ : static_cast<int32_t>(what.places);
  int64_t all = 0;
  for (int64_t group = 0; group < what.groups; ++group) {
    const int32_t count = counts[group];
    counts[group] = static_cast<int32_t>(all); // for a while: where the group begins
    all += count;
  }
  for (int64_t row = 0; row < what.rows; ++row)
    if (isOwn(what, share, numbers[row]))
      sources[places[row] += counts[numbers[row] - share.first]] = static_cast<int32_t>(row);
  std::fill_n(sources + all, what.places - all, static_cast<int32_t>(what.rows));
  for (int64_t group = 0; group < what.groups; ++group)
    counts[group] = static_cast<int32_t>((group + 1 < what.groups ? counts[group + 1] : all) - counts[group]);
  return Status::ok();
}

} // namespace mgc
