// The fake driver's memory. Device memory has no access rights but while an operation runs; freed memory
// never has again, and its addresses are not used a second time but where a test asks for it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/device/fake_cuda/state.hpp"

namespace mq::fake {
namespace {

bool is_hidden(Kind kind) { return kind == Kind::device || kind == Kind::pool; }

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// With a page without rights behind it.
CuResult map(std::size_t bytes, Kind kind, CuAddress& out) {
  Context* context = nullptr;
  if (const CuResult error = current(context); error != kSuccess) return error;
  if (const CuResult error = unsafe(); error != kSuccess) return error;
  if (bytes == 0) return kInvalidValue;
  const std::size_t page = page_bytes();
  Allocation a{bytes, (bytes + page - 1) / page * page, kind, context};
  void* p = std::exchange(state().place, nullptr);
  if (p == nullptr)
    p = mmap(nullptr, a.mapped_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return kOutOfMemory;
  if (!is_hidden(kind) || state().is_open) (void)mprotect(p, a.mapped_bytes, PROT_READ | PROT_WRITE);
  state().allocations[reinterpret_cast<std::uintptr_t>(p)] = a;
  out = reinterpret_cast<CuAddress>(p);
  return kSuccess;
}

bool is_pageable(CuAddress p) { return allocation_at(p) == state().allocations.end(); }

CuResult move(CuAddress to, CuAddress from, std::size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

// In the legacy stream, and done when it returns.
CuResult move_now(CuAddress to, CuAddress from, std::size_t bytes) {
  Stream* legacy = nullptr;
  if (const CuResult error = stream_of(nullptr, legacy); error != kSuccess) return error;
  if (!is_whole(to, bytes) || !is_whole(from, bytes)) return kInvalidValue;
  const CuResult result = enqueue(*legacy, [=] { return move(to, from, bytes); });
  return result == kSuccess ? drain(*legacy) : result;
}

CuResult fill(CuAddress p, unsigned char value, std::size_t bytes, Stream& stream) {
  if (is_pageable(p) || !is_whole(p, bytes)) return kInvalidValue;
  return enqueue(stream, [=] {
    std::memset(reinterpret_cast<void*>(p), value, bytes);
    return kSuccess;
  });
}

CuResult unmap(CuAddress p, bool (*has_kind)(Kind)) {
  State& s = state();
  const auto a = s.allocations.find(p);
  if (a == s.allocations.end() || !has_kind(a->second.kind)) return kInvalidValue;
  if (const CuResult error = unsafe(); error != kSuccess) return error;
  const CuResult result = drain(*a->second.context, false);
  release(a);
  return result;
}

}  // namespace

std::map<std::uintptr_t, Allocation>::iterator allocation_at(std::uintptr_t p) {
  auto& all = state().allocations;
  auto a = all.upper_bound(p);
  if (a == all.begin()) return all.end();
  --a;
  return p < a->first + a->second.bytes ? a : all.end();
}

bool is_whole(std::uintptr_t p, std::size_t bytes) {
  const auto a = allocation_at(p);
  const auto& all = state().allocations;
  if (a != all.end()) return bytes <= a->first + a->second.bytes - p;
  const auto next = all.upper_bound(p);
  return next == all.end() || p + bytes <= next->first;
}

void give_access(bool to_host) {
  State& s = state();
  if (s.is_open == to_host) return;
  s.is_open = to_host;
  for (const auto& [p, a] : s.allocations)
    if (is_hidden(a.kind))
      (void)mprotect(reinterpret_cast<void*>(p), a.mapped_bytes,
                     to_host ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void release(std::map<std::uintptr_t, Allocation>::iterator a) {
  if (a->second.kind != Kind::registered) {
    auto* const p = reinterpret_cast<void*>(a->first);
    (void)madvise(p, a->second.mapped_bytes, MADV_DONTNEED);
    (void)mprotect(p, a->second.mapped_bytes, PROT_NONE);
  }
  state().allocations.erase(a);
}

extern "C" {

CuResult cuPointerGetAttributes(unsigned n, int* attributes, void** data, CuAddress p) {
  Call call("cuPointerGetAttributes");
  Context* context = nullptr;
  if (call.result == kSuccess && !thread().stack.empty()) call.result = current(context);
  if (call.result != kSuccess) return call.result;
  const auto found = allocation_at(p);
  const Allocation* const a = found == state().allocations.end() ? nullptr : &found->second;
  for (unsigned i = 0; i < n; ++i) switch (attributes[i]) {
      case kPointerContext:
        *static_cast<void**>(data[i]) = a == nullptr || a->kind == Kind::pool ? nullptr : a->context;
        break;
      case kPointerMemoryType:
        *static_cast<unsigned*>(data[i]) = a == nullptr ? 0
                                           : a->kind == Kind::pinned || a->kind == Kind::registered
                                               ? kMemoryHost
                                               : kMemoryDevice;
        break;
      case kPointerIsManaged:
        *static_cast<unsigned*>(data[i]) = a != nullptr && a->kind == Kind::managed ? 1 : 0;
        break;
      case kPointerDeviceOrdinal:
        *static_cast<int*>(data[i]) = a == nullptr ? -2 : a->context->ordinal;
        break;
      default: return kInvalidValue;
    }
  return kSuccess;
}

CuResult cuMemAlloc_v2(CuAddress* p, std::size_t bytes) {
  Call call("cuMemAlloc_v2");
  return call.result == kSuccess ? map(bytes, Kind::device, *p) : call.result;
}

CuResult cuMemAllocManaged(CuAddress* p, std::size_t bytes, unsigned) {
  Call call("cuMemAllocManaged");
  return call.result == kSuccess ? map(bytes, Kind::managed, *p) : call.result;
}

CuResult cuMemAllocAsync(CuAddress* p, std::size_t bytes, CuStream) {
  Call call("cuMemAllocAsync");
  return call.result == kSuccess ? map(bytes, Kind::pool, *p) : call.result;
}

CuResult cuMemHostAlloc(void** p, std::size_t bytes, unsigned) {
  Call call("cuMemHostAlloc");
  CuAddress address = 0;
  if (call.result == kSuccess) call.result = map(bytes, Kind::pinned, address);
  if (call.result == kSuccess) *p = reinterpret_cast<void*>(address);
  return call.result;
}

CuResult cuMemFree_v2(CuAddress p) {
  Call call("cuMemFree_v2");
  if (call.result != kSuccess) return call.result;
  return unmap(p, [](Kind kind) { return kind != Kind::pinned && kind != Kind::registered; });
}

CuResult cuMemFreeAsync(CuAddress p, CuStream) {
  Call call("cuMemFreeAsync");
  return call.result == kSuccess ? unmap(p, [](Kind kind) { return kind == Kind::pool; }) : call.result;
}

CuResult cuMemFreeHost(void* p) {
  Call call("cuMemFreeHost");
  if (call.result != kSuccess) return call.result;
  return unmap(reinterpret_cast<CuAddress>(p), [](Kind kind) { return kind == Kind::pinned; });
}

CuResult cuMemHostRegister_v2(void* p, std::size_t bytes, unsigned) {
  Call call("cuMemHostRegister_v2");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  if (call.result == kSuccess)
    state().allocations[reinterpret_cast<std::uintptr_t>(p)] = {bytes, bytes, Kind::registered, context};
  return call.result;
}

CuResult cuMemHostUnregister(void* p) {
  Call call("cuMemHostUnregister");
  if (call.result == kSuccess) state().allocations.erase(reinterpret_cast<std::uintptr_t>(p));
  return call.result;
}

CuResult cuMemcpyAsync(CuAddress to, CuAddress from, std::size_t bytes, CuStream handle) {
  Call call("cuMemcpyAsync");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result != kSuccess) return call.result;
  if (!is_whole(to, bytes) || !is_whole(from, bytes)) return kInvalidValue;
  if (is_pageable(from)) {  // is read before the call returns
    const auto* const first = reinterpret_cast<const std::byte*>(from);
    const auto kept = std::make_shared<std::vector<std::byte>>(first, first + bytes);
    call.result =
        enqueue(*stream, [=] { return move(to, reinterpret_cast<CuAddress>(kept->data()), bytes); });
  } else {
    call.result = enqueue(*stream, [=] { return move(to, from, bytes); });
  }
  // Into pageable memory: the call returns when it is there.
  return call.result == kSuccess && is_pageable(to) && !stream->is_captured ? drain(*stream) : call.result;
}

CuResult cuMemcpy(CuAddress to, CuAddress from, std::size_t bytes) {
  Call call("cuMemcpy");
  return call.result == kSuccess ? move_now(to, from, bytes) : call.result;
}

CuResult cuMemcpyHtoD_v2(CuAddress to, const void* from, std::size_t bytes) {
  Call call("cuMemcpyHtoD_v2");
  if (call.result == kSuccess && is_pageable(to)) return kInvalidValue;
  return call.result == kSuccess ? move_now(to, reinterpret_cast<CuAddress>(from), bytes) : call.result;
}

CuResult cuMemcpyDtoH_v2(void* to, CuAddress from, std::size_t bytes) {
  Call call("cuMemcpyDtoH_v2");
  if (call.result == kSuccess && is_pageable(from)) return kInvalidValue;
  return call.result == kSuccess ? move_now(reinterpret_cast<CuAddress>(to), from, bytes) : call.result;
}

CuResult cuMemcpyDtoD_v2(CuAddress to, CuAddress from, std::size_t bytes) {
  Call call("cuMemcpyDtoD_v2");
  if (call.result == kSuccess && (is_pageable(to) || is_pageable(from))) return kInvalidValue;
  return call.result == kSuccess ? move_now(to, from, bytes) : call.result;
}

CuResult cuMemsetD8_v2(CuAddress p, unsigned char value, std::size_t bytes) {
  Call call("cuMemsetD8_v2");
  Stream* legacy = nullptr;
  if (call.result == kSuccess) call.result = stream_of(nullptr, legacy);
  return call.result == kSuccess ? fill(p, value, bytes, *legacy) : call.result;
}

CuResult cuMemsetD8Async(CuAddress p, unsigned char value, std::size_t bytes, CuStream handle) {
  Call call("cuMemsetD8Async");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  return call.result == kSuccess ? fill(p, value, bytes, *stream) : call.result;
}

}  // extern "C"

}  // namespace mq::fake

using namespace mq::fake;

bool fake_cuda_holds(const void* p) {
  const std::scoped_lock lock(state().mutex);
  const auto a = allocation_at(reinterpret_cast<CuAddress>(p));
  return a != state().allocations.end() && is_hidden(a->second.kind);
}

void fake_cuda_carry(void* to, const void* from, std::size_t bytes) {
  const std::scoped_lock lock(state().mutex);
  give_access(true);
  if (bytes > 0) std::memcpy(to, from, bytes);
  give_access(false);
}
