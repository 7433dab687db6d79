// See ChoiceCache.h.
#include "runtime/io/ChoiceCache.h"

#include "runtime/base/Descriptor.h"
#include "runtime/base/File.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace mgc {

namespace {

constexpr int64_t kMaxFileBytes = 1 << 24;

// A lock on the file that has the name, until the object ends; others replace the file while they have the lock.
class FileLock {
public:
  static Result<FileLock> take(const std::string &path) {
    while (true) {
      FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
      if (!lock.descriptor_.isOpen())
        return errorf("{}: cannot be written: {}", path, std::generic_category().message(errno));
      // Not flock(): a script may hold that around the whole compilation. A file system without locks is no reason to
      // forget: what others write at the same moment is all that is lost.
      struct flock whole = {};
      whole.l_type = F_WRLCK;
      while (::fcntl(lock.descriptor_.number(), F_OFD_SETLKW, &whole) != 0 && errno == EINTR)
        ;
      if (lock.isOf(path))
        return lock;
    }
  }

private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  bool isOf(const std::string &path) const {
    struct stat mine, named;
    return ::fstat(descriptor_.number(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
           mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }
  Descriptor descriptor_;
};

} // namespace

std::string defaultCacheFile(const std::string &file) {
  namespace fs = std::filesystem;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder;
  if (cache && fs::path(cache).is_absolute()) // others are to be ignored, says the XDG specification
    folder = cache;
  else if (home && *home)
    folder = fs::path(home) / ".cache";
  return folder.empty() ? std::string() : (folder / "mgc" / file).string();
}

// The cache in a text; an error for what is none.
Result<nlohmann::json> ChoiceCache::parse(std::string_view text) const {
  MGC_ASSIGN(file, parseJson(text));
  const nlohmann::json format = file.is_object() && file.contains("format") ? file["format"] : nlohmann::json();
  if (format.is_string() && format.get_ref<const std::string &>().starts_with(format_.name + " "))
    return file;
  return errorf("\"format\" is {}", printable(format.dump()));
}

Status ChoiceCache::checkFile(const nlohmann::json &file) const {
  if (format_.check)
    MGC_TRY(format_.check(file));
  const nlohmann::json fastest = file.contains("fastest") ? file["fastest"] : nlohmann::json();
  if (!fastest.is_object())
    return errorf("\"fastest\" is {}, expected an object", fastest.type_name());
  return Status::ok();
}

// Entries that are not as written are left out; `problem` says so.
ChoiceCache::Choices ChoiceCache::parseChoices(const nlohmann::json &file, std::string &problem) const {
  Choices choices;
  int64_t bad = 0;
  for (const auto &[key, value] : file["fastest"].items()) {
    if (const Status good = format_.checkChoice(value); good.isOk())
      choices[key] = value;
    else if (++bad == 1)
      problem = fmt::format("\"{}\": {}", printable(key), good.message());
  }
  if (bad > 1)
    problem += fmt::format(" (and {} more)", bad - 1);
  return choices;
}

Result<ChoiceCache::Contents> ChoiceCache::read() const {
  Contents contents;
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored))
    return contents;
  MGC_ASSIGN(text, readFile(path_, kMaxFileBytes));
  if (text.empty()) // FileLock makes it
    return contents;
  Result<nlohmann::json> cache = parse(text);
  if (!cache.isOk())
    return errorf("{}: {}; expected {} (\"{} {}\") or a new name", path_, cache.status().message(), format_.what,
                  format_.name, format_.version);
  const std::string version = (*cache)["format"].get_ref<const std::string &>().substr(format_.name.size() + 1);
  contents.isOtherVersion = version != format_.version;
  if (contents.isOtherVersion) {
    contents.unused = fmt::format("{}: is of version {}, this program has version {}; it stays as it is", path_,
                                  printable(version), format_.version);
    return contents;
  }
  std::string problem;
  if (const Status file = checkFile(*cache); !file.isOk())
    problem = file.message();
  else
    contents.choices = parseChoices(*cache, problem);
  if (!problem.empty())
    contents.unused = fmt::format("{}: {}; measured anew", path_, problem);
  return contents;
}

Status ChoiceCache::load(std::vector<std::string> &notes) {
  MGC_ASSIGN(contents, read());
  if (!contents.unused.empty())
    notes.push_back(contents.unused);
  if (contents.isOtherVersion)
    path_.clear();
  choices_ = std::move(contents.choices);
  return Status::ok();
}

Status ChoiceCache::save() const {
  if (path_.empty())
    return Status::ok();
  std::error_code error;
  if (const auto folder = std::filesystem::path(path_).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error)
    return errorf("{}: its folder cannot be made: {}", path_, error.message());
  MGC_ASSIGN(lock, FileLock::take(path_));
  MGC_ASSIGN(others, read());
  if (others.isOtherVersion)
    return Status::error(others.unused);
  Choices known = choices_;
  known.merge(others.choices);
  nlohmann::json file = format_.header;
  file["format"] = fmt::format("{} {}", format_.name, format_.version);
  file["fastest"] = known;
  return writeFileAtomically(path_, file.dump(1) + "\n");
}

std::optional<nlohmann::json> ChoiceCache::find(const std::string &key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

} // namespace mgc
