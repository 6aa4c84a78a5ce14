// The records of all threads, and a record as text. Each class or call site is a line, with tabs between its
// fields.

#include "mpi_quant/report/record.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <type_traits>

#include "kernels/codec.hpp"

namespace mq {
namespace {

struct Wording {
  Reason reason;
  std::string_view name, words;
};
constexpr Wording kReasonWords[]{
    {Reason::compressed, "compressed", "compressed"},
    {Reason::would_be_compressed, "would_be_compressed", "would be compressed"},
    {Reason::small, "small", "below the floor of 64 KiB"},
    {Reason::type, "type", "not a type of reals"},
    {Reason::op, "op", "not MPI_SUM"},
    {Reason::handle, "handle", "a null or invalid handle"},
    {Reason::inter, "inter", "on an intercommunicator"},
    {Reason::alone, "alone", "on one rank"},
    {Reason::foreign, "foreign", "beyond MPI_COMM_WORLD"},
    {Reason::rule, "rule", "no rule compresses it"},
    {Reason::differs, "differs", "ranks have different policies"},
    {Reason::version, "version", "ranks have different library versions"},
    {Reason::switched_off, "switched_off", "switched off by MPI_Pcontrol"},
    {Reason::split, "split", "ranks chose differently"},
    {Reason::slower, "slower", "auto: MPI is the fastest, or not yet known not to be"},
    {Reason::inexact, "inexact", "auto: its data would lose too much, or its residual is not known"},
    {Reason::guard, "guard", "given up by the guard"},
    {Reason::nonblocking, "nonblocking", "MPI_Iallreduce"},
    {Reason::persistent, "persistent", "MPI_Allreduce_init"},
    {Reason::outside, "outside", "before MPI_Init or after MPI_Finalize"},
    {Reason::no_communicator, "no_communicator", "MPI has no communicator left"},
    {Reason::no_memory, "no_memory", "no memory for this library"},
    {Reason::overlap, "overlap", "its vectors share memory"},
    {Reason::capture, "capture", "during the capture of a CUDA graph"},
    {Reason::no_matrix, "no_matrix", "no matrix for lowrank"},
    {Reason::failed, "failed", "ended in an error"},
};

// In the footer of a report these words follow the name.
struct FeedbackName {
  FeedbackOutcome feedback;
  std::string_view name;
  Fate fate;
  std::string_view words;
};
constexpr FeedbackName kFeedbackNames[]{
    {FeedbackOutcome::none, "none", Fate::none, ""},
    {FeedbackOutcome::unconfirmed, "unconfirmed", Fate::waiting,
     "no feedback: not yet recognised as the same tensor from call to call"},
    {FeedbackOutcome::hit, "hit", Fate::fine, "what the call before left out was added"},
    {FeedbackOutcome::fresh, "fresh", Fate::fine, "the first call that kept what it left out"},
    {FeedbackOutcome::stranger, "stranger", Fate::lost,
     "no feedback: the values are not those of the tensor that is known here"},
    {FeedbackOutcome::shape, "shape", Fate::lost, "dropped: the call before had another count or type"},
    {FeedbackOutcome::in_use, "in_use", Fate::lost,
     "no feedback: a request of the program uses the residual"},
    {FeedbackOutcome::budget, "budget", Fate::lost,
     "dropped or never kept: no memory left for it (MPIQ_RESIDUALS)"},
    {FeedbackOutcome::not_finite, "not_finite", Fate::fine,
     "NaN or Inf in the vector: what waited was left as it was"},
};

constexpr bool tables_are_in_order() {
  for (std::size_t i = 0; i < std::size(kReasonWords); ++i)
    if (static_cast<std::size_t>(kReasonWords[i].reason) != i) return false;
  for (std::size_t i = 0; i < std::size(kFeedbackNames); ++i)
    if (static_cast<std::size_t>(kFeedbackNames[i].feedback) != i) return false;
  return true;
}
static_assert(std::size(kReasonWords) == kReasons && std::size(kFeedbackNames) == kFeedbackOutcomes &&
              tables_are_in_order());

// A class may have had calls of two methods. The one with the larger weight tells more about them.
int weight(std::string_view method) {
  if (method.empty()) return 0;
  if (method == "mpi") return 1;
  return lossless(method) ? 2 : 3;
}

// The larger one of two errors. NaN is worse than any error.
double worse(double a, double b) { return std::isnan(b) || b > a ? b : a; }

// Never freed, because it is read when MPI is finalized, and static objects may be gone then.
struct Threads {
  std::mutex mutex;
  std::vector<ThreadRecord*> records;
};
Threads& threads() {
  static Threads* const all = new Threads;
  return *all;
}

// The fields of a line, for writing and for reading.
template <class Id, class F>
void each_field_of_class(Id& id, F& f) {
  f(id.comm);
  f(id.ranks);
  f(id.type);
  f(id.op);
  f(id.log2_bytes);
}

template <class N, class F>
void each_field_of_numbers(N& n, F& f) {
  for (auto& calls : n.calls) f(calls);
  for (auto& calls : n.feedback) f(calls);
  f(n.bytes);
  f(n.compressed_bytes);
  f(n.wire_bytes);
  f(n.overflows);
  f(n.seconds);
  f(n.encode_s);
  f(n.decode_s);
  f(n.wait_s);
  f(n.guarded);
  f(n.guard_error_sum);
  f(n.guard_error_max);
  f(n.method);
}

constexpr std::string_view kMagic = "mpi_quant-record-1";
constexpr char kEscape = '\\';

bool is_escaped(char c) { return static_cast<unsigned char>(c) < 0x20 || c == kEscape || c == 0x7f; }

class Writer {
 public:
  // `first` is the first field of a line.
  explicit Writer(std::string_view first) : line_(first) {}
  void operator()(const std::string& text) {
    constexpr std::string_view digits = "0123456789abcdef";
    line_ += '\t';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (is_escaped(c))
        line_.append(1, kEscape).append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
      else
        line_ += c;
    }
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number value) {
    // All NaNs have the same text: their signs mean nothing and are not read back.
    if constexpr (std::is_floating_point_v<Number>)
      if (std::isnan(value)) value = std::numeric_limits<Number>::quiet_NaN();
    std::array<char, 64> text;
    line_.append(1, '\t').append(text.begin(), std::to_chars(text.begin(), text.end(), value).ptr);
  }
  std::string line() const { return line_ + '\n'; }

 private:
  std::string line_;
};

// Reads a whole text as a number.
template <class Number>
bool read_number(std::string_view text, Number& value, auto... base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

class Reader {
 public:
  // `line` has no line break at its end.
  explicit Reader(std::string_view line) : rest_(line) {}
  std::string_view next() {
    if (ended_) ok_ = false;
    const std::size_t tab = rest_.find('\t');
    const std::string_view field = rest_.substr(0, tab);
    ended_ = tab == std::string_view::npos;
    rest_ = ended_ ? std::string_view{} : rest_.substr(tab + 1);
    return field;
  }
  void operator()(std::string& text) {
    std::string_view field = next();
    text.clear();
    while (!field.empty()) {
      if (field.front() != kEscape) {
        text += field.front();
        field.remove_prefix(1);
        continue;
      }
      unsigned char byte = 0;
      if (field.size() < 3 || !read_number(field.substr(1, 2), byte, 16)) return fail();
      text += static_cast<char>(byte);
      field.remove_prefix(3);
    }
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number& value) {
    if (!read_number(next(), value)) fail();
  }
  // Whether all fields were there and valid, and no others followed.
  bool complete() const { return ok_ && ended_; }

 private:
  void fail() { ok_ = false; }
  std::string_view rest_;
  bool ok_ = true, ended_ = false;
};

bool parse_line(std::string_view line, Record& out) {
  Reader reader(line);
  const std::string_view kind = reader.next();
  Numbers numbers;
  if (kind == "class") {
    ClassId id;
    each_field_of_class(id, reader);
    each_field_of_numbers(numbers, reader);
    return reader.complete() && id.log2_bytes >= -1 && id.log2_bytes < 64 &&
           out.classes.emplace(std::move(id), std::move(numbers)).second;
  }
  if (kind == "site") {
    std::string site;
    reader(site);
    each_field_of_numbers(numbers, reader);
    return reader.complete() && out.sites.emplace(std::move(site), std::move(numbers)).second;
  }
  return false;
}

// Takes the first line, with its line break, off the text. Returns false if there is no whole line.
bool take_line(std::string_view& text, std::string_view& line) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

std::string_view name(Reason reason) { return kReasonWords[static_cast<std::size_t>(reason)].name; }
std::string_view words(Reason reason) { return kReasonWords[static_cast<std::size_t>(reason)].words; }
std::string_view name(FeedbackOutcome feedback) {
  return kFeedbackNames[static_cast<std::size_t>(feedback)].name;
}
std::string_view words(FeedbackOutcome feedback) {
  return kFeedbackNames[static_cast<std::size_t>(feedback)].words;
}
Fate fate(FeedbackOutcome feedback) { return kFeedbackNames[static_cast<std::size_t>(feedback)].fate; }

bool lossless(std::string_view method) {
  const kernels::Codec* const codec = kernels::find_codec(method.substr(0, method.find_first_of("(/ ")));
  return codec != nullptr && codec->lossless;
}

std::uint64_t Numbers::total_calls() const {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

void Numbers::add(const Numbers& other) {
  for (std::size_t i = 0; i < kReasons; ++i) calls[i] += other.calls[i];
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) feedback[i] += other.feedback[i];
  bytes += other.bytes;
  compressed_bytes += other.compressed_bytes;
  wire_bytes += other.wire_bytes;
  overflows += other.overflows;
  seconds += other.seconds;
  encode_s += other.encode_s;
  decode_s += other.decode_s;
  wait_s += other.wait_s;
  guarded += other.guarded;
  guard_error_sum += other.guard_error_sum;
  guard_error_max = worse(guard_error_max, other.guard_error_max);
  if (weight(other.method) >= weight(method)) method = other.method;
}

ThreadRecord* ThreadRecord::mine() noexcept {
  thread_local ThreadRecord* mine = nullptr;
  if (mine != nullptr) return mine;
  try {
    auto made = std::make_unique<ThreadRecord>();
    Threads& all = threads();
    const std::lock_guard lock(all.mutex);
    all.records.push_back(made.get());
    mine = made.release();
  } catch (...) {
    return nullptr;  // the next call tries again
  }
  return mine;
}

Numbers& ThreadRecord::remember(const CallTraits& traits, const ClassId& id) {
  Numbers& numbers = record_.classes[id];
  if (known_.size() == kMaxKnown) known_.erase(known_.begin());
  known_.push_back({traits, &numbers});
  return numbers;
}

Record whole_record() {
  Record whole;
  Threads& all = threads();
  const std::lock_guard lock(all.mutex);
  for (const ThreadRecord* const thread : all.records) {
    for (const auto& [id, numbers] : thread->record().classes) whole.classes[id].add(numbers);
    for (const auto& [site, numbers] : thread->record().sites) whole.sites[site].add(numbers);
  }
  return whole;
}

std::string to_text(const Record& record) {
  // The counts show whether a text was cut off.
  Writer head(kMagic);
  head(record.classes.size());
  head(record.sites.size());
  std::string out = head.line();
  for (const auto& [id, numbers] : record.classes) {
    Writer line("class");
    each_field_of_class(id, line);
    each_field_of_numbers(numbers, line);
    out += line.line();
  }
  for (const auto& [site, numbers] : record.sites) {
    Writer line("site");
    line(site);
    each_field_of_numbers(numbers, line);
    out += line.line();
  }
  return out;
}

bool parse(std::string_view text, Record& out) {
  const std::string_view whole = text;
  Record record;
  std::string_view line;
  std::size_t classes = 0, sites = 0;
  if (!take_line(text, line)) return false;
  Reader head(line);
  if (head.next() != kMagic) return false;
  head(classes);
  head(sites);
  if (!head.complete()) return false;
  while (!text.empty())
    if (!take_line(text, line) || !parse_line(line, record)) return false;
  // A text that spells the same record in another way ("007") does not come from to_text.
  if (record.classes.size() != classes || record.sites.size() != sites || to_text(record) != whole)
    return false;
  out = std::move(record);
  return true;
}

}  // namespace mq
