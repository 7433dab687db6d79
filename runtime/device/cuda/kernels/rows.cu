// Rows in the order of their groups, and rows that ranks of one device exchange. Orders and sums follow from the arguments alone; a
// kernel that finds its data wrong has written nothing.
#include "runtime/device/cuda/kernels/rowReport.cuh"

using namespace mgc::cuda;

namespace {

// --- group_rows: a counting sort. Each block has one group and looks at all numbers, each warp of it at rows that follow each
// other: how many are of groups before, and of the group itself, says where the rows of a warp go.
//
//     numbers 2 0 2 0 | 2 1 0 2     two warps; the block of group 2: 4 rows of groups before it, 2 of its own in warp 0
//     places  4   5   | 6     7     warp 0 begins at 4, warp 1 at 4 + 2

constexpr int kWarps = kGroupRowsThreads / 32;

struct Found {
  // Rows of this rank's groups before the block's group, of the block's, of all of this rank's.
  int before, equal, own;
  int wrong;              // the first row whose number is no group
};

struct Range {
  int64_t begin, end;
};

struct Largest {
  int64_t group, rows;
};

// Whole lines of 32 rows for each warp.
__device__ Range rowsOfWarp(const GroupRowsArguments &a) {
  const int64_t lines = (a.rows + 31) / 32;
  const int64_t begin = lines * warp() / kWarps * 32, end = lines * (warp() + 1) / kWarps * 32;
  return {begin, end < a.rows ? end : a.rows};
}

__device__ const int *numbersOf(const GroupRowsArguments &a) { return reinterpret_cast<const int *>(a.numbers); }

__device__ bool isOwn(const GroupRowsArguments &a, int number) { return number >= a.first && number < a.first + a.groups; }

__device__ Found look(const GroupRowsArguments &a, const Range &range, int64_t group) {
  Found found = {0, 0, 0, INT32_MAX};
  for (int64_t row = range.begin + lane(); row < range.end; row += 32) {
    const int number = numbersOf(a)[row];
    const bool own = isOwn(a, number);
    found.own += own;
    found.before += own && number < group;
    found.equal += number == group;
    if ((number < 0 || number > a.all) && row < found.wrong)
      found.wrong = int(row);
  }
  return {int(sumOfWarp(found.before)), int(sumOfWarp(found.equal)), int(sumOfWarp(found.own)), leastOfWarp(found.wrong)};
}

// The group that most rows of this rank are of; all threads of the block call it.
__device__ Largest largestGroup(const GroupRowsArguments &a) {
  __shared__ Largest parts[kWarps];
  Largest own = {0, -1};
  for (int64_t group = a.first + warp(); group < a.first + a.groups; group += kWarps) {
    int64_t rows = 0;
    for (int64_t row = lane(); row < a.rows; row += 32)
      rows += numbersOf(a)[row] == group;
    rows = sumOfWarp(rows);
    if (rows > own.rows)
      own = {group, rows};
  }
  if (lane() == 0)
    parts[warp()] = own;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i)
    if (parts[i].rows > own.rows || (parts[i].rows == own.rows && parts[i].group < own.group))
      own = parts[i];
  return own;
}

// All blocks find the same; the first one says it.
__device__ bool isWrong(const GroupRowsArguments &a, int64_t own, int wrong) {
  if (wrong == INT32_MAX && own <= a.room)
    return false;
  if (wrong != INT32_MAX && threadIdx.x == 0)
    stop(a.report, KernelReport::rowOfNoGroup, wrong, a.rows, numbersOf(a)[wrong], a.all);
  if (wrong == INT32_MAX && blockIdx.x == 0) {
    const Largest largest = largestGroup(a);
    if (threadIdx.x == 0)
      stop(a.report, KernelReport::tooManyRows, own, a.rows, largest.group, largest.rows, a.room);
  }
  return true;
}

// Fills rows that have no place, and places without a row: a part for each block.
__device__ void fillRest(const GroupRowsArguments &a, int64_t own) {
  const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t row = first; row < a.rows; row += step)
    if (!isOwn(a, numbersOf(a)[row]))
      reinterpret_cast<int *>(a.places)[row] = int(a.room);
  for (int64_t place = own + first; place < a.room; place += step)
    reinterpret_cast<int *>(a.sources)[place] = int(a.rows);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kGroupRowsThreads) group_rows(const GroupRowsArguments a) {
  __shared__ Found parts[kWarps];
  const int64_t group = a.first + blockIdx.x;
  const Range range = rowsOfWarp(a);
  const Found part = look(a, range, group);
  if (lane() == 0)
    parts[warp()] = part;
  __syncthreads();
  int64_t place = 0, equal = 0, own = 0;
  int wrong = INT32_MAX;
  for (int i = 0; i < kWarps; ++i) {
    place += parts[i].before + (i < warp() ? parts[i].equal : 0);
    equal += parts[i].equal, own += parts[i].own;
    wrong = min(wrong, parts[i].wrong);
  }
  if (isWrong(a, own, wrong))
    return;
  if (threadIdx.x == 0)
    reinterpret_cast<int *>(a.counts)[blockIdx.x] = int(equal);
  for (int64_t line = range.begin; line < range.end; line += 32) {
    const int64_t row = line + lane();
    const bool isHere = row < range.end && numbersOf(a)[row] == group;
    const unsigned here = __ballot_sync(kAll, isHere);
    if (isHere) {
      const int64_t at = place + __popc(here & ((1u << lane()) - 1));
      reinterpret_cast<int *>(a.places)[row] = int(at);
      reinterpret_cast<int *>(a.sources)[at] = int(row);
    }
    place += __popc(here);
  }
  fillRest(a, own);
}

// --- drop_choices: a thread counts the choices that come before its own in the line of their expert, among those that share its
// room: 65,536 of them are 4e9 comparisons, a few milliseconds of a device, and as many loads that a warp shares.

namespace {

__device__ bool comesBefore(const DropChoicesArguments &a, int64_t one, int64_t other) {
  if (!a.byPosition) {
    const auto *weights = reinterpret_cast<const float *>(a.weights);
    const float w = weights[one], v = weights[other];
    const bool isNan = w != w, isOtherNan = v != v;
    if (isNan != isOtherNan)
      return isNan;
    if (!isNan && w != v)
      return w > v;
  }
  const auto *positions = reinterpret_cast<const int *>(a.positions);
  const int p = positions[one / a.chosen], q = positions[other / a.chosen];
  if (p != q)
    return p < q;
  const int64_t s = one / a.chosen % a.sequences, t = other / a.chosen % a.sequences;
  return s != t ? s < t : one < other;
}

// The first of the sequences that share the room with the choice.
__device__ int64_t firstSequence(const DropChoicesArguments &a, int64_t choice) {
  return choice / a.chosen % a.sequences / a.together * a.together;
}

} // namespace

extern "C" __global__ void __launch_bounds__(kDropChoicesThreads) drop_choices(const DropChoicesArguments a) {
  const auto *numbers = reinterpret_cast<const int *>(a.numbers);
  const int64_t choices = a.tokens * a.sequences * a.chosen;
  const int64_t own = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (own >= choices)
    return;
  const int expert = numbers[own];
  int64_t before = 0;
  for (int64_t token = 0; token < a.tokens; ++token) {
    const int64_t first = (token * a.sequences + firstSequence(a, own)) * a.chosen;
    for (int64_t choice = first; choice < first + a.together * a.chosen; ++choice) {
      const int number = numbers[choice];
      if (number < 0 || number >= a.experts)
        stop(a.report, KernelReport::choiceOfNoExpert, choice, choices, number, a.experts);
      before += number == expert && comesBefore(a, choice, own);
    }
  }
  reinterpret_cast<int *>(a.kept)[own] = before < a.capacity ? expert : int(a.experts);
}

// --- exchange_rows: each rank copies what is for it from where it lies, as their host with the owners' rows, back as their owner
// (runtime/comm/RowExchange.h). Rows of one owner and one group follow each other at both ends.

namespace {

constexpr int kExchangeWarps = kExchangeThreads / 32;

__device__ int64_t countAt(const ExchangeRowsArguments &a, int64_t owner, int64_t group) {
  return reinterpret_cast<const int *>(a.counts)[owner * a.ranks * a.groups + group];
}

// The sum over the block of value(i) for i in [0, count), for all threads.
template <typename Value> __device__ int64_t sumOfBlock(int64_t count, const Value &value) {
  __shared__ int64_t parts[kExchangeWarps];
  int64_t sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kExchangeThreads)
    sum += value(i);
  sum = sumOfWarp(sum);
  __syncthreads(); // the sum before is read
  if (lane() == 0)
    parts[warp()] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < kExchangeWarps; ++i)
    sum += parts[i];
  return sum;
}

__device__ int64_t rowsOf(const ExchangeRowsArguments &a, int64_t owner) {
  return sumOfBlock(a.ranks * a.groups, [&](int64_t group) { return countAt(a, owner, group); });
}

// Counts of a host's groups as they follow each other there: by group, and in a group by owner.
__device__ int64_t countThere(const ExchangeRowsArguments &a, int64_t host, int64_t i) {
  return countAt(a, i % a.ranks, host * a.groups + i / a.ranks);
}

__device__ int64_t rowsAt(const ExchangeRowsArguments &a, int64_t host) {
  return sumOfBlock(a.ranks * a.groups, [&](int64_t i) { return countThere(a, host, i); });
}

// Finds the first wrong count, as RowExchange::read does; one thread runs it.
__device__ void nameWrongCount(const ExchangeRowsArguments &a) {
  const int64_t all = a.ranks * a.groups;
  for (int64_t owner = 0; owner < a.ranks; ++owner) {
    int64_t rows = 0;
    for (int64_t group = 0; group < all; ++group) {
      const int64_t count = countAt(a, owner, group);
      rows += count;
      if (count < 0 || rows > a.rows)
        stop(a.report, KernelReport::wrongCountOfRank, a.names[owner], count, group, all, rows, a.rows);
    }
  }
  for (int64_t host = 0; host < a.ranks; ++host) {
    int64_t rows = 0;
    Largest largest = {0, -1};
    for (int64_t group = 0; group < a.groups; ++group) {
      int64_t ofGroup = 0;
      for (int64_t owner = 0; owner < a.ranks; ++owner)
        ofGroup += countAt(a, owner, host * a.groups + group);
      if (ofGroup > largest.rows)
        largest = {host * a.groups + group, ofGroup};
      rows += ofGroup;
    }
    if (rows > a.places)
      stop(a.report, KernelReport::tooManyRowsOfRank, a.names[host], rows, largest.group, largest.rows, a.places);
  }
}

// Whether the counts are those of another rank, too, and can be. All blocks find the same.
__device__ bool areWrong(const ExchangeRowsArguments &a) {
  const int64_t all = a.ranks * a.groups;
  const auto *others = reinterpret_cast<const int *>(a.otherCounts), *mine = reinterpret_cast<const int *>(a.counts);
  if (sumOfBlock(a.ranks * all, [&](int64_t i) { return int64_t(mine[i] != others[i]); }) > 0) {
    if (threadIdx.x == 0)
      stop(a.report, KernelReport::otherCounts, a.names[a.index], a.names[(a.index + a.ranks - 1) % a.ranks]);
    return true;
  }
  bool isWrong = sumOfBlock(a.ranks * all, [&](int64_t i) { return int64_t(mine[i] < 0); }) > 0;
  for (int64_t rank = 0; rank < a.ranks && !isWrong; ++rank)
    isWrong = rowsOf(a, rank) > a.rows || rowsAt(a, rank) > a.places;
  if (isWrong && threadIdx.x == 0)
    nameWrongCount(a);
  return isWrong;
}

template <typename Unit>
__device__ void copyUnits(uint64_t to, uint64_t from, int64_t bytes, int64_t first, int64_t step) {
  for (int64_t i = first; i < bytes / int64_t(sizeof(Unit)); i += step)
    reinterpret_cast<Unit *>(to)[i] = reinterpret_cast<const Unit *>(from)[i];
}

__device__ void copyBytes(const ExchangeRowsArguments &a, uint64_t to, uint64_t from, int64_t bytes, int64_t part, int64_t parts) {
  const int64_t first = part * kExchangeThreads + threadIdx.x, step = parts * kExchangeThreads;
  if (a.unit == 16)
    copyUnits<uint4>(to, from, bytes, first, step);
  else if (a.unit == 4)
    copyUnits<uint32_t>(to, from, bytes, first, step);
  else
    copyUnits<uint16_t>(to, from, bytes, first, step);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kExchangeThreads) exchange_rows(const __grid_constant__ ExchangeRowsArguments a) {
  if (areWrong(a))
    return;
  const int64_t piece = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
  const int64_t peer = piece / a.groups, group = piece % a.groups;
  const int64_t owner = a.isBack ? a.index : peer, host = a.isBack ? peer : a.index;
  const int64_t own = sumOfBlock(host * a.groups + group, [&](int64_t i) { return countAt(a, owner, i); });
  const int64_t there = sumOfBlock(group * a.ranks + owner, [&](int64_t i) { return countThere(a, host, i); });
  const int64_t count = countAt(a, owner, host * a.groups + group);
  copyBytes(a, a.destination + (a.isBack ? own : there) * a.rowBytes, a.sources[peer] + (a.isBack ? there : own) * a.rowBytes,
            count * a.rowBytes, split, a.splits);
}
