// The parts of the union allreduce that are independent of communication: its output, and the choice of an
// algorithm.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "sparse_allreduce/union_call.hpp"
#include "sparse_allreduce/union_model.hpp"
#include "sparse_allreduce/union_result.hpp"

namespace mq::sparse {
namespace {

template <class T>
void fill(T value, std::uint64_t n, std::byte* out) {
  std::fill_n(reinterpret_cast<T*>(out), n, value);
}

// Calls f(bytes of an entry). For the usual sizes the argument is a constant, so that copying an entry is one
// instruction.
template <class F>
void with_entry_bytes(std::size_t bytes, const F& f) {
  if (bytes == 4) return f(std::integral_constant<std::size_t, 4>());
  if (bytes == 8) return f(std::integral_constant<std::size_t, 8>());
  f(bytes);
}

}  // namespace

Status check_room(const UnionOutput& output, std::uint64_t count) {
  if (output.dense || count <= output.max) return {};
  return status_of(Code::bad_argument, [&] {
    return "the result has " + std::to_string(count) + " indices, and there is room for " +
           std::to_string(output.max);
  });
}

void spread(const Entry& entry, const List& list, Range range, Background background, std::byte* vector) {
  constexpr std::size_t kStretch = 8192;  // bytes: still in the cache when entries are written
  const std::uint64_t step = std::max<std::uint64_t>(1, kStretch / entry.bytes());
  const std::uint64_t* const indices = list.indices.data();
  const std::size_t n = list.indices.size();
  dispatch(entry.element, entry.op, [&]<class T, class O>() {
    const T empty = background == Background::absent ? O::template absent<T>() : O::template identity<T>();
    with_entry_bytes(entry.bytes(), [&](auto bytes) {
      std::size_t i = 0;
      for (std::uint64_t low = range.low; low < range.high; low += step) {
        const std::uint64_t high = std::min(low + step, range.high);
        if (i + (high - low) <= n && indices[i + (high - low) - 1] == high - 1) {  // without a hole
          std::memcpy(vector + low * bytes, list.values + i * bytes, (high - low) * bytes);
          i += high - low;
          continue;
        }
        fill(empty, (high - low) * entry.stride, vector + low * bytes);
        for (; i < n && indices[i] < high; ++i)
          std::memcpy(vector + indices[i] * bytes, list.values + i * bytes, bytes);
      }
    });
  });
}

void collect(const Entry& entry, std::span<const std::uint64_t> indices, const std::byte* vector,
             std::byte* values) {
  with_entry_bytes(entry.bytes(), [&](auto bytes) {
    for (std::size_t i = 0; i < indices.size(); ++i)
      std::memcpy(values + i * bytes, vector + indices[i] * bytes, bytes);
  });
}

void deliver(const UnionJob& job, const List& list, Range range, std::uint64_t at) {
  if (job.output.dense) return spread(job.entry, list, range, Background::absent, job.output.values);
  if (list.indices.empty()) return;
  std::uint64_t* const indices = job.output.indices + at;
  std::byte* const values = job.output.values + at * job.entry.bytes();
  if (list.indices.data() != indices) std::memcpy(indices, list.indices.data(), list.indices.size_bytes());
  if (list.values != values) std::memcpy(values, list.values, list.indices.size() * job.entry.bytes());
}

// --- the model

namespace {

// The shape as real numbers, with the cost of each algorithm.
struct Model {
  const UnionShape& shape;
  const Network& net;
  double n = std::max(1.0, static_cast<double>(shape.size));
  double k = static_cast<double>(shape.most_entries);
  double p = shape.ranks;
  double value_bytes = static_cast<double>(shape.entry.bytes());
  double dense_bytes = n * value_bytes;
  double steps = std::bit_width(static_cast<unsigned>(shape.ranks - 1));  // log2 of the ranks, rounded up
  // The cost per entry: the index as measured, and values beyond 4 bytes at the speed of memory.
  double values_s = (value_bytes - 4) * net.s_per_byte / 4;
  // Lists of a call come from farther away in memory than the measured ones. With this factor the choice is
  // right from 1 to 100 % of 4 Mi positions (results/2026-11-22-xeon-sparse/README.md).
  static constexpr double kFar = 1.3;
  double encode_s = kFar * net.encode_s_per_entry + values_s;
  double decode_s = kFar * net.decode_s_per_entry + values_s;
  double merge_s = kFar * net.s_per_entry + values_s;

  // Equal bits on all processors; otherwise ranks would choose differently.
  static double power(double base, double exponent) { return portable::exp(exponent * portable::log(base)); }
  double entries(double ranks) const { return n * (1 - power(1 - std::min(k / n, 1 - 1e-9), ranks)); }
  // Cost of writing the entries to a vector.
  double spread_s() const {
    return shape.dense_output ? dense_bytes * net.s_per_byte / 4 + entries(p) * merge_s / 2 : 0;
  }
  // Size of a frame of m entries of the n positions; see positions.hpp.
  double bytes(double m) const {
    if (m <= 0) return 0;
    const double d = m / n, gaps = 1 / (1 - power(1 - std::min(d, 1 - 1e-9), 255));
    double position = std::min({gaps, 1 / (8 * d), 2 + 1 / (d * 65536)});
    position = std::min(position, n < 4294967296.0 ? 4.0 : 8.0);
    return std::min(m * (value_bytes + position) + 16, dense_bytes);
  }
  // Header, then payload.
  double exchange_s(double frame) const { return net.latency_s + net.message_s(frame); }

  // Cost of merging `lists` lists of m entries each into one of r entries: as a fold, or by segments.
  double merge_of(double lists, double m, double r) const {
    return std::min((lists - 1) * r, lists * m + r) * merge_s;
  }

  double allgather() const {
    const double room = entries(p);
    const bool is_short = short_stream_room(shape.entry, shape.most_entries, shape.ranks) > 0;
    return steps * (is_short ? 1 : 2) * net.latency_s + (p - 1) * bytes(k) * net.s_per_byte +
           k * (encode_s + (p - 1) * decode_s) + merge_of(p, k, room) + spread_s();
  }
  double split() const {
    const double others = (p - 1) / p, room = entries(p);
    const double parts = 2 * net.messages_s(p - 1) + others * bytes(k) * net.s_per_byte;
    const double gather = steps * 2 * net.latency_s + others * bytes(room) * net.s_per_byte;
    const double lists = others * k * (encode_s + decode_s) + merge_of(p, k / p, room / p) +
                         room / p * encode_s + others * room * decode_s;
    return parts + gather + lists + spread_s();
  }
  double recursive_doubling() const {
    double total = 0;
    const auto exchange = [&](double m) {
      return exchange_s(bytes(entries(m))) + entries(m) * (encode_s + decode_s);
    };
    const auto whole = std::bit_floor(static_cast<unsigned>(shape.ranks));
    for (unsigned m = 1; m < whole; m *= 2) total += exchange(m) + entries(2 * m) * merge_s;
    if (whole != static_cast<unsigned>(shape.ranks))
      total += exchange(1) + entries(2) * merge_s + exchange(p);
    return total + entries(p) * merge_s / 2 + spread_s();  // the last merge: the copy to the output
  }
  double dense() const {
    double total = 2 * steps * net.latency_s + dense_bytes * (net.dense_s_per_byte + net.s_per_byte / 4);
    if (!shape.dense_output)  // bitmaps
      total += steps * (2 * net.latency_s + n / 8 * net.s_per_byte) + k * net.encode_s_per_entry / 2 +
               entries(p) * net.s_per_entry;
    return total;
  }
};

}  // namespace

double expected_s(Algorithm algorithm, const UnionShape& shape, const Network& network) {
  const Model model{shape, network};
  switch (algorithm) {
    case Algorithm::allgather: return model.allgather();
    case Algorithm::recursive_doubling: return model.recursive_doubling();
    case Algorithm::dense: return model.dense();
    default: return model.split();
  }
}

Algorithm choose(const UnionShape& shape, const Network& network) {
  Algorithm best = Algorithm::allgather;
  if (shape.ranks == 1) return best;
  double least = expected_s(best, shape, network);
  for (const Algorithm other : kChoices) {
    if (!can_reduce(other, shape.entry.op)) continue;
    const double s = expected_s(other, shape, network);
    if (s < least) {
      least = s;
      best = other;
    }
  }
  return best;
}

}  // namespace mq::sparse
