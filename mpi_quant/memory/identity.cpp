#include "mpi_quant/memory/identity.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "mpi_quant/base/hash.hpp"

namespace mq {
namespace {

std::string text_of(std::uint64_t number, int base) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), number, base).ptr};
}

// The key of one residual: several tensors may come in turn under one name, and each has its own.
std::string key_of(const std::string& name, std::size_t phase) {
  return phase == 0 ? name : name + "#" + text_of(phase, 10);
}

// Drops the residuals of all tensors under a name, except those that a request of the program uses.
void drop_all(const std::string& name, Residuals& residuals) {
  for (std::size_t phase = 0; phase < Recognizer::kMostPeriod; ++phase)
    if (const std::string key = key_of(name, phase); residuals.idle(key.c_str()).ok()) residuals.drop(key);
}

std::size_t residual_bytes(const Sender& sender) {
  return sender.kept() * sender.arrays * kernels::element_bytes(kernels::compute_element(sender.element));
}

bool fits(const Residuals::Entry& entry, const Sender& sender) {
  return entry.count == sender.kept() && entry.element == sender.element;
}

}  // namespace

void Identities::begin_call(std::uint64_t step) {
  ++calls_;
  if (step_ != step) {
    step_ = step;
    next_position_ = 0;
  }
  position_ = next_position_++;
}

// Invented names begin with a character that a program's keys hardly ever have.
std::string Identities::name_of(Identity by, const Sender& sender) const {
  if (by == Identity::off) return "";
  if (sender.gathers) {
    Sender sums = sender;
    sums.gathers = false;
    const std::string name = name_of(by, sums);
    // Its hash, because a key of the program may be as long as a name can be.
    return name.empty()
               ? name
               : std::string(sender.mirrored > 0 ? kMirrorKey : kGatherKey) + text_of(hash_of(name), 16);
  }
  if (!sender.key.empty()) return std::string(sender.key);
  if (by == Identity::address)
    return std::string(kAddressKey) + text_of(reinterpret_cast<std::uintptr_t>(sender.input), 16) + ":" +
           text_of(sender.count, 10) + ":" + std::string(kernels::name(sender.element));
  if (by == Identity::sequence && sender.step > 0) return std::string(kSequenceKey) + text_of(position_, 10);
  return "";
}

Key Identities::held(Identity by, const Sender& sender, const Residuals& residuals) const {
  const std::string name = name_of(by, sender);
  std::size_t period = 1, phase = 0;
  if (sender.key.empty()) {
    const auto at = places_.find(name);
    if (at == places_.end()) return {};
    period = at->second.recognizer.period();  // 0: not confirmed, so no call may use the residual yet
    phase = at->second.recognizer.next_phase();
  }
  // If tensors come in turn: the next one whose residual still exists.
  for (std::size_t i = 0; i < period; ++i) {
    const auto entry = residuals.entries().find(key_of(name, (phase + i) % period));
    if (entry == residuals.entries().end()) continue;
    return entry->second.users == 0 && fits(entry->second, sender) ? Key(entry->first) : Key();
  }
  return {};
}

// Keeps a limited number of names. Otherwise a program with new buffers at every call would fill the memory.
Identities::KnownVector& Identities::vector_of(const std::string& name, const Sender& sender,
                                               Residuals& residuals) {
  if (places_.size() >= kMostPlaces && places_.find(name) == places_.end()) {
    const auto oldest = std::min_element(places_.begin(), places_.end(), [](const auto& a, const auto& b) {
      return a.second.last_call < b.second.last_call;
    });
    drop_all(oldest->first, residuals);  // no request of the program has such a key
    places_.erase(oldest);
  }
  const auto [at, made] = places_.try_emplace(name);
  KnownVector& vector = at->second;
  if (made) {
    vector.count = sender.count;
    vector.kept = sender.kept();
    vector.element = sender.element;
    vector.flushed.fill(sender.flush);
  }
  vector.arrays = sender.arrays;
  vector.last_call = calls_;
  return vector;
}

// Makes room for the residual of a confirmed name. It drops residuals that wait for a confirmation.
bool Identities::make_room(std::size_t bytes, const std::string& name, Residuals& residuals,
                           std::uint64_t most_bytes) {
  for (auto at = places_.begin(); at != places_.end() && Held::total() + bytes > most_bytes; ++at)
    if (at->first != name && at->second.recognizer.period() == 0 && residuals.idle(at->first.c_str()).ok())
      residuals.drop(at->first);
  return Held::total() + bytes <= most_bytes;
}

// Bytes that a rule of so many arrays needs beside those that the key has.
std::size_t missing_bytes(const Residuals::Entry& entry, std::size_t arrays) {
  return entry.arrays < arrays ? (arrays - entry.arrays) * entry.array_bytes() : 0;
}

Identities::Found Identities::promised(const std::string& name, const Residuals::Entry* entry,
                                       const Sender& sender, Residuals& residuals, std::uint64_t most_bytes) {
  FeedbackOutcome what = FeedbackOutcome::fresh;
  // The key may have a residual already, from a request of the program. The call uses it.
  if (entry != nullptr) {
    what = fits(*entry, sender) ? FeedbackOutcome::hit : FeedbackOutcome::shape;
    const std::size_t missing = missing_bytes(*entry, sender.arrays);
    if (what == FeedbackOutcome::shape)
      residuals.drop(name);
    else if (missing > 0 && !make_room(missing, name, residuals, most_bytes))
      return {{}, FeedbackOutcome::budget};
  }
  if (what != FeedbackOutcome::hit &&
      (!make_room(residual_bytes(sender), name, residuals, most_bytes) ||
       !residuals.acquire(name, sender.kept(), sender.element, sender.arrays).ok()))
    return {{}, FeedbackOutcome::budget};
  return {Key(name), what, &promised_.try_emplace(name, sender.flush).first->second};
}

Identities::Found Identities::judge(KnownVectors::value_type& at, const Sketch& sketch, Residuals& residuals,
                                    std::uint64_t most_bytes) {
  auto& [name, vector] = at;
  const Recognizer::Finding finding = vector.recognizer.judge(sketch);
  const bool believed = vector.recognizer.period() > 0;
  if (finding.match == Recognizer::Match::stranger) return {{}, FeedbackOutcome::stranger};
  if (finding.match == Recognizer::Match::lost) {
    drop_all(name, residuals);
    return {{}, FeedbackOutcome::stranger};
  }
  const std::string key = key_of(name, finding.phase);
  if (finding.match == Recognizer::Match::alone) residuals.drop(name);
  // The residual holds what several tensors left out before they were told apart. It belongs to none of them.
  if (finding.match == Recognizer::Match::confirmed && vector.recognizer.period() > 1)
    drop_all(name, residuals);
  Residuals::Entry* const entry = residuals.find(key);
  const Found without{{}, believed ? FeedbackOutcome::budget : FeedbackOutcome::unconfirmed};
  const std::size_t bytes =
      vector.kept * vector.arrays * kernels::element_bytes(kernels::compute_element(vector.element));
  std::uint64_t* const flushed = believed ? &vector.flushed[finding.phase] : nullptr;
  if (entry == nullptr) {
    const bool has_room =
        believed ? make_room(bytes, name, residuals, most_bytes) : Held::total() + bytes <= most_bytes;
    if (!has_room || !residuals.acquire(key, vector.kept, vector.element, vector.arrays).ok()) return without;
    return {Key(key), believed ? FeedbackOutcome::fresh : FeedbackOutcome::unconfirmed, flushed};
  }
  if (entry->users > 0) return {{}, FeedbackOutcome::in_use};
  const std::size_t missing = missing_bytes(*entry, vector.arrays);
  if (believed && missing > 0 && !make_room(missing, name, residuals, most_bytes)) return without;
  const bool has_room = believed || entry->aside.data() != nullptr || Held::total() + bytes <= most_bytes;
  if (entry->count != vector.kept || entry->element != vector.element || !has_room ||
      !(believed ? entry->take_back() : entry->set_aside()).ok()) {
    residuals.drop(key);
    return without;
  }
  return {Key(key), believed ? FeedbackOutcome::hit : FeedbackOutcome::unconfirmed, flushed};
}

Identities::Found Identities::recognised(const std::string& name, const Sender& sender, Residuals& residuals,
                                         std::uint64_t most_bytes) {
  KnownVector& vector = vector_of(name, sender, residuals);
  if (vector.count != sender.count || vector.kept != sender.kept() || vector.element != sender.element) {
    drop_all(name, residuals);
    places_.erase(name);
    (void)vector_of(name, sender, residuals);
    return {{}, FeedbackOutcome::shape};
  }
  if (vector.recognizer.period() > 0) {
    vector.unconfirmed = 0;
  } else if (++vector.unconfirmed > kPatience) {
    if (vector.unconfirmed == kPatience + 1) {
      drop_all(name, residuals);
      vector.recognizer = Recognizer();
    }
    if (vector.unconfirmed == kPatience + kRest) vector.unconfirmed = 0;
    return {{}, FeedbackOutcome::unconfirmed};
  }
  const Sketch sketch = Sketch::of(sender.input, sender.count, sender.element);
  if (!sketch.finite()) return {{}, FeedbackOutcome::not_finite};
  if (sketch.blank()) return {{}, FeedbackOutcome::unconfirmed};
  return judge(*places_.find(name), sketch, residuals, most_bytes);
}

Identities::Found Identities::identify(Identity by, const Sender& sender, Residuals& residuals,
                                       std::uint64_t most_bytes) {
  const std::string name = name_of(by, sender);
  if (name.empty()) return {};
  // A rank that has nothing to send leaves nothing out, and what it kept in other calls waits on. It flushes
  // a stated key together with the ranks that send. An estimate it keeps all the same.
  if (sender.count == 0 && (sender.mirrored == 0 || sender.key.empty()))
    return {{},
            FeedbackOutcome::none,
            sender.key.empty() ? nullptr : &promised_.try_emplace(name, sender.flush).first->second};
  const Residuals::Entry* const entry = residuals.find(name);
  if (entry != nullptr && entry->users > 0)  // by a request of the program
    return {{}, FeedbackOutcome::in_use};
  return sender.key.empty() ? recognised(name, sender, residuals, most_bytes)
                            : promised(name, entry, sender, residuals, most_bytes);
}

}  // namespace mq
