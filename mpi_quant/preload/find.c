#define _GNU_SOURCE
#include "mpi_quant/preload/find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_quant/base/family.h"

static void say(const char* what, const char* detail) {
  char** variable;
  for (variable = environ; variable != NULL && *variable != NULL; ++variable)
    if (strncmp(*variable, "MPIQ_", 5) == 0) {
      fprintf(stderr, "mpi_quant: %s%s; MPI_Allreduce is not replaced\n", what, detail);
      return;
    }
}

mpiq_function mpiq_as_function(void* address) {
  mpiq_function f;
  memcpy(&f, &address, sizeof f);
  return f;
}

const void* mpiq_owner(void* address) {
  Dl_info info;
  return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

void* mpiq_beside(void* address, const char* name) {
  Dl_info info;
  void* handle;
  void* found;
  if (address == NULL || dladdr(address, &info) == 0) return NULL;
  handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL) return NULL;
  found = dlsym(handle, name); /* also looks into what the object needs */
  dlclose(handle);             /* the program holds it */
  return found != NULL && mpiq_owner(found) == info.dli_fbase ? found : NULL;
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

/* For an MPI library in a plugin that was opened with RTLD_LOCAL: looks into the loaded objects one by one.
 * It opens them outside dl_iterate_phdr, because another thread's dlopen takes its own lock before the lock
 * of dl_iterate_phdr. */
void* mpiq_next_in_objects(const char* name) {
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
    if (found != NULL && mpiq_owner(found) != mpiq_owner((void*)(intptr_t)mpiq_next_in_objects)) return found;
  }
}

static void* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  return found != NULL ? found : mpiq_next_in_objects(name);
}

/* What the MPI library with this function says of the standard ABI. Another library of the process may have
 * the function too, so it counts only where it is in the same object. */
static int abi_major_beside(void* get_library_version) {
  void* const address = next("PMPI_Abi_get_version");
  if (address == NULL || mpiq_owner(address) != mpiq_owner(get_library_version)) return -1;
  return mpiq_abi_major((mpiq_get_abi_version)mpiq_as_function(address));
}

/* The family of the MPI library. Null if there is no core for it, after saying why. */
static const char* family_of_process(void) {
  static char version[MPIQ_VERSION_BYTES];
  int length = 0, abi_major;
  typedef int (*get_version)(char*, int*);
  void* const address = next("PMPI_Get_library_version");
  const get_version get = (get_version)mpiq_as_function(address);
  const char* family;
  if (get == NULL || get(version, &length) != 0) {
    say("no MPI library found", "");
    return NULL;
  }
  abi_major = abi_major_beside(address);
  family = mpiq_family_of(version, abi_major);
  version[strcspn(version, "\n")] = '\0';
  if (family == NULL)
    say(abi_major > 0 ? "no core for this version of the standard ABI: " : "no core for this MPI library: ",
        version);
  return family;
}

/* The folder of this library, with a slash at its end. It is found when the program begins, because a
 * relative path means nothing after a chdir. */
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

/* A core takes MPI's functions from the global scope, whatever the MPI library is called. The MPI library of
 * a plugin or of a Python module is not there. So it is opened once more, and stays open. */
static void make_mpi_global(void) {
  static const char name[] = "PMPI_Get_library_version";
  void* const address = next(name);
  Dl_info library;
  if (dlsym(RTLD_DEFAULT, name) != address && dladdr(address, &library) != 0)
    (void)dlopen(library.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

/* Loads the core that lies beside this library. */
static const mpiq_core* load_core(const char* family) {
  static char path[sizeof folder + 64];
  void* handle;
  make_mpi_global();
  snprintf(path, sizeof path, "%slibmpi_quant_core_%s.so.%s", folder, family, MPIQ_SOVERSION);
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    say("cannot load its core: ", dlerror());
    return NULL;
  }
  return dlsym(handle, "mpiq_core_v1");
}

/* True if the core has found the MPI library that the program runs. */
static int same_library(const mpiq_core* found) {
  typedef int (*get_initialized)(int*);
  const get_initialized get = (get_initialized)mpiq_as_function(next("PMPI_Initialized"));
  int here = 0, there = 0;
  if (get == NULL || get(&here) != 0 || found->initialized(&there) != 0) return 0;
  return here == there;
}

static int fits(const mpiq_core* found, const char* family) {
  return found->version == MPIQ_STUB_VERSION && strcmp(found->family, family) == 0;
}

const mpiq_core* mpiq_find_core(void) {
  const char* const family = family_of_process();
  const mpiq_core* found;
  if (family == NULL) return NULL;
  found = dlsym(RTLD_DEFAULT, "mpiq_core_v1"); /* in libmpi_quant, if the program is linked with it */
  if (found == NULL || !fits(found, family)) found = load_core(family);
  if (found == NULL) return NULL;
  if (!fits(found, family))
    say("its core is of another version, or for ", found->family);
  else if (!same_library(found))
    say("its core found another MPI library than the program's", "");
  else
    return found;
  return NULL;
}
