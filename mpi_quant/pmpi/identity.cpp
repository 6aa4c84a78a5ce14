#include "mpi_quant/pmpi/identity.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "mpi_quant/device_copy.hpp"

namespace mq {
namespace {

// The logarithm of nothing: of a part that is all zero.
constexpr double kLogOfZero = -1000;

std::string text_of(std::uint64_t number, int base) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), number, base).ptr};
}

}  // namespace

template <class T>
Profile::Part Profile::part_of(const T* x, std::size_t n) {
  if (n == 0) return {kLogOfZero, 0};
  constexpr std::size_t kSums = 8;  // side by side: an addition takes longer than it takes to begin the next
  std::array<double, kSums> sums{}, squares{};
  const auto add = [&](std::size_t k, double v) {
    sums[k] += std::abs(v);
    squares[k] += v * v;
  };
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::size_t k = 0; k < kSums; ++k) add(k, static_cast<double>(x[i + k]));
  for (; i < n; ++i) add(0, static_cast<double>(x[i]));
  double sum = 0, square = 0;
  for (std::size_t k = 0; k < kSums; ++k) {
    sum += sums[k];
    square += squares[k];
  }
  if (sum == 0) return {kLogOfZero, 0};
  const auto count = static_cast<double>(n);
  const double mean = sum / count, variance = std::max(square / count - mean * mean, 0.0);
  return {std::log(mean), std::sqrt(variance / count) / mean};
}

Profile Profile::of(const std::byte* x, std::size_t n, kernels::Element element) {
  const std::size_t most = std::clamp<std::size_t>(n / (4 * kParts), 128, 1024);
  const Result<Where> place = where(x);
  const bool on_host = place.ok() && place->memory == Memory::host;
  const auto take = [&]<class T>(const T* values) {
    Profile profile;
    profile.finite_ = place.ok();
    std::array<DevicePiece, kParts> pieces;
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t begin = n * part / kParts, end = n * (part + 1) / kParts;
      pieces[part] = {values + begin, std::min(end - begin, most) * sizeof(T)};
    }
    std::vector<T> copy;
    if (place.ok() && !on_host) {
      copy.resize(kParts * most);
      profile.finite_ =
          gather_now(*device_api(), place->device, reinterpret_cast<std::byte*>(copy.data()), pieces).ok();
    }
    const T* copied = copy.data();
    for (std::size_t part = 0; part < kParts && profile.finite_; ++part) {
      const std::size_t length = pieces[part].bytes / sizeof(T);
      profile.parts_[part] = part_of(on_host ? static_cast<const T*>(pieces[part].from) : copied, length);
      profile.finite_ = std::isfinite(profile.parts_[part].log_mean);
      if (!on_host) copied += length;
    }
    return profile;
  };
  if (element == kernels::Element::f64) return take(reinterpret_cast<const double*>(x));
  if (element == kernels::Element::f32) return take(reinterpret_cast<const float*>(x));
  return {};  // half types have no names in MPI, so no unmodified program brings any
}

double Profile::distance(const Profile& other) const {
  double sum = 0;
  int compared = 0, one_sided = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    const Part &a = parts_[i], &b = other.parts_[i];
    const bool has_a = a.log_mean != kLogOfZero, has_b = b.log_mean != kLogOfZero;
    compared += has_a && has_b;
    one_sided += has_a != has_b;
    if (!has_a || !has_b) continue;
    const double chance = std::min(a.chance + b.chance, kFarApart);
    sum += std::clamp(std::abs(a.log_mean - b.log_mean) - chance, 0.0, kFarApart);
  }
  if (compared > 0) return sum / compared;
  return one_sided > 0 ? kFarApart : 0;
}

void Profile::approach(const Profile& newer) {
  constexpr double kStep = 0.25;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (newer.parts_[i].log_mean == kLogOfZero) continue;
    if (parts_[i].log_mean == kLogOfZero) parts_[i] = newer.parts_[i];
    parts_[i].log_mean += kStep * (newer.parts_[i].log_mean - parts_[i].log_mean);
    parts_[i].chance = newer.parts_[i].chance;
  }
}

void Identities::begin_call(std::uint64_t step) {
  ++calls_;
  if (step_ != step) {
    step_ = step;
    next_position_ = 0;
  }
  position_ = next_position_++;
}

// The names that are made up begin with a character that keys of programs hardly have.
std::string Identities::name_of(Identity by, const Sender& sender) const {
  if (by == Identity::off) return "";
  if (!sender.key.empty()) return std::string(sender.key);
  if (by == Identity::address)
    return "~address:" + text_of(reinterpret_cast<std::uintptr_t>(sender.input), 16) + ":" +
           text_of(sender.count, 10) + ":" + std::string(kernels::name(sender.element));
  if (by == Identity::sequence && sender.step > 0) return "~sequence:" + text_of(position_, 10);
  return "";
}

Key Identities::held(Identity by, const Sender& sender, const Residuals& residuals) const {
  const auto entry = residuals.entries().find(name_of(by, sender));
  if (entry == residuals.entries().end() || entry->second.users > 0) return {};
  const bool fits = entry->second.count == sender.count && entry->second.element == sender.element;
  return fits ? Key(entry->first) : Key();
}

// The memory of this call is not what it was for the other addresses that it touches.
void Identities::disturb(const std::string& name, const Sender& sender) {
  const std::byte* const end = sender.input + sender.count * kernels::element_bytes(sender.element);
  for (auto& [other, place] : addresses_)
    if (other != name && place.begin < end && sender.input < place.end) place.disturbed = true;
}

// One of a few: a program whose buffers are new at every call would fill the memory with names.
Identities::Place& Identities::address_of(const std::string& name, Residuals& residuals) {
  if (addresses_.size() >= kMostAddresses && addresses_.find(name) == addresses_.end()) {
    const auto oldest = std::min_element(
        addresses_.begin(), addresses_.end(),
        [](const auto& a, const auto& b) { return a.second.last_call < b.second.last_call; });
    residuals.drop(oldest->first);  // no request has such a key
    addresses_.erase(oldest);
  }
  return addresses_[name];
}

Feedback Identities::doubt(const Place& place, Identity by, const Sender& sender,
                           const Profile& profile) const {
  if (place.uses == 0) return Feedback::fresh;
  if (place.count != sender.count || place.element != sender.element) return Feedback::shape;
  if (by == Identity::address && place.disturbed) return Feedback::overlap;
  if (by == Identity::address && calls_ - place.last_call > kTooOld) return Feedback::age;
  return place.profile.distance(profile) > Profile::kTooFar ? Feedback::profile : Feedback::hit;
}

Identities::Found Identities::identify(Identity by, const Sender& sender, Residuals& residuals,
                                       std::uint64_t most_bytes) {
  const std::string name = name_of(by, sender);
  disturb(name, sender);
  if (name.empty()) return {};
  if (!sender.key.empty()) by = Identity::key;
  const Profile profile = Profile::of(sender.input, sender.count, sender.element);
  if (!profile.finite()) return {{}, Feedback::not_finite};
  const Residuals::Entry* entry = residuals.find(name);
  if (entry != nullptr && entry->users > 0) return {{}, Feedback::overlap};  // by a request of the program's

  Place& place = by == Identity::address ? address_of(name, residuals) : keys_[name];
  Found found{Key(name), doubt(place, by, sender, profile), &place.flushed};
  // The program's own residual of this key is welcome.
  if (entry != nullptr && by == Identity::key && found.what == Feedback::fresh)
    found.what =
        entry->count == sender.count && entry->element == sender.element ? Feedback::hit : Feedback::shape;
  const bool sure = found.what == Feedback::hit;
  if (!sure) {
    residuals.drop(name);
    const std::uint64_t flushed = place.uses > 0 ? place.flushed : sender.flush;
    place = Place{};
    place.flushed = flushed;
  }
  place.count = sender.count;
  place.element = sender.element;
  if (by == Identity::address) {
    place.begin = sender.input;
    place.end = sender.input + sender.count * kernels::element_bytes(sender.element);
  }
  place.disturbed = false;
  place.last_call = calls_;
  ++place.uses;
  if (sure && place.uses > 1)
    place.profile.approach(profile);
  else
    place.profile = profile;
  if (by == Identity::address && place.uses <= kYoung)
    return {{}, sure || found.what == Feedback::fresh ? Feedback::recorded : found.what};
  if (residuals.find(name) == nullptr) {
    const std::size_t bytes = sender.count * kernels::element_bytes(kernels::compute_element(sender.element));
    if (Held::total() + bytes > most_bytes || !residuals.acquire(name, sender.count, sender.element).ok())
      return {{}, Feedback::budget};
    if (sure) found.what = Feedback::fresh;  // known for long enough now
  }
  return found;
}

}  // namespace mq
