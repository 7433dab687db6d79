#include "runtime/exec/ProductChoices.h"

#include "runtime/exec/RandomOperands.h"

#include <algorithm>

namespace mgc {

namespace {

std::string_view nameOf(mgc_type type) { return type == MGC_BF16 ? "bf16" : "f32"; }
std::string_view nameOf(mgc_epilogue epilogue) { return epilogue == MGC_BIAS ? " bias" : ""; }

Status checkAlgorithm(const nlohmann::json &value) {
  return jsonSize(value) ? Status::ok()
                         : errorf("found {}, expected the number of an algorithm", printable(value.dump()));
}

} // namespace

ChoiceFormat deviceProductFormat() {
  return {"mgc device products",    "1",     "a cache of a device's products",
          nlohmann::json::object(), nullptr, checkAlgorithm};
}

Result<ProductChoices> ProductChoices::open(const plugin::PluginDevice &device, std::string cache) {
  MGC_ASSIGN(facts, device.describe());
  ProductChoices choices(device, facts.products, std::move(cache));
  MGC_TRY(choices.cache_.load(choices.notes_));
  return choices;
}

// All that the library is told of a matrix product but for its algorithm.
std::string ProductChoices::keyOf(const mgc_gemm_facts &f) const {
  return fmt::format("{}, m={} n={} k={} {} -> {}{}{}{}{}, workspace {}, alignment {}", kind_, f.m, f.n, f.k,
                     nameOf(f.input), nameOf(f.output), f.transpose_a ? " A'" : "", f.transpose_b ? " B'" : "",
                     f.accumulate ? " accumulated" : "", nameOf(f.epilogue), f.workspace_bytes, f.alignment);
}

int64_t ProductChoices::algorithmOf(const mgc_gemm_facts &product) const {
  const auto found = chosen_.find(keyOf(product));
  return found == chosen_.end() ? 0 : found->second;
}

// A file may say what the library does not have.
std::optional<int64_t> ProductChoices::remembered(const std::string &key, mgc_gemm_facts product) {
  const std::optional<nlohmann::json> known = cache_.find(key);
  if (!known)
    return std::nullopt;
  product.algorithm = *jsonSize(*known);
  const Result<plugin::GemmCall> call = device_->makeGemm(product);
  if (call.isOk())
    return product.algorithm;
  notes_.push_back(
      fmt::format("{}: \"{}\": {}; measured anew", cache_.path(), printable(key), call.status().message()));
  return std::nullopt;
}

Result<std::optional<int64_t>> ProductChoices::measure(const plugin::Stream &stream, MeasuringRoom room,
                                                       const mgc_gemm_facts &product) {
  MGC_ASSIGN(needed, device_->roomToChooseGemm(stream, product));
  if (needed > room.bytes) {
    notes_.push_back(fmt::format("{}: measuring it needs {} bytes, the rank has {}; the library's choice is taken",
                                 keyOf(product), needed, room.bytes));
    return std::optional<int64_t>();
  }
  if (needed > 0)
    MGC_TRY(fillWithNumbers(*device_, stream, room.address, needed));
  ++measured_;
  MGC_ASSIGN(algorithm, device_->chooseGemm(stream, product, room.address));
  return std::optional(algorithm);
}

// At once: measuring all takes a while, and the program may be stopped.
void ProductChoices::keep(const std::string &key, int64_t algorithm) {
  cache_.add(key, algorithm);
  if (const Status written = isWritable_ ? cache_.save() : Status::ok(); !written.isOk()) {
    isWritable_ = false;
    notes_.push_back(fmt::format("{}; the choices are not kept, and another run may choose otherwise and "
                                 "give other bits",
                                 written.message()));
  }
}

Status ProductChoices::choose(const plugin::Stream &stream, MeasuringRoom room,
                              std::span<const mgc_gemm_facts> products) {
  for (const mgc_gemm_facts &product : products) {
    const std::string key = keyOf(product);
    if (chosen_.contains(key))
      continue;
    std::optional<int64_t> algorithm = remembered(key, product);
    if (!algorithm) {
      MGC_SET(algorithm, measure(stream, room, product));
      if (algorithm)
        keep(key, *algorithm);
    }
    chosen_[key] = algorithm.value_or(0);
  }
  return Status::ok();
}

std::string ProductChoices::text() const { return nlohmann::json(chosen_).dump(); }

Status ProductChoices::adopt(std::string_view text) {
  MGC_ASSIGN(choices, parseJson(text));
  for (const auto &[key, value] : choices.items()) {
    MGC_TRY(checkAlgorithm(value).at(printable(key)));
    chosen_.insert_or_assign(key, *jsonSize(value));
  }
  return Status::ok();
}

std::vector<std::string> ProductChoices::notes() const {
  std::vector<std::string> notes = notes_;
  const auto others = std::ranges::count_if(chosen_, [](const auto &one) { return one.second != 0; });
  notes.push_back(fmt::format("products: {} measured here, {} not; {} of {} other than the library's choice{}",
                              measured_, int64_t(chosen_.size()) - measured_, others, chosen_.size(),
                              cache_.path().empty() || !isWritable_ ? "" : "; kept in " + cache_.path()));
  return notes;
}

} // namespace mgc
