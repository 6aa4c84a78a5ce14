/* Stands in for a core: counts the calls that the stub gives it, and makes them MPI's. At the end it prints
 * "entries N", from which a test sees that each call of the program came through once. */
#define _GNU_SOURCE
#include "mpi_quant/base/stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int entries = 0;

static int count_and_pass(mpiq_slot sendbuf, mpiq_slot recvbuf, int64_t count, mpiq_slot datatype,
                          mpiq_slot op, mpiq_slot comm) {
  typedef int (*allreduce)(mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot);
  const mpiq_stub* const stub = dlsym(RTLD_DEFAULT, "mpiq_stub_v1");
  void* const address = stub->real("PMPI_Allreduce");
  allreduce real;
  memcpy(&real, &address, sizeof real);
  ++entries;
  return real(sendbuf, recvbuf, (mpiq_slot)count, datatype, op, comm);
}

static int pass(enum mpiq_collective what, const mpiq_slot* a) {
  static const char* const names[] = {"PMPI_Reduce_scatter",
                                      "PMPI_Reduce_scatter_c",
                                      "PMPI_Reduce_scatter_block",
                                      "PMPI_Reduce_scatter_block_c",
                                      "PMPI_Allgather",
                                      "PMPI_Allgather_c",
                                      "PMPI_Allgatherv",
                                      "PMPI_Allgatherv_c",
                                      "PMPI_Bcast",
                                      "PMPI_Bcast_c",
                                      "PMPI_Reduce",
                                      "PMPI_Reduce_c",
                                      "PMPI_Allreduce",
                                      "PMPI_Allreduce_c"};
  typedef int (*any_call)(mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot,
                          mpiq_slot);
  const mpiq_stub* const stub = dlsym(RTLD_DEFAULT, "mpiq_stub_v1");
  void* const address = stub->real(names[what]);
  any_call real;
  memcpy(&real, &address, sizeof real);
  ++entries;
  return real(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static int initialized(int* flag) {
  *flag = getenv("TEST_NOT_INITIALIZED") == NULL;
  return 0;
}

static void started(void) {}

static void counted(enum mpiq_counted form, enum mpiq_collective what, const mpiq_slot* arguments) {
  (void)form, (void)what, (void)arguments;
}

static int pcontrol(int level, const char* command) {
  (void)level, (void)command;
  return 0;
}

static int comm_info(mpiq_slot comm, mpiq_slot info) {
  (void)comm, (void)info;
  return 0;
}

static const int watching = 0;

__attribute__((visibility("default")))
mpiq_core mpiq_core_v1 = {MPIQ_STUB_VERSION, "mpich", sizeof(void*), initialized, started,  &watching,
                          count_and_pass,    pass,    counted,       pcontrol,    comm_info};

__attribute__((constructor)) static void take_family(void) {
  const char* const family = getenv("TEST_FAMILY");
  if (family != NULL) mpiq_core_v1.family = family;
}

__attribute__((destructor)) static void print_entries(void) {
  if (entries > 0) printf("entries %d\n", entries);
}
