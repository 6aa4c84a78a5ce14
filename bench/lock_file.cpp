#include "bench/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace mq::bench {
namespace {

// a process that was killed may still be seen for this long
constexpr auto kDying = std::chrono::seconds(1);

struct Owner {
  std::string host, job;
  long pid = 0;
  long long began = 0;  // 0 in lock files of older versions
  bool operator==(const Owner&) const = default;
};

// The host name alone is not enough, because containers on different machines may have the same one.
std::string machine() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(host.data()) + "/" + boot.substr(0, 8);
}

// When a process began, in clock ticks since boot. It tells processes apart because process ids are reused. 0
// if the process has ended, even if nobody has waited for it yet. -1 if it exists but nothing more can be
// known.
long long began(long pid) {
  std::string text, word;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
  const std::size_t name_end = text.rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos) return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH ? 0 : -1;
  std::istringstream words(text.substr(name_end + 1));
  words >> word;
  if (word == "Z" || word == "X") return 0;
  long long ticks = -1;
  for (int field = 4; field < 22; ++field) words >> word;
  return words >> ticks ? ticks : -1;
}

Owner myself() {
  const char* job = std::getenv("SLURM_JOB_ID");
  return {machine(), job == nullptr ? "-" : job, getpid(), began(getpid())};
}

Owner read_owner(const std::string& path) {
  Owner owner;
  std::ifstream(path) >> owner.host >> owner.pid >> owner.job >> owner.began;
  return owner;
}

bool ended(const Owner& owner, const Owner& me) {
  if (owner.job != "-" && owner.job == me.job) return true;
  if (owner.host != me.host || owner.pid <= 0) return false;
  const long long found = began(owner.pid);
  return found == 0 || (found > 0 && owner.began > 0 && found != owner.began);
}

bool write_owner(const std::string& path, int flags, const Owner& me) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) return false;
  const std::string text = fmt::format("{} {} {} {}\n", me.host, me.pid, me.job, me.began);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  close(fd);
  errno = error;
  return written;
}

// Returns false with errno EEXIST if there is a lock. If the file system has hard links, the lock appears
// together with its contents. Otherwise a process that is killed between creating and writing would leave a
// lock without an owner.
bool create(const std::string& path, const std::string& draft, const Owner& me) {
  if (!write_owner(draft, O_TRUNC, me)) return false;
  const bool linked = link(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(draft.c_str());
  errno = error;
  if (linked || error == EEXIST) return linked;
  return write_owner(path, O_EXCL, me);
}

// Moves the lock before it is removed. If two processes find the same dead owner, only one of the moves
// succeeds. If the moved lock is a new one of the other process, it is put back.
void remove_lock(const std::string& path, const std::string& grave, const Owner& dead) {
  if (rename(path.c_str(), grave.c_str()) != 0) return;
  if (read_owner(grave) != dead) (void)!link(grave.c_str(), path.c_str());
  unlink(grave.c_str());
}

}  // namespace

Result<LockFile> LockFile::acquire(const std::string& path, bool force) {
  const Owner me = myself();
  const std::string own = fmt::format("{}.{}", path, me.pid);
  const auto patience = std::chrono::steady_clock::now() + kDying;
  for (int attempt = 0; attempt < 2;) {
    if (create(path, own, me)) {
      LockFile lock;
      lock.path_ = path;
      return lock;
    }
    if (errno != EEXIST)
      return Status{Code::bad_argument, fmt::format("cannot create lock {}: {}", path, std::strerror(errno))};
    const Owner owner = read_owner(path);
    if (force || ended(owner, me)) {
      remove_lock(path, own, owner);
      ++attempt;
    } else if (owner.host == me.host && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else {
      return Status{
          Code::bad_argument,
          fmt::format("{} is held by process {} on {} (job {}). If that run has ended, remove the lock file",
                      path, owner.pid, owner.host, owner.job)};
    }
  }
  return Status{Code::bad_argument, fmt::format("{}: another run took the lock", path)};
}

LockFile::~LockFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace mq::bench
