/* A sum that a rule would compress, and that every rank leaves to MPI when it is about to begin. The
 * result is MPI's. fallback overlap: the vectors share memory. fallback memory: there is none for the
 * library. */
#include "tests/preload/check.h"

static int refuses = 0;

/* In front of the C library's: gives the library no memory for its messages. */
void* aligned_alloc(size_t alignment, size_t bytes) {
  void* made = NULL;
  if (refuses) return NULL;
  return posix_memalign(&made, alignment, bytes) == 0 ? made : NULL;
}

int main(int argc, char** argv) {
  static float both[kN + 4], exact[kN + 4];
  const char* mode;
  MPI_Init(&argc, &argv);
  mode = begin(argc, argv);
  if (strcmp(mode, "overlap") == 0) {
    memcpy(both, x, sizeof x);
    memcpy(exact, x, sizeof x);
    MPI_Allreduce(both, both + 4, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    beneath()(exact, exact + 4, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    expect(memcmp(both, exact, sizeof both) == 0, "not what MPI makes of it");
  } else {
    refuses = 1;
    sum(MPI_COMM_WORLD, "without memory");
    refuses = 0;
  }
  return end();
}
