// See StoreHosts.h. A collective is a gather of the store: what each takes it for, and its bytes.
#include "runtime/comm/hosts/StoreHosts.h"

#include "runtime/comm/bootstrap/AbortCause.h"
#include "runtime/comm/thread/ThreadRank.h"
#include "runtime/random/Philox.h"

#include <cstring>
#include <fmt/ranges.h>

namespace mgc {

namespace {

class StoreHosts final : public Communicator {
public:
  StoreHosts(Processes &processes, std::chrono::milliseconds timeout) : processes_(processes), timeout_(timeout) {
    processes_.setAbortListener([this](const Status &cause) { cause_.set(cause); });
  }
  ~StoreHosts() override { processes_.setAbortListener(nullptr); }
  int64_t rank() const override { return processes_.rank(); }
  int64_t worldSize() const override { return processes_.size(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override;
  void setProgress(Progress *) override {}
  void setWaitObserver(WaitObserver *) override {}
  using Communicator::collective;
  Status collective(const plugin::Stream &, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address) override;
  Status exchangeRows(const plugin::Stream &, GroupId, const plan::ExchangeRows &, const RowBuffers &) override {
    return refuse("exchange of rows");
  }
  Status barrier(GroupId group) override { return gather(groups_.at(static_cast<size_t>(group)), {}, "").status(); }
  Result<Ticket> send(const plugin::Stream &, const Transfer &, const plugin::Event &) override {
    return refuse("send");
  }
  Result<Ticket> receive(const plugin::Stream &, const Transfer &, const plugin::Event &) override {
    return refuse("receive");
  }
  Result<const plugin::Event *> poll(Ticket) override { return refuse("transfer"); }
  Result<const plugin::Event *> finish(Ticket) override { return refuse("transfer"); }
  void abort(const Status &cause) override {
    if (isAborted())
      return;
    cause_.set(cause);
    processes_.abort(cause);
  }
  bool isAborted() const override { return cause_.isSet(); }
  Status cause() const override { return cause_.get(); }

private:
  struct Group {
    Group(const std::vector<int64_t> &ranks, int64_t index) : terms(ranks), index(index), name(nameOf(ranks)) {}
    ThreadGroup terms; // for reductions
    const int64_t index;
    const std::string name;
    int64_t meetings = 0;
  };
  static Status refuse(std::string_view what) {
    return errorf("the hosts of ranks on devices have no {}: their data goes over NCCL", what);
  }
  // The bytes of each member.
  Result<std::vector<std::string>> gather(Group &group, const Agreement &agreement, std::string_view bytes);

  Processes &processes_;
  const std::chrono::milliseconds timeout_;
  std::deque<Group> groups_; // by GroupId
  AbortCause cause_;
};

Result<GroupId> StoreHosts::openGroup(const std::vector<int64_t> &ranks, int64_t) {
  MGC_ASSIGN(index, indexInGroup(ranks, rank(), worldSize()));
  for (size_t id = 0; id < groups_.size(); ++id)
    if (groups_[id].terms.ranks == ranks)
      return static_cast<GroupId>(id);
  groups_.emplace_back(ranks, index);
  return static_cast<GroupId>(groups_.size()) - 1;
}

Result<std::vector<std::string>> StoreHosts::gather(Group &group, const Agreement &agreement, std::string_view bytes) {
  if (isAborted())
    return cause();
  const std::vector<int64_t> &ranks = group.terms.ranks;
  const std::string key = fmt::format("collective {} of {}", ++group.meetings, group.name);
  const std::string own = toString(agreement);
  Result<std::vector<std::string>> values =
      processes_.store().gather(key, group.index, group.terms.size(), fmt::format("{}\n{}", own, bytes),
                                std::chrono::steady_clock::now() + timeout_);
  if (isAborted())
    return cause();
  if (!values.isOk())
    return values;
  std::string first;
  for (size_t member = 0; member < values->size(); ++member) {
    std::string &value = (*values)[member];
    const size_t end = std::min(value.find('\n'), value.size());
    const std::string found = value.substr(0, end);
    value.erase(0, end + 1);
    if (member == 0)
      first = found;
    if (found != first)
      return errorf("ranks [{}] meet in different collectives: rank {} in {}, rank {} in {}", fmt::join(ranks, ", "),
                    ranks[0], first, ranks[member], found);
  }
  return values;
}

Status StoreHosts::collective(const plugin::Stream &, GroupId groupId, const plan::Collective &what, mgc_address source,
                              mgc_address destination, mgc_address) {
  using Kind = plan::Collective::Kind;
  const int64_t row = what.chunk * plan::sizeInBytes(what.type), bytes = what.outer * row;
  if ((what.kind != Kind::allGather && what.kind != Kind::allReduce) || bytes > kMostHostBytes)
    return refuse(fmt::format("{} of {} bytes", nameOf(what.kind), bytes));
  Group &group = groups_.at(static_cast<size_t>(groupId));
  MGC_ASSIGN(values,
             gather(group, Agreement::of(what), {reinterpret_cast<const char *>(source), static_cast<size_t>(bytes)}));
  auto *to = reinterpret_cast<std::byte *>(destination);
  for (int64_t member = 0; member < group.terms.size(); ++member) {
    const auto *from = reinterpret_cast<const std::byte *>(values[static_cast<size_t>(member)].data());
    group.terms.members[static_cast<size_t>(member)].source = from;
    for (int64_t i = 0; what.kind == Kind::allGather && i < what.outer; ++i)
      std::copy_n(from + i * row, row, to + (i * group.terms.size() + member) * row);
  }
  if (what.kind == Kind::allReduce)
    reduceSources(group.terms, what, what.outer * what.chunk, to);
  return Status::ok();
}

} // namespace

std::unique_ptr<Communicator> makeStoreHosts(Processes &processes, std::chrono::milliseconds timeout) {
  return std::make_unique<StoreHosts>(processes, timeout);
}

} // namespace mgc
