/* What a write costs after another core has read the memory, and what a flush before it saves.
 *     cc -O2 -march=native -o lines lines.c -lpthread && ./lines
 * Thread 0 writes N bytes, thread 1 copies them, and so on. Prints CSV: way, N, nanoseconds of a line of 64
 * bytes for the writer and for the reader, means of 2000 rounds. Processors 0 and 1 are used. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kPlain, kPrefetched, kStreamed, kFlushed, kWays, kRounds = 2000, kMost = 1 << 17 };
static const char* const kNames[kWays] = {"plain", "prefetchw before", "streamed", "flushed before"};

static char *memory, *copy;
static int bytes, turn;
static double written_ns, read_ns;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static void bind_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) abort();
}
static void wait_for(int whose) {
  while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != whose) continue;
}

static void* read_all(void* unused) {
  (void)unused;
  bind_to(1);
  for (int i = 0; i < kRounds; ++i) {
    wait_for(1);
    const double begin = now_ns();
    memcpy(copy, memory, bytes);
    read_ns += now_ns() - begin;
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void write_all(int way, int value) {
  for (int i = 0; way == kPrefetched && i < bytes; i += 64)
    __asm__ volatile("prefetchw (%0)" ::"r"(memory + i));
  for (int i = 0; way == kFlushed && i < bytes; i += 64) _mm_clflushopt(memory + i);
  for (int i = 0; i < bytes; i += 32) {
    const __m256i v = _mm256_set1_epi32(value);
    if (way == kStreamed)
      _mm256_stream_si256((__m256i*)(memory + i), v);
    else
      _mm256_storeu_si256((__m256i*)(memory + i), v);
  }
  _mm_mfence();
}

int main(void) {
  memory = aligned_alloc(4096, kMost);
  copy = aligned_alloc(4096, kMost);
  if (memory == NULL || copy == NULL) return 1;
  memset(memory, 0, kMost);
  memset(copy, 0, kMost);
  puts("way,bytes,write_ns_per_line,read_ns_per_line");
  for (int way = 0; way < kWays; ++way)
    for (bytes = 1 << 13; bytes <= kMost; bytes *= 4) {
      pthread_t reader;
      written_ns = read_ns = turn = 0;
      if (pthread_create(&reader, NULL, read_all, NULL) != 0) return 1;
      bind_to(0);
      for (int i = 0; i < kRounds; ++i) {
        wait_for(0);
        const double begin = now_ns();
        write_all(way, i);
        written_ns += now_ns() - begin;
        __atomic_store_n(&turn, 1, __ATOMIC_RELEASE);
      }
      pthread_join(reader, NULL);
      printf("%s,%d,%.1f,%.1f\n", kNames[way], bytes, written_ns / kRounds * 64 / bytes,
             read_ns / kRounds * 64 / bytes);
    }
  return 0;
}
