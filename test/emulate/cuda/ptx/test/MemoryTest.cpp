// Accesses, and what is wrong with them.
#include "test/emulate/cuda/ptx/test/Harness.h"

namespace mgc::ptx {
namespace {

void expectError(const std::string &error, std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    EXPECT_NE(error.find(part), error.npos) << "\"" << part << "\" is missing in: " << error;
}

TEST(Memory, VectorsAndCacheHints) {
  std::string text = entryOf(R"(
    ld.global.L1::evict_last.nc.v4.f32 {%f0, %f1, %f2, %f3}, [%p0];
    ld.global.v2.b16 {%h0, _}, [%p0+2];
    ld.volatile.global.u8 %r0, [%p0+3];
    st.global.cs.v2.f32 [%p1], {%f3, %f0};
    st.global.b16 [%p1+8], %h0;
    st.global.u8 [%p1+11], %r0;)",
                             2);
  std::string misaligned = text;
  std::vector<float> in{1, 2, 3, 4}, out(3);
  std::string error = runOn(text, {}, in, out);
  expectError(error, {"is no multiple of 4", "ld.global.v2.b16"});
  text.replace(text.find("[%p0+2]"), 7, "[%p0+0]");
  EXPECT_EQ(runOn(text, {}, in, out), "");
  EXPECT_EQ(out, (std::vector<float>{4, 1, real(0x3F000000)}));
}

TEST(Memory, AccessBehindAnAllocation) {
  std::string text = entryOf(
      "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 4;\nadd.u64 %d0, %d0, %p0;\nst.global.u32 [%d0+4], %r0;", 1);
  std::vector<uint32_t> out(40);
  EXPECT_EQ(runOn(text, {.block = {39}}, out), "");
  expectError(runOn(text, {.grid = {2}, .block = {40}}, out),
              {"kernel test, line", "(st.global.u32 [%d0+4], %r0;)", "thread (39, 0, 0) of block (0, 0, 0)",
               "4 bytes at 0x", "0 bytes behind the end of the 160 bytes"});
}

TEST(Memory, AccessAcrossTheEnd) {
  std::vector<uint16_t> values(3);
  expectError(runOn(entryOf("ld.global.b32 %r0, [%p0+4];", 1), {}, values), {"at byte 4 of the 6 bytes"});
}

TEST(Memory, DynamicSharedHasItsSize) {
  std::string text = entryOf("st.shared.u32 [buffer+60], 1;", 0, ".extern .shared .align 4 .b8 buffer[];");
  EXPECT_EQ(runOn(text, {.sharedBytes = 64}), "");
  expectError(runOn(text, {.sharedBytes = 63}), {"of .shared memory, which has 63"});
}

TEST(Memory, GenericAddressesReachEverySpace) {
  std::string text = entryOf(R"(
    .local .align 8 .b8 depot[16];
    .shared .align 8 .b8 part[16];
    mov.u64 %d0, depot;
    cvta.local.u64 %d1, %d0;
    st.u32 [%d1+4], 11;
    ld.local.u32 %r0, [%d0+4];
    mov.u64 %d2, part;
    cvta.shared.u64 %d3, %d2;
    st.u32 [%d3+8], 22;
    ld.shared.u32 %r1, [part+8];
    cvta.to.global.u64 %d4, %p0;
    st.global.v2.u32 [%d4], {%r0, %r1};
    cvta.to.shared.u64 %d5, %d3;
    setp.eq.u64 %q0, %d5, %d2;
    selp.u32 %r2, 1, 0, %q0;
    st.u32 [%d4+8], %r2;)",
                             1);
  std::vector<uint32_t> out(3);
  EXPECT_EQ(runOn(text, {}, out), "");
  EXPECT_EQ(out, (std::vector<uint32_t>{11, 22, 1}));
  expectError(runOn(entryOf(".local .b8 depot[16]; mov.u64 %d0, depot; ld.local.u32 %r0, [%d0+16];", 1), {}, out),
              {"of .local memory, which has 16"});
}

TEST(Memory, LocalAndSharedBeginUndefined) {
  std::vector<uint32_t> out(2);
  EXPECT_EQ(runOn(entryOf(".local .align 4 .b8 a[4]; .shared .align 4 .b8 b[4]; ld.local.u32 %r0, [a]; ld.shared.u32 "
                          "%r1, [b];st.global.v2.u32 [%p0], {%r0, %r1};",
                          1),
                  {}, out),
            "");
  EXPECT_EQ(out, (std::vector<uint32_t>{~0u, ~0u}));
}

TEST(Memory, GlobalVariables) {
  AddressSpace space(1 << 20);
  auto module = Module::load(
      entryOf("ld.const.u16 %h0, [table+2]; mov.u64 %d0, sum; ld.u64 %d1, [%d0+8]; st.u16 [%d1], %h0;", 0, R"(
    .const .align 2 .u16 table[3] = {1, 0x22, 3};
    .visible .global .align 8 .u64 sum[2] = {-1, generic(cell)};
    .global .align 4 .u32 cell;)"),
      space);
  ASSERT_TRUE(module.isOk()) << module.status().message();
  ASSERT_TRUE((*module)->launch("test", {}).isOk());
  Region cell = *(*module)->global("cell"), sum = *(*module)->global("sum");
  EXPECT_EQ(cell.size, 4u);
  EXPECT_EQ(cell.begin - (1 << 20), reinterpret_cast<uint64_t>(cell.host));
  EXPECT_EQ(static_cast<int>(cell.host[0]), 0x22);
  EXPECT_EQ(static_cast<int>(sum.host[7]), 0xFF);
  EXPECT_FALSE((*module)->global("nothing"));
}

TEST(Memory, AtomicsOfManyThreads) {
  std::string text = entryOf(R"(
    atom.global.add.u32 %r0, [%p0], 1;
    red.global.add.f32 [%p0+4], 0f3F000000;
    atom.global.max.u32 %r1, [%p0+8], %r0;
    st.shared.u32 [part], 5;
    bar.sync 0;
    atom.shared.cas.b32 %r2, [part], 5, 9;
    ld.shared.u32 %r3, [part];
    red.global.max.u32 [%p0+12], %r3;)",
                             1, ".shared .align 4 .u32 part;");
  std::vector<uint32_t> out(4);
  EXPECT_EQ(runOn(text, {.grid = {20}, .block = {100}, .workers = 2}, out), "");
  EXPECT_EQ(out, (std::vector<uint32_t>{2000, bits(1000.0f), 1999, 9}));
}

TEST(Load, UnknownInstructionsNameTheirLine) {
  expectError(errorOf(entryOf("mov.u32 %r0, 1;\nadd.u32 %r0, %r0, 1;\nwgmma.fence.sync.aligned;", 0)),
              {"line 9", "wgmma.fence.sync.aligned"});
  expectError(errorOf(entryOf("add.u31 %r0, %r0, 1;", 0)), {"add.u31"});
  expectError(errorOf(entryOf("add.f32.quickly %f0, %f0, %f1;", 0)), {"add.f32.quickly"});
  expectError(errorOf(entryOf("add.u64 %d0, %d0, %r1;", 0)), {"%r1 has 32 bits where 64 should be"});
  expectError(errorOf(entryOf("add.u32 %r0, %r0, %r99;", 0)), {"%r99 is not declared"});
  expectError(errorOf(entryOf("bra NOWHERE;", 0)), {"there is no label NOWHERE"});
  expectError(errorOf(entryOf("mov.u64 %d0, unknown;", 0)), {"unknown is not defined"});
  expectError(errorOf(entryOf("call sinf;", 0, ".extern .func sinf;")), {"the function is not defined"});
  expectError(errorOf(entryOf("add.u32 %r0, %r0", 0)), {"where \",\" or \";\" should be"});
  expectError(errorOf(".version 8.0\n.target sm_90\nnonsense"), {"line 3", "nonsense"});
}

TEST(Load, TrapsAndLimitsStopALaunch) {
  expectError(runOn(entryOf("trap;", 0), {.grid = {3}}), {"the kernel stopped itself by a trap"});
  expectError(runOn(entryOf("", 0), {.block = {32, 33}}), {"1056 threads", "1 to 1024 threads"});
}

} // namespace
} // namespace mgc::ptx
