/* MPI's own MPI_Allreduce, past everything that was preloaded: by a handle of the library it is in. */
#ifndef BENEATH_H
#define BENEATH_H

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>

typedef int (*allreduce_function)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

static allreduce_function beneath(void) {
  static allreduce_function found;
  Dl_info info;
  void* symbol;
  if (found != NULL) return found;
  if (dladdr((void*)(intptr_t)PMPI_Comm_rank, &info) == 0) return NULL;
  symbol = dlsym(dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY), "PMPI_Allreduce");
  memcpy(&found, &symbol, sizeof found);
  return found;
}

#endif
