// The library's error value. A function that returns a Status does not throw, print or abort.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace mq {

// Each code except ok becomes one MPI error code. All are in one error class, see mpi_quant/core/errors.hpp.
enum class Code : std::uint8_t {
  ok,
  bad_policy,    // unusable policy, method or environment variable
  bad_info,      // unusable MPI_Info value
  bad_argument,  // unusable argument of an MPIQ_ function
  mismatch,      // the ranks called with different arguments or policies
  bad_frame,     // a message that no intact peer can have sent
  peer_failed,   // another rank reported an error during the call
  no_memory,
  mpi_failed,     // MPI returned an error to the library
  extension,      // reported by a library built on this one, through MPIQ_Comm_raise
  timed_out,      // a peer did not answer within the caller's time
  device_failed,  // the GPU, its driver or its memory failed on this rank
};
inline constexpr int kCodes = 12;

class [[nodiscard]] Status {
 public:
  Status() = default;
  // text must not be empty unless code is ok. An empty one is replaced; a test of every error would find it.
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {
    if (code_ != Code::ok && text_.empty()) text_ = "no reason given";  // short enough to need no memory
  }
  // If there is no memory for the text, the copy says so and keeps the code: the error must not change.
  Status(const Status& other) noexcept : code_(other.code_) {
    try {
      text_ = other.text_;
    } catch (...) {
      text_ = "out of memory";  // short enough to need no memory
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
  const std::string& text() const { return text_; }  // names what failed and where; empty if ok

 private:
  Code code_ = Code::ok;
  std::string text_;
};

inline Status bad_argument(std::string text) { return {Code::bad_argument, std::move(text)}; }

// A status whose text a function makes. If there is no memory for it, the text is "out of memory". It is for
// errors in the middle of a call, where a rank that throws would leave the others waiting.
template <class Text>
Status status_of(Code code, const Text& text) noexcept {
  try {
    return {code, text()};
  } catch (...) {
    return {code, "out of memory"};  // short enough to need no memory
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

// Returns the status of expr unless it is ok. Names are numbered because expr may be a lambda with an MQ_TRY.
#define MQ_TRY(expr) MQ_TRY_COUNTED(expr, __COUNTER__)
#define MQ_TRY_COUNTED(expr, n) MQ_TRY_NAMED(expr, n)
#define MQ_TRY_NAMED(expr, n)                                                           \
  do {                                                                                  \
    if (::mq::Status mq_status_##n = (expr); !mq_status_##n.ok()) return mq_status_##n; \
  } while (false)

}  // namespace mq
