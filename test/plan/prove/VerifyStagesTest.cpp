// Rules of stages: the allocation, inputs, chunks and what they do, schedules and how they match.
#include "test/plan/prove/BrokenPlans.h"

namespace mgc::plan {
namespace {

const Broken kStages[] = {
    {"Bytes", [](Plan &plan) { plan.stages[1].bytes = -1; }, "stages[1]: bytes = -1 is negative"},
    {"Layers", [](Plan &plan) { plan.stages[1].layersBegin = 9; }, "stages[1]: layers [9, 2) are no range"},
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
    {"LeastBytesNegative", [](Plan &plan) { plan.stages[1].leastBytes = -1; },
     "stages[1].leastBytes: -1 is not"},
    {"RegionEnd", [](Plan &plan) { plan.stages[1].regions.pop_back(); },
     "stages[1].regions: end at 3136, but the allocation has 3200 bytes"},
    {"StepScalars", [](Plan &plan) { plan.stages[1].stepScalarsOffset = 3172; },
     "stages[1].stepScalarsOffset: 32 bytes from 3172"},
    {"Results", [](Plan &plan) { plan.stages[1].resultsOffset = -4; },
     "stages[1].resultsOffset: 12 bytes from -4 on"},
    {"ResultsAligned", [](Plan &plan) { plan.stages[1].resultsOffset = 3169; },
     "stages[1].resultsOffset: 12 bytes from 3169 on"},
    {"ScalarsApart", [](Plan &plan) { plan.stages[1].resultsOffset = 3164; },
     "stages[1]: stepScalars [3136, 3168) and results [3164, 3176) overlap"},
    {"InputsApart", [](Plan &plan) { plan.stages[0].inputs[1].offset = plan.stages[0].inputs[0].offset; },
     "stages[0]: inputs[0] [2944, 2960) and inputs[1] [2944, 2976) overlap"},
    {"InputAndScalarsApart", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3136; },
     "stages[0]: inputs[1] [3136, 3168) and stepScalars [3136, 3168) overlap"},
    {"InputType", [](Plan &plan) { plan.stages[0].inputs[1].type = DType::f32; },
     "stages[0].inputs[1]: loss weights are f32"},
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
    {"InputStride", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = 8; },
     "stages[0].inputs[1]: microbatchStride = 8 is below the 16 bytes of one"},
    {"InputStrideZero", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = 0; },
     "stages[0].inputs[1]: microbatchStride = 0 is below the 16 bytes of one (0 is for positions)"},
    {"InputDimTwice", [](Plan &plan) { plan.stages[0].inputs[1].dims[1] = {"t", 4, {}}; },
     "stages[0].inputs[1].dims[1]: an input has at most one dimension b and one of s and t"},
    {"InputStrideHuge", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = kMax - 3; },
     "stages[0].inputs[1]: 2 microbatches of 16 bytes, 9223372036854775804 apart from 3008 on, are not "
     "inside"},
    {"InputInside", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3172; },
     "stages[0].inputs[1]: 2 microbatches of 16 bytes, 16 apart from 3172 on, are not inside"},
    {"InputAligned", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3009; },
     "stages[0].inputs[1]: offset 3009 and microbatch"},
};

const Broken kChunks[] = {
    {"SlotCount", [](Plan &plan) { plan.stages[0].chunks[0].slots.clear(); },
     "stages[0].chunks[0]: found 0 slots and 1 slotBytes"},
    {"SlotBytes", [](Plan &plan) { plan.stages[0].chunks[0].slotBytes[0] = -1; },
     "stages[0].chunks[0]: slotBytes[0] = -1 is neg"},
    {"CallInstance", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].instance = -1; },
     "stages[0].chunks[0].calls[0]: instance"},
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
     "stages[0].chunks[0].calls[0].segments[1]: offset 3 is not a multiple of 4"},
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
     "stages[0].schedule[0]: microbatch 2 is neither -1 nor one of 2"},
    {"WaitSelf", [](Plan &plan) { plan.stages[0].schedule[1].waits = {1}; },
     "stages[0].schedule[1]: waits for step 1, which is not before it"},
    {"WaitNegative", [](Plan &plan) { plan.stages[0].schedule[1].waits = {-1}; },
     "stages[0].schedule[1]: waits for step -1"},
    {"RunChunk", [](Plan &plan) { plan.stages[0].schedule[0].chunk = 2; },
     "stages[0].schedule[0]: chunk 2 is not one of 2"},
    {"RunForNone", [](Plan &plan) { plan.stages[0].schedule[0].microbatch = -1; },
     "stages[0].schedule[0]: chunk 'forward.0' runs for microbatch -1"},
    {"RunOnceForOne", [](Plan &plan) { plan.stages[0].schedule.back().microbatch = 0; },
     "stages[0].schedule[6]: chunk 'reduce' runs for microbatch 0"},
    {"RunTwice", [](Plan &plan) { plan.stages[0].schedule[3].microbatch = 0; },
     "stages[0].schedule[3]: chunk 'forward.0' runs twice for microbatch 0"},
    {"RunNever", [](Plan &plan) { plan.stages[0].schedule.pop_back(); },
     "stages[0].chunks[1]: no step runs chunk 'reduce'"},
    {"SlotCount", [](Plan &plan) { plan.stages[0].schedule[0].slots.clear(); },
     "stages[0].schedule[0]: binds 0 slots, but chunk 'forward.0' has 1"},
    {"SlotAligned", [](Plan &plan) { plan.stages[0].schedule[0].slots[0] = 900; },
     "stages[0].schedule[0].slots[0]: offset 900 must be a multiple of 64"},
    {"SlotInside", [](Plan &plan) { plan.stages[0].schedule[0].slots[0] = 2240; },
     "stages[0].schedule[0].slots[0]: offset 2240 must be a multiple of 64, and the slot's 1024 bytes "
     "inside"},
    {"Peer", [](Plan &plan) { plan.stages[0].schedule[1].peer = 2; },
     "stages[0].schedule[1]: peer 2 is no other stage than 0"},
    {"PeerSelf", [](Plan &plan) { plan.stages[0].schedule[1].peer = 0; },
     "stages[0].schedule[1]: peer 0 is no other stage than 0"},
    {"Value", [](Plan &plan) { plan.stages[0].schedule[1].value = -1; },
     "stages[0].schedule[1]: value = -1 is negative"},
    {"TransferInside", [](Plan &plan) { plan.stages[0].schedule[1].offset = 3140; },
     "stages[0].schedule[1]: 64 bytes from 3140 on are not inside the allocation of 3200 bytes"},
    {"TransferEmpty", [](Plan &plan) { plan.stages[0].schedule[1].bytes = 0; },
     "stages[0].schedule[1]: 0 bytes from 896 on"},
    {"TransferAligned", [](Plan &plan) { plan.stages[0].schedule[1].offset = 898; },
     "stages[0].schedule[1]: offset 898 and bytes 64 must be multiples of 4"},
    {"SendWithoutReceive", [](Plan &plan) { plan.stages[1].schedule[3].peer = 7; },
     "stages[0].schedule: has 2 sends to stage 1, which has 1 recvs"},
    {"ReceiveWithoutSend",
     [](Plan &plan) { plan.stages[1].schedule[2].peer = plan.stages[1].schedule[5].peer = 7; },
     "stages[1].schedule: has 0 sends to stage 0, which has 2 recvs"},
    {"MatchValue", [](Plan &plan) { plan.stages[0].schedule[4].value = 3; },
     "stages[0].schedule[4]: sends value 3 of microbatch 1 (64 bytes), but stages[1].schedule[3] receives "
     "value 0 of 1"},
    {"MatchMicrobatch", [](Plan &plan) { plan.stages[1].schedule[0].microbatch = 1; },
     "stages[0].schedule[1]: sends value 0 of microbatch 0 (64 bytes), but stages[1].schedule[0] receives "
     "value 0 of 1"},
    {"MatchBytes", [](Plan &plan) { plan.stages[1].schedule[3].bytes = 60; },
     "stages[0].schedule[4]: sends value 0 of microbatch 1 (64 bytes), but stages[1].schedule[3] receives "
     "value 0 of 1 (60 bytes)"},
};

INSTANTIATE_TEST_SUITE_P(Stages, Verify, testing::ValuesIn(kStages), ruleName);
INSTANTIATE_TEST_SUITE_P(Chunks, Verify, testing::ValuesIn(kChunks), ruleName);
INSTANTIATE_TEST_SUITE_P(Tasks, Verify, testing::ValuesIn(kTasks), ruleName);
INSTANTIATE_TEST_SUITE_P(Schedules, Verify, testing::ValuesIn(kSchedules), ruleName);

} // namespace
} // namespace mgc::plan
