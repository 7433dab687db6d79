// Rules of stages: the allocation, inputs, chunks and what they do, schedules and how they match.
#include "test/plan/prove/BrokenPlans.h"

namespace mgc::plan {
namespace {

const Broken kStages[] = {
    {"Bytes", [](Plan &plan) { plan.stages[1].bytes = -1; }, "stages[1]: bytes = -1 is negative"},
    {"RegionKind", [](Plan &plan) { plan.stages[1].regions[2].kind = "heap"; },
     "stages[1].regions[2]: kind 'heap' is none of"},
    {"RegionAligned", [](Plan &plan) { plan.stages[1].regions[2].offset = 577; },
     "stages[1].regions[2]: offset 577 is not a mult"},
    {"RegionInside", [](Plan &plan) { plan.stages[1].regions[7].bytes = kMax; },
     "stages[1].regions[7]: 9223372036854775807 bytes from 3136 on are not inside the allocation of 3200 "
     "bytes"},
    {"RegionGap", [](Plan &plan) { plan.stages[1].regions[2].bytes = 256; },
     "stages[1].regions[3]: begins at 896, but the regions before it end at 832"},
    {"RegionOverlap", [](Plan &plan) { plan.stages[1].regions[2].bytes = 384; },
     "stages[1].regions[3]: begins at 896, but the regions before it end at 960"},
    {"LeastBytes", [](Plan &plan) { plan.stages[0].leastBytes = 3201; },
     "stages[0].leastBytes: 3201 is not in [0, 3200]"},
    {"LeastBytesNegative", [](Plan &plan) { plan.stages[1].leastBytes = -1; }, "stages[1].leastBytes: -1 is not"},
    {"RegionEnd", [](Plan &plan) { plan.stages[1].regions.pop_back(); },
     "stages[1].regions: end at 3136, but the allocation has 3200 bytes"},
    {"StepScalars", [](Plan &plan) { plan.stages[1].stepScalarsOffset = 3172; },
     "stages[1].stepScalarsOffset: 36 bytes from 3172"},
    {"Results", [](Plan &plan) { plan.stages[1].resultsOffset = -4; }, "stages[1].resultsOffset: 28 bytes from -4 on"},
    {"ResultsAligned", [](Plan &plan) { plan.stages[1].resultsOffset = 3169; },
     "stages[1].resultsOffset: 28 bytes from 3169 on"},
    {"ResultsElsewhere", [](Plan &plan) { plan.stages[1].resultsOffset = 256; },
     "stages[1].resultsOffset: 28 bytes from 256 on lie in no region 'scalars'"},
    {"StepScalarsElsewhere", [](Plan &plan) { plan.stages[0].stepScalarsOffset = 896; },
     "stages[0].stepScalarsOffset: 36 bytes from 896 on lie in no region 'scalars'"},
    {"ScalarsApart", [](Plan &plan) { plan.stages[1].resultsOffset = 3164; },
     "stages[1]: stepScalars [3136, 3172) and results [3164, 3192) overlap"},
    {"InputsApart",
     [](Plan &plan) { plan.stages[0].inputs[1].ring = 1, plan.stages[0].rings[1] = plan.stages[0].rings[2]; },
     "stages[0]: inputs[0] [3008, 3040) and inputs[1] [3008, 3040) overlap"},
    {"InputAndScalarsApart", [](Plan &plan) { plan.stages[0].rings[2].offset = 3136; },
     "stages[0]: inputs[1] [3136, 3168) and stepScalars [3136, 3172) overlap"},
    {"InputType", [](Plan &plan) { plan.stages[0].inputs[1].type = DType::f32; },
     "stages[0].inputs[1]: loss weights, loss shares, the tokens of the step and patches are f32"},
    {"StepTokensType", [](Plan &plan) { plan.stages[0].inputs[1].kind = Input::Kind::stepTokens; },
     "stages[0].inputs[1]: loss weights, loss shares, the tokens of the step and patches are f32"},
    {"StepTokensDims",
     [](Plan &plan) {
       plan.stages[0].inputs[1].kind = Input::Kind::stepTokens;
       plan.stages[0].inputs[1].type = DType::f32;
     },
     "stages[0].inputs[1].dims: the tokens of the step are one number, expected no dimensions"},
    {"InputShiftOfPositions", [](Plan &plan) { plan.stages[0].inputs[0].shift = 1; },
     "stages[0].inputs[0].shift: 1 positions; expected 0 to 0: tokens, labels and loss shares are shifted"},
    {"InputShiftTooFar", [](Plan &plan) { plan.stages[0].inputs[1].shift = 4; },
     "stages[0].inputs[1].shift: 4 positions; expected 0 to 3"},
    {"InputShiftNegative", [](Plan &plan) { plan.stages[0].inputs[1].shift = -1; },
     "stages[0].inputs[1].shift: -1 positions; expected 0 to 3"},
    {"InputShiftOfAMaskedToken",
     [](Plan &plan) { plan.stages[0].inputs[1].shift = 1, plan.objective = Objective::masked; },
     "stages[0].inputs[1].shift: 1 positions later; expected 0: with the objective masked a label is that of "
     "the token itself"},
    {"InputSeesWhatIsPredicted", [](Plan &plan) { plan.stages[0].inputs[1].kind = Input::Kind::documentEnds; },
     "stages[0].inputs[1].kind: documentEnds: attention up to the end of a document sees the token that the "
     "objective causal predicts; expected the objective masked"},
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
    {"PatchesOfTheDecoder",
     [](Plan &plan) {
       plan.stages[0].inputs[1].kind = Input::Kind::patches, plan.stages[0].inputs[1].type = DType::f32;
     },
     "stages[0].inputs[1].ofEncoder: patches of the decoder's sequence; expected the encoder's"},
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
    {"PixelsOfTokens", [](Plan &plan) { plan.stages[0].inputs[1].dims.push_back({"n", 3, {}}); },
     "stages[0].inputs[1].dims[2]: an input has at most one dimension b and one of s and t"},
    {"EncoderEndsOfNoEncoder", [](Plan &plan) { plan.stages[0].inputs[1].kind = Input::Kind::encoderEnds; },
     "stages[0].inputs[1].kind: encoderEnds in a plan without an encoder"},
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
    {"InputName", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].name = "x"; },
     "stages[0].inputs[1].dims[0]: name 'x' is none"},
    {"InputBatch", [](Plan &plan) { plan.stages[0].inputs[1].dims[1].size = 4; },
     "stages[0].inputs[1].dims[1]: 2 microbatches of b = 4 are not globalBatchSize = 4"},
    {"InputLength", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].size = 8; },
     "stages[0].inputs[1].dims[0]: s = 8 is not seq"},
    {"InputAxes", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].axes = {"xp"}; },
     "stages[0].inputs[1].dims[0]: axis 'xp' is"},
    {"InputAxesTwice", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].axes = {"dp"}; },
     "stages[0].inputs[1].dims: axis 'dp' comes"},
    {"InputRing", [](Plan &plan) { plan.stages[0].inputs[1].ring = 6; }, "stages[0].inputs[1]: ring 6 is not one of 6"},
    {"InputBytes", [](Plan &plan) { plan.stages[0].rings[2].bytes = 12; },
     "stages[0].inputs[1]: ring 'tokens' has slots of 12 bytes, expected 16"},
    {"InputSlots", [](Plan &plan) { plan.stages[0].rings[2].turns = {{}}; },
     "stages[0].inputs[1]: ring 'tokens' has 1 turns and 1 slots, expected one turn with a slot for each of "
     "2 "
     "microbatches"},
    {"InputPeer", [](Plan &plan) { plan.stages[0].rings[2].peer = 1, plan.stages[0].rings[2].value = 9; },
     "stages[0].inputs[1]: ring 'tokens' travels to or from stage 1, but the runtime writes it"},
    {"InputDimTwice", [](Plan &plan) { plan.stages[0].inputs[1].dims[1] = {"t", 4, {}}; },
     "stages[0].inputs[1].dims[1]: an input has at most one dimension b and one of s and t"},
};

const Broken kRings[] = {
    {"RingBytes", [](Plan &plan) { plan.stages[0].rings[0].bytes = -4; }, "stages[0].rings[0]: bytes = -4 is negative"},
    {"RingTurns", [](Plan &plan) { plan.stages[0].rings[0].turns.clear(); },
     "stages[0].rings[0].turns: 0 turns; expected at least one, and no more than the 2 microbatches"},
    {"RingSlots", [](Plan &plan) { plan.stages[0].rings[0].turns[0].slots = 0; },
     "stages[0].rings[0].turns[0]: slots 0 from 0 on, phase 0: expected at least one slot"},
    {"RingFirst", [](Plan &plan) { plan.stages[0].rings[0].turns[0].first = -1; },
     "stages[0].rings[0].turns[0]: slots 1 from -1 on"},
    {"RingPhase", [](Plan &plan) { plan.stages[0].rings[2].turns[0].phase = 2; },
     "stages[0].rings[2].turns[0]: slots 2 from 0 on, phase 2"},
    {"RingStride", [](Plan &plan) { plan.stages[0].rings[2].stride = 8; },
     "stages[0].rings[2]: stride = 8 is below the 16 bytes of a slot"},
    {"RingStrideHuge", [](Plan &plan) { plan.stages[0].rings[2].stride = kMax - 3; },
     "stages[0].rings[2]: 2 slots of 16 bytes, 9223372036854775804 apart from 3008 on, are not inside"},
    {"RingInside", [](Plan &plan) { plan.stages[0].rings[0].offset = 2240; },
     "stages[0].rings[0]: 1 slots of 1024 bytes, 0 apart from 2240 on, are not inside the allocation of 3200 "
     "bytes"},
    {"RingAligned", [](Plan &plan) { plan.stages[0].rings[2].offset = 3009; },
     "stages[0].rings[2]: offset 3009 and stride 16 must be multiples of 4"},
    {"Peer", [](Plan &plan) { plan.stages[0].rings[4].peer = 2; },
     "stages[0].rings[4]: peer 2 is no other stage than 0"},
    {"PeerSelf", [](Plan &plan) { plan.stages[0].rings[4].peer = 0; },
     "stages[0].rings[4]: peer 0 is no other stage than 0"},
    {"Value", [](Plan &plan) { plan.stages[0].rings[4].value = -1; },
     "stages[0].rings[4]: value = -1 of 64 bytes: what travels has a value of at least 0, and bytes"},
    {"TransferEmpty", [](Plan &plan) { plan.stages[0].rings[4].bytes = 0; },
     "stages[0].rings[4]: value = 0 of 0 bytes"},
};

const Broken kChunks[] = {
    {"SlotCount", [](Plan &plan) { plan.stages[0].chunks[0].slots.clear(); },
     "stages[0].chunks[0].calls[0].segments[0]: slot 0 is neither -1 nor one of 0"},
    {"SlotRing", [](Plan &plan) { plan.stages[0].chunks[0].slots[0] = 6; },
     "stages[0].chunks[0].slots[0]: ring 6 is not one of 6"},
    {"CallsRepeat", [](Plan &plan) { plan.stages[0].chunks[0].repeats = {{0, 2, 2}}; },
     "stages[0].chunks[0].repeats[0]: [0, 2) is no part of the 1 items from item 0 on"},
    {"CallsRepeatEmpty", [](Plan &plan) { plan.stages[0].chunks[0].repeats = {{0, 1, 0}}; },
     "stages[0].chunks[0].repeats[0]: count = 0, expected at least 1"},
    {"CallsRepeatOverlap", [](Plan &plan) { plan.stages[0].chunks[0].repeats = {{0, 1, 2}, {0, 1, 2}}; },
     "stages[0].chunks[0].repeats[1]: [0, 1) is no part of the 1 items from item 1 on"},
    {"CallsRepeatHuge", [](Plan &plan) { plan.stages[0].chunks[0].repeats = {{0, 1, kMax}}; },
     "stages[0].chunks[0].repeats: the items run 9223372036854775807 times, expected at most 1048576"},
    {"CallStride",
     [](Plan &plan) {
       plan.stages[0].chunks[0].repeats = {{0, 1, 3}};
       plan.stages[0].chunks[0].calls[0].segments[1].stride = 512;
     },
     "stages[0].chunks[0].calls[0].segments[1]: segment 1 of program 'block.fwd' (1024 bytes from 1920 on)"},
    {"InstanceStride",
     [](Plan &plan) {
       plan.stages[0].chunks[0].repeats = {{0, 1, 3}};
       plan.stages[0].chunks[0].calls[0].instanceStride = -1;
     },
     "stages[0].chunks[0].calls[0]: instance = 0, or that of the last of 3 iterations, is negative"},
    {"SlotTwice", [](Plan &plan) { plan.stages[0].chunks[0].slots = {0, 0}; },
     "stages[0].chunks[0].slots[0]: ring 0 is not one of"},
    {"SlotsOfAReduce", [](Plan &plan) { plan.stages[0].chunks[1].slots = {0}; },
     "stages[0].chunks[1].slots: 'reduce' has slots, which are those of a microbatch"},
    {"InstructionsOfAChunk",
     [](Plan &plan) {
       Chunk &chunk = plan.stages[0].chunks[0];
       chunk.calls[0].instanceStride = 1;
       chunk.repeats = {{0, 1, 1 << 19}};
     },
     "stages[0].chunks[0].calls: run 8912896 instructions, expected at most 1048576"},
    {"CallTwice",
     [](Plan &plan) {
       std::vector<Call> &calls = plan.stages[1].chunks[0].calls;
       calls.push_back(calls.front());
     },
     "stages[1].chunks[0].calls: runs program 'block.fwd' twice for instance 1, expected once"},
    {"CallTwiceInARepeat", [](Plan &plan) { plan.stages[0].chunks[0].repeats = {{0, 1, 2}}; },
     "stages[0].chunks[0].calls: runs program 'block.fwd' twice for instance 0"},
    {"CallInstance", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].instance = -1; },
     "stages[0].chunks[0].calls[0]: instance = -1"},
    {"CallProgram", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].program = 2; },
     "stages[0].chunks[0].calls[0]: program 2 is not one of 2"},
    {"CallSegments", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments.pop_back(); },
     "stages[0].chunks[0].calls[0]: binds 1 segments, but program 'block.fwd' has 2"},
    {"BindingSlot", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].slot = 1; },
     "stages[0].chunks[0].calls[0].segments[0]: slot 1 is neither -1 nor one of 1"},
    {"BindingSlotNegative", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].slot = -2; },
     "stages[0].chunks[0].calls[0].segments[0]: slot -2 is neither -1 nor one of 1"},
    {"BindingInSlot", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].offset = 64; },
     "stages[0].chunks[0].calls[0].segments[0]: segment 0 of program 'block.fwd' (1024 bytes from 64 on) is "
     "not inside the 1024 bytes of slot 0"},
    {"BindingInAllocation", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[1].offset = kMax; },
     "stages[0].chunks[0].calls[0].segments[1]: segment 1 of program 'block.fwd' (1024 bytes from "
     "9223372036854775807"},
    {"BindingAligned", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[1].offset = 3; },
     "stages[0].chunks[0].calls[0].segments[1]: offset 3 or stride 0 is not a multiple of 4"},
};

const Broken kTasks[] = {
    {"VirtualStage", [](Plan &plan) { plan.stages[0].chunks[0].virtualStage = 1; },
     "stages[0].chunks[0]: virtualStage 1 of 'forward' is not one of 1"},
    {"VirtualStageNegative", [](Plan &plan) { plan.stages[0].chunks[0].virtualStage = -1; },
     "stages[0].chunks[0]: virtualStage -1 of 'forward' is not one of 1"},
    {"VirtualStageOfReduce", [](Plan &plan) { plan.stages[0].chunks[1].virtualStage = 1; },
     "stages[0].chunks[1]: virtualStage 1 of 'reduce' is not one of 1"},
    {"VirtualStages", [](Plan &plan) { plan.virtualStages = kMax; },
     "stages[0].chunks: 1 chunks are forward, expected one for each of the 9223372036854775807 virtual "
     "stages"},
    {"SecondForward", [](Plan &plan) { plan.stages[0].chunks[1].task = Task::forward; },
     "stages[0].chunks[1]: a second chunk 'forward.0'"},
};

const Broken kSchedules[] = {
    {"Microbatch", [](Plan &plan) { plan.stages[0].schedule[0].microbatch = 2; },
     "stages[0].schedule[0]: microbatch 2, 1 more in each of 2 iterations"},
    {"MicrobatchStride", [](Plan &plan) { plan.stages[0].schedule[0].microbatchStride = 2; },
     "stages[0].schedule[0]: microbatch 0, 2 more in each of 2 iterations: expected -1, or one of 2 each "
     "time"},
    {"RepeatCount", [](Plan &plan) { plan.stages[0].repeats[0].count = 3; },
     "stages[0].schedule[0]: microbatch 0, 1 more in each of 3 iterations"},
    {"WaitSelf", [](Plan &plan) { plan.stages[0].schedule[1].waits = {0}; },
     "stages[0].schedule[1]: waits for the step 0 before it; expected 1 to 1"},
    {"WaitFar", [](Plan &plan) { plan.stages[0].schedule[1].waits = {2}; },
     "stages[0].schedule[1]: waits for the step 2 before it; expected 1 to 1"},
    {"WaitNegative", [](Plan &plan) { plan.stages[0].schedule[1].waits = {-1}; },
     "stages[0].schedule[1]: waits for the step -1"},
    {"PairedFirst", [](Plan &plan) { plan.stages[0].schedule[0].paired = true; },
     "stages[0].schedule[0]: is the second run of a pair; expected a run of all calls for a microbatch, "
     "right "
     "behind such a run that is no second one, with no end of a repeat between"},
    {"PairedWaits", [](Plan &plan) { plan.stages[1].schedule[1].paired = true; },
     "stages[1].schedule[1]: is the second run of a pair and has waits; expected those of both at the first"},
    {"RunChunk", [](Plan &plan) { plan.stages[0].schedule[0].chunk = 2; },
     "stages[0].schedule[0]: chunk 2 is not one of 2"},
    {"RunRing", [](Plan &plan) { plan.stages[0].schedule[0].ring = 1; },
     "stages[0].schedule[0]: ring = 1 of a run; expected -1"},
    {"RunForNone",
     [](Plan &plan) { plan.stages[0].schedule[0].microbatch = -1, plan.stages[0].schedule[0].microbatchStride = 0; },
     "stages[0].schedule[0]: chunk 'forward.0' runs for microbatch -1"},
    {"RunOnceForOne", [](Plan &plan) { plan.stages[0].schedule.back().microbatch = 0; },
     "stages[0].schedule[3]: chunk 'reduce' runs for microbatch 0"},
    {"RunNever", [](Plan &plan) { plan.stages[0].schedule.pop_back(); },
     "stages[0].chunks[1]: no step runs chunk 'reduce'"},
    {"RunCalls", [](Plan &plan) { plan.stages[0].schedule[0].callCount = 2; },
     "stages[0].schedule[0]: 2 calls from 0 on are not inside the 1 of chunk 'forward.0'"},
    {"TransferRing", [](Plan &plan) { plan.stages[0].schedule[1].ring = 6; },
     "stages[0].schedule[1]: ring 6 is not one of 6"},
    {"TransferOfNothing", [](Plan &plan) { plan.stages[0].schedule[1].ring = 0; },
     "stages[0].schedule[1]: ring 'saved' has no peer, so it does not travel"},
};

INSTANTIATE_TEST_SUITE_P(Stages, Verify, testing::ValuesIn(kStages), ruleName);
INSTANTIATE_TEST_SUITE_P(Rings, Verify, testing::ValuesIn(kRings), ruleName);
INSTANTIATE_TEST_SUITE_P(Chunks, Verify, testing::ValuesIn(kChunks), ruleName);
INSTANTIATE_TEST_SUITE_P(Tasks, Verify, testing::ValuesIn(kTasks), ruleName);
INSTANTIATE_TEST_SUITE_P(Schedules, Verify, testing::ValuesIn(kSchedules), ruleName);

} // namespace
} // namespace mgc::plan
