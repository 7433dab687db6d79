// The cores this process may use, and how the ranks share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mgc {

// Their numbers, ascending, as the affinity of the calling thread says; never empty.
std::vector<int> availableCores();

// "AMD EPYC 9654 96-Core Processor", as the system calls it.
std::string processorName();

// How many threads each of `ranks` ranks has: its share of the cores, at least 1.
int threadsOfRank(size_t cores, int64_t ranks);

// Part `index` of `parts` of the cores, neighbours together; the parts are disjoint and as equal as can be.
std::span<const int> shareOf(std::span<const int> cores, int64_t index, int64_t parts);

// Keeps the calling thread, and those that it starts from now on, on these cores. Advice: where the system does
// not take it, they run anywhere.
void stayOn(std::span<const int> cores);

} // namespace mgc
