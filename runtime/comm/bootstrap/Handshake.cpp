// See Handshake.h.
#include "runtime/comm/bootstrap/Handshake.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/StoreMessages.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

constexpr size_t kListed = 16; // names in a message

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The lines in which a process differs from rank 0; a line that only one has counts too.
std::string differencesOf(const std::vector<std::string> &own, const Joining &other) {
  const std::vector<std::string> &found = other.run.settings;
  std::string text;
  for (size_t i = 0; i < std::max(own.size(), found.size()); ++i) {
    const std::string mine = i < own.size() ? own[i] : "nothing", theirs = i < found.size() ? found[i] : "nothing";
    if (mine != theirs)
      text += fmt::format("\n  {} on rank {}, {} on rank 0", theirs, other.rank, mine);
  }
  return text;
}

} // namespace

Message helloOf(const Joining &joining, Deadline deadline) {
  const RunIdentity &run = joining.run;
  return Message::of(StoreKind::hello)
      .with(kStoreMagic)
      .with(kStoreProtocol)
      .with(joining.rank)
      .with(run.processes)
      .with(run.planVersion)
      .with(static_cast<int64_t>(run.planHash))
      .with(fmt::format("{}", fmt::join(run.settings, "\n")))
      .with(joining.who)
      .with(joining.failure)
      .with(int64_t(untilDeadline(deadline)));
}

std::optional<Hello> readHello(const Message &message) {
  MessageReader reader(message);
  Hello hello;
  if (!message.is(StoreKind::hello) || reader.text() != kStoreMagic)
    return std::nullopt;
  hello.protocol = reader.number();
  if (hello.protocol != kStoreProtocol)
    return hello;
  Joining &joining = hello.joining;
  joining.rank = reader.number();
  joining.run.processes = reader.number();
  joining.run.planVersion = reader.number();
  joining.run.planHash = static_cast<uint64_t>(reader.number());
  joining.run.settings = linesOf(reader.text());
  joining.who = printable(reader.text());
  joining.failure = reader.text().substr(0, kMaxCauseBytes);
  hello.milliseconds = reader.number();
  return reader.isWhole() ? std::optional(hello) : std::nullopt;
}

Status verifyHello(const Joining &own, const Hello &hello, const std::string &present) {
  const Joining &found = hello.joining;
  const RunIdentity &run = found.run;
  const std::string name = nameOf(found.rank, found.who);
  if (hello.protocol != kStoreProtocol)
    return errorf("it speaks version {} of the store's language, rank 0 ({}) version {}: another version of mgrun; "
                  "expected one version for all",
                  hello.protocol, own.who, kStoreProtocol);
  if (!own.failure.empty())
    return errorf("rank 0 ({}) does not come: {}", own.who, own.failure);
  if (!found.failure.empty())
    return errorf("{} does not come: {}", name, found.failure);
  if (run.processes != own.run.processes)
    return errorf("{} says that there are {} processes, rank 0 ({}) that there are {}; expected one WORLD_SIZE, or "
                  "--world-size, for all",
                  name, run.processes, own.who, own.run.processes);
  if (found.rank < 0 || found.rank >= run.processes)
    return errorf("{}: expected a rank from 0 to {}", name, run.processes - 1);
  if (!present.empty())
    return errorf("two processes are rank {}: {}, and {}; expected a RANK, or --rank, of its own for each", found.rank,
                  present, found.who);
  if (run.planVersion != own.run.planVersion || run.planHash != own.run.planHash)
    return errorf("{} runs another plan: version {}, hash {:016x}; rank 0 ({}) runs version {}, hash {:016x}; expected "
                  "the same plan.json for all",
                  name, run.planVersion, run.planHash, own.who, own.run.planVersion, own.run.planHash);
  if (run.settings != own.run.settings)
    return errorf("{} runs the plan in another way than rank 0 ({}); expected the same for all:{}", name, own.who,
                  differencesOf(own.run.settings, found));
  return Status::ok();
}

std::string nameOf(int64_t rank, const std::string &who) { return fmt::format("rank {} ({})", rank, who); }

std::string listed(std::vector<std::string> names) {
  const size_t more = names.size() - std::min(names.size(), kListed);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string describeMissing(const std::vector<std::string> &who, double seconds) {
  std::vector<std::string> missing, here;
  for (size_t rank = 0; rank < who.size(); ++rank)
    if (who[rank].empty())
      missing.push_back(std::to_string(rank));
    else
      here.push_back(nameOf(int64_t(rank), who[rank]));
  return fmt::format("waited {} s for the processes of {} ranks: rank{} {} of them {} not come; here {} {}", seconds,
                     who.size(), missing.size() == 1 ? "" : "s", listed(missing), missing.size() == 1 ? "has" : "have",
                     here.size() == 1 ? "is" : "are", listed(here));
}

} // namespace mgc
