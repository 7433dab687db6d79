// See RenderProcess.h.
#include "runtime/data/chat/RenderProcess.h"

#include "RenderScript.h"

#include <array>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

namespace mgc {

void RenderProcess::kill(int process) {
  ::kill(-process, SIGKILL); // with what a wrapper has started
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<RenderProcess> RenderProcess::spawn(const std::string &python, const std::atomic<bool> *stop) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return errorf("{}: no socket for it: {}", python, std::strerror(errno));
  RenderProcess out;
  out.python_ = python, out.stop_ = stop, out.socket_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int number : {STDIN_FILENO, STDOUT_FILENO})
    posix_spawn_file_actions_adddup2(&actions, theirs.number(), number);
  std::string name = python, flag = "-c", script(kRenderScript);
  std::array<char *, 4> arguments = {name.data(), flag.data(), script.data(), nullptr};
  posix_spawnattr_t
      attributes; // a group of its own, with no signal blocked: this program blocks those that ask it to end
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, name.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions), posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return errorf("{}: {}", python, std::strerror(error));
  out.process_ = Owned<int, kill>(process);
  return out;
}

Result<RenderProcess::Started> RenderProcess::start(const nlohmann::ordered_json &request,
                                                    const std::atomic<bool> *stop) {
  std::vector<std::string> candidates = {"python3", "/usr/bin/python3"};
  if (const char *given = std::getenv("MGC_PYTHON"))
    candidates = {given};
  std::string found;
  for (const std::string &python : candidates) {
    Result<RenderProcess> process = spawn(python, stop);
    Result<nlohmann::ordered_json> answer = process.isOk() ? process->answer(request) : process.status();
    if (stop && *stop)
      return answer.isOk() ? errorf("a request to end came while it was rendered") : answer.status();
    if (answer.isOk() && !answer->contains("missing"))
      return Started{process.take(), answer.take()};
    const std::string why = answer.isOk() ? fmt::format("{}: {}", python, (*answer)["error"].get<std::string>())
                                          : answer.status().message();
    found += fmt::format("{}{}", found.empty() ? "" : "; ", why);
  }
  const std::string_view needed = request.contains("parquet") ? "pyarrow" : "jinja2";
  return errorf("needs Python 3 with {0}, found {1}; expected it installed ({2}pip install {0}), or MGC_PYTHON=PROGRAM "
                "that has it",
                needed, found, needed == "jinja2" ? "Debian: apt install python3-jinja2; else " : "");
}

Status RenderProcess::ended(std::string_view what) const { return errorf("{}: {}", python_, what); }

// Until the socket is ready.
Status RenderProcess::wait(short events) const {
  while (true) {
    pollfd waiting{socket_.number(), events, 0};
    const int ready = ::poll(&waiting, 1, 100);
    if (ready > 0)
      return Status::ok();
    if (ready < 0 && errno != EINTR)
      return ended(std::strerror(errno));
    if (stop_ && *stop_)
      return errorf("a request to end came while it was rendered");
  }
}

Result<nlohmann::ordered_json> RenderProcess::answer(const nlohmann::ordered_json &request) {
  const std::string text = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < text.size();) {
    MGC_TRY(wait(POLLOUT));
    const ssize_t sent = ::send(socket_.number(), text.data() + done, text.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN)
      return ended("has ended");
    done += sent > 0 ? size_t(sent) : 0;
  }
  size_t end = read_.find('\n');
  for (std::string piece(1 << 16, '\0'); end == std::string::npos;) {
    MGC_TRY(wait(POLLIN));
    const ssize_t got = ::recv(socket_.number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
      return ended("has ended");
    const size_t before = read_.size();
    read_.append(piece, 0, got > 0 ? size_t(got) : 0);
    end = read_.find('\n', before);
  }
  Result<nlohmann::ordered_json> json = parseOrderedJson(std::string_view(read_).substr(0, end));
  read_.erase(0, end + 1);
  if (!json.isOk() || !json->is_object())
    return ended("has answered with no JSON");
  return json;
}

Result<nlohmann::ordered_json> RenderProcess::ask(const nlohmann::ordered_json &request) {
  MGC_ASSIGN(json, answer(request));
  if (json.contains("error"))
    return Status::error(json["error"].get<std::string>());
  return json;
}

Result<FileReader> linesOfParquet(const std::string &path, const std::atomic<bool> *stop) {
  MGC_ASSIGN(folder, temporaryFolder());
  MGC_ASSIGN(lines, unnamedFileIn(folder));
  const std::string name = fmt::format("/proc/{}/fd/{}", ::getpid(), lines.number());
  MGC_ASSIGN(started, RenderProcess::start({{"parquet", path}, {"lines", name}}, stop));
  if (started.answer.contains("error"))
    return Status::error(started.answer["error"].get<std::string>());
  return FileReader::adopt(std::move(lines), path);
}

} // namespace mgc
