// Checks that the files of machines and of stacks share. In: values and their places; out: violations.
#pragma once

#include "plan/json/JsonReader.h"

#include <cmath>
#include <map>
#include <span>

namespace mgc::cost {

class FileChecks {
public:
  explicit FileChecks(plan::Violations &violations) : violations_(violations) {}

protected:
  void number(double value, double least, double most, const plan::Place &place) {
    violations_.expect(std::isfinite(value) && value >= least && value <= most, place,
                       "found {}, expected a number from {} to {}", value, least, most);
  }
  void text(const std::string &value, const plan::Place &place) {
    violations_.expect(!value.empty(), place, "found an empty string, expected some text");
  }
  // One for each of the `sourced` fields, which are `kind`: "field with numbers".
  void sources(const std::map<std::string, std::string> &sources, std::span<const std::string_view> sourced,
               std::string_view kind, const plan::Place &place) {
    for (std::string_view name : sourced)
      violations_.expect(sources.contains(std::string(name)), place,
                         "\"{}\" is missing; expected where its numbers come from", name);
    for (const auto &[name, source] : sources) {
      violations_.expect(std::ranges::find(sourced, name) != sourced.end(), place,
                         "\"{}\" is no {}; expected one of {}", printable(name), kind, fmt::join(sourced, ", "));
      text(source, place.field(name));
    }
  }

  plan::Violations &violations_;
};

} // namespace mgc::cost
