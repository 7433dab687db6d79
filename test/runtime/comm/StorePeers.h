// Many processes of a run, simulated by one thread with one epoll loop: each joins, gathers once, and goes.
#pragma once

#include "runtime/comm/bootstrap/Handshake.h"
#include "runtime/comm/bootstrap/StoreMessages.h"

#include <array>
#include <sys/epoll.h>

namespace mgc::test {

class StorePeers {
public:
  struct Times {
    double join = 0, gather = 0; // seconds
  };
  // Gathers from `run.processes` peers, each of which gives `value`. An error where one is not told the values of all.
  static Result<Times> gather(const Endpoint &at, const RunIdentity &run, const std::string &value) {
    StorePeers peers(run.processes, value);
    const auto start = Clock::now();
    MGC_TRY(peers.join(at, run));
    const double join = secondsSince(start);
    const auto joined = Clock::now();
    MGC_TRY(peers.requestAll());
    MGC_TRY(peers.receiveAll(StoreKind::values));
    return Times{join, secondsSince(joined)};
  }

private:
  using Clock = std::chrono::steady_clock;
  StorePeers(int64_t count, const std::string &value)
      : deadline_(Clock::now() + std::chrono::seconds(60)), value_(value), epoll_(epoll_create1(0)), count_(count) {
    Message answer = Message().with(kEndOfRun);
    for (int64_t rank = 0; rank < count; ++rank)
      (void)std::move(answer).with(value); // in place
    expected_ = answer.body;
  }
  static double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Status join(const Endpoint &at, const RunIdentity &run) {
    for (int64_t rank = 0; rank < count_; ++rank) {
      MGC_ASSIGN(socket, connectTo(at, deadline_));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = static_cast<uint64_t>(rank);
      epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket.number(), &event);
      peers_.emplace_back(std::in_place, std::move(socket));
      MGC_TRY(peers_.back()->send(helloOf({rank, "simulated", run}, deadline_), deadline_));
    }
    return receiveAll(StoreKind::welcome);
  }

  Status requestAll() {
    for (int64_t rank = 0; rank < count_; ++rank)
      MGC_TRY(peers_[rank]->send(Message::of(StoreKind::gather)
                                     .with(kEndOfRun)
                                     .with(int64_t(untilDeadline(deadline_)))
                                     .with(rank)
                                     .with(count_)
                                     .with(value_),
                                 deadline_));
    return Status::ok();
  }

  // Until each has received a message of this kind.
  Status receiveAll(StoreKind kind) {
    std::array<epoll_event, 256> events;
    for (int64_t left = count_; left > 0;) {
      const int ready = epoll_wait(epoll_.number(), events.data(), int(events.size()), untilDeadline(deadline_));
      if (ready == 0)
        return errorf("{} of {} peers have no answer", left, count_);
      for (int i = 0; i < ready; ++i) {
        MGC_ASSIGN(received, receive(peers_[events[i].data.u64], kind));
        left -= received;
      }
    }
    return Status::ok();
  }

  Result<int64_t> receive(std::optional<Connection> &peer, StoreKind kind) const {
    MGC_TRY(peer->receiveArrived());
    while (true) {
      MGC_ASSIGN(message, peer->next(kMaxAnswerBytes));
      if (!message)
        break;
      if (message->is(StoreKind::heard))
        continue;
      if (!message->is(kind))
        return errorf("a message of kind {}", message->kind);
      if (kind == StoreKind::values) {
        MGC_TRY(verify(*message));
        peer.reset();
      }
      return int64_t(1);
    }
    return int64_t(0);
  }

  Status verify(const Message &message) const {
    return message.body == expected_ ? Status::ok() : errorf("the answer has not the {} values", count_);
  }

  const Deadline deadline_;
  const std::string value_;
  const Descriptor epoll_;
  const int64_t count_;
  std::string expected_;                         // the body of an answer
  std::vector<std::optional<Connection>> peers_; // by rank
};

} // namespace mgc::test
