// Seconds of programs and runs on one rank, by kind of instruction.
//
// Experts are priced where load is even: an exchange as if a rank's rows went to all ranks alike, grouped products with as many rows
// as come then. Row kernels are priced over all places, which is more than the rows that come.
#pragma once

#include "plan/Joins.h"
#include "plan/Plan.h"
#include "plan/cost/Cluster.h"

#include <array>
#include <numeric>
#include <vector>

namespace mgc::cost {

inline constexpr size_t kAxisRoles = plan::enumNames<plan::AxisRole>.size();
inline constexpr size_t kRowExchanges = kAxisRoles; // index after the roles
// Seconds of collectives, by the outermost role of their axes; and of exchanges of rows, whatever their axes.
using SecondsByUse = std::array<double, kAxisRoles + 1>;
inline double total(const SecondsByUse &seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

struct ProgramTime {
  double products = 0, attention = 0, rows = 0, moves = 0; // seconds
  double launches = 0; // the device waits for the host to start kernels: SoftwareStack::kernel
  SecondsByUse exposed = {}, hidden = {};
  double flops = 0; // matrix products and attention, the mean where ranks differ
  // Copies between host and device that nothing hides, and the others; 0 of a program.
  double hostCopies = 0, hiddenHostCopies = 0;

  double compute() const { return products + attention + rows + moves + launches; }
  double seconds() const { return compute() + total(exposed) + hostCopies; } // from begin to end
  ProgramTime &operator+=(const ProgramTime &other);
  ProgramTime operator*(double times) const;
};

// A run of the program alone, whatever it binds (RunTime.h). Copies between host and device are left out: HostCopyTime.h has them.
// `rowBytes`: bytes of row kernels over those of the program.
ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, double rowBytes = 1);
// The same with the bytes of its works (RunWalk.h), or of the works of a program that is the same but for sizes.
ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, const plan::ProgramWorks &works,
                      double rowBytes = 1);

} // namespace mgc::cost
