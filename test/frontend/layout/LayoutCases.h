// Layouts for tests: what a compiler supports, and a layout or its refusal for flags and a model's config.
#pragma once

#include "frontend/layout/Options.h"
#include "test/frontend/Configs.h"

namespace mgc::frontend {

inline const Supported kSupported = {{{"gpipe", false, 1, 1},
                                      {"1f1b", false, 1, 1, true},
                                      {"interleaved", false, 2, INT64_MAX, true},
                                      {"zb-h1", true, 1, 1}},
                                     {"f32", "bf16"},
                                     {{"cpu", 9, false}, {"gpu", 200, true}}};

inline Result<Layout> resolve(const json &config, const LayoutOptions &flags, const LayoutOptions &defaults = {}) {
  return resolveLayout(model(config), flags, defaults, kSupported);
}

inline Layout layout(const json &config, const LayoutOptions &flags, const LayoutOptions &defaults = {}) {
  Result<Layout> result = resolve(config, flags, defaults);
  if (!result.isOk()) {
    ADD_FAILURE() << result.status().message();
    return {};
  }
  return result.take();
}

// The message without its last line, the layout that works, which every message has.
inline std::string errorOf(const json &config, const LayoutOptions &flags) {
  Result<Layout> result = resolve(config, flags);
  if (result.isOk())
    return "";
  const std::string message = result.status().message();
  const size_t last = message.find("\n  a layout that works: --tp ");
  EXPECT_NE(last, message.npos) << message;
  return message.substr(0, last);
}

inline std::string suggestion(const json &config, const LayoutOptions &flags) {
  const std::string message = resolve(config, flags).status().message();
  const size_t last = message.rfind("works: ");
  return last == message.npos ? "" : message.substr(last + 7);
}

inline std::string reasonOf(const Layout &layout, std::string_view flag) {
  for (const Choice &choice : layout.choices)
    if (choice.flag == flag)
      return choice.value + ": " + choice.reason;
  return "";
}

} // namespace mgc::frontend
