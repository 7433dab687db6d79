// Joins the ranks of one communicator, in the process that made its identity. Collectives are done when the last rank has
// come: sums in f32 (or in whole numbers) in the order of the ranks, rounded once. A transfer is done when both ends have
// come.
#pragma once

#include "test/emulate/cuda/nccl/Wire.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace mgc::emulate {

class Hub : public std::enable_shared_from_this<Hub> {
public:
  // Listens from now on. Null: no socket could be made.
  static std::shared_ptr<Hub> make(const std::string &name);
  // The one of this process by that name; null: it is another process's.
  static std::shared_ptr<Hub> find(const std::string &name);
  // Until every rank has left or is gone.
  void waitForAll();

private:
  struct Rank {
    int socket = -1;
    bool hasLeft = false;
    uint64_t collectives = 0; // begun so far
    std::deque<Message> answers;
    std::condition_variable answered;
  };
  struct Collective {
    std::map<uint32_t, Message> parts; // by rank
  };
  struct Pair {
    std::deque<Message> sent, wanted;
    bool hasSender = false, hasReceiver = false; // hosts that have come to meet
  };

  explicit Hub(std::string name, int listener) : name_(std::move(name)), listener_(listener) {}
  void accept();
  void serve(int socket);
  void writeAnswers(uint32_t rank);
  bool join(int socket, const Message &message, uint32_t &rank);
  void handle(uint32_t rank, Message message);
  void addPart(uint32_t rank, Message message);
  void finish(Collective &collective);
  void match(uint32_t from, uint32_t to);
  void meet(uint32_t from, uint32_t to, bool isSender);
  void answer(uint32_t rank, Message message);
  void fail(const std::string &why);

  bool haveAllLeft() const;

  const std::string name_;
  const int listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t size_ = 0; // 0: nobody has joined
  std::map<uint32_t, std::unique_ptr<Rank>> ranks_;
  std::map<uint64_t, Collective> collectives_;
  std::map<std::pair<uint32_t, uint32_t>, Pair> pairs_; // from, to
  std::string failure_;
};

} // namespace mgc::emulate
