/* Between the preload library (the front, which knows no MPI) and the library compiled for one MPI (a core).
 *
 * Handles travel as the words they are in: MPI_Comm is an int in MPICH and a pointer in Open MPI, and both
 * arrive in one register or one stack slot of 8 bytes on x86-64 and AArch64. Whoever reads a slot as an int
 * takes its lower half; the upper one may hold anything. */
#ifndef MPI_QUANT_BASE_FRONT_H
#define MPI_QUANT_BASE_FRONT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with anything in this file but the names of the two tables. */
#define MPIQ_FRONT_VERSION 2

typedef intptr_t mpiq_slot;

/* The level of MPI_Pcontrol at which a command follows. */
enum { MPIQ_PCONTROL = 0x4D51 };

/* Functions of MPI whose calls are counted and otherwise left alone. */
enum mpiq_counted { MPIQ_NONBLOCKING, MPIQ_PERSISTENT };

/* What a core gives the front: mpiq_core_v1, exported. */
typedef struct mpiq_core {
  int version;
  const char* family; /* "mpich" or "openmpi": the MPI library it was compiled for */
  size_t comm_bytes;  /* of an MPI_Comm in memory */
  /* PMPI_Initialized as the core found it: another library's if a process has two. */
  int (*initialized)(int* flag);
  /* MPI_Init has returned. */
  void (*started)(void);
  /* Not 0: a report is wanted, and all calls are, be they as small as they like. */
  const int* watching;
  /* MPI_Allreduce and MPI_Allreduce_c of the program. */
  int (*allreduce)(mpiq_slot sendbuf, mpiq_slot recvbuf, int64_t count, mpiq_slot datatype, mpiq_slot op,
                   mpiq_slot comm);
  /* A call of another function, to be counted. */
  void (*counted)(enum mpiq_counted what, int64_t count, mpiq_slot datatype, mpiq_slot op, mpiq_slot comm);
  /* MPI_Pcontrol; command is null unless level is MPIQ_PCONTROL. MPI_SUCCESS or an error code. */
  int (*pcontrol)(int level, const char* command);
  /* comm got this info, from MPI_Comm_set_info or MPI_Comm_dup_with_info. MPI_SUCCESS or an error code. */
  int (*comm_info)(mpiq_slot comm, mpiq_slot info);
} mpiq_core;

/* What the front gives a core: mpiq_front_v1, exported. */
typedef struct mpiq_front {
  int version;
  /* The MPI library's own function of this name ("PMPI_Allreduce"), which the front stands before; null if it
   * has none. */
  void* (*real)(const char* name);
} mpiq_front;

#ifdef __cplusplus
}
#endif

#endif
