// See Rendezvous.h.
#include "runtime/comm/bootstrap/Rendezvous.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/Handshake.h"

#include <algorithm>

namespace mgc {

namespace {

constexpr int64_t kMaxWaits = 64; // limit per process

} // namespace

void Rendezvous::refuse(int64_t rank, const std::string &key, const std::string &why) const {
  send_(rank, bytesOf(Message::of(StoreKind::refused).with(key).with(why)));
}

// In a gather to the first place, the first place alone waits.
static bool isAwaited(const StoreRequest &request) {
  return request.kind != StoreKind::gatherToFirst || request.place == 0;
}

Status Rendezvous::verify(const StoreRequest &request) const {
  const std::string key = printable(request.key);
  if (request.key.size() > kMaxKeyBytes)
    return errorf("a key of {} bytes, expected at most {}", request.key.size(), kMaxKeyBytes);
  if (request.places > processes_)
    return errorf("'{}': {} places; expected at most {}, the number of processes", key, request.places, processes_);
  if (request.place < 0 || request.place >= request.places)
    return errorf("'{}': place {} of {}; expected one of them", key, request.place, request.places);
  if (isAwaited(request) && waits_[request.rank] >= kMaxWaits)
    return errorf("'{}': {} requests of this process wait already; expected at most so many", key, kMaxWaits);
  return Status::ok();
}

Status Rendezvous::give(const StoreRequest &request) {
  const auto bytes = std::ssize(request.key) + std::ssize(request.value);
  if (bytes_ + bytes > kMaxStoreBytes)
    return errorf("the store is full: '{}' would make it {} bytes, expected at most {}", printable(request.key),
                  bytes_ + bytes, kMaxStoreBytes);
  Meeting &meeting = meetings_[request.key];
  if (meeting.values.empty())
    meeting.values.resize(static_cast<size_t>(request.places));
  const auto place = static_cast<size_t>(request.place);
  if (std::ssize(meeting.values) != request.places || meeting.values[place])
    return errorf("'{}': place {} of {} was given where there are {} and {}; expected each once",
                  printable(request.key), place, request.places, meeting.values.size(),
                  place < meeting.values.size() && meeting.values[place] ? "it has its value" : "not so many");
  meeting.values[place] = request.value;
  ++meeting.come;
  meeting.bytes += bytes, bytes_ += bytes;
  return Status::ok();
}

bool Rendezvous::handle(const StoreRequest &request) {
  Status given = verify(request);
  if (given.isOk() && request.kind != StoreKind::get)
    given = give(request);
  if (!given.isOk()) {
    refuse(request.rank, request.key, given.message());
    return false;
  }
  if (isAwaited(request)) {
    meetings_[request.key].waits.push_back({request.rank, request.milliseconds, request.deadline});
    ++waits_[request.rank];
  } else {
    send_(request.rank, bytesOf(Message::of(StoreKind::values).with(request.key)));
  }
  answer(request.key, request.kind == StoreKind::share || request.kind == StoreKind::get);
  return true;
}

// A shared value stays for processes that ask later.
void Rendezvous::answer(const std::string &key, bool isKept) {
  Meeting &meeting = meetings_[key];
  if (!meeting.isComplete())
    return;
  Message all = Message::of(StoreKind::values).with(key);
  for (const std::optional<std::string> &value : meeting.values)
    (void)std::move(all).with(*value); // in place
  const Connection::Bytes bytes = bytesOf(all);
  const std::vector<Wait> waits = std::move(meeting.waits);
  meeting.waits.clear();
  if (!isKept) {
    bytes_ -= meeting.bytes;
    meetings_.erase(key);
  }
  for (const Wait &wait : waits) {
    --waits_[wait.rank];
    send_(wait.rank, bytes);
  }
}

// The subject of a wait that is over, for its message.
std::string Rendezvous::describe(const Meeting &meeting, const std::string &key) {
  if (meeting.values.empty())
    return fmt::format("'{}', which nobody has set", printable(key));
  std::vector<std::string> missing;
  for (size_t place = 0; place < meeting.values.size(); ++place)
    if (!meeting.values[place])
      missing.push_back(std::to_string(place));
  return fmt::format("members [{}] to join {}", listed(std::move(missing)), printable(key));
}

Deadline Rendezvous::expire(Deadline now) {
  Deadline next = Deadline::max();
  for (auto meeting = meetings_.begin(); meeting != meetings_.end();) {
    auto &[key, found] = *meeting;
    std::erase_if(found.waits, [&](const Wait &wait) {
      if (now < wait.deadline) {
        next = std::min(next, wait.deadline);
        return false;
      }
      --waits_[wait.rank];
      refuse(wait.rank, key,
             fmt::format("waited {} s for {}; expected --timeout to be longer",
                         static_cast<double>(wait.milliseconds) / 1000, describe(found, key)));
      return true;
    });
    meeting = found.come == 0 && found.waits.empty() ? meetings_.erase(meeting) : std::next(meeting);
  }
  return next;
}

} // namespace mgc
