/* A program that knows no MPI and opens calls.c as a plugin with RTLD_LOCAL, so that MPI is in no global
 * scope. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  void* handle;
  void* symbol;
  int (*run)(int, char**);
  if (argc < 2) return 2;
  handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  symbol = handle != NULL ? dlsym(handle, "main") : NULL;
  if (symbol == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  memcpy(&run, &symbol, sizeof run);
  return run(argc - 1, argv + 1);
}
