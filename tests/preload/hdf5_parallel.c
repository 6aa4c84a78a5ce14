/* An HDF5 file written and read by all ranks together. hdf5_parallel FILE exact|lossy
 * First one large sum, which must be exact or compressed: then the library is known to be in force.
 * Everything else that HDF5 and MPI-IO do with MPI must be as ever. Prints a checksum of what was read. */
#include "tests/preload/check.h"

#include <hdf5.h>

enum { kRows = 512, kColumns = 300, kChunkRows = 100, kChunkColumns = 64, kGroups = 8 };
static double table[kRows * kColumns];

static void check(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "rank %d: HDF5: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static double value_at(hsize_t row, hsize_t column) { return (double)row / 3 + (double)column * 1e-3; }

/* Rows of this rank: as even as they get. */
static hsize_t first_row(int of) { return (hsize_t)kRows * (hsize_t)of / (hsize_t)size; }

static hid_t open_file(const char* path, int make) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file;
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_all_coll_metadata_ops(access, 1);
  H5Pset_coll_metadata_write(access, 1);
  file = make ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDONLY, access);
  check(file >= 0, "no file");
  H5Pclose(access);
  return file;
}

/* The rows of this rank, all ranks at once. */
static void transfer(hid_t dataset, int write) {
  const hsize_t start[2] = {first_row(rank), 0}, count[2] = {first_row(rank + 1) - start[0], kColumns};
  const hid_t memory = H5Screate_simple(2, count, NULL), space = H5Dget_space(dataset);
  const hid_t collective = H5Pcreate(H5P_DATASET_XFER);
  herr_t done;
  H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  done = write ? H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, collective, table)
               : H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, collective, table);
  check(done >= 0, "no transfer");
  H5Pclose(collective);
  H5Sclose(space);
  H5Sclose(memory);
}

static void add_metadata(hid_t file) {
  const hid_t scalar = H5Screate(H5S_SCALAR);
  int i;
  for (i = 0; i < kGroups; ++i) {
    char name[32];
    hid_t group, attribute;
    snprintf(name, sizeof name, "group%d", i);
    group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    attribute = H5Acreate2(group, "index", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
    check(group >= 0 && attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT, &i) >= 0, "no attribute");
    H5Aclose(attribute);
    H5Gclose(group);
  }
  H5Sclose(scalar);
}

static void write_file(const char* path) {
  const hsize_t shape[2] = {kRows, kColumns}, chunk[2] = {kChunkRows, kChunkColumns};
  const hid_t file = open_file(path, 1), space = H5Screate_simple(2, shape, NULL);
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  hid_t dataset;
  hsize_t row, column;
  const hsize_t first = first_row(rank), last = first_row(rank + 1);
  for (row = first; row < last; ++row)
    for (column = 0; column < kColumns; ++column)
      table[(row - first) * kColumns + column] = value_at(row, column);
  H5Pset_chunk(made, 2, chunk);
  H5Pset_obj_track_times(made, 0); /* the same bytes at any time */
  dataset = H5Dcreate2(file, "table", H5T_IEEE_F64LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
  check(dataset >= 0, "no dataset");
  transfer(dataset, 1);
  H5Dclose(dataset);
  add_metadata(file);
  H5Pclose(made);
  H5Sclose(space);
  check(H5Fclose(file) >= 0, "the file does not close");
}

/* A checksum over all ranks. */
static double read_file(const char* path) {
  const hid_t file = open_file(path, 0), dataset = H5Dopen2(file, "table", H5P_DEFAULT);
  const hsize_t first = first_row(rank), last = first_row(rank + 1);
  hsize_t row, column;
  double mine = 0, all = 0;
  int i;
  memset(table, 0, sizeof table);
  transfer(dataset, 0);
  for (row = first; row < last; ++row)
    for (column = 0; column < kColumns; ++column) {
      const double got = table[(row - first) * kColumns + column];
      expect(got == value_at(row, column), "read something else than was written");
      mine += got * (double)(row % 7 + column % 5);
    }
  for (i = 0; i < kGroups; ++i) {
    char name[32];
    int index = -1;
    hid_t attribute;
    snprintf(name, sizeof name, "group%d", i);
    attribute = H5Aopen_by_name(file, name, "index", H5P_DEFAULT, H5P_DEFAULT);
    expect(attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT, &index) >= 0 && index == i, "an attribute");
    H5Aclose(attribute);
  }
  H5Dclose(dataset);
  H5Fclose(file);
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char** argv) {
  const char* path;
  double checksum;
  MPI_Init(&argc, &argv);
  path = begin(argc, argv);
  sum(MPI_COMM_WORLD, "a sum");
  write_file(path);
  checksum = read_file(path);
  if (rank == 0) printf("checksum %.17g\n", checksum);
  return end();
}
