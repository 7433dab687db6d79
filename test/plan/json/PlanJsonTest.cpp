#include "plan/json/PlanJson.h"
#include "plan/prove/VerifyPlan.h"
#include "test/plan/SmallPlan.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

namespace mgc::plan {
namespace {

std::string smallText() { return *printPlan(makeSmallPlan()); }

// The part of the text that the checksum covers.
std::string smallBody() {
  std::string text = smallText();
  size_t begin = text.find("\"plan\": ") + 8;
  return text.substr(begin, text.size() - 3 - begin); // without "\n}\n"
}

std::string errorOf(std::string_view text) {
  Result<Plan> plan = parsePlan(text);
  return plan.isOk() ? "" : plan.status().message();
}

// The error after one replacement in the body, under a checksum that fits it.
std::string errorAfter(std::string_view old, std::string_view replacement) {
  std::string body = smallBody();
  size_t at = body.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return errorOf(sealPlan(kVersion, body.replace(at, old.size(), replacement)));
}

class PlanFile : public testing::Test {
protected:
  void SetUp() override {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    directory = std::filesystem::temp_directory_path() / fmt::format("mgc-{}-{}", test->name(), getpid());
    std::filesystem::remove_all(directory);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::filesystem::path directory;
};

// --- The file ----------------------------------------------------------------------------------------------

TEST_F(PlanFile, RoundTrip) {
  Plan plan = makeSmallPlan();
  Status written = writePlan(plan, directory / "new" / "folder");
  ASSERT_TRUE(written.isOk()) << written.message();
  Result<Plan> back = readPlan(directory / "new" / "folder");
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_TRUE(*back == plan);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / "new" / "folder"), {}), 1);
}

TEST_F(PlanFile, ReplacesAnOlderPlan) {
  Plan plan = makeSmallPlan();
  ASSERT_TRUE(writePlan(plan, directory).isOk());
  plan.vocabulary = 5;
  ASSERT_TRUE(writePlan(plan, directory).isOk());
  EXPECT_EQ(readPlan(directory)->vocabulary, 5);
}

TEST_F(PlanFile, ErrorsNameTheFile) {
  std::string path = (directory / "plan.json").string();
  const std::string missing = directory.string() + ": has no plan.json, expected the folder that mgc compile -o wrote";
  EXPECT_EQ(readPlan(directory).status().message(), missing);
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << "{}";
  EXPECT_EQ(readPlan(directory).status().message(), missing + "; a model is compiled first: mgc compile");
  std::ofstream(path) << "{}";
  EXPECT_EQ(readPlan(directory).status().message().find(path + ": does not begin like a plan"), 0u);
  EXPECT_EQ(readPlan(directory / "plan.json").status().message(),
            path + ": is a file, expected the folder of a plan, which has plan.json in it");
  std::ofstream(directory / "file") << "x";
  EXPECT_NE(writePlan(makeSmallPlan(), directory / "file").message().find("file"), std::string::npos);
}

// The files here are removed with the plan: a plan that was not proved may name any.
TEST(PlanJson, FilesAreThoseInTheFolder) {
  Plan plan;
  for (const char *path : {"kernels/a.so", "../a.so", "kernels/../../a.so", "/etc/passwd", ""})
    plan.kernels.push_back({.path = path});
  EXPECT_EQ(filesOf("folder", plan), (std::vector<std::string>{"folder/plan.json", "folder/kernels/a.so"}));
}

TEST(PlanJson, IsDeterministicAndLineByLine) {
  std::string text = smallText();
  EXPECT_EQ(text, smallText());
  EXPECT_EQ(text.find(fmt::format("{{\n\"version\": {},\n\"checksum\": \"", kVersion)), 0u);
  for (std::string_view line :
       {"\n    "
        "{\"op\":\"gemm\",\"m\":4,\"n\":8,\"k\":2,\"operands\":[[0,0],[0,64],[1,0]],\"label\":\"block.fwd/0\"},\n",
        "\n    {\"kind\":\"send\",\"ring\":4,\"microbatch\":0,\"stride\":1,\"waits\":[1]},\n",
        "\n  {\"level\":\"x86-64-v3\",\"path\":\"kernels/x86-64-v3.so\",\"hash\":\"fedcba9876543210\"},\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(PlanJson, WholeRangeOfNumbersComesBack) {
  Plan plan = makeSmallPlan();
  plan.kernels[0].hash = std::numeric_limits<uint64_t>::max();
  plan.stages[0].bytes = std::numeric_limits<int64_t>::max();
  plan.stages[1].bytes = std::numeric_limits<int64_t>::min();
  plan.parameters[0].initStd = 0.1 + 0.2;
  plan.parameters[1].initStd = std::numeric_limits<double>::denorm_min();
  Result<Plan> back = parsePlan(*printPlan(plan));
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_TRUE(*back == plan);
}

TEST(PlanJson, RefusesToWriteWhatJsonCannotSay) {
  Plan plan = makeSmallPlan();
  plan.parameters[0].initStd = std::numeric_limits<double>::infinity();
  EXPECT_EQ(printPlan(plan).status().message(), "a number of the plan is not finite; JSON has no such number");
  plan = makeSmallPlan();
  plan.modelType = "\xff";
  EXPECT_NE(printPlan(plan).status().message().find("not UTF-8"), std::string::npos);
}

// --- Damage ------------------------------------------------------------------------------------------------

TEST(PlanJson, AnotherVersionNamesBoth) {
  EXPECT_EQ(errorOf(sealPlan(1, smallBody())),
            "is of version 1, this program reads version 33; recompile the plan with the mgc of this version");
  for (const std::string version : {"99999999999999999999", "\"5\"", "05", "5.5", "-1"})
    EXPECT_EQ(errorOf("{\n\"version\": " + version + ",\n\"checksum\": \"").find("is of version " + version + ", this"),
              0u);
  EXPECT_EQ(errorOf("{\n\"version\": ,\n").find("does not begin like a plan"), 0u);
}

TEST(PlanJson, EveryTruncationIsRefused) {
  std::string text = smallText();
  for (size_t size = 0; size < text.size(); size += size < 300 ? 1 : 200)
    EXPECT_NE(errorOf(std::string_view(text).substr(0, size)), "") << size;
  EXPECT_NE(errorOf(std::string_view(text).substr(0, text.size() - 1)), "");
}

TEST(PlanJson, EveryEditedByteIsRefused) {
  std::string text = smallText();
  for (size_t at = 0; at < text.size(); ++at)
    for (char flip : {1, 32}) {
      std::string edited = text;
      edited[at] = static_cast<char>(edited[at] ^ flip);
      EXPECT_NE(errorOf(edited), "") << at;
    }
  EXPECT_NE(errorOf(text + " "), "");
  EXPECT_NE(errorOf(text + text), "");
}

// Behind a checksum that fits, damage reaches the parser and the verifier: an error or another plan, never a crash.
TEST(PlanJson, SealedDamageNeverCrashes) {
  std::string body = smallBody();
  size_t refused = 0, verified = 0, tried = 0;
  auto check = [&](const std::string &edited) {
    Result<Plan> plan = parsePlan(sealPlan(kVersion, edited));
    ++tried;
    if (!plan.isOk())
      ++refused;
    else
      verified += verifyPlan(*plan).isOk();
  };
  for (size_t size = 0; size < body.size(); size += 200)
    check(body.substr(0, size));
  EXPECT_EQ(refused, tried);
  for (size_t at = 0; at < body.size(); at += 19)
    for (char byte : {'9', '-', '"', 'e', '[', '}'}) {
      std::string edited = body;
      edited[at] = byte;
      check(edited);
    }
  EXPECT_GT(refused, tried / 2);
  EXPECT_GT(tried, refused + verified); // some were left to the verifier
}

TEST(PlanJson, SealedNumbersNeverCrashTheVerifier) {
  std::string body = smallBody();
  size_t refused = 0, tried = 0;
  for (size_t at = 1; at < body.size(); ++at) {
    if (!isdigit(body[at]) || isdigit(body[at - 1]))
      continue;
    for (const char *number : {"9223372036854775807", "4611686018427387904", "-1", "-9223372036854775808"}) {
      std::string edited = body;
      size_t end = body.find_first_not_of("0123456789", at);
      Result<Plan> plan = parsePlan(sealPlan(kVersion, edited.replace(at, end - at, number)));
      ++tried;
      refused += !plan.isOk() || !verifyPlan(*plan).isOk();
    }
  }
  EXPECT_GT(tried, 1000u);
  EXPECT_GT(refused, tried / 2);
}

// --- Values in wrong places --------------------------------------------------------------------------------

TEST(PlanJson, NamesThePlaceOfAWrongType) {
  EXPECT_EQ(errorAfter("\"m\":4", "\"m\":\"4\""),
            "programs[0].instructions[0].m: found \"4\", expected an integer of 64 bits");
  EXPECT_EQ(errorAfter("\"m\":4", "\"m\":4.5"),
            "programs[0].instructions[0].m: found 4.5, expected an integer of 64 bits");
  EXPECT_EQ(errorAfter("\"m\":4", "\"m\":9223372036854775808"),
            "programs[0].instructions[0].m: found 9223372036854775808, expected an integer of 64 bits");
  EXPECT_EQ(errorAfter("\"waits\":[1]", "\"waits\":0"), "stages[0].schedule[1].waits: found 0, expected a list");
  EXPECT_EQ(errorAfter("\"sliced\":true", "\"sliced\":1"),
            "stages[0].buckets[0].states[2].sliced: found 1, expected true or false");
  EXPECT_EQ(errorAfter("\"sequenceLength\": 4", "\"sequenceLength\": [4, [5]]"),
            "sequenceLength: found a list of 2, expected an integer of 64 bits");
  EXPECT_EQ(errorAfter("\"fedcba9876543210\"", "\"fedcba987654321\""),
            "kernels[0].hash: found \"fedcba987654321\", expected a string of 16 hexadecimal digits");
  EXPECT_EQ(errorAfter("[0,64]", "{\"segment\":0,\"offset\":64}"),
            "programs[0].instructions[0].operands[1]: found an object of 2, expected a list");
  EXPECT_EQ(errorAfter("[0,64]", "[0]"),
            "programs[0].instructions[0].operands[1]: \"offset\", its number 1, is missing");
  EXPECT_EQ(errorAfter("[0,64]", "[0,64,-1,0,5]"),
            "programs[0].instructions[0].operands[1]: has 5 numbers, expected at most 4");
}

TEST(PlanJson, NamesWhatIsMissingOrUnknown) {
  EXPECT_EQ(errorAfter("\"m\":4,", ""), "programs[0].instructions[0]: \"m\" is missing");
  EXPECT_EQ(errorAfter("\"op\":\"gemm\",", ""),
            "programs[0].instructions[0]: \"op\" is missing; expected one of rowKernel gemm groupedGemm groupRows "
            "dropChoices exchangeRows attention collective move hostCopy\n"
            "programs[0].instructions[0]: \"k\" is no field of this object\n"
            "programs[0].instructions[0]: \"m\" is no field of this object\n"
            "programs[0].instructions[0]: \"n\" is no field of this object");
  EXPECT_EQ(errorAfter("\"microbatch\":0", "\"microBatch\":0"),
            "stages[0].schedule[0]: \"microBatch\" is no field of this object");
  EXPECT_EQ(errorAfter("\"k\":2,", "\"k\":2,\"path\":\"diagonals\","),
            "programs[0].instructions[0].path: found \"diagonals\", expected one of rule whole rows columns");
  EXPECT_EQ(errorAfter("\"kind\":\"send\"", "\"kind\":\"sent\""),
            "stages[0].schedule[1].kind: found \"sent\", expected one of run send recv");
  EXPECT_NE(errorAfter("\"m\":4,", "\"m\":4,\"m\":5,").find("given twice"), std::string::npos);
}

TEST(PlanJson, ListsAtMostTwentyViolations) {
  std::string body = smallBody();
  for (size_t at; (at = body.find("\"label\"")) != std::string::npos;)
    body.replace(at, 7, "\"mabel\"");
  std::string message = errorOf(sealPlan(kVersion, body)); // 18 missing, 18 unknown
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  EXPECT_TRUE(message.ends_with("\nand 16 more")) << message;
}

} // namespace
} // namespace mgc::plan
