/* mpi_quant: MPI_Allreduce of float vectors that sends a fraction of the bytes.
 *
 * Most methods are lossy. With "onebit" the error of one result is about 60 %; error feedback (mpiq_key
 * below) adds what one call left out to the next, so that sums over many calls are right. Without a policy
 * or a method nothing is compressed.
 *
 * This is the only installed header (long on purpose: it is read as one page). It is C99. Argument order,
 * names and conventions are those of MPI: every function returns MPI_SUCCESS or an MPI error code. Before it
 * returns an error it calls the error handler of the communicator. MPI_Error_string gives the reason. All
 * errors of this library are in one error class.
 *
 * A method says how to reduce: "mpi" is the MPI library's own reduction, which is exact. All others are
 * "codec(param=value,...)/plan memory=rule", where all but the codec may be left out: "bf16",
 * "onebit(block=512)/direct", "topk memory=momentum". A policy is a list of rules "selectors: method", separated
 * by semicolons: "0-64K: mpi; 64K-: onebit". The last rule that matches a call decides. A call that no rule
 * matches is exact. In place of a codec may stand "lowrank(rank=R)", for matrices (docs/methods.md). `mpiq-bench
 * --list` prints codecs, plans, memory rules and this scheme, with their parameters.
 *
 * Terms: a call is "collective" if all ranks of the communicator have to make it, "local" if not. A
 * "residual" is what compression left out and has not delivered yet. A "frame" is a message of compressed
 * elements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_QUANT_H
#define MPI_QUANT_H

#include <mpi.h>
#include <stdint.h>

#define MPIQ_VERSION_MAJOR 0
#define MPIQ_VERSION_MINOR 2
#define MPIQ_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Characters of the longest key, without the null at its end. */
#define MPIQ_MAX_KEY 63

#if defined(__GNUC__)
#  define MPIQ_PUBLIC __attribute__((visibility("default")))
#else
#  define MPIQ_PUBLIC
#endif

/* Sums count elements of sendbuf over all ranks of comm, into recvbuf on every rank. All ranks get
 * identical bits. Collective.
 *
 * What is compressed: sums (MPI_SUM) of MPI_FLOAT, MPI_DOUBLE or their Fortran names, or of a half type
 * (MPIQ_Type_float16, MPIQ_Type_bfloat16), if the policy or mpiq_method says so. Every other call goes to
 * the MPI library unchanged. Half types are summed in float and rounded once; without a method the codec of
 * their own type reduces them, because MPI cannot.
 *
 * Buffers: sendbuf may be MPI_IN_PLACE. sendbuf and recvbuf must not overlap. Each may be in host memory or
 * in that of an NVIDIA GPU.
 *
 * Errors: the call opens with an agreement of a few small messages. If ranks differ in count, datatype,
 * method or key, or if one brings an unusable argument or info, all ranks get an error. So do ranks that
 * are in different collective functions of this library; the error names both. After an error recvbuf is
 * undefined. The residual of the key is then as it was, or zero on a rank where the error came while data
 * was exchanged.
 *
 * Threads: at most one thread of a rank may be in a call on a communicator. If a second one makes a call,
 * it waits for the first to end and then returns an error, on all ranks, which have to make that call too.
 * Which of two threads came first may differ between ranks. The library may then take calls for one that do
 * not belong together, but on each such rank one of the two is an error. MPIQ_Test, MPIQ_Wait and local
 * functions may be called at any time.
 *
 * info may be MPI_INFO_NULL and must be the same on every rank, except for mpiq_skip, mpiq_stream and
 * mpiq_stream_ordered. An unknown key that begins with "mpiq_", or an unusable value, is an error. The keys:
 *
 * - mpiq_method: the method of this call. It replaces the policy's. A method that may send long vectors of
 *   this datatype in more bytes than they have is an error, whatever count is.
 *
 * - mpiq_key: the name of the vector, 1 to MPIQ_MAX_KEY characters. Turns error feedback on: what
 *   compression leaves out of this call is added to the next compressed call with this key. Each rank keeps
 *   a residual of count elements for it on this communicator, or what the method's memory rule says. A key
 *   belongs to the count and datatype of its first compressed call; one with others is an error. Calls that
 *   are not compressed ignore the key.
 *
 * - mpiq_matrix: "ROWSxCOLS" or "ROWSxCOLS:LD". The vector is a matrix, stored column by column, with LD
 *   elements from one column to the next. A matrix stored row by row, as in C, is its transpose stored column
 *   by column: give its two sizes in the other order. "onebit(means=column)", "meprop" and "lowrank" use
 *   this; others ignore it. All count elements are summed, also those between the columns.
 *
 * - mpiq_seed: of random rounding, 0 to 2^64 - 1, in place of the policy's and of MPIQ_SEED. See docs/residuals.md.
 *
 * - mpiq_skip: "true" or "false" (default), on each rank. If "true" and the method's memory rule keeps estimates (ef21,
 *   lazy, 3pc), this rank sends nothing, and its last contribution stands in the result, also where its vector
 *   holds NaN or Inf. After `max` such calls in a row it sends all the same. Other methods take no notice.
 *
 * - mpiq_stream: for vectors on a GPU, a cudaStream_t as a number ("0x55d0c0ffee"; "0" is the legacy
 *   default stream). The vectors are read and written after the work that this stream holds at the time of
 *   the call. Without this key MPIQ_CUDA_SYNC decides the order, by default the legacy default stream.
 *
 * - mpiq_stream_ordered: "true" or "false" (default). If "true" and the result is on a GPU, the call may
 *   return before the result is there. The result is then ready for work that the program launches into the
 *   same stream later. An error that the library finds that late is returned by a later call that uses its
 *   memory.
 *
 * Communicators: the first call on a communicator waits for all ranks, also if it is MPIQ_Iallreduce or
 * MPIQ_Allreduce_init. Ranks that use several communicators for the first time must begin with them in the
 * same order. The first call makes a communicator for the library's own messages. MPI has few of them (MPICH
 * about 2,000). If MPI has none left, this communicator goes without for as long as it lives, on all ranks:
 * MPIQ_Allreduce is exact if no rank names a method and the type is not a half type, and every other
 * reduction of this library is an error (MPIQ_Stats.exact_mode is 3). With the preload library MPI_Allreduce
 * is then MPI's own. The error handler of comm does not see MPI's error.
 *
 * GPUs: each rank may choose by itself where its vectors are. Messages and results are the same, so MPI
 * needs no support for GPUs. Vectors are encoded and decoded where they are. mpiq_stream and
 * mpiq_stream_ordered may differ between ranks.
 *
 * Captures: a CUDA graph cannot hold a call. A call with vectors on a GPU is an error while mpiq_stream is
 * being captured. Without mpiq_stream it is an error while any blocking stream, or the calling thread's
 * default stream, is being captured. The library cannot see that another stream is being captured
 * (torch.cuda.graph captures non-blocking ones). Do not make calls then: they would read the vectors before
 * the graph runs.
 *
 * NaN and Inf: an element that is NaN or Inf on some rank is NaN or Inf in the result, on every rank, unless
 * that rank sends nothing because of mpiq_skip. Some codecs cannot send the other values of a block that has one: "onebit" (a block of 2048 elements unless the
 * method says otherwise), "terngrad" (512), "fft" (4096), "meprop" (64 lines), "mxfp8", "mxfp6", "mxfp4" and
 * "minifloat" (32), and "nvfp4" (16). With a key these values wait in the residual; without a key they become
 * NaN.
 *
 * Elements that are too large: "bf16" makes elements beyond 3.39e38 infinite, as doubles may be, and "f16"
 * those from 65520 on. "fft" treats a block with a magnitude of 2^126 or more (doubles: 2^1022) as one with a NaN.
 * MPIQ_Stats.overflows counts such elements. */
MPIQ_PUBLIC int MPIQ_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Info info);

/* A call in flight, or a persistent one. At most one thread may use it at a time. */
typedef struct MPIQ_Request_object* MPIQ_Request;
#define MPIQ_REQUEST_NULL ((MPIQ_Request)0)

/* Like MPIQ_Allreduce, but returns before the result is there. MPIQ_Test or MPIQ_Wait completes *request;
 * until then the program must not touch the buffers. Errors of the call are returned there, on all ranks.
 * Errors of this function itself (no memory, a broken communicator) leave *request MPIQ_REQUEST_NULL.
 *
 * Order: all ranks start their calls on a communicator in the same order, blocking and persistent calls
 * included. They may complete them in any order. Any number of calls may be in flight. A key belongs to one
 * call at a time: start the next call with the same key after MPIQ_Test or MPIQ_Wait has completed the one
 * before, else the next one fails on all ranks.
 *
 * Progress: the library has no thread of its own. MPIQ_Start, MPIQ_Iallreduce, MPIQ_Test, MPIQ_Wait and
 * MPIQ_Allreduce advance all calls of the process, on all communicators. MPI's own functions advance none.
 * So a rank must not block in MPI for something that another rank does only after its MPIQ_Wait.
 *
 * MPI_Finalize gives up requests that are not completed. Ranks that wait for such a call get an error or,
 * where MPI reduces, the sum. The report counts these requests; without a report there is one line on
 * stderr (none if MPIQ_WATCHDOG is 0). If other ranks have never started the call, MPI_Finalize waits for
 * them for at most MPIQ_WATCHDOG seconds. */
MPIQ_PUBLIC int MPIQ_Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Op op, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Prepares a call that is made many times. MPIQ_Start begins one, and MPIQ_Test or MPIQ_Wait completes it.
 * The buffers are read and written between the two. Their addresses stay; their memory may change in
 * between, but a buffer that was GPU memory at this call must be GPU memory at every start. Method, key and
 * memory are settled here: a start allocates nothing. The policy that is in force now stays the request's.
 *
 * Collective: the ranks compare their calls, and all get an error if they differ. MPIQ_Request_free frees
 * the request. */
MPIQ_PUBLIC int MPIQ_Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                    MPIQ_Request* request);

/* Starts a persistent request that is inactive. Returns at once. */
MPIQ_PUBLIC int MPIQ_Start(MPIQ_Request* request);

/* Sets *flag to 1 if the call of the request is over, or if the request is inactive or MPIQ_REQUEST_NULL,
 * else to 0. A request whose call is over becomes MPIQ_REQUEST_NULL, or inactive if it is persistent. Does
 * the encoding and decoding that can be done now, and never waits. */
MPIQ_PUBLIC int MPIQ_Test(MPIQ_Request* request, int* flag);

/* Like MPIQ_Test, but waits until the call is over. */
MPIQ_PUBLIC int MPIQ_Wait(MPIQ_Request* request);

/* Frees a persistent request that is inactive, and its memory. The residual stays with the key. Local. */
MPIQ_PUBLIC int MPIQ_Request_free(MPIQ_Request* request);

/* The datatype of IEEE binary16 or of bfloat16, two bytes an element. For the functions of this library,
 * and for MPI's sends and receives; MPI cannot reduce it. Always the same handle; do not free it. Local. */
MPIQ_PUBLIC int MPIQ_Type_float16(MPI_Datatype* datatype);
MPIQ_PUBLIC int MPIQ_Type_bfloat16(MPI_Datatype* datatype);

/* Sets the policy of comm, for MPIQ_Allreduce and, with the preload library, for MPI_Allreduce. NULL or ""
 * means no rules. Residuals stay. Collective over comm. If rules cannot be parsed or differ between ranks,
 * all ranks get an error and the policy stays as it was. Without this function the policy is MPIQ_POLICY,
 * provided that all ranks have the same. */
MPIQ_PUBLIC int MPIQ_Comm_set_policy(MPI_Comm comm, const char* rules);

/* What one rank did on one communicator since its first use. Times are in seconds. */
typedef struct MPIQ_Stats {
  uint64_t calls;               /* of MPIQ_Allreduce, and of MPI_Allreduce where the policy was asked */
  uint64_t compressed_calls;    /* of these, reduced by a codec */
  uint64_t failed_calls;        /* of these, returned an error */
  uint64_t elements;            /* in compressed calls */
  uint64_t raw_bytes;           /* elements times their size */
  uint64_t wire_bytes_sent;     /* in frames, headers included */
  uint64_t wire_bytes_received; /* in frames, headers included */
  uint64_t messages_sent;       /* frames, and messages of agreements */
  uint64_t nonfinite;           /* encoded elements that were NaN or Inf, counted at every encode */
  uint64_t overflows;           /* finite ones that were too large for the codec, likewise */
  uint64_t residual_bytes;      /* held now */
  uint64_t scratch_bytes;       /* held now */
  uint64_t sparse_calls;        /* sparse reductions; their bytes and messages are in the numbers above */
  uint64_t scheme_calls;        /* of lowrank, MPIQ_Factors_allreduce, MPIQ_Neighbor_mix; likewise */
  uint64_t declined_calls;      /* that lowrank could not serve, and that MPI reduced instead */
  /* 0: compressed as the policy says. 1: MPIQ_POLICY or MPIQ_MODE differs between the ranks and is ignored.
   * 2: the ranks run incompatible versions of this library, and nothing is compressed. 3: MPI had no
   * communicator left for this library. */
  uint64_t exact_mode;
  double encode_s; /* in codecs; on a GPU by its clock, and only if MPIQ_CUDA_TIME says so */
  double decode_s; /* likewise */
  double wait_s;   /* in communication that nothing hid */
} MPIQ_Stats;

/* Fills *stats for comm; with zeros if this library never used comm. Local. */
MPIQ_PUBLIC int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats);

/* Sets *bytes to the most bytes that `method` can make of count elements in one encode, without frame
 * headers. For "mpi" that is the size of the vector. count is at most 2^58. Local. Errors go to the handler
 * of MPI_COMM_SELF. */
MPIQ_PUBLIC int MPIQ_Wire_bound(const char* method, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes);

/* Residuals. What compression left out of the calls of a key and has not delivered yet (see mpiq_key). For
 * all functions of this group:
 *
 * - A key is 1 to MPIQ_MAX_KEY characters. It need not have a residual, unless the function says so.
 * - A key that a call in flight uses is an error.
 * - After an error the residuals are as they were, unless the function says otherwise.
 * - A residual is in the memory, of the host or of a GPU, that the key's last vector was in. Buffers that
 *   are given here may be in either. */

/* Delivers now what was left out: recvbuf on every rank becomes the sum of the key's residuals over all
 * ranks, count elements of datatype, with the same bits on every rank. The residuals are zero afterwards.
 * All results of the key so far and this one add up to the exact sum of their inputs, up to rounding. MPI
 * makes the sum in float, or in double for double vectors. For half types it is rounded then, and what the
 * rounding loses stays in rank 0's residual (a sum that overflows is infinite and leaves nothing).
 *
 * Collective over comm. It is an error on every rank if ranks differ in count, datatype or key, if only
 * some have a residual, or if the key belongs to another count or datatype. If no rank has a residual the
 * result is zero. After an error recvbuf is undefined. If the error came while data was exchanged, the
 * residual is lost. */
MPIQ_PUBLIC int MPIQ_Residual_flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                                    const char* key);

/* Forgets the residual of a key, or of all keys if key is NULL, and what it held. The key may then be used
 * with another count or datatype. The index lists that MPIQ_Sparse_allreduce keeps under this key are
 * forgotten too; its next call sends them again. Local, but call it on all ranks. */
MPIQ_PUBLIC int MPIQ_Residual_reset(MPI_Comm comm, const char* key);

/* Multiplies the residual of a key, or of all keys if key is NULL, by factor. For programs that multiply
 * gradients by the learning rate before they reduce them, and now change the rate: the residual is in units
 * of the old rate, so factor = new rate / old rate. It is an error if factor is not finite or would make an
 * element infinite. Products are rounded in the calling thread's floating-point mode. Measured parameters
 * of the codec stay. Local, but call it on all ranks. */
MPIQ_PUBLIC int MPIQ_Residual_scale(MPI_Comm comm, const char* key, double factor);

/* Writes the residuals of all keys and all ranks to one file: a checkpoint. MPIQ_Residual_restore reads it,
 * on this or another number of ranks. In the library libmpi_quant_hdf5_FAMILY, which is linked beside
 * libmpi_quant_FAMILY or libmpi_quant_pmpi.
 *
 * The file is HDF5 (serial HDF5; mpi_quant/hdf5/file.hpp describes it). Rank 0 writes it under the name
 * path + ".partial", from pieces of up to 1 MiB that the other ranks send. Once all of it is on the disk it
 * is renamed to path. So path is a whole file at any time, the old one or the new one.
 *
 * Collective over comm, an intracommunicator. path is the same on every rank; rank 0 uses it. It is an
 * error on every rank if the ranks' residuals differ in keys, counts or types, or if rank 0 cannot write;
 * path is then as it was. Not thread-safe, because HDF5 is not. */
MPIQ_PUBLIC int MPIQ_Residual_save(MPI_Comm comm, const char* path);

/* Reads what MPIQ_Residual_save wrote. With the same number of ranks, every rank gets its own residuals
 * back, bit for bit, and the next results are those of a run that was never interrupted. With p ranks, rank
 * r gets the sum of the residuals of the old ranks r, r + p, r + 2p and so on, added in double in this
 * order, or zeros if there are none. What all ranks hold together stays the same, up to one rounding.
 *
 * The residuals of the file's keys are replaced; others stay. It is an error on every rank if the file is
 * missing, cut off, damaged (it has checksums), of another version or not one of ours; nothing is changed
 * then. While it runs, each rank needs memory for twice its residuals in the file. Collective, and linked
 * like MPIQ_Residual_save. */
MPIQ_PUBLIC int MPIQ_Residual_restore(MPI_Comm comm, const char* path);

typedef struct MPIQ_Residual { /* describes that of one key on one rank, for checkpoints of another format */
  char key[MPIQ_MAX_KEY + 1];  /* ends with a null character */
  char element[8];             /* type of the key's vectors, as in policies: "f32", "f64", "f16" or "bf16" */
  MPI_Count count;             /* elements, > 0 */
  MPI_Datatype datatype;       /* of the residual: MPI_DOUBLE for "f64", else MPI_FLOAT; put ignores it */
  double settled;              /* the codec's parameter that the key's first call measured; < 0: none */
  uint64_t calls;              /* that the key has served: the next random numbers depend on it */
  int in_use;                  /* 1: by a call in flight; put ignores it */
  int arrays;                  /* of count elements each: 1, or more with some memory rules; 0 stands for 1 */
  uint64_t stamp; /* 0, or what estimates have been through: those of memory=ef21, lazy and 3pc */
  uint64_t since; /* calls since the estimates were exact; 0 without estimates */
} MPIQ_Residual;

/* Describes this rank's residuals, in ascending order of their keys, in the first min(max, *n) elements of
 * list. *n becomes the number of keys that have one. list may be NULL if max is 0. Residuals that the preload
 * library keeps by address or position are left out, also by MPIQ_Residual_save: they mean nothing to another
 * run. Local. */
MPIQ_PUBLIC int MPIQ_Residual_list(MPI_Comm comm, int max, MPIQ_Residual* list, int* n);

/* Copies elements first to first + count - 1 of this rank's residual to buf, in the residual's datatype. Further
 * arrays of the key follow it, as if they were one. It is an error if there are not so many elements. Local. */
MPIQ_PUBLIC int MPIQ_Residual_get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count,
                                  void* buf);

/* Gives n keys the residuals list[i], with the elements buffers[i] (of all arrays, one after the other), which
 * are copied. They replace what the keys had. Elements must be finite. Collective over comm, an
 * intracommunicator: all ranks bring the same list, each with its own elements, or all get an error. */
MPIQ_PUBLIC int MPIQ_Residual_put(MPI_Comm comm, int n, const MPIQ_Residual* list,
                                  const void* const* buffers);

/* Sparse reductions. Each rank holds few elements of a vector, as a list of indices with one value, or
 * `stride` values side by side, for each index. For all functions of this group:
 *
 * - Indices are 0 to 2^63 - 1, at most 2^32 - 2 of them on one rank. A list may be empty.
 * - datatype, of the values, is MPI_FLOAT or MPI_DOUBLE. op is MPI_SUM, MPI_MIN or MPI_MAX. A NaN makes the
 *   result NaN. All ranks get the same bits for an index.
 * - Buffers are in host memory and do not overlap.
 * - Collective over comm, an intracommunicator. It is an error on every rank, found before any value is
 *   reduced, if ranks differ in stride, datatype, op, options or function, or if a list cannot be used. The
 *   results are then undefined.
 * - No message may be longer than 2 GiB: larger lists are an error on every rank.
 *
 * info may be MPI_INFO_NULL and must be the same on every rank. An unknown key that begins with "mpiq_", or
 * an unusable value, is an error. The keys of all these functions:
 *
 * - mpiq_indices: "sorted" or "any" (default). "sorted": every list is strictly ascending, else it is an
 *   error. "any": lists may be unsorted, which costs a sort, and may hold duplicates, whose values are
 *   reduced in the order of the list.
 *
 * - mpiq_timeout: seconds, a real number, after which a rank that sends nothing is an error. 0 (default)
 *   means never, as in MPI. After such an error this library cannot use the communicator any more. */

/* Reduces the values of each index over all ranks that have it, and gives each rank those that it asks for:
 * in_values[i * stride + j] is the reduction of value j of index in_indices[i] over all ranks that have
 * this index among their out_indices. An index that no rank has gives 0 (MPI_MIN: Inf, MPI_MAX: -Inf). So a
 * rank may ask for other indices than it brings, as in a graph whose edges lead to vertices of other ranks.
 * The method is a nested butterfly (Zhao and Canny: Kylix, ICPP 2014): if many ranks have the same indices,
 * the messages shrink from layer to layer.
 *
 * If lists, count, stride, datatype, op and options are those of the last such call on comm, on all ranks,
 * the lists are not sent again.
 *
 * Further keys of info:
 *
 * - mpiq_degrees: the degrees of the layers, such as "8x4x2". Their product is at most the number of ranks
 *   and more than half of it. Without this key a model of the network chooses them for the lists.
 *
 * - mpiq_key: keeps the lists of several sets of calls apart; each set is recognised by itself. A
 *   communicator keeps the lists of the 256 keys that were used last, until MPIQ_Residual_reset forgets
 *   them. A key whose lists are gone sends them again. Each key takes tags, as each
 *   MPIQ_Sparse_allreduce_init does. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce(MPI_Count out_count, const int64_t* out_indices, const void* out_values,
                                      MPI_Count in_count, const int64_t* in_indices, void* in_values,
                                      MPI_Count stride, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                      MPI_Info info);

/* Prepares such a reduction of fixed lists, to be made many times. MPIQ_Start begins one, which sends
 * values only, and MPIQ_Test or MPIQ_Wait completes it. The buffers of values are read and written between
 * the two. The lists are not needed after this call. Memory is settled here: a start allocates nothing.
 * Each call of this function takes tags of the communicator for ever: about 29 million calls are possible
 * with MPICH, and 100 with an MPI whose MPI_TAG_UB is the least that the standard allows. MPIQ_Request_free
 * frees the request.
 *
 * Further keys of info: mpiq_degrees as above, and
 *
 * - mpiq_replicas: r > 1, a divisor of the number of ranks p. The ranks i, i + p/r, i + 2p/r and so on
 *   bring the same lists and values. Every message goes to all replicas of its target, which use the first
 *   copy that arrives. So slow ranks do not hold the others up, and dead ones neither if the MPI library
 *   lets the job live on. The price is r^2 times the messages, and 2 r + 1 buffers for each. All ranks must
 *   be alive at this call. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_init(MPI_Count out_count, const int64_t* out_indices,
                                           const void* out_values, MPI_Count in_count,
                                           const int64_t* in_indices, void* in_values, MPI_Count stride,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                           MPIQ_Request* request);

/* Reduces sparse vectors of `size` elements, and gives every rank the whole result: the union of the ranks'
 * indices, which are below size. Never sends more than the dense vectors and a header for each message. If
 * the vectors are so full that MPI_Allreduce is faster, it is used. With "allgather" and "split" the values
 * are reduced in the order of the ranks. The other algorithms, and so "auto", may add in another order.
 *
 * The result is a list: *result_count ascending indices in result_indices, and their values in
 * result_values. Both have room for `max` entries, the same on all ranks; a longer result is an error on
 * every rank. Elements that cancel to 0 are in the list. If result_indices is NULL the result is the dense
 * vector in result_values, size * stride elements; max is at least size then, and result_count may be NULL.
 *
 * Further key of info:
 *
 * - mpiq_algorithm: "auto" (default) chooses by the network and the lists. "allgather". "split": each rank
 *   reduces a part of the indices. "recursive_doubling". "dense": MPI_Allreduce (minimum and maximum are
 *   split instead, because MPI may lose a NaN in them). */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_union(MPI_Count count, const int64_t* indices, const void* values,
                                            MPI_Count size, MPI_Count max, int64_t* result_indices,
                                            void* result_values, MPI_Count* result_count, MPI_Count stride,
                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* Sums matrices that are products of narrow ones, such as the gradients of fully connected layers. Each rank
 * brings U (m x k) and V (n x k), and all get the sum over all ranks of U V^T in result (m x n). k may differ by
 * rank and may be 0. Matrices are stored column by column, so a column is what one sample brings. For a result
 * that is stored row by row, as in C, swap u with v and m with n.
 *
 * The factors are sent to all ranks if they are fewer bytes than a dense sum moves: if all ranks together have
 * fewer than 2 m n / (m + n) columns (Chilimbi et al.: Project Adam, OSDI 2014; Xie et al.: sufficient factor
 * broadcasting, UAI 2016). Each rank then multiplies all of them, and needs memory for all of them. Otherwise
 * each rank multiplies its own, and the products are summed by a call with method "raw". Nothing is lost but by
 * the rounding of each operation. All ranks get the same bits. Those of the two ways differ by rounding.
 *
 * datatype is MPI_FLOAT or MPI_DOUBLE. Buffers are in host memory; result overlaps neither u nor v. Collective
 * over comm, an intracommunicator. It is an error on every rank if one rank's arguments cannot be used, or if
 * ranks differ in m, n, datatype or function. result is then undefined. */
MPIQ_PUBLIC int MPIQ_Factors_allreduce(const void* u, const void* v, MPI_Count m, MPI_Count n, MPI_Count k,
                                       void* result, MPI_Datatype datatype, MPI_Comm comm);

/* One round of gossip: moves each rank's vector towards the mean of all, by messages between neighbours of a
 * graph only. It is no sum: results differ between ranks, and approach the mean from round to round. comm has a
 * directed graph (MPI_Dist_graph_create, _create_adjacent), in which every rank must be able to reach every
 * other; its weights are not used. With x the vector of count elements of a rank, y its *weight, and
 * a_ij = 1 / (1 + out-neighbours of j) for each edge from j to i and for j = i, a round does
 *
 *   X_j += decoded(encoded(x_j - X_j)), on rank j and on its out-neighbours, which get the encoded difference
 *   x_i += gamma (sum over j of a_ij X_j - X_i)
 *   y_i += gamma (sum over j of a_ij y_j - y_i)
 *
 * X_j, the mirror of x_j, is what the neighbours know of it: zero at first. The sums of all x and of all y stay,
 * up to the rounding of x and y in each round. With *weight = 1 on every rank before the first round, x / *weight on each rank approaches the
 * mean, at a linear rate if gamma is small enough for the codec: 1 for "raw", less the more a codec leaves out
 * (docs/library.md has a table).
 * (Toghani and Uribe 2022; on symmetric graphs Koloskova et al. 2019, CHOCO-Gossip.)
 *
 * x and *weight are read and written; x is in host memory. datatype is MPI_FLOAT or MPI_DOUBLE. 0 < gamma <= 1.
 * Between rounds the program may change x, as by a step of an optimizer. info needs mpiq_key, the name of the
 * vector, and may have mpiq_method and mpiq_seed. Of the method, or of the policy's rule, the codec alone counts;
 * for "mpi" it is raw. A codec that measures all ranks' vectors first is an error.
 *
 * Memory: for a key each rank keeps its own mirror and those of its in-neighbours, 1 + in-neighbours arrays of count
 * elements. For the messages it keeps two arrays more, and room for as many encoded vectors as it has mirrors.
 * MPIQ_Residual_reset on all ranks forgets the mirrors: X is then zero again. The other functions for residuals do
 * not know them. An element that is NaN or Inf on a rank stays so there and does not spread.
 *
 * Collective over comm. It is an error on every rank, found before any vector is sent, if a rank's arguments
 * cannot be used, if ranks differ in count, datatype, gamma, method, key or function, or if some have forgotten
 * the key. */
MPIQ_PUBLIC int MPIQ_Neighbor_mix(void* x, double* weight, MPI_Count count, MPI_Datatype datatype,
                                  double gamma, MPI_Comm comm, MPI_Info info);

/* For libraries built on this one: opens a collective function of theirs. ok if all ranks of comm, an
 * intracommunicator, are in the function of this name; else an error on every rank. The name begins with
 * "MPIQ_", and the 16 characters after it count. Collective over comm. */
MPIQ_PUBLIC int MPIQ_Comm_meet(MPI_Comm comm, const char* function);

/* For libraries built on this one: raises an error on comm as the functions above do, with this text and an
 * error code of this library's class, and returns the code. Local. */
MPIQ_PUBLIC int MPIQ_Comm_raise(MPI_Comm comm, const char* text);

/* The version of the loaded library, which may differ from the MPIQ_VERSION_ macros of this header. Local;
 * may be called before MPI_Init. */
MPIQ_PUBLIC int MPIQ_Get_version(int* major, int* minor, int* patch);

#ifdef __cplusplus
}
#endif

#endif /* MPI_QUANT_H */
