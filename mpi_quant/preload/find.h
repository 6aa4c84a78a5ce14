/* Finds the MPI library that a process runs, wherever it is loaded, and the core that fits it. */
#ifndef MPI_QUANT_PMPI_FIND_H
#define MPI_QUANT_PMPI_FIND_H

#include "mpi_quant/base/stub.h"

typedef void (*mpiq_function)(void);
mpiq_function mpiq_as_function(void* address); /* ISO C has no cast for this */

/* The base of the object that holds a function; null if there is none. */
const void* mpiq_owner(void* address);

/* The function of this name in the very object that holds `address`. Null: it has none. */
void* mpiq_beside(void* address, const char* name);

/* A symbol of a library that is not in the global scope. Null: no loaded object has it. */
void* mpiq_next_in_objects(const char* name);

/* The core for the MPI library of this process. Null if there is none. One line on stderr then says why, if
 * the environment has a variable of this library. Without one nobody expects the library to act. */
const mpiq_core* mpiq_find_core(void);

#endif
