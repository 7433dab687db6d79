// A tokenizer.json of Hugging Face's tokenizers: added tokens, normalizer, pre-tokenizer, model, post-processor.
//
//   "Hello<|eot|> wörld"     added tokens  Hello | <|eot|> |  wörld
//                            normalizer    each piece between them
//                            pre-tokenizer Hello | Ġw.. -> the model's words
//                            model         ids of each word
//                            post-processor ids before and after
#pragma once

#include "runtime/tokenizers/Tokenizer.h"

namespace mgc {

// The tokenizer.json of a path that may be its folder.
std::string tokenizerJsonOf(const std::string &path);

// `path`: a tokenizer.json or its folder. The end token is eos_token of a tokenizer_config.json, or
// special_tokens_map.json, next to it. A part that is not known is an error that names it.
Result<std::unique_ptr<Tokenizer>> openHuggingFaceTokenizer(const std::string &path);

// GPT-2's byte-level BPE of a vocab.json, an object of tokens and ids, and a merges.txt, a pair of tokens a line. The end token is
// <|endoftext|>; in a text it is no token but its characters.
Result<std::unique_ptr<Tokenizer>> openGpt2Tokenizer(const std::string &vocabulary, const std::string &merges);

} // namespace mgc
