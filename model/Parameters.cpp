#include "model/Parameters.h"
#include "model/ParameterRoles.h"
#include "plan/Expand.h"
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace mgc::frontend {

std::string normRole(std::string_view role, const HeadNorms &norms) {
  return fmt::format("{}_{}", role, norms.span == NormSpan::head ? "norm" : "norms");
}

// The sizes that a row's letters stand for.
struct Sizes {
  const ModelDescription &model;
  const BlockDescription &block;
  const AttentionDescription &attention;
  int64_t hidden, positions, types, width, ffn;
  int64_t number = 0; // number of buckets of distances, or of an image's channels
  Sizes(std::string_view role, const ModelDescription &model, const BlockDescription &block)
      : model(model), block(block), attention(role.starts_with("cross") ? *block.cross : block.attention) {
    const bool isOfEncoder = role.starts_with(kOfEncoderRole);
    const Embedding &embedding = isOfEncoder ? model.encoder->embedding : model.embedding;
    hidden = isOfEncoder ? model.encoderHidden() : model.hidden;
    positions = isOfEncoder && model.readsImages() ? model.encoder->patches->positions()
                                                   : model.maxPositions + embedding.positionOffset;
    types = role.ends_with(".class") ? 1 : embedding.types;
    width = embedding.width > 0 ? embedding.width : hidden;
    ffn = block.experts ? block.experts->shared ? block.experts->shared->ffn : 0 : block.mlp.ffn;
    if (role.ends_with(".relative_bias"))
      number = block.attention.relativeBias->buckets;
    else if (model.readsImages())
      number = model.encoder->patches->channels;
    if (role.starts_with(kOfProjectorRole))
      width = model.encoderHidden(), ffn = model.encoder->projector->ffn;
  }
};

static plan::ParameterDim dimOf(char letter, const Sizes &sizes) {
  const auto &[model, block, attention, hidden, positions, types, width, ffn, number] = sizes;
  auto full = [&](int64_t size) { return plan::ParameterDim{std::string(1, letter), size, size, {}}; };
  switch (letter) {
  case plan::kVocabularyDim.front():
    return full(model.vocabulary);
  case 'p':
    return full(positions);
  case 'a':
    return full(types);
  case 'i':
    return full(width);
  case 'n':
    return full(number);
  case 'o':
  case 'u':
    return full(model.encoder->patches->size);
  case 'g':
    return full(attention.groups);
  case 'r':
    return full(attention.heads / attention.groups);
  case 'd':
    return full(attention.headDim);
  case 'w': // size of a head's values: that of its keys, except with latents
    return attention.latent ? full(attention.valueDim()) : dimOf('d', sizes);
  case 'q':
    return full(attention.latent->queryRank);
  case 'l':
    return full(attention.latent->keyRank);
  case 'z': // the latent of keys and values, and the rotating part of keys
    return full(attention.latent->keyRank + attention.latent->rotaryDim);
  case 'x': // the part of keys that does not rotate, and values
    return full(attention.headDim - attention.latent->rotaryDim + attention.latent->valueDim);
  case 'f':
    return full(ffn);
  case 'm':
    return full(block.mlp.ffn);
  case 'e':
    return full(block.experts->count);
  case 'j':
    return full(2);
  default:
    return full(hidden); // h, y
  }
}

static void setInit(plan::Parameter &parameter, plan::InitKind init, const TensorRow &row, const Sizes &sizes) {
  parameter.init = init;
  parameter.initStd = 0;
  if (init != plan::InitKind::normal)
    return;
  const bool isScaled = row.residualInit || (sizes.model.scaledResidualInit && endsBranch(row.role));
  double divisor = isScaled ? 2.0 * static_cast<double>(sizes.model.layers.size()) : 1.0;
  for (char letter : row.fan)
    divisor *= static_cast<double>(dimOf(letter, sizes).valid);
  parameter.initStd = sizes.model.initializerRange / std::sqrt(divisor);
}

static const TensorRow *findRow(const TensorNames &names, std::string_view role) {
  for (std::span<const TensorRow> rows : {names.ownRows, names.rows})
    if (const auto row = std::ranges::find(rows, role, &TensorRow::role); row != rows.end())
      return &*row;
  return nullptr;
}

static std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (const size_t at = text.find(from); at != std::string::npos)
    text.replace(at, from.size(), to);
  return text;
}

static std::string tensorOf(const TensorRow &row, const TensorNames &names) {
  return row.tensor.starts_with('.') ? fmt::format("{}{}", names.prefix, row.tensor.substr(1))
                                     : std::string(row.tensor);
}

struct FoundRow {
  const TensorRow *row = nullptr; // null: there is none
  std::string tensor = {};
};
static FoundRow findTensor(const TensorNames &names, std::string_view role) {
  const auto &[part, ofEncoder] = names.ofEncoder;
  const TensorRow *row = findRow(names, role);
  if (row)
    return {row, tensorOf(*row, names)};
  if (!ofEncoder.empty() && role.starts_with(kOfEncoderRole))
    row = findRow(names, role.substr(kOfEncoderRole.size()));
  if (!row)
    return {};
  const std::string tensor = tensorOf(*row, names);
  return {row, tensor.find(part) == tensor.npos ? fmt::format("{}{}", kOfEncoderRole, tensor)
                                                : replaced(tensor, part, ofEncoder)};
}

static void addOtherBegins(std::string_view tensor, const TensorNames &names, std::vector<std::string> &to) {
  for (const auto &[begin, other] : names.otherBegins)
    if (tensor.starts_with(begin))
      to.push_back(fmt::format("{}{}", other, tensor.substr(begin.size())));
}

// A tied embedding is stored once, under its own name or the head's.
static std::vector<std::string> aliasesOf(std::string_view role, const std::string &tensor, const TensorNames &names,
                                          const ModelDescription &model) {
  std::vector<std::string> aliases;
  if (!names.prefix.empty() && tensor.starts_with(names.prefix))
    aliases.emplace_back(tensor.substr(names.prefix.size()));
  for (const auto &[end, old] : names.oldEnds)
    if (tensor.ends_with(end))
      aliases.push_back(fmt::format("{}{}", tensor.substr(0, tensor.size() - end.size()), old));
  const TensorRow *head = findRow(names, "head.weight");
  addOtherBegins(tensor, names, aliases);
  if (role == "embed.tokens" && model.head.tied && head) {
    const std::string untied = tensorOf(*head, names);
    aliases.push_back(untied);
    addOtherBegins(untied, names, aliases);
  }
  return aliases;
}

// --- TensorRow::dims

// A word: "g(rd|d|d)" has the prefix g and three parts, "grd" no prefix and itself as its part.
struct FileWord {
  std::string_view prefix;
  std::vector<std::string_view> parts;
};

static std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + 1))
    pieces.push_back(text.substr(0, end));
  pieces.push_back(text);
  return pieces;
}

static FileWord wordOf(std::string_view text) {
  const size_t open = text.find('(');
  if (open == text.npos || !text.ends_with(')'))
    return {{}, split(text, '|')};
  return {text.substr(0, open), split(text.substr(open + 1, text.size() - open - 2), '|')};
}

// The mistake in the row's words; empty: there is none.
static std::string problemWith(const TensorRow &row, const std::vector<FileWord> &words) {
  const auto listsParts = [](const FileWord &word) { return word.parts.size() > 1; };
  const auto areLetters = [](std::string_view text) { return text.find_first_of("()|") == text.npos; };
  const auto isPart = [&](std::string_view text) { return !text.empty() && areLetters(text); };
  const auto isWord = [&](const FileWord &word) {
    return listsParts(word) ? areLetters(word.prefix) && std::ranges::all_of(word.parts, isPart)
                            : word.prefix.empty() && areLetters(word.parts.front());
  };
  const auto list = std::ranges::find_if(words, listsParts);
  if (!std::ranges::all_of(words, isWord) || std::ranges::count_if(words, listsParts) > 1)
    return "expected words such as grd, and one of several parts at most: grd|gd|gd or g(rd|d|d)";
  const int64_t parts = list == words.end() ? 1 : static_cast<int64_t>(list->parts.size());
  if (row.part < 0 || row.part >= parts)
    return fmt::format("has no part {}, expected one from 0 to {}", row.part, parts - 1);
  if (row.view.empty() != (parts == 1))
    return fmt::format("has {} part{}, but the row's view is '{}'; expected a name where there are several", parts,
                       parts == 1 ? "" : "s", row.view);
  return "";
}

static Result<std::vector<FileWord>> wordsOf(const TensorRow &row) {
  std::vector<FileWord> words;
  for (std::string_view text : split(row.dims, ' '))
    words.push_back(wordOf(text));
  if (const std::string problem = problemWith(row, words); !problem.empty())
    return errorf("the row of {} for tensor {}: \"{}\" {}", row.role, row.tensor, row.dims, problem);
  return words;
}

// Fills in how the parameter lies in its tensor. A prefix is a dimension of the view that its word's parts share.
static void setFileView(plan::Parameter &parameter, const std::vector<FileWord> &words, size_t part,
                        const auto &dimOf) {
  const auto sizeOf = [&](std::string_view letters) {
    int64_t size = 1;
    for (char letter : letters)
      size *= dimOf(letter).valid;
    return size;
  };
  const auto add = [&](std::string_view letters, int64_t size, int64_t offset) {
    parameter.fileShape.push_back(size);
    parameter.grouping.push_back(static_cast<int64_t>(letters.size()));
    parameter.offset.push_back(offset);
    std::ranges::transform(letters, std::back_inserter(parameter.dims), dimOf);
  };
  std::vector<int64_t> shape;
  for (const auto &[prefix, parts] : words) {
    const size_t own = parts.size() > 1 ? part : 0;
    int64_t size = 0, offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      offset = i == own ? size : offset;
      size += sizeOf(parts[i]);
    }
    if (!prefix.empty())
      add(prefix, sizeOf(prefix), 0);
    add(parts[own], size, offset);
    shape.push_back(sizeOf(prefix) * size);
  }
  if (shape.size() < parameter.fileShape.size())
    parameter.tensorShape = shape;
}

static Result<plan::Parameter> parameterOf(const Role &role, const FoundRow &found, const TensorNames &names,
                                           const ModelDescription &model, const BlockDescription &block) {
  const TensorRow &row = *found.row;
  plan::Parameter parameter;
  parameter.tensor = found.tensor;
  parameter.aliases = aliasesOf(role.name, parameter.tensor, names, model);
  parameter.name = row.view.empty() ? parameter.tensor : fmt::format("{}[{}]", parameter.tensor, row.view);
  MGC_ASSIGN(words, wordsOf(row));
  const Sizes sizes(role.name, model, block);
  setFileView(parameter, words, static_cast<size_t>(row.part),
              [&](char letter) { return dimOf(role.isNarrow && letter == 'h' ? 'i' : letter, sizes); });
  if (parameter.tensor.find(plan::kStackHole) != std::string::npos)
    parameter.stacked = parameter.fileShape.front();
  if (row.role.starts_with("experts."))
    parameter.activeShare = double(block.experts->chosen) / double(block.experts->count);
  setInit(parameter, role.init, row, sizes);
  return parameter;
}

static Status bindRoles(const std::vector<Role> &roles, const TensorNames &names, const ModelDescription &model,
                        const BlockDescription &block, std::vector<ModelParameter> &result) {
  result.clear();
  for (const Role &role : roles) {
    const FoundRow found = findTensor(names, role.name);
    if (!found.row)
      return errorf("the family {} does not say which tensor holds {}", model.family, role.name);
    MGC_ASSIGN(parameter, parameterOf(role, found, names, model, block));
    result.push_back({role.name, std::string(found.row->view), std::move(parameter), found.row->movedByLoad});
  }
  return Status::ok();
}

// Each name with the prefix, and without; and as other files begin it.
template <typename All> static std::vector<std::string> spellings(const All &all, const TensorNames &names) {
  std::vector<std::string> spelled;
  for (std::string_view name : all) {
    spelled.emplace_back(name);
    if (!names.prefix.empty() && name.starts_with(names.prefix))
      spelled.emplace_back(name.substr(names.prefix.size()));
    addOtherBegins(name, names, spelled);
  }
  return spelled;
}

static std::string copyOf(std::string_view role) { return fmt::format("later.{}", role); }

// Binds the modules that predict later tokens, which are like the last layer. Modules of a file may have copies of what
// the model has outside the layers: names that its parameters have too.
static Status bindLater(ModelDescription &model, const TensorNames &names) {
  // They embed tokens by the table alone, and attend to no encoder.
  if (model.encoder || model.objective != Objective::causal || model.embedding != Embedding() || !model.finalNorm)
    return Status::ok();
  const std::vector<Role> roles = rolesOfLater(model);
  if (!std::ranges::all_of(roles, [&](const Role &role) { return findRow(names, role.name); }))
    return Status::ok();
  const BlockKind &layer = model.kinds[model.layers.back()];
  MGC_TRY(bindRoles(roles, names, model, layer.block, model.later.parameters));
  std::vector<std::string> tensors;
  for (std::span<const ModelParameter> parameters :
       {std::span(layer.parameters), std::span(std::as_const(model.later.parameters))})
    for (const ModelParameter &entry : parameters)
      tensors.push_back(replaced(entry.parameter.tensor, plan::kStackHole, "{}"));
  for (ModelParameter &entry : model.parameters)
    for (const char *role : {"embed.tokens", "head.weight"})
      if (const TensorRow *copy = findRow(names, copyOf(role));
          copy && (entry.role == role || (model.head.tied && entry.role == "embed.tokens"))) {
        tensors.emplace_back(copy->tensor);
        for (int64_t i = 0; i < model.later.inFile; ++i)
          entry.parameter.aliases.push_back(
              replaced(std::string(copy->tensor), "{}", std::to_string(model.layerCount() + i)));
      }
  std::ranges::sort(tensors);
  tensors.erase(std::ranges::unique(tensors).begin(), tensors.end()); // several parameters are views of one
  model.later.tensors = spellings(tensors, names);
  return Status::ok();
}

// Parameters outside the encoder's layers join the model's.
static Status bindEncoder(ModelDescription &model, const TensorNames &names) {
  const EncoderDescription &encoder = *model.encoder;
  MGC_TRY(bindRoles(rolesOf(encoder.layer, kOfEncoderRole), names, model, encoder.layer, model.encoderLayer));
  std::vector<ModelParameter> outside;
  MGC_TRY(bindRoles(rolesOf(encoder), names, model, encoder.layer, outside));
  if (encoder.projector) {
    std::vector<ModelParameter> projecting;
    MGC_TRY(bindRoles(rolesOf(*encoder.projector), names, model, encoder.layer, projecting));
    outside.insert(outside.end(), projecting.begin(), projecting.end());
  }
  model.parameters.insert(model.parameters.end(), outside.begin(), outside.end());
  std::vector<std::string> unread;
  for (int64_t layer = encoder.layerCount; layer < model.encoderLayersInFile; ++layer)
    for (const ModelParameter &entry : model.encoderLayer)
      unread.push_back(replaced(entry.parameter.tensor, "{}", std::to_string(layer)));
  for (std::string &name : spellings(unread, names))
    model.ignoredTensors.push_back(std::move(name));
  return Status::ok();
}

Status bindParameters(ModelDescription &model, const TensorNames &names) {
  model.ignoredTensors = spellings(names.ignored, names);
  for (BlockKind &kind : model.kinds)
    MGC_TRY(bindRoles(rolesOf(kind.block), names, model, kind.block, kind.parameters));
  MGC_TRY(bindRoles(rolesOf(model), names, model, model.kinds.front().block, model.parameters));
  if (model.encoder)
    MGC_TRY(bindEncoder(model, names));
  return bindLater(model, names);
}

// The first row of a role counts.
void TensorTable::addRows(const TensorNames &names, const auto &spell) {
  constexpr std::string_view kBoth = ".*", kBetween = "; ";
  const auto add = [&](TensorRow row, std::string_view tensor) {
    if (std::ranges::find(rows_, row.role, &TensorRow::role) != rows_.end())
      return;
    row.tensor = keep(spell(tensor));
    rows_.push_back(row);
  };
  const auto addHalf = [&](TensorRow row, std::string_view end, std::string_view dims) {
    const auto whole = [&](std::string_view text) {
      return fmt::format("{}{}", text.substr(0, text.size() - kBoth.size()), end);
    };
    row.role = keep(whole(row.role)), row.dims = dims;
    add(row, whole(row.tensor));
  };
  const auto addPart = [&](const TensorRow &row) {
    const size_t between = row.dims.find(kBetween);
    if (between == row.dims.npos)
      return add(row, row.tensor);
    addHalf(row, ".weight", row.dims.substr(0, between));
    addHalf(row, ".bias", row.dims.substr(between + kBetween.size()));
  };
  for (std::span<const TensorRow> some : {names.ownRows, names.rows})
    for (const TensorRow &row : some) {
      const size_t open = row.role.find('{'), close = row.role.find('}');
      if (open == row.role.npos) {
        addPart(row);
        continue;
      }
      TensorRow one = row;
      for (std::string_view view : split(row.role.substr(open + 1, close - open - 1), ',')) {
        one.role = keep(fmt::format("{}{}{}", row.role.substr(0, open), view, row.role.substr(close + 1)));
        one.view = view;
        addPart(one);
        ++one.part;
      }
    }
}

TensorTable::TensorTable(const TensorNames &names, std::string_view begin, std::string_view prefix) {
  const auto spell = [&](std::string_view tensor) {
    if (tensor.starts_with('.'))
      return fmt::format("{}{}", prefix, tensor.substr(1));
    if (tensor.starts_with(names.prefix))
      return fmt::format("{}{}", prefix, tensor.substr(names.prefix.size()));
    return fmt::format("{}{}", begin, tensor);
  };
  addRows(names, spell);
  for (std::string_view tensor : names.ignored)
    ignored_.push_back(keep(spell(tensor)));
}

void TensorTable::add(const TensorNames &others) {
  addRows(others, [](std::string_view tensor) { return std::string(tensor); });
  ignored_.insert(ignored_.end(), others.ignored.begin(), others.ignored.end());
}

std::vector<std::string> ignoredTensors(const ModelDescription &model, int64_t laterTokens) {
  std::vector<std::string> ignored = model.ignoredTensors;
  for (int64_t i = laterTokens; i < model.later.inFile; ++i)
    for (const std::string &tensor : model.later.tensors)
      ignored.push_back(replaced(tensor, "{}", std::to_string(model.layerCount() + i)));
  return ignored;
}

} // namespace mgc::frontend
