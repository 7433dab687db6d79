// Sets of bytes, and a map from bytes to what they hold, as sorted intervals.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace mgc::plan {

struct ByteInterval {
  int64_t begin = 0, end = 0;
  bool operator==(const ByteInterval &) const = default;
};

// Disjoint ranges in order; ranges that touch are one.
class ByteSet {
public:
  void add(ByteInterval range);
  const std::vector<ByteInterval> &ranges() const { return ranges_; }
  bool contains(ByteInterval range) const;
  bool meets(ByteInterval range) const;
  bool operator==(const ByteSet &) const = default;

private:
  std::vector<ByteInterval> ranges_;
};

// Bytes [0, bytes) with a T each; neighbours may be equal.
template <typename T> class ByteMap {
public:
  ByteMap(int64_t bytes, T value) : bytes_(bytes) { parts_[0] = std::move(value); }

  // Calls visit(range, T &) for each part of the range; parts are cut at its ends.
  template <typename Visit> void forEach(ByteInterval range, Visit &&visit) {
    if (range.begin >= range.end)
      return;
    cut(range.end);
    for (auto part = cut(range.begin); part != parts_.end() && part->first < range.end; ++part)
      visit(ByteInterval{part->first, endOf(part)}, part->second);
  }
  // Calls visit(range, const T &) for each part that meets the range, whole.
  template <typename Visit> void peek(ByteInterval range, Visit &&visit) const {
    if (range.begin >= range.end)
      return;
    for (auto part = std::prev(parts_.upper_bound(range.begin)); part != parts_.end() && part->first < range.end;
         ++part)
      visit(ByteInterval{part->first, endOf(part)}, part->second);
  }
  // Whether holds(range, const T &) for each part that meets the range, whole; looks no further than the first that fails.
  template <typename Holds> bool all(ByteInterval range, Holds &&holds) const {
    if (range.begin >= range.end)
      return true;
    auto part = std::prev(parts_.upper_bound(range.begin));
    while (part != parts_.end() && part->first < range.end &&
           holds(ByteInterval{part->first, endOf(part)}, part->second))
      ++part;
    return part == parts_.end() || part->first >= range.end;
  }
  // Makes the range one part.
  void set(ByteInterval range, const T &value) {
    if (range.begin >= range.end)
      return;
    cut(range.end);
    auto part = cut(range.begin);
    parts_.erase(std::next(part), parts_.lower_bound(range.end));
    part->second = value;
  }
  // Makes the range one part with the neighbours that are equal.
  void merge(ByteInterval range, const T &value) {
    if (range.begin >= range.end)
      return;
    set(range, value);
    const auto part = parts_.find(range.begin);
    if (const auto next = std::next(part); next != parts_.end() && next->second == value)
      parts_.erase(next);
    if (part != parts_.begin() && std::prev(part)->second == value)
      parts_.erase(part);
  }
  int64_t bytes() const { return bytes_; }
  const std::map<int64_t, T> &parts() const { return parts_; } // by begin

private:
  using Part = typename std::map<int64_t, T>::const_iterator;
  int64_t endOf(Part part) const {
    auto next = std::next(part);
    return next == parts_.end() ? bytes_ : next->first;
  }
  auto cut(int64_t at) {
    auto next = parts_.lower_bound(at);
    if (at >= bytes_ || (next != parts_.end() && next->first == at))
      return next;
    return parts_.emplace_hint(next, at, std::prev(next)->second);
  }
  int64_t bytes_;
  std::map<int64_t, T> parts_;
};

} // namespace mgc::plan
