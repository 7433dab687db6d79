#include "plan/Bundle.h"
#include "plan/Limits.h"
#include "plan/SequenceOrder.h"
#include "plan/prove/VerifyParts.h"

#include <cmath>
#include <set>

namespace mgc::plan {

static bool runsRowKernels(const Plan &plan) {
  for (const Program &program : plan.programs)
    for (const Instruction &instruction : program.instructions)
      if (std::holds_alternative<RowKernel>(instruction.body))
        return true;
  return false;
}

// A library is loaded from the bundle and from nowhere else.
static void verifyKernelFiles(Checks &checks) {
  const std::vector<KernelFile> &files = checks.plan.kernels;
  Place root;
  const Place list = root.field("kernels");
  std::set<KernelLevel> levels;
  for (size_t i = 0; i < files.size(); ++i) {
    const Place place = list.element(i);
    checks.violations.expect(isInBundle(files[i]), place.field("path"),
                             "'{}' must be a path inside the bundle, without ..", files[i].path);
    checks.violations.expect(levels.insert(files[i].level).second, place.field("level"),
                             "{} comes twice, expected one library for each", nameOf(files[i].level));
    const Target target = factsOf(files[i].level).target;
    checks.violations.expect(target == checks.plan.target, place.field("level"),
                             "{} is of target {}, the plan is for {}", nameOf(files[i].level), nameOf(target),
                             nameOf(checks.plan.target));
  }
  checks.violations.expect(!files.empty() || !runsRowKernels(checks.plan), list,
                           "is empty, but programs run row kernels");
}

static void verifyTypes(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root;
  checks.violations.expect(isFloat(plan.dtype), root.field("dtype"), "found {}, expected f32 or bf16",
                           nameOf(plan.dtype));
  checks.violations.expect(plan.gradientType == DType::f32 || plan.gradientType == plan.dtype,
                           root.field("gradientType"), "found {}, expected f32 or what dtype says, {}",
                           nameOf(plan.gradientType), nameOf(plan.dtype));
}

// Data have token types exactly where the plan reads them.
static void verifyTokenTypes(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root;
  const bool areRead = reads(plan, isTokenType);
  checks.violations.expect(areRead ? plan.tokenTypes > 0 : plan.tokenTypes == 0, root.field("tokenTypes"),
                           "found {}, expected {}", plan.tokenTypes,
                           areRead ? "a positive number, for a stage reads token types"
                                   : "0, for no stage reads token types");
}

// Data have a sequence of the encoder exactly where the plan reads it.
static void verifyEncoder(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root;
  const bool isRead = std::ranges::any_of(
      plan.stages, [](const StagePlan &stage) { return std::ranges::any_of(stage.inputs, &Input::ofEncoder); });
  const bool fits = isRead ? plan.encoderLength > 0 : plan.encoderLength == 0;
  if (checks.violations.expect(fits, root.field("encoderLength"), "found {}, expected {}", plan.encoderLength,
                               isRead ? "a positive number, for a stage reads the encoder's sequence"
                                      : "0, for no stage reads an encoder's sequence")) {
    const Checked tokens = checkedMultiply(plan.globalBatchSize, plan.encoderLength);
    checks.violations.expect(tokens && *tokens <= kMaxStepTokens, root.field("encoderLength"),
                             "{} samples of {} tokens are more than 2^40 tokens per step", plan.globalBatchSize,
                             plan.encoderLength);
    checks.violations.expect(!isRead || plan.zigzag == 1, root.field("zigzag"),
                             "found {}, expected 1 of a plan with an encoder", plan.zigzag);
  }
  for (const auto &[name, token] :
       {std::pair("startToken", plan.startToken), std::pair("paddingToken", plan.paddingToken)}) {
    checks.violations.expect(token >= -1 && token < plan.vocabulary, root.field(name),
                             "found {}, expected a token of the vocabulary of {}, or -1", token, plan.vocabulary);
    checks.violations.expect(isRead || token == -1, root.field(name), "found {}, expected -1 without an encoder",
                             token);
  }
}

// Data have images exactly where the plan reads them; all their positions are among the encoder's, and the decoder's sequence
// has room for what it has of one.
static void verifyImages(Checks &checks) {
  constexpr int64_t kMostOfAnEdge = 1 << 20;
  const Plan &plan = checks.plan;
  const Images &images = plan.images;
  Place root;
  const Place place = root.field("images");
  const bool areRead = std::ranges::any_of(plan.stages, [](const StagePlan &stage) {
    return std::ranges::any_of(stage.inputs, [](const Input &input) {
      return input.kind == Input::Kind::patches || input.kind == Input::Kind::imagePlaces;
    });
  });
  if (!areRead) {
    checks.violations.expect(images == Images(), place, "found images, expected none: no stage reads them");
    return;
  }
  bool areSizes = true;
  for (const auto &[name, size] : {std::pair("channels", images.channels),
                                   {"patchSize", images.patchSize},
                                   {"rows", images.rows},
                                   {"columns", images.columns}})
    areSizes &= checks.violations.expect(size >= 1 && size <= kMostOfAnEdge, place.field(name),
                                         "found {}, expected 1 to {}", size, kMostOfAnEdge);
  areSizes &= checks.violations.expect(images.classTokens == 0 || images.classTokens == 1, place.field("classTokens"),
                                       "found {}, expected 0 or 1", images.classTokens);
  checks.violations.expect(images.token >= 0 && images.token < plan.vocabulary, place.field("token"),
                           "found {}, expected a token of the vocabulary of {}", images.token, plan.vocabulary);
  if (!areSizes)
    return;
  const Checked pixels = checkedProduct(
      {plan.globalBatchSize, images.channels, images.rows, images.patchSize, images.columns, images.patchSize});
  checks.violations.expect(pixels && *pixels <= kMaxStepTokens, place, "the pixels of {} images are more than 2^40",
                           plan.globalBatchSize);
  checks.violations.expect(images.positions() <= plan.encoderLength, place,
                           "{} positions of an image, expected no more than encoderLength = {}", images.positions(),
                           plan.encoderLength);
  if (checks.violations.expect(images.firstFeature >= 0 && images.firstFeature < images.positions(),
                               place.field("firstFeature"), "found {}, expected 0 to {}", images.firstFeature,
                               images.positions() - 1))
    checks.violations.expect(images.features() <= plan.sequenceLength, place,
                             "an image takes the places of {} tokens, expected no more than sequenceLength = {}",
                             images.features(), plan.sequenceLength);
}

static void verifyBudget(Checks &checks) {
  constexpr double kMost = 1e18; // sums of some are bytes, too
  const PlanBudget &budget = checks.plan.budget;
  Place root;
  const Place place = root.field("budget"), policies = place.field("policies"), curve = place.field("curve");
  const auto areNumbers = [&](std::initializer_list<double> numbers) {
    return std::ranges::all_of(numbers, [&](double number) { return number >= 0 && number <= kMost; });
  };
  checks.violations.expect(areNumbers({double(budget.bytes), budget.seconds, budget.leastSeconds}), place,
                           "bytes {}, seconds {} and leastSeconds {}, expected numbers from 0 to {}", budget.bytes,
                           budget.seconds, budget.leastSeconds, kMost);
  checks.violations.expect((budget.bytes > 0) == !budget.curve.empty(), curve, "{} points, expected {}",
                           budget.curve.size(),
                           budget.bytes > 0 ? "some: there are bytes" : "none: there are no bytes");
  for (size_t i = 0; i < budget.policies.size(); ++i)
    if (const PlanBudget::Policy &policy = budget.policies[i];
        !areNumbers({double(policy.kept), double(policy.split), double(policy.frame), policy.seconds}))
      checks.violations.add(policies.element(i), "bytes {}, {}, {} and seconds {}, expected numbers from 0 to {}",
                            policy.kept, policy.split, policy.frame, policy.seconds, kMost);
  for (size_t i = 0; i < budget.curve.size(); ++i)
    if (const PlanBudget::Point &point = budget.curve[i];
        !areNumbers({double(point.bytes), point.seconds}) || point.seconds == 0 ||
        (i > 0 && (point.bytes <= budget.curve[i - 1].bytes || point.seconds >= budget.curve[i - 1].seconds)))
      checks.violations.add(curve.element(i),
                            "{} bytes, {} seconds, expected more bytes and fewer seconds than before, and some seconds",
                            point.bytes, point.seconds);
}

static void verifyFit(Checks &checks) {
  constexpr int64_t kMost = int64_t(1) << 60;
  const PlanFit &fit = checks.plan.fit;
  Place root;
  const Place place = root.field("fit"), changes = place.field("changes");
  const auto isSize = [](int64_t bytes) { return bytes >= 0 && bytes <= kMost; };
  checks.violations.expect(isSize(fit.deviceBytes) && isSize(fit.hostBytes), place,
                           "{} bytes of the device and {} of the host, expected 0 to {}", fit.deviceBytes,
                           fit.hostBytes, kMost);
  for (size_t i = 0; i < fit.changes.size(); ++i)
    if (const PlanFit::Change &change = fit.changes[i];
        !isSize(change.ranks) || !isSize(change.bytes) || !(change.seconds >= 0 && std::isfinite(change.seconds)))
      checks.violations.add(changes.element(i), "{} ranks, {} bytes, {} seconds, expected numbers from 0 on",
                            change.ranks, change.bytes, change.seconds);
}

void verifyNumbers(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root;
  auto positive = [&](std::string_view name, int64_t value) {
    checks.violations.expect(value > 0, root.field(name), "found {}, expected a positive number", value);
  };
  positive("sequenceLength", plan.sequenceLength);
  positive("zigzag", plan.zigzag);
  checks.violations.expect(plan.longestDocument >= 0, root.field("longestDocument"), "{} is negative",
                           plan.longestDocument);
  positive("microBatchSize", plan.microBatchSize);
  positive("globalBatchSize", plan.globalBatchSize);
  positive("microbatches", plan.microbatches);
  positive("vocabulary", plan.vocabulary);
  positive("virtualStages", plan.virtualStages);
  checks.violations.expect(plan.placement == ChunkPlacement::loop || (plan.virtualStages > 1 && plan.stages.size() > 1),
                           root.field("placement"),
                           "v, with {} stages of {} chunks; expected 2 or more of both, or loop", plan.stages.size(),
                           plan.virtualStages);
  checks.violations.expect(plan.zigzag < 1 || isOrder(plan.sequenceLength, plan.zigzag), root.field("zigzag"),
                           "sequenceLength = {} is not 2 * zigzag = 2 * {} chunks", plan.sequenceLength, plan.zigzag);
  Checked tokens = checkedMultiply(plan.globalBatchSize, plan.sequenceLength);
  checks.violations.expect(tokens && *tokens <= kMaxStepTokens, root.field("globalBatchSize"),
                           "{} samples of {} tokens are more than 2^40 tokens per step", plan.globalBatchSize,
                           plan.sequenceLength);
  checks.violations.expect(plan.zero >= 0 && plan.zero <= 3, root.field("zero"), "found {}, expected 0 to 3",
                           plan.zero);
  verifyTokenTypes(checks);
  verifyEncoder(checks);
  verifyImages(checks);
  verifyTypes(checks);
  verifyBudget(checks);
  verifyFit(checks);
  verifyKernelFiles(checks);
}

} // namespace mgc::plan
