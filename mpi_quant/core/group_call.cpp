#include "mpi_quant/core/group_call.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMostReals = MPI_Count{1} << 58;

Status bad_group(const GroupCall& group, const std::string& text) {
  return {Code::bad_argument, group.function + (": " + text)};
}
std::string number(const char* array, std::size_t i) {
  return std::string(array) + "[" + std::to_string(i) + "]";
}

Status add_vectors(const GroupArguments& given, GroupCall& group) {
  if (given.n < 0) return bad_group(group, "n " + std::to_string(given.n) + " is negative");
  if (given.n > 0 && given.recvbufs == nullptr) return bad_group(group, "recvbufs is NULL");
  if (given.n > 0 && given.counts == nullptr) return bad_group(group, "counts is NULL");
  const auto n = static_cast<std::size_t>(given.n);
  const auto each = static_cast<MPI_Count>(group.each);
  MPI_Count total = 0;
  Hash counts, keys;
  group.has_keys = given.keys != nullptr;
  group.vectors.reserve(n);
  group.ends.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const MPI_Count count = given.counts[i];
    if (count < 0)
      return bad_group(group, number("counts", i) + " " + std::to_string(count) + " is negative");
    if (count > (kMostReals - total) / each)
      return bad_group(group, "the vectors have more than 2^58 elements together");
    total += count * each;
    counts.add(static_cast<std::int64_t>(count * each));
    Key key;
    if (group.has_keys) {
      const std::string_view text = given.keys[i] != nullptr ? given.keys[i] : "";
      if (text.empty() || text.size() > Key::kMax)
        return bad_group(group,
                         number("keys", i) + " \"" + std::string(text) + "\" is not 1 to 63 characters");
      key = Key(text);
      keys.add(hash_of(text));
    }
    const void* const sendbuf = given.sendbufs != nullptr ? given.sendbufs[i] : MPI_IN_PLACE;
    group.vectors.push_back({sendbuf, given.recvbufs[i], static_cast<std::size_t>(count * each), key});
    group.ends.push_back(static_cast<std::size_t>(total));
  }
  counts.add(static_cast<std::int64_t>(n));
  group.hash = static_cast<std::uint32_t>(mixed(counts.value()));
  if (group.has_keys) group.key_hash = static_cast<std::uint32_t>(mixed(keys.value()) % 0xffffffffu) + 1;
  return {};
}

// Where a vector is in memory.
struct Place {
  std::uintptr_t begin, end;
  bool is_result;
};

// In the order of addresses, a vector may begin only where all results before it have ended, and a result
// only where all vectors before it have.
bool is_shared(std::vector<Place>& places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
  std::uintptr_t of_results = 0, of_all = 0;
  for (const Place& place : places) {
    if (place.begin < (place.is_result ? of_all : of_results)) return true;
    of_all = std::max(of_all, place.end);
    if (place.is_result) of_results = std::max(of_results, place.end);
  }
  return false;
}

Status check_keys(const GroupCall& group) {
  std::vector<std::string_view> keys;
  for (const GroupCall::Vector& vector : group.vectors) keys.push_back(vector.key.view());
  std::sort(keys.begin(), keys.end());
  const auto same = std::adjacent_find(keys.begin(), keys.end());
  return same == keys.end() ? Status{}
                            : bad_group(group, "key \"" + std::string(*same) + "\" names two vectors");
}

}  // namespace

Call group_call(const GroupArguments& given, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                GroupCall& group) {
  Call call{MPI_IN_PLACE, nullptr, 1, datatype, op, comm};
  call.group = &group;
  group.each = count_in_reals(call, Types::derived);
  group.error = add_vectors(given, group);
  call.count = !group.error.ok() ? -1 : group.ends.empty() ? 0 : static_cast<MPI_Count>(group.ends.back());
  return call;
}

Call call_of(const Call& call, std::size_t vector) {
  const GroupCall::Vector& of = call.group->vectors[vector];
  Call one = call;
  one.group = nullptr;
  one.sendbuf = of.sendbuf;
  one.recvbuf = of.recvbuf;
  one.count = static_cast<MPI_Count>(of.n);
  one.given.count = static_cast<MPI_Count>(of.n / call.group->each);
  return one;
}

Status check_group(const Call& call, std::optional<kernels::Element> element) {
  if (call.group->is_checked) return {};
  const std::size_t width = element ? kernels::element_bytes(*element) : 0;
  std::vector<Place> places;
  for (std::size_t i = 0; i < call.group->vectors.size(); ++i) {
    const GroupCall::Vector& vector = call.group->vectors[i];
    if (vector.n == 0) continue;
    if (vector.sendbuf == nullptr) return bad_group(*call.group, number("sendbufs", i) + " is NULL");
    if (vector.recvbuf == nullptr) return bad_group(*call.group, number("recvbufs", i) + " is NULL");
    if (vector.recvbuf == MPI_IN_PLACE)
      return bad_group(*call.group, number("recvbufs", i) + " is MPI_IN_PLACE");
    if (!element) continue;
    for (const void* const p : {vector.input(), static_cast<const void*>(vector.recvbuf)}) {
      const Result<bool> there = is_on_device(p);
      if (!there.ok()) return there.status();
      if (*there) return bad_group(*call.group, "vector " + std::to_string(i) + " is not in host memory");
    }
    const auto place = [&](const void* p, bool is_result) {
      const auto begin = reinterpret_cast<std::uintptr_t>(p);
      places.push_back({begin, begin + vector.n * width, is_result});
    };
    if (vector.sendbuf != MPI_IN_PLACE) place(vector.sendbuf, false);
    place(vector.recvbuf, true);
  }
  if (is_shared(places)) return bad_group(*call.group, "a result shares memory with another vector");
  if (call.group->has_keys) MQ_TRY(check_keys(*call.group));
  call.group->is_checked = true;
  return {};
}

Status refuse_group(const GroupCall& group, const Method& method) {
  if (method.codec->measures(method.params) != kernels::Measures::nothing)
    return bad_group(
        group, std::string(method.codec->name) + " with these parameters measures a vector before each call");
  if (method.memory_rule().keeps_estimates)
    return bad_group(group,
                     "memory=" + std::string(method.memory_rule().name) + " keeps estimates of one vector");
  return {};
}

}  // namespace mq
