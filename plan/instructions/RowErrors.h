// The errors of instructions on groups of rows whose data is wrong, in the same words on every device: numbers of groups and counts
// are data, so no proof has seen them.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>

namespace mgc::plan {

// --- groupRows

// Row `row` of `rows` is of group `number`; there are `all`, and the number `all` is that of rows of no group.
Status rowOfNoGroup(int64_t row, int64_t rows, int64_t number, int64_t all);
// The groups of a rank have `own` rows together, of all `rows`; `most` of them are of group `largest`.
Status moreRowsThanPlaces(int64_t own, int64_t rows, int64_t largest, int64_t most, int64_t places);

// --- dropChoices

Status choiceOfNoExpert(int64_t choice, int64_t choices, int64_t number, int64_t experts);

// --- groupedGemm

// `upTo`: rows of the group and those before it.
Status wrongCount(int64_t group, int64_t groups, int64_t count, int64_t upTo, int64_t rows);

// --- exchangeRows

// Rank `rank` has `count` rows of `group` of `all`; `upTo` of it and those before it.
Status wrongCountOfRank(int64_t rank, int64_t count, int64_t group, int64_t all, int64_t upTo, int64_t rows);
// Rank `rank` gets `own` rows; `most` of them are of group `largest`.
Status moreRowsThanPlacesOfRank(int64_t rank, int64_t own, int64_t largest, int64_t most, int64_t places);
Status otherCounts(int64_t rank, int64_t other);

} // namespace mgc::plan
