#include "runtime/base/Json.h"

#include <limits>
#include <vector>

namespace mgc {

namespace {

constexpr size_t kMaxDepth = 64;

// Builds the document event by event. Json::parse with a callback would go through all elements of
// an array after each of them.
template <typename Json> class JsonBuilder final : public nlohmann::json_sax<Json> {
public:
  Json document;
  std::string refusal; // JSON, but not acceptable
  std::string error;   // not JSON

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string &) override { return add(value); }
  bool string(std::string &value) override { return add(std::move(value)); }
  bool binary(typename Json::binary_t &value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string &name) override {
    auto [entry, isNew] = opened_.back()->template get_ref<typename Json::object_t &>().emplace(name, nullptr);
    member_ = &entry->second;
    if (!isNew)
      refusal = fmt::format("the name \"{}\" is given twice in one object", printable(name));
    return isNew;
  }

  bool parse_error(size_t, const std::string &, const nlohmann::json::exception &exception) override {
    error = exception.what();
    return false;
  }

private:
  // Where the next value goes: the document, the next element of an array, or the member just named.
  Json *place() {
    if (opened_.empty())
      return &document;
    return opened_.back()->is_array() ? &opened_.back()->emplace_back(nullptr) : member_;
  }
  bool add(Json value) {
    *place() = std::move(value);
    return true;
  }
  bool open(Json empty) {
    if (opened_.size() >= kMaxDepth) {
      refusal = fmt::format("nested deeper than {} levels", kMaxDepth);
      return false;
    }
    Json *value = place();
    *value = std::move(empty);
    opened_.push_back(value);
    return true;
  }
  bool close() {
    opened_.pop_back();
    return true;
  }

  // Pointers stay: a container gets no element while one inside it is open.
  std::vector<Json *> opened_;
  Json *member_ = nullptr;
};

// "[json.exception.parse_error.101] parse error at line 1, ..." without the library's tag.
std::string withoutTag(std::string_view what) {
  size_t tag = what.find("] ");
  return std::string(tag == std::string_view::npos ? what : what.substr(tag + 2));
}

template <typename Json> Result<Json> parse(std::string_view text) {
  try {
    JsonBuilder<Json> builder;
    if (Json::sax_parse(text.begin(), text.end(), &builder))
      return std::move(builder.document);
    if (!builder.refusal.empty())
      return errorf("not usable JSON: {}", builder.refusal);
    return errorf("not JSON: {}", printable(withoutTag(builder.error)));
  } catch (const nlohmann::json::exception &error) {
    return errorf("not JSON: {}", printable(withoutTag(error.what())));
  }
}

} // namespace

Result<nlohmann::json> parseJson(std::string_view text) { return parse<nlohmann::json>(text); }
Result<nlohmann::ordered_json> parseOrderedJson(std::string_view text) { return parse<nlohmann::ordered_json>(text); }

std::string withoutSpecialNumbers(std::string_view text, SpecialNumbers numbers) {
  std::string result;
  bool isInText = false;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (!isInText && text.substr(at).starts_with(word))
        length = word.size();
    if (isInText && text[at] == '\\')
      length = 2;
    isInText ^= text[at] == '"';
    const std::string_view piece = text.substr(at, length);
    result += length <= 2                         ? std::string(piece)
              : numbers == SpecialNumbers::asNull ? "null"
                                                  : fmt::format("\"{}\"", piece);
    at += length;
  }
  return result;
}

std::optional<int64_t> jsonSize(const nlohmann::json &value) {
  // A number parsed from text is unsigned when it has no sign, signed when negative; one made in memory may
  // be signed and positive.
  if (value.is_number_unsigned()) {
    uint64_t size = value.get<uint64_t>();
    return size <= uint64_t(std::numeric_limits<int64_t>::max()) ? std::optional(int64_t(size)) : std::nullopt;
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
