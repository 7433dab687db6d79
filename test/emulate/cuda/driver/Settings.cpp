#include "test/emulate/cuda/driver/Settings.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace mgc::emulate {
namespace {

[[noreturn]] void refuse(std::string_view entry) {
  std::fprintf(stderr,
               "MGC_EMULATE_CUDA: found \"%.*s\"; expected NAME=NUMBER, NAME one of devices, capability, memory, seed, "
               "delay, fail-launch, hang-launch, fail-allocation, calls\n",
               static_cast<int>(entry.size()), entry.data());
  std::_Exit(2);
}

Settings read(std::string_view text) {
  Settings settings;
  const std::map<std::string_view, uint64_t *> wide = {{"memory", &settings.memory},
                                                       {"seed", &settings.seed},
                                                       {"delay", &settings.delay},
                                                       {"fail-launch", &settings.failLaunch},
                                                       {"hang-launch", &settings.hangLaunch},
                                                       {"calls", &settings.calls},
                                                       {"fail-allocation", &settings.failAllocation}};
  const std::map<std::string_view, int *> narrow = {{"devices", &settings.devices},
                                                    {"capability", &settings.capability}};
  while (!text.empty()) {
    std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(entry.size() + (entry.size() < text.size()));
    std::string_view name = entry.substr(0, entry.find('='));
    if (name.size() == entry.size())
      refuse(entry);
    const std::string value(entry.substr(name.size() + 1));
    char *end = nullptr;
    const uint64_t number = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || *end)
      refuse(entry);
    if (wide.count(name))
      *wide.at(name) = number;
    else if (narrow.count(name))
      *narrow.at(name) = static_cast<int>(number);
    else
      refuse(entry);
  }
  return settings;
}

} // namespace

const Settings &settings() {
  static const Settings all = [] {
    const char *text = std::getenv("MGC_EMULATE_CUDA");
    return read(text ? text : "");
  }();
  return all;
}

int mostSharedBytes() {
  static const std::map<int, int> kibibytes = {{0, 64},  {80, 163}, {86, 99},   {87, 163},
                                               {89, 99}, {90, 227}, {100, 227}, {120, 99}}; // by the least capability
  return std::prev(kibibytes.upper_bound(settings().capability))->second << 10;
}

} // namespace mgc::emulate
