#include "bench/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace mq::bench {
namespace {

struct Owner {
  std::string host, job;
  long pid = 0;
};

// The host name alone is not enough: containers of different machines may share it.
std::string machine() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(host.data()) + "/" + boot.substr(0, 8);
}

Owner myself() {
  const char* job = std::getenv("SLURM_JOB_ID");
  return {machine(), job == nullptr ? "-" : job, getpid()};
}

Owner read_owner(const std::string& path) {
  Owner owner;
  std::ifstream(path) >> owner.host >> owner.pid >> owner.job;
  return owner;
}

bool ended(const Owner& owner, const Owner& me) {
  if (owner.job != "-" && owner.job == me.job) return true;
  return owner.host == me.host && owner.pid > 0 && kill(static_cast<pid_t>(owner.pid), 0) != 0 &&
         errno == ESRCH;
}

}  // namespace

Result<LockFile> LockFile::acquire(const std::string& path, bool force) {
  const Owner me = myself();
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) {
      LockFile lock;
      lock.path_ = path;
      const std::string text = fmt::format("{} {} {}\n", me.host, me.pid, me.job);
      const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
      const int error = errno;
      close(fd);
      if (!written)
        return Status{Code::bad_argument,
                      fmt::format("cannot write lock {}: {}", path, std::strerror(error))};
      return lock;
    }
    if (errno != EEXIST)
      return Status{Code::bad_argument, fmt::format("cannot create lock {}: {}", path, std::strerror(errno))};
    const Owner owner = read_owner(path);
    if (!force && !ended(owner, me))
      return Status{
          Code::bad_argument,
          fmt::format("{} is held by process {} on {} (job {}). If that run has ended, remove the lock file",
                      path, owner.pid, owner.host, owner.job)};
    // Moved, not removed: of two processes that find the same dead owner only one succeeds.
    const std::string grave = fmt::format("{}.{}", path, me.pid);
    if (rename(path.c_str(), grave.c_str()) == 0) unlink(grave.c_str());
  }
  return Status{Code::bad_argument, fmt::format("{}: another run took the lock", path)};
}

LockFile::~LockFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace mq::bench
