// Numbers as people read them.
#pragma once

#include <string>

namespace mgc {

std::string bytesText(double bytes);     // "1.50 MiB", "812 B"
std::string countText(double count);     // "1.50 M", "812"
std::string secondsText(double seconds); // "1.23 s", "4.56 ms", "7.89 us"

} // namespace mgc
