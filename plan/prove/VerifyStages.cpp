// The allocation of a stage, the inputs the runtime writes into it, and the chunks whose calls bind programs to it.
#include "plan/Expand.h"
#include "plan/StepScalars.h"
#include "plan/prove/VerifyParts.h"

#include <array>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace mgc::plan {

static constexpr auto kRegionKinds =
    std::to_array<std::string_view>({"parameters", "gradients", "optimizer", "activations", "gathered", "units",
                                     kTransient, kStaging, "frame", "inputs", "scalars"});
static constexpr auto kHostRegionKinds = std::to_array<std::string_view>({kHostActivations, kHostOptimizer});

// Regions in order of offset leave no gap and no overlap; each is in one arena.
static void verifyRegions(Checks &checks, const StagePlan &stage, const Place &stagePlace) {
  Place regions = stagePlace.field("regions");
  std::vector<size_t> order;
  for (size_t i = 0; i < stage.regions.size(); ++i) {
    const auto &[kind, offset, bytes] = stage.regions[i];
    Place place = regions.element(i);
    const bool isOfHost = std::ranges::find(kHostRegionKinds, kind) != kHostRegionKinds.end();
    checks.violations.expect(isOfHost || std::ranges::find(kRegionKinds, kind) != kRegionKinds.end(), place,
                             "kind '{}' is none of {} {}", kind, fmt::join(kRegionKinds, " "),
                             fmt::join(kHostRegionKinds, " "));
    checks.violations.expect(offset % kAlignment == 0, place, "offset {} is not a multiple of {}", offset, kAlignment);
    const int64_t begin = isOfHost ? stage.bytes : 0, end = isOfHost ? stage.addresses() : stage.bytes;
    if (checks.violations.expect(offset >= begin && fitsInside(offset, bytes, end), place,
                                 "{} bytes from {} on are not inside the {} of {} bytes{}", bytes, offset,
                                 isOfHost ? "host's allocation" : "allocation", end - begin,
                                 isOfHost ? fmt::format(" from {} on", begin) : ""))
      order.push_back(i);
  }
  if (order.size() != stage.regions.size())
    return;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(stage.regions[i].offset, stage.regions[i].bytes); });
  int64_t covered = 0;
  for (size_t i : order) {
    const auto &[kind, offset, bytes] = stage.regions[i];
    checks.violations.expect(offset == covered, regions.element(i), "begins at {}, but the regions before it end at {}",
                             offset, covered);
    covered = std::max(covered, offset + bytes);
  }
  checks.violations.expect(covered == stage.addresses(), regions, "end at {}, but the allocation has {} bytes{}",
                           covered, stage.bytes,
                           stage.hostBytes > 0 ? fmt::format(" and the host's {}", stage.hostBytes) : "");
  checks.violations.expect(stage.leastBytes >= 0 && stage.leastBytes <= stage.bytes, stagePlace.field("leastBytes"),
                           "{} is not in [0, {}], the bytes of the allocation", stage.leastBytes, stage.bytes);
}

// Adds what is sound to `written`.
static void verifyScalars(Checks &checks, const StagePlan &stage, const Place &place, std::vector<Interval> &written) {
  int64_t width = sizeInBytes(DType::f32);
  int64_t stepBytes = static_cast<int64_t>(kStepScalars.size()) * width;
  int64_t resultBytes = static_cast<int64_t>(kResults.size()) * width;
  auto verify = [&](std::string_view name, int64_t offset, int64_t bytes, const char *owner) {
    if (checks.violations.expect(offset % width == 0 && fitsInside(offset, bytes, stage.bytes), place.field(name),
                                 "{} bytes from {} on must be aligned to {} and inside the allocation of {} bytes",
                                 bytes, offset, width, stage.bytes))
      written.push_back({offset, offset + bytes, owner});
    else
      return;
    const auto holds = [&](const Region &region) {
      return region.kind == "scalars" && region.offset <= offset &&
             offset + bytes <= checkedAdd(region.offset, region.bytes).value_or(-1);
    };
    checks.violations.expect(std::ranges::any_of(stage.regions, holds), place.field(name),
                             "{} bytes from {} on lie in no region 'scalars'", bytes, offset);
  };
  verify("stepScalarsOffset", stage.stepScalarsOffset, stepBytes, "stepScalars");
  verify("resultsOffset", stage.resultsOffset, resultBytes, "results");
}

// --- Inputs ------------------------------------------------------------------------------------------------

// Dimensions of the pixels of a patch: channels, rows, columns.
constexpr std::string_view kPixelDims[] = {"n", "o", "u"};
static bool isOfPixels(const Input::Dim &dim) {
  return std::ranges::find(kPixelDims, dim.name) != std::end(kPixelDims);
}

// A dimension b is all samples of a microbatch, s or t a whole sequence.
static Checked verifyInputDim(Checks &checks, const Input::Dim &dim, bool ofEncoder, const Place &place) {
  const Plan &plan = checks.plan;
  if (isOfPixels(dim)) {
    const int64_t expected = dim.name == kPixelDims[0] ? plan.images.channels : plan.images.patchSize;
    checks.violations.expect(dim.size == expected && dim.axes.empty(), place,
                             "{} = {} is not {}, on each rank, of the plan's images", dim.name, dim.size, expected);
  } else if (dim.name == "b")
    checks.violations.expect(checkedMultiply(dim.size, plan.microbatches) == Checked(plan.globalBatchSize), place,
                             "{} microbatches of b = {} are not globalBatchSize = {}", plan.microbatches, dim.size,
                             plan.globalBatchSize);
  else if (checks.violations.expect(dim.name == "s" || dim.name == "t", place, "name '{}' is none of s t b", dim.name))
    checks.violations.expect(
        dim.size == (ofEncoder ? plan.encoderLength : plan.sequenceLength), place, "{} = {} is not {} = {}", dim.name,
        dim.size, ofEncoder ? "encoderLength" : "sequenceLength", ofEncoder ? plan.encoderLength : plan.sequenceLength);
  const Checked local = localSize(checks, place, dim.size, dim.axes);
  if (local && dim.name == "b")
    checks.violations.expect(*local == plan.microBatchSize, place, "b = {} on a rank is not microBatchSize = {}",
                             *local, plan.microBatchSize);
  return local;
}

// The bytes of one microbatch on a rank; nothing after a violation.
static Checked verifyInputDims(Checks &checks, const Input &input, const Place &place) {
  Checked bytes = sizeInBytes(input.type);
  Axes axes;
  std::set<bool> roles; // samples or positions
  Place dims = place.field("dims");
  const bool hasPixels = input.kind == Input::Kind::patches;
  const size_t pixels = hasPixels ? std::min(std::size(kPixelDims), input.dims.size()) : 0;
  const size_t outer = input.dims.size() - pixels;
  for (size_t i = outer; i < input.dims.size(); ++i)
    checks.violations.expect(input.dims[i].name == kPixelDims[i - outer], dims.element(i),
                             "'{}' of the pixels of a patch, expected n, o and u behind the others",
                             input.dims[i].name);
  checks.violations.expect(!hasPixels || outer == 2, dims, "{} dimensions of patches, expected s, b, n, o and u",
                           input.dims.size());
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const Input::Dim &dim = input.dims[i];
    Place here = dims.element(i);
    if (i < outer)
      checks.violations.expect(roles.insert(dim.name == "b").second && !isOfPixels(dim), here,
                               "an input has at most one dimension b and one of s and t");
    bytes = checkedMultiply(bytes, verifyInputDim(checks, dim, input.ofEncoder, here));
    axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  }
  return verifyAxesAt(checks, dims, axes) ? bytes : std::nullopt;
}

// A label that attention sees, or one of another token than the objective's, would be learned without an error.
static void verifyObjective(Checks &checks, const Input &input, const Place &place) {
  const bool isMasked = checks.plan.objective == Objective::masked;
  checks.violations.expect(!isMasked || input.shift == 0, place.field("shift"),
                           "{} positions later; expected 0: with the objective masked a label is that of the "
                           "token itself",
                           input.shift);
  checks.violations.expect(isMasked || input.ofEncoder || !isEnd(input.kind), place.field("kind"),
                           "{}: attention up to the end of a document sees the token that the objective causal "
                           "predicts; expected the objective masked",
                           nameOf(input.kind));
}

// Labels are of the decoder's tokens, and so is what goes with them.
static void verifySequence(Checks &checks, const Input &input, const Place &place) {
  checks.violations.expect(
      !input.ofEncoder || (isOfEither(input.kind) && input.shift == 0), place.field("ofEncoder"),
      "{}{}: the encoder's sequence has tokens, positions, ends, patches and places of images, none of them shifted",
      nameOf(input.kind), input.shift == 0 ? "" : fmt::format(", {} later", input.shift));
  checks.violations.expect(input.ofEncoder || !isOfEncoderAlone(input.kind), place.field("ofEncoder"),
                           "{} of the decoder's sequence; expected the encoder's", nameOf(input.kind));
  checks.violations.expect(input.kind != Input::Kind::encoderEnds || checks.plan.encoderLength > 0, place.field("kind"),
                           "encoderEnds in a plan without an encoder");
  const bool isOfTokens =
      input.kind == Input::Kind::encoderEnds || (input.ofEncoder && input.kind == Input::Kind::tokens);
  checks.violations.expect(!isOfTokens || !readsImages(checks.plan), place.field("kind"),
                           "{}{}: the encoder reads images, which have no tokens", nameOf(input.kind),
                           input.ofEncoder ? " of the encoder" : "");
}

// Its ring has a slot for each microbatch in ascending order, or one for all of them.
static void verifyInput(Checks &checks, const StagePlan &stage, const Input &input, const Place &place) {
  checks.violations.expect(
      input.type == typeOf(input.kind), place,
      "loss weights, loss shares, the tokens of the step and patches are f32, all other inputs i32");
  verifyObjective(checks, input, place);
  verifySequence(checks, input, place);
  const int64_t mostShift = isShiftable(input.kind) ? checks.plan.sequenceLength - 1 : 0;
  checks.violations.expect(input.shift >= 0 && input.shift <= mostShift, place.field("shift"),
                           "{} positions; expected 0 to {}: tokens, labels and loss shares are shifted, within a "
                           "sequence",
                           input.shift, mostShift);
  checks.violations.expect(input.kind != Input::Kind::stepTokens || input.dims.empty(), place.field("dims"),
                           "the tokens of the step are one number, expected no dimensions");
  const Checked bytes = verifyInputDims(checks, input, place);
  if (!checks.violations.expect(inRange(input.ring, stage.rings.size()), place, "ring {} is not one of {}", input.ring,
                                stage.rings.size()) ||
      !bytes)
    return;
  const Ring &ring = stage.rings[input.ring];
  checks.violations.expect(ring.bytes == *bytes, place, "ring '{}' has slots of {} bytes, expected {}", ring.name,
                           ring.bytes, *bytes);
  const int64_t microbatches = checks.plan.microbatches;
  const auto has = [&](int64_t slots) { return ring.turns == std::vector<Ring::Turn>{{0, slots, 0}}; };
  checks.violations.expect(has(microbatches) || (has(1) && isOneForAllMicrobatches(input.kind)), place,
                           "ring '{}' has {} turns and {} slots, expected one turn with a slot for each of {} "
                           "microbatches{}",
                           ring.name, ring.turns.size(), ring.slots(), microbatches,
                           isOneForAllMicrobatches(input.kind) ? ", or one slot" : "");
  checks.violations.expect(ring.peer == -1, place, "ring '{}' travels to or from stage {}, but the runtime writes it",
                           ring.name, ring.peer);
}

// --- Rings -------------------------------------------------------------------------------------------------

static bool verifyTurns(Checks &checks, const Ring &ring, const Place &place) {
  Place turns = place.field("turns");
  const auto period = static_cast<int64_t>(ring.turns.size());
  bool sound = checks.violations.expect(period >= 1 && period <= checks.plan.microbatches, turns,
                                        "{} turns; expected at least one, and no more than the {} microbatches", period,
                                        checks.plan.microbatches);
  for (size_t i = 0; i < ring.turns.size(); ++i) {
    const auto [first, slots, phase] = ring.turns[i];
    sound &= checks.violations.expect(
        first >= 0 && slots >= 1 && phase >= 0 && phase < slots && first <= kMaxRuns && slots <= kMaxRuns,
        turns.element(i), "slots {} from {} on, phase {}: expected at least one slot, at most {}, and a phase below",
        slots, first, phase, kMaxRuns);
  }
  return sound;
}

// The bytes from its first slot to the end of its last; nothing after a violation.
static Checked verifySlots(Checks &checks, const StagePlan &stage, const Ring &ring, const Place &place) {
  Violations &violations = checks.violations;
  if (!violations.expect(ring.bytes >= 0, place, "bytes = {} is negative", ring.bytes) ||
      !verifyTurns(checks, ring, place))
    return std::nullopt;
  const int64_t slots = ring.slots();
  if (!violations.expect(ring.pitch() >= ring.bytes, place, "stride = {} is below the {} bytes of a slot", ring.stride,
                         ring.bytes))
    return std::nullopt;
  const Checked bytes = checkedAdd(checkedMultiply(ring.pitch(), slots - 1), ring.bytes);
  const bool isOnHost = stage.isOnHost(ring.offset);
  const bool isInside = violations.expect(
      fitsInside(ring.offset, bytes, isOnHost ? stage.addresses() : stage.bytes), place,
      "{} slots of {} bytes, {} apart from {} on, are not inside the {} of {} bytes", slots, ring.bytes, ring.stride,
      ring.offset, isOnHost ? "host's allocation" : "allocation", isOnHost ? stage.hostBytes : stage.bytes);
  const int64_t width = leastElementBytes(checks.plan);
  violations.expect(ring.offset % width == 0 && ring.stride % width == 0, place,
                    "offset {} and stride {} must be multiples of {}", ring.offset, ring.stride, width);
  return isInside ? bytes : std::nullopt;
}

static void verifyRing(Checks &checks, int64_t index, const Ring &ring, const Place &place) {
  verifySlots(checks, checks.plan.stages[index], ring, place);
  checks.violations.expect(ring.peer == -1 || (inRange(ring.peer, checks.plan.stages.size()) && ring.peer != index),
                           place, "peer {} is no other stage than {} below {}", ring.peer, index,
                           checks.plan.stages.size());
  checks.violations.expect(ring.peer == -1 || (ring.value >= 0 && ring.bytes > 0), place,
                           "value = {} of {} bytes: what travels has a value of at least 0, and bytes", ring.value,
                           ring.bytes);
}

// --- Chunks ------------------------------------------------------------------------------------------------

namespace {

class CallChecks {
public:
  CallChecks(Checks &checks, int64_t stage, const Chunk &chunk) : checks_(checks), stage_(stage), chunk_(chunk) {}

  // In all iterations of its repeat.
  void verify(const Call &call, int64_t iterations, const Place &place) {
    Violations &violations = checks_.violations;
    const std::vector<Program> &programs = checks_.plan.programs;
    iterations_ = iterations;
    const Checked last = checkedAdd(call.instance, checkedMultiply(call.instanceStride, iterations - 1));
    violations.expect(call.instance >= 0 && last && *last >= 0, place,
                      "instance = {}, or that of the last of {} iterations, is negative", call.instance, iterations);
    if (!violations.expect(inRange(call.program, programs.size()), place, "program {} is not one of {}", call.program,
                           programs.size()))
      return;
    const Program &program = programs[call.program];
    verifyMembership(program, place);
    if (!violations.expect(call.segments.size() == program.segmentBytes.size(), place,
                           "binds {} segments, but program '{}' has {}", call.segments.size(), program.name,
                           program.segmentBytes.size()))
      return;
    Place segments = place.field("segments");
    for (size_t i = 0; i < call.segments.size(); ++i)
      verifyBinding(program, i, call.segments[i], segments.element(i));
  }

private:
  // A collective over stages is run by those stages and by no other.
  void verifyMembership(const Program &program, const Place &place) {
    for (const Instruction &instruction : program.instructions)
      if (const std::optional<RankGroup> group = groupOf(instruction.body); group && !group->stages.empty())
        checks_.violations.expect(std::ranges::find(group->stages, stage_) != group->stages.end(), place,
                                  "stage {} runs '{}', a collective of stages [{}]", stage_, instruction.label,
                                  fmt::join(group->stages, ", "));
  }

  void verifyBinding(const Program &program, size_t segment, const Binding &binding, const Place &place) {
    const auto &[slot, offset, stride] = binding;
    if (!checks_.violations.expect(slot == -1 || inRange(slot, chunk_.slots.size()), place,
                                   "slot {} is neither -1 nor one of {}", slot, chunk_.slots.size()))
      return;
    const StagePlan &stage = checks_.plan.stages[stage_];
    const bool isOnHost = segmentsOnHost(program)[segment];
    const Ring *ring = slot == -1 ? nullptr : &stage.rings[chunk_.slots[slot]];
    if (ring && !checks_.violations.expect(
                    stage.isOnHost(ring->offset) == isOnHost, place,
                    "segment {} of program '{}' is bound to slot {}, which is on the {}; expected "
                    "memory of the {}",
                    segment, program.name, slot, isOnHost ? "device" : "host", isOnHost ? "host" : "device"))
      return;
    const int64_t first = isOnHost && !ring ? stage.bytes : 0;
    const int64_t limit = ring ? ring->bytes : isOnHost ? stage.hostBytes : stage.bytes;
    checks_.violations.expect(
        offset >= first && fitsInEach(offset - first, stride, iterations_, program.segmentBytes[segment], limit), place,
        "segment {} of program '{}' ({} bytes from {} on) is not inside the {} bytes of {}", segment, program.name,
        program.segmentBytes[segment], offset, limit,
        isOnHost && !ring ? "the host's allocation" : fmt::format("slot {}", slot));
    const bool isFrame = static_cast<int64_t>(segment) == program.frame; // workspaces are aligned in it
    const int64_t width = isFrame ? kAlignment : leastElementBytes(checks_.plan);
    checks_.violations.expect(offset % width == 0 && stride % width == 0, place,
                              "offset {} or stride {} is not a multiple of {}", offset, stride, width);
  }

  // By segment: whether instructions take it as memory of the host (verifyPrograms: all alike).
  const std::vector<bool> &segmentsOnHost(const Program &program) {
    const auto [known, isNew] = onHost_.try_emplace(&program, program.segmentBytes.size());
    if (isNew)
      for (const Instruction &instruction : program.instructions)
        if (std::holds_alternative<HostCopy>(instruction.body)) {
          const OperandInfos infos = operandsOf(checks_.plan.mesh, instruction.body);
          for (size_t i = 0; i < std::min(infos.size(), instruction.operands.size()); ++i)
            if (const int64_t segment = instruction.operands[i].segment;
                infos[i].isOnHost && inRange(segment, known->second.size()))
              known->second[segment] = true;
        }
    return known->second;
  }

  Checks &checks_;
  int64_t stage_, iterations_ = 1;
  const Chunk &chunk_;
  std::map<const Program *, std::vector<bool>> onHost_;
};

} // namespace

// A chunk runs a program once for each instance: a second call would add to the same gradients again. Not so one of a unit: VerifyUnits.h has
// these.
static void verifyCallsDiffer(Checks &checks, const StagePlan &stage, const Chunk &chunk, const Place &place) {
  std::vector<std::pair<int64_t, int64_t>> calls; // program, instance
  forEachRun(chunk.calls.size(), chunk.repeats, [&](size_t i, int64_t iteration) {
    const Call &call = chunk.calls[i];
    if (isOfUnit(stage, call))
      return;
    calls.emplace_back(call.program, call.instance + iteration * call.instanceStride);
  });
  std::ranges::sort(calls);
  if (const auto twice = std::ranges::adjacent_find(calls); twice != calls.end())
    checks.violations.add(place, "runs program '{}' twice for instance {}, expected once",
                          checks.plan.programs[twice->first].name, twice->second);
}

// Loading lists each instruction that a chunk runs: calls times the runs of their programs are bounded.
static void verifyInstructions(Checks &checks, const Chunk &chunk, const Place &place) {
  Checked all = 0;
  forEachItem(chunk.calls.size(), chunk.repeats, [&](size_t i, int64_t iterations) {
    const Program &program = checks.plan.programs[chunk.calls[i].program];
    all = checkedAdd(all, checkedMultiply(iterations, runCount(program.instructions.size(), program.repeats)));
  });
  checks.violations.expect(all && *all <= kMaxProgramRuns, place, "run {} instructions, expected at most {}",
                           all ? fmt::to_string(*all) : "more than 2^63", kMaxProgramRuns);
}

static void verifyChunk(Checks &checks, int64_t stage, const Chunk &chunk, const Place &place) {
  const std::vector<Ring> &rings = checks.plan.stages[stage].rings;
  Place slots = place.field("slots"), calls = place.field("calls");
  bool hasSlots = true;
  for (size_t i = 0; i < chunk.slots.size(); ++i)
    hasSlots &= checks.violations.expect(
        inRange(chunk.slots[i], rings.size()) && std::ranges::count(chunk.slots, chunk.slots[i]) == 1, slots.element(i),
        "ring {} is not one of {}, or comes twice", chunk.slots[i], rings.size());
  checks.violations.expect(chunk.slots.empty() || isPerMicrobatch(chunk.task), slots,
                           "'{}' has slots, which are those of a microbatch; expected none", nameOf(chunk.task));
  if (!verifyRepeats(checks, place, chunk.repeats, chunk.calls.size(), kMaxProgramRuns) || !hasSlots)
    return;
  CallChecks callChecks(checks, stage, chunk);
  forEachItem(chunk.calls.size(), chunk.repeats,
              [&](size_t i, int64_t iterations) { callChecks.verify(chunk.calls[i], iterations, calls.element(i)); });
  if (checks.violations.count() > 0)
    return;
  verifyCallsDiffer(checks, checks.plan.stages[stage], chunk, calls);
  verifyInstructions(checks, chunk, calls);
}

// Each part of the stage's layers has a forward; nothing is there twice.
static void verifyTasks(Checks &checks, const StagePlan &stage, const Place &chunks) {
  std::set<std::tuple<Task, int64_t, bool>> seen;
  std::set<std::pair<Task, int64_t>> later; // chunks of which others run for microbatch 0
  for (const Chunk &chunk : stage.chunks)
    if (chunk.first)
      later.insert({chunk.task, chunk.virtualStage});
  int64_t forwards = 0;
  for (size_t i = 0; i < stage.chunks.size(); ++i) {
    const Chunk &chunk = stage.chunks[i];
    const int64_t parts = isPerVirtualStage(chunk.task) ? checks.plan.virtualStages : 1;
    checks.violations.expect(chunk.virtualStage >= 0 && chunk.virtualStage < parts, chunks.element(i),
                             "virtualStage {} of '{}' is not one of {}", chunk.virtualStage, nameOf(chunk.task), parts);
    checks.violations.expect(seen.insert({chunk.task, chunk.virtualStage, chunk.first}).second, chunks.element(i),
                             "a second chunk '{}'", chunk.name());
    checks.violations.expect(!chunk.first || chunk.task == Task::forward, chunks.element(i),
                             "'{}' is first; expected it of a forward", chunk.name());
    forwards += chunk.task == Task::forward && (chunk.first || !later.contains({chunk.task, chunk.virtualStage}));
  }
  checks.violations.expect(forwards == checks.plan.virtualStages, chunks,
                           "{} chunks are forward, expected one for each of the {} virtual stages", forwards,
                           checks.plan.virtualStages);
}

static void verifyStage(Checks &checks, int64_t index, const Place &place) {
  const StagePlan &stage = checks.plan.stages[index];
  constexpr int64_t kMost = int64_t(1) << 62;
  if (!checks.violations.expect(stage.bytes >= 0, place, "bytes = {} is negative", stage.bytes) ||
      !checks.violations.expect(stage.hostBytes >= 0 && (stage.hostBytes == 0 || stage.bytes <= kMost) &&
                                    stage.hostBytes <= kMost,
                                place, "hostBytes = {}; expected 0 to 2^62", stage.hostBytes))
    return;
  checks.violations.expect(stage.hostBytes == 0 || checks.plan.target != Target::cpu, place,
                           "hostBytes = {} in a plan for CPUs, whose memory is the host's; expected 0",
                           stage.hostBytes);
  checks.violations.expect(stage.hostBytes == 0 || stage.bytes % kAlignment == 0, place,
                           "bytes = {}, where the host's addresses begin; expected a multiple of {}", stage.bytes,
                           kAlignment);
  verifyRegions(checks, stage, place);
  std::vector<Interval> written; // by the runtime, each step
  verifyScalars(checks, stage, place, written);
  Place inputs = place.field("inputs"), chunks = place.field("chunks"), rings = place.field("rings");
  const size_t known = checks.violations.count();
  for (size_t i = 0; i < stage.rings.size(); ++i)
    verifyRing(checks, index, stage.rings[i], rings.element(i));
  if (checks.violations.count() > known) // the checks below read slots
    return;
  for (size_t i = 0; i < stage.inputs.size(); ++i) {
    Place here = inputs.element(i);
    verifyInput(checks, stage, stage.inputs[i], here);
    if (inRange(stage.inputs[i].ring, stage.rings.size()))
      if (const Ring &ring = stage.rings[stage.inputs[i].ring]; Checked bytes = verifySlots(checks, stage, ring, here))
        written.push_back({ring.offset, ring.offset + *bytes, fmt::format("inputs[{}]", i)});
  }
  verifyDisjoint(checks, place, std::move(written));
  for (size_t i = 0; i < stage.chunks.size(); ++i)
    verifyChunk(checks, index, stage.chunks[i], chunks.element(i));
  verifyTasks(checks, stage, chunks);
}

void verifyStages(Checks &checks) {
  Place root, stages = root.field("stages");
  for (size_t i = 0; i < checks.plan.stages.size(); ++i)
    verifyStage(checks, static_cast<int64_t>(i), stages.element(i));
}

} // namespace mgc::plan
