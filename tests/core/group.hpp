// A fixture for MPIQ_Allreduce_group: several vectors of each rank, and their sums.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {

// Some shorter than a block, some empty, one of many segments.
inline const std::vector<std::size_t> kLengths{10, 0, 4096, 1, 0, 2049, 150000, 33, 0};

template <class T>
struct Vectors {
  std::vector<std::vector<T>> x, y;
  explicit Vectors(const std::vector<std::vector<T>>& inputs) : x(inputs), y(inputs) {
    for (auto& v : y) std::fill(v.begin(), v.end(), T(-7));
  }
  std::vector<const void*> in() const {
    std::vector<const void*> all;
    for (const auto& v : x) all.push_back(v.data());
    return all;
  }
  std::vector<void*> out() {
    std::vector<void*> all;
    for (auto& v : y) all.push_back(v.data());
    return all;
  }
  std::vector<MPI_Count> counts() const {
    std::vector<MPI_Count> all;
    for (const auto& v : x) all.push_back(static_cast<MPI_Count>(v.size()));
    return all;
  }
};

class Group : public Api {
 protected:
  template <class T>
  Vectors<T> vectors(const std::vector<std::size_t>& lengths = kLengths, int turn = 0) const {
    std::vector<std::vector<T>> all;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      all.push_back(make_input<T>(Input::normal, lengths[i],
                                  seed() + static_cast<std::uint64_t>(1000 * turn + rank) + 17 * i));
    return Vectors<T>(all);
  }
  static std::vector<std::string> names(std::size_t n, const std::string& prefix) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(prefix + std::to_string(i));
    return all;
  }
  // prefix: of keys; empty: there are none.
  template <class T>
  int sum(Vectors<T>& v, MPI_Info info, const std::string& prefix = "") const {
    const std::vector<std::string> keys = names(v.x.size(), prefix);
    std::vector<const char*> pointers;
    for (const std::string& key : keys) pointers.push_back(key.c_str());
    return MPIQ_Allreduce_group(static_cast<int>(v.x.size()), v.in().data(), v.out().data(),
                                v.counts().data(), prefix.empty() ? nullptr : pointers.data(), mpi_type<T>(),
                                MPI_SUM, comm, info);
  }
  // Starts the sum. The arrays of the arguments are gone when it returns.
  template <class T>
  int start(Vectors<T>& v, MPI_Info info, const std::string& prefix, MPIQ_Request& request) const {
    const std::vector<std::string> keys = names(v.x.size(), prefix);
    std::vector<const char*> pointers;
    for (const std::string& key : keys) pointers.push_back(key.c_str());
    return MPIQ_Iallreduce_group(static_cast<int>(v.x.size()), v.in().data(), v.out().data(),
                                 v.counts().data(), prefix.empty() ? nullptr : pointers.data(), mpi_type<T>(),
                                 MPI_SUM, comm, info, &request);
  }
  // The code of the start or else of the end.
  template <class T>
  int start_and_wait(Vectors<T>& v, MPI_Info info, const std::string& prefix = "") const {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = start(v, info, prefix, request);
    return code == MPI_SUCCESS ? MPIQ_Wait(&request) : code;
  }
  template <class T>
  int one(const std::vector<T>& x, std::vector<T>& y, MPI_Info info) const {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, comm,
                          info);
  }
  template <class T>
  std::vector<T> exact(const std::vector<T>& x) const {
    std::vector<T> all(x.size());
    MPI_Allreduce(x.data(), all.data(), static_cast<int>(x.size()), mpi_type<T>(), MPI_SUM, comm);
    return all;
  }
};

inline bool measures(const kernels::Codec& codec) {
  return codec.measures(kernels::preset_params(codec)) != kernels::Measures::nothing;
}

}  // namespace mq::test
