// See Search.h.
#include "planner/search/Search.h"

#include <algorithm>
#include <list>
#include <queue>

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

// What is known of a shape once its blocks were compiled, of all layers of the model.
struct ShapeSummary {
  std::string refusal;              // empty: there are blocks
  double forward = 0, backward = 0; // seconds of a microbatch
  double leastForward = 0, leastBackward = 0; // of a layer
  int64_t layers = 0;
  double elements = 0, kept = 0; // parameters; bytes of a microbatch
  bool isKnown = false;
};

struct Candidate {
  Picks picks;
  int64_t shape = 0;
  int64_t pp = 1, vpp = 1, microbatches = 1, shards = 1, level = 0;
  bool isV = false, splits = false;
};

// Compiled shapes, of which the last that were asked for are kept.
class ShapeStore {
public:
  ShapeStore(const SearchRequest &request, SearchCounts &counts) : request_(request), counts_(counts) {}

  Result<const ShapeBlocks *> get(int64_t shape, const LayoutOptions &options) {
    const auto found = std::ranges::find(kept_, shape, &Kept::shape);
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().blocks.get();
    }
    ++counts_.compiled;
    auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    context->loadDialect<MgDialect, mlir::func::FuncDialect>();
    MGC_ASSIGN(blocks, ShapeBlocks::compile(*context, options, request_.make, request_.machine));
    kept_.push_front({shape, std::move(context), std::move(blocks)});
    if (kept_.size() > kMostKept)
      kept_.pop_back();
    return kept_.front().blocks.get();
  }

private:
  static constexpr size_t kMostKept = 24;
  struct Kept {
    int64_t shape = 0;
    std::unique_ptr<mlir::MLIRContext> context;
    std::unique_ptr<ShapeBlocks> blocks;
  };
  const SearchRequest &request_;
  SearchCounts &counts_;
  std::list<Kept> kept_;
};

ShapeSummary summaryOf(const ShapeBlocks &shape) {
  ShapeSummary out;
  out.isKnown = true;
  out.leastForward = out.leastBackward = std::numeric_limits<double>::infinity();
  const auto secondsOf = [&](const ModelBlock &block) {
    return std::pair(shape.timeOf(block.forward).seconds(), shape.timeOf(block.backward).seconds() +
                                                                shape.timeOf(block.input).seconds() +
                                                                shape.timeOf(block.weight).seconds());
  };
  for (const Instance &instance : shape.chain()) {
    const ModelBlock &block = *instance.block;
    auto [forward, backward] = secondsOf(block);
    for (const ModelBlock *variant : shape.blocks().variantsOf(block)) {
      const auto [first, second] = secondsOf(*variant);
      forward = std::min(forward, first), backward = std::min(backward, second);
    }
    out.forward += forward, out.backward += backward;
    if (!block.stack.empty()) {
      ++out.layers;
      out.leastForward = std::min(out.leastForward, forward), out.leastBackward = std::min(out.leastBackward, backward);
    }
    const BlockWork &work = shape.works().at(block.name);
    out.kept += work.kept;
    for (const BlockParameter &parameter : work.parameters)
      out.elements += double(parameter.elements);
  }
  return out;
}

class Searcher {
public:
  explicit Searcher(const SearchRequest &request)
      : request_(request), space_(request.space, request.given), store_(request, found_.counts) {}

  Found run() {
    enumerate();
    found_.counts.shapes = std::ssize(firstOf_);
    summaries_.resize(firstOf_.size());
    for (size_t shape = 0; shape < firstOf_.size(); ++shape)
      summarize(shape);
    order();
    evaluate();
    return std::move(found_);
  }

private:
  void enumerate() {
    space_.forEach([&](const LayoutOptions &options, const Picks &picks) {
      ++found_.counts.enumerated;
      Candidate candidate{picks};
      const int64_t dp = *options.dp;
      candidate.pp = options.pp.value_or(1), candidate.vpp = options.vpp.value_or(1);
      const int64_t samples = dp * options.mbs.value_or(1);
      candidate.microbatches = request_.space.globalBatchSize / samples;
      candidate.shards = dp * options.cp.value_or(1);
      candidate.level = options.zero.value_or(0);
      if (const auto row = std::ranges::find(request_.space.supported.schedules, options.schedule.value_or(""),
                                             &frontend::ScheduleInfo::name);
          row != request_.space.supported.schedules.end())
        candidate.isV = row->chunksInV, candidate.splits = row->splitBackward;
      candidate.shape = shapeOf(options, candidate);
      candidates_.push_back(std::move(candidate));
    });
  }

  // Layouts that may have the same blocks: they differ in stages, levels, and in how many data ranks there are.
  int64_t shapeOf(const LayoutOptions &options, const Candidate &candidate) {
    const int64_t tp = options.tp.value_or(1), cp = options.cp.value_or(1), ep = options.ep.value_or(1),
                  etp = options.etp.value_or(tp), dp = *options.dp;
    const std::array<int64_t, 8> key = {tp,     cp, ep, etp, options.mbs.value_or(1), candidate.splits,
                                        dp > 1, ep * etp == 0 ? 0 : (tp * cp * dp) / (ep * etp) > 1};
    const auto [known, isNew] = shapes_.try_emplace(key, std::ssize(firstOf_));
    if (isNew)
      firstOf_.push_back(std::ssize(candidates_));
    return known->second;
  }

  void summarize(size_t shape) {
    ShapeSummary &summary = summaries_[shape];
    constexpr int kAttempts = 4; // layouts of a shape that are refused before it is
    int attempts = 0;
    for (size_t i = size_t(firstOf_[shape]); i < candidates_.size() && attempts < kAttempts; ++i) {
      if (candidates_[i].shape != int64_t(shape))
        continue;
      ++attempts;
      const Result<const ShapeBlocks *> blocks = store_.get(int64_t(shape), space_.optionsOf(candidates_[i].picks));
      if (blocks.isOk()) {
        summary = summaryOf(**blocks);
        return;
      }
      summary.refusal = blocks.status().message();
    }
  }

  // --- Bounds

  double leastSeconds(const Candidate &candidate) const {
    const ShapeSummary &shape = summaries_[size_t(candidate.shape)];
    const double work = double(candidate.microbatches) * (shape.forward + shape.backward) / double(candidate.pp);
    if (candidate.isV || candidate.pp == 1)
      return work;
    // The stage s waits for the forward of s chunks, and after its last backward s chunks have theirs; on average over the stages.
    const double chunk = std::max(0.0, double(shape.layers / (candidate.pp * candidate.vpp)) - 1);
    const double passes = shape.leastForward + (candidate.splits ? 0 : shape.leastBackward);
    return work + 0.5 * double(candidate.pp - 1) * chunk * passes;
  }

  double leastBytes(const Candidate &candidate) const {
    const ShapeSummary &shape = summaries_[size_t(candidate.shape)];
    const double own = shape.elements / double(candidate.pp), slice = own / double(candidate.shards);
    constexpr double kValues = 2, kGradients = 2, kStates = 4; // bytes of an element, at the least
    return (candidate.level > 2 ? slice : own) * kValues + (candidate.level > 1 ? slice : own) * kGradients +
           (candidate.level > 0 ? slice : own) * kStates;
  }

  void order() {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate &candidate = candidates_[i];
      if (!summaries_[size_t(candidate.shape)].isKnown)
        ++found_.counts.refused, found_.refusal = summaries_[size_t(candidate.shape)].refusal;
      else if (leastBytes(candidate) > double(request_.memory))
        ++found_.counts.tooLarge;
      else
        queue_.emplace_back(leastSeconds(candidate), i);
    }
    std::ranges::sort(queue_);
  }

  // --- Estimates

  double worstWanted() const {
    return found_.answers.size() < request_.wanted ? std::numeric_limits<double>::infinity()
                                                   : found_.answers.back().estimate.seconds;
  }

  void evaluate() {
    for (size_t next = 0; next < queue_.size(); ++next) {
      if (queue_[next].first > worstWanted()) {
        found_.counts.tooSlow += std::ssize(queue_) - int64_t(next);
        return;
      }
      evaluate(candidates_[queue_[next].second]);
    }
  }

  void evaluate(const Candidate &candidate) {
    const LayoutOptions options = space_.optionsOf(candidate.picks);
    Result<Layout> layout = request_.resolve(options);
    if (!layout.isOk())
      return refuse(layout.status());
    const Result<const ShapeBlocks *> shape = store_.get(candidate.shape, options);
    if (!shape.isOk())
      return refuse(shape.status());
    Result<Estimate> made = estimate(**shape, *layout, request_.machine, schedules_);
    if (!made.isOk())
      return refuse(made.status());
    ++found_.counts.estimated;
    Answer answer{options, layout.take(), made.take()};
    if (answer.estimate.bytes() > request_.memory || answer.estimate.hostBytes() > request_.hostMemory) {
      ++found_.counts.unfit;
      if (!found_.smallest || answer.estimate.bytes() < found_.smallest->estimate.bytes())
        found_.smallest = std::move(answer);
      return;
    }
    const auto isBefore = [](const Answer &a, const Answer &b) {
      return std::pair(a.estimate.seconds, a.estimate.bytes()) < std::pair(b.estimate.seconds, b.estimate.bytes());
    };
    const auto place = std::ranges::upper_bound(found_.answers, answer, isBefore);
    found_.answers.insert(place, std::move(answer));
    if (found_.answers.size() > request_.wanted)
      found_.answers.pop_back();
  }

  void refuse(const Status &status) {
    ++found_.counts.refused;
    found_.refusal = status.message();
  }

  const SearchRequest &request_;
  SpaceOfLayouts space_;
  Found found_;
  ShapeStore store_;
  schedule::SolutionCache schedules_;
  std::vector<Candidate> candidates_;
  std::map<std::array<int64_t, 8>, int64_t> shapes_;
  std::vector<int64_t> firstOf_; // by shape: its first candidate
  std::vector<ShapeSummary> summaries_;
  std::vector<std::pair<double, size_t>> queue_;
};

} // namespace

Found search(const SearchRequest &request) { return Searcher(request).run(); }

} // namespace mgc::planner
