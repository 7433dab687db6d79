// A machine whose rates make small numbers, for times worked out on paper.
//
//   f32 100 FLOP/s, bf16 200; two units that make tiles of 4 x 2 at half of the peak, each as long as one step of k more
//   attention at 1/2 of the peak, its backward at 1/4; row kernels at 1/2; memory 500 bytes/s reached, the host's 10
//   launch 1 s; links: 2 ranks to a node with 4 bytes/s reached and 3 s latency, nodes with 1 byte/s and 5 s
#pragma once

#include "plan/cost/Machine.h"

namespace mgc::cost {

inline Machine makeToyMachine() {
  Machine machine;
  machine.name = machine.device = "toy";
  machine.target = "cpu";
  machine.flops = {100, 200};
  machine.products = {2, 1, {{4, 2, 0.5}}};
  machine.attention = {0.5, 0.25};
  machine.rows = 0.5;
  machine.memory = {4000, 1000, 0.5};
  machine.host = {8000, 20, 0.5};
  machine.launch = 1;
  machine.links = {{2, 8, 0.5, 3}, {0, 2, 0.5, 5}};
  return machine;
}

} // namespace mgc::cost
