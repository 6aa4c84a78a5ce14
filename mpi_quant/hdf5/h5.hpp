// HDF5's C interface, with handles that close themselves, and with exceptions for failures. The exceptions
// stay inside the function that uses them. The residual files and the benchmark's result files share it.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace mq::h5 {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the result of an HDF5 call. If it is negative, throws with HDF5's own reason.
hid_t check(hid_t result, const std::string& what);

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close, const std::string& what) : id_(check(id, what)), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

void write_attribute(hid_t object, const char* name, const std::string& value);  // replaces an old value
void write_attribute(hid_t object, const char* name, double value);
void write_attribute(hid_t object, const char* name, std::int32_t value);
void write_attribute(hid_t object, const char* name, std::uint64_t value);
void write_attribute(hid_t object, const char* name, std::uint8_t value);
std::string read_text_attribute(hid_t object, const char* name);
std::int32_t read_int_attribute(hid_t object, const char* name);
std::uint64_t read_uint64_attribute(hid_t object, const char* name);
double read_double_attribute(hid_t object, const char* name);

// A text of a fixed number of bytes, padded with null characters.
Handle text_type(std::size_t bytes);

}  // namespace mq::h5
