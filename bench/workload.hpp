// What is measured at a point: the part that differs between collectives. The measurement itself, with its
// blocks, warm-up and stop rule, is the same for all of them (measure.hpp).
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "bench/check.hpp"
#include "bench/points.hpp"
#include "bench/rows.hpp"
#include "mpi_quant.h"

namespace mq::bench {

// A method at a point, ready to be called again and again.
class Variant {
 public:
  Variant() = default;
  virtual ~Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;
  // The reason why it cannot be measured here; "" if it can. The same on all ranks.
  virtual std::string unavailable() const { return ""; }
  virtual int calls_each() const { return 1; }  // how many sums one call() makes
  virtual int call() = 0;  // on the buffers of the last prepare(); returns an MPI error code, never aborts
  virtual ResultErrors compare(
      bool exact) const = 0;                      // compares the result of the last call with the reference
  virtual MPIQ_Stats stats() const = 0;           // all zero unless ours()
  virtual bool exact() const = 0;                 // the result must agree with the sum up to rounding
  virtual bool carries() const = 0;               // what one call leaves out is added to the next
  virtual bool chooses() const { return false; }  // it learns from calls what to do (`auto`)
  // A call that does not block: it computes for so many seconds between start and end. Before this is called
  // it does not compute.
  virtual void set_compute(double) {}
  virtual void compute() {}       // that computation alone
  virtual bool ours() const = 0;  // a method of this library, which promises equal replicas and counts bytes
};

// The buffers of a point on this rank. All functions are collective over the ranks of the point.
class Workload {
 public:
  Workload() = default;
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual std::unique_ptr<Variant> variant(const MethodWord& method) = 0;
  // Chooses the buffers of the next call and makes them ready. `repetition` counts the repetitions of the
  // method; it selects the input where inputs differ. With 0 and 0, the buffers are those that the reference
  // is made for.
  virtual void prepare(std::size_t turn, std::size_t repetition) = 0;
  virtual bool guards_intact() const = 0;
  virtual void arm_guards() = 0;
  virtual bool input_intact() const = 0;       // the input of turn 0
  virtual void restore_input() = 0;            // of turn 0
  virtual bool all_inputs_intact() const = 0;  // the inputs of all turns
};

// What the points of a sweep have in common.
class Collective {
 public:
  Collective() = default;
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  // Collective over comm, which has the ranks of the point. Null on all ranks if one of them has too little
  // memory.
  virtual std::unique_ptr<Workload> at(const Point& point, MPI_Comm comm) = 0;
  virtual InputRow input(const Point& point) const = 0;  // of the last point
};

}  // namespace mq::bench
