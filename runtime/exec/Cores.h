// The cores this process may use.
#pragma once

#include <vector>

namespace mgc {

// Their numbers, ascending, as the affinity of the calling thread says; never empty.
std::vector<int> availableCores();

} // namespace mgc
