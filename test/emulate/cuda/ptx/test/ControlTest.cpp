// Divergence, barriers, exchange between lanes, calls.
#include "test/emulate/cuda/ptx/test/Harness.h"

#include <numeric>

namespace mgc::ptx {
namespace {

std::vector<uint32_t> runBody(const std::string &body, uint32_t threads, const std::string &globals = "",
                              uint32_t shared = 0) {
  std::vector<uint32_t> out(threads);
  std::string text =
      entryOf("mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 4;\nadd.u64 %d0, %d0, %p0;\n" + body, 1, globals);
  EXPECT_EQ(runOn(text, {.block = {threads}, .sharedBytes = shared}, out), "");
  return out;
}

// Each thread adds 1..tid, so that lanes leave the loop one by one, and meet again behind it.
TEST(Control, LoopsOfDifferentLengths) {
  auto out = runBody(R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    LOOP: setp.ge.u32 %q0, %r1, %r0;
    @%q0 bra DONE;
    add.u32 %r1, %r1, 1; add.u32 %r2, %r2, %r1;
    bra.uni LOOP;
    DONE: activemask.b32 %r3;
    setp.eq.u32 %q1, %r3, -1;
    @!%q1 mov.u32 %r2, 77777;
    st.global.u32 [%d0], %r2;)",
                     64);
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], i * (i + 1) / 2);
}

// nvcc moves blocks behind the return; lanes that pass by there still meet the others at the shuffle, which names all of them.
TEST(Control, LanesMeetAtAShuffle) {
  auto out = runBody(R"(
    and.b32 %r1, %r0, 3;
    setp.eq.u32 %q0, %r1, 1;
    @%q0 bra AWAY;
    mul.lo.u32 %r2, %r0, 10;
    BACK: shfl.sync.bfly.b32 %r3|%q1, %r2, 1, 31, -1;
    st.global.u32 [%d0], %r3;
    ret;
    AWAY: mul.lo.u32 %r2, %r0, 100;
    bra BACK;)",
                     32);
  auto value = [](uint32_t i) { return i * (i % 4 == 1 ? 100 : 10); };
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], value(i ^ 1));
}

TEST(Control, ShuffleModes) {
  auto shuffle = [](const std::string &mode, const std::string &b, const std::string &c) {
    return runBody(fmt::format("mov.u32 %r1, 99;\nshfl.sync.{}.b32 %r2|%q0, %r0, {}, {}, -1;\n"
                               "selp.u32 %r3, 1000, 0, %q0;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%d0], %r2;",
                               mode, b, c),
                   32);
  };
  auto up = shuffle("up", "3", "0"), down = shuffle("down", "3", "31"), index = shuffle("idx", "5", "31");
  auto segments = shuffle("down", "1", "0x181F"); // segments of eight lanes
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(up[i], i >= 3 ? 1000 + i - 3 : i);
    EXPECT_EQ(down[i], i + 3 <= 31 ? 1000 + i + 3 : i);
    EXPECT_EQ(index[i], 1005u);
    EXPECT_EQ(segments[i], i % 8 < 7 ? 1000 + i + 1 : i);
  }
}

TEST(Control, ValuesOfAbsentLanesArePoison) {
  auto out = runBody(R"(
    setp.ge.u32 %q0, %r0, 16;
    @%q0 bra DONE;
    shfl.sync.down.b32 %r1, %r0, 8, 31, 0xFFFF;
    st.global.u32 [%d0], %r1;
    DONE:)",
                     32);
  EXPECT_EQ(out[7], 15u);
  EXPECT_EQ(out[8], ~0u);
}

TEST(Control, VotesAndMatches) {
  auto out = runBody(R"(
    setp.lt.u32 %q0, %r0, 5;
    vote.sync.ballot.b32 %r1, %q0, -1;
    vote.sync.any.pred %q1, %q0, -1;
    vote.sync.all.pred %q2, !%q0, -1;
    shr.u32 %r2, %r0, 3;
    match.any.sync.b32 %r3, %r2, -1;
    redux.sync.add.u32 %r4, %r0, -1;
    @%q1 add.u32 %r1, %r1, 1000;
    @%q2 add.u32 %r1, %r1, 100000;
    add.u32 %r1, %r1, %r4;
    setp.eq.u32 %q3, %r3, 0xFF00;
    @%q3 mov.u32 %r1, 8;
    st.global.u32 [%d0], %r1;)",
                     32);
  EXPECT_EQ(out[0], 31u + 1000 + 496);
  EXPECT_EQ(out[8], 8u);
  EXPECT_EQ(out[16], 31u + 1000 + 496);
}

// Thread t takes what thread (t + 33) % 96 wrote before the barrier; the block's last warp is not full.
TEST(Control, BarriersJoinWarps) {
  auto out = runBody(R"(
    mov.u32 %r5, %ntid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, buffer;
    add.u32 %r3, %r2, %r1;
    mul.lo.u32 %r4, %r0, 7;
    st.shared.u32 [%r3], %r4;
    bar.sync 0;
    add.u32 %r6, %r0, 33;
    rem.u32 %r6, %r6, %r5;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r6, %r2;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%d0], %r7;)",
                     90, ".extern .shared .align 16 .b8 buffer[];", 90 * 4);
  for (uint32_t i = 0; i < 90; ++i)
    EXPECT_EQ(out[i], (i + 33) % 90 * 7);
}

TEST(Control, WarpsMeetAtABarrierOfTheirOwn) {
  auto out = runBody(R"(
    .shared .align 4 .b8 buffer[512];
    shr.u32 %r1, %r0, 6;
    add.u32 %r1, %r1, 1;
    shl.b32 %r2, %r0, 2;
    st.shared.u32 [%r2], %r0;
    bar.sync %r1, 64;
    xor.b32 %r2, %r2, 128;
    ld.shared.u32 %r3, [%r2];
    st.global.u32 [%d0], %r3;)",
                     128);
  for (uint32_t i = 0; i < 128; ++i)
    EXPECT_EQ(out[i], i ^ 32);
}

// The last warp reads what the first one wrote; in some block it is too early.
TEST(Control, AMissingBarrierShows) {
  const std::string body = R"(
    .shared .align 4 .u32 cell;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %q0, %r0, 0;
    @%q0 st.shared.u32 [cell], 7;
    BARRIER
    setp.eq.u32 %q1, %r0, 63;
    ld.shared.u32 %r2, [cell];
    mul.wide.u32 %d0, %r1, 4; add.u64 %d0, %d0, %p0;
    @%q1 st.global.u32 [%d0], %r2;)";
  auto run = [&](const char *barrier) {
    std::string with = body;
    with.replace(with.find("BARRIER"), 7, barrier);
    std::vector<uint32_t> out(4);
    EXPECT_EQ(runOn(entryOf(with, 1), {.grid = {4}, .block = {64}}, out), "");
    return out;
  };
  EXPECT_EQ(run("bar.sync 0;"), std::vector<uint32_t>(4, 7));
  EXPECT_NE(run(""), std::vector<uint32_t>(4, 7));
}

TEST(Control, WaitingForeverIsAnError) {
  std::vector<uint32_t> out(64);
  std::string text =
      entryOf("mov.u32 %r0, %tid.x;\nsetp.eq.u32 %q0, %r0, 40;\n@%q0 bra B;\nbar.sync 1;\nret;\nB: bar.sync 2;", 1);
  std::string error = runOn(text, {.block = {64}}, out);
  EXPECT_NE(error.find("threads wait for others that do not come"), error.npos) << error;
  EXPECT_NE(error.find("warp 1, lanes 0x00000100"), error.npos) << error;
}

const char *const kPower = R"(
.func (.param .b32 result) power(.param .b32 x, .param .b32 n) {
  .reg .b32 %a<4>; .reg .pred %z;
  ld.param.u32 %a0, [x]; ld.param.u32 %a1, [n]; mov.u32 %a2, 1;
  L: setp.eq.u32 %z, %a1, 0;
  @%z bra E;
  mul.lo.u32 %a2, %a2, %a0; sub.u32 %a1, %a1, 1;
  bra L;
  E: st.param.b32 [result+0], %a2; ret;
})";

// Lanes call the function from two places, each with its own arguments.
TEST(Control, CallsReturnToTheirPlaces) {
  auto out = runBody(R"(
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %q0, %r1, 0;
    @%q0 bra EVEN;
    { .param .b32 a; .param .b32 b; .param .b32 c;
      st.param.b32 [a+0], 3; st.param.b32 [b+0], %r0;
      call.uni (c), power, (a, b);
      ld.param.b32 %r2, [c+0]; }
    bra DONE;
    EVEN:
    { .param .b32 a; .param .b32 b; .param .b32 c;
      st.param.b32 [a+0], %r0; st.param.b32 [b+0], 2;
      call.uni (c), power, (a, b);
      ld.param.b32 %r2, [c+0]; }
    DONE: st.global.u32 [%d0], %r2;)",
                     32, kPower);
  for (uint32_t i = 0, power = 1; i < 32; ++i, power *= 3)
    EXPECT_EQ(out[i], i % 2 ? power : i * i);
}

TEST(Control, TablesOfBranches) {
  auto out = runBody(R"(
    rem.u32 %r1, %r0, 3;
    T: .branchtargets A, B, C;
    brx.idx %r1, T;
    A: mov.u32 %r2, 10; bra D;
    B: mov.u32 %r2, 20; bra D;
    C: mov.u32 %r2, 30;
    D: st.global.u32 [%d0], %r2;)",
                     32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], (i % 3 + 1) * 10);
}

TEST(Control, GridsOfThreeDimensions) {
  std::string text = entryOf(R"(
    mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    mov.u32 %r1, %tid.z; mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mad.lo.u32 %r0, %r0, 30, %r1;
    mul.wide.u32 %d0, %r0, 4; add.u64 %d0, %d0, %p0;
    atom.global.add.u32 %r4, [%d0], %r0;)",
                             1);
  std::vector<uint32_t> out(24 * 30), expected(out.size());
  EXPECT_EQ(runOn(text, {.grid = {2, 3, 4}, .block = {5, 3, 2}, .workers = 2}, out), "");
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(out, expected);
}

} // namespace
} // namespace mgc::ptx
