// See Completed.h.
#include "plan/prove/Completed.h"

#include <algorithm>
#include <iterator>

namespace mgc::plan {

bool Completed::has(StepStream stream, int64_t step) const {
  switch (stream) {
  case StepStream::compute:
    return step <= compute_;
  case StepStream::gradients:
    return step <= gradients_;
  case StepStream::message:
    return std::ranges::binary_search(messages_, step);
  }
  return false;
}

void Completed::add(StepStream stream, int64_t step) {
  if (stream == StepStream::compute)
    compute_ = std::max(compute_, step);
  else if (stream == StepStream::gradients)
    gradients_ = std::max(gradients_, step);
  else if (const auto at = std::ranges::lower_bound(messages_, step); at == messages_.end() || *at != step)
    messages_.insert(at, step);
}

void Completed::join(const Completed &other) {
  compute_ = std::max(compute_, other.compute_);
  gradients_ = std::max(gradients_, other.gradients_);
  std::vector<int64_t> both;
  std::ranges::set_union(messages_, other.messages_, std::back_inserter(both));
  messages_ = std::move(both);
}

} // namespace mgc::plan
