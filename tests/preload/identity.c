/* What no policy may touch is MPI's own, bit for bit and error for error: every call is made twice, through
 * MPI_Allreduce and past the preload library, and must give the same bytes, the same error class and the same
 * number of error handler calls. Run with a policy that compresses all it may. */
#include "tests/preload/beneath.h"

#include <stdio.h>
#include <stdlib.h>

enum { kFloor = 65536, kRoom = kFloor + 4096, kOurs = 8 };
static unsigned char input[kRoom], ours[kRoom], theirs[kRoom];
static int failures = 0, handler_calls = 0;

static void handler(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++handler_calls;
}

static int class_of(int code) {
  int class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  return class;
}

static void compare(const char* what, const void* in, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  int code[2], calls[2];
  memcpy(ours, input, kRoom);
  memcpy(theirs, input, kRoom);
  handler_calls = 0;
  code[0] = class_of(beneath()(in, theirs, count, type, op, comm));
  calls[0] = handler_calls;
  handler_calls = 0;
  code[1] = class_of(MPI_Allreduce(in, ours, count, type, op, comm));
  calls[1] = handler_calls;
  if (code[0] == code[1] && calls[0] == calls[1] && memcmp(ours, theirs, kRoom) == 0) return;
  ++failures;
  printf("%s, count %d: error %d and not %d, handler calls %d and not %d, bytes %s\n", what, count, code[1],
         code[0], calls[1], calls[0], memcmp(ours, theirs, kRoom) == 0 ? "the same" : "different");
}

/* The operations of a kind of types, as MPI defines them. */
enum { kInteger = 1, kFloating = 2, kLogical = 4, kComplex = 8, kByte = 16, kPair = 32 };
#define NAMED(x, kinds) \
  { x, #x, kinds }
static const struct {
  MPI_Op op;
  const char* name;
  int kinds;
} ops[] = {NAMED(MPI_SUM, kInteger | kFloating | kComplex),
           NAMED(MPI_PROD, kInteger | kFloating | kComplex),
           NAMED(MPI_MAX, kInteger | kFloating),
           NAMED(MPI_MIN, kInteger | kFloating),
           NAMED(MPI_LAND, kInteger | kLogical),
           NAMED(MPI_LOR, kInteger | kLogical),
           NAMED(MPI_LXOR, kInteger | kLogical),
           NAMED(MPI_BAND, kInteger | kByte),
           NAMED(MPI_BOR, kInteger | kByte),
           NAMED(MPI_BXOR, kInteger | kByte),
           NAMED(MPI_MAXLOC, kPair),
           NAMED(MPI_MINLOC, kPair)};
static const struct {
  MPI_Datatype type;
  const char* name;
  int kinds;
} types[] = {/* Sums of the first kOurs are compressed. */
             NAMED(MPI_FLOAT, kFloating),
             NAMED(MPI_DOUBLE, kFloating),
             NAMED(MPI_REAL, kFloating),
             NAMED(MPI_DOUBLE_PRECISION, kFloating),
             NAMED(MPI_C_FLOAT_COMPLEX, kComplex),
             NAMED(MPI_C_DOUBLE_COMPLEX, kComplex),
             NAMED(MPI_COMPLEX, kComplex),
             NAMED(MPI_DOUBLE_COMPLEX, kComplex),
             NAMED(MPI_LONG_DOUBLE, kFloating),
             NAMED(MPI_SIGNED_CHAR, kInteger),
             NAMED(MPI_UNSIGNED_CHAR, kInteger),
             NAMED(MPI_BYTE, kByte),
             NAMED(MPI_SHORT, kInteger),
             NAMED(MPI_UNSIGNED_SHORT, kInteger),
             NAMED(MPI_INT, kInteger),
             NAMED(MPI_UNSIGNED, kInteger),
             NAMED(MPI_LONG, kInteger),
             NAMED(MPI_UNSIGNED_LONG, kInteger),
             NAMED(MPI_LONG_LONG, kInteger),
             NAMED(MPI_UNSIGNED_LONG_LONG, kInteger),
             NAMED(MPI_INT8_T, kInteger),
             NAMED(MPI_UINT16_T, kInteger),
             NAMED(MPI_INT32_T, kInteger),
             NAMED(MPI_UINT64_T, kInteger),
             NAMED(MPI_INTEGER, kInteger),
             NAMED(MPI_AINT, kInteger),
             NAMED(MPI_OFFSET, kInteger),
             NAMED(MPI_COUNT, kInteger),
             NAMED(MPI_C_BOOL, kLogical),
             NAMED(MPI_LOGICAL, kLogical),
             NAMED(MPI_FLOAT_INT, kPair),
             NAMED(MPI_DOUBLE_INT, kPair),
             NAMED(MPI_LONG_INT, kPair),
             NAMED(MPI_2INT, kPair)};

static void every_operation_and_type(MPI_Comm comm) {
  size_t t, o;
  for (t = 0; t < sizeof types / sizeof types[0]; ++t)
    for (o = 0; o < sizeof ops / sizeof ops[0]; ++o) {
      const int is_ours = t < kOurs && o == 0;
      int bytes, counts[6], i;
      char what[80];
      MPI_Aint low, extent;
      if ((types[t].kinds & ops[o].kinds) == 0) continue; /* errors, which MPICH 4.0.2 ends in assertions */
      MPI_Type_get_extent(types[t].type, &low, &extent);
      bytes = (int)extent;
      counts[0] = 0;
      counts[1] = 1;
      counts[2] = 100;
      counts[3] = kFloor / bytes - 1;
      counts[4] = (kFloor + bytes - 1) / bytes;
      counts[5] = kFloor / bytes + 1;
      snprintf(what, sizeof what, "%s of %s", ops[o].name, types[t].name);
      for (i = 0; i < (is_ours ? 4 : 6); ++i) {
        compare(what, input, counts[i], types[t].type, ops[o].op, comm);
        compare(what, MPI_IN_PLACE, counts[i], types[t].type, ops[o].op, comm);
      }
    }
}

static void add_floats(void* in, void* inout, int* n, MPI_Datatype* type) {
  int i;
  (void)type;
  for (i = 0; i < *n; ++i) ((float*)inout)[i] += ((float*)in)[i];
}

static void own_operations_and_types(MPI_Comm comm) {
  MPI_Op commutative, ordered;
  MPI_Datatype pair, copy;
  MPI_Op_create(add_floats, 1, &commutative);
  MPI_Op_create(add_floats, 0, &ordered);
  compare("a user operation", input, kFloor / 4, MPI_FLOAT, commutative, comm);
  compare("a user operation that does not commute", input, kFloor / 4, MPI_FLOAT, ordered, comm);
  MPI_Type_contiguous(2, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  compare("a sum of a derived type", input, kFloor / 8, pair, MPI_SUM, comm);
  MPI_Type_dup(MPI_FLOAT, &copy);
  compare("a sum of a duplicate", input, kFloor / 4, copy, MPI_SUM, comm);
  MPI_Type_free(&copy);
  MPI_Type_free(&pair);
  MPI_Op_free(&ordered);
  MPI_Op_free(&commutative);
}

static void errors(MPI_Comm comm) {
#ifdef OPEN_MPI /* MPICH 4.0.2 crashes */
  compare("count -1", input, -1, MPI_FLOAT, MPI_SUM, comm);
#endif
  compare("MPI_DATATYPE_NULL", input, kFloor, MPI_DATATYPE_NULL, MPI_SUM, comm);
  compare("a bitwise operation on floats", input, kFloor / 4, MPI_FLOAT, MPI_BAND, comm);
  compare("MPI_OP_NULL", input, kFloor / 4, MPI_FLOAT, MPI_OP_NULL, comm);
}

static void other_communicators(MPI_Comm comm) {
  MPI_Comm half, between;
  int rank, size;
  compare("MPI_COMM_SELF", input, kFloor / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size < 2) return;
  MPI_Comm_split(comm, rank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 0, &between);
  compare("an intercommunicator", input, kFloor / 4, MPI_FLOAT, MPI_SUM, between);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Errhandler count_calls;
  int i, rank, total = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (i = 0; i < kRoom; ++i)
    input[i] = (unsigned char)((((unsigned)i + 1) * 2654435761u >> (13 + rank)) & 1);
  MPI_Comm_create_errhandler(handler, &count_calls);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, count_calls);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, count_calls);
  every_operation_and_type(MPI_COMM_WORLD);
  own_operations_and_types(MPI_COMM_WORLD);
  errors(MPI_COMM_WORLD);
  other_communicators(MPI_COMM_WORLD);
  /* The policy is in force: else all this would show nothing. */
  MPI_Allreduce(input, ours, kFloor / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  beneath()(input, theirs, kFloor / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (argc > 1 && (memcmp(ours, theirs, kFloor) != 0) != (strcmp(argv[1], "lossy") == 0)) ++failures;
  MPI_Errhandler_free(&count_calls);
  MPI_Reduce(&failures, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return total != 0;
}
