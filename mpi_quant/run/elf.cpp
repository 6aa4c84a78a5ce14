#include "mpi_quant/run/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mq {
namespace {

// The bytes of a file, of which the system reads those that are looked at: a program may be very long. Empty
// if it cannot be read.
class Bytes {
 public:
  explicit Bytes(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    struct stat status {};
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (at != MAP_FAILED) all_ = {static_cast<const char*>(at), size};
    }
    close(descriptor);
  }
  ~Bytes() {
    if (!all_.empty()) munmap(const_cast<char*>(all_.data()), all_.size());
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::string_view all() const { return all_; }

 private:
  std::string_view all_;
};

// Reads a T at an offset. False if the file ends before.
template <class T>
bool read_at(std::string_view file, std::uint64_t offset, T& out) {
  if (offset > file.size() || file.size() - offset < sizeof out) return false;
  std::memcpy(&out, file.data() + offset, sizeof out);
  return true;
}

// The text that begins at an offset and ends with a null character.
std::string text_at(std::string_view file, std::uint64_t offset) {
  if (offset >= file.size()) return "";
  file.remove_prefix(offset);
  return std::string(file.substr(0, file.find('\0')));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

struct Dynamic {
  std::vector<std::uint64_t> needed;  // offsets in the table of texts
  std::uint64_t texts = 0, folders = 0;
  bool has_folders = false;
};

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Entry = ElfW(Dyn);

Dynamic read_dynamic(std::string_view file, const Segment& segment) {
  Dynamic found;
  for (std::uint64_t at = 0; at + sizeof(Entry) <= segment.p_filesz; at += sizeof(Entry)) {
    Entry entry{};
    if (!read_at(file, segment.p_offset + at, entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) found.needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) found.texts = entry.d_un.d_ptr;
    if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) {
      found.folders = entry.d_un.d_val;
      found.has_folders = true;
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
  const Bytes bytes(path);
  const std::string_view file = bytes.all();
  Header header{};
  constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != kClass)
    return {};
  Dynamic dynamic;
  std::vector<Segment> loads;
  for (int i = 0; i < header.e_phnum; ++i) {
    Segment segment{};
    if (!read_at(file, header.e_phoff + static_cast<std::uint64_t>(i) * header.e_phentsize, segment))
      return {};
    if (segment.p_type == PT_LOAD) loads.push_back(segment);
    if (segment.p_type == PT_DYNAMIC) dynamic = read_dynamic(file, segment);
  }
  // The table of texts is named by its address in memory.
  std::uint64_t texts = 0;
  for (const Segment& load : loads)
    if (dynamic.texts >= load.p_vaddr && dynamic.texts - load.p_vaddr < load.p_filesz)
      texts = dynamic.texts - load.p_vaddr + load.p_offset;
  if (texts == 0) return {};
  const std::vector<std::string> folders =
      dynamic.has_folders ? split(text_at(file, texts + dynamic.folders), ':') : std::vector<std::string>();
  std::vector<std::string> names;
  for (const std::uint64_t offset : dynamic.needed) {
    names.push_back(text_at(file, texts + offset));
    for (const std::string& folder : folders)
      if (folder.starts_with('/') && access((folder + "/" + names.back()).c_str(), R_OK) == 0) {
        names.back() = folder + "/" + names.back();
        break;
      }
  }
  return names;
}

std::string program_file(const std::string& word) {
  if (word.find('/') != std::string::npos) return word;
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/bin:/usr/bin", ':'))
    if (const std::string file = (folder.empty() ? "." : folder) + "/" + word;
        access(file.c_str(), X_OK) == 0)
      return file;
  return "";
}

}  // namespace mq
