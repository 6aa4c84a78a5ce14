// The little of HDF5's C interface that a result file needs, with handles that close themselves and failures
// as exceptions that stay inside report.cpp. The file lives in memory; image() is what goes to disk.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/rows.hpp"

namespace mq::bench::h5 {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws with HDF5's own reason if an HDF5 call returned a negative number.
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

Handle create_in_memory();
Handle open_image(std::vector<std::byte> image);  // writable, in memory
std::vector<std::byte> image(hid_t file);         // flushed

Handle group(hid_t file, const char* path);  // created if missing
bool exists(hid_t file, const char* path);

void write_attribute(hid_t object, const char* name, const std::string& value);  // replaces
void write_attribute(hid_t object, const char* name, double value);
void write_attribute(hid_t object, const char* name, std::int32_t value);
void write_attribute(hid_t object, const char* name, std::uint64_t value);
void write_attribute(hid_t object, const char* name, std::uint8_t value);
std::string read_text_attribute(hid_t object, const char* name);
std::int32_t read_int_attribute(hid_t object, const char* name);

// Tables of rows; columns are matched by name, so a file with more columns, or fewer, can be read.
void create_table(hid_t file, const char* path, std::span<const Column> columns);
void append_rows(hid_t file, const char* path, std::span<const Column> columns, const void* rows,
                 std::size_t row_bytes, std::size_t n);
void read_rows(hid_t file, const char* path, std::span<const Column> columns, void* rows,
               std::size_t row_bytes, std::size_t n);
std::size_t length(hid_t file, const char* path);  // of the first axis

template <class Row>
void append(hid_t file, const char* path, std::span<const Row> rows) {
  append_rows(file, path, columns_of<Row>(), rows.data(), sizeof(Row), rows.size());
}
template <class Row>
std::vector<Row> read(hid_t file, const char* path) {
  std::vector<Row> rows(length(file, path));
  read_rows(file, path, columns_of<Row>(), rows.data(), sizeof(Row), rows.size());
  return rows;
}

// Matrices with one row for each point, in chunks of (1, chunk columns), both axes extensible.
void create_matrix(hid_t file, const char* path, hid_t file_type, std::size_t columns, const void* fill,
                   hid_t fill_type);
// Writes row `row`, growing both axes as needed.
void write_matrix_row(hid_t file, const char* path, std::size_t row, hid_t memory_type, const void* values,
                      std::size_t n);
void create_scale(hid_t file,
                  const char* path);  // absolute path; 0, 1, 2 ... with the dimension scale attributes
void grow_scale(hid_t file, const char* path, std::size_t n);
void attach_scale(hid_t file, const char* matrix, const char* scale, unsigned axis);

}  // namespace mq::bench::h5
