// Numbers as people read them.
#pragma once

#include <string>
#include <string_view>

namespace mgc {

std::string bytesText(double bytes);     // "1.50 MiB", "812 B"
std::string countText(double count);     // "1.50 M", "812"
std::string secondsText(double seconds); // "1.23 s", "4.56 ms", "7.89 us"

// Without the underscores between digits that Python allows: "1_000" is "1000". Another text stays as it is.
std::string plainNumber(std::string_view text);

} // namespace mgc
