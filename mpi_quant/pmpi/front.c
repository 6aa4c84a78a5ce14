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
#include <string.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#  error "slots were thought through for x86-64 and AArch64 only"
#endif

#define PUBLIC __attribute__((visibility("default")))

/* Fewer elements than this are below the floor of 64 KiB for every element type. */
enum { kFewestElements = 65536 / 8 };

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

struct search {
  const char* name;
  void* found;
};

/* Looks for a symbol in a loaded MPI library that is in no global scope, as of a plugin opened with
 * RTLD_LOCAL. */
static int search_object(struct dl_phdr_info* info, size_t size, void* data) {
  static const char* const libraries[] = {"/libmpi.so",      "/libmpich.so",  "/libmpi_abi.so",
                                          "/libpmpi_abi.so", "/libmpi_cray.", "/libmpifort."};
  struct search* search = data;
  size_t i;
  (void)size;
  for (i = 0; i < sizeof libraries / sizeof libraries[0]; ++i) {
    void* handle;
    if (strstr(info->dlpi_name, libraries[i]) == NULL) continue;
    handle = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL) continue;
    search->found = dlsym(handle, search->name);
    dlclose(handle); /* the program holds it */
    if (search->found != NULL && owner(search->found) == owner((void*)(intptr_t)search_object))
      search->found = NULL;
    if (search->found != NULL) return 1;
  }
  return 0;
}

static void* next(const char* name) {
  struct search search;
  search.name = name;
  search.found = dlsym(RTLD_NEXT, name);
  if (search.found == NULL) dl_iterate_phdr(search_object, &search);
  return search.found;
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
  const get_version get = (get_version)as_function(next("PMPI_Get_library_version"));
  if (get == NULL || get(version, &length) != 0) {
    say("no MPI library found", "");
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

/* Of the core beside this library. */
static const mpiq_core* load_core(const char* family) {
  static char path[4096];
  Dl_info self;
  const char* slash;
  void* handle;
  if (dladdr((void*)(intptr_t)load_core, &self) == 0) return NULL;
  slash = strrchr(self.dli_fname, '/');
  snprintf(path, sizeof path, "%.*slibmpi_quant_core_%s.so.%s",
           slash != NULL ? (int)(slash - self.dli_fname) + 1 : 0, self.dli_fname, family, MPIQ_SOVERSION);
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    say("cannot load its core: ", dlerror());
    return NULL;
  }
  return dlsym(handle, "mpiq_core_v1");
}

static void attach(void) {
  const char* family;
  const mpiq_core* found;
  int i;
  for (i = 0; i < kHooks; ++i) {
    void* const mpi = next(names[i]);
    void* const above = dlsym(RTLD_NEXT, names[i] + 1); /* "MPI_..." */
    real[i] = as_function(mpi);
    if (above != NULL && owner(above) != owner(mpi)) tool[i] = as_function(above);
  }
  family = family_of_process();
  if (family == NULL) return;
  found = dlsym(RTLD_DEFAULT, "mpiq_core_v1");
  if (found == NULL) found = load_core(family);
  if (found == NULL) return;
  if (found->version != MPIQ_FRONT_VERSION)
    say("its core is of another version", "");
  else if (strcmp(found->family, family) != 0)
    say("libmpi_quant was compiled for another MPI library: ", found->family);
  else
    core = found;
}

static void ready(void) { (void)pthread_once(&attached, attach); }

/* An MPI library without this function cannot have been asked for it by a program that was compiled for it:
 * any error will do. */
enum { kNoSuchFunction = 15 };

static int allreduce(int hook, mpiq_slot sendbuf, mpiq_slot recvbuf, int64_t count, mpiq_slot datatype,
                     mpiq_slot op, mpiq_slot comm) {
  if (count >= kFewestElements && core != NULL)
    return core->allreduce(sendbuf, recvbuf, count, datatype, op, comm);
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
