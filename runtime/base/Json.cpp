#include "runtime/base/Json.h"

#include <limits>
#include <set>
#include <vector>

namespace mgc {

namespace {

constexpr int kMaxDepth = 64;

struct Refused { // thrown from the callback to leave the parser, caught in parseJson
  std::string message;
};

// Sees every name and bracket as it is parsed.
class Watch {
public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json &value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start)
      if (depth >= kMaxDepth)
        throw Refused{fmt::format("brackets are nested deeper than {}", kMaxDepth)};
    if (event == Event::object_start)
      names_.emplace_back();
    if (event == Event::object_end)
      names_.pop_back();
    if (event == Event::key && !names_.back().insert(value.get_ref<const std::string &>()).second)
      throw Refused{fmt::format("the name \"{}\" is given twice in one object",
                                printable(value.get_ref<const std::string &>()))};
    return true;
  }

private:
  std::vector<std::set<std::string>> names_;
};

// "[json.exception.parse_error.101] parse error at line 1, ..." without the library's tag.
std::string withoutTag(std::string_view what) {
  size_t tag = what.find("] ");
  return std::string(tag == std::string_view::npos ? what : what.substr(tag + 2));
}

} // namespace

Result<nlohmann::json> parseJson(std::string_view text) {
  try {
    return nlohmann::json::parse(text.begin(), text.end(), Watch());
  } catch (const Refused &refused) {
    return errorf("not acceptable JSON: {}", refused.message);
  } catch (const nlohmann::json::exception &error) {
    return errorf("not JSON: {}", printable(withoutTag(error.what())));
  }
}

std::optional<int64_t> jsonSize(const nlohmann::json &value) {
  // A number parsed from text is unsigned when it has no sign, signed when negative; one made in memory may
  // be signed and positive.
  if (value.is_number_unsigned()) {
    uint64_t size = value.get<uint64_t>();
    return size <= uint64_t(std::numeric_limits<int64_t>::max()) ? std::optional(int64_t(size))
                                                                 : std::nullopt;
  }
  if (value.is_number_integer() && value.get<int64_t>() >= 0)
    return value.get<int64_t>();
  return std::nullopt;
}

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 160;
  std::string out;
  for (char c : text.substr(0, kLimit)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return text.size() > kLimit ? out + "..." : out;
}

} // namespace mgc
