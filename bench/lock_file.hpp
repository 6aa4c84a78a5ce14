// One writer for each result file: NAME.lock, created exclusively, with host, process, job and beginning of
// the owner.
#pragma once

#include <string>
#include <utility>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

class LockFile {
 public:
  LockFile() = default;
  // Fails with a message that names the owner. A lock whose owner certainly ended (a process of this machine
  // that is gone, or an earlier life of this Slurm job) is taken over, with `force` any lock.
  static Result<LockFile> acquire(const std::string& path, bool force);
  LockFile(LockFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  LockFile& operator=(LockFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~LockFile();

 private:
  std::string path_;  // "" if not held
};

}  // namespace mq::bench
