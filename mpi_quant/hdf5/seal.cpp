#include "mpi_quant/hdf5/seal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

namespace mq::h5 {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(what + ": " + std::generic_category().message(errno));
}

// Reads up to `bytes` bytes; fewer at the end of the file.
std::size_t read_at(int descriptor, std::uint64_t offset, void* data, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(descriptor, static_cast<std::byte*>(data) + done, bytes - done,
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (descriptor_ >= 0 && fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
    const int error = descriptor_ < 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : ENOTSUP;
    if (descriptor_ >= 0) (void)close(descriptor_);
    errno = error;
    fail("cannot open " + path);
  }
  ~Descriptor() { (void)close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

// The steps of FNV on words of 8 bytes. Each step is reversible, so a single wrong word always changes the
// hash.
Seal seal_of(int descriptor) {
  Seal seal;
  seal.hash = 0xcbf29ce484222325u;
  std::vector<std::uint64_t> words(std::size_t{1} << 16);
  const std::size_t most = words.size() * sizeof words[0];
  for (std::size_t n = most; n == most; seal.bytes += n) {
    n = read_at(descriptor, kSealBytes + seal.bytes, words.data(), most);
    const std::size_t whole = (n + sizeof words[0] - 1) / sizeof words[0];
    std::memset(reinterpret_cast<std::byte*>(words.data()) + n, 0, whole * sizeof words[0] - n);
    for (std::size_t i = 0; i < whole; ++i) seal.hash = (seal.hash ^ words[i]) * 0x100000001b3u;
  }
  return seal;
}

void check_seal(const std::string& path) {
  const Descriptor file(path);
  Seal seal;
  const std::size_t n = read_at(file, 0, &seal, sizeof seal);
  constexpr std::array<char, 8> kHdf5{'\211', 'H', 'D', 'F', '\r', '\n', '\032', '\n'};
  if (n >= sizeof kHdf5 && std::memcmp(&seal, kHdf5.data(), sizeof kHdf5) == 0) return;
  if (n < sizeof seal || seal.magic != Seal().magic) throw Error("not a file of residuals");
  if (seal != seal_of(file)) throw Error("the file was cut off or damaged");
}

}  // namespace mq::h5
