#include "plan/json/JsonReader.h"

#include <algorithm>
#include <charconv>

namespace mgc::plan {

// A value as a message shows it: short, and never the whole of a list.
static std::string shown(const nlohmann::json &json) {
  if (json.is_array() || json.is_object())
    return fmt::format("{} of {}", json.is_array() ? "a list" : "an object", json.size());
  return printable(json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

bool JsonReader::expect(bool holds, const Json &json, std::string_view wanted, const Place &place) {
  if (!holds)
    violations_.add(place, "found {}, expected {}", shown(json), wanted);
  return holds;
}

void JsonReader::read(const Json &json, uint64_t &value, const Place &place) {
  uint64_t parsed = 0;
  bool holds = false;
  if (json.is_string()) {
    const std::string &text = json.get_ref<const std::string &>();
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed, 16);
    holds = text.size() == 16 && error == std::errc() && end == text.data() + text.size();
  }
  if (expect(holds, json, "a string of 16 hexadecimal digits", place))
    value = parsed;
}

int64_t JsonReader::choose(const Json &json, std::span<const std::string_view> names, const Place &place) {
  auto found = json.is_string() ? std::ranges::find(names, json.get_ref<const std::string &>()) : names.end();
  if (found != names.end())
    return found - names.begin();
  violations_.add(place, "found {}, expected one of {}", shown(json), fmt::join(names, " "));
  return -1;
}

void JsonReader::refuseUnknown(const Json &json, const std::set<std::string_view> &known, const Place &place) {
  for (const auto &[name, value] : json.items())
    if (!known.contains(name))
      violations_.add(place, "\"{}\" is no field of this object", printable(name));
}

} // namespace mgc::plan
