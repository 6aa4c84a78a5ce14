/* libmpi_quant_pmpi.so, to preload under or link into a program: MPI_Allreduce in place of the MPI library's.
 *
 * It stands *below* PMPI: it defines MPI_X and PMPI_X, and reaches the real PMPI_X by its address. Fortran's
 * layers call MPI_X in MPICH and PMPI_X in Open MPI, and PMPI tools call PMPI_X: all of them end here, once
 * for each call of the program, whether a tool is loaded before this library, after it, or linked into the
 * program.
 *
 * It knows no MPI: no mpi.h, no dependence on a library. At the first call it asks the MPI library of the
 * process for its version and loads the core compiled for that family, which lies beside it; a program that
 * is linked with libmpi_quant has one already, and shares its state. So one preload value serves the programs
 * of all MPIs, and children that are no MPI programs are not touched. Where there is no core, everything
 * stays MPI's, and one line on stderr says why. */
#define _GNU_SOURCE
#include "mpi_quant/base/front.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#  error "slots were thought through for x86-64 and AArch64 only"
#endif

#define PUBLIC __attribute__((visibility("default")))

/* Fewer elements than this are below the floor of 64 KiB for every element type. */
enum { kFewestElements = 65536 / 8 };

extern const mpiq_front mpiq_front_v1;

typedef void (*function)(void);
typedef int (*call6)(mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot, mpiq_slot);

enum { kAllreduce, kAllreduceC, kHooks };
static const char* const names[kHooks] = {"PMPI_Allreduce", "PMPI_Allreduce_c"};
static function real[kHooks]; /* MPI's own; null: it has none */
static function tool[kHooks]; /* MPI_X of a tool behind this library; null: none */
static const mpiq_core* core; /* null: everything is MPI's */
static pthread_once_t attached = PTHREAD_ONCE_INIT;

static void say(const char* what, const char* detail) {
  fprintf(stderr, "mpi_quant: %s%s; MPI_Allreduce stays the MPI library's\n", what, detail);
}

/* The object a function lives in. */
static const void* owner(void* address) {
  Dl_info info;
  return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

struct object {
  int index; /* counts down to 0 at the one that is asked for */
  char path[4096];
};

static int copy_path(struct dl_phdr_info* info, size_t size, void* data) {
  struct object* object = data;
  (void)size;
  if (object->index-- > 0) return 0;
  snprintf(object->path, sizeof object->path, "%s", info->dlpi_name);
  return 1;
}

/* A symbol of a library that is in no global scope, as MPI is in a plugin opened with RTLD_LOCAL: the loaded
 * objects one by one. Not from within dl_iterate_phdr, whose lock another thread's dlopen takes after its
 * own. */
static void* next_in_objects(const char* name) {
  static struct object object;
  int i;
  for (i = 0;; ++i) {
    void* handle;
    void* found;
    object.index = i;
    if (dl_iterate_phdr(copy_path, &object) == 0) return NULL;
    handle = object.path[0] != '\0' ? dlopen(object.path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    if (handle == NULL) continue;
    found = dlsym(handle, name);
    dlclose(handle); /* the program holds it */
    if (found != NULL && owner(found) != owner((void*)(intptr_t)next_in_objects)) return found;
  }
}

static void* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  return found != NULL ? found : next_in_objects(name);
}

static function as_function(void* address) {
  function f;
  memcpy(&f, &address, sizeof f); /* ISO C has no cast for it */
  return f;
}

/* "mpich", "openmpi", or null with the reason said. */
static const char* family_of_process(void) {
  static char version[16384]; /* MPI_MAX_LIBRARY_VERSION_STRING: 8192 in MPICH, 256 in Open MPI */
  int length = 0;
  typedef int (*get_version)(char*, int*);
  void* const address = next("PMPI_Get_library_version");
  const get_version get = (get_version)as_function(address);
  Dl_info library;
  if (get == NULL || get(version, &length) != 0) {
    say("no MPI library found", "");
    return NULL;
  }
  if (dladdr(address, &library) != 0 && strstr(library.dli_fname, "mpi_abi") != NULL) {
    say("no core for the standard ABI: ", library.dli_fname);
    return NULL;
  }
  if (strstr(version, "Open MPI") != NULL) return "openmpi";
  /* Those that share MPICH's ABI name themselves. */
  if (strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
      strstr(version, "MVAPICH") != NULL)
    return "mpich";
  version[strcspn(version, "\n")] = '\0';
  say("no core for this MPI library: ", version);
  return NULL;
}

/* The folder of this library, with a slash, as it was when the program began: a relative path means nothing
 * after a chdir. */
static char folder[4096];
__attribute__((constructor)) static void remember_folder(void) {
  Dl_info self;
  char* path;
  char* slash;
  if (dladdr((void*)(intptr_t)remember_folder, &self) == 0) return;
  path = realpath(self.dli_fname, NULL);
  slash = path != NULL ? strrchr(path, '/') : NULL;
  if (slash != NULL && (size_t)(slash - path) + 2 < sizeof folder) {
    slash[1] = '\0';
    strcpy(folder, path);
  }
  free(path);
}

/* Of the core beside this library. */
static const mpiq_core* load_core(const char* family) {
  static char path[sizeof folder + 64];
  void* handle;
  snprintf(path, sizeof path, "%slibmpi_quant_core_%s.so.%s", folder, family, MPIQ_SOVERSION);
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    say("cannot load its core: ", dlerror());
    return NULL;
  }
  return dlsym(handle, "mpiq_core_v1");
}

/* Has the core found the MPI library that the program runs? */
static int same_library(const mpiq_core* found) {
  typedef int (*get_initialized)(int*);
  const get_initialized get = (get_initialized)as_function(next("PMPI_Initialized"));
  int here = 0, there = 0;
  if (get == NULL || get(&here) != 0 || found->initialized(&there) != 0) return 0;
  return here == there;
}

static void find_core(void) {
  const char* const family = family_of_process();
  const mpiq_core* found;
  if (family == NULL) return;
  found = dlsym(RTLD_DEFAULT, "mpiq_core_v1");
  if (found == NULL) found = load_core(family);
  if (found == NULL) return;
  if (found->version != MPIQ_FRONT_VERSION)
    say("its core is of another version", "");
  else if (strcmp(found->family, family) != 0)
    say("libmpi_quant was compiled for another MPI library: ", found->family);
  else if (!same_library(found))
    say("its core found another MPI library than the program's", "");
  else
    core = found;
}

static void attach(void) {
  int i, in_global_scope = 0;
  for (i = 0; i < kHooks; ++i) {
    void* mpi = dlsym(RTLD_NEXT, names[i]);
    /* Where PMPI_Allreduce is in a global scope, what is not there is nowhere: Open MPI 4 has no _c. */
    if (i == kAllreduce) in_global_scope = mpi != NULL;
    if (mpi == NULL && !in_global_scope) mpi = next_in_objects(names[i]);
    void* const above = dlsym(RTLD_NEXT, names[i] + 1); /* "MPI_..." */
    real[i] = as_function(mpi);
    if (above != NULL && owner(above) != owner(mpi)) tool[i] = as_function(above);
  }
  /* Of two copies of this library the first decides, and the others pass through. */
  if (dlsym(RTLD_DEFAULT, "mpiq_front_v1") == (const void*)&mpiq_front_v1) find_core();
}

static void ready(void) { (void)pthread_once(&attached, attach); }

/* An MPI library without this function cannot have been asked for it by a program that was compiled for it:
 * any error will do. */
enum { kNoSuchFunction = 15 };

static int allreduce(int hook, mpiq_slot sendbuf, mpiq_slot recvbuf, int64_t count, mpiq_slot datatype,
                     mpiq_slot op, mpiq_slot comm) {
  if (count >= kFewestElements && core != NULL)
    return core->allreduce(sendbuf, recvbuf, count, datatype, op, comm);
  if (real[hook] == NULL && count == (int)count) hook = kAllreduce;
  if (real[hook] == NULL) return kNoSuchFunction;
  return ((call6)real[hook])(sendbuf, recvbuf, (mpiq_slot)count, datatype, op, comm);
}

/* The functions themselves. MPI_X with a tool behind this library is the tool's, which comes back through
 * PMPI_X. */

PUBLIC int PMPI_Allreduce(mpiq_slot sendbuf, mpiq_slot recvbuf, mpiq_slot count, mpiq_slot datatype,
                          mpiq_slot op, mpiq_slot comm) {
  ready();
  return allreduce(kAllreduce, sendbuf, recvbuf, (int)count, datatype, op, comm);
}

PUBLIC int MPI_Allreduce(mpiq_slot sendbuf, mpiq_slot recvbuf, mpiq_slot count, mpiq_slot datatype,
                         mpiq_slot op, mpiq_slot comm) {
  ready();
  if (tool[kAllreduce] != NULL) return ((call6)tool[kAllreduce])(sendbuf, recvbuf, count, datatype, op, comm);
  return allreduce(kAllreduce, sendbuf, recvbuf, (int)count, datatype, op, comm);
}

PUBLIC int PMPI_Allreduce_c(mpiq_slot sendbuf, mpiq_slot recvbuf, mpiq_slot count, mpiq_slot datatype,
                            mpiq_slot op, mpiq_slot comm) {
  ready();
  return allreduce(kAllreduceC, sendbuf, recvbuf, count, datatype, op, comm);
}

PUBLIC int MPI_Allreduce_c(mpiq_slot sendbuf, mpiq_slot recvbuf, mpiq_slot count, mpiq_slot datatype,
                           mpiq_slot op, mpiq_slot comm) {
  ready();
  if (tool[kAllreduceC] != NULL)
    return ((call6)tool[kAllreduceC])(sendbuf, recvbuf, count, datatype, op, comm);
  return allreduce(kAllreduceC, sendbuf, recvbuf, count, datatype, op, comm);
}

static void* real_by_name(const char* name) {
  int i;
  void* address = NULL;
  ready();
  for (i = 0; i < kHooks; ++i)
    if (strcmp(names[i], name) == 0) memcpy(&address, &real[i], sizeof address);
  return address;
}

PUBLIC const mpiq_front mpiq_front_v1 = {MPIQ_FRONT_VERSION, real_by_name};
