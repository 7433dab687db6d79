// Parameters of one checkpoint tensor against each other: its shape, its parts, its names.
#include "plan/prove/VerifyParts.h"

#include "plan/Expand.h"

#include <fmt/ranges.h>
#include <map>
#include <span>

namespace mgc::plan {

Checked productOf(std::span<const int64_t> sizes) {
  Checked product = 1;
  for (int64_t size : sizes)
    product = checkedMultiply(product, size);
  return product;
}

namespace {

// How many elements of each file dimension a parameter takes, from its offset on.
std::vector<int64_t> extentsOf(const Parameter &parameter) {
  std::vector<int64_t> extents;
  size_t dim = 0;
  for (int64_t count : parameter.grouping) {
    extents.push_back(1);
    for (int64_t i = 0; i < count; ++i)
      extents.back() *= parameter.dims[dim++].valid;
  }
  return extents;
}

// Two boxes of one tensor overlap when they do along every dimension.
bool overlap(const Parameter &a, const Parameter &b) {
  const std::vector<int64_t> sizesA = extentsOf(a), sizesB = extentsOf(b);
  for (size_t j = 0; j < sizesA.size(); ++j)
    if (a.offset[j] + sizesA[j] <= b.offset[j] || b.offset[j] + sizesB[j] <= a.offset[j])
      return false;
  return true;
}

// The parameters of a tensor have its one shape, and cover it exactly once: what is loaded can be saved.
void verifyTensor(Checks &checks, const std::vector<const Parameter *> &parameters, const Place &place) {
  const Parameter &first = *parameters.front();
  const Checked whole = productOf(first.fileShape);
  Checked covered = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = *parameters[i];
    if (!checks.violations.expect(parameter.fileShape == first.fileShape, place,
                                  "tensor '{}' is [{}] in '{}', but [{}] in '{}'", first.tensor,
                                  fmt::join(parameter.fileShape, ", "), parameter.name,
                                  fmt::join(first.fileShape, ", "), first.name) ||
        !checks.violations.expect(parameter.shapeOfTensor() == first.shapeOfTensor(), place,
                                  "tensor '{}' has the shape [{}] in '{}', but [{}] in '{}'", first.tensor,
                                  fmt::join(parameter.shapeOfTensor(), ", "), parameter.name,
                                  fmt::join(first.shapeOfTensor(), ", "), first.name))
      return;
    checks.violations.expect(
        parameter.aliases == first.aliases, place, "tensor '{}' has the aliases [{}] in '{}', but [{}] in '{}'",
        first.tensor, fmt::join(parameter.aliases, ", "), parameter.name, fmt::join(first.aliases, ", "), first.name);
    checks.violations.expect(isCounter(checks.plan, parameter) == isCounter(checks.plan, first), place,
                             "one of '{}' and '{}' counts, and is in no file; expected both or none, as both "
                             "are of tensor '{}'",
                             first.name, parameter.name, first.tensor);
    checks.violations.expect(isFrozen(checks.plan, parameter) == isFrozen(checks.plan, first), place,
                             "one of '{}' and '{}' is frozen; expected both or none, as both are of tensor '{}'",
                             first.name, parameter.name, first.tensor);
    covered = checkedAdd(covered, productOf(extentsOf(parameter)));
    for (size_t j = 0; j < i; ++j)
      checks.violations.expect(!overlap(parameter, *parameters[j]), place,
                               "'{}' and '{}' both hold a part of tensor '{}'", parameters[j]->name, parameter.name,
                               first.tensor);
  }
  checks.violations.expect(whole && covered == whole, place, "of tensor '{}' {} elements are held, expected its {}",
                           first.tensor, covered.value_or(-1), whole.value_or(-1));
}

using Tensors = std::map<std::string_view, std::vector<const Parameter *>>; // by name

// The names that a checkpoint may have for the tensors of a name: of a stack one for each.
std::vector<std::string> namesOf(const std::string &name, const Parameter &parameter) {
  std::vector<std::string> names;
  for (int64_t number = 0; number < std::max<int64_t>(parameter.stacked, 1); ++number)
    names.push_back(nameInStack(name, number));
  return names;
}

// A name in a checkpoint means one tensor.
void verifyNames(Checks &checks, const Tensors &tensors, const Place &place) {
  std::map<std::string, std::string_view> tensorOf;
  for (const auto &[tensor, parts] : tensors)
    for (std::string &name : namesOf(std::string(tensor), *parts.front())) {
      const auto [entry, isNew] = tensorOf.try_emplace(std::move(name), tensor);
      checks.violations.expect(isNew, place, "tensors '{}' and '{}' both have the name '{}' in a checkpoint",
                               entry->second, tensor, entry->first);
    }
  for (const auto &[tensor, parts] : tensors)
    for (const std::string &alias : parts.front()->aliases)
      for (std::string &name : namesOf(alias, *parts.front())) {
        const auto [entry, isNew] = tensorOf.try_emplace(std::move(name), tensor);
        checks.violations.expect(isNew && !alias.empty(), place,
                                 "alias '{}' of tensor '{}' is empty or a name of tensor '{}' already", alias, tensor,
                                 entry->second);
      }
}

} // namespace

void verifyTensors(Checks &checks, const std::vector<Parameter> &all, const Place &place) {
  Tensors tensors;
  for (const Parameter &parameter : all)
    tensors[parameter.tensor].push_back(&parameter);
  for (const auto &[name, parts] : tensors)
    verifyTensor(checks, parts, place);
  verifyNames(checks, tensors, place);
}

} // namespace mgc::plan
