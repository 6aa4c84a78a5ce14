#include "sparse_allreduce/configuration_lists.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sparse_allreduce/positions.hpp"

namespace mq::sparse {

Map ConfigurationLists::kept(Map map) {
  const std::span<std::uint32_t> copy = kylix_.memory.take<std::uint32_t>(map.size());
  std::copy(map.begin(), map.end(), copy.begin());
  return copy;
}

Indices ConfigurationLists::kept(Indices list) {
  const std::span<std::uint64_t> copy = kylix_.memory.take<std::uint64_t>(list.size());
  std::copy(list.begin(), list.end(), copy.begin());
  return copy;
}

void ConfigurationLists::begin(const IndexSet& out, std::size_t out_given, const IndexSet& in,
                               std::size_t in_given, const std::byte* values) {
  out_ = out.indices;
  in_ = in.indices;
  with_values_ = values != nullptr;
  values_ = with_values_ ? in_order(settings_.entry, out, values, scratch_) : nullptr;
  kylix_.layers.clear();
  kylix_.memory.reset();
  kylix_.out_set = out.indices.size();
  kylix_.in_set = in.indices.size();
  kylix_.out_given = out_given;
  kylix_.in_given = in_given;
  kylix_.out_position = kept(out.position);
  kylix_.in_position = kept(in.position);
  kylix_.lists_kept = settings_.keep_lists;
  kylix_.out_list = settings_.keep_lists ? kept(out.indices) : Indices{};
  kylix_.in_list = settings_.keep_lists ? kept(in.indices) : Indices{};
  if (settings_.replicas == 1) return;
  for (const std::uint64_t index : out.indices) lists_hash_ = hash_of(lists_hash_ + index);
  lists_hash_ = hash_of(lists_hash_ + 1);
  for (const std::uint64_t index : in.indices) lists_hash_ = hash_of(lists_hash_ + index);
}

void ConfigurationLists::set_bounds(std::vector<std::uint64_t> bounds, std::span<const int> degrees) {
  std::uint64_t hash = 0;
  for (const int degree : degrees) hash = hash_of(hash + static_cast<std::uint64_t>(degree));
  for (const std::uint64_t bound : bounds) hash = hash_of(hash + bound);
  bounds_ = std::move(bounds);
  bounds_hash_ = static_cast<std::uint32_t>(hash) & ~1u;
}

void ConfigurationLists::cut(const Stage& stage, Layer& to, std::span<Link> links, std::span<Header> sent) {
  std::size_t out_at = 0, in_at = 0;
  for (std::size_t j = 0; j < links.size(); ++j) {
    const std::uint64_t high = bounds_[static_cast<std::size_t>(stage.cuts[j + 1])];
    const auto end_of = [&](Indices list, std::size_t from) {
      return static_cast<std::size_t>(
          std::lower_bound(list.begin() + static_cast<std::ptrdiff_t>(from), list.end(), high) -
          list.begin());
    };
    Part& part = to.parts[j];
    part.out_begin = out_at;
    part.in_begin = in_at;
    out_at = end_of(out_, out_at);
    in_at = end_of(in_, in_at);
    part.out_count = out_at - part.out_begin;
    part.in_count = in_at - part.in_begin;
    const Indices out = out_.subspan(part.out_begin, part.out_count);
    const Indices in = in_.subspan(part.in_begin, part.in_count);
    Link& link = links[j];
    link.same = std::equal(out.begin(), out.end(), in.begin(), in.end());
    if (j != stage.me) {
      write(link, part, out, in, sent[j]);
    } else {
      link.out = out;
      link.in = in;
      link.values = with_values_ ? values_ + part.out_begin * settings_.entry.bytes() : nullptr;
    }
  }
}

// Layout of a payload: the out values, padded to 8 bytes; the length of the encoded out positions (8 bytes);
// the out positions; the in positions, unless they equal the out positions.
void ConfigurationLists::write(Link& link, const Part& part, Indices out, Indices in, Header& header) {
  header.counts[0] = out.size();
  header.counts[1] = in.size();
  header.format = bounds_hash_ | (link.same ? 1u : 0u);
  if (out.empty() && in.empty()) return;
  const std::size_t values = value_bytes(out.size());
  link.wire_out = scratch_.take<std::byte>(values + sizeof(std::uint64_t) + positions_bound(out.size()) +
                                           (link.same ? 0 : positions_bound(in.size())));
  std::byte* at = link.wire_out.data();
  if (with_values_ && !out.empty()) {
    const std::size_t entry = settings_.entry.bytes(), bytes = out.size() * entry;
    std::memcpy(at, values_ + part.out_begin * entry, bytes);
    std::memset(at + bytes, 0, values - bytes);
  }
  at += values + sizeof(std::uint64_t);
  const std::uint64_t out_bytes = encode_positions(out, at);
  std::memcpy(at - sizeof out_bytes, &out_bytes, sizeof out_bytes);
  at += out_bytes;
  if (!link.same) at += encode_positions(in, at);
  link.wire_out = link.wire_out.first(static_cast<std::size_t>(at - link.wire_out.data()));
  header.payload_bytes = link.wire_out.size();
}

std::size_t ConfigurationLists::value_bytes(std::size_t count) const {
  return with_values_ ? (count * settings_.entry.bytes() + 7) / 8 * 8 : 0;
}

// One end of this rank's own range. A rank without bounds has a local error; it accepts every index.
std::uint64_t ConfigurationLists::bound(const Stage& stage, std::size_t side) const {
  if (bounds_.empty()) return side == 0 ? 0 : kIndexLimit;
  return bounds_[static_cast<std::size_t>(stage.cuts[stage.me + side])];
}

Status ConfigurationLists::check_counts(const Stage& stage, const Header& header, int peer) const {
  const std::uint64_t out = header.counts[0], in = header.counts[1];
  const std::uint64_t range = bound(stage, 1) - bound(stage, 0);
  const bool same = header.format % 2 != 0, empty = out == 0 && in == 0;
  bool sane = out <= kMostIndices && in <= kMostIndices && out <= range && in <= range &&
              (!same || out == in) && empty == (header.payload_bytes == 0);
  if (sane && !empty) {
    const std::uint64_t least = value_bytes(out) + sizeof(std::uint64_t);
    sane = header.payload_bytes <= kMostMessageBytes && header.payload_bytes >= least &&
           header.payload_bytes <= least + positions_bound(out) + (same ? 0 : positions_bound(in));
  }
  if (!sane)
    return status_of(Code::bad_frame,
                     [&] { return "rank " + std::to_string(peer) + " announced impossible index lists"; });
  if (!bounds_.empty() && (header.format & ~1u) != bounds_hash_)
    return status_of(Code::bad_frame,
                     [&] { return "rank " + std::to_string(peer) + " cut the index space differently"; });
  return {};
}

bool ConfigurationLists::read(const Stage& stage, const Header& header, Link& link) {
  const std::uint64_t low = bound(stage, 0), high = bound(stage, 1);
  if (link.got != link.wire_in.size()) return false;
  const std::size_t values = value_bytes(header.counts[0]);
  link.same = header.format % 2 != 0;
  link.values = link.wire_in.data();
  std::uint64_t out_bytes = 0;
  std::memcpy(&out_bytes, link.wire_in.data() + values, sizeof out_bytes);
  const std::span<const std::byte> positions = link.wire_in.subspan(values + sizeof out_bytes);
  if (out_bytes > positions.size() || (link.same && out_bytes != positions.size())) return false;
  const std::span<std::uint64_t> out = scratch_.take<std::uint64_t>(header.counts[0]);
  if (!decode_positions(positions.first(out_bytes), low, high, out)) return false;
  link.out = link.in = out;
  if (link.same) return true;
  const std::span<std::uint64_t> in = scratch_.take<std::uint64_t>(header.counts[1]);
  link.in = in;
  return decode_positions(positions.subspan(out_bytes), low, high, in);
}

Status ConfigurationLists::merge(Layer& to, std::span<const Link> links) {
  bool same = true;
  for (const Link& link : links) same = same && (link.same || (link.out.empty() && link.in.empty()));
  out_ = union_of_links(to, links, &Link::out, &Source::out);
  if (same)
    for (Source& source : to.sources) source.in = source.out;
  in_ = same ? out_ : union_of_links(to, links, &Link::in, &Source::in);
  if (out_.size() > kMostIndices || in_.size() > kMostIndices)
    return {Code::bad_argument, "more than 2^32 - 2 indices in a rank's part: use more ranks"};
  if (!with_values_) return {};
  const std::span<std::byte> values = scratch_.take<std::byte>(out_.size() * settings_.entry.bytes());
  fill_identity(settings_.entry, values.data(), out_.size());
  for (std::size_t j = 0; j < links.size(); ++j)
    combine(settings_.entry, links[j].values, to.sources[j].out, 0, values.data());
  values_ = values.data();
  return {};
}

Indices ConfigurationLists::union_of_links(Layer& to, std::span<const Link> links, Indices Link::*list,
                                           Map Source::*map) {
  std::vector<Indices> lists;
  std::vector<std::span<std::uint32_t>> maps;
  for (const Link& link : links) {
    lists.push_back(link.*list);
    maps.push_back(kylix_.memory.take<std::uint32_t>((link.*list).size()));
  }
  const Indices all = index_union(lists, maps, scratch_);
  for (std::size_t j = 0; j < links.size(); ++j) to.sources[j].*map = maps[j];
  return all;
}

void ConfigurationLists::finish() {
  kylix_.bottom_out = out_.size();
  kylix_.bottom_in = in_.size();
  const std::span<std::uint32_t> bottom = kylix_.memory.take<std::uint32_t>(in_.size());
  if (in_.data() == out_.data() && in_.size() == out_.size())
    std::iota(bottom.begin(), bottom.end(), 0u);
  else
    locate(in_, out_, bottom);
  kylix_.bottom = bottom;
}

}  // namespace mq::sparse
