// What the tests of requests share.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {

extern std::size_t allocations;  // in C++, of this process

class Requests : public Api {
 protected:
  MPIQ_Request start(const std::vector<float>& x, std::vector<float>& y, MPI_Info info, MPI_Comm on) const {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    EXPECT_EQ(MPIQ_Iallreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, on,
                              info, &request),
              MPI_SUCCESS);
    return request;
  }
  std::vector<float> blocking(const std::vector<float>& x, MPI_Info info) const {
    std::vector<float> y(x.size());
    EXPECT_EQ(
        MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, comm, info),
        MPI_SUCCESS);
    return y;
  }
};

}  // namespace mq::test
