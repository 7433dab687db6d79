// Element by element over the ranks, in their order.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::emulate {

bool canReduce(uint32_t type, uint32_t op);
std::vector<char> reduced(uint32_t type, uint32_t op, const std::vector<const std::vector<char> *> &parts);

} // namespace mgc::emulate
