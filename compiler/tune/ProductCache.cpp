// See ProductCache.h.
#include "compiler/tune/ProductCache.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/kernels/GemmPaths.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace mgc::tune {

namespace {

constexpr std::string_view kFormat = "mgc products ", kVersion = "1";
constexpr int64_t kMaxFileBytes = 1 << 24;

using Fastest = std::map<std::string, plan::GemmPath>;

nlohmann::json comparedPaths() {
  nlohmann::json names = nlohmann::json::array();
  for (const GemmPathRow &row : gemmPaths())
    names.push_back(nameOf(row.path));
  return names;
}

// The cache in a text; an error for what is none.
Result<nlohmann::json> parseCache(std::string_view text) {
  MGC_ASSIGN(file, parseJson(text));
  const nlohmann::json format =
      file.is_object() && file.contains("format") ? file["format"] : nlohmann::json();
  if (format.is_string() && format.get_ref<const std::string &>().starts_with(kFormat))
    return file;
  return errorf("\"format\" is {}", printable(format.dump()));
}

std::string versionOf(const nlohmann::json &cache) {
  return cache["format"].get_ref<const std::string &>().substr(kFormat.size());
}

Status checkHeader(const nlohmann::json &file) {
  const nlohmann::json expected = comparedPaths();
  const nlohmann::json none;
  const auto field = [&](const char *name) -> const nlohmann::json & {
    return file.contains(name) ? file[name] : none;
  };
  if (field("paths") != expected)
    return errorf("it compares the paths {}, this program has {}", printable(field("paths").dump()),
                  expected.dump());
  if (!field("fastest").is_object())
    return errorf("\"fastest\" is {}, expected an object", field("fastest").type_name());
  return Status::ok();
}

Result<plan::GemmPath> parsePath(const nlohmann::json &value) {
  const auto path =
      value.is_string() ? plan::gemmPathNamed(value.get_ref<const std::string &>()) : std::nullopt;
  if (!path || path == plan::GemmPath::rule)
    return errorf("found {}, expected one of {}", printable(value.dump()), comparedPaths().dump());
  return *path;
}

// Entries that are not as written are left out; `problem` says so.
Fastest parseFastest(const nlohmann::json &file, std::string &problem) {
  Fastest fastest;
  int64_t bad = 0;
  for (const auto &[key, value] : file["fastest"].items()) {
    const Result<plan::GemmPath> path = parsePath(value);
    if (path.isOk())
      fastest[key] = *path;
    else if (++bad == 1)
      problem = fmt::format("\"{}\": {}", printable(key), path.status().message());
  }
  if (bad > 1)
    problem += fmt::format(" (and {} more)", bad - 1);
  return fastest;
}

// Of the file that has the name, until the object ends; others replace the file while they have it.
class FileLock {
public:
  static Result<FileLock> take(const std::string &path) {
    while (true) {
      FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
      if (lock.descriptor_ < 0)
        return errorf("{}: cannot be written: {}", path, std::generic_category().message(errno));
      // Not flock(): a script may hold that around the whole compilation. A file system without locks is no reason to
      // forget: what others write at the same moment is all that is lost.
      struct flock whole = {};
      whole.l_type = F_WRLCK;
      while (::fcntl(lock.descriptor_, F_OFD_SETLKW, &whole) != 0 && errno == EINTR)
        ;
      if (lock.isOf(path))
        return lock;
    }
  }
  FileLock(FileLock &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~FileLock() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }

private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  bool isOf(const std::string &path) const {
    struct stat mine, named;
    return ::fstat(descriptor_, &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
           mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }
  int descriptor_;
};

} // namespace

std::string defaultCachePath() {
  namespace fs = std::filesystem;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder;
  if (cache && fs::path(cache).is_absolute()) // others are to be ignored, says the XDG specification
    folder = cache;
  else if (home && *home)
    folder = fs::path(home) / ".cache";
  return folder.empty() ? std::string() : (folder / "mgc" / "products.json").string();
}

Result<ProductCache::Contents> ProductCache::read() const {
  Contents contents;
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored))
    return contents;
  MGC_ASSIGN(text, readFile(path_, kMaxFileBytes));
  if (text.empty()) // FileLock makes it
    return contents;
  Result<nlohmann::json> cache = parseCache(text);
  if (!cache.isOk())
    return errorf("{}: {}; expected a cache of products (\"{}{}\") or a new name", path_,
                  cache.status().message(), kFormat, kVersion);
  const std::string version = versionOf(*cache);
  contents.isOtherVersion = version != kVersion;
  if (contents.isOtherVersion) {
    contents.unused = fmt::format("{}: is of version {}, this program has version {}; it stays as it is",
                                  path_, printable(version), kVersion);
    return contents;
  }
  std::string problem;
  if (const Status header = checkHeader(*cache); !header.isOk())
    problem = header.message();
  else
    contents.fastest = parseFastest(*cache, problem);
  if (!problem.empty())
    contents.unused = fmt::format("{}: {}; measured anew", path_, problem);
  return contents;
}

Status ProductCache::load(std::vector<std::string> &notes) {
  MGC_ASSIGN(contents, read());
  if (!contents.unused.empty())
    notes.push_back(contents.unused);
  if (contents.isOtherVersion)
    path_.clear();
  fastest_ = std::move(contents.fastest);
  return Status::ok();
}

Status ProductCache::save() const {
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
  Fastest known = fastest_;
  known.merge(others.fastest);
  nlohmann::json fastest = nlohmann::json::object();
  for (const auto &[key, path] : known)
    fastest[key] = nameOf(path);
  const nlohmann::json file = {
      {"format", fmt::format("{}{}", kFormat, kVersion)}, {"paths", comparedPaths()}, {"fastest", fastest}};
  return writeFileAtomically(path_, file.dump(1) + "\n");
}

std::optional<plan::GemmPath> ProductCache::find(const std::string &key) const {
  const auto found = fastest_.find(key);
  return found == fastest_.end() ? std::nullopt : std::optional(found->second);
}

} // namespace mgc::tune
