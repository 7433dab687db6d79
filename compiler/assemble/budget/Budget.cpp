// See Budget.h.
#include "compiler/assemble/budget/Budget.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

namespace mgc::budget {
namespace {

Seconds operator+(const Seconds &a, const Seconds &b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
bool isAtMost(const Seconds &a, const Seconds &b) { return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]; }

// Layers of a chunk with their policies. Sums are made of whole layers, so a point knows the one before it.
struct Point {
  int64_t kept = 0, split = 0;
  Seconds seconds = {};
  int before = -1, layers = -1, option = -1; // index of the point before; what was added to it
};

// Bounds of frames.
struct Frames {
  int64_t others = 0, forward = 0;
  int64_t bytes() const { return others + forward; }
};

// The memory that a way leaves to chunks, where slots that they share are so large; 0: they share none.
struct Bounds {
  const std::vector<Moment> &moments;
  int64_t room = 0; // for each moment
  int64_t keptSlot = 0, splitSlot = 0;

  bool fitsSlots(const Point &point) const {
    return (keptSlot == 0 || point.kept <= keptSlot) && (splitSlot == 0 || point.split <= splitSlot);
  }
  int64_t bytesAt(const Moment &moment) const {
    return moment.bytes + moment.sharedKept * keptSlot + moment.sharedSplit * splitSlot;
  }
};

// The points of a chunk that fit and of which none is better in every way, by rising seconds.
class Frontier {
public:
  Frontier(const ChunkLayers &chunk, size_t number, const Bounds &bounds, Frames frames, const Limits &limits)
      : bounds_(bounds), number_(number), most_(limits.points) {
    points_.push_back({chunk.kept, chunk.split, chunk.seconds});
    if (fits(points_[0]))
      last_.push_back(0);
    for (int i = 0; i < int(chunk.layers.size()); ++i)
      for (int64_t n = 0; n < chunk.layers[i].count; ++n)
        add(chunk.layers[i], i, frames);
  }

  const std::vector<int> &last() const { return last_; }
  bool isCut() const { return isCut_; }
  const Point &operator[](int point) const { return points_[point]; }

  std::vector<std::vector<int64_t>> countsOf(int point, const ChunkLayers &chunk) const {
    std::vector<std::vector<int64_t>> counts;
    for (const Layers &layers : chunk.layers)
      counts.emplace_back(layers.options.size(), 0);
    for (; points_[point].before >= 0; point = points_[point].before)
      ++counts[points_[point].layers][points_[point].option];
    return counts;
  }

private:
  void add(const Layers &layers, int number, Frames frames) {
    std::vector<Point> made;
    for (int before : last_)
      for (int option = 0; option < int(layers.options.size()); ++option)
        if (const Option &policy = layers.options[option];
            policy.frame <= frames.others && policy.forwardFrame <= frames.forward) {
          const Point &from = points_[before];
          const Point to{from.kept + policy.kept,
                         from.split + policy.split,
                         from.seconds + policy.seconds,
                         before,
                         number,
                         option};
          if (fits(to))
            made.push_back(to);
        }
    std::ranges::stable_sort(
        made, {}, [](const Point &point) { return std::tuple(sumOf(point.seconds), point.kept, point.split); });
    drop(made, [](const Point &a, const Point &b) { return isAtMost(a.seconds, b.seconds); });
    if (made.size() > most_) { // the smallest of those that take as long in all
      isCut_ = true;
      drop(made, [](const Point &, const Point &) { return true; });
      thin(made);
    }
    last_.clear();
    for (const Point &point : made) {
      last_.push_back(int(points_.size()));
      points_.push_back(point);
    }
  }

  // Drops points that are no smaller than one before and, as isBelow says of the two, take as long.
  template <typename IsBelow> static void drop(std::vector<Point> &points, IsBelow isBelow) {
    std::vector<Point> kept;
    for (const Point &point : points)
      if (std::ranges::none_of(kept, [&](const Point &other) {
            return other.kept <= point.kept && other.split <= point.split && isBelow(other, point);
          }))
        kept.push_back(point);
    points = std::move(kept);
  }

  // Leaves as many as the limit: the fastest, the smallest, and others as far apart as they are.
  void thin(std::vector<Point> &points) const {
    if (points.size() <= most_)
      return;
    const auto least = [&](auto bytes) { return size_t(std::ranges::min_element(points, {}, bytes) - points.begin()); };
    std::set<size_t> kept = {0, least(&Point::kept), least(&Point::split),
                             least([](const Point &point) { return point.kept + point.split; })};
    const double step = double(points.size()) / double(most_);
    for (size_t i = 0; i < most_ && kept.size() < most_; ++i)
      kept.insert(size_t(double(i) * step));
    std::vector<Point> left;
    for (const size_t point : kept)
      left.push_back(points[point]);
    points = std::move(left);
  }

  // With nothing of other chunks.
  bool fits(const Point &point) const {
    return bounds_.fitsSlots(point) && std::ranges::all_of(bounds_.moments, [&](const Moment &moment) {
             return bounds_.bytesAt(moment) + moment.kept[number_] * point.kept + moment.split[number_] * point.split <=
                    bounds_.room;
           });
  }

  const Bounds bounds_;
  const size_t number_, most_;
  std::vector<Point> points_;
  std::vector<int> last_;
  bool isCut_ = false;
};

// Seconds of the tasks of all chunks of some choices, a row for each: rows are compared often, and lie together.
class RowsOfSeconds {
public:
  explicit RowsOfSeconds(size_t width) : width_(width) {}
  size_t count() const { return count_; }
  void push(const Seconds &seconds) { values_.insert(values_.end(), seconds.begin(), seconds.end()); }
  void endRow() { ++count_; }

  // The rows of which none before takes at most as long in every task, if those that take less in all come first, and of these those
  // of fewer bytes.
  std::vector<size_t> undominated(const std::vector<int64_t> &bytes) const {
    std::vector<std::tuple<double, int64_t, size_t>> order; // seconds in all, bytes, row
    for (size_t row = 0; row < count_; ++row) {
      double sum = 0; // by chunk, as choices have them
      for (auto chunk = at(row); chunk != at(row + 1); chunk += kTasks)
        sum += chunk[0] + chunk[1] + chunk[2];
      order.emplace_back(sum, bytes[row], row);
    }
    std::ranges::sort(order);
    const std::vector<size_t> columns = differingColumns();
    Kept kept(columns.size());
    std::vector<size_t> rows;
    std::vector<double> values(columns.size());
    for (const auto &[sum, ofBytes, row] : order) {
      for (size_t i = 0; i < columns.size(); ++i)
        values[i] = at(row)[ptrdiff_t(columns[i])];
      if (!kept.hasAtMost(values)) {
        kept.push(values);
        rows.push_back(row);
      }
    }
    return rows;
  }

private:
  static constexpr ptrdiff_t kTasks = std::tuple_size_v<Seconds>;

  class Kept {
  public:
    explicit Kept(size_t width) : width_(width) {}
    void push(const std::vector<double> &row) {
      order_.push_back(values_.size());
      values_.insert(values_.end(), row.begin(), row.end());
    }
    // Whether no second of some row is more.
    bool hasAtMost(const std::vector<double> &row) {
      const auto found = std::ranges::find_if(order_, [&](size_t begin) {
        const auto own = values_.begin() + ptrdiff_t(begin);
        return std::equal(own, own + ptrdiff_t(width_), row.begin(), std::less_equal<>());
      });
      if (found == order_.end())
        return false;
      std::rotate(order_.begin(), found, found + 1);
      return true;
    }

  private:
    const size_t width_;
    std::vector<double> values_;
    std::vector<size_t> order_; // where rows begin: those that were at most another lately come first
  };

  std::vector<double>::const_iterator at(size_t row) const { return values_.begin() + ptrdiff_t(row * width_); }
  // Most tasks take as long with any policy.
  std::vector<size_t> differingColumns() const {
    std::vector<size_t> columns;
    for (size_t column = 0; column < width_; ++column)
      for (size_t row = 1; row < count_; ++row)
        if (at(row)[ptrdiff_t(column)] != at(0)[ptrdiff_t(column)]) {
          columns.push_back(column);
          break;
        }
    return columns;
  }

  const size_t width_;
  size_t count_ = 0;
  std::vector<double> values_;
};

// Choices of a stage, of which those that others are below of are dropped now and then.
class UndominatedChoices {
public:
  explicit UndominatedChoices(size_t chunks) : width_(chunks * std::tuple_size_v<Seconds>) {}

  // Choices that were made since some were dropped count too, though they have been left out already.
  size_t count() const { return count_; }
  size_t width() const { return width_; }
  void add(StageChoice choice) { all_.push_back(std::move(choice)); }
  void addCount(size_t made) { count_ += made; }

  void dropDominated() {
    if (all_.size() != undominated_) { // none has come if there are as many
      RowsOfSeconds rows(width_);
      std::vector<int64_t> bytes;
      for (const StageChoice &choice : all_) {
        for (const Seconds &seconds : choice.seconds)
          rows.push(seconds);
        rows.endRow();
        bytes.push_back(choice.bytes);
      }
      std::vector<StageChoice> kept;
      for (const size_t row : rows.undominated(bytes))
        kept.push_back(std::move(all_[row]));
      all_ = std::move(kept);
    }
    undominated_ = count_ = all_.size();
  }
  std::vector<StageChoice> take() { return std::move(all_); }

private:
  const size_t width_;
  size_t undominated_ = 0, count_ = 0;
  std::vector<StageChoice> all_;
};

// The bounds that frames of policies can have.
std::vector<Frames> framesOf(const StageLayers &stage) {
  std::set<int64_t> others = {stage.frame}, forward = {stage.forwardFrame};
  for (const ChunkLayers &chunk : stage.chunks)
    for (const Layers &layers : chunk.layers)
      for (const Option &option : layers.options) {
        others.insert(std::max(stage.frame, option.frame));
        forward.insert(std::max(stage.forwardFrame, option.forwardFrame));
      }
  std::vector<Frames> all;
  for (int64_t one : others)
    for (int64_t other : forward)
      all.push_back({one, other});
  return all;
}

// The choices of a stage's chunks under bounds of its frames and of shared slots.
class Combination {
public:
  Combination(const StageLayers &stage, Frames frames, const Bounds &bounds, const Limits &limits,
              UndominatedChoices &out, bool &isCut)
      : stage_(stage), frames_(frames), bounds_(bounds), limits_(limits), out_(out), isCut_(isCut), rows_(out.width()) {
    for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk)
      frontiers_.emplace_back(stage.chunks[chunk], chunk, bounds, frames, limits);
    for (const Frontier &frontier : frontiers_)
      isCut |= frontier.isCut();
    addLeast();
    std::vector<int64_t> bytes;
    for (const Moment &moment : bounds.moments)
      bytes.push_back(bounds.bytesAt(moment));
    combine(bytes);
    addUndominated();
  }

private:
  int64_t bytesOf(size_t moment, size_t chunk, int point) const {
    return bounds_.moments[moment].kept[chunk] * frontiers_[chunk][point].kept +
           bounds_.moments[moment].split[chunk] * frontiers_[chunk][point].split;
  }

  // The bytes that chunks from one on add to each moment, at the least.
  void addLeast() {
    least_.assign(frontiers_.size() + 1, std::vector<int64_t>(bounds_.moments.size(), 0));
    for (size_t chunk = frontiers_.size(); chunk-- > 0;)
      for (size_t moment = 0; moment < bounds_.moments.size(); ++moment) {
        std::optional<int64_t> least;
        for (int point : frontiers_[chunk].last())
          least = std::min(least.value_or(std::numeric_limits<int64_t>::max()), bytesOf(moment, chunk, point));
        least_[chunk][moment] = least_[chunk + 1][moment] + least.value_or(0);
      }
  }

  // bytes: of each moment, with the points that are chosen so far.
  void combine(const std::vector<int64_t> &bytes) {
    const size_t chunk = points_.size();
    for (size_t moment = 0; moment < bytes.size(); ++moment)
      if (bytes[moment] + least_[chunk][moment] > bounds_.room)
        return;
    if (out_.count() + rows_.count() > limits_.combined || ++visited_ > kVisited * limits_.combined) {
      isCut_ = true;
      return;
    }
    if (chunk == frontiers_.size())
      return add(bytes);
    for (int point : frontiers_[chunk].last()) {
      std::vector<int64_t> with = bytes;
      for (size_t i = 0; i < with.size(); ++i)
        with[i] += bytesOf(i, chunk, point);
      points_.push_back(point);
      combine(with);
      points_.pop_back();
    }
  }

  void add(const std::vector<int64_t> &bytes) {
    bytes_.push_back(stage_.bytes + frames_.bytes() + (bytes.empty() ? 0 : std::ranges::max(bytes)));
    for (size_t chunk = 0; chunk < points_.size(); ++chunk)
      rows_.push(frontiers_[chunk][points_[chunk]].seconds);
    rows_.endRow();
    pointsOfRows_.insert(pointsOfRows_.end(), points_.begin(), points_.end());
  }

  void addUndominated() {
    for (const size_t row : rows_.undominated(bytes_)) {
      StageChoice choice;
      choice.bytes = bytes_[row];
      for (size_t chunk = 0; chunk < frontiers_.size(); ++chunk) {
        const int point = pointsOfRows_[row * frontiers_.size() + chunk];
        choice.counts.push_back(frontiers_[chunk].countsOf(point, stage_.chunks[chunk]));
        choice.seconds.push_back(frontiers_[chunk][point].seconds);
      }
      out_.add(std::move(choice));
    }
    out_.addCount(rows_.count());
  }

  const StageLayers &stage_;
  const Frames frames_;
  const Bounds &bounds_;
  const Limits &limits_;
  UndominatedChoices &out_;
  bool &isCut_;
  std::vector<Frontier> frontiers_;
  RowsOfSeconds rows_;                   // all combinations that fit
  std::vector<int64_t> bytes_;           // memory of each row
  std::vector<int> pointsOfRows_;        // by chunk
  static constexpr size_t kVisited = 16; // partial combinations for each that may be made
  size_t visited_ = 0;
  std::vector<int> points_;
  std::vector<std::vector<int64_t>> least_; // by chunk and moment
};

// Sizes of slots that chunks may share: what one of them can keep. {0} where they share none.
std::set<int64_t> slotSizes(const StageLayers &stage, const Bounds &bounds, Frames frames, int64_t Moment::*shared,
                            int64_t Point::*size, const Limits &limits, bool &isCut) {
  if (std::ranges::all_of(bounds.moments, [&](const Moment &moment) { return moment.*shared == 0; }))
    return {0};
  std::set<int64_t> sizes;
  for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk)
    for (const Frontier all(stage.chunks[chunk], chunk, bounds, frames, limits); int point : all.last())
      sizes.insert(std::max<int64_t>(1, all[point].*size));
  if (sizes.size() <= limits.slotSizes)
    return sizes;
  isCut = true; // the smallest, and others as far apart in number
  std::set<int64_t> some;
  const size_t step = (sizes.size() + limits.slotSizes - 1) / limits.slotSizes;
  for (size_t number = 0; int64_t size : sizes)
    if (number++ % step == 0)
      some.insert(size);
  return some;
}

void addChoices(const StageLayers &stage, Frames frames, int64_t capacity, const std::vector<Moment> &way,
                const Limits &limits, UndominatedChoices &out, bool &isCut) {
  Bounds bounds{way, capacity - stage.bytes - frames.bytes()};
  const auto sizesOf = [&](int64_t Moment::*shared, int64_t Point::*size) {
    const std::set<int64_t> sizes = slotSizes(stage, bounds, frames, shared, size, limits, isCut);
    std::vector<int64_t> ordered(sizes.begin(), sizes.end());
    std::ranges::reverse(ordered); // where much is left out, the slower choices are
    return ordered;
  };
  for (int64_t kept : sizesOf(&Moment::sharedKept, &Point::kept))
    for (int64_t split : sizesOf(&Moment::sharedSplit, &Point::split)) {
      const Bounds sized{way, bounds.room, kept, split};
      if (out.count() > limits.choices)
        out.dropDominated();
      if (out.count() > limits.choices) {
        isCut = true;
        return;
      }
      Combination(stage, frames, sized, limits, out, isCut);
    }
}

} // namespace

std::vector<StageChoice> choicesOf(const StageLayers &stage, int64_t capacity, bool &isCut, const Limits &limits) {
  UndominatedChoices choices(stage.chunks.size());
  std::vector<Frames> bounds = framesOf(stage);
  std::ranges::reverse(bounds); // likewise
  for (Frames frames : bounds)
    for (const std::vector<Moment> &way : stage.ways)
      addChoices(stage, frames, capacity, way, limits, choices, isCut);
  choices.dropDominated();
  return choices.take();
}

std::vector<StageChoice> KnownChoices::of(const StageLayers &stage, int64_t capacity, bool &isCut,
                                          const Limits &limits) {
  constexpr size_t kMostKnown = 64; // stages of two deep pipelines
  auto known = std::ranges::find_if(
      known_, [&](const Known &one) { return one.capacity == capacity && one.limits == limits && one.stage == stage; });
  if (known == known_.end()) {
    Known made{stage, capacity, limits, {}};
    made.choices = choicesOf(stage, capacity, made.isCut, limits);
    known = known_.insert(known_.begin(), std::move(made));
    if (known_.size() > kMostKnown)
      known_.pop_back();
  } else
    known_.splice(known_.begin(), known_, known);
  isCut |= known->isCut;
  return known->choices;
}

// The seconds of a choice.
static std::vector<Seconds> secondsOf(const StageLayers &stage, const StageChoice &choice) {
  std::vector<Seconds> all;
  for (size_t c = 0; c < stage.chunks.size(); ++c) {
    const ChunkLayers &chunk = stage.chunks[c];
    Seconds sum = chunk.seconds;
    for (size_t l = 0; l < chunk.layers.size(); ++l)
      for (size_t o = 0; o < chunk.layers[l].options.size(); ++o)
        for (int64_t n = 0; n < choice.counts[c][l][o]; ++n)
          sum = sum + chunk.layers[l].options[o].seconds;
    all.push_back(sum);
  }
  return all;
}

static StageChoice smallestInNoTime(StageLayers stage) {
  for (ChunkLayers &chunk : stage.chunks)
    for (Layers &layers : chunk.layers)
      for (Option &option : layers.options)
        option.seconds = {};
  bool isCut = false;
  constexpr int64_t kNoBound = int64_t(1) << 62;
  if (std::vector<StageChoice> all = choicesOf(stage, kNoBound, isCut); !isCut)
    return std::move(all.front());
  int64_t low = 0, high = 1;
  while (choicesOf(stage, high, isCut).empty())
    low = high, high *= 2;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (choicesOf(stage, middle, isCut).empty() ? low : high) = middle;
  }
  return choicesOf(stage, high, isCut).front();
}

StageChoice smallest(const StageLayers &stage) {
  StageChoice choice = smallestInNoTime(stage);
  choice.seconds = secondsOf(stage, choice);
  return choice;
}

Selection select(const std::vector<std::vector<StageChoice>> &stages,
                 const std::function<double(const std::vector<std::vector<Seconds>> &)> &stepSeconds,
                 int64_t mostTried) {
  struct Node {
    double bound; // every stage that is not decided takes the least in each of its chunks
    std::vector<size_t> choices;
    bool operator<(const Node &other) const {
      return bound != other.bound ? bound > other.bound : choices.size() < other.choices.size();
    }
  };
  std::vector<std::vector<Seconds>> least;
  for (const std::vector<StageChoice> &choices : stages) {
    least.push_back(choices.front().seconds);
    for (const StageChoice &choice : choices)
      for (size_t chunk = 0; chunk < choice.seconds.size(); ++chunk)
        for (size_t task = 0; task < choice.seconds[chunk].size(); ++task)
          least.back()[chunk][task] = std::min(least.back()[chunk][task], choice.seconds[chunk][task]);
  }
  const auto secondsOf = [&](const std::vector<size_t> &choices) {
    std::vector<std::vector<Seconds>> seconds = least;
    for (size_t stage = 0; stage < choices.size(); ++stage)
      seconds[stage] = stages[stage][choices[stage]].seconds;
    return stepSeconds(seconds);
  };
  Selection best{std::vector<size_t>(stages.size(), 0)};
  best.seconds = secondsOf(best.choices);
  std::priority_queue<Node> open;
  open.push({secondsOf({}), {}});
  for (int64_t tried = 0; !open.empty() && open.top().bound < best.seconds;) {
    const Node node = open.top();
    open.pop();
    if (node.choices.size() == stages.size()) {
      best.choices = node.choices, best.seconds = best.least = node.bound;
      return best;
    }
    for (size_t next = 0; next < stages[node.choices.size()].size(); ++next) {
      std::vector<size_t> choices = node.choices;
      choices.push_back(next);
      if (const double bound = secondsOf(choices); bound < best.seconds)
        open.push({bound, std::move(choices)});
      if (++tried >= mostTried) {
        best.least = std::min(best.seconds, node.bound);
        return best;
      }
    }
  }
  best.least = best.seconds;
  return best;
}

} // namespace mgc::budget
