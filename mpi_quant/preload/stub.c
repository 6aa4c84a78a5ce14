/* libmpi_quant_pmpi.so, to preload under a program or to link into it. It replaces MPI_Allreduce,
 * MPI_Reduce_scatter, MPI_Allgather, MPI_Bcast, MPI_Reduce and their relatives.
 *
 * It stands *below* PMPI: it defines MPI_X and PMPI_X, and reaches the real PMPI_X by its address. The
 * Fortran layer calls MPI_X in MPICH and PMPI_X in Open MPI, and PMPI tools call PMPI_X. All of them end
 * here, once for each call of the program, whether a tool is loaded before this library, after it, or linked
 * into the program.
 *
 * It knows no MPI: it includes no mpi.h and depends on no library. At the first call it asks the MPI library
 * of the process for its version and loads the core for that family, which lies beside it (find.c). A program
 * that is linked with libmpi_quant has a core already, and shares its state. So one preload value serves the
 * programs of all MPIs, and child processes that are no MPI programs are left alone. If there is no core, all
 * calls go to MPI. */
#define _GNU_SOURCE
#include "mpi_quant/base/stub.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_quant/preload/find.h"
#include "mpi_quant/preload/unused.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#  error "slots were thought through for x86-64 and AArch64 only"
#endif

#define PUBLIC __attribute__((visibility("default")))

/* Shorter vectors are never compressed, whatever a rule says: they have less than 4 KiB with any element
 * type. */
enum { kFewestElements = 4096 / 8 };

extern const mpiq_stub mpiq_stub_v1;

typedef mpiq_function function;
/* The arguments of any function of MPI that is caught here. Arguments that a function does not have are zero,
 * and it does not look at them. */
enum { kArguments = 10 };
typedef mpiq_slot arguments[kArguments];
typedef int (*any_call)(mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot,
                        mpiq_slot, mpiq_slot, mpiq_slot);

/* The functions that are caught, by number, and their names. MPI_Pcontrol, which has any number of arguments,
 * is the last one. */
#define HOOK(name, arguments) hook_##name,
#define COLLECTIVE(name, arguments, collective) hook_##name,
#define COUNTED(name, arguments, form, collective) hook_##name,
enum hook {
#include "mpi_quant/preload/hooks.def"
  hook_MPI_Pcontrol,
  kHooks
};
#undef HOOK
#undef COLLECTIVE
#undef COUNTED
#define HOOK(name, arguments) "P" #name,
#define COLLECTIVE(name, arguments, collective) "P" #name,
#define COUNTED(name, arguments, form, collective) "P" #name,
static const char* const names[kHooks] = {
#include "mpi_quant/preload/hooks.def"
    "PMPI_Pcontrol"};
#undef HOOK
#undef COLLECTIVE
#undef COUNTED
static function real[kHooks]; /* MPI's own function; null: MPI has none */
static function tool[kHooks]; /* MPI_X of a tool behind this library; null: none */
static const mpiq_core* core; /* null: all calls go to MPI */
static pthread_once_t resolved_once = PTHREAD_ONCE_INIT, attached_once = PTHREAD_ONCE_INIT;
static int is_ready = 0; /* 1 once both are done; cheap to look at */

static void resolve(void) {
  int i, in_global_scope = 0;
  for (i = 0; i < kHooks; ++i) {
    void* mpi = dlsym(RTLD_NEXT, names[i]);
    /* If PMPI_Allreduce is in the global scope, a function that is not there does not exist, such as the _c
     * functions in Open MPI 4. */
    if (i == hook_MPI_Allreduce) in_global_scope = mpi != NULL;
    if (mpi == NULL && !in_global_scope) mpi = mpiq_next_in_objects(names[i]);
    void* const above = dlsym(RTLD_NEXT, names[i] + 1); /* "MPI_..." */
    real[i] = mpiq_as_function(mpi);
    /* A tool has MPI_X alone, and calls PMPI_X. MPI's own MPI_X would not come back here, whoever has
     * PMPI_X. */
    if (above != NULL && mpiq_owner(above) != mpiq_owner(mpi) && mpiq_beside(above, names[i]) == NULL)
      tool[i] = mpiq_as_function(above);
  }
}

static void attach(void) {
  /* If there are two copies of this library, the first one decides, and the others pass calls on. */
  if (dlsym(RTLD_DEFAULT, "mpiq_stub_v1") == (const void*)&mpiq_stub_v1) core = mpiq_find_core();
}

static int is_used = 0;

static void resolved(void) {
  (void)pthread_once(&resolved_once, resolve);
  __atomic_store_n(&is_used, 1, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void end_of_process(void) {
  if (!__atomic_load_n(&is_used, __ATOMIC_RELAXED)) mpiq_say_unused();
}

static void make_ready(void) {
  resolved();
  (void)pthread_once(&attached_once, attach);
  __atomic_store_n(&is_ready, 1, __ATOMIC_RELEASE);
}

static inline void ready(void) {
  if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) make_ready();
}

/* A program that was compiled for an MPI library without this function cannot have called it. So any error
 * code will do. */
enum { kNoSuchFunction = 15 };

static int call(function f, const arguments a) {
  return f != NULL ? ((any_call)f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
                   : kNoSuchFunction;
}

static inline int watched(void) { return __atomic_load_n(core->watching, __ATOMIC_RELAXED); }

/* Whether the core has to see a call with a vector of so many elements. Others go to MPI at once. */
static inline int is_of_core(int64_t count) {
  ready();
  return core != NULL && (count >= kFewestElements || watched());
}

/* What is done with each function, below the tools. */

static int allreduce(enum hook hook, const arguments a, int64_t count) {
  if (is_of_core(count)) return core->allreduce(a[0], a[1], count, a[3], a[4], a[5]);
  if (real[hook] == NULL && count == (int)count) hook = hook_MPI_Allreduce;
  return call(real[hook], a);
}

static int collective(enum hook hook, const arguments a, enum mpiq_collective what) {
  ready();
  return core != NULL ? core->collective(what, a) : call(real[hook], a);
}

static int of_vector(enum hook hook, const arguments a, int64_t count, enum mpiq_collective what) {
  return is_of_core(count) ? core->collective(what, a) : call(real[hook], a);
}

enum { kMpiSuccess = 0 }; /* in every MPI: the standard says so */

/* Counts a call that MPI has taken, so that errors are MPI's own. Nothing here may wait for other ranks. They
 * may be in a different call, which is legal. */
static int count_and_pass(enum hook hook, const arguments a, enum mpiq_counted form,
                          enum mpiq_collective what) {
  ready();
  const int code = call(real[hook], a);
  if (code == kMpiSuccess && core != NULL && watched()) core->counted(form, what, a);
  return code;
}

static int is_asked_for(void) {
  return getenv("MPIQ_REPORT") != NULL || getenv("MPIQ_MODE") != NULL || getenv("MPIQ_POLICY") != NULL ||
         getenv("MPIQ_POLICY_FILE") != NULL;
}

/* The core is looked up once MPI is initialized, so that it can tell which MPI that is. It is looked up here
 * only if something is asked for. Otherwise the first call does it. */
static int init(enum hook hook, const arguments a) {
  int code;
  resolved();
  mpiq_note_mpi();
  code = call(real[hook], a);
  if (code != 0 || !is_asked_for()) return code;
  ready();
  if (core != NULL) core->started();
  return code;
}

typedef int (*any_pcontrol)(int, ...);

static int pcontrol(int level, const char* command) {
  int code = 0;
  ready();
  if (core != NULL) code = core->pcontrol(level, command);
  return code != 0 || real[hook_MPI_Pcontrol] == NULL
             ? code
             : ((any_pcontrol)real[hook_MPI_Pcontrol])(level, command);
}

static int with_info(enum hook hook, const arguments a) {
  mpiq_slot comm = a[0];
  int code;
  ready();
  code = call(real[hook], a);
  if (code != 0 || core == NULL) return code;
  if (hook == hook_MPI_Comm_dup_with_info) memcpy(&comm, (const void*)a[2], core->comm_bytes);
  return core->comm_info(comm, a[1]);
}

#define HOOK(name, arguments)
#define COLLECTIVE(name, arguments, what) \
  if (hook == hook_##name) return collective(hook, a, what);
#define COUNTED(name, arguments, form, what) \
  if (hook == hook_##name) return count_and_pass(hook, a, form, what);
static inline __attribute__((always_inline)) int run(enum hook hook, const arguments a) {
#include "mpi_quant/preload/hooks.def"
  switch (hook) {
    case hook_MPI_Allreduce: return allreduce(hook, a, (int)a[2]);
    case hook_MPI_Allreduce_c: return allreduce(hook, a, a[2]);
    case hook_MPI_Init:
    case hook_MPI_Init_thread: return init(hook, a);
    case hook_MPI_Comm_set_info:
    case hook_MPI_Comm_dup_with_info: return with_info(hook, a);
    case hook_MPI_Bcast: return of_vector(hook, a, (int)a[1], MPIQ_BCAST);
    case hook_MPI_Bcast_c: return of_vector(hook, a, a[1], MPIQ_BCAST_LARGE);
    case hook_MPI_Reduce: return of_vector(hook, a, (int)a[2], MPIQ_REDUCE);
    case hook_MPI_Reduce_c: return of_vector(hook, a, a[2], MPIQ_REDUCE_LARGE);
    default: return kNoSuchFunction;
  }
}
#undef HOOK
#undef COLLECTIVE
#undef COUNTED

/* If there is a tool behind this library, MPI_X is the tool's. The tool comes back through PMPI_X. */
static inline __attribute__((always_inline)) int enter(enum hook hook, const arguments a) {
  if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) resolved();
  return tool[hook] != NULL ? call(tool[hook], a) : run(hook, a);
}

/* The functions themselves, by number of arguments. */
#define CAUGHT(name, parameters, ...)                                                 \
  PUBLIC int P##name parameters;                                                      \
  PUBLIC int name parameters;                                                         \
  int P##name parameters { return run(hook_##name, (const arguments){__VA_ARGS__}); } \
  int name parameters { return enter(hook_##name, (const arguments){__VA_ARGS__}); }
#define SLOTS2 mpiq_slot a, mpiq_slot b
#define SLOTS3 SLOTS2, mpiq_slot c
#define SLOTS4 SLOTS3, mpiq_slot d
#define SLOTS5 SLOTS4, mpiq_slot e
#define SLOTS6 SLOTS5, mpiq_slot f
#define SLOTS7 SLOTS6, mpiq_slot g
#define SLOTS8 SLOTS7, mpiq_slot h
#define SLOTS9 SLOTS8, mpiq_slot i
#define SLOTS10 SLOTS9, mpiq_slot j
#define GIVEN2 a, b
#define GIVEN3 GIVEN2, c
#define GIVEN4 GIVEN3, d
#define GIVEN5 GIVEN4, e
#define GIVEN6 GIVEN5, f
#define GIVEN7 GIVEN6, g
#define GIVEN8 GIVEN7, h
#define GIVEN9 GIVEN8, i
#define GIVEN10 GIVEN9, j
#define HOOK(name, n) CAUGHT(name, (SLOTS##n), GIVEN##n)
#define COLLECTIVE(name, n, collective) CAUGHT(name, (SLOTS##n), GIVEN##n)
#define COUNTED(name, n, form, collective) CAUGHT(name, (SLOTS##n), GIVEN##n)
#include "mpi_quant/preload/hooks.def"

static void* real_by_name(const char* name) {
  int i;
  void* address = NULL;
  resolved();
  for (i = 0; i < kHooks; ++i)
    if (strcmp(names[i], name) == 0) memcpy(&address, &real[i], sizeof address);
  return address;
}

/* Only the level tells whether MPI_Pcontrol has more arguments. */
static const char* command_of(int level, va_list rest) {
  return level == MPIQ_PCONTROL ? va_arg(rest, const char*) : NULL;
}

PUBLIC int PMPI_Pcontrol(const int level, ...) {
  const char* command;
  va_list rest;
  va_start(rest, level);
  command = command_of(level, rest);
  va_end(rest);
  return pcontrol(level, command);
}

/* A program may have other arguments for a tool behind this library, which only these two know. So the
 * registers and a piece of the stack are passed on as they came. */
PUBLIC int MPI_Pcontrol(const int level, ...) {
  const char* command;
  va_list rest;
  if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) resolved();
#if defined(__GNUC__) && !defined(__clang__)
  if (tool[hook_MPI_Pcontrol] != NULL) {
    enum { kStackBytes = 64 };
    __builtin_return(
        __builtin_apply((void (*)())tool[hook_MPI_Pcontrol], __builtin_apply_args(), kStackBytes));
  }
#endif
  va_start(rest, level);
  command = command_of(level, rest);
  va_end(rest);
  return tool[hook_MPI_Pcontrol] != NULL ? ((any_pcontrol)tool[hook_MPI_Pcontrol])(level, command)
                                         : pcontrol(level, command);
}

PUBLIC const mpiq_stub mpiq_stub_v1 = {MPIQ_STUB_VERSION, real_by_name};
