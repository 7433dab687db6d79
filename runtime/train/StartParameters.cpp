// See StartParameters.h.
#include "runtime/train/StartParameters.h"

#include "runtime/base/InParallel.h"
#include "runtime/checkpoint/LoadState.h"
#include "runtime/checkpoint/WeightDigests.h"
#include "runtime/checkpoint/Weights.h"

#include <algorithm>

namespace mgc {

namespace {

class StartLoader {
public:
  StartLoader(const TrainingOptions &options, const TrainingStart &start, Engine &engine, const Processes *processes,
              TrainingObserver &observer)
      : options_(options), start_(start), engine_(engine), processes_(processes), observer_(observer),
        fill_{[&engine](const auto &work) { engine.onRanks(work); }, engine.threadsPerRank(), engine.arenasAreZero()} {}
  Status load() { return start_.checkpoint ? loadCheckpoint() : start_.weights ? loadWeightsOfStart() : draw(); }

private:
  Status draw();
  Status loadWeightsOfStart();
  Status loadCheckpoint();
  Status verifyFiles(const StateReader &checkpoint) const;
  Status verifyCopies(const std::string &what) const;
  void noteFrozen() const;

  const TrainingOptions &options_;
  const TrainingStart &start_;
  Engine &engine_;
  const Processes *const processes_;
  TrainingObserver &observer_;
  const FillOptions fill_;
};

// Nobody wants to keep values that were drawn.
void StartLoader::noteFrozen() const {
  const plan::Plan &plan = engine_.plan();
  const auto frozen = std::ranges::count_if(
      plan.parameters, [&](const plan::Parameter &parameter) { return isFrozen(plan, parameter); });
  if (frozen > 0)
    observer_.noted(fmt::format("without --load the {} frozen parameters of the plan keep what --seed {} draws", frozen,
                                options_.seed));
}

Status StartLoader::draw() {
  noteFrozen();
  MGC_TRY(initWeights(engine_.plan(), options_.seed, engine_.arenas(), fill_));
  return engine_.upload(Part::weights);
}

Status StartLoader::loadWeightsOfStart() {
  MGC_ASSIGN(checkpoint, Checkpoint::open(*start_.weights));
  MGC_TRY(loadWeights(engine_.plan(), checkpoint, engine_.arenas(), {options_.ignoreExtraWeights}, fill_));
  if (const std::vector<std::string> ignored = ignoredTensors(engine_.plan(), checkpoint); !ignored.empty())
    observer_.noted(fmt::format("--load {}: the plan has no place for {} of its tensors, such as {}; weights that are "
                                "saved lack them",
                                *start_.weights, ignored.size(), ignored.front()));
  MGC_TRY(verifyCopies(*start_.weights));
  return engine_.upload(Part::weights);
}

Status StartLoader::loadCheckpoint() {
  const StatePart part = start_.continues ? StatePart::all : StatePart::weights;
  MGC_ASSIGN(checkpoint, StateReader::open(*start_.checkpoint, start_.record).at("--load"));
  MGC_TRY(verifyStateFits(engine_.plan(), checkpoint, part).at("--load"));
  MGC_TRY(verifyFiles(checkpoint).at("--load"));
  MGC_TRY(loadState(engine_.plan(), checkpoint, engine_.arenas(), part, fill_));
  MGC_TRY(verifyCopies(*start_.checkpoint));
  return engine_.upload(start_.continues ? Part::state : Part::weights);
}

// Each file is read by one process.
Status StartLoader::verifyFiles(const StateReader &checkpoint) const {
  std::vector<Status> results(checkpoint.fileCount());
  const int64_t parts = options_.launch.size, own = options_.launch.rank;
  forEachInParallel(std::ssize(results), [&](int64_t file) {
    if (file % parts == own)
      results[file] = checkpoint.verifyFile(size_t(file));
  });
  for (Status &result : results)
    MGC_TRY(std::move(result));
  return Status::ok();
}

Status StartLoader::verifyCopies(const std::string &what) const {
  if (!processes_)
    return Status::ok();
  RankMemory memory(engine_.arenas(), engine_.hosts());
  return verifyDigests(engine_.plan(), memory, engine_.arenas(),
                       "expected finite weights, and the same checkpoint for all processes")
      .at(start_.by + " " + what);
}

} // namespace

Status loadParameters(const TrainingOptions &options, const TrainingStart &start, Engine &engine,
                      const Processes *processes, TrainingObserver &observer) {
  return StartLoader(options, start, engine, processes, observer).load();
}

std::string whyNotFinite(const TrainingStart &start, const plan::Plan &plan, int64_t step) {
  if (start.weights)
    if (const Result<Checkpoint> checkpoint = Checkpoint::open(*start.weights); checkpoint.isOk())
      if (const Status finite = verifyFinite(plan, *checkpoint); !finite.isOk())
        return "--load " + finite.message();
  if (step == start.step())
    return "nothing is updated yet: the weights that it began with are too large for this model, or its data";
  return "a smaller --lr, more --lr-warmup-iters or a smaller --clip-grad may help";
}

} // namespace mgc
