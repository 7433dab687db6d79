#include "test/runtime/device/host_plugin/HostComm.h"

#include "runtime/base/Bf16.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace mgc::test {

namespace {

float wide(Bf16 value) { return toFloat(value); }
template <typename T> T wide(T value) { return value; }

template <typename T> auto load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof value);
  return wide(value);
}

template <typename T>
void reduceElements(bool isMax, std::byte *to, std::span<const std::byte *const> sources, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    auto sum = load<T>(sources[0], i);
    for (const std::byte *source : sources.subspan(1)) {
      const auto term = load<T>(source, i);
      if (!isMax)
        sum += term;
      else if (term > sum || term != term)
        sum = term;
    }
    T result;
    if constexpr (std::is_same_v<T, Bf16>)
      result = toBf16(sum);
    else
      result = sum;
    std::memcpy(to + i * int64_t(sizeof(T)), &result, sizeof result);
  }
}

struct Grouped {
  HostStream *stream;
  Work begin, end; // work that may not wait, and work that may
  bool isSend;
};
thread_local std::vector<Grouped> grouped;
thread_local int groupDepth = 0;

Status give(HostStream &stream, Work begin, Work end, bool isSend = false) {
  if (groupDepth > 0) {
    grouped.push_back({&stream, std::move(begin), std::move(end), isSend});
    return Status::ok();
  }
  return stream.submit([begin = std::move(begin), end = std::move(end)]() -> Status {
    MGC_TRY(begin());
    return end();
  });
}

} // namespace

Status reduce(mgc_reduce reduce, mgc_type type, std::byte *to, std::span<const std::byte *const> sources,
              int64_t elements) {
  const bool isMax = reduce == MGC_MAX;
  if (type == MGC_F32)
    reduceElements<float>(isMax, to, sources, elements);
  else if (type == MGC_BF16)
    reduceElements<Bf16>(isMax, to, sources, elements);
  else
    reduceElements<int32_t>(isMax, to, sources, elements);
  return Status::ok();
}

int64_t bytesOf(mgc_type type) { return type == MGC_BF16 ? 2 : 4; }

struct CommGroup {
  struct Meeting {
    std::vector<HostComm::Ends> ends;
    int64_t arrived = 0, left = 0;
    bool isDone = false;
    Status status;
  };
  struct Message {
    const std::byte *from;
    int64_t bytes;
    bool isTaken = false;
  };
  std::mutex mutex;
  std::condition_variable condition;
  bool isAborted = false;
  std::map<uint64_t, Meeting> meetings;                                                 // by number of the collective
  std::map<std::pair<int64_t, int64_t>, std::deque<std::shared_ptr<Message>>> messages; // by (from, to)

  template <typename Ready> Status wait(std::unique_lock<std::mutex> &lock, Ready ready) {
    condition.wait(lock, [&] { return isAborted || ready(); });
    return isAborted ? errorf("the communicator was aborted") : Status::ok();
  }
};

namespace {

std::shared_ptr<CommGroup> groupOf(const mgc_comm_id &id) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<CommGroup>> groups;
  std::lock_guard lock(mutex);
  std::weak_ptr<CommGroup> &known = groups[std::string(id.bytes, sizeof id.bytes)];
  std::shared_ptr<CommGroup> group = known.lock();
  if (!group)
    known = group = std::make_shared<CommGroup>();
  return group;
}

} // namespace

Result<mgc_comm_id> HostComm::makeId() {
  static std::atomic<uint64_t> next{1};
  mgc_comm_id id{};
  const uint64_t number = next++;
  std::memcpy(id.bytes, &number, sizeof number);
  return id;
}

// As ncclCommInitRank, it returns when all ranks have come.
HostComm::HostComm(HostDevice &device, const mgc_comm_id &id, int64_t ranks, int64_t rank)
    : device_(device), group_(groupOf(id)), ranks_(ranks), rank_(rank) {
  (void)meet(next_++, {}, [](const auto &) { return Status::ok(); });
}

HostComm::~HostComm() = default;

Status HostComm::meet(uint64_t number, Ends mine, const All &all) {
  std::unique_lock lock(group_->mutex);
  CommGroup::Meeting &meeting = group_->meetings[number];
  meeting.ends.resize(size_t(ranks_));
  meeting.ends[size_t(rank_)] = mine;
  if (++meeting.arrived == ranks_) {
    meeting.status = all(meeting.ends);
    meeting.isDone = true;
    group_->condition.notify_all();
  }
  MGC_TRY(group_->wait(lock, [&] { return meeting.isDone; }));
  const Status status = meeting.status;
  if (++meeting.left == ranks_)
    group_->meetings.erase(number);
  return status;
}

Status HostComm::collective(HostStream &stream, mgc_address to, int64_t toBytes, mgc_address from, int64_t fromBytes,
                            All all) {
  auto work = [=, this, all = std::move(all)]() -> Status {
    MGC_ASSIGN(target, device_.at(to, toBytes));
    MGC_ASSIGN(source, device_.at(from, fromBytes));
    return meet(next_++, {target, source}, all);
  };
  return give(stream, [] { return Status::ok(); }, std::move(work));
}

static std::vector<std::byte> reduceAll(mgc_reduce kind, mgc_type type, const auto &ends, int64_t elements) {
  std::vector<const std::byte *> sources;
  for (const auto &end : ends)
    sources.push_back(end.from);
  std::vector<std::byte> sum(size_t(elements * bytesOf(type)));
  (void)reduce(kind, type, sum.data(), sources, elements);
  return sum;
}

Status HostComm::allReduce(HostStream &stream, mgc_reduce kind, mgc_type type, mgc_address to, mgc_address from,
                           int64_t elements) {
  const int64_t bytes = elements * bytesOf(type);
  return collective(stream, to, bytes, from, bytes, [=](const std::vector<Ends> &ends) {
    const std::vector<std::byte> sum = reduceAll(kind, type, ends, elements);
    for (const Ends &end : ends)
      std::copy(sum.begin(), sum.end(), end.to);
    return Status::ok();
  });
}

Status HostComm::allGather(HostStream &stream, mgc_type type, mgc_address to, mgc_address from, int64_t elements) {
  const int64_t bytes = elements * bytesOf(type);
  return collective(stream, to, bytes * ranks_, from, bytes, [=](const std::vector<Ends> &ends) {
    for (const Ends &end : ends)
      for (size_t i = 0; i < ends.size(); ++i)
        if (bytes > 0)
          std::memmove(end.to + int64_t(i) * bytes, ends[i].from, size_t(bytes));
    return Status::ok();
  });
}

Status HostComm::reduceScatter(HostStream &stream, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                               int64_t elements) {
  const int64_t bytes = elements * bytesOf(type);
  return collective(stream, to, bytes, from, bytes * ranks_, [=, ranks = ranks_](const std::vector<Ends> &ends) {
    const std::vector<std::byte> sum = reduceAll(reduce, type, ends, elements * ranks);
    for (size_t i = 0; i < ends.size(); ++i)
      std::copy_n(sum.begin() + int64_t(i) * bytes, bytes, ends[i].to);
    return Status::ok();
  });
}

Status HostComm::send(HostStream &stream, mgc_address from, int64_t bytes, int64_t peer) {
  auto message = std::make_shared<std::shared_ptr<CommGroup::Message>>(); // for the run in progress
  auto begin = [=, this]() -> Status {
    MGC_ASSIGN(source, device_.at(from, bytes));
    std::lock_guard lock(group_->mutex);
    *message = std::make_shared<CommGroup::Message>(CommGroup::Message{source, bytes});
    group_->messages[{rank_, peer}].push_back(*message);
    group_->condition.notify_all();
    return Status::ok();
  };
  auto end = [=, this]() -> Status {
    std::unique_lock lock(group_->mutex);
    return group_->wait(lock, [&] { return (*message)->isTaken; });
  };
  return give(stream, std::move(begin), std::move(end), true);
}

Status HostComm::receive(HostStream &stream, mgc_address to, int64_t bytes, int64_t peer) {
  auto end = [=, this]() -> Status {
    MGC_ASSIGN(target, device_.at(to, bytes));
    std::unique_lock lock(group_->mutex);
    auto &queue = group_->messages[{peer, rank_}];
    MGC_TRY(group_->wait(lock, [&] { return !queue.empty(); }));
    CommGroup::Message &message = *queue.front();
    if (message.bytes != bytes)
      return errorf("rank {} sends {} bytes where rank {} receives {}", peer, message.bytes, rank_, bytes);
    if (bytes > 0)
      std::memcpy(target, message.from, size_t(bytes));
    message.isTaken = true;
    queue.pop_front();
    group_->condition.notify_all();
    return Status::ok();
  };
  return give(stream, [] { return Status::ok(); }, std::move(end));
}

void HostComm::abort() {
  std::lock_guard lock(group_->mutex);
  group_->isAborted = true;
  group_->condition.notify_all();
}

Status HostComm::check() const {
  std::lock_guard lock(group_->mutex);
  return group_->isAborted ? errorf("the communicator was aborted") : Status::ok();
}

Status HostComm::beginGroup() {
  ++groupDepth;
  return Status::ok();
}

Status HostComm::endGroup() {
  if (--groupDepth > 0)
    return Status::ok();
  std::vector<Grouped> all = std::move(grouped);
  grouped.clear();
  if (all.empty())
    return Status::ok();
  HostStream &stream = *all.front().stream;
  for (const Grouped &one : all)
    if (one.stream != &stream)
      return errorf("a group on two streams");
  return stream.submit([all = std::move(all)]() -> Status {
    for (const Grouped &one : all)
      MGC_TRY(one.begin());
    for (bool sends : {false, true}) // a send ends when it is received, maybe by this group
      for (const Grouped &one : all)
        if (one.isSend == sends)
          MGC_TRY(one.end());
    return Status::ok();
  });
}

} // namespace mgc::test
