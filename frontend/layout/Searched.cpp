// See Searched.h.
#include "frontend/layout/Searched.h"

#include <algorithm>
#include <map>

namespace mgc::frontend {

namespace {

std::vector<int64_t> findDivisors(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t low = 1; low <= number / low; ++low)
    if (number % low == 0) {
      small.push_back(low);
      if (low != number / low)
        large.push_back(number / low);
    }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

// A space asks for the same numbers again and again.
std::vector<int64_t> divisorsOf(int64_t number) {
  static thread_local std::map<int64_t, std::vector<int64_t>> known;
  const auto [divisors, isNew] = known.try_emplace(number);
  if (isNew)
    divisors->second = findDivisors(number);
  return divisors->second;
}

int64_t quotient(int64_t number, int64_t divisor) { return number % divisor == 0 ? number / divisor : 0; }

int64_t microbatchesOf(const SearchSpace &space, const LayoutOptions &chosen) {
  const int64_t dp = space.dataRanks(chosen);
  return dp == 0 ? 0 : quotient(space.globalBatchSize, dp * chosen.mbs.value_or(1));
}

} // namespace

int64_t SearchSpace::dataRanks(const LayoutOptions &chosen) const {
  const int64_t dp = quotient(devices, chosen.tp.value_or(1) * chosen.cp.value_or(1) * chosen.pp.value_or(1));
  return chosen.dp.value_or(dp) == dp ? dp : 0;
}

std::vector<int64_t> searchedTensor(const SearchSpace &space, const LayoutOptions &) {
  std::vector<int64_t> values = divisorsOf(space.devices);
  std::erase_if(values, [&](int64_t tp) {
    return std::ranges::any_of(space.model.kinds, [&](const BlockKind &kind) {
      return !splitTensorAxis(kind.block.attention, tp) || kind.block.attention.heads % tp != 0;
    });
  });
  return values;
}

// Two parts of the sequence for each rank, so that their work is equal.
std::vector<int64_t> searchedContext(const SearchSpace &space, const LayoutOptions &chosen) {
  std::vector<int64_t> values = divisorsOf(quotient(space.devices, chosen.tp.value_or(1)));
  std::erase_if(values, [&](int64_t cp) { return cp > 1 && space.sequenceLength % (2 * cp) != 0; });
  return values;
}

std::vector<int64_t> searchedExperts(const SearchSpace &space, const LayoutOptions &) {
  if (!space.model.hasExperts())
    return {kNotGiven};
  int64_t experts = 1;
  for (const BlockKind &kind : space.model.kinds)
    if (kind.hasExperts())
      experts = kind.block.experts->count;
  std::vector<int64_t> values = divisorsOf(experts);
  std::erase_if(values, [&](int64_t ep) { return space.devices % ep != 0; });
  return values;
}

std::vector<int64_t> searchedExpertTensor(const SearchSpace &space, const LayoutOptions &chosen) {
  const int64_t tp = chosen.tp.value_or(1);
  return !space.model.hasExperts() ? std::vector<int64_t>{kNotGiven}
         : tp > 1                  ? std::vector<int64_t>{1, tp}
                                   : std::vector<int64_t>{1};
}

std::vector<int64_t> searchedStages(const SearchSpace &space, const LayoutOptions &chosen) {
  std::vector<int64_t> values = divisorsOf(quotient(space.devices, chosen.tp.value_or(1) * chosen.cp.value_or(1)));
  std::erase_if(values, [&](int64_t pp) { return pp > space.model.allLayerCount(); });
  return values;
}

// Chunks of as many layers, but for the layers that stages have more than others.
std::vector<int64_t> searchedChunks(const SearchSpace &space, const LayoutOptions &chosen) {
  const int64_t pp = chosen.pp.value_or(1);
  return pp == 1 ? std::vector<int64_t>{1} : divisorsOf(space.model.allLayerCount() / pp);
}

std::vector<int64_t> searchedMicrobatch(const SearchSpace &space, const LayoutOptions &chosen) {
  const int64_t dp = space.dataRanks(chosen);
  return dp == 0 ? std::vector<int64_t>() : divisorsOf(quotient(space.globalBatchSize, dp));
}

// Level 1 sends as many bytes as level 0 at most, and updates and keeps less. Of the others each may be the fastest: those beyond it send
// more, but level 3 gathers values beside layers, and not at the step's end.
std::vector<int64_t> searchedLevel(const SearchSpace &space, const LayoutOptions &chosen) {
  return space.dataRanks(chosen) * chosen.cp.value_or(1) > 1 ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{0};
}

// Rows that plan by time are left to who asks for them: they take seconds. Those that pair runs are for exchanges of experts' rows.
std::vector<std::string> searchedSchedules(const SearchSpace &space, const LayoutOptions &chosen) {
  const int64_t pp = chosen.pp.value_or(1), vpp = chosen.vpp.value_or(1);
  std::vector<std::string> names;
  for (const ScheduleInfo &row : space.supported.schedules)
    if (row.takes(vpp) && !row.byTime && (!row.pairs || space.model.hasExperts()) &&
        microbatchesOf(space, chosen) <= row.maxMicrobatches(pp, vpp) && (pp > 1 || row.byDefault))
      names.push_back(row.name);
  return names;
}

std::vector<LayoutOptions> fastestChoices(LayoutOptions options) {
  if (!options.memory)
    return {options};
  options.memory.reset();
  options.lossTile = options.lossTile.value_or(0);
  LayoutOptions savingAll = options; // the other recomputes what takes about as long as to save it
  savingAll.recompute = false;
  return {savingAll, options};
}

} // namespace mgc::frontend
