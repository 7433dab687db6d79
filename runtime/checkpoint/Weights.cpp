#include "runtime/checkpoint/Weights.h"

#include "runtime/base/InParallel.h"
#include "runtime/base/Problems.h"

#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/VerifyWeights.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <set>

namespace mgc {

using plan::Bucket;
using plan::Parameter;
using plan::Plan;

namespace {

// The tensor under its name, else under the first alias that the checkpoint has; null: under none.
const TensorView *findTensor(const Checkpoint &checkpoint, const FileTensor &tensor) {
  const TensorView *found = checkpoint.find(tensor.name);
  for (size_t i = 0; !found && i < tensor.aliases.size(); ++i)
    found = checkpoint.find(tensor.aliases[i]);
  return found;
}

// The first number that is not finite in f32; empty: there is none.
std::string describeNotFinite(const TensorView &view) {
  float staged[kStaged];
  for (int64_t done = 0; done < view.elements(); done += kStaged) {
    const int64_t count = std::min(kStaged, view.elements() - done);
    convertToF32(view, done, count, staged);
    if (const float *bad = std::find_if_not(staged, staged + count, [](float x) { return std::isfinite(x); });
        bad != staged + count)
      return fmt::format("element {} is {}", done + (bad - staged), *bad);
  }
  return "";
}

// Whether the checkpoint has the tensor in MXFP4: numbers of 4 bits in blocks, and a scale for each block.
bool isQuantized(const Checkpoint &checkpoint, const FileTensor &tensor) {
  return checkpoint.find(tensor.name + "_blocks") && checkpoint.find(tensor.name + "_scales");
}

// The problem with the checkpoint's tensor; empty: none.
std::string problemWith(const Checkpoint &checkpoint, const TensorView *found, const FileTensor &expected) {
  std::string shape = shapeToString(expected.shape);
  if (!found && isQuantized(checkpoint, expected))
    return fmt::format("quantized to MXFP4 (.._blocks and .._scales), expected F32, BF16, F16 or F64 {}; the "
                       "model's files of bf16 have it",
                       shape);
  if (!found)
    return fmt::format("missing, expected shape {}", shape);
  if (found->shape != expected.shape)
    return fmt::format("found shape {}, expected {}", shapeToString(found->shape), shape);
  if (!isFloat(found->type))
    return fmt::format("found {} {}, expected F32, BF16, F16 or F64", toString(found->type), shape);
  // A bias that only orders experts would never show in the loss.
  if (const std::string bad = expected.isRouterBias ? describeNotFinite(*found) : ""; !bad.empty())
    return fmt::format("{}, expected finite numbers: experts are chosen by this bias", bad);
  return "";
}

Status report(const Checkpoint &checkpoint, const std::vector<std::string> &problems, bool allMissing) {
  std::string text = fmt::format("{}: {} tensors do not fit the plan", checkpoint.path(), problems.size());
  Problems listed;
  for (const std::string &problem : problems)
    listed.add("  {}", problem);
  text += "\n" + listed.text();
  std::vector<std::string> names = checkpoint.names();
  names.resize(std::min<size_t>(names.size(), 3));
  if (names.empty())
    text += "\n  it has no tensors at all";
  else if (allMissing)
    text += fmt::format("\n  it has tensors such as {}: is it another model?", fmt::join(names, ", "));
  return Status::error(std::move(text));
}

// Whether the name is the pattern, in which "{}" stands for a number.
bool matches(std::string_view pattern, std::string_view name) {
  for (size_t hole; (hole = pattern.find("{}")) != pattern.npos;) {
    if (!name.starts_with(pattern.substr(0, hole)))
      return false;
    name.remove_prefix(hole);
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0)
      return false;
    pattern.remove_prefix(hole + 2);
    name.remove_prefix(digits);
  }
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

bool isIgnored(const Plan &plan, std::string_view name) {
  return std::ranges::any_of(plan.ignoredTensors, [&](const std::string &pattern) { return matches(pattern, name); });
}

// Tensors of the checkpoint under an alias, which equal the tensor that was found.
std::set<std::string> copies(const Checkpoint &checkpoint, const std::vector<FileTensor> &tensors,
                             const std::vector<const TensorView *> &views) {
  std::set<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (const std::string &alias : tensors[i].aliases)
      if (const TensorView *other = checkpoint.find(alias); other && views[i] && areEqual(*other, *views[i]))
        names.insert(alias);
  return names;
}

// Tensors of the checkpoint that no view is of, nor a copy of one, and that the plan does not ignore.
std::vector<std::string> extraTensors(const Plan &plan, const Checkpoint &checkpoint,
                                      const std::vector<FileTensor> &tensors,
                                      const std::vector<const TensorView *> &views) {
  const std::set<const TensorView *> read(views.begin(), views.end());
  const std::set<std::string> copied = copies(checkpoint, tensors, views);
  std::vector<std::string> extra;
  for (const std::string &name : checkpoint.names())
    if (!read.contains(checkpoint.find(name)) && !copied.contains(name) && !isIgnored(plan, name))
      extra.push_back(fmt::format("{}: not in the model", name));
  return extra;
}

// The checkpoint's tensor for each of `tensors`, all of the right shape and a type that can be read.
Result<std::vector<const TensorView *>> match(const Plan &plan, const Checkpoint &checkpoint,
                                              const std::vector<FileTensor> &tensors, const LoadOptions &options) {
  if (checkpoint.holdsGradients())
    return errorf("{}: holds gradients, as --save-gradients writes them, expected weights", checkpoint.path());
  std::vector<const TensorView *> views;
  std::vector<std::string> problems;
  for (const FileTensor &tensor : tensors) {
    views.push_back(findTensor(checkpoint, tensor));
    if (std::string problem = problemWith(checkpoint, views.back(), tensor); !problem.empty())
      problems.push_back(fmt::format("{}: {}", tensor.name, problem));
  }
  bool allMissing = std::ranges::all_of(views, [](const TensorView *view) { return view == nullptr; });
  std::vector<std::string> extra;
  if (!options.ignoreExtra && !allMissing)
    extra = extraTensors(plan, checkpoint, tensors, views);
  if (!extra.empty())
    extra.back() += options.hint;
  problems.insert(problems.end(), extra.begin(), extra.end());
  if (!problems.empty())
    return report(checkpoint, problems, allMissing);
  return views;
}

} // namespace

// Reads the parameter's tensor, or tensors, of the checkpoint.
static Fill fillFrom(const Parameter &parameter, const std::map<std::string, const TensorView *> &byName) {
  std::vector<Fill> tensors;
  int64_t elements = 0;
  for (const std::string &name : tensorNames(parameter)) {
    const TensorView &view = *byName.at(name);
    elements = view.elements();
    tensors.push_back([&view](int64_t file, int64_t count, float *out) { convertToF32(view, file, count, out); });
  }
  return fillOfStack(std::move(tensors), elements);
}

Status verifyFits(const Plan &plan, const Checkpoint &checkpoint) {
  return match(plan, checkpoint, fileTensors(plan), {.hint = ""}).status();
}

Status loadWeights(const Plan &plan, const Checkpoint &checkpoint, Arenas arenas, const LoadOptions &options,
                   const FillOptions &fill) {
  MGC_TRY(verifyArenas(plan, arenas));
  std::vector<FileTensor> tensors = fileTensors(plan);
  MGC_ASSIGN(views, match(plan, checkpoint, tensors, options));
  std::map<std::string, const TensorView *> byName;
  for (size_t i = 0; i < tensors.size(); ++i)
    byName[tensors[i].name] = views[i];
  fillBuckets(plan, arenas, fill, {[&](const Parameter &parameter) { return fillFrom(parameter, byName); }});
  return Status::ok();
}

std::vector<std::string> ignoredTensors(const Plan &plan, const Checkpoint &checkpoint) {
  std::vector<std::string> ignored = checkpoint.names();
  std::erase_if(ignored, [&](const std::string &name) { return !isIgnored(plan, name); });
  return ignored;
}

Status verifyFinite(const Plan &plan, const Checkpoint &checkpoint) {
  const std::vector<FileTensor> tensors = fileTensors(plan);
  std::vector<std::string> problems(tensors.size());
  forEachInParallel(int64_t(tensors.size()), [&](int64_t i) {
    if (const TensorView *view = findTensor(checkpoint, tensors[i]))
      if (const std::string bad = describeNotFinite(*view); !bad.empty())
        problems[i] = fmt::format("\n  {}: {}", tensors[i].name, bad);
  });
  return reportProblems(checkpoint.path() + " has weights that are not finite", problems);
}

Status initWeights(const Plan &plan, uint64_t seed, Arenas arenas, const FillOptions &fill) {
  MGC_TRY(verifyArenas(plan, arenas));
  const FillFor draw = [seed](const Parameter &parameter) -> Fill {
    if (parameter.init == plan::InitKind::normal)
      return
          [seed, hash = hashName(parameter.tensor), std = parameter.initStd](int64_t file, int64_t count, float *out) {
            normalRange(seed, hash, uint64_t(file), uint64_t(count), std, out);
          };
    const float value = parameter.init == plan::InitKind::ones ? 1 : 0;
    return [value](int64_t, int64_t count, float *out) { std::fill_n(out, count, value); };
  };
  fillBuckets(plan, arenas, fill, {draw});
  return Status::ok();
}

} // namespace mgc
