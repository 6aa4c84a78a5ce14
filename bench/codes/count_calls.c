/* Counts the MPI calls of a program, for scripts/codes. To be preloaded. It stands below PMPI, as the preload
 * library does, so that it sees the calls of Fortran, too. When MPI is finalized, rank 0 writes the file
 * COUNT_CALLS, with a line for each function that it called:
 *     FUNCTION CALLS BYTES LARGE LARGE_BYTES
 * BYTES is what its calls handed over: count times size of the type, in functions with a count for each rank
 * the sum of these. LARGE are the calls of at least 64 KiB. Other functions than those below are not counted.
 * For programs in which one thread calls MPI.
 * Build: mpicc -shared -fPIC count_calls.c -o libcount_calls.so */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLarge = 65536, kMostFunctions = 64 };
typedef struct {
  const char* name;
  double calls, bytes, large, large_bytes;
} Row;
static Row rows[kMostFunctions];

static void count(const char* name, double bytes) {
  Row* row = rows;
  while (row->name != NULL && row->name != name) ++row;
  row->name = name;
  row->calls += 1;
  row->bytes += bytes;
  row->large += bytes >= kLarge;
  row->large_bytes += bytes >= kLarge ? bytes : 0;
}

static double bytes_of(double elements, MPI_Datatype type) {
  int size = 0;
  return type != MPI_DATATYPE_NULL && PMPI_Type_size(type, &size) == MPI_SUCCESS ? elements * size : 0;
}

static int ranks_of(MPI_Comm comm) {
  int ranks = 0;
  return PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS ? ranks : 0;
}

/* Of counts for each rank. Where only a root has them, the others count nothing. */
static double sum_of(const int* counts, MPI_Comm comm) {
  double sum = 0;
  for (int i = 0; counts != NULL && i < ranks_of(comm); ++i) sum += counts[i];
  return sum;
}

/* MPI's function of this name. */
static void* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort(); /* the MPI library has no such function, so nobody can have called it */
  return found;
}

static void write_rows(void) {
  int rank = 0;
  const char* const path = getenv("COUNT_CALLS");
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  FILE* const file = rank == 0 && path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  for (const Row* row = rows; row->name != NULL; ++row)
    fprintf(file, "%s %.0f %.0f %.0f %.0f\n", row->name, row->calls, row->bytes, row->large,
            row->large_bytes);
  fclose(file);
}

int PMPI_Finalize(void) {
  int (*real)(void);
  *(void**)&real = next("PMPI_Finalize");
  write_rows();
  return real();
}
int MPI_Finalize(void) { return PMPI_Finalize(); }

/* MPI_NAME and PMPI_NAME of these parameters, which count BYTES and call MPI's own function. */
#define COUNTED(NAME, BYTES, PARAMETERS, ARGUMENTS)         \
  int PMPI_##NAME PARAMETERS {                              \
    static int(*real) PARAMETERS;                           \
    if (real == NULL) *(void**)&real = next("PMPI_" #NAME); \
    count(#NAME, BYTES);                                    \
    return real ARGUMENTS;                                  \
  }                                                         \
  int MPI_##NAME PARAMETERS { return PMPI_##NAME ARGUMENTS; }

COUNTED(Allreduce, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, n, type, op, comm))
COUNTED(Iallreduce, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request),
        (in, out, n, type, op, comm, request))
COUNTED(Reduce, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
        (in, out, n, type, op, root, comm))
COUNTED(Ireduce, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
         MPI_Request* request),
        (in, out, n, type, op, root, comm, request))
COUNTED(Scan, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, n, type, op, comm))
COUNTED(Exscan, bytes_of(n, type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, n, type, op, comm))
COUNTED(Bcast, bytes_of(n, type), (void* out, int n, MPI_Datatype type, int root, MPI_Comm comm),
        (out, n, type, root, comm))
COUNTED(Ibcast, bytes_of(n, type),
        (void* out, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request),
        (out, n, type, root, comm, request))
COUNTED(Reduce_scatter, bytes_of(sum_of(counts, comm), type),
        (const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, counts, type, op, comm))
COUNTED(Reduce_scatter_block, bytes_of((double)n* ranks_of(comm), type),
        (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
        (in, out, n, type, op, comm))
COUNTED(Allgather, bytes_of((double)out_n* ranks_of(comm), out_type),
        (const void* in, int n, MPI_Datatype type, void* out, int out_n, MPI_Datatype out_type,
         MPI_Comm comm),
        (in, n, type, out, out_n, out_type, comm))
COUNTED(Iallgather, bytes_of((double)out_n* ranks_of(comm), out_type),
        (const void* in, int n, MPI_Datatype type, void* out, int out_n, MPI_Datatype out_type, MPI_Comm comm,
         MPI_Request* request),
        (in, n, type, out, out_n, out_type, comm, request))
COUNTED(Allgatherv, bytes_of(sum_of(out_counts, comm), out_type),
        (const void* in, int n, MPI_Datatype type, void* out, const int* out_counts, const int* out_starts,
         MPI_Datatype out_type, MPI_Comm comm),
        (in, n, type, out, out_counts, out_starts, out_type, comm))
COUNTED(Iallgatherv, bytes_of(sum_of(out_counts, comm), out_type),
        (const void* in, int n, MPI_Datatype type, void* out, const int* out_counts, const int* out_starts,
         MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request),
        (in, n, type, out, out_counts, out_starts, out_type, comm, request))
COUNTED(Gather, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, void* out, int out_n, MPI_Datatype out_type, int root,
         MPI_Comm comm),
        (in, n, type, out, out_n, out_type, root, comm))
COUNTED(Gatherv, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, void* out, const int* out_counts, const int* out_starts,
         MPI_Datatype out_type, int root, MPI_Comm comm),
        (in, n, type, out, out_counts, out_starts, out_type, root, comm))
COUNTED(Scatter, bytes_of(out_n, out_type),
        (const void* in, int n, MPI_Datatype type, void* out, int out_n, MPI_Datatype out_type, int root,
         MPI_Comm comm),
        (in, n, type, out, out_n, out_type, root, comm))
COUNTED(Scatterv, bytes_of(out_n, out_type),
        (const void* in, const int* counts, const int* starts, MPI_Datatype type, void* out, int out_n,
         MPI_Datatype out_type, int root, MPI_Comm comm),
        (in, counts, starts, type, out, out_n, out_type, root, comm))
COUNTED(Alltoall, bytes_of((double)out_n* ranks_of(comm), out_type),
        (const void* in, int n, MPI_Datatype type, void* out, int out_n, MPI_Datatype out_type,
         MPI_Comm comm),
        (in, n, type, out, out_n, out_type, comm))
COUNTED(Alltoallv, bytes_of(sum_of(counts, comm), type),
        (const void* in, const int* counts, const int* starts, MPI_Datatype type, void* out,
         const int* out_counts, const int* out_starts, MPI_Datatype out_type, MPI_Comm comm),
        (in, counts, starts, type, out, out_counts, out_starts, out_type, comm))
COUNTED(Barrier, 0, (MPI_Comm comm), (comm))
COUNTED(Send, bytes_of(n, type), (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
        (in, n, type, to, tag, comm))
COUNTED(Ssend, bytes_of(n, type), (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
        (in, n, type, to, tag, comm))
COUNTED(Rsend, bytes_of(n, type), (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
        (in, n, type, to, tag, comm))
COUNTED(Isend, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request),
        (in, n, type, to, tag, comm, request))
COUNTED(Issend, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request),
        (in, n, type, to, tag, comm, request))
COUNTED(Irsend, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request),
        (in, n, type, to, tag, comm, request))
COUNTED(Sendrecv, bytes_of(n, type),
        (const void* in, int n, MPI_Datatype type, int to, int tag, void* out, int out_n,
         MPI_Datatype out_type, int from, int out_tag, MPI_Comm comm, MPI_Status* status),
        (in, n, type, to, tag, out, out_n, out_type, from, out_tag, comm, status))
COUNTED(Start, 0, (MPI_Request * request), (request))
COUNTED(Startall, 0, (int n, MPI_Request requests[]), (n, requests))
