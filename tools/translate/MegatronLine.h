// A command line of Megatron-LM, from words or from a text, as flags with their values.
//   torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 24 --bf16 ..
//   --num-layers 24        # a text may have one flag a line, and comments
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::tools {

struct LineFlag {
  std::string name; // "--num-layers"
  std::vector<std::string> values;
  std::string text() const; // as it was given
};

struct MegatronLine {
  std::string program;          // "pretrain_gpt.py"; empty: the line has flags alone
  std::optional<int64_t> world; // ranks, where the launcher says how many
  std::vector<LineFlag> flags;
  // The last flag of one of these names, which counts; null: there is none.
  const LineFlag *last(const std::vector<std::string> &names) const;
};

Result<MegatronLine> lineOf(const std::vector<std::string> &words);

// Words as a shell splits them: quotes, \ at the end of a line, comments. Variables stay as they are. They end
// where the command does (| & ;), and have no redirections. <A PLACEHOLDER> is one word.
Result<std::vector<std::string>> wordsOf(std::string_view text);

// The words of a file; an error where it is no text.
Result<std::vector<std::string>> wordsOfFile(const std::string &path);

// Whether the word is left to a shell to replace: $NAME, ${NAME}, $(..)
bool isOfShell(std::string_view word);

} // namespace mgc::tools
