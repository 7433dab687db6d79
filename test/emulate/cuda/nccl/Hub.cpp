#include "test/emulate/cuda/nccl/Hub.h"

#include "test/emulate/cuda/nccl/Reduce.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace mgc::emulate {
namespace {

std::mutex hubsMutex;
std::map<std::string, std::shared_ptr<Hub>> &hubs() {
  static auto &all = *new std::map<std::string, std::shared_ptr<Hub>>;
  return all;
}

std::string describe(const Header &header) {
  return fmt::format("{} of {} elements of type {}, operation {}", nameOf(header.kind), header.count, header.type,
                     header.op);
}

} // namespace

std::shared_ptr<Hub> Hub::make(const std::string &name) {
  const int listener = listenAt(name);
  if (listener < 0)
    return nullptr;
  std::shared_ptr<Hub> hub(new Hub(name, listener));
  std::thread([hub] { hub->accept(); }).detach();
  std::lock_guard lock(hubsMutex);
  return hubs()[name] = hub;
}

std::shared_ptr<Hub> Hub::find(const std::string &name) {
  std::lock_guard lock(hubsMutex);
  auto found = hubs().find(name);
  return found == hubs().end() ? nullptr : found->second;
}

void Hub::waitForAll() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return haveAllLeft(); });
}

bool Hub::haveAllLeft() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto &one) { return one.second->hasLeft; });
}

// Until the last rank has left, which shuts the listener down.
void Hub::accept() {
  for (int socket; (socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
    std::thread([self = shared_from_this(), socket] { self->serve(socket); }).detach();
  ::close(listener_);
  std::lock_guard lock(hubsMutex);
  hubs().erase(name_);
}

// Handles the messages of one rank, from joining to its end.
void Hub::serve(int socket) {
  Message message;
  uint32_t rank = 0;
  if (!read(socket, message) || !join(socket, message, rank)) {
    ::close(socket);
    return;
  }
  std::thread([self = shared_from_this(), rank] { self->writeAnswers(rank); }).detach();
  while (read(socket, message) && message.header.kind != Kind::leave)
    handle(rank, std::move(message));
  std::lock_guard lock(mutex_);
  if (message.header.kind != Kind::leave)
    fail(fmt::format("rank {} has gone", rank));
  ranks_[rank]->hasLeft = true;
  ranks_[rank]->answered.notify_all();
  changed_.notify_all();
  if (haveAllLeft())
    ::shutdown(listener_, SHUT_RDWR);
}

// The last one to join lets all of them go on.
bool Hub::join(int socket, const Message &message, uint32_t &rank) {
  std::lock_guard lock(mutex_);
  rank = message.header.peer;
  const uint64_t size = message.header.count;
  std::string wrong;
  if (size_ && size != size_)
    wrong = fmt::format("rank {} joins a communicator of {} as one of {}", rank, size_, size);
  else if (rank >= size || ranks_.count(rank))
    wrong = fmt::format("rank {} joins a communicator of {} {}", rank, size, rank >= size ? "" : "a second time");
  if (!wrong.empty()) {
    write(socket, {{.bytes = wrong.size()}, {wrong.begin(), wrong.end()}});
    return false;
  }
  size_ = size;
  ranks_[rank] = std::make_unique<Rank>();
  ranks_[rank]->socket = socket;
  if (ranks_.size() == size_)
    for (auto &[number, one] : ranks_)
      answer(number, {{.kind = Kind::join}, {}});
  return true;
}

void Hub::writeAnswers(uint32_t rank) {
  std::unique_lock lock(mutex_);
  Rank &mine = *ranks_[rank];
  for (;;) {
    mine.answered.wait(lock, [&] { return !mine.answers.empty() || mine.hasLeft; });
    if (mine.answers.empty())
      break;
    Message message = std::move(mine.answers.front());
    mine.answers.pop_front();
    lock.unlock();
    const bool isWritten = write(mine.socket, message);
    lock.lock();
    if (!isWritten)
      break;
  }
  mine.answered.wait(lock, [&] { return mine.hasLeft; });
  ::close(mine.socket);
}

void Hub::answer(uint32_t rank, Message message) {
  message.header.bytes = message.data.size();
  ranks_[rank]->answers.push_back(std::move(message));
  ranks_[rank]->answered.notify_all();
}

// To all ranks, once.
void Hub::fail(const std::string &why) {
  if (!failure_.empty())
    return;
  failure_ = why;
  for (auto &[number, one] : ranks_)
    if (!one->hasLeft)
      answer(number, {{}, {why.begin(), why.end()}});
}

void Hub::handle(uint32_t rank, Message message) {
  std::lock_guard lock(mutex_);
  const uint32_t peer = message.header.peer;
  switch (message.header.kind) {
  case Kind::send:
    pairs_[{rank, peer}].sent.push_back(std::move(message));
    return match(rank, peer);
  case Kind::receive:
    pairs_[{peer, rank}].wanted.push_back(std::move(message));
    return match(peer, rank);
  case Kind::meet:
    return message.header.op ? meet(rank, peer, true) : meet(peer, rank, false);
  default:
    return addPart(rank, std::move(message));
  }
}

void Hub::meet(uint32_t from, uint32_t to, bool isSender) {
  Pair &pair = pairs_[{from, to}];
  (isSender ? pair.hasSender : pair.hasReceiver) = true;
  if (!pair.hasSender || !pair.hasReceiver)
    return;
  answer(from, {{.kind = Kind::meet, .peer = to}, {}});
  answer(to, {{.kind = Kind::meet, .peer = from}, {}});
}

void Hub::match(uint32_t from, uint32_t to) {
  Pair &pair = pairs_[{from, to}];
  if (pair.sent.empty() || pair.wanted.empty())
    return;
  Message sent = std::move(pair.sent.front());
  const Header wanted = pair.wanted.front().header;
  pair.sent.pop_front();
  pair.wanted.pop_front();
  if (sent.data.size() != wanted.count * bytesOf(wanted.type))
    return fail(fmt::format("rank {} sends {} bytes to rank {}, which receives {}", from, sent.data.size(), to,
                            wanted.count * bytesOf(wanted.type)));
  answer(from, {{.kind = Kind::send, .peer = to}, {}});
  answer(to, {{.kind = Kind::receive, .peer = from}, std::move(sent.data)});
}

void Hub::addPart(uint32_t rank, Message message) {
  const uint64_t number = ranks_[rank]->collectives++;
  Collective &collective = collectives_[number];
  collective.parts[rank] = std::move(message);
  if (collective.parts.size() < size_)
    return;
  finish(collective);
  collectives_.erase(number);
}

void Hub::finish(Collective &collective) {
  const Header &first = collective.parts[0].header;
  std::vector<const std::vector<char> *> parts;
  for (const auto &[rank, part] : collective.parts) {
    if (describe(part.header) != describe(first))
      return fail(fmt::format("rank 0 begins an {}, rank {} an {}", describe(first), rank, describe(part.header)));
    parts.push_back(&part.data);
  }
  std::vector<char> result;
  if (first.kind == Kind::allGather)
    for (const auto *part : parts)
      result.insert(result.end(), part->begin(), part->end());
  else
    result = reduced(first.type, first.op, parts);
  const size_t share = first.kind == Kind::reduceScatter ? result.size() / size_ : 0;
  for (const auto &[rank, part] : collective.parts) {
    const auto begin = result.begin() + rank * share;
    answer(rank, {{.kind = first.kind}, {begin, share ? begin + share : result.end()}});
  }
}

} // namespace mgc::emulate
