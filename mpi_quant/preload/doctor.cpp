// What mpiq-run --doctor asks of a core: one compressed sum among all ranks, compared with the sum in double.

#include "mpi_quant/base/doctor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace {

constexpr std::size_t kCount = MPIQ_DOCTOR_BYTES / sizeof(float);

// Between -1 and 1, another vector on each rank.
float input(std::size_t i, int rank) {
  const std::uint64_t mixed =
      (i + 1) * 0x9E3779B97F4A7C15U ^ (static_cast<std::uint64_t>(rank) + 1) * 0xC2B2AE3D27D4EB4FU;
  return static_cast<float>(mixed >> 40) * 0x1p-23F - 1;
}

std::uint64_t hash(const std::vector<float>& vector) {
  std::uint64_t h = 0xCBF29CE484222325U;
  for (const float x : vector) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    h = (h ^ bits) * 0x100000001B3U;
  }
  return h;
}

template <std::size_t N>
void copy(std::string_view from, char (&to)[N]) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

int compressed_sum(const std::vector<float>& in, std::vector<float>& out) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "mpiq_method", MPIQ_DOCTOR_METHOD);
  const int code = MPIQ_Allreduce(in.data(), out.data(), static_cast<MPI_Count>(in.size()), MPI_FLOAT,
                                  MPI_SUM, MPI_COMM_WORLD, info);
  PMPI_Info_free(&info);
  return code;
}

// Of several calls of MPI the first error counts. All ranks make the calls after it all the same.
void note(int code, mpiq_health& health) {
  if (health.code == MPI_SUCCESS) health.code = code;
}

void examine(mpiq_health& health) {
  std::vector<float> in(kCount), out(kCount);
  std::vector<double> exact(kCount);
  for (std::size_t i = 0; i < kCount; ++i) exact[i] = in[i] = input(i, health.rank);
  const auto allreduce = [&](void* vector, int n, MPI_Datatype type, MPI_Op op) {
    note(PMPI_Allreduce(MPI_IN_PLACE, vector, n, type, op, MPI_COMM_WORLD), health);
  };
  note(compressed_sum(in, out), health);
  allreduce(exact.data(), static_cast<int>(kCount), MPI_DOUBLE, MPI_SUM);
  double off = 0, all = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    off += (out[i] - exact[i]) * (out[i] - exact[i]);
    all += exact[i] * exact[i];
  }
  health.error = std::sqrt(off / all);
  allreduce(&health.error, 1, MPI_DOUBLE, MPI_MAX);
  const std::uint64_t mine = hash(out);
  std::array<std::uint64_t, 2> ends{mine, ~mine};  // the greatest hash, and the complement of the least
  allreduce(ends.data(), 2, MPI_UINT64_T, MPI_MAX);
  health.equal = ends[0] == ~ends[1];
}

}  // namespace

extern "C" MPIQ_PUBLIC int mpiq_doctor_v1(mpiq_health* health) {
  if (PMPI_Init(nullptr, nullptr) != MPI_SUCCESS) return 1;
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  PMPI_Comm_rank(MPI_COMM_WORLD, &health->rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &health->ranks);
  MPI_Comm node = MPI_COMM_NULL;
  note(PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), *health);
  if (node != MPI_COMM_NULL) {
    note(PMPI_Comm_size(node, &health->node_ranks), *health);
    note(PMPI_Comm_free(&node), *health);
  }
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  copy(text.data(), health->library);
  const mq::Status status = mq::guarded_status([&] {
    examine(*health);
    return mq::Status{};
  });
  if (!status.ok()) {  // no memory: on this rank only, and the others would wait for it
    copy(status.text(), health->message);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (health->code != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING + 1> words{};
    PMPI_Error_string(health->code, words.data(), &length);
    copy(words.data(), health->message);
  }
  PMPI_Finalize();
  return 0;
}
