// Ids of hard strings: those of Hugging Face's tokenizers and of sentencepiece (test/golden/tokenizers).
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/base/Json.h"
#include "runtime/random/Philox.h"
#include "test/Places.h"
#include "test/runtime/TempDir.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::test;

namespace {

const std::string kTokenizers = testFile("golden/tokenizers/");

nlohmann::json readJson(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file);
}

const nlohmann::json &strings() {
  static const nlohmann::json rows = readJson(kTokenizers + "strings.json")["rows"];
  return rows;
}

std::string modelIn(const std::string &folder) {
  const std::string json = folder + "/tokenizer.json";
  return std::filesystem::exists(json) ? json : folder + "/tokenizer.model";
}

// Two cuts of "www" in a long string have scores that are equal but for rounding; sentencepiece 0.1.97, Debian's, takes another
// one than 0.2.3.
bool isTie(const std::string &tokenizer, size_t string) {
  return tokenizer == "sentencepiece_unigram" && string == 268;
}

class GoldenIds : public testing::TestWithParam<std::string> {};

TEST_P(GoldenIds, areThoseOfTheLibrary) {
  const std::string folder = kTokenizers + GetParam();
  const nlohmann::json expected = readJson(folder + "/ids.json");
  const auto tokenizer = openTokenizer({"", modelIn(folder)});
  ASSERT_TRUE(isOk(tokenizer));
  EXPECT_EQ((*tokenizer)->vocabulary(), expected["vocab_size"]);
  const auto encoder = (*tokenizer)->encoder();
  ASSERT_EQ(strings().size(), expected["rows"].size());
  const auto around = expected.value("add_special_tokens", nlohmann::json::object());
  for (size_t i = 0; i < strings().size(); ++i) {
    const std::string text = strings()[i][1];
    auto ids = expected["rows"][i].get<std::vector<int32_t>>();
    std::vector<int32_t> found;
    ASSERT_TRUE(isOk(encoder->encode(text, false, found)));
    if (isTie(GetParam(), i))
      EXPECT_TRUE(std::ranges::is_permutation(found, ids)) << i;
    else
      EXPECT_EQ(found, ids) << i << " " << strings()[i].dump();
    if (around.empty())
      continue;
    const auto before = around["before"].get<std::vector<int32_t>>(),
               after = around["after"].get<std::vector<int32_t>>();
    ids.insert(ids.begin(), before.begin(), before.end());
    ids.insert(ids.end(), after.begin(), after.end());
    found.clear();
    ASSERT_TRUE(isOk(encoder->encode(text, true, found)));
    EXPECT_EQ(found, ids) << i;
  }
}

// Whole characters: a token of bytes may be a part of one.
std::vector<size_t> placesOf(const std::string &text, const std::vector<TextRange> &places) {
  const auto isInside = [&](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  std::vector<size_t> numbers;
  for (const TextRange &place : places) {
    size_t begin = place.begin, end = place.end;
    while (isInside(begin))
      --begin;
    while (isInside(end))
      ++end;
    numbers.push_back(begin), numbers.push_back(end);
  }
  return numbers;
}

TEST_P(GoldenIds, standWhereTheLibrarySays) {
  const std::string folder = kTokenizers + GetParam();
  if (!std::filesystem::exists(folder + "/places.json"))
    GTEST_SKIP() << "sentencepiece's own";
  const nlohmann::json expected = readJson(folder + "/places.json")["rows"];
  const auto tokenizer = openTokenizer({"", modelIn(folder)}).take();
  const auto encoder = tokenizer->encoder();
  for (size_t i = 0; i < strings().size(); ++i) {
    if (expected[i].is_null())
      continue;
    const std::string text = strings()[i][1];
    std::vector<int32_t> ids;
    std::vector<TextRange> places;
    ASSERT_TRUE(isOk(encoder->encode(text, false, ids, &places)));
    ASSERT_EQ(ids.size(), places.size());
    const nlohmann::json found = placesOf(text, places);
    EXPECT_EQ(fmt::format("{:016x}", hashName(found.dump())), expected[i].get<std::string>())
        << i << " " << strings()[i].dump() << " " << found.dump();
  }
}

// The vocabulary and merges of gpt2's tokenizer.json, as the two files that Megatron-LM's GPT2BPETokenizer reads.
TEST(Gpt2Tokenizer, givesTheLibrarysIds) {
  const TempDir dir;
  const nlohmann::json model = readJson(kTokenizers + "gpt2/tokenizer.json")["model"];
  std::ofstream(dir.path("vocab.json")) << model["vocab"];
  std::ofstream merges(dir.path("merges.txt"));
  merges << "#version: 0.2\n";
  for (const nlohmann::json &pair : model["merges"])
    merges << pair[0].get<std::string>() << ' ' << pair[1].get<std::string>() << '\n';
  merges.close();
  const auto folder = openTokenizer({"GPT2BPETokenizer", dir.path("")});
  const auto files = openTokenizer({"GPT2BPETokenizer", "", 0, dir.path("vocab.json"), dir.path("merges.txt")});
  ASSERT_TRUE(isOk(folder) && isOk(files));
  EXPECT_EQ((*files)->endToken(), (*files)->idOf("<|endoftext|>"));
  EXPECT_TRUE((*files)->endToken());
  const nlohmann::json expected = readJson(kTokenizers + "gpt2/ids.json")["rows"];
  const auto encoder = (*files)->encoder(), other = (*folder)->encoder();
  int compared = 0, ends = 0;
  for (size_t i = 0; i < strings().size(); ++i) {
    const std::string text = strings()[i][1];
    std::vector<int32_t> found, again;
    ASSERT_TRUE(isOk(encoder->encode(text, true, found)) && isOk(other->encode(text, true, again)));
    EXPECT_EQ(found, again);
    const bool hasEnd = text.find("<|endoftext|>") != std::string::npos;
    ends += hasEnd, compared += !hasEnd;
    if (hasEnd) // a text cannot end a document
      EXPECT_EQ(std::ranges::count(found, *(*files)->endToken()), 0) << i;
    else
      EXPECT_EQ(found, expected[i].get<std::vector<int32_t>>()) << i << " " << strings()[i].dump();
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(ends, 0);
}

TEST(Gpt2Tokenizer, namesWhatIsWrong) {
  const TempDir dir;
  std::ofstream(dir.path("vocab.json")) << R"({"a": 0, "b": 1, "ab": 2})";
  const auto open = [&](const char *merges) {
    std::ofstream(dir.path("merges.txt")) << merges;
    return openTokenizer({"GPT2BPETokenizer", dir.path("")});
  };
  EXPECT_TRUE(isOk(open("a b\r\n")));
  for (const char *bad : {"a b\nab", "a b\na b c", "a b\n a"})
    EXPECT_TRUE(fails(open(bad), {"merges.txt: line 2: is "})) << bad;
  EXPECT_TRUE(fails(open("a c"), {"merges.txt"}));
  EXPECT_TRUE(fails(openTokenizer({"GPT2BPETokenizer", ""}), {"vocab.json and merges.txt"}));
}

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(kTokenizers))
    if (entry.is_directory() && std::filesystem::exists(modelIn(entry.path().string())))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GoldenIds, testing::ValuesIn(folders()),
                         [](const auto &info) { return info.param; });

} // namespace
