// Records to test with, as a function of a seed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "mpi_quant/report/record.hpp"

namespace mq::test {

using Random = std::mt19937_64;

template <class Enum>
constexpr std::size_t at(Enum e) {
  return static_cast<std::size_t>(e);
}

// Any bytes: a program may name a communicator as it likes.
inline std::string nasty_name(Random& random) {
  constexpr std::array<const char*, 8> known{
      "",         "world",    "a\tb\nc\\d\"e", "\\n\\09", "\xc3\xa4\xe2\x82\xac",
      "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80"};
  if (random() % 2 == 0) return known[random() % known.size()];
  std::string out;
  for (std::size_t n = random() % 20; n > 0; --n) out += static_cast<char>(random());
  return out;
}

// Any bits that are no NaN, which is not equal to itself.
inline double any_double(Random& random) {
  const auto value = std::bit_cast<double>(std::uint64_t{random()});
  return value == value ? value : -std::numeric_limits<double>::infinity();
}

// As a real program has them.
inline Numbers sane_numbers(Random& random) {
  Numbers n;
  for (auto& calls : n.calls) calls = random() % 3 == 0 ? random() % 1000 : 0;
  for (auto& calls : n.feedback) calls = random() % 100;
  n.bytes = random() % (1 << 30);
  n.compressed_bytes = n.bytes / 2;
  n.wire_bytes = n.bytes / 16;
  n.overflows = random() % 3 == 0 ? random() % 1000 : 0;
  const auto seconds = [&] {
    return static_cast<double>(random() % 4096) / 1024;
  };  // sums of these are exact
  n.seconds = seconds();
  n.encode_s = seconds();
  n.decode_s = seconds();
  n.wait_s = seconds();
  n.guarded = random() % 10;
  n.guard_error_sum = seconds();
  n.guard_error_max = seconds();
  n.method = random() % 2 == 0 ? "onebit" : "raw";
  return n;
}

inline Numbers any_numbers(Random& random) {
  Numbers n;
  for (auto& calls : n.calls) calls = random() >> random() % 64;
  for (auto& calls : n.feedback) calls = random() >> random() % 64;
  n.bytes = random();
  n.compressed_bytes = random();
  n.wire_bytes = random();
  n.overflows = random();
  n.seconds = any_double(random);
  n.encode_s = any_double(random);
  n.decode_s = any_double(random);
  n.wait_s = any_double(random);
  n.guarded = random();
  n.guard_error_sum = any_double(random);
  n.guard_error_max = any_double(random);
  n.method = nasty_name(random);
  return n;
}

template <class NumbersOf>
Record random_record(Random& random, const NumbersOf& numbers) {
  Record record;
  for (std::size_t n = random() % 6; n > 0; --n)
    record.classes[{nasty_name(random), static_cast<int>(random() % 100), nasty_name(random),
                    nasty_name(random), static_cast<int>(random() % 65) - 1}] = numbers(random);
  for (std::size_t n = random() % 4; n > 0; --n) record.sites[nasty_name(random)] = numbers(random);
  return record;
}

}  // namespace mq::test
