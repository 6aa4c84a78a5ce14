/* The interface between the preload library (the stub, which knows no MPI) and the library that is compiled
 * for one MPI (a core).
 *
 * Handles are passed as words of 8 bytes. MPI_Comm is an int in MPICH and a pointer in Open MPI and in the
 * standard ABI. On x86-64 and AArch64 both arrive in one register or one stack slot of 8 bytes. Code that
 * reads a slot as an int takes the lower half; the upper half may hold anything. */
#ifndef MPI_QUANT_BASE_STUB_H
#define MPI_QUANT_BASE_STUB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increase it with every change in this file, except in the names of the two tables. */
#define MPIQ_STUB_VERSION 6

typedef intptr_t mpiq_slot;

/* MPI_Pcontrol with this level is followed by a command. mpi_quant.h, which needs MPI, has the same line. A
 * compiler that sees both warns if they differ. */
#define MPIQ_PCONTROL 0x4D51

/* Forms of the collectives below whose calls are only counted. */
enum mpiq_counted { MPIQ_NONBLOCKING, MPIQ_PERSISTENT };

/* Functions of MPI whose calls may be compressed. LARGE: the _c form. */
enum mpiq_collective {
  MPIQ_REDUCE_SCATTER,
  MPIQ_REDUCE_SCATTER_LARGE,
  MPIQ_REDUCE_SCATTER_BLOCK,
  MPIQ_REDUCE_SCATTER_BLOCK_LARGE,
  MPIQ_ALLGATHER,
  MPIQ_ALLGATHER_LARGE,
  MPIQ_ALLGATHERV,
  MPIQ_ALLGATHERV_LARGE,
  MPIQ_BCAST,
  MPIQ_BCAST_LARGE,
  MPIQ_REDUCE,
  MPIQ_REDUCE_LARGE,
  MPIQ_ALLREDUCE,
  MPIQ_ALLREDUCE_LARGE
};

/* What a core exports for the stub, as mpiq_core_v1. */
typedef struct mpiq_core {
  int version;
  const char* family; /* family.h: what it was compiled for */
  size_t comm_bytes;  /* size of an MPI_Comm */
  /* PMPI_Initialized as the core found it. If a process has two MPI libraries, it may be the other one's. */
  int (*initialized)(int* flag);
  /* To be called when MPI_Init has returned. */
  void (*started)(void);
  /* Not 0: a report is wanted, so pass on calls of every size. */
  const int* watching;
  /* MPI_Allreduce and MPI_Allreduce_c of the program. */
  int (*allreduce)(mpiq_slot sendbuf, mpiq_slot recvbuf, int64_t count, mpiq_slot datatype, mpiq_slot op,
                   mpiq_slot comm);
  /* A collective of the program, with its arguments in their order. */
  int (*collective)(enum mpiq_collective what, const mpiq_slot* arguments);
  /* Counts a call of this form of a collective. arguments: at least the arguments of the blocking
   * function. */
  void (*counted)(enum mpiq_counted form, enum mpiq_collective what, const mpiq_slot* arguments);
  /* MPI_Pcontrol. command is null unless level is MPIQ_PCONTROL. Returns MPI_SUCCESS or an error code. */
  int (*pcontrol)(int level, const char* command);
  /* comm got this info, by MPI_Comm_set_info or MPI_Comm_dup_with_info. MPI_SUCCESS or an error code. */
  int (*comm_info)(mpiq_slot comm, mpiq_slot info);
} mpiq_core;

/* What the stub exports for a core, as mpiq_stub_v1. */
typedef struct mpiq_stub {
  int version;
  /* The function of this name ("PMPI_Allreduce") in the MPI library itself, behind the stub. Null if the
   * library has none. */
  void* (*real)(const char* name);
} mpiq_stub;

#ifdef __cplusplus
}
#endif

#endif
