// Rules of stages: the allocation, inputs, chunks and what they do, schedules and how they match.
#include "plan/StepScalars.h"
#include "test/plan/prove/BrokenPlans.h"

namespace mgc::plan {
namespace {

const int64_t kScalarBytes = int64_t(kStepScalars.size()) * 4;

const Broken kStages[] = {
    {"Bytes", 1, [](StagePlan &stage) { stage.bytes = -1; }, ": bytes = -1 is negative"},
    {"HostBytes", 1, [](StagePlan &stage) { stage.hostBytes = -64; }, ": hostBytes = -64; expected 0 to 2^62"},
    {"HostBytesOfCpu", 1, [](StagePlan &stage) { stage.hostBytes = 64; },
     ": hostBytes = 64 in a plan for CPUs, whose memory is the host's; expected 0"},
    {"HostBytesWithoutRegion", 1, [](StagePlan &stage) { stage.hostBytes = 64; },
     ".regions: end at 3392, but the allocation has 3392 bytes and the host's 64"},
    {"HostRegionOnDevice", 1, [](StagePlan &stage) { stage.regions[2].kind = kHostOptimizer; },
     ".regions[2]: 320 bytes from 576 on are not inside the host's allocation of 0 bytes from 3392 on"},
    {"RegionKind", 1, [](StagePlan &stage) { stage.regions[2].kind = "heap"; }, ".regions[2]: kind 'heap' is none of"},
    {"RegionAligned", 1, [](StagePlan &stage) { stage.regions[2].offset = 577; },
     ".regions[2]: offset 577 is not a mult"},
    {"RegionInside", 1, [](StagePlan &stage) { stage.regions[7].bytes = kMax; },
     ".regions[7]: 9223372036854775807 bytes from 3136 on are not inside the allocation of 3392 bytes"},
    {"RegionGap", 1, [](StagePlan &stage) { stage.regions[2].bytes = 256; },
     ".regions[3]: begins at 896, but the regions before it end at 832"},
    {"RegionOverlap", 1, [](StagePlan &stage) { stage.regions[2].bytes = 384; },
     ".regions[3]: begins at 896, but the regions before it end at 960"},
    {"LeastBytes", 0, [](StagePlan &stage) { stage.leastBytes = 3393; }, ".leastBytes: 3393 is not in [0, 3392]"},
    {"LeastBytesNegative", 1, [](StagePlan &stage) { stage.leastBytes = -1; }, ".leastBytes: -1 is not"},
    {"RegionEnd", 1, [](StagePlan &stage) { stage.regions.pop_back(); },
     ".regions: end at 3136, but the allocation has 3392 bytes"},
    {"StepScalars", 1, [](StagePlan &stage) { stage.stepScalarsOffset = 3388; },
     fmt::format(".stepScalarsOffset: {} bytes from 3388", kScalarBytes)},
    {"Results", 1, [](StagePlan &stage) { stage.resultsOffset = -4; }, ".resultsOffset: 28 bytes from -4 on"},
    {"ResultsAligned", 1, [](StagePlan &stage) { stage.resultsOffset = 3169; },
     ".resultsOffset: 28 bytes from 3169 on"},
    {"ResultsElsewhere", 1, [](StagePlan &stage) { stage.resultsOffset = 256; },
     ".resultsOffset: 28 bytes from 256 on lie in no region 'scalars'"},
    {"StepScalarsElsewhere", 0, [](StagePlan &stage) { stage.stepScalarsOffset = 896; },
     fmt::format(".stepScalarsOffset: {} bytes from 896 on lie in no region 'scalars'", kScalarBytes)},
    {"ScalarsApart", 1, [](StagePlan &stage) { stage.resultsOffset = 3164; },
     fmt::format(": stepScalars [3136, {}) and results [3164, 3192) overlap", 3136 + kScalarBytes)},
    {"InputsApart", 0, [](StagePlan &stage) { stage.inputs[1].ring = 1, stage.rings[1] = stage.rings[2]; },
     ": inputs[0] [3008, 3040) and inputs[1] [3008, 3040) overlap"},
    {"InputAndScalarsApart", 0, [](StagePlan &stage) { stage.rings[2].offset = 3136; },
     fmt::format(": inputs[1] [3136, 3168) and stepScalars [3136, {}) overlap", 3136 + kScalarBytes)},
    {"InputType", 0, 1, [](Input &input) { input.type = DType::f32; },
     ": loss weights, loss shares, the tokens of the step and patches are f32"},
    {"StepTokensType", 0, 1, [](Input &input) { input.kind = Input::Kind::stepTokens; },
     ": loss weights, loss shares, the tokens of the step and patches are f32"},
    {"StepTokensDims", 0, 1,
     [](Input &input) {
       input.kind = Input::Kind::stepTokens;
       input.type = DType::f32;
     },
     ".dims: the tokens of the step are one number, expected no dimensions"},
    {"InputShiftOfPositions", 0, 0, [](Input &input) { input.shift = 1; },
     ".shift: 1 positions; expected 0 to 0: tokens, labels and loss shares are shifted"},
    {"InputShiftTooFar", 0, 1, [](Input &input) { input.shift = 4; }, ".shift: 4 positions; expected 0 to 3"},
    {"InputShiftNegative", 0, 1, [](Input &input) { input.shift = -1; }, ".shift: -1 positions; expected 0 to 3"},
    {"InputShiftOfAMaskedToken",
     [](Plan &plan) { plan.stages[0].inputs[1].shift = 1, plan.objective = Objective::masked; },
     "stages[0].inputs[1].shift: 1 positions later; expected 0: with the objective masked a label is that of the token "
     "itself"},
    {"InputSeesWhatIsPredicted", 0, 1, [](Input &input) { input.kind = Input::Kind::documentEnds; },
     ".kind: documentEnds: attention up to the end of a document sees the token that the objective causal predicts; "
     "expected the objective masked"},
    {"InputOfNoEncoder", [](Plan &plan) { plan.stages[1].inputs[1].ofEncoder = true, plan.encoderLength = 4; },
     "stages[1].inputs[1].ofEncoder: labels: the encoder's sequence has tokens, positions, ends"},
    {"InputShiftedOfEncoder",
     [](Plan &plan) {
       plan.stages[0].inputs[1].kind = Input::Kind::tokens, plan.stages[0].inputs[1].shift = 1;
       plan.stages[0].inputs[1].ofEncoder = true, plan.encoderLength = 4;
     },
     "stages[0].inputs[1].ofEncoder: tokens, 1 later: the encoder's sequence has"},
    {"InputLengthOfEncoder",
     [](Plan &plan) {
       plan.stages[0].inputs[1].kind = Input::Kind::tokens;
       plan.stages[0].inputs[1].ofEncoder = true, plan.encoderLength = 6;
     },
     "stages[0].inputs[1].dims[0]: s = 4 is not encoderLength = 6"},
    {"PatchesOfTheDecoder", 0, 1, [](Input &input) { input.kind = Input::Kind::patches, input.type = DType::f32; },
     ".ofEncoder: patches of the decoder's sequence; expected the encoder's"},
    {"PatchesWithoutPixels",
     [](Plan &plan) {
       plan.stages[0].inputs[1].kind = Input::Kind::patches, plan.stages[0].inputs[1].type = DType::f32;
       plan.stages[0].inputs[1].ofEncoder = true, plan.encoderLength = 4;
       plan.images = {.channels = 3, .patchSize = 2, .rows = 2, .columns = 2};
     },
     "stages[0].inputs[1].dims: 2 dimensions of patches, expected s, b, n, o and u"},
    {"PixelsOfAnother",
     [](Plan &plan) {
       Input &input = plan.stages[0].inputs[1];
       input.kind = Input::Kind::patches, input.type = DType::f32, input.ofEncoder = true;
       plan.encoderLength = 4, plan.images = {.channels = 3, .patchSize = 2, .rows = 2, .columns = 2};
       input.dims.insert(input.dims.end(), {{"n", 3, {}}, {"o", 2, {}}, {"u", 3, {}}});
     },
     "stages[0].inputs[1].dims[4]: u = 3 is not 2, on each rank, of the plan's images"},
    {"PixelsOfTokens", 0, 1, [](Input &input) { input.dims.push_back({"n", 3, {}}); },
     ".dims[2]: an input has at most one dimension b and one of s and t"},
    {"EncoderEndsOfNoEncoder", 0, 1, [](Input &input) { input.kind = Input::Kind::encoderEnds; },
     ".kind: encoderEnds in a plan without an encoder"},
    {"TokensOfImages",
     [](Plan &plan) {
       Input patches = plan.stages[0].inputs[1];
       plan.encoderLength = 4, plan.images = {.channels = 3, .patchSize = 2, .rows = 2, .columns = 2};
       plan.stages[0].inputs[1].kind = Input::Kind::tokens, plan.stages[0].inputs[1].ofEncoder = true;
       patches.kind = Input::Kind::patches, plan.stages[0].inputs.push_back(patches);
     },
     "stages[0].inputs[1].kind: tokens of the encoder: the encoder reads images, which have no tokens"},
    {"EncoderEndsOfImages",
     [](Plan &plan) {
       Input patches = plan.stages[0].inputs[1];
       plan.encoderLength = 4, plan.images = {.channels = 3, .patchSize = 2, .rows = 2, .columns = 2};
       plan.stages[0].inputs[1].kind = Input::Kind::encoderEnds;
       patches.kind = Input::Kind::patches, plan.stages[0].inputs.push_back(patches);
     },
     "stages[0].inputs[1].kind: encoderEnds: the encoder reads images, which have no tokens"},
    {"InputName", 0, 1, [](Input &input) { input.dims[0].name = "x"; }, ".dims[0]: name 'x' is none"},
    {"InputBatch", 0, 1, [](Input &input) { input.dims[1].size = 4; },
     ".dims[1]: 2 microbatches of b = 4 are not globalBatchSize = 4"},
    {"InputLength", 0, 1, [](Input &input) { input.dims[0].size = 8; }, ".dims[0]: s = 8 is not seq"},
    {"InputAxes", 0, 1, [](Input &input) { input.dims[0].axes = {"xp"}; }, ".dims[0]: axis 'xp' is"},
    {"InputAxesTwice", 0, 1, [](Input &input) { input.dims[0].axes = {"dp"}; }, ".dims: axis 'dp' comes"},
    {"InputRing", 0, 1, [](Input &input) { input.ring = 6; }, ": ring 6 is not one of 6"},
    {"InputBytes", 0, [](StagePlan &stage) { stage.rings[2].bytes = 12; },
     ".inputs[1]: ring 'tokens' has slots of 12 bytes, expected 16"},
    {"InputSlots", 0, [](StagePlan &stage) { stage.rings[2].turns = {{}}; },
     ".inputs[1]: ring 'tokens' has 1 turns and 1 slots, expected one turn with a slot for each of 2 microbatches"},
    {"InputPeer", 0, [](StagePlan &stage) { stage.rings[2].peer = 1, stage.rings[2].value = 9; },
     ".inputs[1]: ring 'tokens' travels to or from stage 1, but the runtime writes it"},
    {"InputDimTwice", 0, 1, [](Input &input) { input.dims[1] = {"t", 4, {}}; },
     ".dims[1]: an input has at most one dimension b and one of s and t"},
};

const Broken kRings[] = {
    {"RingBytes", 0, 0, [](Ring &ring) { ring.bytes = -4; }, ": bytes = -4 is negative"},
    {"RingTurns", 0, 0, [](Ring &ring) { ring.turns.clear(); },
     ".turns: 0 turns; expected at least one, and no more than the 2 microbatches"},
    {"RingSlots", 0, 0, [](Ring &ring) { ring.turns[0].slots = 0; },
     ".turns[0]: slots 0 from 0 on, phase 0: expected at least one slot"},
    {"RingFirst", 0, 0, [](Ring &ring) { ring.turns[0].first = -1; }, ".turns[0]: slots 1 from -1 on"},
    {"RingPhase", 0, 2, [](Ring &ring) { ring.turns[0].phase = 2; }, ".turns[0]: slots 2 from 0 on, phase 2"},
    {"RingStride", 0, 2, [](Ring &ring) { ring.stride = 8; }, ": stride = 8 is below the 16 bytes of a slot"},
    {"RingStrideHuge", 0, 2, [](Ring &ring) { ring.stride = kMax - 3; },
     ": 2 slots of 16 bytes, 9223372036854775804 apart from 3008 on, are not inside"},
    {"RingInside", 0, 0, [](Ring &ring) { ring.offset = 2432; },
     ": 1 slots of 1024 bytes, 0 apart from 2432 on, are not inside the allocation of 3392 bytes"},
    {"RingAligned", 0, 2, [](Ring &ring) { ring.offset = 3009; }, ": offset 3009 and stride 16 must be multiples of 4"},
    {"Peer", 0, 4, [](Ring &ring) { ring.peer = 2; }, ": peer 2 is no other stage than 0"},
    {"PeerSelf", 0, 4, [](Ring &ring) { ring.peer = 0; }, ": peer 0 is no other stage than 0"},
    {"Value", 0, 4, [](Ring &ring) { ring.value = -1; },
     ": value = -1 of 64 bytes: what travels has a value of at least 0, and bytes"},
    {"TransferEmpty", 0, 4, [](Ring &ring) { ring.bytes = 0; }, ": value = 0 of 0 bytes"},
};

const Broken kChunks[] = {
    {"SlotCount", 0, 0, [](Chunk &chunk) { chunk.slots.clear(); },
     ".calls[0].segments[0]: slot 0 is neither -1 nor one of 0"},
    {"SlotRing", 0, 0, [](Chunk &chunk) { chunk.slots[0] = 6; }, ".slots[0]: ring 6 is not one of 6"},
    {"CallsRepeat", 0, 0, [](Chunk &chunk) { chunk.repeats = {{0, 2, 2}}; },
     ".repeats[0]: [0, 2) is no part of the 1 items from item 0 on"},
    {"CallsRepeatEmpty", 0, 0, [](Chunk &chunk) { chunk.repeats = {{0, 1, 0}}; },
     ".repeats[0]: count = 0, expected at least 1"},
    {"CallsRepeatOverlap", 0, 0, [](Chunk &chunk) { chunk.repeats = {{0, 1, 2}, {0, 1, 2}}; },
     ".repeats[1]: [0, 1) is no part of the 1 items from item 1 on"},
    {"CallsRepeatHuge", 0, 0, [](Chunk &chunk) { chunk.repeats = {{0, 1, kMax}}; },
     ".repeats: the items run 9223372036854775807 times, expected at most 1048576"},
    {"CallStride", 0, 0,
     [](Chunk &chunk) {
       chunk.repeats = {{0, 1, 3}};
       chunk.calls[0].segments[1].stride = 512;
     },
     ".calls[0].segments[1]: segment 1 of program 'block.fwd' (1024 bytes from 1920 on)"},
    {"InstanceStride", 0, 0,
     [](Chunk &chunk) {
       chunk.repeats = {{0, 1, 3}};
       chunk.calls[0].instanceStride = -1;
     },
     ".calls[0]: instance = 0, or that of the last of 3 iterations, is negative"},
    {"SlotTwice", 0, 0, [](Chunk &chunk) { chunk.slots = {0, 0}; }, ".slots[0]: ring 0 is not one of"},
    {"SlotsOfAReduce", 0, 1, [](Chunk &chunk) { chunk.slots = {0}; },
     ".slots: 'reduce' has slots, which are those of a microbatch"},
    {"InstructionsOfAChunk", 0, 0,
     [](Chunk &chunk) {
       chunk.calls[0].instanceStride = 1;
       chunk.repeats = {{0, 1, 1 << 19}};
     },
     ".calls: run 8912896 instructions, expected at most 1048576"},
    {"CallTwice", 1, 0,
     [](Chunk &chunk) {
       std::vector<Call> &calls = chunk.calls;
       calls.push_back(calls.front());
     },
     ".calls: runs program 'block.fwd' twice for instance 1, expected once"},
    {"CallTwiceInARepeat", 0, 0, [](Chunk &chunk) { chunk.repeats = {{0, 1, 2}}; },
     ".calls: runs program 'block.fwd' twice for instance 0"},
    {"CallInstance", 0, 0, [](Chunk &chunk) { chunk.calls[0].instance = -1; }, ".calls[0]: instance = -1"},
    {"CallProgram", 0, 0, [](Chunk &chunk) { chunk.calls[0].program = 2; }, ".calls[0]: program 2 is not one of 2"},
    {"CallSegments", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments.pop_back(); },
     ".calls[0]: binds 1 segments, but program 'block.fwd' has 2"},
    {"BindingSlot", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[0].slot = 1; },
     ".calls[0].segments[0]: slot 1 is neither -1 nor one of 1"},
    {"BindingSlotNegative", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[0].slot = -2; },
     ".calls[0].segments[0]: slot -2 is neither -1 nor one of 1"},
    {"BindingInSlot", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[0].offset = 64; },
     ".calls[0].segments[0]: segment 0 of program 'block.fwd' (1024 bytes from 64 on) is not inside the 1024 bytes of "
     "slot 0"},
    {"BindingInAllocation", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[1].offset = kMax; },
     ".calls[0].segments[1]: segment 1 of program 'block.fwd' (1024 bytes from 9223372036854775807"},
    {"BindingAligned", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[1].offset = 3; },
     ".calls[0].segments[1]: offset 3 or stride 0 is not a multiple of 4"},
};

const Broken kTasks[] = {
    {"VirtualStage", 0, 0, [](Chunk &chunk) { chunk.virtualStage = 1; },
     ": virtualStage 1 of 'forward' is not one of 1"},
    {"VirtualStageNegative", 0, 0, [](Chunk &chunk) { chunk.virtualStage = -1; },
     ": virtualStage -1 of 'forward' is not one of 1"},
    {"VirtualStageOfReduce", 0, 1, [](Chunk &chunk) { chunk.virtualStage = 1; },
     ": virtualStage 1 of 'reduce' is not one of 1"},
    {"VirtualStages", [](Plan &plan) { plan.virtualStages = kMax; },
     "stages[0].chunks: 1 chunks are forward, expected one for each of the 9223372036854775807 virtual stages"},
    {"FirstReduce", 0, 1, [](Chunk &chunk) { chunk.first = true; }, ": 'reduce' is first; expected it of a forward"},
    {"SecondForward", 0, 1, [](Chunk &chunk) { chunk.task = Task::forward; }, ": a second chunk 'forward.0'"},
};

const Broken kSchedules[] = {
    {"Microbatch", 0, 0, [](ScheduleStep &step) { step.microbatch = 2; },
     ": microbatch 2, 1 more in each of 2 iterations"},
    {"MicrobatchStride", 0, 0, [](ScheduleStep &step) { step.microbatchStride = 2; },
     ": microbatch 0, 2 more in each of 2 iterations: expected -1, or one of 2 each time"},
    {"RepeatCount", 0, [](StagePlan &stage) { stage.repeats[0].count = 3; },
     ".schedule[0]: microbatch 0, 1 more in each of 3 iterations"},
    {"WaitSelf", 0, 1, [](ScheduleStep &step) { step.waits = {0}; },
     ": waits for the step 0 before it; expected 1 to 1"},
    {"WaitFar", 0, 1, [](ScheduleStep &step) { step.waits = {2}; },
     ": waits for the step 2 before it; expected 1 to 1"},
    {"WaitNegative", 0, 1, [](ScheduleStep &step) { step.waits = {-1}; }, ": waits for the step -1"},
    {"PairedFirst", 0, 0, [](ScheduleStep &step) { step.paired = true; },
     ": is the second run of a pair; expected a run of all calls for a microbatch, right behind such a run that is no "
     "second one, with no end of a repeat between"},
    {"PairedWaits", 1, 1, [](ScheduleStep &step) { step.paired = true; },
     ": is the second run of a pair and has waits; expected those of both at the first"},
    {"RunChunk", 0, 0, [](ScheduleStep &step) { step.chunk = 2; }, ": chunk 2 is not one of 2"},
    {"RunRing", 0, 0, [](ScheduleStep &step) { step.ring = 1; }, ": ring = 1 of a run; expected -1"},
    {"RunForNone", 0, 0, [](ScheduleStep &step) { step.microbatch = -1, step.microbatchStride = 0; },
     ": chunk 'forward.0' runs for microbatch -1"},
    {"RunOnceForOne", 0, [](StagePlan &stage) { stage.schedule.back().microbatch = 0; },
     ".schedule[3]: chunk 'reduce' runs for microbatch 0"},
    {"RunNever", 0, [](StagePlan &stage) { stage.schedule.pop_back(); }, ".chunks[1]: no step runs chunk 'reduce'"},
    {"RunCalls", 0, 0, [](ScheduleStep &step) { step.callCount = 2; },
     ": 2 calls from 0 on are not inside the 1 of chunk 'forward.0'"},
    {"TransferRing", 0, 1, [](ScheduleStep &step) { step.ring = 6; }, ": ring 6 is not one of 6"},
    {"TransferOfNothing", 0, 1, [](ScheduleStep &step) { step.ring = 0; },
     ": ring 'saved' has no peer, so it does not travel"},
};

INSTANTIATE_TEST_SUITE_P(Stages, Verify, testing::ValuesIn(kStages), ruleName);
INSTANTIATE_TEST_SUITE_P(Rings, Verify, testing::ValuesIn(kRings), ruleName);
INSTANTIATE_TEST_SUITE_P(Chunks, Verify, testing::ValuesIn(kChunks), ruleName);
INSTANTIATE_TEST_SUITE_P(Tasks, Verify, testing::ValuesIn(kTasks), ruleName);
INSTANTIATE_TEST_SUITE_P(Schedules, Verify, testing::ValuesIn(kSchedules), ruleName);

} // namespace
} // namespace mgc::plan
