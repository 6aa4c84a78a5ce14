// The launches of several segments into one stream, collected, so that launches of the same kernel become one
// launch. A driver takes microseconds for each launch, and the kernel of one short segment does not fill a
// GPU.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "mpi_quant/base/device.hpp"

namespace mq {

class LaunchBatch {
 public:
  static constexpr std::size_t kMostSegments = 16;

  // Has room for what kMostSegments segments launch at once. May throw std::bad_alloc.
  void prepare(const DeviceApi& api, DeviceStream* stream);
  // What is added from now on is for another segment. The operations of a segment run in the order in which
  // they are added. Operations of different segments run in any order.
  void begin_segment();
  kernels::Launcher launcher() { return {this, &LaunchBatch::add_launch}; }
  void copy(void* to, const void* from, std::size_t bytes);
  // Launches everything. Returns the first error since the last flush(); then the rest was not launched.
  Status flush();

 private:
  struct Operation {
    kernels::Launch launch;  // its args are in the next member; no kernel: a copy
    alignas(16) std::byte args[kernels::kMaxArgsBytes];
    void* to;
    const void* from;
    std::size_t bytes;
    std::size_t segment;
    bool is_launched;
  };
  static constexpr std::size_t kRoom = 12 * kMostSegments;

  static void add_launch(void* batch, const kernels::Launch& launch) noexcept;
  Operation& add();
  void launch_all() noexcept;
  void copy_next() noexcept;
  void launch_like(std::size_t first) noexcept;

  const DeviceApi* api_ = nullptr;
  DeviceStream* stream_ = nullptr;
  std::size_t segments_ = 0;
  std::vector<Operation> operations_;
  Status status_;
};

}  // namespace mq
