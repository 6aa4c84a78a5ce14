// What the tests share of the functions in which ranks have different parts: each of them in its three forms.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/parts.hpp"

namespace mq::test {

enum class Form { blocking, once, persistent };
enum class Parted { block, scatter, gather, gatherv, bcast, reduce };
inline constexpr std::array kPartedFunctions{Parted::block,   Parted::scatter, Parted::gather,
                                             Parted::gatherv, Parted::bcast,   Parted::reduce};
// Of MPIQ_..., as errors have it.
inline std::string name(Parted function, Form form) {
  constexpr std::array<const char*, 6> names{"educe_scatter_block", "educe_scatter", "llgather",
                                             "llgatherv",           "cast",          "educe"};
  constexpr std::string_view first = "rraabr", upper = "RRAABR";
  const auto i = static_cast<std::size_t>(function);
  if (form == Form::once) return std::string("MPIQ_I") + first[i] + names[i];
  return std::string("MPIQ_") + upper[i] + names[i] + (form == Form::persistent ? "_init" : "");
}
inline bool adds(Parted function) {
  return function != Parted::gather && function != Parted::gatherv && function != Parted::bcast;
}

// The arguments of one call on this rank. The buffers stay where they are, whatever is filled into them.
struct PartedCase {
  Parted function = Parted::block;
  bool in_place = false;
  int root = 0;
  Counts counts;             // by rank: of its part; with a root, of the vector
  std::vector<MPI_Aint> at;  // by rank: of a gather
  MPI_Datatype type = MPI_FLOAT;
  MPI_Op op = MPI_SUM;
  std::vector<float> send, receive;
  std::size_t input = 0, output = 0;  // floats
  std::size_t brings_at = 0;          // of a gather in place: where this rank's part is
  MPI_Count sendcount = 0;            // of a gather
};

class PartedRequests : public Parts {
 protected:
  // Parts of n elements; where counts belong to ranks, of different lengths, and every second one is empty.
  // each: floats of an element. root: none is the last rank.
  PartedCase case_of(Parted function, MPI_Count n, bool in_place = false, std::size_t each = 1,
                     std::optional<int> root = {}) const {
    PartedCase c;
    c.function = function;
    c.in_place = in_place;
    c.root = root.value_or(size - 1);
    const bool by_rank = function == Parted::scatter || function == Parted::gatherv;
    c.counts = by_rank ? uneven(n) : equal(n);
    const auto whole = static_cast<std::size_t>(n), mine = own(c.counts);
    const auto all =
        static_cast<std::size_t>(std::accumulate(c.counts.begin(), c.counts.end(), MPI_Count{0}));
    MPI_Aint next = 0;
    for (const MPI_Count count : c.counts) {
      next += function == Parted::gatherv ? 3 : 0;  // elements between the parts
      c.at.push_back(next);
      next += static_cast<MPI_Aint>(count);
    }
    const bool is_root = rank == c.root;
    switch (function) {
      case Parted::block:
      case Parted::scatter: c.input = all, c.output = mine; break;
      case Parted::gather:
      case Parted::gatherv: c.input = mine, c.output = static_cast<std::size_t>(next); break;
      case Parted::bcast: c.input = is_root ? whole : 0, c.output = whole; break;
      case Parted::reduce: c.input = whole, c.output = is_root ? whole : 0; break;
    }
    if (function == Parted::bcast) c.in_place = true;
    if (function == Parted::reduce && !is_root) c.in_place = false;
    if (function == Parted::gather || function == Parted::gatherv)
      c.brings_at = static_cast<std::size_t>(c.at[static_cast<std::size_t>(rank)]);
    c.sendcount = static_cast<MPI_Count>(c.input);
    for (std::size_t* const elements : {&c.input, &c.output, &c.brings_at}) *elements *= each;
    c.send.resize(c.input);
    c.receive.resize(std::max(c.output, c.in_place ? c.brings_at + c.input : 0));
    return c;
  }
  // Puts this rank's numbers of a turn where the call reads them. What it writes becomes -7.
  void fill(PartedCase& c, int turn) const {
    const std::vector<float> x =
        make_input<float>(Input::normal, c.input, seed() + static_cast<std::uint64_t>(1000 * turn + rank));
    std::fill(c.receive.begin(), c.receive.end(), -7.0F);
    std::copy(x.begin(), x.end(), c.send.begin());
    if (c.in_place)
      std::copy(x.begin(), x.end(), c.receive.begin() + static_cast<std::ptrdiff_t>(c.brings_at));
  }
  // What the call has written.
  static std::vector<float> result(const PartedCase& c) {
    return {c.receive.begin(), c.receive.begin() + static_cast<std::ptrdiff_t>(c.output)};
  }
  // Makes, starts or prepares the call. The arrays of its arguments have other numbers when this returns.
  int call(PartedCase& c, Form form, MPI_Comm on, MPI_Info info, MPIQ_Request* request) const {
    const auto make = [&](auto blocking, auto once, auto persistent, auto... arguments) {
      return form == Form::blocking ? blocking(arguments..., on, info)
             : form == Form::once   ? once(arguments..., on, info, request)
                                    : persistent(arguments..., on, info, request);
    };
    Counts counts = c.counts;
    std::vector<MPI_Aint> at = c.at;
    const void* const send = c.in_place ? MPI_IN_PLACE : c.send.data();
    void* const receive = c.receive.data();
    int code = MPI_ERR_OTHER;
    switch (c.function) {
      case Parted::block:
        code = make(MPIQ_Reduce_scatter_block, MPIQ_Ireduce_scatter_block, MPIQ_Reduce_scatter_block_init,
                    send, receive, counts[0], c.type, c.op);
        break;
      case Parted::scatter:
        code = make(MPIQ_Reduce_scatter, MPIQ_Ireduce_scatter, MPIQ_Reduce_scatter_init, send, receive,
                    counts.data(), c.type, c.op);
        break;
      case Parted::gather:
        code = make(MPIQ_Allgather, MPIQ_Iallgather, MPIQ_Allgather_init, send, c.sendcount, c.type, receive,
                    counts[0], c.type);
        break;
      case Parted::gatherv:
        code = make(MPIQ_Allgatherv, MPIQ_Iallgatherv, MPIQ_Allgatherv_init, send, c.sendcount, c.type,
                    receive, counts.data(), at.data(), c.type);
        break;
      case Parted::bcast:
        code = make(MPIQ_Bcast, MPIQ_Ibcast, MPIQ_Bcast_init, receive, counts[0], c.type, c.root);
        break;
      case Parted::reduce:
        code =
            make(MPIQ_Reduce, MPIQ_Ireduce, MPIQ_Reduce_init, send, receive, counts[0], c.type, c.op, c.root);
        break;
    }
    std::fill(counts.begin(), counts.end(), MPI_Count{-7});
    std::fill(at.begin(), at.end(), MPI_Aint{-7});
    return code;
  }
  // The whole call, from its start to its end. Of a persistent one the request is made and freed.
  int run(PartedCase& c, Form form, MPI_Comm on, MPI_Info info) const {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    int code = call(c, form, on, info, &request);
    if (code == MPI_SUCCESS && form == Form::persistent) code = MPIQ_Start(&request);
    if (code == MPI_SUCCESS && form != Form::blocking) code = MPIQ_Wait(&request);
    if (request != MPIQ_REQUEST_NULL) {
      EXPECT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
    return code;
  }
};

}  // namespace mq::test
