// Values of a line's flags, by their types. A flag that is there with a value of another type counts as absent, and is
// noted.
#pragma once

#include "tools/translate/MegatronLine.h"

#include <map>

namespace mgc::tools {

class LineFacts {
public:
  explicit LineFacts(const MegatronLine &line) : line_(line) {}

  bool has(const std::string &flag) const { return find(flag) != nullptr; }
  bool isOn(const std::string &flag); // a switch
  std::optional<std::string> word(const std::string &flag);
  std::optional<int64_t> whole(const std::string &flag, int64_t least = 1);
  std::optional<double> number(const std::string &flag, double least = 0);
  // Notes that the value of the flag says nothing.
  void refuse(const std::string &flag, const std::string &why);
  // Likewise, a reason why nothing here does what it says, and why it is not read.
  void lack(const std::string &flag, const std::string &why) { lacking_.emplace(nameOf(flag), why); }
  void ignore(const std::string &flag, const std::string &why) { idle_.emplace(nameOf(flag), why); }
  // The name under which the line has the flag, or one of its aliases.
  std::string nameOf(const std::string &flag) const;
  const std::map<std::string, std::string> &unusable() const { return unusable_; }
  const std::map<std::string, std::string> &lacking() const { return lacking_; }
  const std::map<std::string, std::string> &idle() const { return idle_; }

private:
  const MegatronLine &line_;
  std::map<std::string, std::string> unusable_, lacking_, idle_; // flag -> why
  const LineFlag *find(const std::string &flag) const;
};

} // namespace mgc::tools
