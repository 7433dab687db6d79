// Translation.h: what mgc translate writes and starts.
#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"
#include "tools/process/Process.h"
#include "tools/translate/Translation.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace mgc::tools {

namespace fs = std::filesystem;

constexpr int64_t kMaxConfigBytes = 64 << 20;

// Weights, or checkpoints of a training, whose config.json lies beside them.
static bool isOfWeights(const fs::path &file) {
  return file.extension() == ".safetensors" || file.filename() == "latest_checkpointed_iteration.txt";
}

static Status verifyNoWeights(const fs::path &folder) {
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error))
    if (isOfWeights(file->path()))
      return errorf("-o {}: holds {}, whose model its config.json says, expected a folder without weights; --force "
                    "writes the config.json all the same",
                    folder.string(), file->path().filename().string());
  return Status::ok();
}

Status writeConfig(const Translation &translation, bool force) {
  const fs::path path = translation.model;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    return errorf("-o {}: {}", path.parent_path().string(), error.message());
  const std::string text = translation.config.dump(2) + "\n";
  const auto found = readFile(path.string(), kMaxConfigBytes);
  if (found.isOk() && *found == text)
    return Status::ok();
  if (!force)
    MGC_TRY(verifyNoWeights(path.parent_path()));
  const OutputKind kind{"-o", "the config.json of this line", [](const std::string &) { return false; }};
  MGC_TRY(verifyCreatable(kind, path.string(), force));
  return writeFileAtomically(path.string(), text);
}

// The program that lies where this one does.
static fs::path besideThis(const std::string &program) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / program;
}

static std::vector<char *> argumentsOf(const CommandWords &command) {
  std::vector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// The exit code; of a program that a signal ended 128 and its number, as a shell says it.
static Result<int> runProgram(const CommandWords &command) {
  const std::string program = besideThis(command.front()).string();
  pid_t child = 0;
  if (const int error = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, argumentsOf(command).data(), environ);
      error != 0)
    return errorf("{}: does not start: {}", program, std::strerror(error));
  int state = 0;
  while (::waitpid(child, &state, 0) < 0)
    if (errno != EINTR)
      return errorf("{}: {}", program, std::strerror(errno));
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

// The last command takes the place of this program, so that a signal that asks for an end comes to the training itself.
Result<int> runCommands(const Translation &translation) {
  for (const CommandWords &command : translation.commands) {
    if (&command == &translation.commands.back()) {
      const std::string program = besideThis(command.front()).string();
      ::execv(program.c_str(), argumentsOf(command).data());
      return errorf("{}: does not start: {}", program, std::strerror(errno));
    }
    MGC_ASSIGN(code, runProgram(command));
    if (code != 0)
      return code;
  }
  return 0;
}

} // namespace mgc::tools
