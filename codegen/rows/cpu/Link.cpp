// linkSharedObject: LLVM's linker, in this process, on object files in a temporary folder of their own. As a program of its
// own it would load and bind libLLVM again, which takes longer than it links.
#include "codegen/rows/cpu/Native.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace mgc::rowgen {

namespace {
// A folder that disappears with its files.
class TemporaryFolder {
public:
  TemporaryFolder() { error_ = llvm::sys::fs::createUniqueDirectory("mgc-kernels", path_); }
  ~TemporaryFolder() {
    if (!error_)
      llvm::sys::fs::remove_directories(path_);
  }
  bool exists() const { return !error_; }
  std::string path() const { return std::string(path_); }
  std::string message() const { return error_.message(); }
  std::string file(const std::string &name) const { return std::string(path_) + "/" + name; }

private:
  llvm::SmallString<128> path_;
  std::error_code error_;
};
} // namespace

Status writeFile(const std::string &path, const std::string &bytes) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return errorf("{}: {}", path, error.message());
  stream << bytes;
  stream.close();
  if (!stream.has_error())
    return Status::ok();
  std::string message = stream.error().message();
  stream.clear_error();
  return errorf("{}: {}", path, message);
}

// A writer learns of a full disk by an error, the linker by a signal.
static Status copyFile(const std::string &from, const std::string &to) {
  auto buffer = llvm::MemoryBuffer::getFile(from, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? writeFile(to, (*buffer)->getBuffer().str()) : errorf("{}: {}", from, buffer.getError().message());
}

// The lines of an error and of where it is, if there are any: a linker that cannot write its output prints its stack, too.
static std::string errorsIn(llvm::StringRef log) {
  std::string errors;
  for (llvm::StringRef line : llvm::split(log, '\n'))
    if (line.contains("error: ") || line.starts_with(">>>"))
      errors += (errors.empty() ? "" : "\n") + line.trim().str();
  return errors.empty() ? log.str() : errors;
}

// Room on disk, about: that of the objects and of what they become.
static size_t linkedBytes(const std::vector<std::string> &objects) {
  size_t bytes = 0;
  for (const std::string &object : objects)
    bytes += 2 * object.size();
  return bytes;
}

Status linkSharedObject(const std::vector<std::string> &objects, const std::string &path) {
  TemporaryFolder folder;
  if (!folder.exists())
    return errorf("kernels: cannot make a temporary folder {}: {}; TMPDIR may name another place", folder.path(),
                  folder.message());
  const std::string linked = folder.file("linked.so");
  std::vector<std::string> arguments = {"ld.lld", "-shared",     "-z", "defs", "--build-id=none",
                                        "-s",     "--threads=1", "-o", linked};
  for (size_t number = 0; number < objects.size(); ++number) {
    arguments.push_back(folder.file(fmt::format("{}.o", number)));
    MGC_TRY(writeFile(arguments.back(), objects[number]));
  }
  if (objects.empty()) // the linker wants an input
    arguments.insert(arguments.end(), {"-m", "elf_x86_64", "-b", "binary", "/dev/null"});
  std::vector<const char *> views;
  for (const std::string &argument : arguments)
    views.push_back(argument.c_str());
  std::string log;
  llvm::raw_string_ostream stream(log);
  // The linker maps what it writes, and learns of a full disk by a signal.
  llvm::CrashRecoveryContext::Enable();
  const lld::Result result = lld::lldMain(views, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  if (!result.canRunAgain && log.empty())
    return errorf("kernels: the linker crashed with code {}, as it does where a disk is full; expected room for {} "
                  "bytes in {}",
                  result.retCode, linkedBytes(objects), folder.path());
  return result.retCode == 0 ? copyFile(linked, path) : errorf("kernels: linking failed: {}", errorsIn(log));
}

} // namespace mgc::rowgen
