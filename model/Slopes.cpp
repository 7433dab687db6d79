// See Slopes.h.
#include "model/Slopes.h"

#include <bit>
#include <cmath>

namespace mgc::frontend {

std::vector<double> slopesOf(int64_t heads) {
  std::vector<double> slopes;
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const auto slope = [&](double eighths, int64_t i) {
    return std::exp2(-eighths * static_cast<double>(i) / static_cast<double>(power));
  };
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(slope(8, i));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(slope(4, i));
  return slopes;
}

} // namespace mgc::frontend
