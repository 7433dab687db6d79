// Groups of rows: their order, the matrix products with a matrix for each, and the exchange among ranks that share the
// device, by the kernels of rows.cu and groupedGemm*.cu. Counts stay on the device: no call here waits for them.
#include "plan/instructions/RowErrors.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/Internal.h"
#include "runtime/device/cuda/RowArguments.h"

#include <algorithm>
#include <limits>

namespace mgc::cuda {

extern const OwnModule rowsModule, groupedGemmF32Module, groupedGemmBf16Module;

namespace {

constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();

uint64_t reportOf(const mgc_device &device) { return reinterpret_cast<uint64_t>(device.report); }

// --- groupRows

GroupRowsArguments argumentsOf(const mgc_device &device, const mgc_group_rows_facts &facts,
                               const mgc_group_rows_operands &operands) {
  return {.groups = facts.groups,
          .rows = facts.rows,
          .room = facts.places,
          .first = facts.first,
          .all = facts.all,
          .numbers = operands.numbers,
          .counts = operands.counts,
          .places = operands.places,
          .sources = operands.sources,
          .report = reportOf(device)};
}

// --- groupedGemm

const char *formOf(const mgc_grouped_gemm_facts &facts) {
  return facts.sums ? "sums" : facts.transpose_b ? "across" : "rows";
}

const char *nameOf(mgc_type type) { return type == MGC_BF16 ? "bf16" : "f32"; }

Status checkTypes(const mgc_device &device, const mgc_grouped_gemm_facts &facts) {
  if (facts.input != MGC_I32 && facts.output != MGC_I32 && (facts.input == MGC_BF16 || facts.output == MGC_F32))
    return Status::ok();
  return errorf("{}: a grouped product: expected f32 -> f32, bf16 -> f32 or bf16 -> bf16", device.name);
}

// Lengths of the rows that operands have.
std::array<int64_t, 2> widthsOf(const mgc_grouped_gemm_facts &facts) {
  return {facts.sums ? facts.m : facts.k, facts.n};
}

GroupedGemmArguments argumentsOf(const mgc_device &device, const mgc_grouped_gemm_facts &facts,
                                 const mgc_grouped_gemm_operands &operands) {
  constexpr int64_t vector = 16;
  const bool areWhole =
      std::ranges::all_of(widthsOf(facts), [&](int64_t width) { return width * bytesOf(facts.input) % vector == 0; });
  const auto pair = static_cast<mgc_address>(2 * bytesOf(facts.output));
  return {.groups = facts.groups,
          .rows = facts.rows,
          .m = facts.m,
          .n = facts.n,
          .k = facts.k,
          .a = operands.a,
          .b = operands.b,
          .counts = operands.counts,
          .c = operands.c,
          .report = reportOf(device),
          .accumulate = facts.accumulate,
          .isAligned = areWhole && (operands.a | operands.b) % vector == 0,
          .hasPairs = facts.n % 2 == 0 && operands.c % pair == 0};
}

// As many blocks as the device runs at once; fewer where there cannot be as many tiles. A group may end in a tile of few rows.
int64_t blocksOf(const mgc_device &device, const mgc_grouped_gemm_facts &facts) {
  const int64_t tile = facts.input == MGC_BF16 ? kGroupedTileBf16 : kGroupedTileF32;
  const int64_t tall = facts.sums ? facts.groups * divideUp(facts.m, tile) : divideUp(facts.rows, tile) + facts.groups;
  const int64_t atOnce = int64_t(device.multiprocessors) * (facts.input == MGC_BF16 ? 1 : 2);
  return std::clamp<int64_t>(tall * divideUp(facts.n, tile), 1, atOnce);
}

// --- exchangeRows

// The greatest of 16, 4 and 2 bytes that all addresses and rows are multiples of.
int32_t unitOf(const ExchangeRowsArguments &a) {
  uint64_t all = a.destination | static_cast<uint64_t>(a.rowBytes);
  for (int64_t rank = 0; rank < a.ranks; ++rank)
    all |= a.sources[rank];
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 2;
}

// Blocks of a piece, so that few pieces of many rows have the whole device too.
int64_t splitsOf(const mgc_device &device, const mgc_exchange_rows_facts &facts) {
  return divideUp(4 * int64_t(device.multiprocessors), facts.ranks * facts.groups);
}

Status checkRanks(const mgc_device &device, const mgc_exchange_rows_facts &facts) {
  if (facts.ranks < 1 || facts.ranks > kMostExchangingRanks || facts.index < 0 || facts.index >= facts.ranks)
    return errorf("{}: rank {} of {} that exchange rows; possible are 1 to {} ranks", device.name, facts.index,
                  facts.ranks, kMostExchangingRanks);
  return Status::ok();
}

} // namespace

Status runGroupRows(mgc_stream *stream, const mgc_group_rows_facts *facts, const mgc_group_rows_operands *operands) {
  mgc_device &device = *stream->device;
  MGC_ASSIGN(kernel, ownKernel(device, rowsModule, "group_rows"));
  return launchOwn(*stream, kernel, {.blocks = {uint32_t(facts->groups), 1, 1}, .threads = {kGroupRowsThreads, 1, 1}},
                   "group_rows", argumentsOf(device, *facts, *operands));
}

Status runDropChoices(mgc_stream *stream, const mgc_drop_choices_facts *facts,
                      const mgc_drop_choices_operands *operands) {
  mgc_device &device = *stream->device;
  const int64_t choices = facts->tokens * facts->sequences * facts->chosen; // fits i32: plan::DropChoices
  MGC_ASSIGN(kernel, ownKernel(device, rowsModule, "drop_choices"));
  return launchOwn(*stream, kernel,
                   {.blocks = {uint32_t(divideUp(choices, int64_t(kDropChoicesThreads))), 1, 1},
                    .threads = {kDropChoicesThreads, 1, 1}},
                   "drop_choices",
                   DropChoicesArguments{.tokens = facts->tokens,
                                        .sequences = facts->sequences,
                                        .chosen = facts->chosen,
                                        .experts = facts->experts,
                                        .capacity = facts->capacity,
                                        .together = facts->together,
                                        .byPosition = facts->by_position,
                                        .numbers = operands->experts,
                                        .weights = operands->weights,
                                        .positions = operands->positions,
                                        .kept = operands->kept,
                                        .report = reportOf(device)});
}

Status runGroupedGemm(mgc_stream *stream, const mgc_grouped_gemm_facts *facts,
                      const mgc_grouped_gemm_operands *operands) {
  mgc_device &device = *stream->device;
  MGC_TRY(checkTypes(device, *facts));
  const OwnModule &module = facts->input == MGC_BF16 ? groupedGemmBf16Module : groupedGemmF32Module;
  const std::string name = fmt::format("grouped_{}_{}_{}", formOf(*facts), nameOf(facts->input), nameOf(facts->output));
  MGC_ASSIGN(kernel, ownKernel(device, module, name.c_str()));
  return launchOwn(*stream, kernel,
                   {.blocks = {uint32_t(blocksOf(device, *facts)), 1, 1}, .threads = {kGroupedThreads, 1, 1}}, name,
                   argumentsOf(device, *facts, *operands));
}

Status runExchangeRows(mgc_stream *stream, const mgc_exchange_rows_facts *facts,
                       const mgc_exchange_rows_operands *operands) {
  mgc_device &device = *stream->device;
  MGC_TRY(checkRanks(device, *facts));
  ExchangeRowsArguments a = {.groups = facts->groups,
                             .rows = facts->rows,
                             .places = facts->places,
                             .rowBytes = facts->width * bytesOf(facts->type),
                             .ranks = facts->ranks,
                             .index = facts->index,
                             .isBack = facts->back,
                             .counts = operands->counts,
                             .otherCounts = operands->other_counts,
                             .destination = operands->destination,
                             .report = reportOf(device)};
  std::copy_n(operands->sources, facts->ranks, a.sources);
  std::copy_n(operands->names, facts->ranks, a.names);
  a.unit = unitOf(a), a.splits = int32_t(splitsOf(device, *facts));
  const int64_t blocks = facts->ranks * facts->groups * a.splits;
  if (blocks > kMostBlocks)
    return errorf("{}: exchange_rows needs {} blocks; possible are {}", device.name, blocks, kMostBlocks);
  MGC_ASSIGN(kernel, ownKernel(device, rowsModule, "exchange_rows"));
  return launchOwn(*stream, kernel, {.blocks = {uint32_t(blocks), 1, 1}, .threads = {kExchangeThreads, 1, 1}},
                   "exchange_rows", a);
}

Status reported(const KernelReport &report) {
  const auto kind = std::atomic_ref(const_cast<uint32_t &>(report.kind)).load(std::memory_order_acquire);
  const auto &[a, b, c, d, e, f] = report.numbers;
  switch (KernelReport::Kind(kind)) {
  case KernelReport::none:
    break;
  case KernelReport::rowOfNoGroup:
    return plan::rowOfNoGroup(a, b, c, d);
  case KernelReport::tooManyRows:
    return plan::moreRowsThanPlaces(a, b, c, d, e);
  case KernelReport::choiceOfNoExpert:
    return plan::choiceOfNoExpert(a, b, c, d);
  case KernelReport::wrongCount:
    return plan::wrongCount(a, b, c, d, e);
  case KernelReport::wrongCountOfRank:
    return plan::wrongCountOfRank(a, b, c, d, e, f);
  case KernelReport::tooManyRowsOfRank:
    return plan::moreRowsThanPlacesOfRank(a, b, c, d, e);
  case KernelReport::otherCounts:
    return plan::otherCounts(a, b);
  }
  return Status::ok();
}

} // namespace mgc::cuda
