// Numbers and names as messages list them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgc::frontend {

// "1, 2, 3, 5"; a long list keeps its first values and the last: "1, 2, ..., 4096". "none" when empty.
std::string listOf(const std::vector<int64_t> &values);
std::string listOf(const std::vector<std::string> &values);
// The divisors of n (n >= 1) up to `limit`, ascending.
std::vector<int64_t> divisorsOf(int64_t n, int64_t limit);

} // namespace mgc::frontend
