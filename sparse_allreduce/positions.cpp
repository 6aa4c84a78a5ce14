// Chooses the format of each part of a list, and walks over the blocks of a list.
//
// A segment is 2^16 positions, counted from the origin. A segment with 20 indices or more becomes a block of
// its own, in the cheapest of the formats u16, bitmap, runs, gaps and full. If formats differ by less than
// 1/16 in the bytes of positions and 4-byte values, the one that decodes fastest is taken, in this order:
// long runs, u16, bitmap, gaps.
//
// Other segments are joined with their neighbours in a table: those with fewer indices, and those with fewer
// than 128 indices for which u16 is best. What is too sparse for a table goes into wide32 blocks of up to
// 2^32 positions, and what is too sparse even for these into wide64 blocks.
#include "sparse_allreduce/positions.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "sparse_allreduce/position_reader.hpp"
#include "sparse_allreduce/sparse.hpp"

namespace mq::sparse {
namespace {

using namespace blocks;

constexpr std::size_t kHead = sizeof(Head);
constexpr std::size_t kMinOwnBlock = 20;  // fewer do not pay for a header of their own, whatever the format
constexpr std::size_t kMaxJoined = 128;   // a header adds less than 6 % to this many; a table counts in bytes
constexpr std::uint64_t kMaxJoinDistance = 8;            // greatest distance in segments within a table
constexpr std::uint64_t kWide = std::uint64_t{1} << 32;  // positions of a table or a wide32 block, at most
constexpr std::size_t kMostInBlock = std::numeric_limits<std::uint32_t>::max();

// Returns the position of the first index that is at least `limit`. indices[begin] must be below `limit`.
std::size_t end_below(std::span<const std::uint64_t> indices, std::size_t begin, std::uint64_t limit) {
  std::size_t step = 1;
  while (step < indices.size() - begin && indices[begin + step] < limit) {
    begin += step;
    step *= 2;
  }
  const std::size_t end = std::min(begin + step, indices.size());
  const auto from = indices.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
  const auto to = indices.begin() + static_cast<std::ptrdiff_t>(end);
  return static_cast<std::size_t>(std::lower_bound(from, to, limit) - indices.begin());
}

struct Plan {
  Format format;
  std::size_t bytes;
};

// Counts the runs and the size in gap bytes of indices in one segment.
void measure(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::size_t& runs,
             std::size_t& gap_bytes) {
  const auto skips = [](std::uint32_t gap) { return (gap + 1 + (gap >> 8)) >> 8; };  // gap / 255, gap < 2^16
  std::uint32_t breaks = 0, skipped = 0;
  for (std::size_t i = 1; i < n; ++i) {
    const auto gap = static_cast<std::uint32_t>(indices[i]) - static_cast<std::uint32_t>(indices[i - 1]) - 1;
    breaks += gap != 0;
    skipped += skips(gap);
  }
  runs = breaks + 1;
  gap_bytes = n + skipped + skips(static_cast<std::uint32_t>(indices[0] - base));
}

// Chooses the format for n >= kMinOwnBlock indices of one segment.
Plan plan_segment(const std::uint64_t* indices, std::size_t n, std::uint64_t base) {
  if (indices[n - 1] - indices[0] == n - 1) return {Format::full, 0};
  std::size_t runs = 0, gap_bytes = 0;
  measure(indices, n, base, runs, gap_bytes);
  const std::size_t words = (indices[n - 1] - base) / 64 - (indices[0] - base) / 64 + 1;
  const Plan plans[] = {
      {Format::runs, 4 * runs}, {Format::u16, 2 * n}, {Format::bitmap, 8 * words}, {Format::gaps, gap_bytes}};
  std::size_t least = plans[0].bytes;
  for (const Plan& plan : plans) least = std::min(least, plan.bytes);
  for (const Plan& plan : plans) {
    if (plan.format == Format::runs && plan.bytes > least && n < 8 * runs) continue;  // decodes slowly
    if (16 * (plan.bytes + 4 * n) <= 17 * (least + 4 * n)) return plan;
  }
  return plans[1];
}

class Encoder {
 public:
  Encoder(std::span<const std::uint64_t> indices, std::byte* wire, std::uint64_t origin)
      : indices_(indices), out_(wire), origin_(origin) {}

  std::byte* run() {
    for (std::size_t i = 0, end = 0; i < indices_.size(); i = end) {
      const std::uint64_t base = base_of(i);
      end = end_below(indices_, i, base + kSegment);
      const std::size_t n = end - i;
      const Plan plan = n < kMinOwnBlock ? Plan{Format::u16, 2 * n} : plan_segment(&indices_[i], n, base);
      if (plan.format == Format::u16 && n < kMaxJoined) {
        if (joined_ < i &&
            (base - base_of(i - 1) > kMaxJoinDistance * kSegment || base - base_of(joined_) >= kWide))
          close_table(i);
      } else {
        close_table(i);
        write_loose(i);
        write_segment(plan, i, n, base);
        loose_ = joined_ = end;
      }
    }
    close_table(indices_.size());
    write_loose(indices_.size());
    return out_;
  }

 private:
  std::uint64_t base_of(std::size_t i) const {
    return origin_ + ((indices_[i] - origin_) >> kSegmentBits << kSegmentBits);
  }
  std::byte* head(Format format, std::uint64_t base, std::size_t n, std::size_t extra) {
    return put_head(out_, format, base - origin_, n, extra);
  }

  void write_segment(const Plan& plan, std::size_t i, std::size_t n, std::uint64_t base) {
    const std::uint64_t* const at = &indices_[i];
    switch (plan.format) {
      case Format::full: return write_full(i, n, base);
      case Format::bitmap: {
        const std::size_t first = (at[0] - base) / 64, words = plan.bytes / 8;
        std::byte* const body = head(plan.format, base, n, first | (words - 1) << 16);
        bitmap_ops().make(at, n, base + 64 * first, body, words);
        out_ = body + plan.bytes;
        return;
      }
      case Format::runs: out_ = write_runs(at, n, base, head(plan.format, base, n, plan.bytes / 4)); return;
      case Format::gaps: out_ = write_gaps(at, n, base, head(plan.format, base, n, plan.bytes)); return;
      default: out_ = write_wide<std::uint16_t>(at, n, base, head(plan.format, base, n, 0)); return;
    }
  }
  void write_full(std::size_t i, std::size_t n, std::uint64_t base) {
    if (full_ != nullptr && full_end_ == i && indices_[i] == indices_[i - 1] + 1 &&
        full_count_ + n < kMostInBlock) {
      full_count_ += n;
    } else {
      full_ = out_;
      full_count_ = n;
      full_base_ = base;
      full_first_ = indices_[i] - base;
      out_ += kHead;
    }
    full_end_ = i + n;
    put_head(full_, Format::full, full_base_ - origin_, full_count_, full_first_);
  }

  // Makes a table of [joined_, end) if that saves enough; otherwise these indices join the loose ones before
  // them.
  void close_table(std::size_t end) {
    const std::size_t n = end - joined_;
    if (n >= kMinOwnBlock && n <= kMostInBlock) {
      const std::uint64_t base = base_of(joined_);
      const std::size_t segments = ((indices_[end - 1] - base) >> kSegmentBits) + 1;
      if (2 * kHead + segments + 2 * n <= 4 * n) {
        write_loose(joined_);
        const bool one = segments == 1;
        std::byte* const body = head(one ? Format::u16 : Format::table, base, n, one ? 0 : segments);
        const std::uint64_t* const at = &indices_[joined_];
        out_ = one ? write_wide<std::uint16_t>(at, n, base, body) : write_table(at, n, base, segments, body);
        loose_ = end;
      }
    }
    joined_ = end;
  }

  // Writes [loose_, end) as wide blocks. A wide32 block is worth while from 8 indices on: with its header and
  // the header of the block after it, it is then not larger than wide64.
  void write_loose(std::size_t end) {
    const std::span<const std::uint64_t> all = indices_.first(end);
    std::size_t wide = loose_;
    for (std::size_t i = loose_, next = 0; i < end; i = next) {
      const std::uint64_t base = base_of(i);
      next = std::min(end_below(all, i, base + kWide), i + kMostInBlock);
      if (next - i < 8 && !(wide == i && next == end)) continue;
      write_wide64(wide, i);
      out_ = write_wide<std::uint32_t>(&indices_[i], next - i, base, head(Format::wide32, base, next - i, 0));
      wide = next;
    }
    write_wide64(wide, end);
    loose_ = end;
  }
  void write_wide64(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin, n = 0; i < end; i += n) {
      n = std::min(end - i, kMostInBlock);
      out_ = write_wide<std::uint64_t>(&indices_[i], n, origin_, head(Format::wide64, origin_, n, 0));
    }
  }

  std::span<const std::uint64_t> indices_;
  std::byte* out_;
  std::uint64_t origin_;
  // Two ranges are not written yet. [loose_, joined_) will become wide blocks. [joined_, current index) may
  // become a table.
  std::size_t loose_ = 0, joined_ = 0;
  std::byte* full_ = nullptr;  // header of the last block if its format is full; the next lines describe it
  std::size_t full_count_ = 0, full_end_ = 0;
  std::uint64_t full_base_ = 0, full_first_ = 0;
};

bool ascends(std::span<const std::uint64_t> indices) {
  std::uint64_t wrong = indices[0];  // the top bit is the result
  for (std::size_t i = 1; i < indices.size(); ++i) wrong |= indices[i] | (indices[i] - indices[i - 1] - 1);
  return wrong >> 63 == 0;
}

// Size of a block's body. If the header is invalid, it is more than any input has.
std::size_t body_bytes(Format format, const Head& head) {
  const std::size_t n = head.count, extra = head.extra;
  constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  switch (format) {
    case Format::wide64: return head.base_and_format >> 8 || extra ? never : 8 * n;
    case Format::wide32: return extra ? never : 4 * n;
    case Format::table: return extra > kSegment ? never : extra + 2 * n;
    case Format::u16: return extra ? never : 2 * n;
    case Format::gaps: return extra;
    case Format::bitmap: return (extra & 0xffff) + (extra >> 16) < kWords ? 8 * ((extra >> 16) + 1) : never;
    case Format::runs: return 4 * extra;
    case Format::full: return extra < kSegment ? 0 : never;
  }
  return never;
}

}  // namespace

std::size_t encode_positions(std::span<const std::uint64_t> indices, std::byte* wire, std::uint64_t origin) {
  return static_cast<std::size_t>(Encoder(indices, wire, origin).run() - wire);
}

bool PositionReader::next(PositionBlock& block) {
  if (wire_.size() < kHead) return false;
  const auto head = load<Head>(wire_.data(), 0);
  const std::span<const std::byte> rest = wire_.subspan(kHead);
  if (head.count == 0 || head.count > left_ || (head.base_and_format & 0xff) >= kFormats) return false;
  const auto format = static_cast<Format>(head.base_and_format & 0xff);
  const std::uint64_t segment = head.base_and_format >> 8;
  if (high_ <= origin_ || segment > (high_ - 1 - origin_) >> kSegmentBits) return false;
  const std::size_t body = body_bytes(format, head);
  if (body > rest.size()) return false;
  block = {format, head.count, rest.data(), head.extra, origin_ + (segment << kSegmentBits)};
  wire_ = rest.subspan(body);
  left_ -= head.count;
  return true;
}

bool PositionReader::read(const PositionBlock& block, std::uint64_t* out) {
  const std::size_t n = block.count;
  const std::uint64_t base = block.base;
  bool sound = true;
  switch (block.format) {
    case Format::wide64: read_wide<std::uint64_t>(block.body, n, base, out), sound = ascends({out, n}); break;
    case Format::wide32: read_wide<std::uint32_t>(block.body, n, base, out), sound = ascends({out, n}); break;
    case Format::u16: read_wide<std::uint16_t>(block.body, n, base, out), sound = ascends({out, n}); break;
    case Format::table: sound = read_table(block.body, block.extra, n, base, out) && ascends({out, n}); break;
    case Format::gaps: sound = read_gaps(block.body, block.extra, n, base, out); break;
    case Format::bitmap:
      if (!accept_bitmap(block)) return false;
      bitmap_ops().list(block.body, block.words(), block.first_position(), out, n);
      return true;
    case Format::runs: sound = read_runs(block.body, block.extra, n, base, out); break;
    case Format::full: read_full(n, base + block.extra, out); break;
  }
  return sound && accept(out[0], out[n - 1]);
}

// The encoder never writes a zero word at either end of a bitmap.
bool PositionReader::accept_bitmap(const PositionBlock& block) {
  const std::size_t words = block.words();
  const auto bottom = load<std::uint64_t>(block.body, 0), top = load<std::uint64_t>(block.body, words - 1);
  if (bottom == 0 || top == 0 || bitmap_ops().count(block.body, words) != block.count) return false;
  const std::uint64_t first = block.first_position();
  return accept(first + static_cast<unsigned>(std::countr_zero(bottom)),
                first + 64 * words - 1 - static_cast<unsigned>(std::countl_zero(top)));
}

bool PositionReader::accept(std::uint64_t front, std::uint64_t back) {
  if (front < low_ || back >= high_) return false;
  low_ = back + 1;
  return true;
}

bool decode_positions(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high,
                      std::span<std::uint64_t> indices, std::uint64_t origin) {
  PositionReader reader(wire, low, high, indices.size(), origin);
  PositionBlock block;
  for (std::uint64_t* out = indices.data(); !reader.done(); out += block.count)
    if (!reader.next(block) || !reader.read(block, out)) return false;
  return true;
}

}  // namespace mq::sparse
