// How many different indices the lists of K ranks have together, as a function of K. Separate because it is
// mathematics: no messages, no machine.
//
// The index of rank r, counted by how frequent it is, is on each rank independently with the probability
// 1 - exp(-lambda r^-alpha); so K lists have sum over r = 1 ... n of 1 - exp(-K lambda r^-alpha) indices
// together (Zhao and Canny, section IV). alpha = 0 is the other model in use, independent indices of equal
// probability: n (1 - (1 - d)^K). Own exp and log, of additions, multiplications and divisions, because all
// ranks must compute equal bits, and those of the C library differ between processors.
#pragma once

#include <vector>

namespace mq::sparse {

class UnionModel {
 public:
  UnionModel() = default;  // of empty lists
  // Lists of `entries` indices on average, of `size`; alpha 0: any index is as frequent as any other.
  UnionModel(double size, double entries, double alpha);
  // With the alpha, 0 to kMostAlpha, for which the lists of so many ranks have `together` indices.
  static UnionModel fitted(double size, double entries, int ranks, double together);
  static constexpr double kMostAlpha = 4;

  double of(double lists) const;
  double alpha() const { return alpha_; }
  double size() const { return size_; }

 private:
  void set_alpha(double alpha);
  void fit_lambda(double entries);
  double sum(double lambda) const;

  double size_ = 0, alpha_ = 0, lambda_ = 0;
  struct Node {
    double weight, rate;  // so many indices of about this r, and their r^-alpha
  };
  std::vector<Node> nodes_;
};

namespace portable {
double exp(double x);
double log(double x);  // of x > 0
}  // namespace portable

}  // namespace mq::sparse
