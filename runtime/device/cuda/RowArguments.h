// The arguments of the kernels of groups of rows (kernels/rows.cu, kernels/groupedGemm*.cu), and what they report: the same structs
// on the host and on the device.
#pragma once

#include <cstdint>

namespace mgc::cuda {

// A kernel's report of an error in its data. It lies in pinned memory; the kernel writes it before it stops itself by a
// trap.
struct KernelReport {
  enum Kind : uint32_t {
    none,
    rowOfNoGroup,
    tooManyRows,
    choiceOfNoExpert,
    wrongCount,
    wrongCountOfRank,
    tooManyRowsOfRank,
    otherCounts
  };
  uint32_t isTaken, kind; // `kind` is written last
  int64_t numbers[6];     // in the order of the functions of plan/instructions/RowErrors.h
};

// As mgc_group_rows_facts and their operands.
struct GroupRowsArguments {
  int64_t groups, rows, room, first, all; // room: of places
  uint64_t numbers, counts, places, sources;
  uint64_t report;
};

inline constexpr int kGroupRowsThreads = 256; // threads of a block; each group has a block

// As mgc_drop_choices_facts and their operands; a thread for each choice.
struct DropChoicesArguments {
  int64_t tokens, sequences, chosen, experts, capacity, together;
  int32_t byPosition;
  uint64_t numbers, weights, positions, kept;
  uint64_t report;
};

inline constexpr int kDropChoicesThreads = 256;

constexpr int kMostExchangingRanks = 256;

// As mgc_exchange_rows_facts and their operands. A block for each piece (rank, group) times `splits`.
struct ExchangeRowsArguments {
  int64_t groups, rows, places, rowBytes, ranks, index;
  int32_t isBack;
  uint64_t counts, otherCounts, destination, report;
  int32_t unit = 0, splits = 0; // unit: bytes that every address and rowBytes are multiples of, 2 to 16
  uint64_t sources[kMostExchangingRanks] = {};
  int32_t names[kMostExchangingRanks] = {};
};

inline constexpr int kExchangeThreads = 256;

// As mgc_grouped_gemm_facts and their operands.
struct GroupedGemmArguments {
  int64_t groups, rows, m, n, k;
  uint64_t a, b, counts, c, report;
  int32_t accumulate;
  int32_t isAligned; // operands of bf16 and the begin of each of their rows are multiples of 16 bytes
  int32_t hasPairs;  // two neighbours of C in an even column are aligned together
};

inline constexpr int kGroupedThreads = 256;
inline constexpr int kGroupedTileF32 = 64,
                     kGroupedTileBf16 = 128; // rows and columns of C that a block makes at once

} // namespace mgc::cuda
