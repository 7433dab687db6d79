// mgc's attention, timed for test/bench/attention.py: one case per line of input,
//   s b g r d window threads repeats
// answered by the median seconds of forward and of backward. With --joined q, k and v are parts of one buffer, as
// they are where one product makes them, and so are their gradients.
#include "test/runtime/kernels/AttentionReference.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string_view>

using namespace mgc;
using namespace mgc::test;

template <typename Body> static double seconds(int repeats, Body body) {
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) { // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    body();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin() + 1, times.end());
  return times[1 + repeats / 2];
}

int main(int argc, char **argv) {
  const bool isJoined = argc > 1 && std::string_view(argv[1]) == "--joined";
  plan::Attention a;
  int threads, repeats;
  while (std::cin >> a.s >> a.b >> a.g >> a.r >> a.d >> a.window >> threads >> repeats) {
    a.t = a.s;
    AttentionProblem problem(a);
    if (isJoined)
      problem.join();
    problem.run(threads); // fills what backward reads
    std::cout << seconds(repeats, [&] { problem.pass(false, threads); }) << ' '
              << seconds(repeats, [&] { problem.pass(true, threads); }) << std::endl;
  }
}
