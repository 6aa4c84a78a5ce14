// The whole library over SMPI, the simulated MPI of SimGrid, at more ranks than a machine has cores: blocking, non-blocking and persistent
// calls of a codec over a plan, on MPI_COMM_WORLD and on parts of it, error feedback, policies, and calls that have to fail.
// scripts/smpi --library builds and runs it.
//
//   smpi_library CODEC PLAN [spoil]    CODEC is a text of kCodecs.
//
// Returns 0 if all is right on all ranks. spoil: one bit of each result is changed on rank 1, which must be noticed.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi_quant.h"

namespace {

using Floats = std::vector<float>;

// loss: what one encode may lose of the vectors of this program, as a share of their norm.
struct Codec {
  const char* text;
  double loss;
};
constexpr std::array kCodecs{Codec{"raw", 0},      Codec{"bf16", 0.004},    Codec{"int8", 0.02},
                             Codec{"onebit", 0.7}, Codec{"topk(k=0.1)", 1}, Codec{"adaptive(pi=8)", 1}};

// What happened on this rank. smpirun loads the program once for each rank.
struct Tally {
  long calls = 0, checks = 0, failures = 0;
  long handled = 0;  // calls of the error handler
  bool spoils = false;
};
Tally tally;

void count_error(MPI_Comm*, int*, ...) { ++tally.handled; }

struct Info {
  Info(std::initializer_list<std::pair<const char*, std::string>> entries) {
    MPI_Info_create(&handle);
    for (const auto& [key, value] : entries) MPI_Info_set(handle, key, value.c_str());
  }
  ~Info() { MPI_Info_free(&handle); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  MPI_Info handle = MPI_INFO_NULL;
};

// A communicator, and the ranks of MPI_COMM_WORLD that are in it.
struct Group {
  const char* name;
  MPI_Comm comm;
  std::vector<int> members;
  int rank = 0;
  int size() const { return static_cast<int>(members.size()); }
};

void check(bool right, const Group& group, const std::string& what) {
  constexpr long kMostLines = 2;
  ++tally.checks;
  if (!right && ++tally.failures <= kMostLines)
    std::fprintf(stderr, "rank %d of %s, %s\n", group.rank, group.name, what.c_str());
}

// An element that a rank of MPI_COMM_WORLD brings: an integer from -8 to 7, or a number from -1 to 1 that all bits of a float go into.
float element(int rank, std::size_t i, bool integer) {
  std::uint64_t h = (static_cast<std::uint64_t>(rank) << 32 | i) * 0x9E3779B97F4A7C15u;
  h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
  h = (h ^ h >> 27) * 0x94D049BB133111EBu;
  h ^= h >> 31;
  return integer ? static_cast<float>(h >> 60) - 8 : static_cast<float>(h >> 40) * 0x1p-23F - 1;
}

// The vectors of a group: that of this rank, the exact sum, and the norms of all added up.
struct Vectors {
  Vectors(const Group& group, std::size_t n, bool integer) : sum(n) {
    for (const int member : group.members) {
      double square = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = element(member, i, integer);
        sum[i] += x;
        square += x * x;
      }
      norms += std::sqrt(square);
    }
    const int self = group.members[static_cast<std::size_t>(group.rank)];
    for (std::size_t i = 0; i < n; ++i) mine.push_back(element(self, i, integer));
  }
  Floats mine;
  std::vector<double> sum;
  double norms = 0;
};

double distance(const std::vector<double>& x, const std::vector<double>& y, double scale) {
  double square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) square += (scale * x[i] - y[i]) * (scale * x[i] - y[i]);
  return std::sqrt(square);
}

// How much of a vector is in y: 1 if y is that vector, 0 if y has nothing to do with it.
double share_of(const std::vector<double>& vector, const Floats& y) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    product += vector[i] * y[i];
    square += vector[i] * vector[i];
  }
  return product / square;
}

std::uint64_t hash_of(const Floats& x) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const float v : x) h = (h ^ std::bit_cast<std::uint32_t>(v)) * 0x100000001B3u;
  return h;
}

// A result, with one element behind it that must stay as it is.
class Result {
 public:
  explicit Result(std::size_t n) : values_(n + 1, kGuard) {}
  float* data() { return values_.data(); }
  // The values, once the call that brings them has returned `code`.
  Floats take(int code, const Group& group, const std::string& what) {
    ++tally.calls;
    check(code == MPI_SUCCESS, group, what + ": returned an error");
    check(values_.back() == kGuard, group, what + ": wrote beyond the end");
    Floats out(values_.begin(), values_.end() - 1);
    if (tally.spoils && group.rank == 1 && !out.empty())
      out[0] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(out[0]) ^ 1u);
    return out;
  }

 private:
  static constexpr float kGuard = 12345;
  Floats values_;
};

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

bool same_on_all(const Group& group, std::uint64_t mine) {
  const std::uint64_t both[2]{mine, ~mine};
  std::uint64_t least[2]{};
  MPI_Allreduce(both, least, 2, MPI_UINT64_T, MPI_MIN, group.comm);
  return least[0] == ~least[1];
}

Floats blocking(const Group& group, const Floats& x, MPI_Info info, const std::string& what) {
  Result y(x.size());
  const int code = MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                                  group.comm, info);
  return y.take(code, group, what);
}

// Two calls in flight, completed in different orders by different ranks.
std::array<Floats, 2> non_blocking(const Group& group, const Floats& x, MPI_Info info,
                                   const std::string& what) {
  std::array<Result, 2> y{Result(x.size()), Result(x.size())};
  std::array<MPIQ_Request, 2> requests{};
  for (std::size_t k = 0; k < 2; ++k)
    check(MPIQ_Iallreduce(x.data(), y[k].data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                          group.comm, info, &requests[k]) == MPI_SUCCESS,
          group, what + ": MPIQ_Iallreduce");
  std::array<Floats, 2> out;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::size_t next = (k + static_cast<std::size_t>(group.rank)) % 2;
    out[next] = y[next].take(MPIQ_Wait(&requests[next]), group, what);
    check(requests[next] == MPIQ_REQUEST_NULL, group, what + ": a request is left after MPIQ_Wait");
  }
  return out;
}

// Two starts of one request. The second is completed by MPIQ_Test.
std::array<Floats, 2> persistent(const Group& group, const Floats& x, MPI_Info info,
                                 const std::string& what) {
  Result y(x.size());
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  std::array<Floats, 2> out;
  check(MPIQ_Allreduce_init(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                            group.comm, info, &request) == MPI_SUCCESS,
        group, what + ": MPIQ_Allreduce_init");
  check(MPIQ_Start(&request) == MPI_SUCCESS, group, what + ": MPIQ_Start");
  out[0] = y.take(MPIQ_Wait(&request), group, what);
  check(MPIQ_Start(&request) == MPI_SUCCESS, group, what + ": MPIQ_Start");
  int done = 0, code = MPI_SUCCESS;
  while (done == 0 && code == MPI_SUCCESS) code = MPIQ_Test(&request, &done);
  out[1] = y.take(code, group, what);
  check(MPIQ_Request_free(&request) == MPI_SUCCESS, group, what + ": MPIQ_Request_free");
  return out;
}

// Every kind of call gives the same bits on all ranks, near the exact sum.
void check_sums(const Group& group, const Codec& codec, const std::string& plan, const Vectors& vectors) {
  const std::string method = std::string(codec.text) + "/" + plan;
  const std::string what = method + ", " + std::to_string(vectors.mine.size()) + " elements";
  const Info info{{"mpiq_method", method}};
  const Floats y = blocking(group, vectors.mine, info.handle, what);
  check(same_on_all(group, hash_of(y)), group, what + ": bits differ between ranks");
  for (const Floats& other : non_blocking(group, vectors.mine, info.handle, what + ", non-blocking"))
    check(hash_of(other) == hash_of(y), group, what + ": non-blocking and blocking calls differ");
  for (const Floats& other : persistent(group, vectors.mine, info.handle, what + ", persistent"))
    check(hash_of(other) == hash_of(y), group, what + ": persistent and blocking calls differ");
  // Each stage adds at most what it loses of all vectors together. On a ring each rank encodes the sum once more.
  const double stages = plan == "ring" ? group.size() : 1 + std::ceil(std::log2(group.size()));
  const double error = distance(vectors.sum, {y.begin(), y.end()}, 1);
  check(error <= stages * codec.loss * vectors.norms, group,
        what + ": the error is " + std::to_string(error));
  // That bound allows a result of zeros where an encode may leave out much of a vector. With 32 ranks the
  // least share of all plans but hierarchical was 0.03.
  constexpr std::size_t kLong = 1000;
  if (vectors.sum.size() < kLong) return;
  const double share = share_of(vectors.sum, y);
  check(share > 0.01, group, what + ": has " + std::to_string(share) + " of the exact sum");
}

// With a key, what one call left out comes later: the mean of the results approaches the sum, and with a flush nothing is
// missing. On a ring each rank encodes the sum and leaves out a part of it, so more ranks need more calls.
void check_feedback(const Group& group, const Codec& codec, const std::string& plan, const Vectors& vectors) {
  const int calls = std::max(24, 3 * group.size() / 2);
  const std::string method = std::string(codec.text) + "/" + plan, what = method + " with a key",
                    key = "key of " + method;
  const Info info{{"mpiq_method", method}, {"mpiq_key", key}};
  const std::size_t n = vectors.mine.size();
  std::vector<double> total(n);
  double first = 0;
  for (int call = 0; call < calls; ++call) {
    const Floats y = blocking(group, vectors.mine, info.handle, what);
    for (std::size_t i = 0; i < n; ++i) total[i] += y[i];
    if (call == 0) first = distance(vectors.sum, total, 1);
    if (call == 0 || call == calls - 1)
      check(same_on_all(group, hash_of(y)), group, what + ": bits differ between ranks");
  }
  const double mean = distance(vectors.sum, total, calls) / calls;
  check(first > 0 && mean < first / 2, group,
        what + ": error " + std::to_string(first) + ", then " + std::to_string(mean));
  Result left(n);
  const int code =
      MPIQ_Residual_flush(left.data(), static_cast<MPI_Count>(n), MPI_FLOAT, group.comm, key.c_str());
  const Floats flushed = left.take(code, group, what + ", flush");
  check(same_on_all(group, hash_of(flushed)), group, what + ": bits of the flush differ between ranks");
  for (std::size_t i = 0; i < n; ++i) total[i] += flushed[i];
  const double missing = distance(vectors.sum, total, calls);
  check(missing < 1e-6 * calls * vectors.norms, group,
        what + ": " + std::to_string(missing) + " is missing after the flush");
}

// All ranks get an error of the library that names `what`, and the next call is right.
void check_error(const Group& group, int code, const std::string& what) {
  ++tally.calls;
  check(code != MPI_SUCCESS, group, "no error, where ranks differ in " + what);
  const std::string text = code == MPI_SUCCESS ? "" : text_of(code);
  check(std::exchange(tally.handled, 0) == 1, group,
        "the error handler is not called once, where ranks differ in " + what);
  check(text.find("mpi_quant: ") == 0 && text.find(what) != std::string::npos, group,
        "\"" + text + "\" does not say " + what);
  const Vectors vectors(group, 100, true);
  const Info info{{"mpiq_method", "raw/direct"}};
  const Floats y = blocking(group, vectors.mine, info.handle, "after an error");
  check(distance(vectors.sum, {y.begin(), y.end()}, 1) == 0, group, "wrong sum after an error about " + what);
}

void check_errors(const Group& group) {
  const bool odd = group.rank == group.size() - 1;
  const Info bf16{{"mpiq_method", "bf16"}}, int8{{"mpiq_method", "int8"}}, unknown{{"mpiq_method", "twobit"}};
  const Info keyed{{"mpiq_method", "bf16"}, {"mpiq_key", "k"}};
  Floats x(1000, 1);
  const auto sum = [&](MPI_Count n, MPI_Datatype type, const Info& info) {
    return MPIQ_Allreduce(MPI_IN_PLACE, x.data(), n, type, MPI_SUM, group.comm, info.handle);
  };
  check_error(group, sum(odd ? 999 : 1000, MPI_FLOAT, bf16), "count 999");
  check_error(group, sum(500, odd ? MPI_DOUBLE : MPI_FLOAT, bf16), "f64");
  check_error(group, sum(1000, MPI_FLOAT, odd ? int8 : bf16), "int8");
  check_error(group, sum(1000, MPI_FLOAT, odd ? keyed : bf16), "key");
  check_error(group, sum(1000, MPI_FLOAT, odd ? unknown : bf16), odd ? "twobit" : "unusable info value");
  check_error(
      group,
      odd ? MPIQ_Residual_flush(x.data(), 1000, MPI_FLOAT, group.comm, "k") : sum(1000, MPI_FLOAT, bf16),
      "MPIQ_Residual_flush");
  check_error(group, MPIQ_Comm_set_policy(group.comm, odd ? "0-: bf16" : "0-: raw"), "different rules");
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  Floats y(1000);
  check(MPIQ_Iallreduce(x.data(), y.data(), odd ? 999 : 1000, MPI_FLOAT, MPI_SUM, group.comm, bf16.handle,
                        &request) == MPI_SUCCESS,
        group, "MPIQ_Iallreduce: the error came too early");
  check_error(group, MPIQ_Wait(&request), "count 999");
  check_error(group,
              MPIQ_Allreduce_init(x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, group.comm,
                                  odd ? int8.handle : bf16.handle, &request),
              "int8");
}

// The policy decides by size what is compressed, and the statistics say so.
void check_policy(const Group& group) {
  const Vectors small(group, 100, true), large(group, 10000, true);
  MPIQ_Stats before = MPIQ_STATS_INIT, after = MPIQ_STATS_INIT;
  check(MPIQ_Comm_get_stats(group.comm, &before) == MPI_SUCCESS, group, "MPIQ_Comm_get_stats");
  check(MPIQ_Comm_set_policy(group.comm, "0-1K: mpi; 1K-: raw/ring") == MPI_SUCCESS, group,
        "MPIQ_Comm_set_policy");
  for (const Vectors* vectors : {&small, &large}) {
    const Floats y = blocking(group, vectors->mine, MPI_INFO_NULL, "a call by the policy");
    check(distance(vectors->sum, {y.begin(), y.end()}, 1) == 0, group, "a call by the policy: wrong sum");
  }
  check(MPIQ_Comm_get_stats(group.comm, &after) == MPI_SUCCESS, group, "MPIQ_Comm_get_stats");
  check(after.calls == before.calls + 2 && after.compressed_calls == before.compressed_calls + 1, group,
        "a policy by size: statistics");
  check(after.exact_mode == 0, group, "exact mode");
}

void check_all(const Group& group, const Codec& codec, const std::string& plan, int world_size) {
  const auto p = static_cast<std::size_t>(world_size);
  const bool exact = codec.loss == 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p - 1, p + 1, std::size_t{10000}})
    check_sums(group, codec, plan, Vectors(group, n, exact));
  if (!exact) return check_feedback(group, codec, plan, Vectors(group, 1000, false));
  check_errors(group);
  check_policy(group);
}

// Every third rank. Their number is no power of two, and ranks of a node are apart.
Group part_of(const Group& world) {
  Group part{"a third of MPI_COMM_WORLD", MPI_COMM_NULL, {}};
  const int color = world.rank % 3;
  for (int r = color; r < world.size(); r += 3) part.members.push_back(r);
  MPI_Comm_split(world.comm, color, world.rank, &part.comm);
  MPI_Comm_rank(part.comm, &part.rank);
  return part;
}

}  // namespace

// smpirun looks for it.
[[gnu::visibility("default")]] int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto codec = std::find_if(kCodecs.begin(), kCodecs.end(), [&](const Codec& c) {
    return argc > 2 && argv[1] == std::string_view(c.text);
  });
  if (codec == kCodecs.end()) return 2;
  const std::string plan = argv[2];
  tally.spoils = argc > 3 && std::string_view(argv[3]) == "spoil";
  Group world{"MPI_COMM_WORLD", MPI_COMM_WORLD, {}};
  int size = 1;
  MPI_Comm_rank(world.comm, &world.rank);
  MPI_Comm_size(world.comm, &size);
  for (int r = 0; r < size; ++r) world.members.push_back(r);
  Group part = part_of(world);
  // SMPI 3.32 jumps to address 0 where MPI_ERRORS_RETURN is called.
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_error, &handler);
  for (const MPI_Comm comm : {world.comm, part.comm}) MPI_Comm_set_errhandler(comm, handler);
  for (const Group* group : {&world, &part})
    if (group->size() > 1) check_all(*group, *codec, plan, size);
  check(tally.handled == 0, world, "the error handler is called where no error is expected");
  MPI_Comm_free(&part.comm);
  MPI_Errhandler_free(&handler);
  const std::array<long, 3> mine{tally.calls, tally.checks, tally.failures};
  std::array<long, 3> all{};
  MPI_Allreduce(mine.data(), all.data(), 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (world.rank == 0)
    std::printf("%d ranks, %s/%s: %ld calls and %ld checks, of which %ld failed\n", size, codec->text,
                plan.c_str(), all[0], all[1], all[2]);
  MPI_Finalize();
  return all[2] == 0 ? 0 : 1;
}
