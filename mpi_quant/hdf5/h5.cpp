#include "mpi_quant/hdf5/h5.hpp"

#include <algorithm>

namespace mq::h5 {
namespace {

herr_t keep_last(unsigned, const H5E_error2_t* error, void* text) {
  *static_cast<std::string*>(text) = error->desc == nullptr ? "" : error->desc;
  return 0;
}

void write_scalar(hid_t object, const char* name, hid_t file_type, hid_t memory_type, const void* value) {
  if (check(H5Aexists(object, name), name) > 0) check(H5Adelete(object, name), name);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, name);
  const Handle attribute(H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         name);
  check(H5Awrite(attribute, memory_type, value), name);
}

template <class T>
T read_number(hid_t object, const char* name, hid_t memory_type) {
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, name);
  const Handle space(H5Aget_space(attribute), H5Sclose, name);
  if (H5Sget_simple_extent_npoints(space) != 1) throw Error(std::string(name) + ": not one number");
  T value = 0;
  check(H5Aread(attribute, memory_type, &value), name);
  return value;
}

}  // namespace

hid_t check(hid_t result, const std::string& what) {
  if (result >= 0) return result;
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* e, void* text) { return n == 0 ? keep_last(n, e, text) : 0; },
      &reason);
  throw Error(what + (reason.empty() ? "" : ": " + reason));
}

Handle text_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "text type");
  check(H5Tset_size(type, bytes), "text size");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "text padding");
  return type;
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  constexpr std::size_t kMost = 64000;  // of an attribute, in the format that all versions of HDF5 read
  if (value.size() > kMost)
    throw Error(std::string(name) + " has " + std::to_string(value.size()) +
                " bytes, and an attribute of HDF5 holds at most " + std::to_string(kMost) +
                ": name fewer sizes or methods");
  const Handle type = text_type(std::max<std::size_t>(1, value.size()));
  write_scalar(object, name, type, type, value.data());
}
void write_attribute(hid_t object, const char* name, double value) {
  write_scalar(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}
void write_attribute(hid_t object, const char* name, std::int32_t value) {
  write_scalar(object, name, H5T_STD_I32LE, H5T_NATIVE_INT32, &value);
}
void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  write_scalar(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value);
}
void write_attribute(hid_t object, const char* name, std::uint8_t value) {
  write_scalar(object, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, &value);
}

std::string read_text_attribute(hid_t object, const char* name) {
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, name);
  const Handle type(H5Aget_type(attribute), H5Tclose, name);
  const Handle space(H5Aget_space(attribute), H5Sclose, name);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 ||
      H5Sget_simple_extent_npoints(space) != 1)
    throw Error(std::string(name) + ": not a text of fixed length");
  std::string text(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, text.data()), name);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

std::int32_t read_int_attribute(hid_t object, const char* name) {
  return read_number<std::int32_t>(object, name, H5T_NATIVE_INT32);
}
std::uint64_t read_uint64_attribute(hid_t object, const char* name) {
  return read_number<std::uint64_t>(object, name, H5T_NATIVE_UINT64);
}
double read_double_attribute(hid_t object, const char* name) {
  return read_number<double>(object, name, H5T_NATIVE_DOUBLE);
}

}  // namespace mq::h5
