#include "runtime/checkpoint/Weights.h"

#include "plan/Expand.h"
#include "runtime/base/Problems.h"

#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/VerifyWeights.h"
#include "runtime/kernels/Parallel.h"
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

constexpr int64_t kStaged = 4096; // elements that are converted at once

// Values, masters and moments of all buckets of a rank.
void clearBuckets(const Plan &plan, int64_t rank, std::byte *arena) {
  for (const Bucket &bucket : plan.stages[plan::stageOf(plan.mesh, rank)].buckets) {
    const int64_t parts = bucket.sharded ? plan::groupSize(plan.mesh, bucket.dataAxes) : 1;
    const size_t slice = size_t(bucket.elements / parts) * sizeof(float);
    std::memset(arena + bucket.valueOffset, 0,
                size_t(bucket.elements * sizeInBytes(valueType(plan, bucket))));
    if (bucket.hasMoments()) {
      std::memset(arena + bucket.firstMomentOffset, 0, slice);
      std::memset(arena + bucket.secondMomentOffset, 0, slice);
    }
    if (bucket.masterOffset >= 0)
      std::memset(arena + bucket.masterOffset, 0, slice);
  }
}

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
  return std::ranges::any_of(plan.ignoredTensors,
                             [&](const std::string &pattern) { return matches(pattern, name); });
}

bool areEqual(const TensorView &a, const TensorView &b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(a.data, b.data);
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
                                              const std::vector<FileTensor> &tensors,
                                              const LoadOptions &options) {
  if (checkpoint.holdsGradients())
    return errorf("{}: holds gradients, as --save-gradients writes them, expected weights",
                  checkpoint.path());
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

// Writes the elements [file, file + count) of a file tensor to `out`.
using Fill = std::function<void(int64_t file, int64_t count, float *out)>;
using FillFor = std::function<Fill(const Parameter &)>;

// A distinct block of a parameter. One of its holders fills its values, the others copy them. Masters lie where the
// values do, or in slices, which every holder fills by itself.
struct FillBlock {
  const Parameter *parameter;
  Holder filler;
  std::vector<Holder> copiers;
};

// Of all parameters but counters, which stay zero. The holders of replicated blocks take turns, so that none has all the work.
std::vector<FillBlock> blocksToFill(const Plan &plan, Arenas arenas) {
  std::vector<FillBlock> blocks;
  for (const Parameter &parameter : plan.parameters) {
    if (isCounter(plan, parameter))
      continue;
    for (std::vector<Holder> &holders : blocksOf(plan, parameter)) {
      std::erase_if(holders, [&](const Holder &holder) { return !arenas[holder.rank]; });
      if (holders.empty())
        continue;
      const auto turn = holders.begin() + int64_t(blocks.size() % holders.size());
      const Holder filler = *turn;
      holders.erase(turn);
      blocks.push_back({&parameter, filler, std::move(holders)});
    }
  }
  return blocks;
}

class Filler {
public:
  Filler(const Plan &plan, Arenas arenas, const FillOptions &options, const FillFor &fillFor)
      : plan_(plan), arenas_(arenas), options_(options), fillFor_(fillFor),
        blocks_(blocksToFill(plan, arenas)) {}
  void run();

private:
  void onRanks(const std::function<void(int64_t)> &work) const;
  void fillOf(int64_t rank) const;
  void copyOf(int64_t rank) const;
  struct Piece {
    const FillBlock *block;
    Holder holder;
    Shard shard;
  };
  void fillPiece(const Piece &piece) const;
  static void fillRounded(const Shard &shard, int64_t begin, const BucketBuffer &values, const Fill &fill);
  void fillWithMasters(const Piece &piece, const Fill &fill) const;
  void copyRows(const FillBlock &block, const Holder &to, BucketBuffer::Kind kind) const;
  BucketBuffer bufferOf(const FillBlock &block, const Holder &holder, BucketBuffer::Kind kind) const {
    return {plan_, *block.parameter, holder, kind, arenas_};
  }
  Shard shardOf(const FillBlock &block) const {
    return mgc::shardOf(plan_.mesh, *block.parameter, block.filler.rank);
  }
  template <typename Body> void inParallel(size_t tasks, const Body &body) const {
    parallelFor(options_.threads, options_.threads, int64_t(tasks),
                [&](int64_t task, int64_t) { body(task); });
  }

  const Plan &plan_;
  const Arenas arenas_;
  const FillOptions &options_;
  const FillFor &fillFor_;
  const std::vector<FillBlock> blocks_;
};

void Filler::onRanks(const std::function<void(int64_t)> &work) const {
  const std::function<void(int64_t)> workOfHeld = [&](int64_t rank) {
    if (arenas_[rank])
      work(rank);
  };
  if (options_.onRanks)
    options_.onRanks(workOfHeld);
  else
    forEachInParallel(int64_t(arenas_.size()), workOfHeld);
}

void Filler::fillPiece(const Piece &piece) const {
  const Fill fill = fillFor_(*piece.block->parameter);
  if (bucketOf(plan_, *piece.block->parameter, piece.holder).masterOffset >= 0)
    return fillWithMasters(piece, fill);
  const BucketBuffer buffer = bufferOf(*piece.block, piece.holder, BucketBuffer::Kind::values);
  const int64_t begin = beginOf(*piece.block->parameter, piece.holder);
  if (buffer.type() != plan::DType::f32)
    return fillRounded(piece.shard, begin, buffer, fill);
  auto *values = reinterpret_cast<float *>(buffer.data(begin));
  forEachRun(piece.shard,
             [&](int64_t local, int64_t file, int64_t count) { fill(file, count, values + local); });
}

// Values without masters, as frozen parameters have them.
void Filler::fillRounded(const Shard &shard, int64_t begin, const BucketBuffer &values, const Fill &fill) {
  forEachRun(shard, [&](int64_t local, int64_t file, int64_t count) {
    float staged[kStaged];
    for (int64_t done = 0; done < count; done += kStaged) {
      const BucketRange now = {begin + local + done, std::min(kStaged, count - done)};
      fill(file + done, now.count, staged);
      values.write(now, staged);
    }
  });
}

// The block's filler has all values to write, each holder its part of the masters.
void Filler::fillWithMasters(const Piece &piece, const Fill &fill) const {
  const BucketBuffer values = bufferOf(*piece.block, piece.holder, BucketBuffer::Kind::values),
                     masters = bufferOf(*piece.block, piece.holder, BucketBuffer::Kind::masters);
  const bool isFiller = piece.holder.rank == piece.block->filler.rank;
  const int64_t begin = beginOf(*piece.block->parameter, piece.holder);
  forEachRun(piece.shard, [&](int64_t local, int64_t file, int64_t count) {
    const BucketRange run = {begin + local, count}, part = isFiller ? run : masters.ownPart(run);
    float staged[kStaged];
    for (int64_t done = 0; done < part.count; done += kStaged) {
      const BucketRange now = {part.begin + done, std::min(kStaged, part.count - done)};
      fill(file + now.begin - run.begin, now.count, staged);
      masters.write(now, staged);
      if (isFiller)
        values.write(now, staged);
    }
  });
}

void Filler::fillOf(int64_t rank) const {
  std::vector<Piece> pieces;
  for (const FillBlock &block : blocks_) {
    std::vector<Holder> holders = {block.filler};
    if (const Bucket &bucket = bucketOf(plan_, *block.parameter, block.filler);
        bucket.masterOffset >= 0 && bucket.sharded)
      holders.insert(holders.end(), block.copiers.begin(), block.copiers.end());
    for (const Holder &holder : holders)
      if (holder.rank == rank)
        for (Shard &part : partsOf(shardOf(block), options_.pieceElements))
          pieces.push_back({&block, holder, std::move(part)});
  }
  inParallel(pieces.size(), [&](int64_t i) { fillPiece(pieces[i]); });
}

void Filler::copyRows(const FillBlock &block, const Holder &to, BucketBuffer::Kind kind) const {
  const Shard shard = shardOf(block);
  const BucketBuffer source = bufferOf(block, block.filler, kind), destination = bufferOf(block, to, kind);
  const std::byte *from = source.data(beginOf(*block.parameter, block.filler));
  std::byte *out = destination.data(beginOf(*block.parameter, to));
  const int64_t width = source.elementBytes();
  for (int64_t row = 0; row < shard.rows; ++row)
    std::memcpy(out + row * shard.rowStride * width, from + row * shard.rowStride * width,
                size_t(shard.rowElements * width));
}

void Filler::copyOf(int64_t rank) const {
  inParallel(blocks_.size(), [&](int64_t i) {
    const FillBlock &block = blocks_[i];
    for (const Holder &holder : block.copiers) {
      if (holder.rank != rank)
        continue;
      copyRows(block, holder, BucketBuffer::Kind::values);
      if (const Bucket &bucket = bucketOf(plan_, *block.parameter, holder);
          bucket.masterOffset >= 0 && !bucket.sharded)
        copyRows(block, holder, BucketBuffer::Kind::masters);
    }
  });
}

void Filler::run() {
  if (!options_.isZero)
    onRanks([&](int64_t rank) { clearBuckets(plan_, rank, arenas_[rank]); });
  onRanks([&](int64_t rank) { fillOf(rank); });
  onRanks([&](int64_t rank) { copyOf(rank); });
}

} // namespace

// Elements of a stack lie in its tensors one after another.
static std::function<void(int64_t, int64_t, float *)>
readOfStack(const Parameter &parameter, const std::map<std::string, const TensorView *> &byName) {
  std::vector<const TensorView *> views;
  for (int64_t index = 0; index < parameter.stacked; ++index)
    views.push_back(byName.at(plan::nameInStack(parameter.tensor, index)));
  return [views](int64_t file, int64_t count, float *out) {
    const int64_t each = views[0]->elements();
    for (int64_t done = 0; done < count;) {
      const int64_t element = (file + done) % each, part = std::min(count - done, each - element);
      convertToF32(*views[(file + done) / each], element, part, out + done);
      done += part;
    }
  };
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
  const FillFor read = [&](const Parameter &parameter) -> Fill {
    if (parameter.stacked > 0)
      return readOfStack(parameter, byName);
    const TensorView &view = *byName.at(parameter.tensor);
    return [&view](int64_t file, int64_t count, float *out) { convertToF32(view, file, count, out); };
  };
  Filler(plan, arenas, fill, read).run();
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
      return [seed, hash = hashName(parameter.tensor), std = parameter.initStd](int64_t file, int64_t count,
                                                                                float *out) {
        normalRange(seed, hash, uint64_t(file), uint64_t(count), std, out);
      };
    const float value = parameter.init == plan::InitKind::ones ? 1 : 0;
    return [value](int64_t, int64_t count, float *out) { std::fill_n(out, count, value); };
  };
  Filler(plan, arenas, fill, draw).run();
  return Status::ok();
}

} // namespace mgc
