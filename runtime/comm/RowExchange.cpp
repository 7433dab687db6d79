#include "runtime/comm/RowExchange.h"

#include "plan/instructions/RowErrors.h"

#include <string_view>

namespace mgc {

Status RowExchange::moreRowsThanPlaces(const plan::ExchangeRows &what, const std::vector<int64_t> &ranks,
                                       int64_t host) const {
  int64_t all = 0, largest = 0, most = -1;
  for (int64_t group = 0; group < groups_; ++group) {
    int64_t rows = 0;
    for (int64_t owner = 0; owner < ranks_; ++owner)
      rows += piece(owner, host, group).count;
    if (rows > most)
      most = rows, largest = host * groups_ + group;
    all += rows;
  }
  return plan::moreRowsThanPlacesOfRank(ranks[static_cast<size_t>(host)], all, largest, most, what.places);
}

Status RowExchange::read(const plan::ExchangeRows &what, const std::vector<int64_t> &ranks, const int32_t *counts) {
  ranks_ = static_cast<int64_t>(ranks.size()), groups_ = what.groups;
  const int64_t all = ranks_ * groups_;
  const std::string_view bytes(reinterpret_cast<const char *>(counts), size_t(ranks_ * all) * sizeof(int32_t));
  hash_ = static_cast<int64_t>(std::hash<std::string_view>()(bytes));
  pieces_.assign(static_cast<size_t>(ranks_ * all), {});
  owned_.assign(ranks.size(), 0), hosted_.assign(ranks.size(), 0);
  for (int64_t owner = 0; owner < ranks_; ++owner)
    for (int64_t group = 0; group < all; ++group) {
      const int32_t count = counts[owner * all + group];
      int64_t &owned = owned_[static_cast<size_t>(owner)];
      if (count < 0 || owned + count > what.rows)
        return plan::wrongCountOfRank(ranks[static_cast<size_t>(owner)], count, group, all, owned + count, what.rows);
      pieces_[static_cast<size_t>(owner * all + group)] = {count, owned, 0};
      owned += count;
    }
  for (int64_t host = 0; host < ranks_; ++host)
    for (int64_t group = 0; group < groups_; ++group)
      for (int64_t owner = 0; owner < ranks_; ++owner) {
        Piece &piece = pieces_[static_cast<size_t>((owner * ranks_ + host) * groups_ + group)];
        int64_t &hosted = hosted_[static_cast<size_t>(host)];
        if (hosted + piece.count > what.places)
          return moreRowsThanPlaces(what, ranks, host);
        piece.there = hosted;
        hosted += piece.count;
      }
  return Status::ok();
}

} // namespace mgc
