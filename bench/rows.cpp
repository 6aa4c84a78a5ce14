#include "bench/rows.hpp"

#include <array>
#include <type_traits>

namespace mq::bench {
namespace {

template <class T>
constexpr ColumnType column_type() {
  if constexpr (std::is_same_v<T, std::int8_t>) return ColumnType::i8;
  if constexpr (std::is_same_v<T, std::int16_t>) return ColumnType::i16;
  if constexpr (std::is_same_v<T, std::int32_t>) return ColumnType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ColumnType::i64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ColumnType::u64;
  if constexpr (std::is_same_v<T, double>) return ColumnType::f64;
  return ColumnType::text;
}

}  // namespace

#define MQ_COLUMN(Row, type, name, unit) \
  Column{#name, column_type<column::type>(), offsetof(Row, name), sizeof(Row::name), unit},

template <>
std::span<const Column> columns_of<PointRow>() {
  static constexpr std::array kColumns{
#define MQ_POINT(type, name, unit, meaning) MQ_COLUMN(PointRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<InputRow>() {
  static constexpr std::array kColumns{
#define MQ_INPUT(type, name, unit, meaning) MQ_COLUMN(InputRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
std::span<const Column> given_columns() {
  static constexpr std::array kColumns{
#define MQ_GIVEN(type, name, unit, meaning) MQ_COLUMN(InputRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<CounterRow>() {
  static constexpr std::array kColumns{
#define MQ_COUNTER(type, name, unit, meaning) MQ_COLUMN(CounterRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<EventRow>() {
  static constexpr std::array kColumns{
#define MQ_EVENT(type, name, unit, meaning) MQ_COLUMN(EventRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<EnvRow>() {
  static constexpr std::array kColumns{
#define MQ_ENV(type, name, unit, meaning) MQ_COLUMN(EnvRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<NodeRow>() {
  static constexpr std::array kColumns{
#define MQ_NODE(type, name, unit, meaning) MQ_COLUMN(NodeRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<RankRow>() {
  static constexpr std::array kColumns{
#define MQ_RANK(type, name, unit, meaning) MQ_COLUMN(RankRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}
template <>
std::span<const Column> columns_of<GpuRow>() {
  static constexpr std::array kColumns{
#define MQ_GPU(type, name, unit, meaning) MQ_COLUMN(GpuRow, type, name, unit)
#include "bench/columns.def"
  };
  return kColumns;
}

#undef MQ_COLUMN

}  // namespace mq::bench
