// What a result file needs of HDF5 beyond mpi_quant/hdf5/h5.hpp: tables and matrices that grow. Failures are
// exceptions that do not leave report.cpp. The file lives in memory; image() is written to disk.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <vector>

#include "bench/rows.hpp"
#include "mpi_quant/hdf5/h5.hpp"

namespace mq::bench::h5 {

using namespace mq::h5;

Handle create_in_memory();
Handle open_image(std::vector<std::byte> image);  // the file is writable and lives in memory
std::vector<std::byte> image(hid_t file);         // after a flush

// Throws if values of some dataset do not fit their checksums. Every dataset that these functions create has
// checksums. Variable-length data have none, because HDF5 keeps them elsewhere; of these a result file has
// only the references to dimension scales. `levels`: of groups below this one, at most.
void check_data(hid_t group, int levels = 2);

Handle group(hid_t file, const char* path);  // creates it if it is missing
bool exists(hid_t file, const char* path);

// Tables of rows. Columns are matched by name, so a file with more or fewer columns can be read.
void create_table(hid_t file, const char* path, std::span<const Column> columns);
void append_rows(hid_t file, const char* path, std::span<const Column> columns, const void* rows,
                 std::size_t row_bytes, std::size_t n);
void read_rows(hid_t file, const char* path, std::span<const Column> columns, void* rows,
               std::size_t row_bytes, std::size_t n);
std::size_t length(hid_t file, const char* path);  // of a table or a scale

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

// Matrices with one row for each point. A chunk is (1, chunk columns), and all axes can grow. With a depth,
// each element of a row is a vector of that length.
void create_matrix(hid_t file, const char* path, hid_t file_type, std::size_t columns, const void* fill,
                   hid_t fill_type, std::size_t depth = 0);
// Writes n elements (or vectors) to row number `row`. The axes grow as needed.
void write_matrix_row(hid_t file, const char* path, std::size_t row, hid_t memory_type, const void* values,
                      std::size_t n, std::size_t depth = 0);
void create_scale(hid_t file,
                  const char* path);  // absolute path; 0, 1, 2, ... with the attributes of a dimension scale
void grow_scale(hid_t file, const char* path, std::size_t n);
void attach_scale(hid_t file, const char* matrix, const char* scale, unsigned axis);

}  // namespace mq::bench::h5
