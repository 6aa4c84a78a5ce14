// What a sweep prints on standard output, as --format says: a table for people, the text of osu_allreduce, or
// CSV. And what -G draws below it. Only rank 0 has one.
#pragma once

#include <string>
#include <vector>

#include "bench/options.hpp"
#include "bench/report.hpp"

namespace mq::bench {

class Output {
 public:
  explicit Output(const Options& options) : options_(&options) {}
  // Prints what belongs to a row at once. The row is kept for the end. input: what was summed.
  void add(const Measurement& measurement, const InputRow& input);
  // Prints what is made of all rows that were added.
  void finish() const;

 private:
  struct Row {
    PointRow row;
    double avg_s, min_s, max_s;  // over ranks, of the mean of each rank's repetitions
  };
  std::string osu_text() const;
  std::string osu_line(const Row& row) const;
  const Options* options_;
  std::vector<Row> rows_;
};

// The names of all columns of the result file, and the cells of one row: every digit of a number, nothing
// where a value is unknown. A description of the input follows, and with --counters a column for each event
// and phase, as in what scripts/export prints. Lines end as RFC 4180 says.
std::string csv_head(const std::vector<std::string>& events = {});
std::string csv_line(const Measurement& measurement, const InputRow& input,
                     const std::vector<std::string>& events = {});

// Times over sizes in characters, both axes logarithmic: a letter for each method, '*' where two meet. A
// picture for each number of ranks, type and, of sparse vectors, kind of lists. Only rows with a timing are
// drawn: their results are right, and there are no more ranks than processors. "" if no row has one.
std::string graph_text(const std::vector<PointRow>& rows);

}  // namespace mq::bench
