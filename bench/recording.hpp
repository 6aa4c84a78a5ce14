// Input vectors from files, such as recorded gradients or fields of a simulation. A file has raw numbers in
// the machine's byte order: doubles if the name ends in .f64, otherwise floats. mpiq-train --record writes
// such files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// If the path contains {rank}, the number of the rank replaces it and each rank has its own file. Otherwise
// all ranks share one file, and each begins at its own place in it. When a vector reaches the length of the
// file, it goes on at another place; at the end of the file it goes on at the beginning. With n elements in
// the file, element i of rank r is the one at (i + offset(seed, r, i / n)) mod n. offset is random, but it is
// 0 for the first n elements of a rank's own file.
//
// {layer} is one of the words that the caller names. {step} is the digits in the names of the existing files,
// ascending. Each layer and step is a page of 2^40 indices; first() gives the first of them.
class Recording {
 public:
  // Maps the files of `ranks` ranks. Every rank must be able to read all of them, because the check of a
  // result makes the sum again from them. The error names the first file that is missing, empty, or not a
  // whole number of elements. For rank `mine` it also names a file with an element that is not finite, or so
  // large that its sum over the ranks might not fit one of the types.
  static Result<std::shared_ptr<const Recording>> open(const std::string& path, int ranks, int mine,
                                                       std::span<const kernels::Element> types,
                                                       std::uint64_t seed,
                                                       const std::vector<std::string>& layers = {});
  bool paged() const { return files_.size() > ranks_; }
  std::size_t steps() const { return steps_; }
  std::uint64_t first(const std::string& layer, std::size_t step) const;
  double value(int rank, std::uint64_t index) const {
    const File& file = file_of(rank, index >> kPageBits);
    index &= (std::uint64_t{1} << kPageBits) - 1;
    const std::uint64_t copy = index / file.count;
    return file.at((index - copy * file.count + offset(rank, copy, file.count)) % file.count);
  }
  std::uint64_t bytes(int rank, std::uint64_t index = 0) const {
    return file_of(rank, index >> kPageBits).bytes();
  }
  std::uint64_t count(int rank) const { return file_of(rank, 0).count; }

 private:
  struct File {
    std::shared_ptr<const void> data;  // mapped
    std::uint64_t count = 0;           // elements
    bool wide = false;                 // doubles
    std::uint64_t bytes() const { return count * (wide ? sizeof(double) : sizeof(float)); }
    double at(std::uint64_t i) const {
      return wide ? static_cast<const double*>(data.get())[i] : static_cast<const float*>(data.get())[i];
    }
  };
  static constexpr int kPageBits = 40;
  static Result<File> map(const std::string& path);
  const File& file_of(int rank, std::uint64_t page) const {
    return files_[page * ranks_ + (own_ ? static_cast<std::size_t>(rank) : 0)];
  }
  Status check(const File& file, const std::string& path, int ranks,
               std::span<const kernels::Element> types) const;
  std::uint64_t offset(int rank, std::uint64_t copy, std::uint64_t count) const;

  std::vector<File> files_;  // by layer, step and rank
  std::vector<std::string> layers_;
  std::size_t steps_ = 1, ranks_ = 1;  // ranks that have files of their own
  bool own_ = false;                   // a file for each rank
  std::uint64_t seed_ = 0;
};

// The path with the number of a rank in place of each {rank}.
std::string path_of_rank(const std::string& path, int rank);
// Whether a path contains the word.
bool has_step(const std::string& path);
bool has_layer(const std::string& path);

}  // namespace mq::bench
