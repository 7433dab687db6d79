// See Reshard.h for the state, the rules and why they terminate.
#include "compiler/shard/Reshard.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mgc;

namespace {

using Axes = SmallVector<Attribute, 4>;

class ReshardPlanner {
public:
  ReshardPlanner(LayoutAttr from, LayoutAttr to) : layout_(from), reduction_(from.getReduction()) {
    for (ArrayAttr axes : from.getAxes())
      now_.emplace_back(axes.begin(), axes.end());
    for (ArrayAttr axes : to.getAxes())
      goal_.emplace_back(axes.begin(), axes.end());
    pending_.assign(from.getPending().begin(), from.getPending().end());
    goalPending_.assign(to.getPending().begin(), to.getPending().end());
  }

  SmallVector<ReshardStep> run() {
    while (sliceOrScatter(false) || sliceOrScatter(true) || allToAll() || allReduce() || addTied() || allGather() ||
           demote()) {
    }
    return std::move(steps_);
  }

private:
  static bool has(ArrayRef<Attribute> list, Attribute axis) { return llvm::is_contained(list, axis); }
  size_t prefix(size_t d) const {
    size_t n = 0;
    while (n < now_[d].size() && n < goal_[d].size() && now_[d][n] == goal_[d][n])
      ++n;
    return n;
  }
  ArrayRef<Attribute> surplus(size_t d) const { return ArrayRef(now_[d]).drop_front(prefix(d)); }
  ArrayRef<Attribute> wanted(size_t d) const { return ArrayRef(goal_[d]).drop_front(prefix(d)); }
  bool split(Attribute axis) const {
    return llvm::any_of(now_, [&](const Axes &axes) { return has(axes, axis); });
  }
  bool wantedSomewhere(Attribute axis) const {
    for (size_t d = 0; d < now_.size(); ++d)
      if (has(wanted(d), axis))
        return true;
    return false;
  }

  void step(ReshardKind kind, ArrayRef<Attribute> axes, int64_t dim = -1, int64_t from = -1) {
    MLIRContext *context = layout_.getContext();
    SmallVector<ArrayAttr> lists;
    for (const Axes &list : now_)
      lists.push_back(ArrayAttr::get(context, list));
    layout_ = LayoutAttr::get(context, layout_.getNames(), lists, ArrayAttr::get(context, pending_),
                              pending_.empty() ? Reduction::sum : reduction_);
    steps_.push_back({kind, ArrayAttr::get(context, axes), dim, from, layout_});
  }

  // Rules 1 and 2: append the next wanted axes, which are replicated (or pending).
  bool sliceOrScatter(bool isPending) {
    for (size_t d = 0; d < now_.size(); ++d) {
      if (!surplus(d).empty())
        continue;
      Axes run;
      for (Attribute axis : wanted(d)) {
        bool fits = isPending ? has(pending_, axis) : !has(pending_, axis) && !split(axis);
        if (!fits)
          break;
        run.push_back(axis);
      }
      if (run.empty())
        continue;
      now_[d].append(run.begin(), run.end());
      llvm::erase_if(pending_, [&](Attribute axis) { return has(run, axis); });
      step(isPending ? ReshardKind::reduceScatter : ReshardKind::slice, run, d);
      return true;
    }
    return false;
  }

  // Rule 3, largest k first. The moved axes keep their order.
  bool allToAll() {
    for (size_t d = 0; d < now_.size(); ++d)
      for (size_t e = 0; e < now_.size() && surplus(d).empty(); ++e)
        for (size_t k = std::min(wanted(d).size(), surplus(e).size()); k > 0; --k) {
          Axes moved(surplus(e).take_back(k));
          if (d == e || wanted(d).take_front(k) != ArrayRef<Attribute>(moved))
            continue;
          now_[e].resize(now_[e].size() - k);
          now_[d].append(moved.begin(), moved.end());
          step(ReshardKind::allToAll, moved, d, e);
          return true;
        }
    return false;
  }

  // Rule 4.
  bool allReduce() {
    Axes run;
    for (Attribute axis : pending_)
      if (isa<StringAttr>(axis) && !has(goalPending_, axis) && !wantedSomewhere(axis))
        run.push_back(axis);
    if (run.empty())
      return false;
    llvm::erase_if(pending_, [&](Attribute axis) { return has(run, axis); });
    step(ReshardKind::allReduce, run);
    return true;
  }

  // Rule 5, one tie at a time.
  bool addTied() {
    auto tie =
        llvm::find_if(pending_, [&](Attribute one) { return isa<DenseI64ArrayAttr>(one) && !has(goalPending_, one); });
    if (tie == pending_.end())
      return false;
    auto stages = cast<DenseI64ArrayAttr>(*tie);
    pending_.erase(tie);
    step(ReshardKind::allReduce, {});
    steps_.back().stages = stages;
    return true;
  }

  // Rule 6: a dimension whose minor surplus axis is wanted nowhere first; its like neighbours go along.
  bool allGather() {
    for (bool needed : {false, true})
      for (size_t d = 0; d < now_.size(); ++d) {
        size_t count = 0;
        ArrayRef<Attribute> extra = surplus(d);
        while (count < extra.size() && wantedSomewhere(extra[extra.size() - 1 - count]) == needed)
          ++count;
        if (count == 0)
          continue;
        Axes run(extra.take_back(count));
        now_[d].resize(now_[d].size() - count);
        step(ReshardKind::allGather, run, d);
        return true;
      }
    return false;
  }

  // Rule 7.
  bool demote() {
    Axes run;
    for (Attribute axis : goalPending_)
      if (!has(pending_, axis) && !split(axis))
        run.push_back(axis);
    if (run.empty())
      return false;
    pending_.append(run.begin(), run.end());
    step(ReshardKind::demote, run);
    return true;
  }

  LayoutAttr layout_;
  Reduction reduction_;
  SmallVector<Axes> now_, goal_;
  Axes pending_, goalPending_;
  SmallVector<ReshardStep> steps_;
};

} // namespace

SmallVector<ReshardStep> mgc::planReshard(LayoutAttr from, LayoutAttr to) {
  if (from == to)
    return {};
  SmallVector<ReshardStep> steps = ReshardPlanner(from, to).run();
  // Pending sets are sets: the last layout is the goal, whatever order its axes are written in.
  if (!steps.empty())
    steps.back().result = to;
  return steps;
}

int64_t mgc::localElements(ArrayRef<int64_t> shape, LayoutAttr layout, MeshAttr mesh) {
  int64_t elements = 1;
  for (auto [size, axes] : llvm::zip(shape, layout.getAxes()))
    elements *= size / mesh.sizeOf(axes);
  return elements;
}

double mgc::reshardCost(ArrayRef<ReshardStep> steps, LayoutAttr from, ArrayRef<int64_t> shape, MeshAttr mesh) {
  double cost = 0;
  LayoutAttr before = from;
  for (const ReshardStep &step : steps) {
    double n = mesh.sizeOf(step.axes), in = localElements(shape, before, mesh);
    switch (step.kind) {
    case ReshardKind::slice:
    case ReshardKind::demote:
      break;
    case ReshardKind::reduceScatter:
    case ReshardKind::allToAll:
      cost += in * (n - 1) / n;
      break;
    case ReshardKind::allReduce:
      cost += 2 * in * (n - 1) / n;
      break;
    case ReshardKind::allGather:
      cost += in * (n - 1);
      break;
    }
    before = step.result;
  }
  return cost;
}
