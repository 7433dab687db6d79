// See Frozen.h.
#include "frontend/layout/Frozen.h"
#include "frontend/layout/Options.h"

#include "plan/Expand.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <map>

namespace mgc::frontend {

// --- Parts -------------------------------------------------------------------------------------------------

namespace {

// The place of a parameter: outside the layers, in a layer of either stack, or in a module that predicts a later token.
enum class ParameterSite { outside, layer, encoderLayer, laterToken };
using enum ParameterSite;

// A part that --freeze can name.
struct ModelPart {
  std::string_view name;
  bool hasNumbers; // ":4" or ":0-7" may follow: of layers
  bool (*has)(const ModelDescription &model, ParameterSite site, std::string_view role);
};

constexpr std::string_view kTable = "embed.tokens";

// Whether the role is of the encoder's table of tokens, which is the decoder's.
bool isSharedTable(const ModelDescription &model, std::string_view role) {
  return role == kTable && model.encoder && !model.readsImages();
}

std::string_view inEncoder(std::string_view role) {
  return role.starts_with(kOfEncoderRole) ? role.substr(kOfEncoderRole.size()) : std::string_view();
}
bool isOfEmbedding(std::string_view role) { return role.starts_with("embed"); }

// A tied parameter is of every part that uses it.
constexpr ModelPart kParts[] = {
    {"embeddings", false,
     [](const ModelDescription &, ParameterSite site, std::string_view role) {
       return site == outside && isOfEmbedding(role);
     }},
    {"layers", true, [](const ModelDescription &, ParameterSite site, std::string_view) { return site == layer; }},
    {"norm", false,
     [](const ModelDescription &, ParameterSite site, std::string_view role) {
       return site == outside && role.starts_with("final_norm.");
     }},
    {"head", false,
     [](const ModelDescription &model, ParameterSite site, std::string_view role) {
       return site == outside && (role.starts_with("head.") || (model.head.tied && role == kTable));
     }},
    {"encoder", false,
     [](const ModelDescription &model, ParameterSite site, std::string_view role) {
       return site == encoderLayer || (site == outside && (!inEncoder(role).empty() || isSharedTable(model, role)));
     }},
    {"encoder.embeddings", false,
     [](const ModelDescription &model, ParameterSite site, std::string_view role) {
       return site == outside && (isOfEmbedding(inEncoder(role)) || isSharedTable(model, role));
     }},
    {"encoder.layers", true,
     [](const ModelDescription &, ParameterSite site, std::string_view) { return site == encoderLayer; }},
    {"encoder.norm", false,
     [](const ModelDescription &, ParameterSite site, std::string_view role) {
       return site == outside && inEncoder(role).starts_with("final_norm.");
     }},
    {"projector", false,
     [](const ModelDescription &, ParameterSite site, std::string_view role) {
       return site == outside && role.starts_with(kOfProjectorRole);
     }},
    {"mtp", false, [](const ModelDescription &, ParameterSite site, std::string_view) { return site == laterToken; }},
};

// A parameter of an instance of a block.
struct PlacedParameter {
  const ModelParameter &parameter;
  ParameterSite site;
  int64_t instance;
  std::string tensor() const { return plan::nameForInstance(parameter.parameter.tensor, instance); }
};

std::vector<PlacedParameter> allParameters(const ModelDescription &model, const Layout &layout) {
  std::vector<PlacedParameter> all;
  const auto add = [&](const std::vector<ModelParameter> &parameters, ParameterSite site, int64_t instance) {
    for (const ModelParameter &parameter : parameters)
      all.push_back({parameter, site, instance});
  };
  add(model.parameters, outside, 0);
  for (int64_t i = 0; i < model.layerCount(); ++i)
    add(model.kinds[model.layers[i]].parameters, layer, i);
  for (int64_t i = 0; i < model.encoderLayerCount(); ++i)
    add(model.encoderLayer, encoderLayer, i);
  for (int64_t i = model.layerCount(); i < model.layerCount() + layout.laterTokens; ++i) {
    add(model.later.parameters, laterToken, i);
    add(model.kinds[model.layers.back()].parameters, laterToken, i);
  }
  return all;
}

// --- Words -------------------------------------------------------------------------------------------------

// A word of --freeze: a part with layers, or a pattern.
struct FrozenWord {
  const ModelPart *part = nullptr; // null: a pattern
  int64_t first = 0, last = INT64_MAX;
  std::string text;
};

std::optional<int64_t> numberIn(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool isNumber = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return isNumber ? std::optional(number) : std::nullopt;
}

// Nothing: a part whose layers are no number and no range.
std::optional<FrozenWord> readWord(std::string_view text) {
  FrozenWord word{.text = std::string(text)};
  const std::string_view name = text.substr(0, text.find(':'));
  const auto part = std::ranges::find(kParts, name, &ModelPart::name);
  if (part == std::end(kParts))
    return word;
  word.part = part;
  if (name.size() == text.size())
    return word;
  const std::string_view range = text.substr(name.size() + 1);
  const size_t dash = range.find('-');
  const std::optional<int64_t> first = numberIn(range.substr(0, dash)),
                               last = dash == range.npos ? first : numberIn(range.substr(dash + 1));
  if (!part->hasNumbers || !first || !last || *last < *first)
    return std::nullopt;
  word.first = *first, word.last = *last;
  return word;
}

std::vector<std::string_view> wordsIn(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0)
      words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// "*" stands for any characters. Where the name does not go on as the pattern does, the last star takes one character more:
// what stands before it is matched once.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.npos, taken = 0; // behind the last star, and what it has taken up to
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*')
      star = ++p, taken = n;
    else if (p < pattern.size() && pattern[p] == name[n])
      ++p, ++n;
    else if (star != pattern.npos)
      p = star, n = ++taken;
    else
      return false;
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

// A stack matches by any one of its tensors.
bool matchesTensor(const std::string &pattern, const PlacedParameter &at, int64_t inStack = 0) {
  const plan::Parameter &parameter = at.parameter.parameter;
  const auto isNamed = [&](const std::string &name) {
    return matches(pattern, plan::nameInStack(plan::nameForInstance(name, at.instance), inStack));
  };
  return isNamed(parameter.tensor) || std::ranges::any_of(parameter.aliases, isNamed);
}

bool freezes(const FrozenWord &word, const ModelDescription &model, const PlacedParameter &at) {
  if (!word.part)
    return matchesTensor(word.text, at);
  return word.part->has(model, at.site, at.parameter.role) &&
         (!word.part->hasNumbers || (word.first <= at.instance && at.instance <= word.last));
}

} // namespace

// --- Frozen parameters -------------------------------------------------------------------------------------

FrozenParameters::FrozenParameters(const ModelDescription &model, const Layout &layout) {
  for (std::string_view text : wordsIn(layout.freeze))
    if (const std::optional<FrozenWord> word = readWord(text))
      for (const PlacedParameter &at : allParameters(model, layout))
        if (freezes(*word, model, at))
          tensors_.insert(at.tensor());
}

bool FrozenParameters::has(const ModelParameter &parameter, int64_t instance) const {
  return tensors_.contains(plan::nameForInstance(parameter.parameter.tensor, instance));
}

std::vector<bool> FrozenParameters::of(const std::vector<ModelParameter> &parameters, int64_t instance) const {
  std::vector<bool> frozen;
  for (const ModelParameter &parameter : parameters)
    frozen.push_back(has(parameter, instance));
  return frozen;
}

std::string freezeText(const std::vector<std::string> &words) { return fmt::format("{}", fmt::join(words, ",")); }

bool movesAllRouters(const ModelDescription &model, const Layout &layout) {
  const FrozenParameters frozen(model, layout);
  for (int64_t i = 0; i < model.layerCount(); ++i) {
    const BlockKind &kind = model.kinds[model.layers[i]];
    if (kind.hasExperts() && std::ranges::none_of(kind.parameters, [&](const ModelParameter &parameter) {
          return parameter.movedByLoad && !frozen.has(parameter, i);
        }))
      return false;
  }
  return model.hasExperts();
}

// --- Checks ------------------------------------------------------------------------------------------------

namespace {

class FreezeCheck {
public:
  FreezeCheck(const ModelDescription &model, Layout &layout, Problems &problems)
      : model_(model), layout_(layout), problems_(problems), all_(allParameters(model, layout)) {}

  void run() {
    for (std::string_view text : wordsIn(layout_.freeze))
      check(text);
    if (!problems_.empty() || words_.empty())
      return;
    const FrozenParameters frozen(model_, layout_);
    checkSomethingTrains(frozen);
    warnOfTied(frozen);
  }

private:
  static const std::string &flag() { return optionOf(&LayoutOptions::freeze).flag; }

  void check(std::string_view text) {
    const std::optional<FrozenWord> word = readWord(text);
    if (!word) {
      problems_.add("{} {}: expected one layer or a range of layers behind the colon", flag(), text);
      problems_.hint("possible: {}", possible());
      return;
    }
    words_.push_back(*word);
    if (word->part && word->part->hasNumbers && word->last != INT64_MAX && !checkLayers(*word))
      return;
    if (!word->part && hasPartOfStack(*word))
      return;
    if (std::ranges::none_of(all_, [&](const PlacedParameter &at) { return freezes(*word, model_, at); }))
      refuseNothing(*word);
  }

  bool checkLayers(const FrozenWord &word) {
    int64_t layers = 0;
    for (const PlacedParameter &at : all_)
      if (word.part->has(model_, at.site, at.parameter.role))
        layers = std::max(layers, at.instance + 1);
    if (word.last < layers)
      return true;
    problems_.add("{} {}: the model has {} such layers", flag(), word.text, layers);
    problems_.hint("possible: {}", layers == 0 ? possible() : fmt::format("{}:0-{}", word.part->name, layers - 1));
    return false;
  }

  void refuseNothing(const FrozenWord &word) {
    problems_.add("{} {}: {}", flag(), word.text,
                  word.part ? "the model has no such part" : "no part is called so, and no tensor has such a name");
    problems_.hint("possible: {}", possible());
  }

  // The parts that the model has, and the names of some tensors.
  std::string possible() const {
    std::vector<std::string> names;
    for (const ModelPart &part : kParts)
      if (std::ranges::any_of(all_,
                              [&](const PlacedParameter &at) { return part.has(model_, at.site, at.parameter.role); }))
        names.push_back(std::string(part.name) + (part.hasNumbers ? ", " + std::string(part.name) + ":0" : ""));
    const PlacedParameter &at = *std::ranges::find(all_, layer, &PlacedParameter::site);
    const std::string tensor = plan::nameInStack(plan::nameForInstance(at.parameter.parameter.tensor, 0), 0);
    return fmt::format("{}, or tensors, such as {}", fmt::join(names, ", "), tensor);
  }

  // A pattern has all tensors of a stack or none: they are one parameter. Others are refused.
  bool hasPartOfStack(const FrozenWord &word) {
    for (const PlacedParameter &at : all_) {
      const int64_t stacked = at.parameter.parameter.stacked;
      int64_t matched = 0;
      for (int64_t i = 0; i < stacked; ++i)
        matched += matchesTensor(word.text, at, i);
      if (matched == 0 || matched == stacked)
        continue;
      problems_.add("{} {}: matches {} of the {} tensors of a layer's experts such as {}", flag(), word.text, matched,
                    stacked, plan::nameInStack(plan::nameForInstance(at.parameter.parameter.tensor, at.instance), 0));
      problems_.hint("expected all experts of a layer or none: one parameter holds them");
      return true;
    }
    return false;
  }

  void checkSomethingTrains(const FrozenParameters &frozen) {
    if (std::ranges::any_of(all_, [&](const PlacedParameter &at) {
          return !frozen.has(at.parameter, at.instance) && !at.parameter.movedByLoad;
        }))
      return;
    problems_.add("{} {}: the optimizer would train nothing", flag(), layout_.freeze);
    problems_.hint("expected some parameter that is not frozen");
  }

  // Parts that have a tensor which is frozen, though no word freezes it there.
  void warnOfTied(const FrozenParameters &frozen) {
    std::map<std::string, std::vector<std::string_view>> others; // by tensor
    for (const PlacedParameter &at : all_) {
      if (!frozen.has(at.parameter, at.instance))
        continue;
      for (const ModelPart &part : kParts)
        if (part.has(model_, at.site, at.parameter.role) && !isMeant(part, at))
          if (std::vector<std::string_view> &of = others[at.tensor()]; std::ranges::count(of, part.name) == 0)
            of.push_back(part.name);
    }
    for (const auto &[tensor, parts] : others)
      layout_.warnings.push_back(fmt::format("{} {}: {} is tied, and so frozen for {} too", flag(), layout_.freeze,
                                             tensor, fmt::join(parts, " and ")));
  }

  // A word freezes the parameter in this part, or in one that it is part of or has as a part; or names its tensor.
  bool isMeant(const ModelPart &part, const PlacedParameter &at) const {
    const auto isOf = [](std::string_view part, std::string_view whole) {
      return part.starts_with(std::string(whole) + ".");
    };
    return std::ranges::any_of(words_, [&](const FrozenWord &word) {
      return freezes(word, model_, at) &&
             (!word.part || word.part == &part || isOf(part.name, word.part->name) || isOf(word.part->name, part.name));
    });
  }

  const ModelDescription &model_;
  Layout &layout_;
  Problems &problems_;
  const std::vector<PlacedParameter> all_;
  std::vector<FrozenWord> words_;
};

} // namespace

void checkFrozen(const ModelDescription &model, Layout &layout, Problems &problems) {
  FreezeCheck(model, layout, problems).run();
}

bool canFreeze(const ModelDescription &model, Layout layout) {
  Problems problems;
  checkFrozen(model, layout, problems);
  return problems.empty();
}

} // namespace mgc::frontend
