// See Evaluation.h.
#include "runtime/train/Evaluation.h"

#include "plan/Expand.h"
#include "plan/json/PlanJson.h"
#include "runtime/train/EvaluationProgress.h"
#include "runtime/train/RunPlans.h"

#include <algorithm>
#include <cmath>

namespace mgc {

namespace {

// The first difference between what the plans are of; empty: there is none.
std::string differenceOf(const plan::Plan &training, const plan::Plan &evaluation) {
  for (const auto &[what, found, expected] :
       {std::tuple("the sequence length", evaluation.sequenceLength, training.sequenceLength),
        std::tuple("the micro-batch size", evaluation.microBatchSize, training.microBatchSize),
        std::tuple("the global batch size", evaluation.globalBatchSize, training.globalBatchSize),
        std::tuple("the vocabulary", evaluation.vocabulary, training.vocabulary)})
    if (found != expected)
      return fmt::format("{} is {}, expected {}", what, found, expected);
  if (evaluation.target != training.target)
    return fmt::format("it is for {}, expected {}", plan::nameOf(evaluation.target), plan::nameOf(training.target));
  if (evaluation.objective != training.objective)
    return "it has another objective";
  const auto isKept = [&](const plan::Parameter &parameter) {
    return isFrozen(evaluation, parameter) || isCounter(evaluation, parameter);
  };
  if (const auto other = std::ranges::find_if_not(evaluation.parameters, isKept); other != evaluation.parameters.end())
    return fmt::format("it trains parameter {}, expected one that trains none", other->name);
  const Result<WeightCopier> copier = WeightCopier::between(training, evaluation);
  return copier.isOk() ? "" : copier.status().message();
}

} // namespace

double EvaluationResult::perplexity() const { return std::exp(std::min(loss, 20.0)); }

Result<plan::Plan> readEvaluationPlan(const std::string &folder, const plan::Plan &training) {
  const std::string path = folder + "/" + plan::kEvaluationFolder;
  if (std::error_code ignored; !std::filesystem::exists(path + "/" + plan::kPlanFile, ignored))
    return errorf("--eval-interval: {} has no plan that evaluates; expected one compiled with --evaluation", folder);
  MGC_ASSIGN(plan, readProvedPlan(path));
  plan.parameters = plan::expandedParameters(plan);
  if (const std::string difference = differenceOf(training, plan); !difference.empty())
    return errorf("{}: does not evaluate what {} trains: {}; compile it again with --evaluation", path, folder,
                  difference);
  return plan;
}

Result<std::unique_ptr<Evaluation>> Evaluation::open(const TrainingOptions &options, const TrainingStart &start,
                                                     const Engine &trained, plan::Plan plan,
                                                     const EngineOptions &engineOptions, const DataReading &reading) {
  const std::string bundle = options.plan + "/" + plan::kEvaluationFolder;
  MGC_ASSIGN(engine, Engine::create(std::move(plan), bundle, engineOptions));
  MGC_ASSIGN(copier, WeightCopier::between(trained.plan(), engine->plan()));
  std::unique_ptr<Evaluation> evaluation(new Evaluation(options, std::move(copier), std::move(engine)));
  for (const auto &[split, times] :
       {std::pair(Split::valid, options.evaluations()), std::pair(Split::test, int64_t(1))}) {
    const plan::Plan &evaluated = evaluation->engine_->plan();
    const int64_t batches = times * options.evalIters, size = evaluated.globalBatchSize;
    MGC_ASSIGN(data,
               StepData::open(options, start, evaluated, {split, batches, batches * size, {0, 0, size}, reading}));
    evaluation->data_[size_t(split)] = std::move(data);
  }
  if (evaluation->has(Split::valid))
    return evaluation;
  return errorf("--eval-interval: there is nothing to evaluate on; expected {}",
                options.data ? "--valid-data" : "a second part of --split, or --valid-data-path");
}

std::string Evaluation::describe() const {
  const DataSource &data = data_[size_t(Split::valid)]->source();
  const int64_t size = engine_->plan().globalBatchSize;
  std::string text = fmt::format("{}: {}; --eval-iters {}", nameOf(Split::valid), data.summary(), options_.evalIters);
  if (const std::optional<double> epochs = data.epochsOf(options_.evalIters * size))
    text += fmt::format(" of {} samples are {:.2f} epochs, --eval-iters {:.0f} is one", size, *epochs,
                        std::ceil(double(options_.evalIters) / *epochs - 1e-6));
  return text;
}

// Each evaluation has its own batches, those that Megatron-LM has; a run that goes on from a checkpoint too.
int64_t Evaluation::firstBatch(Split split, int64_t stepsDone) const {
  return split == Split::valid ? std::max<int64_t>(stepsDone - 1, 0) / options_.evalInterval * options_.evalIters : 0;
}

Status Evaluation::copyWeights(Engine &trained) {
  MGC_TRY(trained.download(Part::weights));
  engine_->onRanks([&](int64_t rank) { copier_.copy(rank, trained.arenas()[rank], engine_->arenas()[rank]); });
  return engine_->upload(Part::weights);
}

Result<Evaluation::Outcome> Evaluation::run(Engine &trained, Split split, int64_t stepsDone,
                                            const Interrupt &interrupt) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  MGC_TRY(copyWeights(trained));
  StepData &data = *data_[size_t(split)];
  const int64_t first = firstBatch(split, stepsDone), end = first + options_.evalIters;
  engine_->readAhead([&](int64_t step) -> const GlobalBatch * {
    const Result<const GlobalBatch *> batch = step < end ? data.batchOf(step) : nullptr;
    return batch.isOk() ? *batch : nullptr;
  });
  Outcome outcome;
  outcome.result.step = stepsDone - 1;
  outcome.result.what = nameOf(split);
  double sum = 0;
  for (int64_t i = first; i < end; ++i) {
    const Result<const GlobalBatch *> batch = data.batchOf(i);
    outcome.failure = Status(batch.status()).at(fmt::format("{} after {} steps", nameOf(split), stepsDone));
    MGC_ASSIGN(anyEnds, engine_->greatest(!batch.isOk() || interrupt.isRequested()));
    if (anyEnds)
      return outcome;
    ++outcome.result.batches;
    if (!*batch) // no label of it counts: it adds nothing
      continue;
    MGC_ASSIGN(result, engine_->step(i, **batch, StepScalars{}));
    sum += result.crossEntropy * result.tokens;
    outcome.result.tokens += result.tokens;
  }
  outcome.result.loss = sum / outcome.result.tokens;
  outcome.result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  outcome.isComplete = true;
  return outcome;
}

} // namespace mgc
