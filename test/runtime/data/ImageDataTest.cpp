// Images with tokens: whose they are, where their features go, and their pixels as patches.
#include "runtime/data/ImageData.h"

#include "runtime/data/Inputs.h"
#include "test/runtime/TensorFiles.h"
#include "test/runtime/data/DataPlans.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

using Kind = plan::Input::Kind;
using Numbers = std::vector<int32_t>;

// Two samples of 5 tokens below 10; images of 2 channels and 1 x 2 patches of 2 x 2 pixels behind a class token, for image
// tokens 9; the encoder's last position is padding.
plan::Plan planOf() {
  plan::Plan plan = emptyPlan({}, {.sequence = 5, .microBatch = 2, .microbatches = 1});
  plan.vocabulary = 10, plan.encoderLength = 4;
  plan.images = {
      .channels = 2, .patchSize = 2, .rows = 1, .columns = 2, .classTokens = 1, .token = 9, .firstFeature = 1};
  return plan;
}

constexpr int64_t kPixelsOfOne = 2 * 2 * 4;

class ImageData : public InTempDir {
protected:
  // The image of the first of the samples is 0 1 2 ..
  std::string write(const std::vector<int64_t> &tokens, int64_t images = 1, std::vector<float> pixels = {}) const {
    if (pixels.empty()) {
      pixels.resize(images * kPixelsOfOne);
      std::iota(pixels.begin(), pixels.end(), 0.0F);
    }
    return TensorWriter()
        .add("input_ids", {1, 2, 5}, tokens)
        .add("labels", {1, 2, 5}, std::vector<int64_t>(10, 1))
        .add("pixel_values", {1, images, 2, 2, 4}, pixels)
        .write(dir.path("batch.safetensors"));
  }
};

const std::vector<int64_t> kTokens = {1, 2, 3, 4, 5, /**/ 6, 9, 7, 9, 8}; // the second sample has the image

GlobalBatch checkedBatch(const std::string &path, const plan::Plan &plan) {
  const GlobalBatch batch = batchOf(path, plan);
  EXPECT_TRUE(isOk(checkBatch(plan, batch)));
  return batch;
}

TEST_F(ImageData, FeaturesGoWhereImageTokensAre) {
  const GlobalBatch batch = checkedBatch(write(kTokens), planOf());
  EXPECT_EQ(batch.imagePlaces, (Numbers{-1, -1, -1, -1, -1, /**/ -1, 1, -1, 2, -1}));
  EXPECT_EQ(batch.imageSources, (Numbers{-1, -1, -1, -1, /**/ -1, 1, 3, -1}));
  EXPECT_EQ(batch.encoderEnds, Numbers(8, 3));
  EXPECT_EQ(batch.pixels[0], 0.0F);
  EXPECT_EQ(batch.pixels[kPixelsOfOne + 5], 5.0F);
}

TEST_F(ImageData, PatchesAreSquaresBehindTheClassToken) {
  plan::Plan plan = planOf();
  plan.stages[0].inputs = {
      {.kind = Kind::patches,
       .type = plan::DType::f32,
       .dims = {{"s", 4, {}}, {"b", 2, {}}, {"n", 2, {}}, {"o", 2, {}}, {"u", 2, {}}},
       .ring = addRing(plan, 0, 0, 4 * 2 * 8 * 4),
       .ofEncoder = true},
      {.kind = Kind::tokens, .dims = {{"s", 5, {}}, {"b", 2, {}}}, .ring = addRing(plan, 0, 256, 40)}};
  const GlobalBatch batch = checkedBatch(write(kTokens), plan);
  std::vector<std::byte> arena(512);
  for (const InputRecord &record : resolveInputs(plan, 0))
    writeInput(record, plan, batch, arena.data());
  const auto *values = reinterpret_cast<const float *>(arena.data());
  const auto patch = [&](int64_t position, int64_t sample) {
    const float *begin = values + (position * 2 + sample) * 8;
    return std::vector<float>(begin, begin + 8);
  };
  EXPECT_EQ(patch(1, 0), std::vector<float>(8, 0)); // no image
  EXPECT_EQ(patch(0, 1), std::vector<float>(8, 0)); // the class token
  EXPECT_EQ(patch(1, 1), (std::vector<float>{0, 1, 4, 5, /**/ 8, 9, 12, 13}));
  EXPECT_EQ(patch(2, 1), (std::vector<float>{2, 3, 6, 7, /**/ 10, 11, 14, 15}));
  EXPECT_EQ(patch(3, 1), std::vector<float>(8, 0)); // padding
  const auto *tokens = reinterpret_cast<const int32_t *>(arena.data() + 256);
  EXPECT_EQ(std::vector(tokens, tokens + 10), (Numbers{1, 6, 2, -1, 3, 7, 4, -1, 5, 8}));
}

TEST_F(ImageData, ImagesMustBeThoseOfTheTokens) {
  EXPECT_EQ(errorOf(write({1, 2, 3, 4, 5, /**/ 9, 9, 7, 9, 8}), planOf()),
            "input_ids: step 0: sample 1: 3 image tokens 9; expected 2, as many as an image has features, or none: "
            "a sample has one image at most");
  EXPECT_EQ(errorOf(write(kTokens, 2), planOf()),
            "input_ids: step 0: 1 samples have image tokens, but pixel_values has 2 images; expected as many");
  EXPECT_EQ(errorOf(write(kTokens, 3), planOf()),
            "pixel_values: found F32 [1, 3, 2, 2, 4], expected floats [1 steps, 1 to 2 images, 2, 2, 4]");
}

TEST_F(ImageData, PixelsAreFinite) {
  std::vector<float> pixels(kPixelsOfOne, 1);
  pixels[3] = std::numeric_limits<float>::quiet_NaN();
  const std::string path = write(kTokens, 1, pixels);
  const plan::Plan plan = planOf();
  GlobalBatch batch = GlobalBatch::create(plan).take();
  std::unique_ptr<DataSource> data = openData(path, plan, 1).take();
  EXPECT_EQ(data->batch(0, batch).message(),
            path + ": pixel_values: step 0, image 0: nan at element 3, expected finite numbers");
}

TEST_F(ImageData, OtherFormatsAreRefused) {
  EXPECT_TRUE(has(errorOf(dir.path("tokens.npy"), planOf()), {"holds tokens alone, but the model reads images"}));
  EXPECT_TRUE(has(openingError(write(kTokens), planOf(), {.documents = {.endToken = 2}}), {"are no packed documents"}));
}

TEST_F(ImageData, MadeUpImagesAreOfThreeInFourSamples) {
  const plan::Plan plan = planOf();
  std::unique_ptr<DataSource> data = makeMockData(plan, 1).take();
  GlobalBatch batch = GlobalBatch::create(plan).take();
  ASSERT_TRUE(isOk(data->batch(2, batch)));
  EXPECT_TRUE(isOk(checkBatch(plan, batch)));
  EXPECT_EQ((Numbers{batch.tokens.begin(), batch.tokens.begin() + 2}), (Numbers{9, 9}));
  EXPECT_EQ((Numbers{batch.labels.begin(), batch.labels.begin() + 2}), (Numbers{-100, -100}));
  EXPECT_EQ(std::count(batch.tokens.begin() + 5, batch.tokens.end(), 9), 0);
  EXPECT_NE(batch.pixels[0], 0.0F);
  EXPECT_EQ(batch.pixels[kPixelsOfOne], 0.0F);
}

TEST_F(ImageData, PlacesThatAreNoInverseAreRefused) {
  const plan::Plan plan = planOf();
  GlobalBatch batch = batchOf(makeMockData(plan, 1), plan);
  batch.imageSources[1] = 3;
  EXPECT_EQ(checkBatch(plan, batch).message(), "the batch's places of images are not the inverse of their sources");
}

} // namespace
