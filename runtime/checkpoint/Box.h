// Box: a part of a tensor, by offset and size along each dimension: how a checkpoint names what one of its files has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace mgc {

struct Box {
  std::vector<int64_t> offsets, sizes;
  int64_t elements() const;
  bool operator==(const Box &) const = default;
};

// The element, counted row-major in a tensor of that shape, with which the box begins.
int64_t beginOf(const Box &box, std::span<const int64_t> shape);

// Calls visit(box, begin, count) for the boxes of which the elements [begin, end) of a tensor consist, in order; the
// elements of each are [begin, begin + count). At most 2 n - 1 boxes of n dimensions:
//   [4, 6], 3 to 20:  [0, 3] of [1, 3],  [1, 0] of [2, 6],  [3, 0] of [1, 2]
void forEachBox(std::span<const int64_t> shape, int64_t begin, int64_t end,
                const std::function<void(const Box &, int64_t, int64_t)> &visit);

// The dimension along which the second box follows the first, with which it is equal in all others; none: they make no
// box together.
std::optional<size_t> joinedAlong(const Box &first, const Box &second);

bool overlap(const Box &a, const Box &b);

// Whether each element of the tensor is in exactly one of the boxes, none of which is empty or reaches out of it.
bool cover(std::span<const Box> boxes, std::span<const int64_t> shape);

} // namespace mgc
