// See AddedTokens.h.
#include "runtime/tokenizers/AddedTokens.h"

#include "runtime/tokenizers/Unicode.h"

#include <algorithm>

namespace mgc {

Result<std::vector<AddedToken>> readAddedTokens(const JsonPlace &json) {
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < json.size(); ++i) {
    const JsonPlace row = json[i];
    AddedToken token;
    MGC_ASSIGN(content, row["content"].text());
    MGC_ASSIGN(id, row["id"].size(-1));
    MGC_ASSIGN(isSpecial, row["special"].flag(false));
    token.content = std::move(content), token.where = row["content"].where();
    for (const auto &[name, flag, otherwise] :
         {std::tuple("single_word", &token.isSingleWord, false), std::tuple("lstrip", &token.stripsLeft, false),
          std::tuple("rstrip", &token.stripsRight, false), std::tuple("normalized", &token.isNormalized, !isSpecial)}) {
      MGC_SET(*flag, row[name].flag(otherwise));
    }
    if (id < 0 || id > INT32_MAX)
      return errorf("{}.id: is {}, expected 0 to {}", row.where(), row["id"].shown(), INT32_MAX);
    token.id = static_cast<int32_t>(id);
    if (!token.content.empty())
      tokens.push_back(std::move(token));
  }
  return tokens;
}

void TokenFinder::add(const AddedToken &token, std::string_view content) {
  if (content.empty())
    return;
  size_t node = 0;
  for (const char c : content) {
    const auto [child, isNew] = nodes_[node].children.emplace(c, nodes_.size());
    node = child->second;
    if (isNew)
      nodes_.emplace_back();
  }
  if (!nodes_[node].token)
    nodes_[node].token = tokens_.size();
  tokens_.push_back(token);
  begins_[static_cast<unsigned char>(content[0])] = true;
}

std::pair<const AddedToken *, size_t> TokenFinder::longestAt(std::string_view text, size_t begin) const {
  std::pair<const AddedToken *, size_t> longest = {nullptr, begin};
  size_t node = 0;
  for (size_t at = begin; at < text.size();) {
    const auto child = nodes_[node].children.find(text[at++]);
    if (child == nodes_[node].children.end())
      break;
    node = child->second;
    if (nodes_[node].token)
      longest = {&tokens_[*nodes_[node].token], at};
  }
  return longest;
}

static bool isWithinWord(std::string_view text, size_t begin, size_t end) {
  size_t before = begin, after = end;
  return (begin > 0 && unicode::isWord(unicode::previous(text, before))) ||
         (end < text.size() && unicode::isWord(unicode::next(text, after)));
}

static size_t beginOfSpace(std::string_view text, size_t end) {
  for (size_t at = end; at > 0 && unicode::isWhitespace(unicode::previous(text, at));)
    end = at;
  return end;
}

static size_t endOfSpace(std::string_view text, size_t begin) {
  for (size_t at = begin; at < text.size() && unicode::isWhitespace(unicode::next(text, at));)
    begin = at;
  return begin;
}

Status TokenFinder::forEach(std::string_view text, const Visit &visit) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [token, end] = begins_[static_cast<unsigned char>(text[at])]
                                  ? longestAt(text, at)
                                  : std::pair<const AddedToken *, size_t>(nullptr, at);
    if (!token) {
      ++at;
      continue;
    }
    const size_t first = at;
    at = end;
    if (token->isSingleWord && isWithinWord(text, first, end))
      continue;
    // Space that the token before has taken is gone.
    const size_t begin = std::max(done, token->stripsLeft ? beginOfSpace(text, first) : first);
    const size_t last = token->stripsRight ? endOfSpace(text, end) : end;
    if (begin > done)
      MGC_TRY(visit(done, begin, -1));
    MGC_TRY(visit(begin, last, token->id));
    done = last;
  }
  if (done < text.size())
    MGC_TRY(visit(done, text.size(), -1));
  return Status::ok();
}

} // namespace mgc
