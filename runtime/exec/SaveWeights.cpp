// saveWeights and saveGradients of Weights.h: from the shards of the ranks to Hugging Face files.
#include "runtime/base/Bf16.h"
#include "runtime/base/Json.h"
#include "runtime/exec/Replacement.h"
#include "runtime/exec/Shard.h"
#include "runtime/exec/VerifyWeights.h"
#include "runtime/exec/Weights.h"

#include <algorithm>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

Status verifyPresent(Arenas arenas) {
  for (size_t rank = 0; rank < arenas.size(); ++rank)
    if (!arenas[rank])
      return errorf("rank {} is not in this process: only a process that holds all ranks can save", rank);
  return Status::ok();
}

// --- Tensors -----------------------------------------------------------------------------------------------

// What is written, as what.
struct Source {
  BucketBuffer::Kind kind = BucketBuffer::Kind::values;
  plan::DType type = plan::DType::f32;
  float scale = 1;
};

std::vector<float> gather(const Plan &plan, const FileTensor &tensor, BucketBuffer::Kind kind,
                          Arenas arenas) {
  std::vector<float> whole(size_t(tensor.elements()));
  for (const Parameter *parameter : tensor.parameters)
    for (const std::vector<Holder> &holders : blocksOf(plan, *parameter)) {
      const BucketBuffer buffer(plan, *parameter, holders[0], kind, arenas);
      const int64_t begin = beginOf(*parameter, holders[0]);
      forEachRun(shardOf(plan.mesh, *parameter, holders[0].rank),
                 [&](int64_t local, int64_t file, int64_t count) {
                   buffer.read({begin + local, count}, whole.data() + file);
                 });
    }
  return whole;
}

Status writeValues(SafetensorsWriter &writer, const std::vector<float> &values, plan::DType type) {
  if (type == plan::DType::f32)
    return writer.write(std::as_bytes(std::span(values)));
  std::vector<Bf16> rounded(values.size());
  narrow(values.data(), int64_t(values.size()), rounded.data());
  return writer.write(std::as_bytes(std::span(rounded)));
}

// A finished file of these tensors, still under its temporary name. One tensor at a time is in memory.
Result<SafetensorsWriter> writeTensors(const Plan &plan, std::span<const FileTensor> tensors,
                                       const std::string &path, const Source &source, Arenas arenas) {
  const ElementType type = source.type == plan::DType::bf16 ? ElementType::BF16 : ElementType::F32;
  std::vector<TensorSpec> specs;
  for (const FileTensor &tensor : tensors)
    specs.push_back({tensor.name, type, tensor.shape});
  MGC_ASSIGN(writer, SafetensorsWriter::create(path, specs, kMetadata));
  for (const FileTensor &tensor : tensors) {
    std::vector<float> values = gather(plan, tensor, source.kind, arenas);
    if (source.scale != 1.0f)
      for (float &value : values)
        value *= source.scale;
    MGC_TRY(writeValues(writer, values, source.type));
  }
  MGC_TRY(writer.finish());
  return writer;
}

// --- The directory -----------------------------------------------------------------------------------------

// Tensors for each file: as many as fit into maxBytes, at least one.
std::vector<std::vector<FileTensor>> splitByBytes(std::vector<FileTensor> tensors, int64_t elementBytes,
                                                  int64_t maxBytes) {
  std::vector<std::vector<FileTensor>> files(1);
  int64_t bytes = 0;
  for (FileTensor &tensor : tensors) {
    int64_t size = tensor.elements() * elementBytes;
    if (!files.back().empty() && bytes + size > maxBytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

std::string indexText(const std::vector<std::vector<FileTensor>> &files,
                      const std::vector<std::string> &names, int64_t elementBytes) {
  nlohmann::json map = nlohmann::json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i)
    for (const FileTensor &tensor : files[i]) {
      map[tensor.name] = names[i];
      bytes += tensor.elements() * elementBytes;
    }
  nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The plan's config.json, which says what type the tensors have: under the names that older and newer versions of
// transformers give it. As it was where all is f32.
Result<std::string> configText(const Plan &plan, plan::DType type) {
  if (plan.dtype == plan::DType::f32 && type == plan::DType::f32)
    return plan.modelConfig;
  constexpr const char *kNames[] = {"dtype", "torch_dtype"};
  auto config = nlohmann::ordered_json::parse(plan.modelConfig, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return errorf(
        "the plan's modelConfig is no JSON object, so the type of the tensors cannot be put into it");
  const char *name = type == plan::DType::bf16 ? "bfloat16" : "float32";
  bool isNamed = false;
  for (const char *key : kNames)
    if (config.contains(key))
      config[key] = name, isNamed = true;
  if (!isNamed)
    config["torch_dtype"] = name;
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Masters in f32, or rounded: then that is what the values are.
Source sourceOfWeights(const Plan &plan, const SaveOptions &options) {
  const plan::DType type = options.type.value_or(plan.dtype);
  const bool takesMasters = plan.dtype == plan::DType::bf16 && type == plan::DType::f32;
  return {takesMasters ? BucketBuffer::Kind::masters : BucketBuffer::Kind::values, type};
}

} // namespace

Status saveWeights(const Plan &plan, Arenas arenas, const std::string &directory,
                   const SaveOptions &options) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas).at(directory));
  std::vector<FileTensor> tensors = fileTensors(plan);
  MGC_TRY(verifySavableWeights(plan, arenas).at(directory));
  MGC_TRY(makeDirectory(directory));
  const Source source = sourceOfWeights(plan, options);
  const int64_t elementBytes = sizeInBytes(source.type);
  MGC_ASSIGN(config, configText(plan, source.type));
  std::vector<std::vector<FileTensor>> files =
      splitByBytes(std::move(tensors), elementBytes, options.maxShardBytes);
  std::vector<std::string> names = weightFileNames(directory, files.size());
  Replacement replacement(directory);
  if (Result<std::string> old = readFile(replacement.pathOf("config.json"), 1 << 30);
      !old.isOk() || *old != config)
    MGC_TRY(replacement.addText("config.json", config));
  for (size_t i = 0; i < files.size(); ++i) {
    MGC_ASSIGN(writer, writeTensors(plan, files[i], replacement.pathOf(names[i]), source, arenas));
    replacement.add(names[i], std::move(writer));
  }
  if (files.size() > 1)
    MGC_TRY(replacement.addText("model.safetensors.index.json", indexText(files, names, elementBytes)));
  return replacement.commit();
}

Status verifySavable(const std::string &directory) {
  MGC_TRY(makeDirectory(directory));
  std::filesystem::path file = std::filesystem::path(directory) / weightFileNames(directory, 1).front();
  Result<AtomicFile> probe = AtomicFile::create(file.string());
  return probe.isOk() ? Status::ok() : probe.status();
}

Status saveGradients(const Plan &plan, Arenas arenas, float scale, const std::string &file) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas).at(file));
  std::vector<FileTensor> tensors = fileTensors(plan);
  const Source source = {BucketBuffer::Kind::gradients, plan::DType::f32, scale};
  MGC_ASSIGN(writer, writeTensors(plan, tensors, file, source, arenas));
  return writer.commit();
}

} // namespace mgc
