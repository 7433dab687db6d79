// The steps of one stage that have completed when a step starts, as far as the stage's own list lets one know: the runs of a stream
// complete in order; a message is known to have completed only where a step waited for it.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::plan {

enum class StepStream { compute, gradients, message };

// Steps are numbered as they run.
class Completed {
public:
  bool has(StepStream stream, int64_t step) const;
  void add(StepStream stream, int64_t step);
  void join(const Completed &other);

  int64_t lastCompute() const { return compute_; }
  int64_t lastGradients() const { return gradients_; }
  const std::vector<int64_t> &messages() const { return messages_; } // ascending
  template <typename Keep> void keepMessages(Keep keep) {
    std::erase_if(messages_, [&](int64_t message) { return !keep(message); });
  }

private:
  int64_t compute_ = -1, gradients_ = -1; // the last run that has completed
  std::vector<int64_t> messages_;
};

} // namespace mgc::plan
