// Fields of a config.json that transformers' classes read, their spellings and defaults: a table that scripts/class-fields
// generates from the package's sources.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace mgc::frontend {

struct ClassFields {
  std::string_view modelType, className;
  std::string_view base = {};      // the class of the model without its head; empty: it has none
  std::string_view fields = {};    // words: fields that the class's code reads
  std::string_view spellings = {}; // words OTHER=FIELD
  std::string_view defaults = {};  // JSON text: values of missing fields, without those that are null
  double theta = 0;                // default of rope_theta; 0: the class has none, or one for each type of layers

  std::set<std::string_view> names() const; // all of `fields`
  bool reads(std::string_view field) const;
  std::vector<std::pair<std::string_view, std::string_view>> otherSpellings() const;
  nlohmann::json defaultValues() const;
};

// Settings of generate(), which transformers takes out of a config.json, and fields of rope_parameters, of all classes.
inline constexpr std::string_view kGenerationFields = "(generation)", kRopeFields = "(rope)",
                                  kFieldsOfAny = "(any)"; // read by the base class of all models

// Null: transformers has no such class, or mgc no such family.
const ClassFields *classFieldsOf(std::string_view modelType);

} // namespace mgc::frontend
