// Runs the lists of all stages against each other as the runtime would. In: per step what it sends, receives, waits for
// and meets at. Out: mismatched messages, a deadlock as the steps that wait for each other, or the times of all steps.
#pragma once

#include "runtime/base/Problems.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mgc::schedule {

struct NetworkStep {
  enum class Kind { run, send, recv } kind = Kind::run;
  int64_t peer = -1, value = -1, microbatch = -1, bytes = 0; // send, recv
  const std::vector<int64_t> *waits = nullptr;
  // run: what it meets others at, in order: index into Network::groups, and a description both sides must agree on.
  struct Meeting {
    int64_t group = 0;
    std::string what;
  };
  std::vector<Meeting> meetings;
  double seconds = 0;       // run: at most; send, recv: after both ends have started
  bool ofGradients = false; // run: on the stream of its own that task gradients has
};

struct Network {
  std::vector<std::vector<NetworkStep>> stages;
  std::vector<std::vector<int64_t>> groups; // stages that meet
  std::function<std::string(int64_t stage, int64_t step)> describe;
};

struct Times {
  std::vector<std::vector<double>> start, end; // NaN: never
};

// The k-th send from a to b and the k-th recv of b from a agree; the k-th meetings of a group agree. Needs
// well-formed steps: peers, waits and groups inside their ranges, waits on earlier steps.
void checkMatching(const Network &network, Problems &problems);

// Each stage issues its steps in list order. A step whose waits are not done holds up all after it; a run
// holds them up until it is done, and with meetings it is done when all stages of each group have arrived. A
// message is done when both ends have been issued. Times, however, are those of streams: a run starts after
// the run before it on its stream and its waits.
Times play(const Network &network, Problems &problems);

} // namespace mgc::schedule
