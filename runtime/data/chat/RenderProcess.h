// A Python process that renders chat templates with Jinja2, and reads Parquet with pyarrow (render.py, which says what is asked and
// answered). It ends with the object.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/base/Owned.h"

#include <atomic>

namespace mgc {

class RenderProcess {
public:
  struct Started;
  // Starts the first Python that has the module that the request needs: MGC_PYTHON of the environment, else python3 of PATH,
  // /usr/bin/python3. `stop`: once true, waiting for an answer ends with an error; null: never.
  static Result<Started> start(const nlohmann::ordered_json &request, const std::atomic<bool> *stop);
  // An answer {"error": TEXT} is an error.
  Result<nlohmann::ordered_json> ask(const nlohmann::ordered_json &request);

private:
  RenderProcess() = default;
  static Result<RenderProcess> spawn(const std::string &python, const std::atomic<bool> *stop);
  Result<nlohmann::ordered_json> answer(const nlohmann::ordered_json &request);
  Status wait(short events) const;
  Status ended(std::string_view what) const;

  static void kill(int process);
  std::string python_;
  Owned<int, kill> process_;
  Descriptor socket_;
  const std::atomic<bool> *stop_ = nullptr;
  std::string read_; // behind the last answer
};

// The rows of a Parquet file as lines of JSON, in a file without a name.
Result<FileReader> linesOfParquet(const std::string &path, const std::atomic<bool> *stop);

struct RenderProcess::Started {
  RenderProcess process;
  nlohmann::ordered_json answer;
};

} // namespace mgc
