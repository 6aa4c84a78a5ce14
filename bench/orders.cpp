#include "bench/orders.hpp"

#include <time.h>

namespace mq::bench {
namespace {

constexpr int kOrderTag = 2;
// Looking for messages costs about 1 us. So waiting takes 0.1 % of a core, and it adds 1 ms to a point that
// takes seconds.
constexpr long kNapNs = 1'000'000;

void nap() {
  const timespec t{0, kNapNs};
  nanosleep(&t, nullptr);
}

}  // namespace

void send_order(MPI_Comm launch, int order) {
  int size = 1;
  PMPI_Comm_size(launch, &size);
  for (int r = 1; r < size; ++r) PMPI_Send(&order, 1, MPI_INT, r, kOrderTag, launch);
}

int wait_for_order(MPI_Comm launch) {
  for (int here = 0; here == 0;) {
    PMPI_Iprobe(0, kOrderTag, launch, &here, MPI_STATUS_IGNORE);
    if (here == 0) nap();
  }
  int order = kNoMorePoints;
  PMPI_Recv(&order, 1, MPI_INT, 0, kOrderTag, launch, MPI_STATUS_IGNORE);
  return order;
}

void gather_quietly(MPI_Comm launch) {
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ibarrier(launch, &request);
  for (int done = 0; done == 0;) {
    PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) nap();
  }
}

}  // namespace mq::bench
