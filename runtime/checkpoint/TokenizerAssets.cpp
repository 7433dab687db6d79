// See TokenizerAssets.h.
#include "runtime/checkpoint/TokenizerAssets.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace mgc {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t(1) << 30;
constexpr const char *kChatTemplate = "chat_template.jinja", *kGeneration = "generation_config.json";
// A folder with one of the first has a tokenizer.
constexpr std::array kTokenizers = {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                    "vocab.json",     "vocab.txt",       "merges.txt"};
constexpr std::array kOthers = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                kChatTemplate,           "chat_template.json",      kGeneration,
                                "processor_config.json", "preprocessor_config.json"};
constexpr const char *kMoreTemplates = "additional_chat_templates";

bool isFile(const fs::path &path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool hasTokenizer(const fs::path &folder) {
  return std::ranges::any_of(kTokenizers, [&](const char *name) { return isFile(folder / name); });
}

fs::path folderOf(const std::string &path) {
  std::error_code error;
  if (isFile(path)) // in Hugging Face's cache a link to a file elsewhere
    return fs::absolute(path, error).parent_path();
  const fs::path folder = fs::canonical(path, error); // DIR/best is a link to a checkpoint
  if (error)
    return path;
  return folder.filename().string().starts_with("iter_") ? folder.parent_path() : folder;
}

} // namespace

Result<TokenizerAssets> TokenizerAssets::read(const std::vector<std::string> &folders,
                                              std::vector<std::string> &notes) {
  TokenizerAssets assets;
  const auto found = std::ranges::find_if(folders, [](const auto &each) { return hasTokenizer(folderOf(each)); });
  if (found == folders.end())
    return assets;
  const fs::path folder = folderOf(*found);
  std::vector<std::string> names(kTokenizers.begin(), kTokenizers.end());
  names.insert(names.end(), kOthers.begin(), kOthers.end());
  (void)forEachEntry((folder / kMoreTemplates).string(), [&](const auto &entry) {
    if (entry.path().extension() == ".jinja")
      names.push_back((fs::path(kMoreTemplates) / entry.path().filename()).string());
  });
  for (const std::string &name : names) {
    if (!isFile(folder / name))
      continue;
    MGC_ASSIGN(content, readFile((folder / name).string(), kMostBytes));
    if (const Result<nlohmann::json> json = name == kGeneration ? parseJson(content) : nlohmann::json::object();
        !json.isOk() || !json->is_object())
      notes.push_back(fmt::format("{}: {}, expected a JSON object; not copied to --save", (folder / name).string(),
                                  json.isOk() ? "is none" : "is " + json.status().message()));
    else
      assets.files_.emplace_back(name, std::move(content));
  }
  return assets;
}

void TokenizerAssets::setChatTemplate(std::string text) {
  std::erase_if(files_, [](const auto &file) { return file.first == kChatTemplate; });
  files_.emplace_back(kChatTemplate, std::move(text));
}

Status TokenizerAssets::write(const std::string &folder) const {
  for (const auto &[name, content] : files_) {
    const fs::path path = fs::path(folder) / name;
    if (const Result<std::string> old = readFile(path.string(), kMostBytes); old.isOk() && *old == content)
      continue;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    MGC_TRY(writeFileAtomically(path.string(), content));
  }
  return Status::ok();
}

} // namespace mgc
