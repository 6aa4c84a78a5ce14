// The compound rows of a result file as structs, each with the table of its columns. Both are made of
// bench/columns.def. They are separate from the file format, so that code that fills a row sees no HDF5.
// Unknown values are NaN, -1 or "", never 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace mq::bench {

// Text of fixed length as HDF5 stores it: padded with zeros, cut if it is too long, not always terminated.
template <std::size_t N>
struct Text {
  char data[N] = {};
  constexpr Text() = default;
  constexpr Text(std::string_view text) { std::copy_n(text.data(), std::min(N, text.size()), data); }
  Text(const std::string& text) : Text(std::string_view(text)) {}
  constexpr Text(const char* text) : Text(std::string_view(text)) {}
  std::string str() const { return std::string(data, std::find(data, data + N, '\0')); }
};

enum class ColumnType : std::uint8_t {
  i8,
  i16,
  i32,
  i64,
  u64,
  f64,
  text
};  // the width in bits, where H5T and C count it so

struct Column {
  const char* name;
  ColumnType type;
  std::size_t offset, bytes;  // of the member
  const char* unit;           // "" if it has none
};

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The types of bench/columns.def, and what a value of them is until it is known.
namespace column {
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;
using f64 = double;
using bench::Text;
template <class T>
constexpr T unknown() {
  if constexpr (std::is_floating_point_v<T>) return kUnknown;
  if constexpr (std::is_signed_v<T>) return T{-1};
  return T{};
}
}  // namespace column

#define MQ_MEMBER(type, name, unit, meaning) column::type name = column::unknown<column::type>();
struct PointRow {
#define MQ_POINT MQ_MEMBER
#include "bench/columns.def"
};
struct InputRow {
#define MQ_INPUT MQ_MEMBER
#include "bench/columns.def"
};
struct CounterRow {
#define MQ_COUNTER MQ_MEMBER
#include "bench/columns.def"
};
struct EventRow {
#define MQ_EVENT MQ_MEMBER
#include "bench/columns.def"
};
struct EnvRow {
#define MQ_ENV MQ_MEMBER
#include "bench/columns.def"
};
struct NodeRow {
#define MQ_NODE MQ_MEMBER
#include "bench/columns.def"
};
struct RankRow {
#define MQ_RANK MQ_MEMBER
#include "bench/columns.def"
};
struct GpuRow {
#define MQ_GPU MQ_MEMBER
#include "bench/columns.def"
};
#undef MQ_MEMBER

template <class Row>
std::span<const Column> columns_of();
// The columns of InputRow that texts have beside each row (MQ_GIVEN).
std::span<const Column> given_columns();

}  // namespace mq::bench
