// Seconds of a program on one rank, by kind of instruction. In: the program and the devices. Out: a ProgramTime.
//
// On a target whose collectives leave its cores to matrix products (plan::leavesCoresToProducts), a collective is
// hidden by the products and attention that follow it, second for second, up to the first instruction that touches its
// operands: row kernels and moves hide nothing, as they want the memory that the collective uses. The rest is exposed,
// and takes the time of the program. Collectives of a program follow each other. Exchanges of rows are collectives like
// others. A stack (Stack.h) may have other rules for the collectives of a role. A product concurrent with a collective is slower by the
// units that the collective takes (LinkLevel::units).
//
//   dgrad 3 s   reduce 4 s   norm 1 s   wgrad 3 s   reads reduce's result
//               |----------- hidden ----3 s|1 s exposed|
//
// Experts are priced where load is even: an exchange as if a rank's rows went to all ranks alike, grouped products with as many rows
// as come then. Row kernels are priced over all places, which is more than the rows that come.
#pragma once

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

// Copies between host and device are left out: HostCopyTime.h has them. `rowBytes`: bytes of row kernels over those of the program.
ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, double rowBytes = 1);

// Seconds of each instruction of the program by itself, run once: a collective also where it is hidden.
std::vector<double> secondsOfInstructions(const Cluster &cluster, const plan::Program &program);

// The cost of all calls of the chunk. `programs`: by program of the plan.
ProgramTime secondsOf(const plan::Chunk &chunk, const std::vector<ProgramTime> &programs);

// The cost of two chunks whose runs are a pair, in alternating turns (plan/PairTurns.h): the collectives of each
// overlap the matrix products of both.
ProgramTime secondsOfPair(const Cluster &cluster, const plan::Plan &plan, const plan::Chunk &first,
                          const plan::Chunk &second);

} // namespace mgc::cost
