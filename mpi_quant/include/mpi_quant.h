/* mpi_quant.h: sums of float vectors over the ranks of MPI that send a fraction of the bytes.
 *
 * Most methods are lossy. One result of "onebit" is off by about 60 %. Error feedback (info key mpiq_key)
 * adds what one call left out to the next call, so that sums over many calls are right. Nothing is
 * compressed until a policy or a call names a method.
 *
 * This is the only header of the library (long on purpose: it is read as one page). It is C99 and C++.
 *
 * Contents
 *
 *     Rules for all calls      words, errors, info keys, threads, communicators, GPUs, NaN and Inf
 *     Allreduce                MPIQ_Allreduce, MPIQ_Type_float16, MPIQ_Type_bfloat16
 *     Reduce-scatter           MPIQ_Reduce_scatter_block, MPIQ_Reduce_scatter
 *     Allgather                MPIQ_Allgather, MPIQ_Allgatherv
 *     Broadcast                MPIQ_Bcast
 *     Reduction to a root      MPIQ_Reduce
 *     Requests                 MPIQ_Iallreduce, MPIQ_Allreduce_init, the same forms of the functions above,
 *                              MPIQ_Start, MPIQ_Test, MPIQ_Wait, MPIQ_Request_free
 *     Policy and statistics    MPIQ_Comm_set_policy, MPIQ_Comm_get_stats, MPIQ_Wire_bound,
 *                              MPIQ_Get_version, MPIQ_PCONTROL
 *     Residuals                MPIQ_Residual_flush, _reset, _scale, _save, _restore, _list, _get, _put
 *     Sparse                   MPIQ_Sparse_allreduce, _init, _union
 *     Experimental             with MPIQ_EXPERIMENTAL: MPIQ_Allreduce_group, MPIQ_Iallreduce_group,
 *                              MPIQ_Allreduce_group_init, MPIQ_Factors_allreduce, MPIQ_Neighbor_mix,
 *                              MPIQ_Comm_meet, MPIQ_Comm_raise
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_QUANT_H
#define MPI_QUANT_H

#include <mpi.h>
#include <stdint.h>

/* The version of this header. MPIQ_Get_version gives the version of the loaded library. */
#define MPIQ_VERSION_MAJOR 0
#define MPIQ_VERSION_MINOR 2
#define MPIQ_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#  define MPIQ_PUBLIC __attribute__((visibility("default")))
#else
#  define MPIQ_PUBLIC
#endif

/* ======================================== Rules for all calls ========================================
 *
 * Words
 *
 * - A method says how to reduce. "mpi" is the MPI library's own reduction, which is exact. All other methods
 *   are "codec(param=value,...)/plan memory=rule". All but the codec may be left out: "bf16",
 *   "onebit(block=512)/direct", "topk memory=momentum". For matrices "lowrank(rank=R)" may stand in place of
 *   a codec. `mpiq-bench --list` prints all codecs, plans, memory rules and their parameters.
 * - A policy is a list of rules "selectors: method", separated by semicolons: "0-64K: mpi; 64K-: onebit". The
 *   last rule that matches a call decides. A call that no rule matches is exact. A rule is for allreduce
 *   unless it begins with the name of another collective: "reduce_scatter 1M-: int8".
 * - A call is collective if all ranks of the communicator must make it. It is local if not.
 * - A residual is what compression left out and has not delivered yet.
 * - A frame is a message of compressed elements.
 * - Half types are the datatypes of MPIQ_Type_float16 and MPIQ_Type_bfloat16.
 *
 * Arguments. Order, names and conventions are as in MPI. IN arguments are read, OUT arguments are written.
 *
 * Errors. Every function returns MPI_SUCCESS or an MPI error code. Before it returns an error it calls the
 * error handler of the communicator. MPI_Error_string gives the reason. All errors of this library are in one
 * error class.
 *
 * A collective call opens with an agreement of a few small messages. All ranks get an error if one of them
 * brings an unusable argument or info, or if ranks differ in what must be the same. So do ranks that are in
 * different collective functions of this library: the error names both.
 *
 * Structs. MPIQ_Stats and MPIQ_Residual begin with their size. The program sets it, best by MPIQ_STATS_INIT
 * or MPIQ_RESIDUAL_INIT. The library writes no more than this size. So a program goes on working with a later
 * library whose structs have more members. A size that is not set, or that is larger than this library's, is
 * an error.
 *
 * Info. info may be MPI_INFO_NULL. An unknown key that begins with "mpiq_", or an unusable value, is an
 * error. Three keys may differ between ranks: mpiq_skip, mpiq_stream and mpiq_stream_ordered. All others must
 * be the same on every rank. The keys, and the functions that read them (A: Allreduce, Reduce-scatter,
 * Allgather, Broadcast, Reduction to a root and Requests, S: Sparse, M: MPIQ_Neighbor_mix):
 *
 *     key                  in     value                       meaning
 *     mpiq_method          A, M   a method                    replaces the policy's method
 *     mpiq_op              A      sum (default), avg          avg: the mean over the ranks
 *     mpiq_key             A, M   1 to 63 characters          name of the vector; turns error feedback on
 *     mpiq_key             S      1 to 63 characters          name of a set of lists
 *     mpiq_matrix          A      ROWSxCOLS, ROWSxCOLS:LD     the vector is a matrix
 *     mpiq_seed            A, M   0 to 2^64 - 1               seed of random rounding
 *     mpiq_skip            A      true, false (default)       this rank sends nothing
 *     mpiq_stream          A      a number: cudaStream_t      orders the call behind work of a GPU
 *     mpiq_stream_ordered  A      true, false (default)       the call need not wait for its result
 *     mpiq_indices         S      sorted, any (default)       order of the lists
 *     mpiq_timeout         S      seconds, 0 (default)        a silent rank is an error after this time
 *     mpiq_degrees         S      such as 8x4x2               layers of the butterfly
 *     mpiq_replicas        S      r > 1                       r ranks do the same work
 *     mpiq_algorithm       S      auto (default), ...         algorithm of MPIQ_Sparse_allreduce_union
 *
 * Threads. At most one thread of a rank may be in a call on a communicator. If a second thread makes a call,
 * it waits for the first one to end. Then its call is an error on all ranks, which must make that call too.
 * If two threads race, ranks may pair different calls. One of the two calls then fails on every rank.
 * MPIQ_Test, MPIQ_Wait and local functions may be called at any time.
 *
 * Communicators. The first call on a communicator waits for all ranks, also if it is one of Requests. Ranks
 * that use several communicators for the first time must begin with them in the same order. The first call
 * makes a private communicator for the library's own messages. MPI has few of them (MPICH about 2,000). If
 * MPI has none left, the communicator stays without a private one until it is freed, on all ranks. Then the
 * blocking functions from Allreduce to Reduction to a root, and MPIQ_Allreduce_group, are exact. They are an
 * error if a rank names a method, or if vectors of a half type are to be added. A program's own calls under
 * the preload library stay MPI's. MPIQ_Factors_allreduce sums dense matrices. All other functions that
 * exchange vectors, such as Requests, are an error. MPIQ_Stats.exact_mode is MPIQ_EXACT_NO_COMM. The error
 * handler of comm does not see MPI's error.
 *
 * GPUs. The vectors of the functions from Allreduce to Requests, and the buffers of Residuals, may be in host
 * memory or in the memory of an NVIDIA GPU. Each rank chooses where its vectors are. Messages and results are
 * the same, so MPI needs no support for GPUs. All other buffers are in host memory.
 *
 * Captures. A CUDA graph cannot hold a call. A call with vectors on a GPU is an error while mpiq_stream is
 * being captured. Without mpiq_stream it is an error while any blocking stream, or the calling thread's
 * default stream, is being captured. The library cannot see that another stream is being captured
 * (torch.cuda.graph captures non-blocking ones). Do not make calls then: they would read the vectors before
 * the graph runs.
 *
 * NaN and Inf. An element that is NaN or Inf on some rank is NaN or Inf in the result, on every rank, unless
 * that rank sends nothing because of mpiq_skip. In these codecs a block that holds one has no room for its
 * other values. With a key they wait in the residual. Without a key they become NaN.
 *
 *     codec                           elements of a block
 *     onebit                          2048, or what the method says
 *     terngrad                        512
 *     fft                             4096
 *     meprop                          64 lines
 *     mxfp8, mxfp6, mxfp4, minifloat  32
 *     nvfp4                           16
 *
 * Elements that are too large. "bf16" turns elements beyond 3.39e38 into Inf, and "f16" those from 65520 on.
 * "fft" treats a block with a magnitude of 2^126 or more (doubles: 2^1022) as one with a NaN.
 * MPIQ_Stats.overflows counts such elements. */

/* Most characters of a key, without the null at its end. */
#define MPIQ_MAX_KEY 63

/* ============================================= Allreduce =============================================
 *
 * Compressed are sums (MPI_SUM) of reals, if the policy or mpiq_method says so:
 *
 * - MPI_FLOAT, MPI_DOUBLE and their Fortran names.
 * - MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX and their names in C++ and Fortran. n complex numbers are 2n
 *   reals, here and wherever this file speaks of the elements of a key or of a residual.
 * - The half types below, and those that the MPI library has itself.
 * - MPI_Type_contiguous, MPI_Type_dup and MPI_Type_create_resized of these, if there are no gaps. Their
 *   elements are rows of reals.
 *
 * Every other call goes to the MPI library unchanged. Codecs sum half types in float and round once. MPI
 * cannot reduce this library's half types, so without a method, or with "mpi", the codec of their own type
 * does. It also sums half types of MPI itself that the running MPI cannot sum, and makes all means of half
 * types. MPI cannot reduce derived types, so it gets their reals.
 *
 * Info keys:
 *
 * - mpiq_method: the method of this call. A method that may send long vectors of this datatype in more bytes
 *   than they have is an error, whatever count is.
 *
 * - mpiq_op: with "avg" the result is the mean: the sum divided by the number of ranks. Each rank divides
 *   what it writes to recvbuf, in the last pass over it, so all ranks have the same bits. Half types are
 *   divided before they are rounded. Messages hold sums, so a method must have room for these (see f16
 *   above). A residual has the unit of the vectors: old residuals + inputs = ranks * result + new residuals.
 *   So a key may serve sums and means in turn. op must be MPI_SUM, and datatype a real or complex type.
 *   Anything else is an error on all ranks. On an intercommunicator "avg" is an error on each rank that asks
 *   for it: there the ranks do not compare their calls. Where MPI reduces, its sum is divided.
 *
 * - mpiq_key: the name of the vector. What compression leaves out of this call is added to the next
 *   compressed call with this key. Each rank keeps a residual of count elements for the key on this
 *   communicator, or what the method's memory rule says. A key belongs to the count and datatype of its first
 *   compressed call: another count or datatype is an error. Calls that are not compressed ignore the key.
 *
 * - mpiq_matrix: the vector is a matrix of ROWS times COLS elements, stored column by column, with LD
 *   elements from one column to the next. A matrix stored row by row, as in C, is its transpose stored column
 *   by column: give its two sizes in the other order. "onebit(means=column)", "meprop" and "lowrank" use
 *   this. Other methods ignore it. All count elements are summed, also those between the columns.
 *
 * - mpiq_seed: replaces the policy's seed and MPIQ_SEED. See docs/residuals.md.
 *
 * - mpiq_skip: if "true" and the method's memory rule keeps estimates (ef21, lazy, 3pc), this rank sends
 *   nothing. Its last contribution stands in the result, also where its vector holds NaN or Inf. After `max`
 *   such calls in a row it sends all the same. Other methods ignore this key.
 *
 * - mpiq_stream: for vectors on a GPU, a cudaStream_t as a number ("0x55d0c0ffee"; "0" is the legacy default
 *   stream). The vectors are read and written after the work that this stream holds at the time of the call.
 *   Without this key MPIQ_CUDA_SYNC decides. By default the call waits for the legacy default stream.
 *
 * - mpiq_stream_ordered: if "true" and the result is on a GPU, the call may return before the result is
 *   there. The result is then ready for work that the program launches into the same stream later. If the
 *   library finds an error that late, a later call that uses its memory returns it. */

/* Sums vectors over all ranks. All ranks get identical bits. Collective.
 *
 *     IN   sendbuf   count elements; or MPI_IN_PLACE: they are in recvbuf
 *     OUT  recvbuf   the sum, or the mean, count elements; must not overlap sendbuf
 *     IN   count     elements of the vector; the same on all ranks
 *     IN   datatype  one of those above; others go to MPI
 *     IN   op        MPI_SUM; others go to MPI
 *     IN   comm      communicator
 *     IN   info      keys above, or MPI_INFO_NULL
 *
 * Returns an error on all ranks if they differ in count, datatype, method, key or mpiq_op. recvbuf is then
 * undefined. The residual of the key is as it was, or zero on a rank where the error came while data was
 * exchanged.
 *
 * Hint: give every vector a key of its own, such as the name of its layer, unless each single result must be
 * right. */
MPIQ_PUBLIC int MPIQ_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Info info);

/* Gives the datatype of IEEE binary16, two bytes an element. Local.
 *
 *     OUT  datatype  always the same handle; do not free it
 *
 * Returns an error if MPI cannot make the type.
 *
 * Hint: MPI can send and receive this type, but not reduce it. */
MPIQ_PUBLIC int MPIQ_Type_float16(MPI_Datatype* datatype);

/* The same for bfloat16. */
MPIQ_PUBLIC int MPIQ_Type_bfloat16(MPI_Datatype* datatype);

/* ========================================== Reduce-scatter ===========================================
 *
 * The first half of an allreduce: each rank gets a part of the sum, the one that belongs to it. The others
 * send it their encoded parts; it adds them to its own, which it does not encode, and encodes nothing. This
 * is what sharded training needs for gradients. Compressed are sums of the same types as in Allreduce.
 *
 * Info keys: as in Allreduce, but mpiq_matrix is an error. mpiq_skip has no effect. A method
 * names no plan, and no memory rule but none and carry. With mpiq_key each rank keeps a residual of the
 * whole vector; an allreduce of as many elements may use the same key. Policies and MPIQ_Stats count the
 * bytes of the whole vector. */

/* Sums vectors over all ranks and gives each rank its part. All parts are equally long. Collective.
 *
 *     IN   sendbuf    recvcount times as many elements as there are ranks, those for rank 0 first; or
 *                     MPI_IN_PLACE: they are in recvbuf, and the result is at its beginning
 *     OUT  recvbuf    this rank's part of the sum; must not overlap sendbuf
 *     IN   recvcount  elements of a part; the same on all ranks
 *     IN   datatype   as in MPIQ_Allreduce
 *     IN   op         as in MPIQ_Allreduce
 *     IN   comm       communicator
 *     IN   info       keys above, or MPI_INFO_NULL
 *
 * In place the rest of recvbuf is undefined afterwards.
 *
 * Returns an error on all ranks if they differ in recvcount, datatype, method or key, or if one of them
 * brings an unusable argument. recvbuf is then undefined. What then becomes of a residual is as in
 * MPIQ_Allreduce. */
MPIQ_PUBLIC int MPIQ_Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* The same with parts of different lengths. Collective.
 *
 *     IN   recvcounts  by rank: the elements of its part, which may be 0. The same array on all ranks
 *
 * The other arguments are as in MPIQ_Reduce_scatter_block. */
MPIQ_PUBLIC int MPIQ_Reduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* ============================================= Allgather =============================================
 *
 * All ranks get the parts of all. A rank encodes its part once; all decode the same bytes, the rank that sent
 * them as well. So all ranks hold identical bits, and a rank finds in recvbuf what the others have of its
 * part. This is what sharded training needs for parameters. Compressed are the types of Allreduce, where
 * sendtype and recvtype hold the same reals. Every other call goes to the MPI library unchanged. Ranks of
 * which only some give a type that is compressed get an error.
 *
 * Info keys: as in Reduce-scatter, but mpiq_op=avg is an error, for nothing is added. With mpiq_key a rank
 * keeps a residual of its own part: what this call leaves out of it is added to its part in the next call.
 * This is right where the parts are deltas, which the program adds up. It is wrong for values such as
 * weights: the next gather would bring the new value with an old error on top of it. MPIQ_Residual_flush,
 * _save and their relatives do not know these residuals; MPIQ_Residual_reset and _scale do. A gather with
 * method "raw" and the key delivers what waits.
 * For values that change little, such as weights, give the key and a method with "memory=ef21". All ranks
 * then keep the same estimate of the whole vector, one array of as many elements (floats for half types), in
 * place of a residual. A rank sends the difference between its part and the estimate; all add what they
 * decode to the estimate, which is the result. The first call of a key is exact, and so is the next one after
 * a call that failed on some ranks, or after a reset on some. The key belongs to the number of elements of
 * all parts; the parts may differ from call to call. mpiq_skip is as in Allreduce. */

/* Gathers parts of equal length. Collective. All ranks get identical bits.
 *
 *     IN   sendbuf    this rank's part; or MPI_IN_PLACE: it is in recvbuf, where it belongs
 *     IN   sendcount  elements of the part: the same as recvcount. Ignored in place
 *     IN   sendtype   of sendbuf. Ignored in place
 *     OUT  recvbuf    the parts of all ranks in their order; must not overlap sendbuf
 *     IN   recvcount  elements of a part; the same on all ranks
 *     IN   recvtype   of recvbuf
 *     IN   comm       communicator
 *     IN   info       keys above, or MPI_INFO_NULL
 *
 * Returns an error on all ranks if they differ in recvcount, type, method or key, or if one of them brings an
 * unusable argument. recvbuf is then undefined, in place the part of this rank, too. */
MPIQ_PUBLIC int MPIQ_Allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                               MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info);

/* The same with parts of different lengths. Collective.
 *
 *     IN   recvcounts  by rank: the elements of its part, which may be 0. The same array on all ranks
 *     IN   displs      by rank: where its part begins in recvbuf, in elements. Ranks may differ. A negative
 *                      one is left to the MPI library
 *
 * The other arguments are as in MPIQ_Allgather. Elements of recvbuf between the parts stay as they are. */
MPIQ_PUBLIC int MPIQ_Allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info);

/* ============================================= Broadcast =============================================
 *
 * All ranks get the vector of one, the root. The root encodes it once. The encoded bytes travel unchanged,
 * and all ranks decode them, the root as well. So all ranks hold identical bits, and the root's own vector
 * becomes what the others have of it: it changes by the error of the method.
 * Use it for large vectors, such as the parameters of a model.
 * Compressed are the types of Allreduce. Every other call goes to the MPI library unchanged. Ranks of which
 * only some give a type that is compressed get an error.
 *
 * Info keys: as in Allgather. With mpiq_key the root keeps a residual: what this call leaves out of its
 * vector is added to its vector in the next call. As in Allgather, this is right for deltas only, and the
 * same functions know these residuals. The residual stays on the rank that was the root, so let the vectors
 * of a key always have the same root. If an allgather uses the same key, this rank's part there must have as
 * many elements. With "memory=ef21", as in Allgather, all ranks keep one estimate in place of it: then any
 * rank may be the root. */

/* Sends the root's vector to all. Collective. All ranks get identical bits.
 *
 *     INOUT  buffer    count elements: on the root, the vector
 *     IN     count     elements; the same on all ranks
 *     IN     datatype  as in Allgather
 *     IN     root      rank of the root; the same on all ranks
 *     IN     comm      communicator
 *     IN     info      keys above, or MPI_INFO_NULL
 *
 * Returns an error on all ranks if they differ in count, type, root, method or key, or if one of them brings
 * an unusable argument. buffer is then undefined, on the root, too. */
MPIQ_PUBLIC int MPIQ_Bcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                           MPI_Info info);

/* ======================================== Reduction to a root ========================================
 *
 * The root gets the sum of the vectors of all ranks. Short vectors go up a tree of ranks, in which each rank
 * adds what it receives to its own vector, and encodes the sum for the next one. Of long vectors each rank
 * but the root adds up a slice, and sends the encoded sum to the root. So no rank sends more than one encoded
 * vector. The root receives no more than one if vectors are long. Compressed are sums of the same types as in
 * Allreduce.
 *
 * Info keys: as in Reduce-scatter. A key may serve calls with different roots in turn, also with calls of
 * Reduce-scatter and Allreduce with as many elements. */

/* Gives the sum of all ranks' vectors to the root. Collective.
 *
 *     IN   sendbuf   count elements; on the root it may be MPI_IN_PLACE: the vector is in recvbuf
 *     OUT  recvbuf   on the root: the sum; must not overlap sendbuf. On other ranks it is not looked at
 *     IN   count     elements; the same on all ranks
 *     IN   datatype  as in MPIQ_Allreduce
 *     IN   op        as in MPIQ_Allreduce
 *     IN   root      rank of the root; the same on all ranks
 *     IN   comm      communicator
 *     IN   info      keys above, or MPI_INFO_NULL
 *
 * Returns an error on all ranks if they differ in count, datatype, root, method or key, or if one of them
 * brings an unusable argument. recvbuf of the root is then undefined. What then becomes of a residual is as
 * in MPIQ_Allreduce. If a message is unreadable, only the ranks that depend on it get an error. The root
 * always does. */
MPIQ_PUBLIC int MPIQ_Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                            MPI_Op op, int root, MPI_Comm comm, MPI_Info info);

/* ============================================= Requests ==============================================
 *
 * A request is a call in flight, or a persistent call. At most one thread may use it at a time.
 * MPIQ_Iallreduce starts a call once. MPIQ_Allreduce_init prepares a call that MPIQ_Start starts many times.
 * MPIQ_Test or MPIQ_Wait completes both. Until then the program must not touch the buffers. The other
 * collectives have functions of both kinds, too.
 *
 * Arguments. The library copies arrays of counts and displacements, and reads info, before it returns. Unlike
 * in MPI, they may change or be freed then. A datatype or an operation that the program has made must stay
 * until the call is over, or of a persistent call until MPIQ_Request_free.
 *
 * Order. All ranks start their calls on a communicator in the same order, whichever functions make them. They
 * may complete them in any order. Any number of calls may be in flight. A key belongs to one call at a time:
 * start the next call with the same key after MPIQ_Test or MPIQ_Wait has completed the one before. Else the
 * next call fails on all ranks.
 *
 * Progress. The library has no thread of its own. MPIQ_Start, MPIQ_Test, MPIQ_Wait and the collective
 * functions of this library advance all calls of the process, on all communicators. MPI's own functions
 * advance none. So a rank must not block in MPI for something that another rank does only after its
 * MPIQ_Wait.
 *
 * Errors of a call are returned where it is completed, on all ranks.
 *
 * MPI_Finalize gives up requests that are not completed. Ranks that wait for such a call get an error or,
 * where MPI reduces, the sum. The report counts these requests. Without a report there is one line on stderr
 * (none if MPIQ_WATCHDOG is 0). If other ranks have never started the call, MPI_Finalize waits for them for
 * at most MPIQ_WATCHDOG seconds. */

typedef struct MPIQ_Request_object* MPIQ_Request;
#define MPIQ_REQUEST_NULL ((MPIQ_Request)0)

/* Like MPIQ_Allreduce, but returns before the result is there. Collective.
 *
 *     IN   sendbuf to info   as in MPIQ_Allreduce
 *     OUT  request           the call in flight
 *
 * Returns errors of starting only (no memory, a broken communicator). *request is then MPIQ_REQUEST_NULL.
 *
 * Hint: MPIQ_Test now and then, while the program computes, lets the sum go on. */
MPIQ_PUBLIC int MPIQ_Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Op op, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Prepares a call that is made many times. Collective.
 *
 *     IN   sendbuf to info   as in MPIQ_Allreduce
 *     OUT  request           inactive until MPIQ_Start
 *
 * The buffers are read and written between MPIQ_Start and the end of the call. Their addresses stay. Their
 * memory may change in between, but a buffer that was GPU memory here must be GPU memory at every start.
 * Method, key and memory are settled here: a start allocates nothing. With "lowrank" a call with NaN, Inf or
 * too large elements may. A policy that changes later does not change the request.
 *
 * Returns an error on all ranks if their calls differ.
 *
 * Hint: the right choice for the gradients of a training, which are the same vectors in every step. */
MPIQ_PUBLIC int MPIQ_Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                    MPIQ_Request* request);

/* Like MPIQ_Reduce_scatter_block, MPIQ_Reduce_scatter, MPIQ_Allgather, MPIQ_Allgatherv, MPIQ_Bcast and
 * MPIQ_Reduce, but return before the result is there. Collective.
 *
 *     IN   all but request   as in the function without "I"
 *     OUT  request           the call in flight
 *
 * Compressed results, residuals and estimates have the bits of the blocking functions. If MPI makes the
 * call, it is by its own non-blocking function, which may round differently. In place, the parts of a
 * buffer that are undefined afterwards may change as soon as the call has started.
 *
 * Return errors of starting only, as MPIQ_Iallreduce. *request is then MPIQ_REQUEST_NULL. If MPI has no
 * communicator left for the library, they are an error.
 *
 * Hint: start the gather of the next layer's parameters before you compute with this layer's, and
 * the reduce-scatter of a gradient as soon as it is there. */
MPIQ_PUBLIC int MPIQ_Ireduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                           MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Ireduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                     MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Iallgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                MPI_Info info, MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Iallgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Ibcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                            MPI_Info info, MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Ireduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                             MPI_Op op, int root, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Prepare the calls of these functions to be made many times. Collective.
 *
 *     IN   all but request   as in the function without "_init"
 *     OUT  request           inactive until MPIQ_Start; MPIQ_REQUEST_NULL if the function fails
 *
 * What is said of MPIQ_Allreduce_init holds: addresses, counts, displacements, root, method, key and memory
 * are settled here. A start that the library compresses allocates nothing. Results are the same as by the
 * functions that start a call once.
 *
 * Return an error on all ranks if their calls differ, or if one of them brings an unusable argument.
 *
 * Hint: for parameters and gradients that each rank keeps a part of: their buffers and lengths stay the same
 * in every step. */
MPIQ_PUBLIC int MPIQ_Reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                               MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Reduce_scatter_init(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                         MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                    void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                    MPI_Info info, MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                     void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                     MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                     MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Bcast_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                                MPI_Info info, MPIQ_Request* request);
MPIQ_PUBLIC int MPIQ_Reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                 MPI_Op op, int root, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Starts a persistent request and returns at once. All ranks must start it.
 *
 *     INOUT  request   persistent and inactive
 *
 * Returns an error if the request is active or not persistent. */
MPIQ_PUBLIC int MPIQ_Start(MPIQ_Request* request);

/* Does what can be done now for the call of a request, and never waits. Local.
 *
 *     INOUT  request   becomes MPIQ_REQUEST_NULL when its call is over, or inactive if it is persistent
 *     OUT    flag      1 if the call is over, or if request is inactive or MPIQ_REQUEST_NULL; else 0
 *
 * Returns the error of the call, if it is over. */
MPIQ_PUBLIC int MPIQ_Test(MPIQ_Request* request, int* flag);

/* Waits until the call of a request is over.
 *
 *     INOUT  request   becomes MPIQ_REQUEST_NULL, or inactive if it is persistent
 *
 * Returns the error of the call. */
MPIQ_PUBLIC int MPIQ_Wait(MPIQ_Request* request);

/* Frees a persistent request and its memory. The residual stays with the key. Local.
 *
 *     INOUT  request   persistent and inactive; becomes MPIQ_REQUEST_NULL
 *
 * Returns an error if the request is active or not persistent. */
MPIQ_PUBLIC int MPIQ_Request_free(MPIQ_Request* request);

/* ======================================= Policy and statistics ======================================= */

/* Sets the policy of a communicator, for this library's functions and, with the preload library, for MPI's.
 * Collective.
 *
 *     IN  comm    an intracommunicator
 *     IN  rules   the policy; NULL or "" means no rules
 *
 * Residuals stay. Without this function the policy is MPIQ_POLICY, if it is the same on all ranks.
 *
 * Returns an error on all ranks if rules cannot be parsed or differ. The policy is then as it was.
 *
 * Hint: `mpiq-run --check-policy --policy RULES` shows what rules decide. */
MPIQ_PUBLIC int MPIQ_Comm_set_policy(MPI_Comm comm, const char* rules);

/* Why a communicator compresses nothing, or not what its policy says: MPIQ_Stats.exact_mode. */
enum {
  MPIQ_EXACT_NONE = 0,    /* it compresses as the policy says */
  MPIQ_EXACT_POLICY = 1,  /* MPIQ_POLICY or MPIQ_MODE differs between the ranks, and is ignored */
  MPIQ_EXACT_VERSION = 2, /* the ranks run incompatible versions of this library */
  MPIQ_EXACT_NO_COMM = 3  /* MPI had no communicator left for this library */
};

/* What one rank did on one communicator since its first use. Bytes of frames include headers.
 * Times are in seconds. */
typedef struct MPIQ_Stats {
  uint64_t size;                /* set by the program: sizeof(MPIQ_Stats) */
  uint64_t calls;               /* of the functions above, and of MPI's where the policy was asked */
  uint64_t compressed_calls;    /* calls that a codec reduced */
  uint64_t failed_calls;        /* calls that returned an error */
  uint64_t elements;            /* in compressed calls */
  uint64_t raw_bytes;           /* elements times their size */
  uint64_t wire_bytes_sent;     /* in frames */
  uint64_t wire_bytes_received; /* in frames */
  uint64_t messages_sent;       /* frames, and messages of agreements */
  uint64_t nonfinite;           /* elements that were NaN or Inf; counted at every encode */
  uint64_t overflows;           /* finite elements, too large for the codec; at every encode */
  uint64_t residual_bytes;      /* held now */
  uint64_t scratch_bytes;       /* held now */
  uint64_t sparse_calls;        /* of the functions of Sparse; the numbers above hold their bytes as well */
  uint64_t scheme_calls;        /* of lowrank, MPIQ_Factors_allreduce and MPIQ_Neighbor_mix; bytes as well */
  uint64_t declined_calls;      /* calls that lowrank could not serve; MPI reduced them */
  uint64_t exact_mode;          /* MPIQ_EXACT_NONE or a reason */
  double encode_s;              /* in codecs; on a GPU by its clock, and only if MPIQ_CUDA_TIME says so */
  double decode_s;              /* as encode_s */
  double wait_s;                /* in communication that nothing hid */
} MPIQ_Stats;
#define MPIQ_STATS_INIT \
  { sizeof(MPIQ_Stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Gives the statistics of a communicator. Local.
 *
 *     IN     comm    communicator
 *     INOUT  stats   IN: size. OUT: the numbers; zeros if this library never used comm
 *
 * Returns an error if stats->size is not set, or if it is larger than this library's. */
MPIQ_PUBLIC int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats);

/* Gives an upper bound of the encoded size of a vector, without the headers of frames. Local.
 *
 *     IN   method    a method; for "mpi" the bound is the size of the vector
 *     IN   count     elements, at most 2^58
 *     IN   datatype  as in MPIQ_Allreduce
 *     OUT  bytes     the bound
 *
 * Returns an error if the method cannot be parsed. Errors go to the handler of MPI_COMM_SELF. */
MPIQ_PUBLIC int MPIQ_Wire_bound(const char* method, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes);

/* Gives the version of the loaded library. It may differ from the MPIQ_VERSION_ macros of this header. Local.
 * May be called before MPI_Init.
 *
 *     OUT  major, minor, patch   each may be NULL
 *
 * Returns MPI_SUCCESS. */
MPIQ_PUBLIC int MPIQ_Get_version(int* major, int* minor, int* patch);

/* The level of MPI_Pcontrol that talks to the preload library: MPI_Pcontrol(MPIQ_PCONTROL, "key=layer 3").
 * Without the preload library MPI ignores the call. docs/preload.md lists the commands. A program that only
 * needs this number includes this header and links nothing. */
#define MPIQ_PCONTROL 0x4D51

/* ============================================= Residuals =============================================
 *
 * A residual is what compression left out of the calls of a key and has not delivered yet (see mpiq_key).
 *
 * - A key is 1 to MPIQ_MAX_KEY characters. It need not have a residual, unless the function says so.
 * - A key that a call in flight uses is an error.
 * - After an error the residuals are as they were, unless the function says otherwise.
 * - A residual is where the key's last vector was: in host memory or on a GPU. */

/* Delivers now what was left out. Collective.
 *
 *     OUT  recvbuf   the sum of the key's residuals over all ranks; the same bits on every rank
 *     IN   count     elements of the key's vectors
 *     IN   datatype  of the key's vectors
 *     IN   comm      communicator
 *     IN   key       the name of the vector
 *
 * The residuals are zero afterwards. All results of the key so far and this one add up to the exact sum of
 * their inputs, up to rounding. MPI makes the sum in float, or in double for double vectors. For half types
 * the sum is then rounded. What this rounding loses stays in rank 0's residual. A sum that overflows is
 * infinite and leaves nothing. If no rank has a residual the result is zero.
 *
 * Returns an error on every rank if ranks differ in count, datatype or key, if only some have a residual, or
 * if the key belongs to another count or datatype. recvbuf is then undefined. If the error came while data
 * was exchanged, the residual is lost.
 *
 * Hint: call it once after the last step. */
MPIQ_PUBLIC int MPIQ_Residual_flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                                    const char* key);

/* Forgets residuals. Local, but call it on all ranks.
 *
 *     IN  comm   communicator
 *     IN  key    the name of a vector; NULL: all keys
 *
 * The key may then be used with another count or datatype. The index lists that MPIQ_Sparse_allreduce keeps
 * under this key are forgotten too: its next call sends them again.
 *
 * Returns an error if a call in flight uses the key. */
MPIQ_PUBLIC int MPIQ_Residual_reset(MPI_Comm comm, const char* key);

/* Multiplies residuals by a factor. Local, but call it on all ranks.
 *
 *     IN  comm     communicator
 *     IN  key      the name of a vector; NULL: all keys
 *     IN  factor   finite
 *
 * Products are rounded in the calling thread's floating-point mode. Parameters that the codec has measured
 * stay.
 *
 * Returns an error if factor is not finite or would make an element infinite.
 *
 * Hint: for programs that multiply gradients by the learning rate before they reduce them, and now change
 * the rate. The residual is in units of the old rate, so factor = new rate / old rate. */
MPIQ_PUBLIC int MPIQ_Residual_scale(MPI_Comm comm, const char* key, double factor);

/* Writes the residuals of all keys and all ranks to one file: a checkpoint. Collective. In the library
 * libmpi_quant_hdf5_FAMILY, which is linked beside libmpi_quant_FAMILY or libmpi_quant_pmpi. Not thread-safe,
 * because HDF5 is not.
 *
 *     IN  comm   an intracommunicator
 *     IN  path   the same on every rank; rank 0 writes the file
 *
 * The file is HDF5. Rank 0 writes it under the name path + ".partial", from pieces of up to 1 MiB that the
 * other ranks send. Once all of it is on the disk it is renamed to path. So path is a whole file at any
 * time, the old one or the new one.
 *
 * Returns an error on every rank if the ranks' residuals differ in keys, counts or types, or if rank 0 cannot
 * write. path is then as it was. */
MPIQ_PUBLIC int MPIQ_Residual_save(MPI_Comm comm, const char* path);

/* Reads what MPIQ_Residual_save wrote. Collective, and linked like it.
 *
 *     IN  comm   an intracommunicator, of this or another number of ranks
 *     IN  path   the same on every rank; rank 0 reads the file
 *
 * The residuals of the file's keys are replaced. Others stay. With the same number of ranks, every rank gets
 * its own residuals back, bit for bit: the next results are as in a run that was never interrupted. With p
 * ranks, rank r gets the sum of the residuals of the old ranks r, r + p, r + 2p and so on, added in double in
 * this order, or zeros if there are none. What all ranks hold together stays the same, up to one rounding.
 * While it runs, each rank needs memory for twice its residuals in the file.
 *
 * Returns an error on every rank if the file is missing, cut off, damaged (it has checksums), of another
 * version or not one of ours. Nothing is changed then. */
MPIQ_PUBLIC int MPIQ_Residual_restore(MPI_Comm comm, const char* path);

/* Describes the residual of one key on one rank, for checkpoints of another format. */
typedef struct MPIQ_Residual {
  uint64_t size;              /* set by the program: sizeof(MPIQ_Residual) */
  char key[MPIQ_MAX_KEY + 1]; /* ends with a null character */
  char element[8];            /* type of the key's vectors: "f32", "f64", "f16" or "bf16" */
  MPI_Count count;            /* elements of the key's vectors, > 0 */
  MPI_Datatype datatype;      /* of the residual: MPI_DOUBLE for "f64", else MPI_FLOAT; put ignores it */
  double settled;             /* the codec's parameter that the key's first call measured; < 0: none */
  uint64_t calls;             /* calls that the key has served; the next random numbers depend on it */
  int in_use;                 /* 1: a call in flight uses it; put ignores it */
  int arrays;                 /* of count elements each: 1, or more with some memory rules; 0 stands for 1 */
  uint64_t stamp;             /* version of the estimates (memory=ef21, lazy, 3pc); 0 for a residual */
  uint64_t since;             /* calls since the estimates were exact; 0 without estimates */
} MPIQ_Residual;
#define MPIQ_RESIDUAL_INIT \
  { sizeof(MPIQ_Residual), "", "", 0, MPI_DATATYPE_NULL, -1, 0, 0, 1, 0, 0 }

/* Describes this rank's residuals, in ascending order of their keys. Local.
 *
 *     IN     comm   communicator
 *     IN     max    elements of list
 *     INOUT  list   IN: list[0].size is the size of every element. OUT: the first min(max, *n) elements.
 *                   May be NULL if max is 0
 *     OUT    n      the number of keys that have a residual
 *
 * Residuals that the preload library keeps by address or position are left out, also by MPIQ_Residual_save:
 * they mean nothing to another run.
 *
 * Returns an error if list[0].size is not set, or if it is larger than this library's.
 *
 * Hint: call it with max = 0 first, for n. */
MPIQ_PUBLIC int MPIQ_Residual_list(MPI_Comm comm, int max, MPIQ_Residual* list, int* n);

/* Copies elements of this rank's residual. Local.
 *
 *     IN   comm    communicator
 *     IN   key     a key that has a residual
 *     IN   first   number of the first element, from 0
 *     IN   count   elements to copy
 *     OUT  buf     count elements of the residual's datatype
 *
 * Arrays are addressed as one: array i begins at element i * (count of the key's vectors).
 *
 * Returns an error if there are not so many elements. */
MPIQ_PUBLIC int MPIQ_Residual_get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count,
                                  void* buf);

/* Gives keys residuals, which replace what the keys had. Collective.
 *
 *     IN  comm      an intracommunicator
 *     IN  n         elements of list
 *     IN  list      descriptions, the same on all ranks; list[0].size is the size of every element
 *     IN  buffers   buffers[i]: the elements of list[i], all arrays one after the other; they are copied
 *
 * Returns an error on all ranks if their lists differ, if list[0].size is not set or larger than this
 * library's, or if an element is NaN or Inf. */
MPIQ_PUBLIC int MPIQ_Residual_put(MPI_Comm comm, int n, const MPIQ_Residual* list,
                                  const void* const* buffers);

/* ============================================== Sparse ===============================================
 *
 * Each rank holds few elements of a vector: a list of indices, with one value or `stride` values side by side
 * for each index.
 *
 * - Indices are 0 to 2^63 - 1, at most 2^32 - 2 of them on one rank. A list may be empty.
 * - datatype, of the values, is MPI_FLOAT or MPI_DOUBLE. op is MPI_SUM, MPI_MIN or MPI_MAX. A NaN makes the
 *   result NaN. All ranks get the same bits for an index.
 * - Buffers are in host memory and do not overlap.
 * - comm is an intracommunicator.
 * - Ranks that differ in stride, datatype, op, options or function, or a list that cannot be used, are an
 *   error on every rank, found before any value is reduced. The results are then undefined.
 * - No message may be longer than 2 GiB: larger lists are an error on every rank.
 *
 * Info keys of all these functions:
 *
 * - mpiq_indices: with "sorted" every list must be strictly ascending. With "any" lists may be unsorted,
 *   which costs a sort, and may hold duplicates, whose values are reduced in the order of the list.
 *
 * - mpiq_timeout: seconds, a real number, after which a rank that sends nothing is an error. 0 means never,
 *   as in MPI. After such an error this library cannot use the communicator any more. */

/* Reduces the values of each index over all ranks that have it, and gives each rank those that it asks for.
 * Collective.
 *
 *     IN   out_count    indices that this rank brings
 *     IN   out_indices  their list
 *     IN   out_values   out_count * stride values
 *     IN   in_count     indices that this rank asks for
 *     IN   in_indices   their list
 *     OUT  in_values    in_values[i * stride + j]: value j of in_indices[i], reduced over all ranks that
 *                       have this index among their out_indices
 *     IN   stride       values of an index
 *     IN   datatype, op, comm, info
 *
 * An index that no rank has gives 0 (MPI_MIN: Inf, MPI_MAX: -Inf). A rank may ask for other indices than it
 * brings, as in a graph whose edges lead to vertices of other ranks. The method is a nested butterfly (Zhao
 * and Canny: Kylix, ICPP 2014). If many ranks have the same indices, the messages shrink from layer to layer.
 * If lists, count, stride, datatype, op and options are as in the last such call on comm, on all ranks, the
 * lists are not sent again.
 *
 * Further info keys:
 *
 * - mpiq_degrees: the degrees of the layers, such as "8x4x2". Their product is at most the number of ranks
 *   and more than half of it. Without this key a model of the network chooses them for the lists.
 *
 * - mpiq_key: keeps the lists of several sets of calls apart. A communicator keeps the lists of the 256 keys
 *   that were used last, until MPIQ_Residual_reset forgets them. A key whose lists are gone sends them again.
 *   Each key takes tags, as each MPIQ_Sparse_allreduce_init does.
 *
 * Returns an error as said above.
 *
 * Hint: for lists that stay the same, MPIQ_Sparse_allreduce_init is faster. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce(MPI_Count out_count, const int64_t* out_indices, const void* out_values,
                                      MPI_Count in_count, const int64_t* in_indices, void* in_values,
                                      MPI_Count stride, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                      MPI_Info info);

/* Prepares such a reduction of fixed lists, to be made many times. Collective.
 *
 *     IN   out_count to info   as in MPIQ_Sparse_allreduce; the lists are not needed after this call
 *     OUT  request             for MPIQ_Start, which sends values only, MPIQ_Test, MPIQ_Wait and
 *                              MPIQ_Request_free
 *
 * The buffers of values are read and written between MPIQ_Start and the end of the call. Memory is settled
 * here: a start allocates nothing. Each call of this function takes tags of the communicator for ever: about
 * 29 million calls are possible with MPICH, and 100 with an MPI whose MPI_TAG_UB is the least that the
 * standard allows.
 *
 * Further info keys: mpiq_degrees, as above, and
 *
 * - mpiq_replicas: r > 1, a divisor of the number of ranks p. The ranks i, i + p/r, i + 2p/r and so on
 *   bring the same lists and values. Every message goes to all replicas of its target, which use the first
 *   copy that arrives. So slow ranks do not hold the others up. Dead ranks do not either, if the MPI library
 *   lets the job live on. The price is r^2 times the messages, and 2 r + 1 buffers for each. All ranks must
 *   be alive at this call.
 *
 * Returns an error as said above. *request is then MPIQ_REQUEST_NULL. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_init(MPI_Count out_count, const int64_t* out_indices,
                                           const void* out_values, MPI_Count in_count,
                                           const int64_t* in_indices, void* in_values, MPI_Count stride,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                           MPIQ_Request* request);

/* Reduces sparse vectors and gives every rank the whole result: the union of the ranks' indices. Collective.
 *
 *     IN   count           indices that this rank brings
 *     IN   indices         their list; each is below size
 *     IN   values          count * stride values
 *     IN   size            indices of the whole vector
 *     IN   max             entries that the result buffers have room for; the same on all ranks
 *     OUT  result_indices  *result_count ascending indices; NULL: the result is dense
 *     OUT  result_values   their values; if the result is dense, size * stride values
 *     OUT  result_count    indices of the result; may be NULL if the result is dense
 *     IN   stride          values of an index
 *     IN   datatype, op, comm, info
 *
 * If the result is dense, max is at least size. Elements that cancel to 0 are in the list. The function never
 * sends more than the dense vectors and a header for each message. If the vectors are so full that
 * MPI_Allreduce is faster, it is used.
 *
 * Further info key:
 *
 * - mpiq_algorithm: "auto" (default) chooses by the network, the lists, and the time of earlier calls.
 *   "allgather" sends every list to every rank. With "split" each rank reduces a part of the indices. Both
 *   reduce values in the order of the ranks. "recursive_doubling", and so "auto", may add in another order.
 *   "dense" is MPI_Allreduce (minimum and maximum are split instead, because MPI may lose a NaN in them).
 *
 * Returns an error as said above, or if the result has more than max entries.
 *
 * Hint: result_indices = NULL is for programs that add the result to a dense vector. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_union(MPI_Count count, const int64_t* indices, const void* values,
                                            MPI_Count size, MPI_Count max, int64_t* result_indices,
                                            void* result_values, MPI_Count* result_count, MPI_Count stride,
                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* =========================================== Experimental ============================================
 *
 * These functions may change or go with any version. They are in the library, but this header declares them
 * only if the program defines MPIQ_EXPERIMENTAL before it includes this header. */
#ifdef MPIQ_EXPERIMENTAL

/* Sums several vectors over all ranks, such as the gradients of all layers of a model. Collective.
 *
 *     IN   n         vectors; may be 0
 *     IN   sendbufs  sendbufs[i]: counts[i] elements; or MPI_IN_PLACE: they are in recvbufs[i]. NULL: all
 *                    vectors are in place
 *     OUT  recvbufs  recvbufs[i]: the sum of vector i, counts[i] elements
 *     IN   counts    elements of each vector, which may be 0; the same array on all ranks
 *     IN   keys      keys[i]: the name of vector i, as mpiq_key of Allreduce, another one for each; the same
 *                    array on all ranks. The names are copied. NULL: no vector has a residual
 *     IN   datatype, op   as in MPIQ_Allreduce
 *     IN   comm      an intracommunicator: an intercommunicator is an error on all ranks
 *     IN   info      mpiq_method, mpiq_op and mpiq_seed, or MPI_INFO_NULL; other mpiq_ keys are an error
 *
 * It is one call: one agreement, and as many messages as one vector with the elements of all would need.
 * Blocks of the codec begin anew at each vector, so no vector's scale depends on its neighbours. With keys
 * each vector has a residual of its own. A key may serve this function and MPIQ_Allreduce in turn: it keeps
 * the same residual.
 *
 * All ranks get identical bits. With plan allgather and a codec that rounds nothing at random, they are those
 * of one MPIQ_Allreduce for each vector. With other plans the bits differ from those, and so do residuals:
 * an element may be added up, and its sum encoded, by another rank. What is said of losses holds as there.
 * Policies and MPIQ_Stats count the bytes of all vectors together.
 *
 * Vectors are in host memory, with any alignment. A result shares no memory with another vector. A vector
 * with elements is never at NULL or MPI_BOTTOM, whatever its type is. Methods that measure a vector before
 * the call (such as "bound" with a relative bound) or keep estimates of it (memory=ef21, lazy, 3pc) are
 * errors on all ranks, also on one rank alone, and so is "lowrank" in mpiq_method. Under a policy whose rule
 * says lowrank MPI sums the vectors, one after the other. Ranks that cannot agree on the vectors get an
 * error: if they run different versions of the library, in programs that use sessions only, and where
 * MPI_Finalize has deleted what the library keeps.
 *
 * With "auto" the limit of error is for each vector, however short: docs/auto.md says how it is kept. If one
 * of them would be over it, MPI sums all. auto(error=X) uses no keys; auto(error=feedback) needs them.
 *
 * Returns an error on all ranks if they differ in n, counts, keys, datatype or method, or if one of them
 * brings an unusable argument. The results are then undefined. What then becomes of a residual is as in
 * MPIQ_Allreduce. */
MPIQ_PUBLIC int MPIQ_Allreduce_group(int n, const void* const sendbufs[], void* const recvbufs[],
                                     const MPI_Count counts[], const char* const keys[],
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* Starts MPIQ_Allreduce_group. Collective, but need not wait for other ranks. MPIQ_Wait and MPIQ_Test
 * complete the request, as with MPIQ_Iallreduce, and what is said there of calls in flight holds.
 *
 *     IN   n to info  as in MPIQ_Allreduce_group. The arrays sendbufs, recvbufs, counts and keys may change
 *                     once the function has returned; the vectors must not be touched before completion
 *     OUT  request    MPIQ_REQUEST_NULL if the function fails
 *
 * Compressed results, and residuals, have the bits of MPIQ_Allreduce_group. A key serves one call at
 * a time: a call with a key of a group in flight is an error on all ranks. If MPI sums the vectors, there is
 * one MPI_Iallreduce for each, which may round differently. Where MPI has no communicator left for the
 * library, the function is an error. */
MPIQ_PUBLIC int MPIQ_Iallreduce_group(int n, const void* const sendbufs[], void* const recvbufs[],
                                      const MPI_Count counts[], const char* const keys[],
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                      MPIQ_Request* request);

/* Prepares MPIQ_Allreduce_group to be made many times. Collective. MPIQ_Start starts it, and what is said of
 * MPIQ_Allreduce_init holds: addresses, method, keys and memory are settled here, and a start that the
 * library compresses allocates nothing.
 *
 *     IN   n to info  as in MPIQ_Iallreduce_group
 *     OUT  request    inactive until MPIQ_Start; MPIQ_REQUEST_NULL if the function fails
 *
 * Results have the bits of MPIQ_Iallreduce_group. Returns an error on all ranks if their calls
 * differ, or if the vectors cannot be summed by one call, as in MPIQ_Allreduce_group.
 *
 * Hint: for the gradients of a training, which are the same vectors in every step. */
MPIQ_PUBLIC int MPIQ_Allreduce_group_init(int n, const void* const sendbufs[], void* const recvbufs[],
                                          const MPI_Count counts[], const char* const keys[],
                                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                          MPIQ_Request* request);

/* Sums matrices that are products of narrow ones, such as gradients of fully connected layers. Collective.
 *
 *     IN   u         m x k; column by column, so a column is what one sample brings
 *     IN   v         n x k; also column by column
 *     IN   m, n      the same on all ranks
 *     IN   k         may differ between ranks, and may be 0
 *     OUT  result    m x n: the sum of U V^T over all ranks, column by column; overlaps neither u nor v
 *     IN   datatype  MPI_FLOAT or MPI_DOUBLE
 *     IN   comm      an intracommunicator
 *
 * The factors are sent to all ranks if they are fewer bytes than a dense sum moves: if all ranks together
 * have fewer than 2 m n / (m + n) columns (Chilimbi et al.: Project Adam, OSDI 2014; Xie et al.: sufficient
 * factor broadcasting, UAI 2016). Each rank then multiplies all of them, and needs memory for all of them.
 * Otherwise each rank multiplies its own factors, and a call with method "raw" sums the products. Both ways
 * lose only what the rounding of each operation loses. They differ by rounding. All ranks get the same bits.
 *
 * Returns an error on every rank if one rank's arguments cannot be used, or if ranks differ in m, n, datatype
 * or function. result is then undefined.
 *
 * Hint: for a result that is stored row by row, as in C, swap u with v and m with n. */
MPIQ_PUBLIC int MPIQ_Factors_allreduce(const void* u, const void* v, MPI_Count m, MPI_Count n, MPI_Count k,
                                       void* result, MPI_Datatype datatype, MPI_Comm comm);

/* One round of gossip: moves each rank's vector towards the mean of all, by messages between neighbours of a
 * graph only. Collective. It is no sum: results differ between ranks, and approach the mean from round to
 * round.
 *
 *     INOUT  x         the rank's vector, count elements, in host memory
 *     INOUT  weight    1 on every rank before the first round
 *     IN     count     the same on all ranks
 *     IN     datatype  MPI_FLOAT or MPI_DOUBLE
 *     IN     gamma     step, 0 < gamma <= 1
 *     IN     comm      with a directed graph (MPI_Dist_graph_create, _create_adjacent), in which every rank
 *                      can reach every other; its weights are not used
 *     IN     info      needs mpiq_key; may have mpiq_method and mpiq_seed
 *
 * Let x be the vector of a rank, y its *weight, and a_ij = 1 / (1 + out-neighbours of j) for each edge from j
 * to i and for j = i. A round does
 *
 *     X_j += decoded(encoded(x_j - X_j))             on rank j and on its out-neighbours, which get the
 *                                                    encoded difference
 *     x_i += gamma (sum over j of a_ij X_j - X_i)
 *     y_i += gamma (sum over j of a_ij y_j - y_i)
 *
 * X_j, the mirror of x_j, is what the neighbours know of it: zero at first. The sums of all x and of all y
 * stay, up to the rounding of x and y in each round. On each rank x / *weight approaches the mean, at a
 * linear rate if gamma is small enough for the codec: 1 for "raw", less the more a codec leaves out
 * (docs/library.md has a table). The method is compressed push-sum (Toghani and Uribe 2022). On symmetric
 * graphs it is CHOCO-Gossip (Koloskova et al. 2019). Between rounds the program may change x, as by a step of
 * an optimizer. Of the method, or of the policy's rule, only the codec counts. "mpi" means raw.
 *
 * Memory. For a key each rank keeps its own mirror and the mirrors of its in-neighbours: 1 + in-neighbours
 * arrays of count elements. For the messages it keeps two arrays more, and room for as many encoded vectors
 * as it has mirrors. MPIQ_Residual_reset on all ranks forgets the mirrors: X is then zero again. The other
 * functions of Residuals do not know mirrors.
 *
 * An element that is NaN or Inf on a rank stays so there and does not spread.
 *
 * Returns an error on every rank, found before any vector is sent, if a rank's arguments cannot be used, if
 * the codec measures all ranks' vectors first, if ranks differ in count, datatype, gamma, method, key or
 * function, or if some have forgotten the key. */
MPIQ_PUBLIC int MPIQ_Neighbor_mix(void* x, double* weight, MPI_Count count, MPI_Datatype datatype,
                                  double gamma, MPI_Comm comm, MPI_Info info);

/* Opens a collective function of a library that is built on this one. Collective.
 *
 *     IN  comm      an intracommunicator
 *     IN  function  its name: begins with "MPIQ_"; the 16 characters after it count
 *
 * Returns an error on every rank if some are in another function. */
MPIQ_PUBLIC int MPIQ_Comm_meet(MPI_Comm comm, const char* function);

/* Raises an error on comm as the functions above do, for a library that is built on this one. Local.
 *
 *     IN  comm   communicator, whose error handler is called
 *     IN  text   the reason
 *
 * Returns an error code of this library's class. */
MPIQ_PUBLIC int MPIQ_Comm_raise(MPI_Comm comm, const char* text);

#endif /* MPIQ_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif /* MPI_QUANT_H */
