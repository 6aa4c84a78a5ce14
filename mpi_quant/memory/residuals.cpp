#include "mpi_quant/memory/residuals.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mq {
namespace {

template <class T>
void add_to(std::byte* to, const std::byte* from, std::size_t bytes) {
  auto* const sums = reinterpret_cast<T*>(to);
  const auto* const terms = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) sums[i] += terms[i];
}

}  // namespace

// The memory is gone if the program has reset its device.
Status Residuals::Entry::still_there() const {
  if (on_device.data() == nullptr) return {};
  Where now;
  MQ_TRY(on_device.api()->where(on_device.data(), now));
  if (now.memory == Memory::device && now.device == on_device.device()) return {};
  return {Code::device_failed,
          "the residual is gone with the GPU's context (cudaDeviceReset?): it starts at zero again"};
}

void Residuals::Entry::free_memory() noexcept {
  buffer = Buffer();
  on_device = DeviceBuffer();
}

void Residuals::Entry::restart() noexcept {
  free_memory();
  version = calls_since_exact = calls_skipped = 0;
}

void Residuals::Entry::end_estimates() noexcept {
  if (!has_estimates()) return;
  if (on_device.data() != nullptr || buffer.data() == nullptr) return restart();
  std::memset(buffer.data(), 0, bytes());
  version = calls_since_exact = calls_skipped = 0;
}

Status Residuals::Entry::set_aside() {
  end_estimates();
  if (data() == nullptr) return {};
  MQ_TRY(take_back());
  MQ_TRY(move_to_host());
  std::swap(aside, buffer);
  held = Held(2 * bytes());
  return {};
}

Status Residuals::Entry::extend(std::size_t n_arrays) {
  if (arrays >= n_arrays) return {};
  MQ_TRY(take_back());
  MQ_TRY(move_to_host());
  Buffer longer;
  if (!longer.allocate_zeroed(n_arrays * array_bytes()))
    return {Code::no_memory,
            "no memory for " + std::to_string(n_arrays * array_bytes()) + " bytes of a residual"};
  std::memcpy(longer.data(), buffer.data(), bytes());
  std::swap(buffer, longer);
  if (agreed_arrays == 0) agreed_arrays = arrays;
  arrays = n_arrays;
  held = Held(bytes());
  return {};
}

void Residuals::Entry::shrink() noexcept {
  if (agreed_arrays == 0) return;
  arrays = std::exchange(agreed_arrays, 0);
  held = Held(bytes());
}

Status Residuals::Entry::take_back() {
  if (aside.data() == nullptr) return {};
  Buffer waiting;
  std::swap(waiting, aside);
  held = Held(bytes());
  end_estimates();
  if (data() == nullptr) {
    std::swap(buffer, waiting);
    return {};
  }
  MQ_TRY(move_to_host());
  if (residual_element() == kernels::Element::f64)
    add_to<double>(buffer.data(), waiting.data(), array_bytes());
  else
    add_to<float>(buffer.data(), waiting.data(), array_bytes());
  return {};
}

Status Residuals::Entry::move_to(const DeviceApi* api, Device* device) {
  if (Status lost = still_there(); !lost.ok()) {
    restart();
    return lost;
  }
  if (data() != nullptr && on_device.device() == device) return {};
  const auto explained = [&](const Status& status) {
    return status_of(status.code(), [&] { return "the residual cannot be moved: " + status.text(); });
  };
  Buffer on_host;
  DeviceBuffer there;
  std::byte* to = nullptr;
  if (device == nullptr) {
    if (!on_host.allocate_zeroed(bytes()))
      return {Code::no_memory, "no memory for " + std::to_string(bytes()) + " bytes of a residual"};
    to = on_host.data();
  } else {
    if (const Status status = there.allocate_zeroed(*api, device, bytes()); !status.ok())
      return explained(status);
    to = there.data();
  }
  if (data() != nullptr) {
    const DeviceApi& copier = device != nullptr ? *api : *on_device.api();
    Device* const at = device != nullptr ? device : on_device.device();
    if (const Status status = copy_now(copier, at, to, data(), bytes()); !status.ok())
      return explained(status);
  }
  free_memory();
  std::swap(buffer, on_host);
  std::swap(on_device, there);
  return {};
}

Status Residuals::Entry::fetch(void* to, std::size_t first, std::size_t n) const {
  MQ_TRY(still_there());
  if (data() == nullptr) {
    Buffer zeros;
    if (!zeros.allocate_zeroed(n)) return {Code::no_memory, "no memory for zeros"};
    return copy_now(to, zeros.data(), n);
  }
  if (on_device.data() != nullptr)
    return copy_now(*on_device.api(), on_device.device(), to, data() + first, n);
  return copy_now(to, data() + first, n);
}

Result<Residuals::Entry> Residuals::make(std::string_view key, std::size_t count, kernels::Element element,
                                         std::size_t arrays, const DeviceApi* api, Device* device) {
  const std::size_t size = arrays * kernels::element_bytes(kernels::compute_element(element));
  Buffer buffer;
  DeviceBuffer on_device;
  Status made;
  if (count > SIZE_MAX / size || (device == nullptr && !buffer.allocate_zeroed(count * size)))
    made = {Code::no_memory, "out of memory"};
  else if (device != nullptr)
    made = on_device.allocate_zeroed(*api, device, count * size);
  if (!made.ok())
    return Status{made.code(), "no memory for the residual of mpiq_key \"" + users_key(key) + "\", " +
                                   std::to_string(count) + " " + std::string(name(element)) + ": " +
                                   made.text()};
  return Entry{element, count, std::move(buffer), std::move(on_device), Held(count * size), arrays};
}

Result<Residuals::Entry*> Residuals::acquire(std::string_view key, std::size_t count,
                                             kernels::Element element, std::size_t arrays,
                                             const DeviceApi* api, Device* device) {
  if (Entry* const known = find(key)) {
    if (known->count == count && known->element == element) {
      if (known->users == 0) MQ_TRY(known->extend(arrays));
      return known;
    }
    return Status{Code::bad_argument, "mpiq_key \"" + users_key(key) + "\" belongs to " +
                                          std::to_string(known->count) + " " +
                                          std::string(name(known->element)) + ", not to " +
                                          std::to_string(count) + " " + std::string(name(element))};
  }
  Result<Entry> entry = make(key, count, element, arrays, api, device);
  if (!entry.ok()) return entry.status();
  return &entries_.emplace(key, std::move(*entry)).first->second;
}

Residuals::Entry* Residuals::find(std::string_view key) {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
}

void Residuals::replace(Map fresh) noexcept {
  while (!fresh.empty()) {
    auto node = fresh.extract(fresh.begin());
    if (Entry* const known = find(node.key()))
      *known = std::move(node.mapped());
    else
      entries_.insert(std::move(node));
  }
}

Status Residuals::idle(const char* key) const {
  const auto in_use = [](const Map::value_type& at) { return at.second.users > 0; };
  const auto at =
      key == nullptr ? std::find_if(entries_.begin(), entries_.end(), in_use) : entries_.find(key);
  if (at == entries_.end() || !in_use(*at)) return {};
  return {Code::bad_argument, "key \"" + users_key(at->first) + "\" is in use by a call in flight"};
}

void Residuals::drop(std::string_view key) {
  if (const auto at = entries_.find(key); at != entries_.end()) entries_.erase(at);
}

std::size_t Residuals::bytes() const {
  std::size_t sum = 0;
  for (const auto& [key, entry] : entries_)
    sum += entry.buffer.bytes() + entry.on_device.bytes() + entry.aside.bytes();
  return sum;
}

}  // namespace mq
