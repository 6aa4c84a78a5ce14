// code=entropy: the tables and the packed streams alone, and the codecs that have the parameter: the same
// values as without it, never more bytes than are said, and fewer where the codes are not equally likely.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/entropy/stage.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

namespace entropy = kernels::entropy;
using kernels::Decoded;
using kernels::Feedback;

constexpr std::size_t kPiece = 4096;  // elements that are packed together

template <class F>
void for_each_tables(const F& property) {
  for (const bool stochastic : {false, true})
    for (int bits = 2; bits <= 8; ++bits)
      property(entropy::integer_tables(bits, stochastic), "bits " + std::to_string(bits));
}

std::uint64_t hash_of(const entropy::Tables& tables) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (const entropy::Table& table : tables.table) {
    for (const std::uint32_t code : table.code) add(code);
    for (const std::uint16_t entry : table.entry) add(entry);
  }
  return hash;
}

// The tables are part of the wire, so they are pinned like it.
TEST(EntropyTables, are_the_same_on_every_machine) {
  std::uint64_t all = 0;
  for_each_tables(
      [&](const entropy::Tables& tables, const std::string&) { all = 31 * all + hash_of(tables); });
  EXPECT_EQ(all, 5845252952244231268u);
}

TEST(EntropyTables, are_complete_prefix_codes_of_the_symbols_that_exist) {
  for_each_tables([](const entropy::Tables& tables, const std::string& what) {
    for (std::size_t t = 0; t < entropy::kTables; ++t) {
      const entropy::Table& table = tables.table[t];
      std::uint32_t room = 0;
      for (unsigned symbol = 0; symbol < 256; ++symbol) {
        const std::uint32_t length = table.code[symbol] >> 16, code = table.code[symbol] & 0xffff;
        ASSERT_EQ(length, tables.lengths[symbol] >> (8 * t) & 0xff) << what;
        if (length == 0) continue;
        ASSERT_LE(length, static_cast<std::uint32_t>(entropy::kMaxBits)) << what;
        room += (1u << entropy::kMaxBits) >> length;
        for (std::uint32_t next = code; next < 1u << entropy::kMaxBits; next += 1u << length)
          ASSERT_EQ(table.entry[next], symbol << 8 | length) << what;
      }
      ASSERT_EQ(room, 1u << entropy::kMaxBits) << what << " table " << t;
    }
  });
}

// Symbols as one of the tables expects them; or all alike, or any that exist.
std::vector<std::uint8_t> some_symbols(const entropy::Tables& tables, std::size_t n, unsigned kind,
                                       std::mt19937_64& random) {
  std::vector<std::uint8_t> symbols(n), exist;
  for (unsigned symbol = 0; symbol < 256; ++symbol)
    if (tables.lengths[symbol] != 0) exist.push_back(static_cast<std::uint8_t>(symbol));
  const std::uint8_t one = exist[random() % exist.size()];
  for (std::uint8_t& symbol : symbols) {
    const std::uint64_t draw = random();
    if (kind < entropy::kTables)
      symbol = static_cast<std::uint8_t>(tables.table[kind].entry[draw % (1u << entropy::kMaxBits)] >> 8);
    else
      symbol = kind == entropy::kTables ? one : exist[draw % exist.size()];
  }
  return symbols;
}

TEST(EntropyStage, unpacks_what_it_packed_and_reads_nothing_else) {
  std::mt19937_64 random(seed());
  for_each_tables([&](const entropy::Tables& tables, const std::string& what) {
    for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 16, 31, 100, 255, 256, 257, 1000, 2048, 4093, 4096})
      for (unsigned kind = 0; kind < entropy::kTables + 2; ++kind) {
        const auto symbols = some_symbols(tables, n, kind, random);
        std::vector<std::byte> packed(entropy::kPackRoom);
        packed.resize(entropy::pack(tables, symbols.data(), n, entropy::kPackRoom, packed.data()));
        ASSERT_GT(packed.size(), entropy::kHead) << what;
        packed.shrink_to_fit();  // a read behind it is an error of the sanitizer
        std::vector<std::uint8_t> got(n);
        ASSERT_EQ(entropy::unpack(tables, packed.data(), packed.size(), n, got.data()), packed.size())
            << what;
        ASSERT_EQ(got, symbols) << what << " n=" << n << " kind " << kind;
        auto more = packed;  // more wire behind it is left alone
        more.resize(packed.size() + 4000, std::byte{0xff});
        ASSERT_EQ(entropy::unpack(tables, more.data(), more.size(), n, got.data()), packed.size()) << what;
        ASSERT_EQ(got, symbols) << what << " n=" << n << " kind " << kind;
      }
  });
}

TEST(EntropyStage, packs_within_its_room_and_near_the_entropy) {
  std::mt19937_64 random(seed());
  for_each_tables([&](const entropy::Tables& tables, const std::string& what) {
    for (unsigned kind = 0; kind < entropy::kTables; ++kind) {
      const std::size_t n = entropy::kMostSymbols;
      const auto symbols = some_symbols(tables, n, kind, random);
      double bits = 0;  // of the code that the symbols were drawn for
      for (const std::uint8_t symbol : symbols) bits += tables.table[kind].code[symbol] >> 16;
      std::vector<std::byte> packed(entropy::kPackRoom + 64, std::byte{0xa5});
      const std::size_t bytes = entropy::pack(tables, symbols.data(), n, entropy::kPackRoom, packed.data());
      EXPECT_LE(static_cast<double>(bytes), bits / 8 * 1.01 + entropy::kHead + entropy::kStreams) << what;
      EXPECT_TRUE(std::all_of(packed.begin() + entropy::kPackRoom, packed.end(),
                              [](std::byte b) { return b == std::byte{0xa5}; }));
    }
    // The longest codes of the table that is chosen fill the room and no more.
    const std::vector<std::uint8_t> zeros(entropy::kMostSymbols);
    std::vector<std::byte> packed(entropy::kPackRoom + 64, std::byte{0xa5});
    (void)entropy::pack(tables, zeros.data(), zeros.size(), 2 * entropy::kPackRoom, packed.data());
    EXPECT_TRUE(std::all_of(packed.begin() + entropy::kPackRoom, packed.end(),
                            [](std::byte b) { return b == std::byte{0xa5}; }));
  });
}

TEST(EntropyStage, refuses_what_it_cannot_have_written) {
  std::mt19937_64 random(seed());
  const entropy::Tables& tables = entropy::integer_tables(4, false);
  for (const std::size_t n : {1, 5, 100, 2048}) {
    const auto symbols = some_symbols(tables, n, 2, random);
    std::vector<std::byte> packed(entropy::kPackRoom);
    packed.resize(entropy::pack(tables, symbols.data(), n, entropy::kPackRoom, packed.data()));
    std::vector<std::uint8_t> got(n);
    const auto unpacked = [&](const std::vector<std::byte>& wire) {
      const std::vector<std::byte> exact(wire);
      return entropy::unpack(tables, exact.data(), exact.size(), n, got.data());
    };
    for (std::size_t size = 0; size < packed.size(); ++size)
      ASSERT_EQ(unpacked({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}), 0u) << size;
    for (const int table : {0, entropy::kTables + 1, 255}) {
      auto other = packed;
      other[0] = static_cast<std::byte>(table);
      EXPECT_EQ(unpacked(other), 0u) << table;
    }
    for (std::size_t at = 1; at < entropy::kHead; ++at) {  // another length of a stream
      auto other = packed;
      other[at] ^= std::byte{1};
      EXPECT_EQ(unpacked(other), 0u) << at;
    }
    int changed = 0;
    for (std::size_t at = entropy::kHead; at < packed.size(); ++at)
      for (int bit = 0; bit < 8; ++bit) {  // no read outside; an accepted wire means other symbols
        auto other = packed;
        other[at] ^= static_cast<std::byte>(1 << bit);
        if (unpacked(other) != 0) {
          EXPECT_NE(got, symbols) << at;
        }
        ++changed;
      }
    EXPECT_GT(changed, 0);
  }
}

// Every combination of parameters that matters to code=entropy.
struct Scene {
  std::string_view codec;
  NamedValues values;
};
std::vector<Scene> scenes() {
  std::vector<Scene> all;
  for (const double block : {32, 64, 256, 1024, 4096}) {
    for (const std::string_view codec : {"int8", "int4"})
      for (const double round : {0, 1})
        for (const double scale : {0, 1})
          all.push_back({codec, {{"block", block}, {"round", round}, {"scale", scale}}});
    for (const double bits : {2, 3, 4, 5, 6, 7, 8})
      for (const double norm : {0, 1})
        all.push_back({"qsgd", {{"bits", bits}, {"block", block}, {"norm", norm}}});
  }
  return all;
}

template <class F>
void for_each_pair(const F& property) {
  for (const Scene& scene : scenes()) {
    NamedValues packed = scene.values;
    packed.emplace_back("code", 1);
    const kernels::Codec& codec = *kernels::find_codec(scene.codec);
    for (const kernels::Isa isa : kernels::kIsas) {
      if (isa > kernels::best_isa()) continue;
      property(Row<float>{&codec, with_values(codec, packed), isa},
               Row<float>{&codec, with_values(codec, scene.values), isa});
      property(Row<double>{&codec, with_values(codec, packed), isa},
               Row<double>{&codec, with_values(codec, scene.values), isa});
    }
  }
}

TEST(Entropy, changes_no_value_and_no_residual_and_keeps_the_bound) {
  for_each_pair([](const auto& row, const auto& plain) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{2 * kPiece + 777}})
      for (const Input input : {Input::normal, Input::spikes, Input::uniform, Input::zeros}) {
        auto x = make_input<T>(input, n, seed());
        if (input == Input::spikes) (void)plant_nonfinite(x, seed());
        const auto before = make_input<T>(Input::laplace, n, seed());
        const Coded<T> expected = plain.run(x, before, Feedback::carry, 0, {.call = 7, .sum = 3});
        const Coded<T> got = row.run(x, before, Feedback::carry, 0, {.call = 7, .sum = 3});
        ASSERT_TRUE(same_bits(expected.decoded, got.decoded)) << row.describe(n, name(input));
        ASSERT_TRUE(same_bits(expected.residual, got.residual)) << row.describe(n, name(input));
        ASSERT_EQ(expected.nonfinite, got.nonfinite) << row.describe(n, name(input));
        ASSERT_LE(got.wire.size(), expected.wire.size() + (n + kPiece - 1) / kPiece)
            << row.describe(n, name(input));
        ASSERT_EQ(row.bound(n), plain.bound(n) + (n + kPiece - 1) / kPiece) << row.describe(n, name(input));
      }
  });
}

// A packed wire, pinned as in golden_test. The elements there are uniform and hardly shrink; these do.
TEST(Entropy, packed_wire_is_the_same_on_every_machine) {
  std::vector<float> x(5000);
  std::uint64_t state = 1;
  for (float& v : x)
    for (int term = 0; term < 6; ++term) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v += static_cast<float>(static_cast<std::int64_t>(state >> 40) - (1 << 23)) * 0x1p-20F;
    }
  for_each_isa("int4", {{"code", 1}}, [&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto wire = row.run(std::vector<T>(x.begin(), x.end()), {}, Feedback::none).wire;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::byte b : wire) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
    EXPECT_EQ(hash, sizeof(T) == 4 ? 7684113213127881015u : 3047661791022286669u) << wire.size();
  });
}

// Codes that are all equally likely travel as they are: the byte 0, then the wire of the codec without the
// parameter.
TEST(Entropy, leaves_codes_as_they_are_that_do_not_shrink) {
  const Row<float> row = fastest("int4", {{"code", 1}}), plain = fastest("int4", {});
  std::vector<float> x(2 * kPiece);
  std::mt19937_64 random(seed());
  for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 15) - 7);
  const auto expected = plain.run(x, {}, Feedback::none).wire, got = row.run(x, {}, Feedback::none).wire;
  ASSERT_EQ(got.size(), row.bound(x.size()));
  const std::size_t piece = plain.bound(kPiece);
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(got[p * (piece + 1)], std::byte{0});
    EXPECT_TRUE(std::equal(expected.begin() + static_cast<std::ptrdiff_t>(p * piece),
                           expected.begin() + static_cast<std::ptrdiff_t>((p + 1) * piece),
                           got.begin() + static_cast<std::ptrdiff_t>(p * (piece + 1) + 1)));
  }
}

// What the tables take off for elements of known distributions, blocks as preset.
TEST(Entropy, takes_the_bytes_off_that_the_page_says) {
  struct Case {
    std::string_view codec;
    double bits;
    Input input;
    double most;  // bytes over those without the parameter
  };
  for (const Case& c : {Case{"int4", 0, Input::normal, 0.87}, Case{"int4", 0, Input::laplace, 0.72},
                        Case{"int8", 0, Input::normal, 0.97}, Case{"int8", 0, Input::laplace, 0.90},
                        Case{"qsgd", 4, Input::normal, 0.87}, Case{"qsgd", 4, Input::laplace, 0.72},
                        Case{"qsgd", 2, Input::normal, 0.80}, Case{"qsgd", 8, Input::laplace, 0.90}}) {
    NamedValues values;
    if (c.bits > 0) values.emplace_back("bits", c.bits);
    const Row<float> plain = fastest(c.codec, values);
    values.emplace_back("code", 1);
    const auto x = make_input<float>(c.input, 64 * kPiece, seed());
    const double share =
        static_cast<double>(fastest(c.codec, values).run(x, {}, Feedback::none).wire.size()) /
        static_cast<double>(plain.bound(x.size()));
    EXPECT_LE(share, c.most) << c.codec << " " << c.bits << " " << name(c.input);
  }
}

TEST(Entropy, hostile_wires_of_every_kind_are_errors_or_stay_inside) {
  std::mt19937_64 random(seed());
  for_each_pair([&](const auto& row, const auto&) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = kPiece + 100;
    const auto good = row.run(make_input<T>(Input::laplace, n, seed()), {}, Feedback::none).wire;
    for (std::size_t size = 0; size < good.size(); size += 1 + size / 2)
      ASSERT_EQ(row.decode_guarded({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, n),
                Decoded::malformed)
          << row.describe(n, "truncated");
    for (int trial = 0; trial < 6; ++trial) {
      auto other = good;
      const std::size_t near = trial < 3 ? 12 : other.size();
      other[random() % near] ^= static_cast<std::byte>(1u << random() % 8);
      (void)row.decode_guarded(other, n);
      other.resize(random() % (other.size() + 1));
      (void)row.decode_guarded(other, n);
      for (std::size_t at = trial % 2 ? 1 : 9; at < other.size(); ++at)
        other[at] = static_cast<std::byte>(random());
      (void)row.decode_guarded(other, n);
    }
  });
}

// A piece that would be shorter as it is was not packed by an encode.
TEST(Entropy, a_packed_piece_that_saves_nothing_is_malformed) {
  const Row<float> row = fastest("int4", {{"code", 1}}), plain = fastest("int4", {});
  std::vector<float> x(256);
  std::mt19937_64 random(seed());
  for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 15) - 7);
  const auto wire = plain.run(x, {}, Feedback::none).wire;
  std::vector<std::uint8_t> symbols(128);
  std::memcpy(symbols.data(), wire.data() + 4, 128);
  std::vector<std::byte> packed(entropy::kPackRoom);
  packed.resize(entropy::pack(entropy::integer_tables(4, false), symbols.data(), 128, entropy::kPackRoom,
                              packed.data()));
  ASSERT_GT(packed.size(), 128u);
  packed.insert(packed.end(), wire.begin(), wire.begin() + 4);
  EXPECT_EQ(row.decode_guarded(packed, 256), Decoded::malformed);
}

}  // namespace
}  // namespace mq::test
