// See OtherTokenizers.h.
#include "runtime/tokenizers/OtherTokenizers.h"

#include "runtime/base/Utf8.h"

#include <charconv>
#include <sentencepiece_processor.h>

namespace mgc {

namespace {

// An encoder that keeps nothing: a function of the text.
template <typename Function> class PlainEncoder final : public Encoder {
public:
  explicit PlainEncoder(Function function) : function_(std::move(function)) {}
  Status encode(std::string_view text, bool, std::vector<int32_t> &ids, std::vector<TextRange> *places) override {
    return function_(text, [&](int32_t id, size_t begin, size_t end) {
      ids.push_back(id);
      if (places)
        places->push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    });
  }

private:
  Function function_;
};
template <typename Function> std::unique_ptr<Encoder> encoderOf(Function function) {
  return std::make_unique<PlainEncoder<Function>>(std::move(function));
}

class SentencePieceTokenizer final : public Tokenizer {
public:
  Status load(const std::string &path) {
    const auto status = processor_.Load(path);
    return status.ok() ? Status::ok() : errorf("{}: {}", path, status.ToString());
  }
  std::unique_ptr<Encoder> encoder() const override {
    return encoderOf([this](std::string_view text, const auto &add) {
      if (const auto at = firstInvalidUtf8(text))
        return errorf("byte {:#04x} at position {} is not UTF-8", static_cast<unsigned char>(text[*at]), *at);
      const auto found = processor_.EncodeAsImmutableProto({text.data(), text.size()});
      for (const auto &piece : found.pieces())
        add(static_cast<int32_t>(piece.id()), piece.begin(), piece.end());
      return Status::ok();
    });
  }
  int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> endToken() const override {
    return processor_.eos_id() >= 0 ? std::optional(processor_.eos_id()) : std::nullopt;
  }
  std::optional<int32_t> idOf(std::string_view token) const override {
    const int id = processor_.PieceToId({token.data(), token.size()});
    return processor_.IdToPiece(id) == token ? std::optional(id) : std::nullopt;
  }
  std::vector<std::string> texts() const override {
    std::vector<std::string> texts;
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      texts.push_back(withBlanks(processor_.IdToPiece(id)));
    return texts;
  }

private:
  sentencepiece::SentencePieceProcessor processor_;
};

class ByteTokenizer final : public Tokenizer {
public:
  std::unique_ptr<Encoder> encoder() const override {
    return encoderOf([](std::string_view text, const auto &add) {
      for (size_t at = 0; at < text.size(); ++at)
        add(static_cast<unsigned char>(text[at]), at, at + 1);
      return Status::ok();
    });
  }
  int64_t vocabulary() const override { return kEnd + 1; }
  std::optional<int32_t> endToken() const override { return kEnd; }
  std::optional<int32_t> idOf(std::string_view token) const override {
    return token.size() == 1 ? std::optional<int32_t>(static_cast<unsigned char>(token[0])) : std::nullopt;
  }
  std::vector<std::string> texts() const override {
    std::vector<std::string> texts;
    for (int byte = 0; byte < kEnd; ++byte)
      texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back("<|end|>");
    return texts;
  }

private:
  static constexpr int32_t kEnd = 256;
};

class NullTokenizer final : public Tokenizer {
public:
  explicit NullTokenizer(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::unique_ptr<Encoder> encoder() const override {
    return encoderOf([this](std::string_view text, const auto &add) {
      for (size_t at = text.find_first_not_of(' '); at != std::string_view::npos;) {
        const size_t end = std::min(text.find(' ', at), text.size());
        const std::string_view word = text.substr(at, end - at);
        const auto id = idOf(word);
        if (!id)
          return errorf("\"{}\" is no token, expected 0 to {}", word, vocabulary_ - 1);
        add(*id, at, end);
        at = text.find_first_not_of(' ', end);
      }
      return Status::ok();
    });
  }
  int64_t vocabulary() const override { return vocabulary_; }
  std::optional<int32_t> endToken() const override { return static_cast<int32_t>(vocabulary_ - 1); }
  std::optional<int32_t> idOf(std::string_view token) const override {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), id);
    return error == std::errc() && end == token.data() + token.size() && id >= 0 && id < vocabulary_ ? std::optional(id)
                                                                                                     : std::nullopt;
  }
  std::vector<std::string> texts() const override {
    std::vector<std::string> texts;
    for (int64_t id = 0; id < std::min<int64_t>(vocabulary_, 1 << 24); ++id)
      texts.push_back(fmt::format(" {}", id));
    return texts;
  }

private:
  int64_t vocabulary_;
};

} // namespace

Result<std::unique_ptr<Tokenizer>> openSentencePiece(const std::string &path) {
  auto tokenizer = std::make_unique<SentencePieceTokenizer>();
  MGC_TRY(tokenizer->load(path));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

std::unique_ptr<Tokenizer> makeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

Result<std::unique_ptr<Tokenizer>> makeNullTokenizer(int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > INT32_MAX)
    return errorf("--vocab-size {}: expected 1 to {}, the number of tokens", vocabulary, INT32_MAX);
  return std::unique_ptr<Tokenizer>(std::make_unique<NullTokenizer>(vocabulary));
}

} // namespace mgc
