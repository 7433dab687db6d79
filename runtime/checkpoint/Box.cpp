// See Box.h.
#include "runtime/checkpoint/Box.h"

#include <algorithm>
#include <numeric>

namespace mgc {

namespace {

// Cuts a stretch of elements into boxes. Invariant of cut(dim, ..): box_ is one index wide in the dimensions before `dim`, and whole
// in those from `dim` on.
class BoxCutter {
public:
  BoxCutter(std::span<const int64_t> shape, const std::function<void(const Box &, int64_t, int64_t)> &visit)
      : shape_(shape), visit_(visit), inner_(shape.size(), 1),
        box_{std::vector<int64_t>(shape.size()), {shape.begin(), shape.end()}} {
    for (size_t dim = shape.size(); dim-- > 1;)
      inner_[dim - 1] = inner_[dim] * shape[dim];
  }

  // [begin, end) counts in the part of the tensor that the dimensions before `dim` leave, which begins at element `base`.
  void cut(size_t dim, int64_t base, int64_t begin, int64_t end) {
    if (begin >= end)
      return;
    if (dim == shape_.size())
      return visit_(box_, base, 1);
    const int64_t inner = inner_[dim];
    const auto cutWithin = [&](int64_t row, int64_t from, int64_t to) {
      set(dim, row, 1);
      cut(dim + 1, base + row * inner, from, to);
      set(dim, 0, shape_[dim]);
    };
    int64_t first = begin / inner;
    const int64_t last = end / inner, head = begin % inner, tail = end % inner;
    if (first == last)
      return cutWithin(first, head, tail);
    if (head > 0)
      cutWithin(first++, head, inner);
    if (first < last) {
      set(dim, first, last - first);
      visit_(box_, base + first * inner, (last - first) * inner);
      set(dim, 0, shape_[dim]);
    }
    if (tail > 0)
      cutWithin(last, 0, tail);
  }

private:
  void set(size_t dim, int64_t offset, int64_t size) {
    box_.offsets[dim] = offset;
    box_.sizes[dim] = size;
  }

  const std::span<const int64_t> shape_;
  const std::function<void(const Box &, int64_t, int64_t)> &visit_;
  std::vector<int64_t> inner_; // elements of one index of each dimension
  Box box_;
};

} // namespace

int64_t Box::elements() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>()); }

int64_t beginOf(const Box &box, std::span<const int64_t> shape) {
  int64_t begin = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    begin = begin * shape[dim] + box.offsets[dim];
  return begin;
}

void forEachBox(std::span<const int64_t> shape, int64_t begin, int64_t end,
                const std::function<void(const Box &, int64_t, int64_t)> &visit) {
  BoxCutter(shape, visit).cut(0, 0, begin, end);
}

std::optional<size_t> joinedAlong(const Box &first, const Box &second) {
  std::optional<size_t> along;
  for (size_t dim = 0; dim < first.sizes.size(); ++dim) {
    if (first.offsets[dim] == second.offsets[dim] && first.sizes[dim] == second.sizes[dim])
      continue;
    if (along || first.offsets[dim] + first.sizes[dim] != second.offsets[dim])
      return std::nullopt;
    along = dim;
  }
  return along;
}

bool overlap(const Box &a, const Box &b) {
  for (size_t dim = 0; dim < a.sizes.size(); ++dim)
    if (a.offsets[dim] + a.sizes[dim] <= b.offsets[dim] || b.offsets[dim] + b.sizes[dim] <= a.offsets[dim])
      return false;
  return true;
}

// Boxes that do not overlap cover the tensor if they have as many elements.
bool cover(std::span<const Box> boxes, std::span<const int64_t> shape) {
  int64_t left = Box{{}, {shape.begin(), shape.end()}}.elements();
  std::vector<const Box *> order;
  for (const Box &box : boxes) {
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (box.sizes[dim] < 1 || box.offsets[dim] < 0 || box.offsets[dim] > shape[dim] - box.sizes[dim])
        return false;
    order.push_back(&box);
    left -= box.elements(); // at most the tensor's
    if (left < 0)
      return false;
  }
  std::ranges::sort(order, {}, [](const Box *box) { return box->offsets; });
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j) {
      if (!shape.empty() && order[j]->offsets[0] >= order[i]->offsets[0] + order[i]->sizes[0])
        break;
      if (overlap(*order[i], *order[j]))
        return false;
    }
  return left == 0;
}

} // namespace mgc
