// Writes what a rank sampled as a text, and reads it back. A field ends with a blank; a string has its length
// before it.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "mpi_quant/advisor/advisor.hpp"

namespace mq {
namespace {

constexpr std::string_view kHead = "mpiq-samples-1", kEnd = "end";

class Writer {
 public:
  template <class T>
  Writer& number(T v) {
    std::array<char, 64> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), v);
    out_.append(text.data(), end.ptr).append(" ");
    return *this;
  }
  Writer& word(std::string_view text) {
    out_.append(text).append(" ");
    return *this;
  }
  Writer& text(std::string_view text) {
    number(text.size());
    return word(text);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// After the first wrong field, every later field counts as wrong too.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}
  template <class T>
  Reader& number(T& v) {
    const auto end = std::from_chars(left_.data(), left_.data() + left_.size(), v);
    ok_ = ok_ && end.ec == std::errc();
    if (ok_) left_.remove_prefix(static_cast<std::size_t>(end.ptr - left_.data()));
    return blank();
  }
  Reader& word(std::string_view expected) {
    ok_ = ok_ && left_.substr(0, expected.size()) == expected;
    if (ok_) left_.remove_prefix(expected.size());
    return blank();
  }
  Reader& text(std::string& v) {
    std::size_t size = 0;
    number(size);
    ok_ = ok_ && size <= left_.size();
    if (!ok_) return *this;
    v = left_.substr(0, size);
    left_.remove_prefix(size);
    return blank();
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && left_.empty(); }

 private:
  Reader& blank() {
    ok_ = ok_ && left_.substr(0, 1) == " ";
    if (ok_) left_.remove_prefix(1);
    return *this;
  }
  std::string_view left_;
  bool ok_ = true;
};

// Visits the fields of a struct in the order in which they are written. `archive` is a Writer or a Reader.
template <class Archive, class Numbers>
void pass_values(Archive& archive, Numbers& v) {
  archive.number(v.n).number(v.zeros).number(v.whole).number(v.nonfinite);
  archive.number(v.min_exponent).number(v.max_exponent).number(v.squares);
}

template <class Archive, class Numbers>
void pass_trial(Archive& archive, Numbers& t) {
  archive.number(t.elements).number(t.wire_bytes).number(t.measured).number(t.ruined);
  archive.number(t.encode_s).number(t.decode_s).number(t.measure_s);
  archive.number(t.error2).number(t.norm2).number(t.decoded2);
}

// Sums of squares are finite and not negative.
bool sound(double sum) { return sum >= 0 && std::isfinite(sum); }

bool sound(const ValueStatistics& v) {
  return v.n >= v.zeros && v.n - v.zeros >= v.nonfinite && v.n - v.zeros - v.nonfinite >= v.whole &&
         sound(v.squares);
}

bool sound(const Trial& t) {
  return t.measured <= t.elements && t.ruined <= t.elements && sound(t.encode_s) && sound(t.decode_s) &&
         sound(t.measure_s) && sound(t.error2) && sound(t.norm2) && sound(t.decoded2);
}

bool read_class(Reader& in, Samples& into) {
  ClassId id;
  int element = 0;
  std::size_t trials = 0;
  in.text(id.comm).number(id.ranks).text(id.type).text(id.op).number(id.log2_bytes).number(element);
  ClassSamples own;
  in.number(own.samples);
  pass_values(in, own.values);
  in.number(own.memory_s).number(trials);
  if (!in.ok() || id.ranks < 1 || id.log2_bytes < -1 || id.log2_bytes > 63 || !sound(own.values) ||
      !sound(own.memory_s))
    return false;
  own.element = static_cast<kernels::Element>(element);
  if (element < 0 || element > 1 || (trials != 0 && trials != candidates().size())) return false;
  for (std::vector<Trial>* const list : {&own.input, &own.result}) {
    list->resize(trials);
    for (Trial& trial : *list) pass_trial(in, trial);
    if (!in.ok() || !std::all_of(list->begin(), list->end(), [](const Trial& t) { return sound(t); }))
      return false;
  }
  return into.emplace(std::move(id), std::move(own)).second;
}

}  // namespace

std::string to_text(const Samples& samples) {
  Writer out;
  out.word(kHead).number(candidates().size());
  for (const Candidate& c : candidates()) out.text(c.text);
  out.number(samples.size());
  for (const auto& [id, own] : samples) {
    out.text(id.comm).number(id.ranks).text(id.type).text(id.op).number(id.log2_bytes);
    out.number(static_cast<int>(own.element)).number(own.samples);
    pass_values(out, own.values);
    out.number(own.memory_s);
    const bool tried = own.input.size() == candidates().size() && own.result.size() == own.input.size();
    out.number(tried ? candidates().size() : std::size_t{0});
    for (const std::vector<Trial>* const list : {&own.input, &own.result})
      for (std::size_t i = 0; tried && i < list->size(); ++i) pass_trial(out, (*list)[i]);
  }
  return out.word(kEnd).take();
}

bool parse(std::string_view text, Samples& out) {
  Reader in(text);
  std::size_t methods = 0, classes = 0;
  in.word(kHead).number(methods);
  if (!in.ok() || methods != candidates().size()) return false;
  for (const Candidate& c : candidates()) {
    std::string name;
    if (!in.text(name).ok() || name != c.text) return false;
  }
  in.number(classes);
  Samples read;
  for (std::size_t i = 0; in.ok() && i < classes; ++i)
    if (!read_class(in, read)) return false;
  // Written again, the samples must give the same text. So nothing has two spellings, and nothing is out of
  // order.
  if (!in.word(kEnd).at_end() || to_text(read) != text) return false;
  out = std::move(read);
  return true;
}

}  // namespace mq
