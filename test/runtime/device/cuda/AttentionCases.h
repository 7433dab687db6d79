// Tests of own attention by `run` (RunOnDevice), which the file that includes this one has.

TEST(DeviceAttention, everySizeOfHead) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const int64_t d : {1, 7, 64, 80, 128, 256})
      checkCase({{.s = 67, .t = 67, .b = 2, .g = 1, .r = 1, .d = d}, type}, run);
}

TEST(DeviceAttention, valuesOfAnotherSize) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const auto &[d, w] : {std::pair<int64_t, int64_t>{24, 16}, {192, 128}, {16, 40}, {1, 33}}) {
      checkCase({{.s = 67, .t = 67, .b = 2, .g = 2, .r = 1, .d = d, .w = w}, type}, run);
      checkCase({{.s = 40, .t = 70, .b = 1, .g = 2, .r = 3, .d = d, .w = w, .window = 30}, type, 3}, run);
    }
}

TEST(DeviceAttention, unequalLengths) {
  for (const auto &[s, t] : {std::pair<int64_t, int64_t>{1, 130}, {5, 129}, {130, 7}, {64, 128}})
    checkCase({{.s = s, .t = t, .b = 1, .g = 2, .r = 1, .d = 16}}, run);
}

TEST(DeviceAttention, groupedQueries) {
  for (const int64_t r : {3, 70})
    checkCase({{.s = 20, .t = 20, .b = 2, .g = 3, .r = r, .d = 8}, MGC_BF16}, run);
}

TEST(DeviceAttention, windows) {
  for (const int64_t window : {1, 2, 50, 1000})
    checkCase({{.s = 140, .t = 140, .b = 1, .g = 1, .r = 2, .d = 8, .window = window}}, run);
}

TEST(DeviceAttention, sinks) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const int64_t r : {1, 3}) {
      AttentionProblem problem({.s = 70, .t = 70, .b = 2, .g = 2, .r = r, .d = 16, .window = 40});
      problem.a.sinks = true;
      problem.sinks[0] = 30, problem.sinks[1] = -30;
      problem.queryPositions[20] = -1; // sees the sink alone
      AttentionCheck(problem, type, run).check();
    }
}

TEST(DeviceAttention, documents) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const int64_t length : {1, 50, 64, 1000}) {
      AttentionProblem problem({.s = 140, .t = 140, .b = 2, .g = 1, .r = 2, .d = 8, .window = 60});
      problem.pack(length);
      AttentionCheck(problem, type, run).check();
    }
}

TEST(DeviceAttention, softcap) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const double softcap : {1000.0, 2.0, 0.3})
      checkCase({{.s = 70, .t = 140, .b = 2, .g = 2, .r = 2, .d = 24, .window = 90, .softcap = softcap}, type}, run);
}

TEST(DeviceAttention, bidirectional) {
  for (const int64_t window : {0, 1, 2, 50, 1000})
    checkCase({{.s = 140, .t = 140, .b = 1, .g = 1, .r = 2, .d = 8, .window = window, .causal = false}}, run);
  // No multiple of 8, which cuDNN would take.
  checkCase({{.s = 40, .t = 140, .b = 2, .g = 2, .r = 1, .d = 42, .causal = false}, MGC_BF16}, run);
}

TEST(DeviceAttention, ends) {
  for (const bool causal : {true, false})
    for (const int64_t length : {1, 50, 1000}) {
      AttentionProblem padded(
          {.s = 140, .t = 140, .b = 2, .g = 1, .r = 2, .d = 8, .window = 60, .causal = causal, .softcap = 2});
      padded.end(length);
      padded.ends[20] = std::numeric_limits<int32_t>::min();
      AttentionCheck(padded, MGC_F32, run).check();
      AttentionProblem packed = padded;
      packed.pack(length), packed.end(length);
      AttentionCheck(packed, MGC_BF16, run).check();
    }
}

TEST(DeviceAttention, biases) {
  for (const bool causal : {true, false})
    for (const double softcap : {0.0, 2.0}) {
      AttentionProblem problem(
          {.s = 70, .t = 140, .b = 2, .g = 2, .r = 3, .d = 16, .causal = causal, .softcap = softcap, .dropout = 0.3});
      problem.addBias(causal ? 32 : 9, 50);
      for (const mgc_type type : {MGC_F32, MGC_BF16})
        AttentionCheck(problem, type, run).check();
    }
}

TEST(DeviceAttention, biasesOfExtremePositions) {
  AttentionProblem problem({.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 8, .causal = false});
  constexpr int32_t least = std::numeric_limits<int32_t>::min(), greatest = std::numeric_limits<int32_t>::max();
  problem.queryPositions = {least, 0, greatest, 5};
  problem.keyPositions = {greatest, least, 0, 5};
  problem.addBias(32, 128);
  AttentionCheck(problem, MGC_F32, run).check();
}

TEST(DeviceAttention, slopes) {
  for (const bool causal : {true, false})
    for (const double softcap : {0.0, 2.0}) {
      AttentionProblem problem({.s = 70,
                                .t = 70,
                                .b = 2,
                                .g = 2,
                                .r = 2,
                                .d = 16,
                                .causal = causal,
                                .softcap = softcap,
                                .dropout = 0.3,
                                .groupStride = 3});
      problem.a.headOffset.value = 5;
      problem.slope();
      for (const mgc_type type : {MGC_F32, MGC_BF16})
        AttentionCheck(problem, type, run).check();
    }
}

TEST(DeviceAttention, inOneBuffer) {
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    for (const int64_t padding : {0, 5})
      checkCase({{.s = 70, .t = 70, .b = 2, .g = 3, .r = 2, .d = 24, .window = 40}, type, padding}, run);
}

TEST(DeviceAttention, nothingBetweenIsWritten) {
  AttentionProblem problem({.s = 70, .t = 20, .b = 2, .g = 2, .r = 3, .d = 33});
  problem.join(5);
  AttentionCheck check(std::move(problem), MGC_F32, run);
  check.forward(), check.backward();
  const auto written = std::ranges::count_if(check.problem.joinedGradients, [](float x) { return x == x; });
  EXPECT_EQ(size_t(written), check.dq.size() + check.dk.size() + check.dv.size());
}

// As in a step of the ring: results in f32 of operands of bf16, apart and joined.
TEST(DeviceAttention, resultsInF32) {
  for (const int64_t joinedBy : {-1, 5}) {
    AttentionProblem problem({.s = 70, .t = 70, .b = 2, .g = 2, .r = 2, .d = 16, .resultsInF32 = true});
    if (joinedBy >= 0)
      problem.join(joinedBy);
    AttentionCheck(std::move(problem), MGC_BF16, run).check();
  }
}

TEST(DeviceAttention, permutedPositions) {
  AttentionProblem problem({.s = 129, .t = 140, .b = 2, .g = 2, .r = 1, .d = 16, .window = 60});
  for (int64_t i = 0; i < 280; ++i)
    problem.keyPositions[i] = int32_t(i * 37 % 140);
  for (int64_t i = 0; i < 258; ++i)
    problem.queryPositions[i] = int32_t(i * 53 % 160);
  AttentionCheck(problem, MGC_F32, run).check();
}

TEST(DeviceAttention, queriesThatSeeNothing) {
  AttentionProblem problem({.s = 130, .t = 70, .b = 1, .g = 1, .r = 2, .d = 8});
  for (int64_t s = 0; s < 130; ++s)
    problem.queryPositions[s] = s >= 64 ? -5 : s % 3 ? -1 : int32_t(s);
  AttentionCheck(problem, MGC_F32, run).check();
  problem.a.t = 0;
  problem.keyPositions.clear(), problem.k.clear(), problem.v.clear();
  AttentionCheck(problem, MGC_F32, run).check();
}

TEST(DeviceAttention, extremePositionsDoNotOverflow) {
  constexpr int32_t least = std::numeric_limits<int32_t>::min(), greatest = std::numeric_limits<int32_t>::max();
  for (const int64_t window : {int64_t(0), int64_t(1), int64_t(1) << 31, int64_t(1) << 32, int64_t(1) << 62}) {
    AttentionProblem problem({.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 8, .window = window});
    problem.queryPositions = {least, 0, greatest, 5};
    problem.keyPositions = {greatest, least, 0, 5};
    AttentionCheck(problem, MGC_F32, run).check();
    problem.a.causal = false;
    AttentionCheck(problem, MGC_F32, run).check();
  }
}

TEST(DeviceAttention, dropout) {
  AttentionProblem problem(
      {.s = 70, .t = 70, .b = 2, .g = 2, .r = 2, .d = 16, .dropout = 0.3, .site = 77, .groupStride = 5});
  problem.resolve(/*seed=*/1234567890123, /*instance=*/3, /*headOffset=*/11);
  for (const mgc_type type : {MGC_F32, MGC_BF16})
    AttentionCheck(problem, type, run).check();
  problem.a.dropout = 1;
  AttentionCheck all(problem, MGC_F32, run);
  all.forward();
  for (const float value : all.o)
    ASSERT_EQ(value, 0);
}

// With values that are the unit vectors, o is the probabilities: 0 exactly where dropped or hidden.
TEST(DeviceAttention, dropsWhatTheCpuDrops) {
  AttentionProblem problem(
      {.s = 64, .t = 64, .b = 1, .g = 2, .r = 2, .d = 64, .dropout = 0.5, .site = 9, .groupStride = 2});
  problem.resolve(/*seed=*/42, /*instance=*/1, /*headOffset=*/4);
  for (int64_t t = 0; t < 64; ++t)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t d = 0; d < 64; ++d)
        problem.v[(t * 2 + g) * 64 + d] = d == t;
  AttentionCheck check(problem, MGC_F32, run);
  check.forward();
  for (int64_t s = 0; s < 64; ++s)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t r = 0; r < 2; ++r) {
        const ReferenceRow row = referenceRow(problem, s, 0, g, r);
        for (int64_t t = 0; t < 64; ++t)
          ASSERT_EQ(check.o[((s * 2 + g) * 2 + r) * 64 + t] != 0, row.p[t] * row.dropped[t] != 0)
              << s << " " << g << " " << r << " " << t;
      }
}

TEST(DeviceAttention, hugeScoresStayFinite) {
  AttentionCheck check(AttentionProblem({.s = 70, .t = 70, .b = 1, .g = 1, .r = 1, .d = 8, .scale = 300}), MGC_F32,
                       run);
  check.forward(), check.backward();
  for (const auto *values : {&check.o, &check.lse, &check.dq, &check.dk, &check.dv})
    for (const float value : *values)
      ASSERT_TRUE(std::isfinite(value));
}

TEST(DeviceAttention, nanIsNotHidden) {
  AttentionProblem problem({.s = 3, .t = 3, .b = 1, .g = 1, .r = 1, .d = 8});
  problem.q[8] = std::numeric_limits<float>::quiet_NaN();
  AttentionCheck check(problem, MGC_F32, run);
  check.forward();
  EXPECT_TRUE(std::isnan(check.o[8]));
  EXPECT_FALSE(std::isnan(check.o[0]));
}

TEST(DeviceAttention, sameBitsTwice) {
  for (const double dropout : {0.0, 0.25}) {
    AttentionProblem problem({.s = 100, .t = 100, .b = 1, .g = 2, .r = 2, .d = 40, .dropout = dropout});
    AttentionCheck one(problem, MGC_F32, run), two(problem, MGC_F32, run);
    for (AttentionCheck *check : {&one, &two})
      check->forward(), check->backward();
    EXPECT_EQ(one.device.memory, two.device.memory);
  }
}

TEST(DeviceAttention, emptyOnes) {
  checkCase({{.s = 0, .t = 5, .b = 1, .g = 1, .r = 1, .d = 8}}, run);
  checkCase({{.s = 5, .t = 5, .b = 0, .g = 1, .r = 1, .d = 8}}, run);
}
