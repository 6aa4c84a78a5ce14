// A text file, line by line. zlib reads plain files as well as compressed ones.
#pragma once

#include <zlib.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mq::bench {

class Lines {
 public:
  explicit Lines(const std::string& path) : file_(gzopen(path.c_str(), "rb"), &gzclose) {
    if (file_) gzbuffer(file_.get(), 1U << 18);
  }
  bool open() const { return file_ != nullptr; }
  // Returns false at the end of the file, and if the file cannot be read any further (see failed).
  bool next(std::string_view& line) {
    text_.clear();
    while (piece()) {
      text_ += buffer_.data();
      if (text_.ends_with('\n')) break;
    }
    while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\r')) text_.pop_back(), ended_ = true;
    if (text_.empty() && !ended_) return false;
    ended_ = false;
    ++number_;
    line = text_;
    return true;
  }
  std::size_t number() const { return number_; }
  bool failed() const {
    int error = Z_OK;
    (void)gzerror(file_.get(), &error);
    return has_nul_ || (error != Z_OK && error != Z_STREAM_END);
  }

 private:
  // gzgets does not say how much it read. More than the string has means that a NUL is in the text, which
  // hides the rest.
  bool piece() {
    const z_off_t before = gztell(file_.get());
    if (has_nul_ || gzgets(file_.get(), buffer_.data(), static_cast<int>(buffer_.size())) == nullptr)
      return false;
    has_nul_ = gztell(file_.get()) - before != static_cast<z_off_t>(std::strlen(buffer_.data()));
    return !has_nul_;
  }
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_ = std::vector<char>(4096);
  std::string text_;
  std::size_t number_ = 0;
  bool ended_ = false, has_nul_ = false;
};

}  // namespace mq::bench
