#include "runtime/exec/SharedCounts.h"

#include <algorithm>

namespace mgc {

namespace {

struct Counts {
  int64_t slot, begin, end;
  GroupId group;
  int64_t groups, rows, places;
  bool operator==(const Counts &) const = default;
};

struct Reader {
  Counts counts;
  int64_t instruction;
};

} // namespace

std::vector<int64_t> firstReadersOfCounts(const plan::Mesh &mesh, const ChunkRecord &chunk) {
  std::vector<int64_t> first(chunk.instructions.size(), -1);
  std::vector<Reader> readers; // readers whose counts nothing has written since
  for (size_t i = 0; i < chunk.instructions.size(); ++i) {
    const InstructionRecord &record = chunk.instructions[i];
    const std::span<const OperandRecord> operands = chunk.operandsOf(record);
    if (const auto *exchange = std::get_if<plan::ExchangeRows>(&record.instruction->body)) {
      const OperandRecord &at = operands[0];
      const int64_t bytes = operandsOf(mesh, record.instruction->body)[0].span().value_or(0);
      const Counts counts = {at.slot,          at.offset,      at.offset + bytes, record.group,
                             exchange->groups, exchange->rows, exchange->places};
      const auto known = std::ranges::find(readers, counts, &Reader::counts);
      first[i] = known == readers.end() ? int64_t(i) : known->instruction;
      if (known == readers.end())
        readers.push_back({counts, int64_t(i)});
    }
    if (readers.empty())
      continue;
    const std::vector<plan::OperandInfo> infos = operandsOf(mesh, record.instruction->body);
    for (size_t k = 0; k < operands.size(); ++k)
      std::erase_if(readers, [&](const Reader &reader) {
        const OperandRecord &at = operands[k];
        return infos[k].isWritten() && at.slot == reader.counts.slot && at.offset < reader.counts.end &&
               at.offset + infos[k].span().value_or(0) > reader.counts.begin;
      });
  }
  return first;
}

} // namespace mgc
