// saveWeights and saveGradients of Weights.h: from the shards of the ranks to Hugging Face files.
#include "plan/OwnModelType.h"
#include "runtime/base/Bf16.h"
#include "runtime/base/Json.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/Replacement.h"
#include "runtime/checkpoint/VerifyWeights.h"
#include "runtime/checkpoint/WeightDigests.h"
#include "runtime/checkpoint/Weights.h"

#include <algorithm>
#include <numeric>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

using Metadata = std::map<std::string, std::string>;
const Metadata kMetadata = {{"format", "pt"}};
const Metadata kGradientsMetadata = {{"format", "pt"}, {Checkpoint::kContent, Checkpoint::kGradients}};

Status verifyPresent(Arenas arenas, const Communicator *communicator) {
  for (size_t rank = 0; rank < arenas.size(); ++rank)
    if (!arenas[rank] && !communicator)
      return errorf("rank {} is not in this process: only a process that holds all ranks can save", rank);
  return Status::ok();
}

// --- Tensors -----------------------------------------------------------------------------------------------

// The buffer that is written, the type of its tensors in the file, and the factor of its values; counts of tokens have none.
struct Source {
  StateOf state = valuesOf;
  plan::DType type = plan::DType::f32;
  float scale = 1;
};

// A tensor in the memory of the ranks. In a process that does not write, nothing: it has sent what it has.
class Gatherer {
public:
  Gatherer(const Plan &plan, const Source &source, RankMemory &memory, Arenas arenas)
      : plan_(plan), source_(source), memory_(memory), arenas_(arenas) {}

  Result<std::vector<float>> gather(const FileTensor &tensor) {
    std::vector<float> whole(memory_.isWriter() ? size_t(tensor.elements()) : 0);
    for (const Parameter *parameter : tensor.parameters)
      for (const std::vector<Holder> &holders : blocksOf(*parameter))
        if (const std::optional<Shard> part = partIn(tensor, shardOf(plan_.mesh, *parameter, holders[0].rank)))
          MGC_TRY(gatherPart(*parameter, holders[0], *part, whole.data()));
    for (float &value : whole)
      value *= tensor.isRouterBias ? 1 : source_.scale;
    return whole;
  }

private:
  // A stack asks for its blocks once for each of its tensors.
  const std::vector<std::vector<Holder>> &blocksOf(const Parameter &parameter) {
    const auto [known, isNew] = blocks_.try_emplace(&parameter);
    if (isNew)
      known->second = mgc::blocksOf(plan_, parameter);
    return known->second;
  }

  Status gatherPart(const Parameter &parameter, const Holder &holder, const Shard &part, float *whole) {
    const BucketBuffer buffer(plan_, parameter, holder, source_.state, arenas_);
    const int64_t begin = beginOf(parameter, holder);
    if (memory_.areAllHere()) {
      forEachRun(
          part, [&](int64_t local, int64_t file, int64_t count) { buffer.read({begin + local, count}, whole + file); });
      return Status::ok();
    }
    block_.resize(memory_.isWriter() ? part.span() : 0);
    MGC_TRY(buffer.fetch({begin + part.localBase, part.span()}, memory_, scratch_, block_.data()));
    if (memory_.isWriter())
      forEachRun(part, [&](int64_t local, int64_t file, int64_t count) {
        std::copy_n(block_.data() + local - part.localBase, count, whole + file);
      });
    return Status::ok();
  }

  const Plan &plan_;
  const Source source_;
  RankMemory &memory_;
  const Arenas arenas_;
  std::map<const Parameter *, std::vector<std::vector<Holder>>> blocks_;
  std::vector<float> block_;
  std::vector<std::byte> scratch_;
};

// The part of a process that does not write.
Status sendTensors(std::span<const FileTensor> tensors, Gatherer &gatherer) {
  for (const FileTensor &tensor : tensors)
    MGC_TRY(gatherer.gather(tensor).status());
  return Status::ok();
}

Status writeValues(SafetensorsWriter &writer, const std::vector<float> &values, plan::DType type) {
  if (type == plan::DType::f32)
    return writer.write(std::as_bytes(std::span(values)));
  std::vector<Bf16> rounded(values.size());
  narrow(values.data(), int64_t(values.size()), rounded.data());
  return writer.write(std::as_bytes(std::span(rounded)));
}

// A finished file of these tensors, still under its temporary name. One tensor at a time is in memory.
Result<SafetensorsWriter> writeTensors(std::span<const FileTensor> tensors, const std::string &path, plan::DType dtype,
                                       Gatherer &gatherer, const Metadata &metadata = kMetadata) {
  std::vector<TensorSpec> specs;
  for (const FileTensor &tensor : tensors) {
    const bool isRounded = tensor.savedType(dtype) == plan::DType::bf16;
    specs.push_back({tensor.name, isRounded ? ElementType::BF16 : ElementType::F32, tensor.shape});
  }
  MGC_ASSIGN(writer, SafetensorsWriter::create(path, specs, metadata, PageCache::bypass));
  for (const FileTensor &tensor : tensors) {
    MGC_ASSIGN(values, gatherer.gather(tensor));
    MGC_TRY(writeValues(writer, values, tensor.savedType(dtype)));
  }
  MGC_TRY(writer.finish());
  return writer;
}

// --- The directory -----------------------------------------------------------------------------------------

// Tensors for each file: as many as fit into maxBytes, at least one.
std::vector<std::vector<FileTensor>> splitByBytes(std::vector<FileTensor> tensors, plan::DType type, int64_t maxBytes) {
  std::vector<std::vector<FileTensor>> files(1);
  int64_t bytes = 0;
  for (FileTensor &tensor : tensors) {
    const int64_t size = tensor.savedBytes(type);
    if (!files.back().empty() && bytes + size > maxBytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

std::string indexText(const std::vector<std::vector<FileTensor>> &files, const std::vector<std::string> &names,
                      plan::DType type) {
  nlohmann::json map = nlohmann::json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i)
    for (const FileTensor &tensor : files[i]) {
      map[tensor.name] = names[i];
      bytes += tensor.savedBytes(type);
    }
  nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Under the names that older and newer versions of transformers give it.
void setType(nlohmann::ordered_json &config, plan::DType type) {
  constexpr const char *kNames[] = {"dtype", "torch_dtype"};
  const char *name = type == plan::DType::bf16 ? "bfloat16" : "float32";
  bool isNamed = false;
  for (const char *key : kNames)
    if (config.contains(key))
      config[key] = name, isNamed = true;
  if (!isNamed)
    config["torch_dtype"] = name;
}

// Nothing opens the weights as those of the family.
void hideFamily(nlohmann::ordered_json &config) {
  nlohmann::ordered_json base;
  for (const char *name : {"model_type", "architectures", "auto_map"})
    if (config.contains(name)) {
      base[name] = config[name];
      config.erase(name);
    }
  config["model_type"] = plan::kOwnModelType;
  config["mgc"]["base"] = base;
}

// The plan's config.json, which says what type the tensors have. As it was where all is f32 and of a family; empty where none
// fits the plan.
Result<std::string> configText(const Plan &plan, plan::DType type) {
  const bool isTyped = plan.dtype != plan::DType::f32 || type != plan::DType::f32,
             isHidden = changesFamily(plan.modelConfig);
  if (plan.modelConfig.empty() || (!isTyped && !isHidden))
    return plan.modelConfig;
  auto config =
      nlohmann::ordered_json::parse(withoutSpecialNumbers(plan.modelConfig), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return errorf("the plan's modelConfig is no JSON object, so the type of the tensors cannot be put into it");
  if (isTyped)
    setType(config, type);
  if (isHidden)
    hideFamily(config);
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Masters in f32, or rounded: then that is what the values are.
Source sourceOfWeights(const Plan &plan, const SaveOptions &options) {
  const plan::DType type = options.type.value_or(plan.dtype);
  const bool takesMasters = plan.dtype == plan::DType::bf16 && type == plan::DType::f32;
  return {takesMasters ? weightsOf : valuesOf, type};
}

} // namespace

bool changesFamily(const std::string &modelConfig) {
  const auto config = nlohmann::json::parse(withoutSpecialNumbers(modelConfig), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || config.value("model_type", nlohmann::json()) == plan::kOwnModelType)
    return false;
  const nlohmann::json own = config.value("mgc", nlohmann::json()),
                       model = own.is_object() ? own.value("model", nlohmann::json()) : own;
  return model.is_object() && !model.empty();
}

Status verifyWeights(const Plan &plan, Arenas arenas, Communicator *communicator) {
  RankMemory memory(arenas, communicator);
  return memory.areAllHere() ? verifySavableWeights(plan, arenas) : verifyDigests(plan, memory, arenas, kNotSaved);
}

Status saveWeights(const Plan &plan, Arenas arenas, const std::string &directory, const SaveOptions &options) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas, options.communicator).at(directory));
  std::vector<FileTensor> tensors = fileTensors(plan);
  RankMemory memory(arenas, options.communicator);
  if (!options.areVerified)
    MGC_TRY(verifyWeights(plan, arenas, options.communicator).at(directory));
  const Source source = sourceOfWeights(plan, options);
  Gatherer gatherer(plan, source, memory, arenas);
  if (!memory.isWriter())
    return sendTensors(tensors, gatherer);
  MGC_TRY(makeDirectory(directory));
  MGC_ASSIGN(config, configText(plan, source.type));
  std::vector<std::vector<FileTensor>> files = splitByBytes(std::move(tensors), source.type, options.maxShardBytes);
  std::vector<std::string> names = weightFileNames(directory, files.size());
  Replacement replacement(directory);
  if (Result<std::string> old = readFile(replacement.pathOf("config.json"), 1 << 30);
      !config.empty() && (!old.isOk() || *old != config))
    MGC_TRY(replacement.addText("config.json", config));
  for (size_t i = 0; i < files.size(); ++i) {
    MGC_ASSIGN(writer, writeTensors(files[i], replacement.pathOf(names[i]), source.type, gatherer));
    replacement.add(names[i], std::move(writer));
  }
  if (files.size() > 1)
    MGC_TRY(replacement.addText("model.safetensors.index.json", indexText(files, names, source.type)));
  return replacement.commit();
}

Status verifySavable(const std::string &directory) {
  MGC_TRY(makeDirectory(directory));
  std::filesystem::path file = std::filesystem::path(directory) / weightFileNames(directory, 1).front();
  Result<AtomicFile> probe = AtomicFile::create(file.string());
  return probe.isOk() ? Status::ok() : probe.status();
}

Status saveGradients(const Plan &plan, Arenas arenas, float scale, const std::string &file,
                     Communicator *communicator) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas, communicator).at(file));
  std::vector<FileTensor> tensors = tensorsWithGradients(plan);
  const Source source = {gradientsOf, plan::DType::f32, scale};
  RankMemory memory(arenas, communicator);
  Gatherer gatherer(plan, source, memory, arenas);
  if (!memory.isWriter())
    return sendTensors(tensors, gatherer);
  MGC_ASSIGN(writer, writeTensors(tensors, file, source.type, gatherer, kGradientsMetadata));
  return writer.commit();
}

Result<std::vector<ExpertLoad>> expertLoads(const Plan &plan, Arenas arenas, Communicator *communicator) {
  RankMemory memory(arenas, communicator);
  Gatherer gatherer(plan, {gradientsOf}, memory, arenas);
  std::vector<ExpertLoad> loads;
  for (const FileTensor &tensor : tensorsWithLoad(plan)) {
    MGC_ASSIGN(load, gatherer.gather(tensor));
    if (!memory.isWriter())
      continue;
    const auto [least, most] = std::ranges::minmax(load);
    const double all = std::accumulate(load.begin(), load.end(), 0.0);
    loads.push_back({tensor.name.substr(0, tensor.name.rfind('.')), least, all / double(load.size()), most});
  }
  return loads;
}

} // namespace mgc
