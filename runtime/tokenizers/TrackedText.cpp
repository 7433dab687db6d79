// See TrackedText.h.
#include "runtime/tokenizers/TrackedText.h"

#include <algorithm>

namespace mgc {

void TrackedText::assign(std::string_view text, bool isTracked, uint32_t begin) {
  text_ = text, isTracked_ = isTracked;
  origins_.clear();
  for (uint32_t i = 0; isTracked && i < text.size(); ++i)
    origins_.push_back({begin + i, begin + i + 1});
}

TextRange originOf(const TextRange *origins, size_t begin, size_t end) {
  if (begin == end)
    return {};
  TextRange all = origins[begin];
  for (size_t i = begin + 1; i < end; ++i)
    all = {std::min(all.begin, origins[i].begin), std::max(all.end, origins[i].end)};
  return all;
}

void TextRewrite::comesFrom(size_t begin, size_t end) {
  if (text_.isTracked())
    origins_.resize(out_.size(), originOf(text_.origins_.data(), begin, end));
}

void TextRewrite::copy(size_t begin, size_t end) {
  out_.append(before().substr(begin, end - begin));
  if (text_.isTracked())
    origins_.insert(origins_.end(), text_.origins_.begin() + std::ptrdiff_t(begin),
                    text_.origins_.begin() + std::ptrdiff_t(end));
}

void TextRewrite::finish() {
  text_.text_ = std::move(out_);
  text_.origins_ = std::move(origins_);
}

} // namespace mgc
