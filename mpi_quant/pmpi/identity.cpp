#include "mpi_quant/pmpi/identity.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mq {
namespace {

// The logarithm of nothing: of a part that is all zero.
constexpr double kLogOfZero = -1000;

template <class T>
double log_rms(const T* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum == 0 ? kLogOfZero : 0.5 * std::log(sum / static_cast<double>(n));
}

std::string text_of(std::uint64_t number, int base) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), number, base).ptr};
}

}  // namespace

Profile Profile::of(const std::byte* x, std::size_t n, kernels::Element element) {
  constexpr std::size_t kMost = 2048;
  const auto take = [&]<class T>(const T* values) {
    Profile profile;
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t begin = n * part / kParts, end = n * (part + 1) / kParts;
      double& log = profile.log_rms_[part];
      log = begin < end ? log_rms(values + begin, std::min(end - begin, kMost)) : kLogOfZero;
      profile.finite_ = profile.finite_ && std::isfinite(log);
    }
    return profile;
  };
  if (element == kernels::Element::f64) return take(reinterpret_cast<const double*>(x));
  if (element == kernels::Element::f32) return take(reinterpret_cast<const float*>(x));
  return {};  // half types have no names in MPI, so no unmodified program brings any
}

double Profile::distance(const Profile& other) const {
  double sum = 0;
  for (std::size_t i = 0; i < kParts; ++i)
    sum += std::min(std::abs(log_rms_[i] - other.log_rms_[i]), kFarApart);
  return sum / kParts;
}

void Profile::approach(const Profile& newer) {
  for (std::size_t i = 0; i < kParts; ++i) log_rms_[i] += 0.25 * (newer.log_rms_[i] - log_rms_[i]);
}

// The names that are made up begin with a character that keys of programs hardly have.
std::string Identities::name_of(Identity by, const Sender& sender) {
  if (step_ != sender.step) {
    step_ = sender.step;
    position_ = 0;
  }
  const std::uint64_t position = position_++;
  if (by == Identity::off) return "";
  if (!sender.key.empty()) return std::string(sender.key.substr(0, Key::kMax));
  if (by == Identity::address)
    return "~address:" + text_of(reinterpret_cast<std::uintptr_t>(sender.input), 16) + ":" +
           text_of(sender.count, 10) + ":" + std::string(kernels::name(sender.element));
  if (by == Identity::sequence && sender.step > 0) return "~sequence:" + text_of(position, 10);
  return "";
}

// The memory of this call is not what it was for the other places that it touches.
void Identities::disturb(const std::string& name, const Sender& sender) {
  const std::byte* const end = sender.input + sender.count * kernels::element_bytes(sender.element);
  for (auto& [other, place] : places_)
    if (other != name && place.begin < end && sender.input < place.end) place.disturbed = true;
}

// One of a few: a program whose buffers are new at every call would fill the memory with names.
Identities::Place& Identities::place_of(const std::string& name, Residuals& residuals) {
  if (places_.size() >= kMostPlaces && places_.find(name) == places_.end()) {
    const auto oldest = std::min_element(places_.begin(), places_.end(), [](const auto& a, const auto& b) {
      return a.second.last_call < b.second.last_call;
    });
    const Residuals::Entry* const entry = residuals.find(oldest->first);
    if (entry == nullptr || entry->users == 0) residuals.drop(oldest->first);
    places_.erase(oldest);
  }
  return places_[name];
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
  ++calls_;
  const std::string name = name_of(by, sender);
  disturb(name, sender);
  if (name.empty()) return {};
  if (!sender.key.empty()) by = Identity::key;
  const Profile profile = Profile::of(sender.input, sender.count, sender.element);
  if (!profile.finite()) return {{}, Feedback::not_finite};
  const Residuals::Entry* entry = residuals.find(name);
  if (entry != nullptr && entry->users > 0) return {{}, Feedback::overlap};  // by a request of the program's

  Place& place = place_of(name, residuals);
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
    if (residuals.bytes() + bytes > most_bytes || !residuals.acquire(name, sender.count, sender.element).ok())
      return {{}, Feedback::budget};
    if (sure) found.what = Feedback::fresh;  // known for long enough now
  }
  return found;
}

}  // namespace mq
