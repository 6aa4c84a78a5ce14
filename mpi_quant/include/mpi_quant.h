/* mpi_quant: MPI_Allreduce of float vectors with a fraction of the bytes.
 *
 * The only installed header. C99. Argument order, names and conventions are MPI's: every function returns
 * MPI_SUCCESS or an MPI error code, after the error handler of the communicator was called with it;
 * MPI_Error_string gives the reason. All errors of this library are in one error class.
 *
 * A *method* says how to reduce: "mpi" (the MPI library's own reduction, exact) or
 * "codec(param=value,...)/plan", for example "onebit", "bf16", "onebit(block=512)/direct". A *policy* is a
 * list of rules "selectors: method" separated by semicolons, for example "0-64K: mpi; 64K-: onebit"; the last
 * matching rule wins and without a match the call is exact. `mpiq-bench --list` prints the codecs, their
 * parameters and the plans. */
#ifndef MPI_QUANT_H
#define MPI_QUANT_H

#include <mpi.h>
#include <stdint.h>

#define MPIQ_VERSION_MAJOR 0
#define MPIQ_VERSION_MINOR 1
#define MPIQ_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#  define MPIQ_PUBLIC __attribute__((visibility("default")))
#else
#  define MPIQ_PUBLIC
#endif

/* Sums count elements of sendbuf over all ranks of comm into recvbuf on every rank; all ranks end with
 * identical bits.
 *
 * datatype: MPI_FLOAT or MPI_DOUBLE (and their Fortran names), or a half type of MPIQ_Type_float16 or
 * MPIQ_Type_bfloat16, in host memory are compressed if the policy says so and op is MPI_SUM; every other call
 * goes to the MPI library unchanged. Half types are summed in float and rounded once; without a method they
 * are reduced by the codec of their own type. sendbuf may be MPI_IN_PLACE. Collective over comm. On an
 * intracommunicator of at least two ranks the call opens with an agreement of a few small messages: ranks
 * that differ in count, datatype, method or key, or that bring an unusable argument or info, get an error on
 * every rank. After an error recvbuf is undefined; the residual of the key is as it was, or gone if the error
 * came while data was exchanged.
 *
 * info (may be MPI_INFO_NULL), the same on every rank; an unknown key that begins with "mpiq_" or an unusable
 * value is an error:
 *
 * - mpiq_method: the method of this call, in place of the policy's.
 *
 * - mpiq_matrix: "ROWSxCOLS" or "ROWSxCOLS:LD": the vector is a matrix stored column by column, LD elements
 * from one column to the next. Methods that treat columns apart ("onebit(means=column)") then do; others
 * ignore it. All count elements are summed, those between the columns too.
 *
 * - mpiq_key: name of the vector, 1 to 63 characters. The rank keeps a residual of count elements under
 *   this name on this communicator: what compression drops from one call is added to the next compressed
 *   call of the key (error feedback). Without a key nothing is kept. A key belongs to the count and
 *   datatype of its first compressed call; a compressed call with others is an error. Calls that are not
 *   compressed ignore it.
 *
 * NaN and Inf: an element that is one on some rank is NaN or Inf on every rank in the result. "onebit" has no
 * room for other values in a block that holds one: with a key they wait in the residual, without they are
 * NaN. */
MPIQ_PUBLIC int MPIQ_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Info info);

/* A call that is under way, or a persistent one. Used by one thread at a time. */
typedef struct MPIQ_Request_object* MPIQ_Request;
#define MPIQ_REQUEST_NULL ((MPIQ_Request)0)

/* MPIQ_Allreduce that returns before the result is there: *request is completed by MPIQ_Test or MPIQ_Wait,
 * and until then the buffers must not be touched. Errors of the call come out there, on all ranks; errors of
 * this function (no memory, a broken communicator) leave *request MPIQ_REQUEST_NULL.
 *
 * Order: all ranks start their calls on one communicator, blocking and persistent ones included, in the same
 * order; they may complete them in any. Any number may be under way. A key belongs to one call at a time: the
 * next call that names it may be started once MPIQ_Test or MPIQ_Wait has returned the one before, else it
 * fails on all ranks.
 *
 * Progress: there is no hidden thread. MPIQ_Start, MPIQ_Iallreduce, MPIQ_Test, MPIQ_Wait and MPIQ_Allreduce
 * advance everything that is under way in the process, on all communicators. MPI's own functions advance
 * nothing: a rank must not block in MPI for something that another rank does only after its MPIQ_Wait. */
MPIQ_PUBLIC int MPIQ_Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Op op, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Prepares a call that is made many times: each MPIQ_Start begins one, which MPIQ_Test or MPIQ_Wait
 * completes; the buffers are read and written then. Method, key and memory are settled here, and no start
 * allocates any. Collective: the ranks compare their calls and get an error on all ranks if these differ. The
 * policy in force now stays the request's. Freed by MPIQ_Request_free. */
MPIQ_PUBLIC int MPIQ_Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                    MPIQ_Request* request);

/* Starts an inactive persistent request. Returns at once. */
MPIQ_PUBLIC int MPIQ_Start(MPIQ_Request* request);

/* *flag = 1 if the request was completed, is inactive or is MPIQ_REQUEST_NULL; a completed one becomes
 * MPIQ_REQUEST_NULL, or inactive if it is persistent. Else *flag = 0. Does the encoding and decoding that can
 * be done now, but never waits. */
MPIQ_PUBLIC int MPIQ_Test(MPIQ_Request* request, int* flag);

/* The same, waiting until it is completed. */
MPIQ_PUBLIC int MPIQ_Wait(MPIQ_Request* request);

/* Frees an inactive persistent request and its memory; its residual stays with the key. Local. */
MPIQ_PUBLIC int MPIQ_Request_free(MPIQ_Request* request);

/* The datatype of IEEE binary16 or bfloat16 elements, two bytes each, for this library's functions and for
 * sending and receiving; the MPI library cannot reduce it. The same handle at every call; do not free it.
 * Local. */
MPIQ_PUBLIC int MPIQ_Type_float16(MPI_Datatype* datatype);
MPIQ_PUBLIC int MPIQ_Type_bfloat16(MPI_Datatype* datatype);

/* Sets the policy of comm, for MPIQ_Allreduce and, with the preload library, for MPI_Allreduce. Rules that
 * cannot be parsed or differ between ranks are an error on every rank, and the policy stays as it was. NULL
 * or "": no rules. Residuals are kept. Collective over comm. The policy of a communicator whose first call to
 * this library is another one is MPIQ_POLICY, if all its ranks have the same. */
MPIQ_PUBLIC int MPIQ_Comm_set_policy(MPI_Comm comm, const char* rules);

/* What happened on one communicator on this rank since it was first used. Times are seconds of this rank. */
typedef struct MPIQ_Stats {
  uint64_t calls;            /* MPIQ_Allreduce and intercepted MPI_Allreduce calls that reached the policy */
  uint64_t compressed_calls; /* of them, those reduced by a codec */
  uint64_t failed_calls;     /* of them, those that returned an error */
  uint64_t elements;         /* of compressed calls */
  uint64_t raw_bytes;        /* elements times their size */
  uint64_t wire_bytes_sent;  /* frames this rank sent, headers included */
  uint64_t wire_bytes_received; /* likewise */
  uint64_t messages_sent;       /* frames and agreement messages */
  uint64_t nonfinite;           /* encoded elements that were NaN or Inf, counted once for each encode */
  uint64_t residual_bytes;      /* held now */
  uint64_t scratch_bytes;       /* held now */
  uint64_t exact_mode; /* 1: MPIQ_POLICY differs between the ranks and is ignored; 2: they run incompatible
                          versions of this library, and nothing is compressed; else 0 */
  double encode_s;     /* in codecs */
  double decode_s;
  double wait_s; /* in communication that was not hidden */
} MPIQ_Stats;

/* Fills *stats with the numbers of comm; all zero if comm was never used. Local. */
MPIQ_PUBLIC int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats);

/* Hard upper bound of the bytes that `method` makes of count elements in one encode, frame headers not
 * counted. For "mpi" the size of the vector. At most 2^58 elements. Local; errors are raised on
 * MPI_COMM_SELF. */
MPIQ_PUBLIC int MPIQ_Wire_bound(const char* method, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes);

/* The version of the library that is loaded, which may differ from the MPIQ_VERSION_ macros of this header.
 * Local, and callable before MPI_Init. */
MPIQ_PUBLIC int MPIQ_Get_version(int* major, int* minor, int* patch);

#ifdef __cplusplus
}
#endif

#endif /* MPI_QUANT_H */
