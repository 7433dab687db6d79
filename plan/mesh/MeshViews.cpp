// See Views.h.
#include "plan/mesh/MeshViews.h"

#include "runtime/base/Checked.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <limits>

namespace mgc::plan {

namespace {

using Cuts = std::vector<int64_t>; // ascending, each once, from 1 on

// The part of a view's axis between two cuts: ranks `begin`, 2 `begin`, .. below `end`.
struct Span {
  const Axis *axis;
  int64_t begin, end;
};

std::vector<Span> spansOf(const MeshView &view) {
  std::vector<Span> spans;
  int64_t begin = 1;
  for (const Axis &axis : view.axes) {
    spans.push_back({&axis, begin, begin * axis.size});
    begin *= axis.size;
  }
  return spans;
}

void add(Cuts &cuts, const MeshView &view) {
  for (const Span &span : spansOf(view))
    cuts.push_back(span.end);
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
}

bool divideEachOther(const Cuts &cuts) {
  return std::ranges::adjacent_find(cuts, [](int64_t low, int64_t high) { return high % low != 0; }) == cuts.end();
}

bool fits(Cuts cuts, const MeshView &view) {
  add(cuts, view);
  return divideEachOther(cuts);
}

// The sizes of one axis of the view with which all views share a refinement, up to the number of ranks.
std::vector<int64_t> sizesThatFit(const Cuts &cuts, MeshView view, size_t axis) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= cuts.back(); ++size) {
    view.axes[axis].size = size;
    if (cuts.back() % size == 0 && spansOf(view).back().end <= cuts.back() && fits(cuts, view))
      sizes.push_back(size);
  }
  return sizes;
}

// The axis at which the view leaves what the cuts can refine: up to the one before it all is well.
size_t firstThatDoesNotFit(const Cuts &cuts, const MeshView &view) {
  size_t count = 1;
  while (count < view.axes.size() &&
         fits(cuts, {view.name, {view.axes.begin(), view.axes.begin() + static_cast<ptrdiff_t>(count)}}))
    ++count;
  return count - 1;
}

Status refusal(const Cuts &cuts, const MeshView &view) {
  const size_t index = firstThatDoesNotFit(cuts, view);
  const Axis &axis = view.axes[index];
  const std::vector<int64_t> sizes = sizesThatFit(cuts, view, index);
  Status status = errorf("{}: {} = {} cuts the ranks where the other axes cannot be cut: {} does not fit to {}",
                         view.name, axis.name, axis.size, spansOf(view)[index].end, fmt::join(cuts, ", "));
  if (sizes.empty())
    return status;
  return errorf("{}\n  possible {}: {}", status.message(), axis.name, fmt::join(sizes, ", "));
}

Status verifySizes(const MeshView &view) {
  Checked ranks = 1;
  for (const Axis &axis : view.axes) {
    if (axis.size < 1)
      return errorf("{}: axis '{}' has size {}; expected a positive one", view.name, axis.name, axis.size);
    ranks = checkedMultiply(ranks, axis.size);
  }
  if (!ranks || *ranks > std::numeric_limits<int32_t>::max())
    return errorf("{}: the axis sizes multiply to more ranks than fit into 31 bits", view.name);
  return Status::ok();
}

// The first view has all ranks.
Status verifyRanks(const MeshView &view, const MeshView &first) {
  MGC_TRY(verifySizes(view));
  const int64_t ranks = spansOf(view).back().end, all = spansOf(first).back().end;
  return ranks <= all ? Status::ok()
                      : errorf("{}: the axis sizes multiply to {} ranks; expected at most the {} of {}", view.name,
                               ranks, all, first.name);
}

class Refinement {
public:
  Refinement(const std::vector<MeshView> &views, const Cuts &cuts) : views_(views), cuts_(cuts) {}

  Mesh mesh() const {
    Mesh mesh;
    for (size_t i = cuts_.size() - 1; i > 0; --i)
      mesh.axes.push_back(primitive(cuts_[i - 1], cuts_[i]));
    for (const Axis &axis : mesh.axes)
      mesh.named[axis.name] = {axis.name};
    for (const MeshView &view : views_)
      for (const Span &span : spansOf(view))
        mesh.named.try_emplace(span.axis->name, piecesOf(mesh, span));
    return mesh;
  }

private:
  Axis primitive(int64_t begin, int64_t end) const {
    const std::vector<Span> dense = spansOf(views_.front());
    const auto around =
        std::ranges::find_if(dense, [&](const Span &span) { return span.begin <= begin && end <= span.end; });
    for (const MeshView &view : views_)
      for (const Span &span : spansOf(view))
        if (span.begin == begin && span.end == end)
          return {span.axis->name, end / begin, around->axis->role};
    const auto piece = std::ranges::count_if(cuts_, [&](int64_t cut) { return around->begin < cut && cut <= begin; });
    return {fmt::format("{}.{}", around->axis->name, piece), end / begin, around->axis->role};
  }

  // Major first.
  Axes piecesOf(const Mesh &mesh, const Span &span) const {
    Axes pieces;
    for (size_t i = 0; i < mesh.axes.size(); ++i) // axis i lies between these cuts
      if (span.begin <= cuts_[cuts_.size() - 2 - i] && cuts_[cuts_.size() - 1 - i] <= span.end)
        pieces.push_back(mesh.axes[i].name);
    return pieces;
  }

  const std::vector<MeshView> &views_;
  const Cuts &cuts_;
};

} // namespace

bool canRefine(const std::vector<MeshView> &views) {
  Cuts cuts = {1};
  return std::ranges::all_of(views, [&](const MeshView &view) {
    const bool isFine = verifyRanks(view, views.front()).isOk() && fits(cuts, view);
    add(cuts, view);
    return isFine;
  });
}

Result<Mesh> refine(const std::vector<MeshView> &views) {
  Cuts cuts = {1};
  for (const MeshView &view : views) {
    MGC_TRY(verifyRanks(view, views.front()));
    if (!fits(cuts, view))
      return refusal(cuts, view);
    add(cuts, view);
  }
  return Refinement(views, cuts).mesh();
}

} // namespace mgc::plan
