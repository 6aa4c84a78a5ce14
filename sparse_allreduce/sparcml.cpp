#include "sparse_allreduce/sparcml.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "sparse_allreduce/position_blocks.hpp"
#include "sparse_allreduce/union_result.hpp"

namespace mq::sparse {
namespace {

using blocks::load;
using blocks::store;

Status malformed(int from) {
  return status_of(Code::bad_frame, [&] { return "rank " + std::to_string(from) + " sent malformed pairs"; });
}

// f.operator()<I>() for the type of indices.
template <class F>
decltype(auto) with_index(const SparcmlShape& shape, const F& f) {
  return shape.wide ? f.template operator()<std::uint64_t>() : f.template operator()<std::uint32_t>();
}
// f.operator()<I, T, O>().
template <class F>
decltype(auto) with_types(const SparcmlShape& shape, const F& f) {
  return dispatch(shape.entry.element, shape.entry.op, [&]<class T, class O>() -> decltype(auto) {
    return with_index(shape, [&]<class I>() -> decltype(auto) { return f.template operator()<I, T, O>(); });
  });
}

template <class T, class O>
void apply_row(std::byte* out, const std::byte* a, const std::byte* b, std::size_t stride) {
  for (std::size_t s = 0; s < stride; ++s) store<T>(out, s, O::apply(load<T>(a, s), load<T>(b, s)));
}

// Two-way merge of pairs. If the stride is 1, the compiler knows the size of a pair.
template <class I, class T, class O>
std::size_t merge_pairs(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t stride,
                        std::byte* out) {
  const std::size_t pair = sizeof(I) + stride * sizeof(T);
  const std::byte *x = a.data(), *y = b.data();
  const std::byte *const x_end = x + a.size(), *const y_end = y + b.size();
  std::byte* const begin = out;
  const auto copy = [&](const std::byte*& from) {
    std::memcpy(out, from, sizeof(I));
    for (std::size_t s = 0; s < stride; ++s) store<T>(out + sizeof(I), s, load<T>(from + sizeof(I), s));
    from += pair;
    out += pair;
  };
  while (x < x_end && y < y_end) {
    const I i = load<I>(x, 0), j = load<I>(y, 0);
    if (i < j) {
      copy(x);
    } else if (j < i) {
      copy(y);
    } else {
      store<I>(out, 0, i);
      apply_row<T, O>(out + sizeof(I), x + sizeof(I), y + sizeof(I), stride);
      x += pair;
      y += pair;
      out += pair;
    }
  }
  const auto tail = [&](const std::byte* from, const std::byte* end) {
    if (from < end) std::memcpy(out, from, static_cast<std::size_t>(end - from));
    out += end - from;
  };
  tail(x, x_end);
  tail(y, y_end);
  return static_cast<std::size_t>(out - begin) / pair;
}

void count_present(SparcmlStream& stream) {
  stream.count =
      bitmap_ops().count(reinterpret_cast<const std::byte*>(stream.present.data()), stream.present.size());
}

SparcmlStream empty_dense(const SparcmlShape& shape, Range range, Workspace& memory) {
  SparcmlStream stream{true, 0, {}, {}};
  stream.bytes = memory.take<std::byte>(static_cast<std::size_t>(dense_bytes(shape.entry, range.width())));
  dispatch(shape.entry.element, shape.entry.op, [&]<class T, class O>() {
    std::fill_n(reinterpret_cast<T*>(stream.bytes.data()), stream.bytes.size() / sizeof(T),
                O::template absent<T>());
  });
  if (shape.presence) {
    stream.present = memory.take<std::uint64_t>(presence_words(range));
    std::fill(stream.present.begin(), stream.present.end(), 0);
  }
  return stream;
}

// sum = sum op other, in this order; `sum` is dense.
void add_to_dense(const SparcmlShape& shape, SparcmlStream& sum, const SparcmlStream& other, Range range) {
  with_types(shape, [&]<class I, class T, class O>() {
    const std::size_t stride = shape.entry.stride, row = stride * sizeof(T), pair = sizeof(I) + row;
    std::byte* const values = sum.bytes.data();
    if (other.dense) {
      apply_row<T, O>(values, values, other.bytes.data(), sum.bytes.size() / sizeof(T));
      for (std::size_t w = 0; w < sum.present.size(); ++w) sum.present[w] |= other.present[w];
      return;
    }
    const std::byte* at = other.bytes.data();
    for (std::uint64_t n = 0; n < other.count; ++n, at += pair) {
      const std::size_t position = static_cast<std::size_t>(load<I>(at, 0) - range.low);
      std::byte* const to = values + position * row;
      apply_row<T, O>(to, to, at + sizeof(I), stride);
      if (shape.presence) sum.present[position / 64] |= std::uint64_t{1} << (position % 64);
    }
  });
}

}  // namespace

std::uint64_t sparcml_dense_bytes(const SparcmlShape& shape, Range range) {
  return dense_bytes(shape.entry, range.width()) + (shape.presence ? 8 * presence_words(range) : 0);
}

SparcmlStream make_dense(const SparcmlShape& shape, const List& list, Range range, Workspace& memory) {
  SparcmlStream stream = empty_dense(shape, range, memory);
  const std::size_t row = shape.entry.bytes();
  for (std::size_t i = 0; i < list.indices.size(); ++i) {
    const std::size_t position = static_cast<std::size_t>(list.indices[i] - range.low);
    std::memcpy(stream.bytes.data() + position * row, list.values + i * row, row);
    if (shape.presence) stream.present[position / 64] |= std::uint64_t{1} << (position % 64);
  }
  stream.count = list.indices.size();
  return stream;
}

SparcmlStream make_stream(const SparcmlShape& shape, const List& list, Range range, Workspace& memory) {
  const std::size_t n = list.indices.size(), row = shape.entry.bytes();
  if (n * shape.pair_bytes() >= sparcml_dense_bytes(shape, range) && range.width() > 0)
    return make_dense(shape, list, range, memory);
  SparcmlStream stream{false, n, memory.take<std::byte>(n * shape.pair_bytes()), {}};
  with_index(shape, [&]<class I>() {
    std::byte* at = stream.bytes.data();
    for (std::size_t i = 0; i < n; ++i, at += sizeof(I) + row) {
      store<I>(at, 0, static_cast<I>(list.indices[i]));
      std::memcpy(at + sizeof(I), list.values + i * row, row);
    }
  });
  return stream;
}

SparcmlStream add_streams(const SparcmlShape& shape, const SparcmlStream& a, const SparcmlStream& b,
                          Range range, Workspace& memory) {
  const bool sparse = !a.dense && !b.dense;
  if (sparse && (a.count + b.count) * shape.pair_bytes() < sparcml_dense_bytes(shape, range)) {
    SparcmlStream sum{false, 0, memory.take<std::byte>(a.bytes.size() + b.bytes.size()), {}};
    sum.count = with_types(shape, [&]<class I, class T, class O>() {
      return shape.entry.stride == 1
                 ? merge_pairs<I, T, O>(a.bytes, b.bytes, std::size_t{1}, sum.bytes.data())
                 : merge_pairs<I, T, O>(a.bytes, b.bytes, shape.entry.stride, sum.bytes.data());
    });
    sum.bytes = sum.bytes.first(sum.count * shape.pair_bytes());
    return sum;
  }
  SparcmlStream sum = a.dense ? a : empty_dense(shape, range, memory);
  if (!a.dense) add_to_dense(shape, sum, a, range);
  add_to_dense(shape, sum, b, range);
  count_present(sum);
  return sum;
}

void write_stream(const SparcmlStream& stream, Workspace& memory, Header& header,
                  std::span<const std::byte>& payload) {
  header.format = static_cast<std::uint32_t>(stream.dense ? FrameFormat::dense : FrameFormat::pairs);
  header.counts[0] = stream.count;
  header.counts[1] = 0;
  payload = stream.bytes;
  if (!stream.present.empty()) {
    const auto whole = memory.take<std::byte>(stream.bytes.size() + stream.present.size_bytes());
    std::memcpy(whole.data(), stream.bytes.data(), stream.bytes.size());
    std::memcpy(whole.data() + stream.bytes.size(), stream.present.data(), stream.present.size_bytes());
    payload = whole;
  }
  header.payload_bytes = payload.size();
}

Status check_stream(const SparcmlShape& shape, const Header& header, Range range, int from) {
  const std::uint64_t bytes = header.payload_bytes, count = header.counts[0],
                      dense = sparcml_dense_bytes(shape, range);
  switch (static_cast<FrameFormat>(header.format)) {
    case FrameFormat::dense:
      if (bytes == dense && count <= range.width()) return {};
      break;
    case FrameFormat::pairs:
      if (bytes <= dense && count <= bytes && bytes == count * shape.pair_bytes()) return {};
      break;
    default: break;
  }
  return malformed(from);
}

Status read_stream(const SparcmlShape& shape, const Header& header, std::span<const std::byte> payload,
                   Range range, int from, Workspace& memory, SparcmlStream& stream) {
  const bool dense = header.format == static_cast<std::uint32_t>(FrameFormat::dense);
  const std::size_t values =
      dense ? static_cast<std::size_t>(dense_bytes(shape.entry, range.width())) : payload.size();
  // The payload is in workspace memory of this rank, which may be written to. It may have any alignment, as
  // pairs may.
  stream = {dense, header.counts[0], {const_cast<std::byte*>(payload.data()), values}, {}};
  if (dense) {
    if (!shape.presence) return {};
    stream.present = memory.take<std::uint64_t>(presence_words(range));
    std::memcpy(stream.present.data(), payload.data() + values, stream.present.size_bytes());
    count_present(stream);
    const std::uint64_t beyond = stream.present.back() >> range.width() % 64;
    return stream.count == header.counts[0] && beyond == 0 ? Status{} : malformed(from);
  }
  const bool valid = with_index(shape, [&]<class I>() {
    std::uint64_t low = range.low;
    bool ascending = true;
    const std::byte* at = stream.bytes.data();
    for (std::uint64_t n = 0; n < stream.count; ++n, at += shape.pair_bytes()) {
      const std::uint64_t index = load<I>(at, 0);
      ascending = ascending && index >= low && index < range.high;
      low = index + 1;
    }
    return ascending;
  });
  return valid ? Status{} : malformed(from);
}

void stream_to_list(const SparcmlShape& shape, const SparcmlStream& stream, Range range,
                    std::uint64_t* indices, std::byte* values) {
  const std::size_t row = shape.entry.bytes();
  if (!stream.dense) {
    with_index(shape, [&]<class I>() {
      const std::byte* at = stream.bytes.data();
      for (std::uint64_t n = 0; n < stream.count; ++n, at += sizeof(I) + row) {
        indices[n] = load<I>(at, 0);
        std::memcpy(values + n * row, at + sizeof(I), row);
      }
    });
    return;
  }
  bitmap_ops().list(reinterpret_cast<const std::byte*>(stream.present.data()), stream.present.size(),
                    range.low, indices, stream.count);
  for (std::size_t k = 0; k < stream.count; ++k)
    std::memcpy(values + k * row, stream.bytes.data() + (indices[k] - range.low) * row, row);
}

void stream_to_slice(const SparcmlShape& shape, const SparcmlStream& stream, Range range, std::byte* values) {
  const std::size_t row = shape.entry.bytes();
  if (stream.dense) {
    if (!stream.bytes.empty()) std::memcpy(values, stream.bytes.data(), stream.bytes.size());
    return;
  }
  with_index(shape, [&]<class I>() {
    const std::byte* at = stream.bytes.data();
    for (std::uint64_t n = 0; n < stream.count; ++n, at += sizeof(I) + row)
      std::memcpy(values + (load<I>(at, 0) - range.low) * row, at + sizeof(I), row);
  });
}

}  // namespace mq::sparse
