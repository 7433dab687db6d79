// Finds the calls of a plan that bind a parameter. In: a plan that passed provePlan; it outlives the object. Out: which
// stack a parameter is of, how many positions of a sample meet it, whether gradients pass it. The plan states none of
// the three; they follow from its calls, and no name is read.
#pragma once

#include "plan/Plan.h"

#include <vector>

namespace mgc::cost {

// Where in a rank's allocation a call finds one of its segments, in all of its runs. Values that were gathered count as if they lay whole
// behind the allocation, one bucket after another.
struct BoundRange {
  int64_t offset = 0, stride = 0, count = 1; // bytes; runs
  bool contains(int64_t address) const;
};

class ParameterBindings {
public:
  explicit ParameterBindings(const plan::Plan &plan);
  const plan::Plan &plan() const { return plan_; }

  // Whether the parameter is one of the encoder's layers, embedding or norms: every forward call with it comes before
  // the one that reads the decoder's tokens. False for a table that both stacks share, and in a plan without an
  // encoder.
  bool isOfEncoder(const plan::Parameter &parameter) const;

  // How many positions of a sample use it. A parameter of the decoder: the decoder's sequence, unless the rows of its
  // matrix products are the encoder's:
  //   BART, --encoder-seq-length 64 --seq 16    encoder 64; cross-attention's keys and values 64; all others 16
  //   LLaVA, 577 positions of an image          tower 577; projector 576, the class token is no feature; all others --seq
  int64_t positionsOf(const plan::Parameter &parameter) const;

  // The share of its instances whose values a backward reads: a gradient passes them.
  double sharePassedByGradients(const plan::Parameter &parameter) const;

private:
  struct ForwardUse {
    BoundRange range;
    bool isOfEncoder = false;
    double rows = 0; // rows of the matrix products with the parameter, in a microbatch on one rank
  };
  void addForward();
  void addBackward();
  std::vector<const ForwardUse *> forwardUsesOf(const plan::Parameter &parameter) const;
  bool hasRowsOfEncoder(const plan::Parameter &parameter, double rows) const;

  const plan::Plan &plan_;
  std::vector<std::vector<ForwardUse>> forward_;  // by stage; empty where there is no encoder
  std::vector<std::vector<BoundRange>> backward_; // by stage
};

} // namespace mgc::cost
