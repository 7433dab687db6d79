// The matrix products of a plan -> the plan with the path of each that is the fastest here, as measured or remembered.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc::tune {

struct TuneOptions {
  int threads = 0;   // threads of a rank; 0: the cores this process may use divided by the ranks, at least 1
  std::string cache; // file of ProductCache; empty: nothing is remembered
};

struct TunedProduct {
  plan::Gemm gemm; // with its path
  bool isByRule = true, isRemembered = false;
};

struct TuneReport {
  int threads = 1;
  std::vector<TunedProduct> products; // distinct ones with more than one path
  std::vector<std::string> notes;     // why the cache could not be read or written
};

// Sets Gemm::path of every matrix product that has more than one. Refuses more threads than the process has cores:
// their times would mean nothing.
Result<TuneReport> tuneProducts(plan::Plan &plan, const TuneOptions &options);

} // namespace mgc::tune
