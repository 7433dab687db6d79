// mpi_collectives: all_reduce of MpiWorld compared with MPI_Allreduce, in one run: mpirun -n RANKS mpi_collectives_KIND
// [REPETITIONS]. Prints a line for each size: the best of five means over so many calls, in microseconds, and their
// ratio.
#include "runtime/comm/mpi/MpiWorld.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mpi.h>
#include <numeric>

namespace {

using namespace mgc;

double best(int64_t calls, const std::function<void()> &call) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int64_t j = 0; j < calls; ++j)
      call();
    best = std::min(best, (MPI_Wtime() - start) / static_cast<double>(calls));
  }
  return best * 1e6;
}

Status measure(Launch launch, int64_t repetitions) {
  constexpr std::chrono::milliseconds kPatience{60'000};
  MGC_ASSIGN(mpi, MpiProcess::start(launch, kPatience));
  MGC_ASSIGN(processes, Processes::join(launch, {launch.size, 1, 1, {}}, kPatience));
  {
    MGC_ASSIGN(world, MpiWorld::open(*mpi, *processes, kPatience));
    Communicator &communicator = world->communicator();
    std::vector<int64_t> ranks(static_cast<size_t>(launch.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    MGC_ASSIGN(group, communicator.openGroup(ranks));
    if (launch.rank == 0)
      std::printf("%s, %ld ranks\n%12s %14s %14s %8s\n", mpi->facts().version, long(launch.size), "bytes", "mgc us",
                  "MPI us", "ratio");
    for (int64_t bytes :
         {int64_t(4), int64_t(1) << 10, int64_t(8) << 10, int64_t(64) << 10, int64_t(1) << 20, int64_t(64) << 20}) {
      plan::Collective what;
      what.chunk = bytes / int64_t(sizeof(float));
      std::vector<float> from(static_cast<size_t>(what.chunk), 1.0f), to(from.size());
      const int64_t calls = std::clamp<int64_t>((repetitions << 20) / bytes, 3, 20000);
      Status status;
      const double own = best(calls, [&] {
        if (status.isOk())
          status = communicator.collective(group, what, from.data(), to.data());
      });
      MGC_TRY(std::move(status));
      const double theirs = best(
          calls, [&] { MPI_Allreduce(from.data(), to.data(), int(what.chunk), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
      if (launch.rank == 0)
        std::printf("%12ld %14.2f %14.2f %8.2f\n", long(bytes), own, theirs, own / theirs);
    }
    MGC_TRY(world->close());
    MGC_TRY(processes->end(Status::ok()));
  }
  return mpi->leave(true, 0);
}

} // namespace

int main(int argc, char **argv) {
  const Result<Launch> launch = launchOf({});
  const Status status = launch.isOk() ? measure(*launch, argc > 1 ? std::atoll(argv[1]) : 256) : launch.status();
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
