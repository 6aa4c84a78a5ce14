// The library's error value. Nothing in the library throws across a function that returns a Status, prints or
// aborts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace mq {

// One MPI error code is made of each (except ok), all in one error class, see mpi_quant/core/errors.hpp.
enum class Code : std::uint8_t {
  ok,
  bad_policy,    // policy text, method word or environment variable that cannot be used
  bad_info,      // MPI_Info value that cannot be used
  bad_argument,  // argument of an MPIQ_ function
  mismatch,      // the ranks called with different arguments or policies
  bad_frame,     // a message that no sane peer can have sent
  peer_failed,   // another rank reported an error during the call
  no_memory,
  mpi_failed,     // an MPI call of ours returned an error
  extension,      // reported by a library built on this one, through MPIQ_Comm_raise
  timed_out,      // a peer did not answer within the time the caller gave
  device_failed,  // the GPU, its driver or its memory: an error of this rank
};
inline constexpr int kCodes = 12;

class [[nodiscard]] Status {
 public:
  Status() = default;
  // text: not empty unless ok. For lack of one the user is told so, which a test of every error would find.
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {
    if (code_ != Code::ok && text_.empty()) text_ = "no reason given";  // short enough to need no memory
  }
  // A copy whose text finds no memory says so: an error must not become another one on its way.
  Status(const Status& other) noexcept : code_(other.code_) {
    try {
      text_ = other.text_;
    } catch (...) {
      text_ = "out of memory";  // short enough to need none
    }
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status other) noexcept {
    code_ = other.code_;
    text_ = std::move(other.text_);
    return *this;
  }
  ~Status() = default;
  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }  // names the thing and the place; empty if ok

 private:
  Code code_ = Code::ok;
  std::string text_;
};

// A status whose text is made by a function, or "out of memory" where there is none for it. For errors in the
// middle of a call, where a rank that throws would leave the others waiting.
template <class Text>
Status status_of(Code code, const Text& text) noexcept {
  try {
    return {code, text()};
  } catch (...) {
    return {code, "out of memory"};  // short enough to need none
  }
}

// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::move(value)) {}
  Result(Status status) : v_(std::move(status)) {}
  bool ok() const { return v_.index() == 0; }
  T& operator*() { return std::get<0>(v_); }
  const T& operator*() const { return std::get<0>(v_); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  Status status() const { return ok() ? Status{} : std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

// Returns the status of expr unless it is ok. The name counts because expr may be a lambda that tries, too.
#define MQ_TRY(expr) MQ_TRY_COUNTED(expr, __COUNTER__)
#define MQ_TRY_COUNTED(expr, n) MQ_TRY_NAMED(expr, n)
#define MQ_TRY_NAMED(expr, n)                                                           \
  do {                                                                                  \
    if (::mq::Status mq_status_##n = (expr); !mq_status_##n.ok()) return mq_status_##n; \
  } while (false)

}  // namespace mq
