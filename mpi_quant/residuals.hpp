// Residual arrays of one communicator by key: what error feedback carries from one call to the next.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

class Residuals {
 public:
  struct Entry {
    kernels::Element element;
    std::size_t count;
    Buffer buffer;  // count elements; zero at first
    bool used;      // by a call that got past the agreement
  };

  // The residual of a key, made if there is none. A key belongs to one count and element type. The entry
  // stays where it is until it is forgotten.
  Result<Entry*> acquire(std::string_view key, std::size_t count, kernels::Element element);
  // Drops the residual of a key, if there is one.
  void drop(std::string_view key);
  // The same if no call has used it, so that a failed first call does not bind the key to its arguments.
  void drop_unused(std::string_view key);
  std::size_t bytes() const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace mq
