// See ImageData.h.
#include "runtime/data/ImageData.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mgc {

using plan::Images;
using plan::Plan;

Result<std::vector<int64_t>> placeImages(const BatchShape &shape, GlobalBatch &batch) {
  const Images &images = shape.images;
  std::ranges::fill(batch.imagePlaces, -1);
  std::ranges::fill(batch.imageSources, -1);
  std::vector<int64_t> with;
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    int64_t count = 0;
    for (int64_t position = 0; position < shape.length; ++position) {
      const int64_t index = sample * shape.length + position;
      if (batch.tokens[index] != images.token)
        continue;
      if (const int64_t feature = images.firstFeature + count++; feature < images.positions()) {
        batch.imagePlaces[index] = static_cast<int32_t>(feature);
        batch.imageSources[sample * shape.encoderLength + feature] = static_cast<int32_t>(position);
      }
    }
    if (count != 0 && count != images.features())
      return errorf("sample {}: {} image tokens {}; expected {}, as many as an image has features, or none: a sample "
                    "has one image at most",
                    sample, count, images.token, images.features());
    if (count > 0)
      with.push_back(sample);
  }
  return with;
}

namespace {

class ImageData : public DataSource {
public:
  static Result<std::unique_ptr<DataSource>> open(std::unique_ptr<DataSource> tokens, const BatchFile &file,
                                                  const Plan &plan) {
    const Images &images = plan.images;
    MGC_ASSIGN(pixels, file.floats(kPixels, std::array{images.channels, images.height(), images.width()},
                                   plan.globalBatchSize));
    std::unique_ptr<ImageData> data(new ImageData(std::move(tokens), std::move(pixels), file, plan));
    MGC_ASSIGN(batch, GlobalBatch::create(plan));
    MGC_TRY(data->scan(batch));
    return std::unique_ptr<DataSource>(std::move(data));
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_ASSIGN(known, numberOfBatch(first, shape_, steps_));
    MGC_ASSIGN(samples, place(known, out));
    out.first = first;
    const int64_t each = shape_.images.pixels();
    std::ranges::fill(out.pixels, 0.0F);
    for (int64_t i = 0; i < perStep_; ++i) {
      const std::span<float> image = std::span(out.pixels).subspan(size_t(samples[i] * each), size_t(each));
      MGC_TRY(pixels_.readFloats((known * perStep_ + i) * each, each, image.data()));
      const auto wrong = std::ranges::find_if(image, [](float value) { return !std::isfinite(value); });
      if (wrong != image.end())
        return errorf("{}: step {}, image {}: {} at element {}, expected finite numbers", where_, known, i, *wrong,
                      wrong - image.begin());
    }
    return Status::ok();
  }

  std::string describe() const override { return fmt::format("{}, {} images in each", tokens_->describe(), perStep_); }
  std::string describeBatch(int64_t first) override { return tokens_->describeBatch(first); }
  std::optional<double> epochsOf(int64_t samples) const override { return tokens_->epochsOf(samples); }

private:
  ImageData(std::unique_ptr<DataSource> tokens, TensorFile pixels, const BatchFile &file, const Plan &plan)
      : tokens_(std::move(tokens)), pixels_(std::move(pixels)), where_(file.where(kPixels)), ids_(file.where(kIds)),
        steps_(file.steps()), perStep_(pixels_.elements / (steps_ * plan.images.pixels())), shape_(plan) {}

  // The samples of a step of the file that have the images.
  Result<std::vector<int64_t>> place(int64_t step, GlobalBatch &out) const {
    MGC_TRY(tokens_->batch(step * shape_.samples, out));
    MGC_ASSIGN(samples, placeImages(shape_, out).at(fmt::format("{}: step {}", ids_, step)));
    if (static_cast<int64_t>(samples.size()) != perStep_)
      return errorf("{}: step {}: {} samples have image tokens, but {} has {} images; expected as many", ids_, step,
                    samples.size(), kPixels, perStep_);
    return samples;
  }

  // Image tokens that are not those of the images are an error before training.
  Status scan(GlobalBatch &batch) const {
    for (int64_t step = 0; step < steps_ && step * int64_t(batch.tokens.size()) < kScannedElements; ++step)
      MGC_TRY(place(step, batch).status());
    return Status::ok();
  }

  std::unique_ptr<DataSource> tokens_;
  TensorFile pixels_;
  std::string where_, ids_;
  int64_t steps_, perStep_; // images of a step
  BatchShape shape_;
};

class MadeUpImages : public DataSource {
public:
  MadeUpImages(std::unique_ptr<DataSource> tokens, const Plan &plan, uint64_t seed)
      : tokens_(std::move(tokens)), shape_(plan), seed_(seed) {}

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(tokens_->batch(first, out));
    const auto length = static_cast<size_t>(shape_.length);
    for (int64_t sample = 0; sample < shape_.samples; ++sample)
      show(uint64_t(first + sample), std::span(out.tokens).subspan(size_t(sample) * length, length),
           std::span(out.labels).subspan(size_t(sample) * length, length));
    MGC_ASSIGN(with, placeImages(shape_, out));
    std::ranges::fill(out.pixels, 0.0F);
    const int64_t each = shape_.images.pixels();
    for (int64_t sample : with)
      draw(uint64_t(first + sample), std::span(out.pixels).subspan(size_t(sample * each), size_t(each)));
    return Status::ok();
  }
  std::string describe() const override { return tokens_->describe() + ", made-up images"; }
  std::string describeBatch(int64_t first) override { return tokens_->describeBatch(first); }

private:
  // The chain's own image tokens become another token.
  void show(uint64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const {
    const auto image = static_cast<int32_t>(shape_.images.token), other = image == 0 ? 1 : 0;
    std::ranges::replace(tokens, image, other);
    std::ranges::replace(labels, image, other);
    if (sample % 4 == 3)
      return;
    const auto features = static_cast<size_t>(shape_.images.features());
    std::ranges::fill(tokens.first(features), image);
    std::ranges::fill(labels.first(features), kIgnoredLabel);
  }
  // Uniform from -1 to 1.
  void draw(uint64_t sample, std::span<float> pixels) const {
    constexpr float kUnit = 1.0F / 2147483648.0F;
    for (size_t i = 0; i < pixels.size(); ++i) {
      const PhiloxWords words = philox(
          {lowWord(sample), highWord(sample), uint32_t(i / 4), lowWord(hashName("mock images"))}, philoxKey(seed_));
      pixels[i] = static_cast<float>(static_cast<int32_t>(words[i % 4])) * kUnit;
    }
  }

  std::unique_ptr<DataSource> tokens_;
  BatchShape shape_;
  uint64_t seed_;
};

} // namespace

Result<std::unique_ptr<DataSource>> withImages(std::unique_ptr<DataSource> tokens, const BatchFile &file,
                                               const Plan &plan) {
  return ImageData::open(std::move(tokens), file, plan);
}

std::unique_ptr<DataSource> withMadeUpImages(std::unique_ptr<DataSource> tokens, const Plan &plan, uint64_t seed) {
  return std::make_unique<MadeUpImages>(std::move(tokens), plan, seed);
}

} // namespace mgc
