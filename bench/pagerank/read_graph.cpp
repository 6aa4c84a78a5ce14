#include "bench/pagerank/read_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "bench/lines.hpp"
#include "bench/random.hpp"

namespace mq::bench {
namespace {

constexpr std::int64_t kMostVertices = std::int64_t{1}
                                       << 32;  // as R-MAT; every vertex up to the largest counts

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t,;";
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

bool number(std::string_view word, std::int64_t& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

bool comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#' || line[first] == '%';
}

class Reader {
 public:
  Reader(const std::string& path, int rank, int ranks)
      : path_(path),
        lines_(path),
        rank_(static_cast<std::uint64_t>(rank)),
        ranks_(static_cast<std::uint64_t>(ranks)) {}
  Result<EdgeList> read();

 private:
  Status bad(std::string_view why) const {
    return {Code::bad_argument, fmt::format("{}:{}: {}", path_, lines_.number(), why)};
  }
  void add(std::int64_t source, std::int64_t target) {
    if (Random(count_++).next() % ranks_ == rank_) list_.edges.push_back({source, target});
  }
  Status edge_line(std::string_view line);
  Status matrix_header(std::string_view line);
  Status matrix_size(std::string_view line);
  Status matrix_line(std::string_view line);
  Status end_of_matrix() const;

  std::string path_;
  Lines lines_;
  std::uint64_t rank_, ranks_, count_ = 0;
  EdgeList list_;
  bool matrix_ = false, symmetric_ = false, sized_ = false;
  std::size_t columns_ = 2;
  std::int64_t entries_ = 0, seen_ = 0;
};

Status Reader::edge_line(std::string_view line) {
  const auto words = words_of(line);
  Edge edge{};
  if (words.size() < 2 || !number(words[0], edge.source) || !number(words[1], edge.target))
    return bad(fmt::format("'{}' is not a source and a target", line.substr(0, 40)));
  const std::int64_t most = std::max(edge.source, edge.target);
  if (std::min(edge.source, edge.target) < 0) return bad("a vertex is negative");
  if (most >= kMostVertices)
    return bad(fmt::format("vertex {} is 2^32 or more: number the vertices from 0 on without gaps", most));
  list_.vertices = std::max(list_.vertices, static_cast<std::uint64_t>(most) + 1);
  add(edge.source, edge.target);
  return {};
}

Status Reader::matrix_header(std::string_view line) {
  std::string lower(line);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto words = words_of(lower);
  if (words.size() != 5 || words[1] != "matrix" || words[2] != "coordinate")
    return bad("only 'matrix coordinate' files are graphs");
  if (words[3] != "pattern" && words[3] != "real" && words[3] != "integer")
    return bad(fmt::format("values are pattern, real or integer, not '{}'", words[3]));
  if (words[4] != "general" && words[4] != "symmetric")
    return bad(fmt::format("symmetry is general or symmetric, not '{}'", words[4]));
  matrix_ = true;
  columns_ = words[3] == "pattern" ? 2 : 3;
  symmetric_ = words[4] == "symmetric";
  return {};
}

Status Reader::matrix_size(std::string_view line) {
  const auto words = words_of(line);
  std::int64_t rows = 0, columns = 0;
  if (words.size() != 3 || !number(words[0], rows) || !number(words[1], columns) ||
      !number(words[2], entries_) || rows < 1 || entries_ < 0)
    return bad(fmt::format("'{}' is not rows, columns and entries", line.substr(0, 40)));
  if (rows > kMostVertices) return bad(fmt::format("{} rows are more than 2^32", rows));
  if (rows != columns) return bad(fmt::format("a graph is a square matrix, not {} x {}", rows, columns));
  list_.vertices = static_cast<std::uint64_t>(rows);
  list_.first_name = 1;
  sized_ = true;
  return {};
}

Status Reader::matrix_line(std::string_view line) {
  if (!sized_) return matrix_size(line);
  const auto words = words_of(line);
  std::int64_t row = 0, column = 0;
  if (words.size() < columns_ || !number(words[0], row) || !number(words[1], column))
    return bad(fmt::format("'{}' is not an entry", line.substr(0, 40)));
  const auto most = static_cast<std::int64_t>(list_.vertices);
  if (row < 1 || row > most || column < 1 || column > most)
    return bad(fmt::format("entry ({}, {}) is outside of the matrix", row, column));
  if (++seen_ > entries_) return bad(fmt::format("more than the {} entries announced", entries_));
  add(row - 1, column - 1);
  if (symmetric_ && row != column) add(column - 1, row - 1);
  return {};
}

Status Reader::end_of_matrix() const {
  if (!sized_) return bad("the file ends before the size of the matrix");
  if (seen_ != entries_) return bad(fmt::format("the file ends after {} of {} entries", seen_, entries_));
  return {};
}

Result<EdgeList> Reader::read() {
  if (!lines_.open()) return Status{Code::bad_argument, fmt::format("{}: {}", path_, std::strerror(errno))};
  for (std::string_view line; lines_.next(line);) {
    Status s;
    if (lines_.number() == 1 && line.starts_with("%%MatrixMarket"))
      s = matrix_header(line);
    else if (!comment(line))
      s = matrix_ ? matrix_line(line) : edge_line(line);
    if (!s.ok()) return s;
  }
  if (lines_.failed()) return bad("the rest cannot be read: the file is damaged");
  if (matrix_)
    if (const Status s = end_of_matrix(); !s.ok()) return s;
  if (count_ == 0) return bad("the file has no edge");
  return std::move(list_);
}

}  // namespace

Result<EdgeList> read_graph(const std::string& path, int rank, int ranks) {
  return Reader(path, rank, ranks).read();
}

}  // namespace mq::bench
