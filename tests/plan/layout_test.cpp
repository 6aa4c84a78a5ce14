// How vectors are cut: every element in exactly one chunk, whole blocks, the promised bounds; by brute force
// for small vectors and at the edges of 64 bits for large ones.

#include "mpi_quant/plan/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace mq::test {
namespace {

// No number comes twice.
bool all_differ(std::vector<std::size_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  return std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
}

void expect_partition(std::size_t count, int chunks, std::size_t block, std::size_t element_bytes) {
  const Layout layout(count, chunks, block, element_bytes);
  std::size_t next = 0, longest = 0;
  for (std::size_t s = 0; s < layout.segments(); ++s)
    for (int c = 0; c < chunks; ++c) {
      const Range range = layout.chunk(s, static_cast<std::size_t>(c));
      ASSERT_EQ(range.begin, std::min(next, count))
          << "count " << count << " chunks " << chunks << " block " << block;
      ASSERT_TRUE(range.begin % block == 0 || range.n == 0) << "count " << count << " chunks " << chunks;
      next = range.begin + range.n;
      longest = std::max(longest, range.n);
    }
  ASSERT_EQ(next, count) << "chunks " << chunks << " block " << block;
  ASSERT_LE(longest, layout.max_chunk()) << "count " << count << " chunks " << chunks << " block " << block;
  ASSERT_LE(longest, std::max(kChunkBytes / element_bytes, block))
      << "count " << count << " chunks " << chunks;
}

TEST(Layout, every_element_is_in_exactly_one_chunk_of_whole_blocks) {
  for (const std::size_t block : {1, 32, 2048})
    for (const int chunks : {1, 2, 3, 7, 64})
      for (std::size_t count = 0; count < 600; ++count) expect_partition(count, chunks, block, 4);
  for (const std::size_t block : {32, 512, 2048, 4096})
    for (const int chunks : {1, 2, 3, 5, 8, 13, 64, 129})
      for (const std::size_t around :
           {block, kChunkBytes / 4, kChunkBytes, 8 * kChunkBytes + 777, 16 * kChunkBytes + 777})
        for (std::size_t count = around - 3; count < around + 3; ++count) {
          expect_partition(count, chunks, block, 4);
          expect_partition(count * static_cast<std::size_t>(chunks), chunks, block, 8);
        }
}

TEST(Layout, with_a_root_chunks_are_shorter_until_segments_are_many) {
  for (const std::size_t chunks : {1, 2, 3, 64})
    for (std::size_t count = 1, shorter = 0; count < std::size_t{1} << 34; count += count / 3 + 1) {
      const Layout layout(count, static_cast<int>(chunks), 2048, 4, false, true);
      const std::size_t bytes = rooted_chunk_bytes(count, chunks, 4);
      EXPECT_GE(bytes, std::max(kRootedChunkBytes, shorter));
      EXPECT_LE(bytes, kChunkBytes);
      EXPECT_LE(layout.max_chunk() * 4, bytes);
      if (bytes > kRootedChunkBytes) {
        EXPECT_GE(layout.segments(), kManySegments) << count;
      }
      shorter = bytes;
    }
  EXPECT_EQ(rooted_chunk_bytes(std::size_t{1} << 24, 2, 4), kChunkBytes);
}

TEST(Layout, chunks_are_as_equal_as_blocks_allow) {
  const Layout layout(std::size_t{1} << 24, 3, 2048, 4);
  for (std::size_t s = 0; s < layout.segments(); ++s)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_GE(layout.chunk(s, c).n + 2 * 2048, layout.max_chunk());
}

TEST(Layout, whole_messages_are_one_segment_whose_chunks_are_nearly_equal) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{1} << 24,
                                  (std::size_t{1} << 40) + 12345})
    for (const int chunks : {1, 2, 7}) {
      const Layout layout(count, chunks, 2048, 4, true);
      EXPECT_EQ(layout.segments(), 1u);
      std::size_t next = 0;
      for (int c = 0; c < chunks; ++c) {
        const Range range = layout.chunk(0, static_cast<std::size_t>(c));
        EXPECT_TRUE(range.begin == next || range.n == 0);
        EXPECT_LE(range.n, layout.max_chunk());
        next += range.n;
      }
      EXPECT_EQ(next, count);
      EXPECT_LE(layout.max_chunk(), count / static_cast<std::size_t>(chunks) + 2048);
    }
}

// Of several vectors: the chunks follow each other, begin where a block of a vector begins, and are as long
// as promised; what they hold of each vector covers it, with numbers for random numbers that no other block
// has.
void expect_vectors(const std::vector<std::size_t>& ends, int chunks, std::size_t block, bool whole) {
  const Layout layout(ends, chunks, block, 4, whole);
  std::size_t next = 0;
  std::vector<std::size_t> at(ends.size());
  for (std::size_t v = 1; v < ends.size(); ++v) at[v] = ends[v - 1];
  std::vector<std::size_t> numbers;
  std::map<std::size_t, std::size_t> shared;
  layout.for_each_shared_chunk(
      [&](Range range) { ASSERT_TRUE(shared.emplace(range.begin, range.n).second) << "a chunk comes once"; });
  for (std::size_t s = 0; s < layout.segments(); ++s)
    for (std::size_t c = 0; c < static_cast<std::size_t>(chunks); ++c) {
      const Range range = layout.chunk(s, c);
      std::size_t of_vectors = 0;
      layout.for_each_vector(range, [&](std::size_t, Range) { ++of_vectors; });
      if (of_vectors > 1) {
        ASSERT_EQ(shared[range.begin], range.n);
      }
      ASSERT_EQ(range.begin, next);
      ASSERT_LE(range.n, layout.max_chunk());
      next += range.n;
      std::size_t left = range.n;
      layout.for_each_vector(range, [&](std::size_t v, Range part) {
        ASSERT_GT(part.n, 0u);
        ASSERT_EQ(part.begin, at[v]);
        at[v] += part.n;
        left -= part.n;
        const std::size_t first = v == 0 ? 0 : ends[v - 1];
        ASSERT_EQ((part.begin - first) % block, 0u) << "a block is not cut";
        for (std::size_t i = part.begin; i < part.begin + part.n; i += block) {
          numbers.push_back(layout.index_in(v, i));
          if (numbers.back() % block != 0) FAIL() << numbers.back() << " is no multiple of " << block;
        }
      });
      ASSERT_EQ(left, 0u);
    }
  ASSERT_TRUE(all_differ(numbers));
  ASSERT_EQ(next, ends.back());
  ASSERT_EQ(at, ends);
  if (whole) {
    ASSERT_EQ(layout.segments(), 1u);
  }
}

TEST(Layout, several_vectors_are_cut_at_their_own_blocks_and_covered) {
  const std::vector<std::vector<std::size_t>> all{{0},
                                                  {1},
                                                  {0, 0, 5, 5},
                                                  {10, 20, 30, 40},
                                                  {4096, 4096, 4097, 8192, 8192},
                                                  {7, 7000, 7001, 500000},
                                                  {1000000, 1000001},
                                                  {3, 2051, 2052, 4100}};
  for (const auto& ends : all)
    for (const int chunks : {1, 2, 3, 7, 64})
      for (const std::size_t block : {std::size_t{1}, std::size_t{32}, std::size_t{2048}})
        for (const bool whole : {false, true}) expect_vectors(ends, chunks, block, whole);
  std::vector<std::size_t> many;
  for (std::size_t i = 0, end = 0; i < 1000; ++i) many.push_back(end += i * i % 97);
  for (const int chunks : {1, 2, 5}) expect_vectors(many, chunks, 32, false);
}

// So many short vectors are one message to each other rank, not one for each of their blocks.
TEST(Layout, many_short_vectors_are_one_segment) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= 1000; ++i) ends.push_back(40 * i);
  EXPECT_EQ(Layout(ends, 2, 2048, 4, false).segments(), 1u);
}

// Who walks over the vectors of each shared chunk takes time in proportion to the vectors, not to their
// square.
TEST(Layout, a_chunk_of_many_vectors_is_found_once) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= 1000; ++i) ends.push_back(40 * i);
  for (const int chunks : {1, 2, 3}) {
    const Layout layout(ends, chunks, 32, 4, false);
    int calls = 0;
    std::size_t visits = 0;
    layout.for_each_shared_chunk([&](Range chunk) {
      ++calls;
      layout.for_each_vector(chunk, [&](std::size_t, Range) { ++visits; });
    });
    EXPECT_EQ(calls, chunks);
    EXPECT_GE(visits, ends.size());
    EXPECT_LT(visits, ends.size() + static_cast<std::size_t>(chunks)) << "a chunk may begin inside a vector";
  }
}

// What is shared is found without a walk over all chunks, of which there are 2^40 here.
TEST(Layout, vectors_beyond_the_memory_of_any_machine_are_cut_without_overflow) {
  const std::vector<std::size_t> ends{(std::size_t{1} << 50) + 3, (std::size_t{1} << 50) + 9,
                                      std::size_t{1} << 58};
  for (const int chunks : {1, 2, 1000}) {
    const Layout layout(ends, chunks, 2048, 4, false);
    const Range last = layout.chunk(layout.segments() - 1, static_cast<std::size_t>(chunks) - 1);
    EXPECT_EQ(last.begin + last.n, ends.back());
    EXPECT_LE(layout.max_chunk(), kChunkBytes / 4 + 2048);
    std::vector<std::size_t> of_each;
    layout.for_each_shared_chunk([&](Range chunk) {
      EXPECT_LE(chunk.n, layout.max_chunk());
      layout.for_each_vector(chunk, [&](std::size_t vector, Range) { of_each.push_back(vector); });
    });
    EXPECT_EQ(of_each, (std::vector<std::size_t>{0, 1, 2})) << "two ends in it, and it comes once";
  }
}

TEST(Layout, counts_beyond_the_memory_of_any_machine_are_cut_without_overflow) {
  for (const std::size_t count : {(std::size_t{1} << 31) + 1, (std::size_t{1} << 40) + 12345,
                                  (std::size_t{1} << 62) + 1, (std::size_t{1} << 63) - 1})
    for (const int chunks : {1, 2, 1000}) {
      const Layout layout(count, chunks, 2048, 4);
      std::size_t next = 0;
      for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
        for (int c = 0; c < chunks; ++c) {
          const Range range = layout.chunk(s, static_cast<std::size_t>(c));
          ASSERT_EQ(range.begin, next);
          ASSERT_LE(range.n, layout.max_chunk());
          next += range.n;
        }
      }
      const Range last = layout.chunk(layout.segments() - 1, static_cast<std::size_t>(chunks) - 1);
      EXPECT_EQ(last.begin + last.n, count);
      EXPECT_LE(layout.max_chunk(), kChunkBytes / 4);
    }
}

// Every element of a part is in one chunk of that part, blocks begin anew at each part, and numbers for
// random rounding are multiples of the block that no two blocks share.
void expect_parts(const std::vector<std::size_t>& counts, std::size_t block, std::size_t element_bytes) {
  std::vector<std::size_t> ends;
  for (const std::size_t n : counts) ends.push_back(n + (ends.empty() ? 0 : ends.back()));
  const Layout layout(ends, block, element_bytes);
  std::vector<std::size_t> blocks;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    std::size_t next = ends[p] - counts[p];
    ASSERT_EQ(layout.part(p).begin, next);
    ASSERT_EQ(layout.part(p).n, counts[p]);
    for (std::size_t s = 0; s < layout.segments(); ++s) {
      const Range range = layout.chunk(s, p);
      ASSERT_EQ(range.begin, next) << "part " << p << " block " << block;
      ASSERT_TRUE((range.begin - layout.part(p).begin) % block == 0 || range.n == 0);
      ASSERT_LE(range.n, layout.max_chunk());
      ASSERT_LE(range.n * element_bytes, std::max(kChunkBytes, block * element_bytes));
      next += range.n;
      const std::size_t index = layout.index(s, p);
      ASSERT_EQ(index % block, 0u);
      for (std::size_t b = 0; b * block < range.n; ++b) blocks.push_back(index / block + b);
    }
    ASSERT_EQ(next, ends[p]);
  }
  ASSERT_TRUE(all_differ(blocks)) << "block " << block;
}

TEST(Layout, parts_are_cut_each_by_itself) {
  for (const std::size_t block : {1, 32, 2048})
    for (const std::size_t n : {0, 1, 31, 32, 33, 2047, 2048, 2049, 70000, 300000}) {
      expect_parts({n}, block, 4);
      expect_parts({n, n, n}, block, 4);
      expect_parts({0, n, 0, 5, 2 * n + 1, 0}, block, 8);
    }
  const std::vector<std::size_t> none(4);
  EXPECT_EQ(Layout(none, 32, 4).segments(), 1u) << "a segment without elements";
  EXPECT_EQ(Layout(none, 32, 4).max_chunk(), 0u);
  const std::size_t huge = std::size_t{1} << 57;
  const std::vector<std::size_t> ends{huge, 2 * huge - 3};
  const Layout layout(ends, 2048, 4);
  EXPECT_EQ(layout.chunk(layout.segments() - 1, 1).begin + layout.chunk(layout.segments() - 1, 1).n, ends[1]);
}

}  // namespace
}  // namespace mq::test
