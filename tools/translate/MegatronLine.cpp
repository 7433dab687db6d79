// See MegatronLine.h.
#include "tools/translate/MegatronLine.h"

#include "runtime/base/File.h"
#include "runtime/base/Utf8.h"
#include "tools/flags/Quoted.h"
#include "tools/translate/OptionNames.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ranges>

namespace mgc::tools {

bool isOfShell(std::string_view word) {
  return word.size() > 1 && word[0] == '$' &&
         (std::isalpha(static_cast<unsigned char>(word[1])) ||
          std::string_view("_{(").find(word[1]) != std::string_view::npos);
}

namespace {

using Words = std::vector<std::string>;

constexpr int64_t kMaxTextBytes = 1 << 20;
constexpr int64_t kMaxWorld = 1 << 24;

// "-1" and "-inf" are values.
bool isFlag(std::string_view word) {
  const size_t letters = word.find_first_not_of('-');
  return letters > 0 && letters <= 2 && letters != word.npos &&
         std::isalpha(static_cast<unsigned char>(word[letters])) && word != "-inf" && word != "-nan";
}

bool isProgram(std::string_view word) { return word.ends_with(".py"); }

LineFlag flagOf(const std::string &word) {
  const size_t equals = word.find('=');
  LineFlag flag{word.substr(0, equals), {}};
  if (equals != word.npos)
    flag.values.push_back(word.substr(equals + 1));
  return flag;
}

// Flags with the words behind them.
std::vector<LineFlag> flagsOf(const Words &words) {
  std::vector<LineFlag> flags;
  for (const std::string &word : words)
    if (isFlag(word))
      flags.push_back(flagOf(word));
    else if (!flags.empty())
      flags.back().values.push_back(word);
  return flags;
}

bool isArray(std::string_view word) {
  return isOfShell(word) && (word.find("[@]") != word.npos || word.find("[*]") != word.npos);
}

Status refuseShell(const std::string &word, const std::string &place) {
  return errorf("found '{}' behind {}, expected a flag: let the shell replace it, and translate what echo prints: echo "
                "torchrun .. {}",
                word, place, word);
}

// A word of the shell may hold any flags where no value is expected.
Status verifyReplaced(const std::vector<LineFlag> &flags) {
  for (const LineFlag &flag : flags)
    for (size_t i = 0; i < flag.values.size(); ++i)
      if (isArray(flag.values[i]) || (isOfShell(flag.values[i]) && i >= mostValuesOf(flag.name)))
        return refuseShell(flag.values[i], flag.name);
  return Status::ok();
}

std::optional<int64_t> countIn(const std::vector<LineFlag> &flags, const Words &names) {
  for (const LineFlag &flag : std::views::reverse(flags)) {
    if (std::ranges::find(names, flag.name) == names.end() || flag.values.empty())
      continue;
    const std::string &text = flag.values.front();
    int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= kMaxWorld)
      return count;
  }
  return std::nullopt;
}

// The ranks that torchrun, mpirun or srun starts.
std::optional<int64_t> worldOf(const Words &launcher) {
  const std::vector<LineFlag> flags = flagsOf(launcher);
  if (const auto all = countIn(flags, {"-n", "-np", "--np", "--ntasks"}))
    return all;
  const auto here = countIn(flags, {"--nproc-per-node", "--nproc_per_node", "--ntasks-per-node"});
  const auto nodes = countIn(flags, {"--nnodes", "-N", "--nodes"});
  return here ? std::optional(*here * nodes.value_or(1)) : std::nullopt;
}

// Splits a text; each character is seen once.
class Splitter {
public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<Words> run() {
    while (at_ < text_.size())
      MGC_TRY(step());
    end();
    return std::move(words_);
  }

private:
  std::string_view text_;
  size_t at_ = 0;
  Words words_;
  std::string word_;
  bool hasWord_ = false; // '' is one too

  void end() {
    if (hasWord_)
      words_.push_back(std::move(word_));
    word_.clear(), hasWord_ = false;
  }
  void add(std::string_view text) { word_ += text, hasWord_ = true; }
  int64_t lineNumber() const { return 1 + std::ranges::count(text_.substr(0, at_), '\n'); }
  std::string_view restOfLine() const { return text_.substr(at_, text_.find('\n', at_) - at_); }

  void take(size_t count) {
    add(text_.substr(at_, count));
    at_ += count;
  }

  Status step() {
    const char c = text_[at_];
    if (c == '\'' || c == '"')
      return quote(c);
    if (std::isspace(static_cast<unsigned char>(c))) {
      end();
      ++at_;
    } else if (c == '#' && !hasWord_) {
      at_ += restOfLine().size();
    } else if (const size_t close = restOfLine().find('>'); c == '<' && !hasWord_ && close != std::string_view::npos) {
      take(close + 1);
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      escape();
    } else if (isRedirection()) {
      skipRedirection();
    } else if (c == '|' || c == '&' || c == ';') {
      endCommand();
    } else {
      take(1);
    }
    return Status::ok();
  }

  // > FILE, 2>&1, &> FILE; behind what is one word, <A PLACEHOLDER>.
  bool isRedirection() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with('>') || rest.starts_with("&>") || (isNumber() && rest.starts_with('<'));
  }
  bool isNumber() const {
    return std::ranges::all_of(word_, [](unsigned char c) { return std::isdigit(c); });
  }
  void skipRedirection() {
    if (isNumber())
      word_.clear(), hasWord_ = false;
    end();
    at_ = std::min(text_.find_first_not_of("<>&|", at_), text_.size());
    at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size());
    at_ = std::min(text_.find_first_of(" \t\r\n|&;", at_), text_.size());
  }

  // The words of a training end there; those of a command before it go.
  void endCommand() {
    end();
    const bool isTraining = !words_.empty() && (isFlag(words_.front()) || std::ranges::any_of(words_, isProgram));
    at_ = isTraining ? text_.size() : at_ + 1;
    if (!isTraining)
      words_.clear();
  }

  // The character behind a backslash, but for the end of a line, which goes.
  void escape() {
    at_ += text_.substr(at_ + 1).starts_with("\r\n") ? 2 : 1;
    if (text_[at_] == '\n')
      ++at_;
    else
      take(1);
  }

  Status quote(char c) {
    const size_t close = text_.find(c, at_ + 1);
    if (close == text_.npos)
      return errorf("line {}: {} has no end", lineNumber(), restOfLine().substr(0, 40));
    add(text_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    return Status::ok();
  }
};

} // namespace

std::string LineFlag::text() const {
  std::string all = name;
  for (const std::string &value : values)
    all += " " + quoted(value);
  return all;
}

const LineFlag *MegatronLine::last(const std::vector<std::string> &names) const {
  for (const LineFlag &flag : std::views::reverse(flags))
    if (std::ranges::find(names, flag.name) != names.end())
      return &flag;
  return nullptr;
}

Result<MegatronLine> lineOf(const Words &words) {
  MegatronLine line;
  auto begin = words.begin();
  if (begin != words.end() && !isFlag(*begin)) {
    if (isOfShell(*begin) && std::ranges::none_of(words, isProgram))
      return refuseShell(*begin, "the beginning");
    const auto program = std::ranges::find_if(words, isProgram);
    if (program == words.end())
      return errorf("found '{}', expected a flag, or a launcher and a program (torchrun .. pretrain_gpt.py ..)",
                    *begin);
    line.world = worldOf({begin, program});
    line.program = program->substr(program->rfind('/') + 1);
    begin = program + 1;
    if (begin != words.end() && isOfShell(*begin))
      return refuseShell(*begin, *program);
    if (begin != words.end() && !isFlag(*begin))
      return errorf("found '{}' behind {}, expected a flag", *begin, *program);
  }
  line.flags = flagsOf({begin, words.end()});
  MGC_TRY(verifyReplaced(line.flags));
  if (line.flags.empty())
    return errorf("there is no flag, expected those of a training: --num-layers 24 ..");
  return line;
}

Result<Words> wordsOf(std::string_view text) { return Splitter(text).run(); }

Result<Words> wordsOfFile(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMaxTextBytes));
  if (text.find('\0') != text.npos || firstInvalidUtf8(text))
    return errorf("{}: is no text, expected flags of Megatron-LM", path);
  return wordsOf(text).at(path);
}

} // namespace mgc::tools
