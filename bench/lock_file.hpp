// Allows one writer for each result file. NAME.lock is created exclusively; it contains the host, process,
// job and start time of the owner.
#pragma once

#include <string>
#include <utility>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

class LockFile {
 public:
  LockFile() = default;
  // If it fails, the message names the owner. A lock is taken over if its owner has certainly ended (a
  // process of this machine that is gone, or an earlier run of this Slurm job). With `force` any lock is
  // taken over.
  static Result<LockFile> acquire(const std::string& path, bool force);
  LockFile(LockFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LockFile& operator=(LockFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~LockFile();

 private:
  std::string path_;  // "" if no lock is held
};

}  // namespace mq::bench
