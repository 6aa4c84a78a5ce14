/* The program's own messages and collectives are under way while a sum is made. pending MODE exact|lossy:
 *
 *   wildcard     a receive of anything from anybody must not get the library's messages
 *   collectives  a barrier and sums that were started before and end after
 *   nonblocking  MPI_Iallreduce and persistent sums stay MPI's, bit for bit
 *   legal        MPI_Iallreduce does not wait for other ranks
 *                and goes on while its rank is in another call */
#include "tests/preload/check.h"

static void wildcard(void) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int i;
  for (i = 0; i < 10; ++i) {
    MPI_Request request;
    MPI_Status status;
    int done = 0, got = -1;
    const int mine = 1000 * i + rank;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    sum(MPI_COMM_WORLD, "with a receive posted");
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    expect(!done && got == -1, "the program's receive took something");
    MPI_Barrier(MPI_COMM_WORLD); /* all have looked */
    MPI_Send(&mine, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
    if (!done) MPI_Wait(&request, &status);
    expect(!done && got == 1000 * i + from && status.MPI_TAG == 7 && status.MPI_SOURCE == from,
           "not the program's message");
  }
}

static void collectives(void) {
  static float first[kN], second[kN], exact[kN];
  int i;
  beneath()(x, exact, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < 10; ++i) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Iallreduce(x, first, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Allreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Iallreduce(x, second, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, statuses);
    expect(memcmp(first, exact, sizeof exact) == 0, "the sum started before is wrong");
    expect(memcmp(second, exact, sizeof exact) == 0, "the sum started behind is wrong");
    expect_sum(ours, exact, MPI_COMM_WORLD, "between them");
  }
}

static void nonblocking(void) {
  MPI_Request request;
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "MPI_Iallreduce was changed");
  memcpy(ours, x, sizeof x);
  MPI_Iallreduce(MPI_IN_PLACE, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "MPI_Iallreduce in place was changed");
#if MPI_VERSION >= 4
  int i;
  MPI_Allreduce_init(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (i = 0; i < 3; ++i) {
    memset(ours, 0, sizeof ours);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(memcmp(ours, theirs, sizeof ours) == 0, "MPI_Allreduce_init was changed");
  }
  MPI_Request_free(&request);
  MPI_Iallreduce_c(x, ours, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "MPI_Iallreduce_c was changed");
#endif
}

/* Two programs that hang if the nonblocking call waits for the other rank, or makes its steps only when it is
 * asked. */
static void legal(MPI_Comm comm) {
  MPI_Request request;
  int token = rank;
  if (rank == 0) {
    MPI_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Send(&token, 1, MPI_INT, 1, 0, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Recv(&token, 1, MPI_INT, 1, 0, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    if (rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
    MPI_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(x, ours, kN, MPI_FLOAT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 0, comm);
  }
  beneath()(x, theirs, kN, MPI_FLOAT, MPI_SUM, comm);
  expect(memcmp(ours, theirs, sizeof ours) == 0, "a nonblocking sum is wrong");
}

int main(int argc, char** argv) {
  const char* mode;
  MPI_Comm copy;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  if (strcmp(mode, "wildcard") == 0) wildcard();
  if (strcmp(mode, "collectives") == 0) collectives();
  if (strcmp(mode, "nonblocking") == 0) nonblocking();
  if (strcmp(mode, "legal") == 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    legal(copy); /* before the library has seen the communicator, and after */
    sum(copy, "between them");
    legal(copy);
    MPI_Comm_free(&copy);
  }
  sum(MPI_COMM_WORLD, "the last sum");
  return end();
}
