// The energy that a machine takes while calls run (--energy): what the kernel counts of processors and their
// memory (powercap: RAPL of Intel and AMD), and what the driver counts of a GPU (NVML). Whole packages are
// counted, with all that runs on them, and with what they take when idle. What is not counted, or what this
// user may not read, is unknown.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/rows.hpp"

namespace mq::bench {

// Reads the counters of the processors of this machine.
class Powercap {
 public:
  // folder: with the zones; "" for MPIQ_POWERCAP or, without that, /sys/class/powercap.
  explicit Powercap(const std::string& folder = "");
  bool counts() const { return !zones_.empty(); }
  void start();
  // Since start(); NaN if a counter could not be read. A counter may begin again from 0 once between the two.
  double joules() const;

 private:
  struct Zone {
    std::string file;
    double range_uJ, start_uJ;
  };
  std::vector<Zone> zones_;
};

// Reads the counter of a GPU.
class GpuEnergy {
 public:
  // uuid: as the CUDA driver names it ("GPU-..."). Null if the driver's library is not there, or does not
  // count the energy of this GPU.
  static std::unique_ptr<GpuEnergy> open(const std::string& uuid);
  void start() { start_mJ_ = read_mJ(); }
  double joules() const;  // since start()

 private:
  using Read = int (*)(void* device, unsigned long long* millijoules);
  GpuEnergy(void* device, Read read) : device_(device), read_(read) {}
  double read_mJ() const;
  void* device_;
  Read read_;
  double start_mJ_ = 0;
};

// What one rank reads. No counter is read by two ranks.
class EnergyMeter {
 public:
  // of_machine: whether this rank is the first of its machine. uuid: of the GPU that it uses first of all
  // ranks, or "".
  EnergyMeter(bool of_machine, const std::string& uuid);
  void start();
  double joules() const;  // since start(); NaN if something that this rank has to read is unknown

 private:
  bool known_ = true;
  std::unique_ptr<Powercap> processors_;
  std::unique_ptr<GpuEnergy> gpu_;
};

// The energy of calls of one method.
struct Energy {
  double joules = kUnknown, watts = kUnknown;  // a call, of all machines and GPUs; and while calls were made
  std::int32_t calls = -1;
};
// Makes so many calls between two readings. Collective over comm; the same on all ranks.
Energy energy_of(EnergyMeter& meter, std::int32_t calls, MPI_Comm comm,
                 const std::function<void(std::size_t)>& call);

}  // namespace mq::bench
