// The store and the processes around it: gathers and shares, who belongs to a run, and how the end of one reaches all.
#include "runtime/comm/bootstrap/StoreMessages.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/comm/StoreOfTest.h"
#include "test/runtime/comm/StorePeers.h"

#include <random>
#include <thread>

namespace mgc::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool canJoin(const StoreOfTest &store) {
  std::vector<std::unique_ptr<Processes>> joined(2);
  onThreads(2, [&](int64_t rank) { joined[rank] = store.join(rank); });
  return joined[0] && joined[1];
}

// A port on which nobody listens.
int64_t freePort() { return portOf(*listenOn({"127.0.0.1", 0})); }

Result<std::string> get(Store &store, const std::string &key, std::chrono::milliseconds most) {
  return store.share(key, false, nullptr, Clock::now() + most);
}

TEST(Store, whatOneMakesAllOfTheGroupGet) {
  const JoinedRun run(4);
  std::atomic<int> made{0};
  onThreads(4, [&](int64_t rank) {
    const std::vector<int64_t> group = {rank % 2, rank % 2 + 2};
    const auto make = [&]() -> Result<std::string> {
      ++made;
      return std::string(128, static_cast<char>('a' + rank));
    };
    const Result<std::string> bytes =
        run.storeOf(rank).share(fmt::format("id/{}", rank % 2), group[0] == rank, make, Clock::now() + 30s);
    ASSERT_TRUE(isOk(bytes));
    EXPECT_EQ(*bytes, std::string(128, static_cast<char>('a' + rank % 2)));
  });
  EXPECT_EQ(made, 2);
}

TEST(Store, valuesAreGatheredByPlaceAndForgotten) {
  const JoinedRun run(3);
  onThreads(3, [&](int64_t rank) {
    for (int round = 0; round < 30; ++round) {
      std::this_thread::sleep_for(1ms * ((rank + round) % 3));
      const auto values =
          run.storeOf(rank).gather("all", rank, 3, fmt::format("{} of {}", rank, round), Clock::now() + 30s);
      ASSERT_TRUE(isOk(values));
      EXPECT_EQ(*values, (std::vector<std::string>{fmt::format("0 of {}", round), fmt::format("1 of {}", round),
                                                   fmt::format("2 of {}", round)}));
    }
  });
}

TEST(Store, onlyTheFirstPlaceWaitsForAGatherToIt) {
  const JoinedRun run(3);
  for (int64_t rank : {2, 1})
    EXPECT_TRUE(
        isOk(run.storeOf(rank).gatherToFirst("reports", rank, 3, fmt::format("of {}", rank), Clock::now() + 30s)));
  const auto values = run.storeOf(0).gatherToFirst("reports", 0, 3, std::string("a\0b", 3), Clock::now() + 30s);
  ASSERT_TRUE(isOk(values));
  EXPECT_EQ(*values, (std::vector<std::string>{std::string("a\0b", 3), "of 1", "of 2"}));
}

// More than the store holds at once.
TEST(Store, aGatherThatIsAnsweredMakesRoom) {
  const StoreOfTest store(1);
  const auto joined = store.join(0);
  const std::string value(kMaxMessageBytes / 2, 'x');
  for (int64_t bytes = 0; bytes <= 2 * kMaxStoreBytes; bytes += std::ssize(value)) {
    const auto values = joined->store().gather("save", 0, 1, value, Clock::now() + 30s);
    ASSERT_TRUE(isOk(values));
    ASSERT_EQ(*values, std::vector<std::string>{value});
  }
}

// The answer has more bytes than a message from a process may have.
TEST(Store, anAnswerMayBeLong) {
  const JoinedRun run(3);
  onThreads(3, [&](int64_t rank) {
    const auto values =
        run.storeOf(rank).gather("long", rank, 3, std::string(1'000'000, char('a' + rank)), Clock::now() + 30s);
    ASSERT_TRUE(isOk(values));
    for (int64_t place = 0; place < 3; ++place)
      EXPECT_EQ((*values)[place], std::string(1'000'000, char('a' + place)));
  });
}

TEST(Store, manyProcessesGather) {
  constexpr int64_t kMany = 256;
  const StoreOfTest store(kMany);
  const Result<StorePeers::Times> times = StorePeers::gather(store.endpoint(), store.run(), std::string(64, 'x'));
  EXPECT_TRUE(isOk(times));
}

TEST(Store, aGatherThatIsNotCompleteSaysWhoIsMissing) {
  const JoinedRun run(2);
  Store &mine = run.storeOf(1);
  EXPECT_TRUE(fails(mine.gather("reports", 1, 3, "", Clock::now()), {"the number of processes"}));
  EXPECT_TRUE(fails(mine.gather("reports", 2, 2, "", Clock::now()), {"place 2 of 2; expected one of them"}));
  EXPECT_TRUE(
      fails(mine.gather("reports", 1, 2, "", Clock::now() + 50ms), {"waited 0.05 s for members [0] to join reports"}));
  EXPECT_TRUE(fails(mine.gather("reports", 1, 2, "", Clock::now() + 50ms), {"expected each once"}));
}

TEST(Store, aWaitEndsAtItsDeadlineAndTheStoreGoesOn) {
  const JoinedRun run(1);
  Store &mine = run.storeOf(0);
  EXPECT_TRUE(fails(get(mine, "never", 50ms), {"waited 0.05 s for 'never', which nobody"}));
  EXPECT_TRUE(isOk(share(mine, "never", "after all")));
  EXPECT_EQ(*get(mine, "never", 0ms), "after all");
  EXPECT_TRUE(fails(share(mine, "never", "again"), {"it has its value; expected each once"}));
}

TEST(Store, aWaitOfOneThreadHoldsUpNoOther) {
  const StoreOfTest store(1);
  const auto joined = Store::join(store.endpoint(), {0, "the test", store.run()}, Clock::now() + 5s);
  ASSERT_TRUE(isOk(joined));
  Store &mine = **joined;
  onThreads(2, [&](int64_t thread) {
    if (thread == 0) {
      EXPECT_TRUE(fails(get(mine, "never", 3s), {"waited 3 s for 'never'"}));
      return;
    }
    std::this_thread::sleep_for(50ms);
    const auto start = Clock::now();
    EXPECT_TRUE(isOk(share(mine, "key", "value")));
    EXPECT_LT(Clock::now() - start, 2s);
  });
}

TEST(Store, anAnswerThatIsLateIsNotTakenForAnothers) {
  const Result<Descriptor> listening = listenOn({"127.0.0.1", 0});
  std::jthread slow([&] {
    Descriptor socket;
    while (!socket.isOpen())
      socket = acceptOn(*listening);
    Connection connection(std::move(socket));
    const Deadline deadline = Clock::now() + 10s;
    const auto say = [&](const Message &message) { (void)connection.send(message, deadline); };
    (void)connection.receive(deadline);
    say(Message::of(StoreKind::heard));
    say(Message::of(StoreKind::welcome));
    for (int i = 0; i < 2; ++i)
      (void)connection.receive(deadline);
    say(Message::of(StoreKind::values).with("first").with("of the first"));
    std::this_thread::sleep_for(100ms);
    say(Message::of(StoreKind::values).with("second").with("of the second"));
    (void)connection.receive(deadline);
  });
  auto joined = Store::join({"127.0.0.1", portOf(*listening)}, {0, "the test", {}}, Clock::now() + 5s, 100ms);
  ASSERT_TRUE(isOk(joined));
  EXPECT_TRUE(fails(get(**joined, "first", 0ms), {"does not answer in time"}));
  EXPECT_EQ(*get(**joined, "second", 5s), "of the second");
  joined->reset();
}

TEST(Store, whatIsTooLargeIsRefused) {
  const JoinedRun run(1);
  Store &mine = run.storeOf(0);
  EXPECT_TRUE(fails(share(mine, std::string(2000, 'k'), "v"), {"a key of 2000 bytes, expected at most 1024"}));
  const std::string large(1'000'000, 'v');
  Status status;
  for (int i = 0; i < 100 && status.isOk(); ++i)
    status = share(mine, fmt::format("key {}", i), large);
  EXPECT_TRUE(fails(status, {"the store is full: 'key 67'", "expected at most 67108864"}));
  EXPECT_TRUE(isOk(share(mine, "key 68", "small")));
  EXPECT_TRUE(
      fails(share(mine, "larger", std::string(2 << 20, 'v')), {"a message of 2097", "expected fewer than 1048576"}));
}

// The status that the waiting process is told, and the one that the newcomer is told.
std::pair<Status, Status> joinBoth(int64_t rank, const RunIdentity &run, int64_t ranks = 2) {
  const StoreOfTest store(ranks);
  Status first, second;
  std::jthread waiting([&] { first = store.tryJoin(0, store.run()).status(); });
  std::this_thread::sleep_for(100ms);
  second = store.tryJoin(rank, run).status();
  waiting.join();
  return {first, second};
}

TEST(Store, processesThatDoNotBelongTogetherAreToldSo) {
  const RunIdentity good = StoreOfTest(2).run();
  RunIdentity three = good, otherPlan = good, otherVersion = good, otherSettings = good;
  three.processes = 3;
  otherPlan.planHash = 7;
  otherVersion.planVersion = 4;
  otherSettings.settings = {"--seed = 1", "--lr = 0.25"};
  for (const auto &[rank, run, message] : std::vector<std::tuple<int64_t, RunIdentity, std::string>>{
           {1, three, "says that there are 3 processes, rank 0 (the test) that there are 2; expected one WORLD_SIZE"},
           {1, otherPlan,
            "another plan: version 5, hash 0000000000000007; rank 0 (the test) runs version 5, hash "
            "000000000000abcd; expected the same plan.json"},
           {1, otherVersion, "runs another plan: version 4, "},
           {1, otherSettings, "expected the same for all:\n  --lr = 0.25 on rank 1, --lr = 0.5 on rank 0"},
           {0, good, "two processes are rank 0: process "},
           {2, good, "expected a rank from 0 to 1"}}) {
    const auto [first, second] = joinBoth(rank, run);
    EXPECT_TRUE(fails(first, {message}));
    EXPECT_TRUE(fails(second, {message}));
  }
}

TEST(Store, ranksThatHaveNotComeAreNamedAtTheDeadline) {
  const StoreOfTest store(5, 300ms);
  const auto start = Clock::now();
  onThreads(2, [&](int64_t rank) {
    EXPECT_TRUE(fails(store.tryJoin(2 * rank, store.run()),
                      {" s for the processes of 5 ranks: ranks 1, 3, 4 of them have not come; here are "
                       "rank 0 (process ",
                       "rank 2 (process "}));
  });
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(Store, whoDoesNotComeTellsTheOthersWhy) {
  Launch launch;
  launch.size = 2;
  launch.master = {"127.0.0.1", freePort()};
  for (int64_t rank : {0, 1}) {
    Launch other = launch;
    launch.rank = rank, other.rank = 1 - rank;
    std::jthread excusing([&] { Processes::excuse(launch, Status::error("no plan\nanywhere")); });
    EXPECT_TRUE(fails(Processes::join(other, {2, 5, 1, {}}, 20s),
                      {fmt::format("rank {} (process ", rank), ") does not come: no plan"}));
  }
}

TEST(Store, aLateSecondOneDoesNotDisturbTheRun) {
  const JoinedRun run(2);
  EXPECT_TRUE(fails(run.store.tryJoin(1, run.store.run()), {"two processes are rank 1"}));
  EXPECT_TRUE(isOk(run[0].cause()));
  EXPECT_TRUE(isOk(share(run.storeOf(1), "key", "value")));
}

// Joins with another plan than that of the store, which ends the start of all.
void failTheStart(const StoreOfTest &store, int64_t rank) {
  RunIdentity other = store.run();
  other.planHash = 7;
  EXPECT_TRUE(fails(store.tryJoin(rank, other).status(), {"another plan"}));
}

TEST(Store, aStragglerHearsWhyTheStartFailed) {
  StoreOfTest store(3, 60s, 10s);
  const Endpoint at = store.endpoint();
  failTheStart(store, 1);
  std::jthread stopping([&] { store.stop(); });
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(
      fails(Store::join(at, {2, "the late one", store.run()}, Clock::now() + 2s).status(), {"runs another plan"}));
}

TEST(Store, aStartThatFailedIsOverOnceAllHaveHeard) {
  StoreOfTest store(3, 60s, 10s);
  failTheStart(store, 1);
  for (const int64_t rank : {0, 2})
    EXPECT_TRUE(fails(store.tryJoin(rank, store.run()).status(), {"rank 1 (process ", "another plan"}));
  const auto start = Clock::now();
  store.stop();
  EXPECT_LT(Clock::now() - start, 5s);
}

// --- Connections that are not the run's -------------------------------------------------------------------------

// Sends `bytes`; whether the store closes the connection, answering or not.
bool isSentAway(const Endpoint &at, std::string_view bytes) {
  const Deadline deadline = Clock::now() + 5s;
  Result<Descriptor> socket = connectTo(at, deadline);
  if (!socket.isOk() || !sendAll(*socket, std::as_bytes(std::span(bytes)), deadline).isOk())
    return false;
  Connection connection(socket.take());
  Status status;
  while (status.isOk())
    status = connection.receive(deadline).status();
  return status.message().starts_with("ended without a word");
}

// Shakes hands with the store as a process of this rank, and says no more.
Connection greet(const StoreOfTest &store, int64_t rank, const char *name) {
  const Deadline deadline = Clock::now() + 30s;
  Connection connection(connectTo(store.endpoint(), deadline).take());
  EXPECT_TRUE(isOk(connection.send(helloOf({rank, name, store.run()}, deadline), deadline)));
  return connection;
}

// The store's end of the test itself, rank 0, when the other processes have greeted.
std::unique_ptr<Store> joinStore(const StoreOfTest &store) {
  auto joined = Store::join(store.endpoint(), {0, "the test", store.run()}, Clock::now() + 30s);
  EXPECT_TRUE(isOk(joined));
  return joined.isOk() ? joined.take() : nullptr;
}

Message requestOf(StoreKind kind, std::string_view key) {
  return Message::of(kind).with(key).with(int64_t(30'000)).with(int64_t(0)).with(int64_t(1)).with(std::string_view());
}

std::string lengthOf(uint32_t length) { return {reinterpret_cast<const char *>(&length), sizeof length}; }

TEST(Store, garbageIsSentAway) {
  const StoreOfTest store(2);
  const Endpoint at = store.endpoint();
  EXPECT_TRUE(isSentAway(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_TRUE(isSentAway(at, std::string(100, '\0')));
  EXPECT_TRUE(isSentAway(at, lengthOf(0xFFFFFFFF) + "x"));
  EXPECT_TRUE(isSentAway(at, lengthOf(kMaxHelloBytes + 1) + "x"));
  EXPECT_TRUE(isSentAway(at, Message::of(StoreKind::abort).with("cause").bytes()));
  EXPECT_TRUE(isSentAway(at, Message::of(StoreKind::share).with("key").with("value").bytes()));
  EXPECT_TRUE(isSentAway(at, Message::of(StoreKind::hello).with("torch").bytes()));
  EXPECT_TRUE(isSentAway(at, Message::of(StoreKind::hello).with(kStoreMagic).with(kStoreProtocol).bytes()));
  EXPECT_TRUE(canJoin(store));
}

TEST(Store, randomBytesNeverBreakIt) {
  const StoreOfTest store(2);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const bool isFramed = round % 2 == 0;
    std::string body(random() % 200, '\0');
    for (char &c : body)
      c = static_cast<char>(random());
    if (isFramed && !body.empty())
      body[0] = static_cast<char>(random() % 12); // a kind
    const Result<Descriptor> socket = connectTo(store.endpoint(), Clock::now() + 5s);
    ASSERT_TRUE(isOk(socket.status()));
    const std::string bytes = isFramed ? lengthOf(static_cast<uint32_t>(body.size())) + body : body;
    (void)sendAll(*socket, std::as_bytes(std::span(bytes)), Clock::now() + 5s);
  }
  EXPECT_TRUE(canJoin(store));
}

// 200 are more than there is room for: they go one after another, and then the processes have their turn.
TEST(Store, strangersThatStayAndSayNothingHoldUpNobody) {
  for (const int count : {40, 200}) {
    const StoreOfTest store(2);
    std::vector<Descriptor> strangers;
    for (int i = 0; i < count; ++i)
      strangers.push_back(connectTo(store.endpoint(), Clock::now() + 5s).take());
    const auto start = Clock::now();
    EXPECT_TRUE(canJoin(store));
    EXPECT_LT(Clock::now() - start, 20s);
  }
}

TEST(Store, anotherProtocolIsNamed) {
  const StoreOfTest store(2);
  const Deadline deadline = Clock::now() + 5s;
  Connection connection(connectTo(store.endpoint(), deadline).take());
  ASSERT_TRUE(isOk(connection.send(Message::of(StoreKind::hello).with(kStoreMagic).with(int64_t(99)), deadline)));
  const Result<Message> answer = connection.receive(deadline);
  ASSERT_TRUE(answer.isOk());
  EXPECT_TRUE(answer->is(StoreKind::notice));
  MessageReader reader(*answer);
  EXPECT_EQ(reader.number(), -1);
  EXPECT_TRUE(
      has(std::string(reader.text()),
          {fmt::format("speaks version 99 of the store's language, rank 0 (the test) version {}", kStoreProtocol)}));
}

// --- Where the store should be ----------------------------------------------------------------------------------

Status tryJoin(const Endpoint &at, std::chrono::milliseconds timeout, int64_t rank = 1) {
  Launch launch;
  launch.rank = rank, launch.size = 2, launch.master = at;
  return Processes::join(launch, {2, 5, 1, {}}, timeout).status();
}

TEST(Store, anAddressThatIsNoneIsNamed) {
  EXPECT_TRUE(fails(tryJoin({"no..host", 1234}, 500ms), {"rank 1 of 2 processes: no..host:1234: the address of "
                                                         "'no..host' is not known"}));
}

TEST(Store, nobodyListens) {
  const int64_t port = freePort();
  const auto start = Clock::now();
  EXPECT_TRUE(fails(tryJoin({"127.0.0.1", port}, 300ms), {fmt::format("no connection to 127.0.0.1:{} in 0.", port),
                                                          "Connection refused; is rank 0 running"}));
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Store, aPortThatIsTakenNamesWhoHasIt) {
  const StoreOfTest other(3);
  EXPECT_TRUE(
      fails(tryJoin(other.endpoint(), 500ms, 0),
            {"cannot listen on 127.0.0.1:", "Address already in use",
             "belongs to another run: mgrun, the test, with a plan of 3 ranks", "MASTER_PORT, or --master-port"}));
  const Result<Descriptor> mute = listenOn({"127.0.0.1", 0});
  EXPECT_TRUE(fails(tryJoin({"127.0.0.1", portOf(*mute)}, 500ms, 0), {"Address already in use", "it is not mgrun"}));
}

TEST(Store, anotherProgramThatAnswersIsTold) {
  const Result<Descriptor> listening = listenOn({"127.0.0.1", 0});
  std::jthread program([&] {
    Descriptor socket;
    while (!socket.isOpen())
      socket = acceptOn(*listening);
    const std::string_view text = "HTTP/1.1 400 Bad Request\r\n\r\n";
    (void)sendAll(socket, std::as_bytes(std::span(text)), Clock::now() + 5s);
    std::this_thread::sleep_for(100ms);
  });
  EXPECT_TRUE(fails(tryJoin({"127.0.0.1", portOf(*listening)}, 2s),
                    {"answers, but not as the store of mgrun does", "another program has the port"}));
}

TEST(Store, anotherProgramThatSaysNothingIsGivenUpAtTheDeadline) {
  const Result<Descriptor> listening = listenOn({"127.0.0.1", 0});
  const auto start = Clock::now();
  EXPECT_TRUE(fails(tryJoin({"127.0.0.1", portOf(*listening)}, 500ms),
                    {"answers, but not as the store of mgrun does (it does not answer in time)"}));
  EXPECT_GE(Clock::now() - start, 500ms);
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Store, rank0FindsAtOnceThatTheAddressIsAnotherMachines) {
  const auto start = Clock::now();
  for (const char *address : {"192.0.2.7", "2001:db8::7"}) // for examples, so nobody's
    EXPECT_TRUE(fails(tryJoin({address, 1234}, 60s, 0),
                      {"rank 0 cannot listen where MASTER_ADDR",
                       fmt::format("'{}' is no address of this machine", address), "does not reach itself by it"}));
  EXPECT_LT(Clock::now() - start, 30s);
  for (const char *address : {"127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0"})
    EXPECT_TRUE(isOk(verifyIsHere(address))) << address;
}

// It has shaken hands and asks for 20 values, but reads none of the answers, which are more than the system keeps.
TEST(Store, aProcessThatDoesNotReadHoldsUpNobody) {
  const StoreOfTest store(2);
  const Deadline deadline = Clock::now() + 30s;
  Connection slow = greet(store, 1, "the slow one");
  const auto joined = joinStore(store);
  ASSERT_TRUE(joined);
  const std::string value(1'000'000, 'x');
  for (int round = 0; round < 20; ++round)
    ASSERT_TRUE(isOk(share(*joined, fmt::format("key {}", round), value)));
  for (int round = 0; round < 20; ++round)
    ASSERT_TRUE(isOk(slow.send(requestOf(StoreKind::get, fmt::format("key {}", round)), deadline)));
  const auto start = Clock::now();
  for (int round = 0; round < 20; ++round)
    ASSERT_TRUE(isOk(joined->gather("alone", 0, 1, "value", deadline)));
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_FALSE(joined->awaitCause(0ms));
}

TEST(Store, aProcessThatSendsGarbageEndsTheRunAndIsNamed) {
  const Deadline deadline = Clock::now() + 30s;
  const std::string share = requestOf(StoreKind::share, "key").bytes();
  for (const std::string &garbage : {Message::of(StoreKind::notice).bytes(), lengthOf(0xFFFFFFFF) + "x",
                                     share + lengthOf(0), share + lengthOf(0xFFFFFFFF)}) {
    const StoreOfTest store(2);
    Connection broken = greet(store, 1, "the broken one");
    const auto joined = joinStore(store);
    ASSERT_TRUE(joined);
    ASSERT_TRUE(isOk(sendAll(broken.socket(), std::as_bytes(std::span(garbage)), deadline)));
    const auto cause = joined->awaitCause(10s);
    ASSERT_TRUE(cause);
    EXPECT_TRUE(has(cause->text, {"rank 1 (the broken one) sen"}));
  }
}

// Requests of one process that wait are bounded, whatever the others have.
TEST(Store, aProcessMayWaitForSoManyKeysAtOnce) {
  const Deadline deadline = Clock::now() + 30s;
  const StoreOfTest store(2);
  Connection one = greet(store, 1, "the greedy one");
  const auto joined = joinStore(store);
  ASSERT_TRUE(joined);
  for (int64_t i = 0; i < 65; ++i)
    ASSERT_TRUE(isOk(one.send(requestOf(StoreKind::get, std::to_string(i)), deadline)));
  for (const StoreKind kind : {StoreKind::heard, StoreKind::welcome, StoreKind::refused}) {
    const Result<Message> message = one.receive(deadline);
    ASSERT_TRUE(isOk(message));
    ASSERT_TRUE(message->is(kind));
    if (kind == StoreKind::refused)
      EXPECT_EQ(MessageReader(*message).text(), "64");
  }
}

TEST(Store, aProcessThatDiesBeforeAllHaveComeIsNamed) {
  const StoreOfTest store(3);
  Connection dying = greet(store, 1, "the dying one");
  std::jthread waiting(
      [&] { EXPECT_TRUE(fails(store.tryJoin(0, store.run()), {"rank 1 (the dying one) ended without a word"})); });
  std::this_thread::sleep_for(100ms);
  {
    const Connection gone = std::move(dying);
  }
}

} // namespace
} // namespace mgc::test
