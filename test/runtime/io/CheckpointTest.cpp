#include "test/runtime/TensorFiles.h"

using namespace mgc;
using namespace mgc::test;

// A file with one f32 scalar per name, its value the position in the list.
static void writeScalars(const std::string &path, const std::vector<std::string> &names) {
  TensorWriter file;
  for (size_t i = 0; i < names.size(); ++i)
    file.add(names[i], {}, std::vector<float>{float(i)});
  file.write(path);
}

static float valueOf(const TensorView *tensor) { return tensor ? floatsOf(*tensor)[0] : -1; }

TEST(Checkpoint, opensAFileAndADirectory) {
  TempDir dir;
  writeScalars(dir.path("model.safetensors"), {"a", "b"});
  for (const std::string &path : {dir.path("model.safetensors"), dir.path()}) {
    Result<Checkpoint> checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(isOk(checkpoint));
    EXPECT_EQ(valueOf(checkpoint->find("b")), 1);
    EXPECT_EQ(checkpoint->find("c"), nullptr);
  }
}

TEST(Checkpoint, opensShards) {
  TempDir dir;
  writeScalars(dir.path("one.safetensors"), {"x", "a"});
  writeScalars(dir.path("two.safetensors"), {"x", "y", "b"});
  dir.write("model.safetensors.index.json",
            R"({"metadata":{}, "weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  Result<Checkpoint> checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(isOk(checkpoint));
  Checkpoint moved = checkpoint.take();
  EXPECT_EQ(valueOf(moved.find("a")), 1);
  EXPECT_EQ(valueOf(moved.find("b")), 2);
  EXPECT_EQ(moved.find("x"), nullptr);
}

TEST(Checkpoint, findsExactNames) {
  TempDir dir;
  writeScalars(dir.path("model.safetensors"), {"transformer.wte.weight", "both", "model.both"});
  Result<Checkpoint> checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(isOk(checkpoint));
  EXPECT_EQ(valueOf(checkpoint->find("transformer.wte.weight")), 0);
  EXPECT_EQ(valueOf(checkpoint->find("both")), 1);
  EXPECT_EQ(valueOf(checkpoint->find("model.both")), 2);
  EXPECT_EQ(checkpoint->find("wte.weight"), nullptr);
}

TEST(Checkpoint, refusesWhatIsNone) {
  TempDir dir;
  EXPECT_TRUE(fails(Checkpoint::open(dir.path("missing")), {dir.path("missing"), "cannot open"}));
  EXPECT_TRUE(fails(Checkpoint::open(dir.path()), {dir.path(), "neither model.safetensors nor"}));
  dir.write("pytorch_model.bin", "");
  EXPECT_TRUE(fails(Checkpoint::open(dir.path()), {"safe_serialization=True"}));
  std::filesystem::create_directory(dir.path("model.safetensors"));
  EXPECT_TRUE(fails(Checkpoint::open(dir.path()), {"is a directory"}));
}

TEST(Checkpoint, refusesBadIndexes) {
  TempDir dir;
  writeScalars(dir.path("one.safetensors"), {"a"});
  auto open = [&](const char *index) {
    dir.write("model.safetensors.index.json", index);
    return Checkpoint::open(dir.path());
  };
  EXPECT_TRUE(fails(open("{"), {"index.json", "not JSON"}));
  EXPECT_TRUE(fails(open("[]"), {"weight_map"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":[]})"), {"weight_map"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":1}})"), {"\"a\" is number"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":"../one.safetensors"}})"), {"beside the index"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":".."}})"), {"beside the index"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":""}})"), {"beside the index"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":"one.safetensors\u0000x"}})"), {"beside the index"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"a":"two.safetensors"}})"), {"two.safetensors", "cannot open"}));
  EXPECT_TRUE(fails(open(R"({"weight_map":{"b":"one.safetensors"}})"), {"\"b\" is said to be in one.safetensors"}));
}
