// The grid: owners on two levels. Sums of the rows of a grid of ranks, then of its columns. There are Q
// columns and M = P/Q rows (grid_shape). The vector has Q slices, one for each column.
//   1. Everyone sends each rank of its row C(the slice of that rank's column). The owner adds what it
//      receives to its own part, in rank order.
//   2. Everyone sends C(its sum) to all ranks of its column. All of them add these M sums in the order of the
//      rows and encode the result, with the same bits.
//   3. Everyone sends the encoded result to all ranks of its row.
// If Q does not divide P, the last row is short. The row above owns the slices that it has no rank for. So
// the ranks of the short row take part in the row above, and send and add up to twice as much.
//
// Cost: 3 rounds, and 2(Q-1) + M-1 messages, about 4.5 sqrt P (up to 6.4 sqrt P with a short row). direct has
// 2(P-1). A rank sends 2(Q-1)/Q w + (M-1)/Q w, at most 2.5 w. Slices are P/Q times as long as in direct:
// blocks and headers stay a small part of a message at many ranks. A rank encodes n + n/Q elements, and
// decodes (2Q-1)/Q n + (M-1)/Q n. An element loses once for each rank's contribution except the owners', once
// for each row's sum, and once for the result. Each loss is kept in one residual.
//
// 2(Q-1) + M + 1 slots. Results are received into the slots of the contributions. With Ranks::encodes_own an
// owner encodes and decodes its own part before it adds: n/Q more of each.

#include <algorithm>
#include <cmath>
#include <utility>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The steps of one rank. Rank r is in row r / Q and column r mod Q, and chunk c belongs to column c. The
// *owner* of a chunk in a row is the rank of that column. If the last row is short, the row above owns its
// missing chunks.
class Grid {
 public:
  Grid(const Ranks& ranks, const GridShape& shape)
      : ranks_(ranks),
        shape_(shape),
        row_(ranks.rank / shape.columns),
        column_(ranks.rank % shape.columns),
        owners_(shape.owners(column_)),
        givers_above_(row_ + 1 == shape.rows && column_ >= shape.rest ? shape.rest : 0),
        plan_{.chunks = shape.columns, .slots = result_slot() + 1, .rounds = 3, .steps = {}} {}

  Plan make() {
    give();
    add_given();
    plan_.encode(column_, row_slot(), ranks_.encodes_own ? StepFeedback::deposit : StepFeedback::carry,
                 ranks_.size + row_);
    exchange_row_sums();
    // All owners of the chunk encode the same sum, and so write the same wire. One of them keeps the loss.
    plan_.encode(column_, result_slot(), row_ == 0 ? StepFeedback::deposit : StepFeedback::none, all());
    exchange_results();
    return std::move(plan_);
  }

 private:
  int to(int s) const { return (column_ + s) % shape_.columns; }
  int from(int s) const { return (column_ - s + shape_.columns) % shape_.columns; }
  int width() const { return row_ == shape_.rows ? shape_.rest : shape_.columns; }  // ranks of this row
  int in_row(int column) const { return column < width() ? row_ * shape_.columns + column : kNobody; }
  int owner(int column) const {
    return column < width() ? in_row(column) : (row_ - 1) * shape_.columns + column;
  }
  int short_rank(int i) const { return shape_.rows * shape_.columns + i; }  // of the short row

  // Slots, in this order: frames given to owners; frames given to this rank and, once they are added,
  // results; the row's sum; the sums of the other rows; the result.
  int sent(int s) const { return s - 1; }
  int given(int s) const { return shape_.columns - 1 + s - 1; }
  int given_above(int i) const { return given(shape_.columns) + i; }
  int row_slot() const { return given_above(givers_above_); }
  int column_slot(int t) const { return row_slot() + t; }
  int result_slot() const { return column_slot(owners_); }

  // Step::sum: of a rank's part its number, of a row's sum a number above, of the result the next one.
  int all() const { return ranks_.size + shape_.rows + 1; }

  void exchange(int slot, int to, int from, int recv_slot, int round) {
    if (to == kNobody && from == kNobody) return;
    plan_.exchange(to == kNobody ? 0 : slot, to, from == kNobody ? 0 : recv_slot, from, round);
  }

  void give() {
    for (int s = 1; s < shape_.columns; ++s) {
      plan_.encode(to(s), sent(s), StepFeedback::carry, ranks_.rank);
      exchange(sent(s), owner(to(s)), in_row(from(s)), given(s), 0);
    }
    for (int i = 0; i < givers_above_; ++i) exchange(0, kNobody, short_rank(i), given_above(i), 0);
  }
  // In the order of ranks.
  void add_given() {
    if (ranks_.encodes_own) round_own(plan_, ranks_.rank, column_, row_slot());
    for (int c = 0; c < width(); ++c)
      if (c != column_)
        plan_.decode_add(column_, given((column_ - c + shape_.columns) % shape_.columns), in_row(c));
    for (int i = 0; i < givers_above_; ++i) plan_.decode_add(column_, given_above(i), short_rank(i));
  }
  void exchange_row_sums() {
    const auto rank = [&](int row) { return row * shape_.columns + column_; };
    for (int t = 1; t < owners_; ++t)
      exchange(row_slot(), rank((row_ + t) % owners_), rank((row_ - t + owners_) % owners_), column_slot(t),
               1);
    plan_.decode(column_, column_slot(row_), ranks_.size);
    for (int row = 1; row < owners_; ++row)
      plan_.decode_add(column_, column_slot((row_ - row + owners_) % owners_), ranks_.size + row);
  }
  void exchange_results() {
    for (int s = 1; s < shape_.columns; ++s)
      exchange(result_slot(), in_row(to(s)), owner(from(s)), given(s), 2);
    for (int i = 0; i < givers_above_; ++i) exchange(result_slot(), short_rank(i), kNobody, 0, 2);
    plan_.decode(column_, result_slot(), all());
    for (int s = 1; s < shape_.columns; ++s) plan_.decode(from(s), given(s), all());
  }

  const Ranks& ranks_;
  const GridShape& shape_;
  const int row_, column_;
  const int owners_;        // of this rank's chunk: ranks of its column
  const int givers_above_;  // ranks of the short row that this rank is the owner for
  Plan plan_;
};

}  // namespace

// About 2 sqrt P columns: with fewer the column's sums are a larger share of what is sent, with more there
// are more messages. A number of columns that divides P is preferred; else the one with which the busiest
// rank sends least.
GridShape grid_shape(int size) {
  const double root = std::sqrt(static_cast<double>(size));
  const int most = std::clamp(static_cast<int>(root * 2.83), 1, std::max(1, size / 2));
  const int least = std::clamp(static_cast<int>(std::ceil(root * 1.41)), 1, most);
  GridShape best{size, 1, 0};  // one row: direct
  double best_load = 0;
  for (int columns = most; columns >= std::max(least, 2); --columns) {
    const GridShape shape{columns, size / columns, size % columns};
    const double load = (shape.rest > 0) + static_cast<double>(shape.owners(0) + shape.rest) / columns;
    if (best.rows > 1 && load >= best_load) continue;
    best = shape;
    best_load = load;
  }
  return best;
}

Plan make_grid(const Ranks& ranks) {
  const GridShape shape = grid_shape(ranks.size);
  if (shape.rows == 1) return make_direct(ranks);
  return Grid(ranks, shape).make();
}

}  // namespace mq
