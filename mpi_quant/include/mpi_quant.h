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

/* Characters of the longest key, without the null behind it. */
#define MPIQ_MAX_KEY 63

#if defined(__GNUC__)
#  define MPIQ_PUBLIC __attribute__((visibility("default")))
#else
#  define MPIQ_PUBLIC
#endif

/* Sums count elements of sendbuf over all ranks of comm into recvbuf on every rank; all ranks end with
 * identical bits.
 *
 * datatype: MPI_FLOAT or MPI_DOUBLE (and their Fortran names), or a half type of MPIQ_Type_float16 or
 * MPIQ_Type_bfloat16, in host memory or in that of an NVIDIA GPU are compressed if the policy says so and op
 * is MPI_SUM; every other call goes to the MPI library unchanged. Half types are summed in float and rounded
 * once; without a method they are reduced by the codec of their own type. sendbuf may be MPI_IN_PLACE.
 * Collective over comm. On an intracommunicator of at least two ranks the call opens with an agreement of a
 * few small messages: ranks that differ in count, datatype, method or key, or that bring an unusable argument
 * or info, get an error on every rank. After an error recvbuf is undefined; the residual of the key is as it
 * was, or zero on a rank where the error came while data was exchanged.
 *
 * One thread at a time is in a call of this library on a communicator: a call that comes while another thread
 * of its rank is in one waits for the end of that, and then is an error on all ranks, which have to make it
 * too. Which of two threads came first may differ between ranks; then what they take for one call may be made
 * of both, but on each such rank one of the two is an error. MPIQ_Test and MPIQ_Wait of a request, and local
 * functions, may come at any time.
 *
 * sendbuf and recvbuf must not overlap. Ranks that are in different collective functions of this library get
 * an error on every rank, which names both.
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
 * - mpiq_key: name of the vector, 1 to MPIQ_MAX_KEY characters. The rank keeps a residual of count elements
 * under this name on this communicator: what compression drops from one call is added to the next compressed
 *   call of the key (error feedback). Without a key nothing is kept. A key belongs to the count and
 *   datatype of its first compressed call; a compressed call with others is an error. Calls that are not
 *   compressed ignore it.
 *
 * - mpiq_stream: of vectors on a GPU, a cudaStream_t as a number ("0x55d0c0ffee", "0": the legacy default
 *   stream): the vectors are read and written after what this stream holds at the call. Without it they are
 * so after what MPIQ_CUDA_SYNC says, by default the legacy default stream.
 *
 * - mpiq_stream_ordered: "true": of a result on a GPU, the call may be over before the result is there, which
 *   is then ready for what the program launches later into that stream (without mpiq_stream, the legacy
 *   default stream). What such a call finds wrong that late is an error of a later call that uses its memory.
 *   "false", the default: the result is there when the call is over.
 *
 * Communicators: the first call makes a communicator of the library's own, of which MPI has few (MPICH some
 * 2,000). If MPI has none left then, this communicator goes without for as long as it lives, on all ranks:
 * MPIQ_Allreduce sums exactly where no rank names a method and the type is not a half type; every other call
 * that reduces is an error on all ranks (MPIQ_Stats.exact_mode is 3). MPI_Allreduce with the preload library
 * then is MPI's. MPI's own error is not given to the error handler of comm.
 *
 * GPUs: sendbuf and recvbuf may each be in host memory or on a GPU, on each rank as it likes: messages and
 * results are the same, and so MPI needs no support for GPUs. Vectors are encoded and decoded where they are.
 * mpiq_stream and mpiq_stream_ordered may differ from rank to rank.
 *
 * Captures: a graph cannot hold a call. A call with vectors on a GPU is an error while mpiq_stream is
 * captured, or, without mpiq_stream, while a stream is that is blocking or the calling thread's default
 * stream. The capture of another stream (torch.cuda.graph's are non-blocking) is not seen, and must not have
 * calls: they would use what the vectors hold before the graph is launched, and not be part of it.
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
 * nothing: a rank must not block in MPI for something that another rank does only after its MPIQ_Wait.
 *
 * A request that is not completed when MPI_Finalize begins is given up: ranks that wait for it get an error,
 * or, where MPI reduces, the sum. The report counts such requests; without a report a line on stderr does
 * (not if MPIQ_WATCHDOG is 0). If other ranks have never started the call MPI_Finalize waits for them,
 * MPIQ_WATCHDOG seconds and no longer. */
MPIQ_PUBLIC int MPIQ_Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Op op, MPI_Comm comm, MPI_Info info, MPIQ_Request* request);

/* Prepares a call that is made many times: each MPIQ_Start begins one, which MPIQ_Test or MPIQ_Wait
 * completes; the buffers are read and written then, and may be in another memory, at the same addresses, by
 * then: one that was in a GPU's has to be in some GPU's. Method, key and memory are settled here, and no
 * start allocates any. Collective: the ranks compare their calls and get an error on all ranks if these
 * differ. The policy in force now stays the request's. Freed by MPIQ_Request_free. */
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
  uint64_t sparse_calls;        /* sparse reductions; their frames and messages are counted above */
  uint64_t exact_mode; /* 1: MPIQ_POLICY or MPIQ_MODE differs between the ranks and is ignored; 2: they run
                          incompatible versions of this library, and nothing is compressed; 3: MPI had no
                          communicator left for this library; else 0 */
  double encode_s;     /* in codecs; on a GPU by its clock, and only if MPIQ_CUDA_TIME says so */
  double decode_s;
  double wait_s; /* in communication that was not hidden */
} MPIQ_Stats;

/* Fills *stats with the numbers of comm; all zero if comm was never used. Local. */
MPIQ_PUBLIC int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats);

/* Hard upper bound of the bytes that `method` makes of count elements in one encode, frame headers not
 * counted. For "mpi" the size of the vector. At most 2^58 elements. Local; errors are raised on
 * MPI_COMM_SELF. */
MPIQ_PUBLIC int MPIQ_Wire_bound(const char* method, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes);

/* Residuals: what compression dropped from the calls of a key and has not delivered yet (see mpiq_key). A
 * communicator that was never compressed on has none. For all functions below: a key is 1 to MPIQ_MAX_KEY
 * characters and need not have a residual, unless it says so; a key in use by a call in flight is an error,
 * and on an error the residuals are as they were, unless it says otherwise. A residual is in the memory, of
 * the host or of a GPU, that its key's last vector was in; buffers given here may be in either. */

/* Delivers now what was dropped: recvbuf on every rank is the sum over all ranks of the key's residuals,
 * count elements of datatype, the same bits on every rank; then the residuals are zero. The results of all
 * calls of the key so far and this one add up to the exact sum of their inputs, to rounding. The sum is made
 * by MPI in float, in double for double vectors. For half types it is then rounded, and what the rounding
 * loses stays in rank 0's residual (a sum that overflows is infinite and leaves nothing).
 *
 * Collective over comm. Ranks that differ in count, datatype or key, or of which only some have a residual,
 * get an error on every rank; so does a key that belongs to another count or datatype. A key without a
 * residual on any rank gives zeros. After an error recvbuf is undefined, and if it came while data was
 * exchanged the residual is gone. */
MPIQ_PUBLIC int MPIQ_Residual_flush(void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                                    const char* key);

/* Forgets the residual of a key, or with NULL of all keys: what it holds is lost, its memory is freed, and
 * the key may be used with another count or datatype. The index lists that MPIQ_Sparse_allreduce keeps of a
 * key of this name are forgotten too: its next call sends them again. Local; call it on all ranks. */
MPIQ_PUBLIC int MPIQ_Residual_reset(MPI_Comm comm, const char* key);

/* Multiplies the residual of a key, or with NULL of all keys, by factor. For programs that multiply their
 * gradients by the learning rate before they reduce them and now change it: factor = new rate / old rate,
 * because the residual is in units of the old one. A factor that is not finite, or that would make an element
 * of a residual infinite, is an error. Products are rounded in the floating-point mode of the calling thread.
 * Measured codec parameters of the key stay. Local; call it on all ranks. */
MPIQ_PUBLIC int MPIQ_Residual_scale(MPI_Comm comm, const char* key, double factor);

/* Writes the residuals of all keys and ranks to one file, from which MPIQ_Residual_restore reads them, on
 * this or another number of ranks: a checkpoint. In libmpi_quant_hdf5_FAMILY, to be linked beside
 * libmpi_quant_FAMILY or libmpi_quant_pmpi.
 *
 * The file is an HDF5 file (serial HDF5; mpi_quant/hdf5/file.hpp describes it). Rank 0 writes it, in pieces
 * of up to 1 MiB that the other ranks send, under the name path + ".partial"; when all of it has reached the
 * disk it is renamed to path, so that at any time path is a whole file, the old one or the new.
 *
 * Collective over comm, which must be an intracommunicator. path: the same on every rank, used on rank 0.
 * Ranks that differ in their residuals' keys, counts or types, and anything that keeps rank 0 from writing,
 * are an error on every rank, and path is as it was. Not thread-safe, because HDF5 is not. */
MPIQ_PUBLIC int MPIQ_Residual_save(MPI_Comm comm, const char* path);

/* Reads what MPIQ_Residual_save wrote. With as many ranks as then every rank gets its own residuals back, bit
 * for bit, and the results of the next calls are those of a run that was never interrupted. With p ranks,
 * rank r gets the sum of the residuals of the old ranks r, r + p, r + 2p ..., added in double in this order,
 * and zeros if there were none: what all ranks hold together stays the same, to one rounding.
 *
 * Residuals of the file's keys are replaced, others stay. A file that is not there, was cut off or damaged
 * (checksums), has another version or is none of ours is an error on every rank, and nothing is changed.
 * Needs memory for the file's residuals of this rank, twice, while it runs. Collective and linked as
 * MPIQ_Residual_save. */
MPIQ_PUBLIC int MPIQ_Residual_restore(MPI_Comm comm, const char* path);

/* The residual of one key on one rank, for programs with a checkpoint format of their own. */
typedef struct MPIQ_Residual {
  char key[MPIQ_MAX_KEY + 1]; /* ends with a null character */
  char element[8];            /* type of the key's vectors as in policies: "f32", "f64", "f16" or "bf16" */
  MPI_Count count;            /* elements, > 0 */
  MPI_Datatype datatype; /* of the residual's elements: MPI_DOUBLE for f64, else MPI_FLOAT; ignored by put */
  double settled;        /* codec parameter measured at the first call of the key, < 0: none */
  int in_use;            /* 1: by a call in flight; ignored by put */
} MPIQ_Residual;

/* Writes the residuals of this rank, ascending by key, to the first min(max, *n) elements of list; *n is the
 * number of keys that have one. list may be NULL if max is 0. Local. */
MPIQ_PUBLIC int MPIQ_Residual_list(MPI_Comm comm, int max, MPIQ_Residual* list, int* n);

/* Copies elements first to first + count - 1 of the residual of this rank to buf, in the residual's datatype.
 * A key without a residual, or with a shorter one, is an error. Local. */
MPIQ_PUBLIC int MPIQ_Residual_get(MPI_Comm comm, const char* key, MPI_Count first, MPI_Count count,
                                  void* buf);

/* Gives n keys the residuals list[i] with the elements buffers[i], which are copied; what a key had before is
 * replaced. Elements must be finite. Collective over comm, which must be an intracommunicator: the ranks
 * bring the same list, each with its own elements, or all get an error. */
MPIQ_PUBLIC int MPIQ_Residual_put(MPI_Comm comm, int n, const MPIQ_Residual* list,
                                  const void* const* buffers);

/* Sparse reductions: of vectors of which each rank holds few elements, as a list of indices and, for each,
 * one value or `stride` values side by side. For all functions below:
 *
 * indices: 0 to 2^63 - 1, at most 2^32 - 2 on one rank; a list may be empty. datatype: MPI_FLOAT or
 * MPI_DOUBLE, of the values. op: MPI_SUM, MPI_MIN or MPI_MAX; NaN wins over every value. All ranks get the
 * same bits for an index. Buffers do not overlap. Collective over comm, an intracommunicator. Ranks that
 * differ in stride, datatype, op, options or function, and lists that cannot be used on any rank, are an
 * error on every rank, found before any value is reduced; the results are then undefined.
 *
 * info (may be MPI_INFO_NULL), the same on every rank; an unknown key that begins with "mpiq_" or an unusable
 * value is an error:
 *
 * - mpiq_indices: "sorted": every list is strictly ascending, and an error if not; "any" (as without the
 * key): lists may be unsorted, which costs a sort, and hold duplicates, whose values are reduced in the order
 * they stand in.
 *
 * - mpiq_timeout: seconds after which a peer that sends nothing is an error, a real number; 0 (as without the
 * key): never, as in MPI. The communicator cannot be used by this library after it.
 *
 * No message may be longer than 2 GiB: larger lists are an error on every rank. */

/* Reduces values of a set of indices, and gives each rank those it asks for: in_values[i * stride + j] is the
 * reduction of value j of in_indices[i] over all ranks that have this index among their out_indices; 0 for an
 * index that nobody has (MPI_MIN: Inf, MPI_MAX: -Inf). So out and in may differ, as in a graph whose edges
 * lead to other ranks' vertices. A nested butterfly (Zhao and Canny: Kylix, ICPP 2014): where indices are
 * held by many ranks, what is sent shrinks from layer to layer.
 *
 * Index lists that are those of the last such call on comm, on all ranks and in all of count, stride,
 * datatype, op and options, are recognised and not sent again.
 *
 * Further keys of info:
 *
 * - mpiq_degrees: degrees of the layers, such as "8x4x2"; their product is at most the number of ranks and
 * more than half of it. Without the key they are chosen by a model of the network and the index lists.
 *
 * - mpiq_key: keeps the index lists of several sets of calls apart, each recognised by itself. The lists of
 * the 256 keys used last are kept on a communicator, until MPIQ_Residual_reset forgets them; a key whose
 * lists are gone sends them again. Each key takes tags, as each MPIQ_Sparse_allreduce_init does. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce(MPI_Count out_count, const int64_t* out_indices, const void* out_values,
                                      MPI_Count in_count, const int64_t* in_indices, void* in_values,
                                      MPI_Count stride, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                      MPI_Info info);

/* Prepares such a reduction of the same index lists, to be made many times: each MPIQ_Start begins one, which
 * sends values only, and MPIQ_Test or MPIQ_Wait completes it. The value buffers are read and written then;
 * the index lists are not needed after this call. Memory is settled here: no start allocates any. Each init
 * takes tags of the communicator for ever: about 29 million with MPICH, 100 where MPI_TAG_UB is the least
 * that MPI allows. Freed by MPIQ_Request_free.
 *
 * Further keys of info: mpiq_degrees as above, and
 *
 * - mpiq_replicas: r > 1, a divisor of the number of ranks p: ranks i, i + p/r, i + 2p/r ... bring the same
 * lists and values, every message is sent to all replicas of its target, and of the copies of a message the
 * first to arrive is used. So slow ranks do not hold the others up, nor do dead ones where the MPI library
 * lets the job survive; at r^2 times the messages, 2 r + 1 buffers for each. All must be alive while it is
 * prepared. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_init(MPI_Count out_count, const int64_t* out_indices,
                                           const void* out_values, MPI_Count in_count,
                                           const int64_t* in_indices, void* in_values, MPI_Count stride,
                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                           MPIQ_Request* request);

/* Reduces sparse vectors of `size` elements and gives every rank all of the result: the union of the ranks'
 * indices, which are below size. Never sends more than the dense vectors would take, and a header for each
 * message; where the vectors are so full that MPI_Allreduce is faster, that is what reduces them. With
 * "allgather" and "split" values are reduced in the order of the ranks; the others, and so "auto", may choose
 * another order of additions.
 *
 * The result is a list: *result_count ascending indices in result_indices, and their values in result_values,
 * which have room for `max` of them; a longer result is an error on every rank, so max is the same on all.
 * Elements that cancel to 0 are in it. Or, with result_indices NULL, it is the vector itself, in
 * result_values: size * stride elements, and max is at least size. result_count may be NULL then.
 *
 * Further key of info:
 *
 * - mpiq_algorithm: "auto" (as without the key) chooses by the network and the lists. "allgather", "split"
 * (each rank reduces a part of the index space), "recursive_doubling", "dense"
 * (MPI_Allreduce; minimum and maximum, in which MPI may lose a NaN, are split instead); "ssar" and "dsar" are
 * the split allreduces of Renggli et al.: SparCML, SC 2019, for comparison. */
MPIQ_PUBLIC int MPIQ_Sparse_allreduce_union(MPI_Count count, const int64_t* indices, const void* values,
                                            MPI_Count size, MPI_Count max, int64_t* result_indices,
                                            void* result_values, MPI_Count* result_count, MPI_Count stride,
                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info);

/* For libraries built on this one: opens a collective function of theirs, whose name begins with "MPIQ_": ok
 * if all ranks of comm, an intracommunicator, are in the function of this name, else an error on every rank.
 * Of the name the first 16 characters behind "MPIQ_" count. Collective over comm. */
MPIQ_PUBLIC int MPIQ_Comm_meet(MPI_Comm comm, const char* function);

/* For libraries built on this one: raises an error on comm as the functions above do, with an error code of
 * this library's class and this text, and returns the code. Local. */
MPIQ_PUBLIC int MPIQ_Comm_raise(MPI_Comm comm, const char* text);

/* The version of the library that is loaded, which may differ from the MPIQ_VERSION_ macros of this header.
 * Local, and callable before MPI_Init. */
MPIQ_PUBLIC int MPIQ_Get_version(int* major, int* minor, int* patch);

#ifdef __cplusplus
}
#endif

#endif /* MPI_QUANT_H */
