/* The vectors of mpiq-changing and mpiq-hidden. */
#ifndef BENCH_RESEARCH_AUTOMATIC_VECTOR_H
#define BENCH_RESEARCH_AUTOMATIC_VECTOR_H

#include <math.h>
#include <stdlib.h>

static double uniform(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return (*state + 0.5) / 4294967296.0;
}

/* n normally distributed floats, others on each rank. The caller frees them. NULL: there is no memory. */
static float* normal_vector(size_t n, int rank) {
  float* x = malloc(n * sizeof(float));
  unsigned state = 12345u + 97u * (unsigned)rank;
  for (size_t i = 0; x != NULL && i < n; ++i) {
    const double u = uniform(&state), v = uniform(&state);
    x[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  return x;
}

#endif
