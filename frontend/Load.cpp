#include "frontend/Load.h"
#include "frontend/layout/Options.h"
#include "model/file/ReadModelFile.h"

namespace mgc::frontend {

static void read(Config &mgc, const LayoutOption &row, std::optional<int64_t> &option) {
  option = mgc.integer(row.key(), row.least, row.most);
}
static void read(Config &mgc, const LayoutOption &row, std::optional<double> &option) {
  option = mgc.number(row.key(), 0, double(row.least), double(row.most));
}
static void read(Config &mgc, const LayoutOption &row, std::optional<bool> &option) {
  option = mgc.flag(row.key(), false);
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::string> &option) {
  option = mgc.word(row.key(), "");
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::vector<std::string>> &option) {
  option = mgc.words(row.key());
  if (option->empty())
    option.reset(); // refused, or says nothing
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::vector<int64_t>> &option) {
  option = mgc.counts(row.key(), row.least, row.most);
}

static LayoutOptions readDefaults(std::optional<Config> &mgc) {
  LayoutOptions options;
  if (!mgc)
    return options;
  std::vector<std::string> keys = {"model"};
  for (const LayoutOption &option : layoutOptions()) {
    const std::string &key = keys.emplace_back(option.key());
    if (mgc->isSet(key))
      std::visit([&](auto field) { read(*mgc, option, options.*field); }, option.field);
    mgc->ignore(std::initializer_list<std::string_view>{key});
  }
  mgc->finish("the defaults of mgc compile", "possible: " + listOf(keys), /*ofNull=*/true);
  return options;
}

// The description that `read` gives with the defaults beside it.
static Result<ModelFile> withDefaults(const std::function<Result<ModelDescription>(const ReadDefaults &)> &read) {
  ModelFile file;
  MGC_ASSIGN(model, read([&](std::optional<Config> &mgc) { file.defaults = readDefaults(mgc); }));
  file.model = std::move(model);
  return file;
}

Result<ModelFile> parseModel(const std::string &text, const std::string &name) {
  return withDefaults([&](const ReadDefaults &defaults) { return readModelText(text, name, defaults); });
}

Result<ModelFile> loadModel(const std::string &path) {
  return withDefaults([&](const ReadDefaults &defaults) { return readModelFile(path, defaults); });
}

} // namespace mgc::frontend
