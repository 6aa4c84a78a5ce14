// Structs of the public header that begin with their size, which the program sets. A later library has more
// members at their end. It still serves programs that were compiled earlier: it reads and writes no more than
// their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Whether this library can serve a struct of this size. first: the size in the first version that had the
// struct. name and init: the struct and its initialiser, for the message.
template <class Struct>
Status check_size(std::uint64_t size, std::size_t first, const char* name, const char* init) {
  if (size >= first && size <= sizeof(Struct)) return {};
  std::string text = std::string(name) + ".size is " + std::to_string(size) + ", and this library knows " +
                     std::to_string(first) + " to " + std::to_string(sizeof(Struct)) +
                     " bytes: set it with " + init;
  if (size > sizeof(Struct)) text += ", and use a library that is as new as the program's mpi_quant.h";
  return {Code::bad_argument, std::move(text)};
}

// Writes `from` to a struct of the program, which keeps its size. The size has been checked.
template <class Struct>
void write_sized(void* to, std::uint64_t size, Struct from) {
  from.size = size;
  std::memcpy(to, &from, static_cast<std::size_t>(size));
}

// Reads a struct of the program, whose size has been checked. Members that it lacks are zero.
template <class Struct>
Struct read_sized(const void* from, std::uint64_t size) {
  Struct all{};
  std::memcpy(&all, from, static_cast<std::size_t>(size));
  return all;
}

}  // namespace mq
