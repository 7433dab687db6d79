// See GradientNorms.h.
#include "runtime/checkpoint/GradientNorms.h"

#include "runtime/base/InParallel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mgc {

using plan::Parameter;
using plan::Plan;

std::string layerOf(const std::string &tensor) {
  const auto isNumber = [](std::string_view word) {
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  };
  for (size_t begin = 0; begin < tensor.size();) {
    const size_t end = std::min(tensor.find('.', begin), tensor.size());
    if (isNumber(std::string_view(tensor).substr(begin, end - begin)))
      return tensor.substr(0, end);
    begin = end + 1;
  }
  const size_t last = tensor.rfind('.');
  return last == std::string::npos ? tensor : tensor.substr(0, last);
}

static bool hasGradient(const Plan &plan, const Parameter &parameter) {
  const Parameter::Place &place = parameter.places.front();
  const plan::Bucket &bucket = plan.stages[place.stage].buckets[place.bucket];
  return bucket.use == plan::BucketUse::trained;
}

GradientNorms::GradientNorms(const Plan &plan, Arenas arenas)
    : arenas_(arenas), pieces_(static_cast<size_t>(plan.mesh.worldSize())) {
  for (const Parameter &parameter : plan.parameters) {
    if (!hasGradient(plan, parameter))
      continue;
    const std::string layer = layerOf(tensorNames(parameter).front());
    const auto number = static_cast<size_t>(std::ranges::find(layers_, layer) - layers_.begin());
    if (number == layers_.size())
      layers_.push_back(layer);
    for (const std::vector<Holder> &holders : blocksOf(plan, parameter)) {
      const int64_t place = holders[0].place;
      const auto bufferOf = [&](int64_t rank) {
        return BucketBuffer(plan, parameter, {place, rank}, gradientsOf, arenas_);
      };
      const BucketBuffer owner = bufferOf(holders[0].rank);
      for (const int64_t rank : owner.ranks()) {
        if (!arenas_[rank])
          continue;
        pieces_[rank].resize(std::max(pieces_[rank].size(), layers_.size()));
        pieces_[rank][number].push_back(
            {bufferOf(rank), shardOf(plan.mesh, parameter, rank), beginOf(parameter, Holder{place, rank})});
      }
    }
  }
}

double GradientNorms::squaresOf(const Pieces &pieces) {
  double sum = 0;
  std::vector<float> values;
  for (const auto &[buffer, shard, begin] : pieces)
    for (int64_t row = 0; row < shard.rows; ++row) {
      const BucketRange own = buffer.ownPart({begin + row * shard.rowStride, shard.rowElements});
      values.resize(static_cast<size_t>(own.count));
      buffer.read(own, values.data());
      for (const float value : values)
        sum += double(value) * double(value);
    }
  return sum;
}

Result<std::vector<LayerNorm>> GradientNorms::read(double scale, Communicator *communicator) const {
  RankMemory memory(arenas_, communicator);
  std::vector<double> sums(layers_.size());
  std::vector<std::byte> scratch;
  for (size_t rank = 0; rank < pieces_.size(); ++rank) {
    std::vector<double> own(layers_.size());
    forEachInParallel(std::ssize(pieces_[rank]), [&](int64_t layer) { own[layer] = squaresOf(pieces_[rank][layer]); });
    MGC_ASSIGN(come, memory.fetch(static_cast<int64_t>(rank), std::as_bytes(std::span(own)).data(),
                                  static_cast<int64_t>(own.size() * sizeof(double)), scratch));
    if (!memory.isWriter())
      continue;
    if (come != std::as_bytes(std::span(own)).data())
      std::memcpy(own.data(), come, own.size() * sizeof(double));
    for (size_t layer = 0; layer < sums.size(); ++layer)
      sums[layer] += own[layer];
  }
  std::vector<LayerNorm> norms;
  for (size_t layer = 0; layer < sums.size() && memory.isWriter(); ++layer)
    norms.push_back({layers_[layer], std::sqrt(sums[layer]) * scale});
  return norms;
}

} // namespace mgc
