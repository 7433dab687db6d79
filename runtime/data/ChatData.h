// Supervised fine-tuning: a .jsonl of conversations -> samples whose labels are the tokens of answers.
//
//   sequence 8, conversations A (3 tokens), B (4), C (6); small letters are learned
//     plan of packed documents   A A a B B b b .     labels  . a . . b b . .     then C
//     other plans                A A a . . . . .     a conversation each
#pragma once

#include "runtime/data/Data.h"

namespace mgc {

// Each text is tokenized whole. A token is learned if one of its bytes is; of a pair the tokenizer's end token is, too, which follows
// it; before it stands what the tokenizer puts before a text. A conversation that is longer than a sequence is cut off; one in which nothing is left to be learned is left out. The order
// of the conversations, and that of the samples of each epoch, is drawn from the seed.
Result<std::unique_ptr<DataSource>> openChats(const std::string &path, const plan::Plan &plan, uint64_t seed,
                                              const Tokenizer &tokenizer, const DataOptions &options);

} // namespace mgc
