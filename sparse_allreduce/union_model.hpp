// Models how many different indices the lists of K ranks have together, as a function of K. Separate because
// it is pure mathematics, independent of messages and machine.
//
// Indices are numbered r = 1 ... n by descending frequency. Each rank has index r with the probability
// 1 - exp(-lambda r^-alpha), independently of the others. So K lists together have
//   sum over r = 1 ... n of 1 - exp(-K lambda r^-alpha)
// indices (Zhao and Canny, section IV). alpha = 0 means equally frequent indices, as in the other common
// model, n (1 - (1 - d)^K).
//
// All ranks must compute equal bits, and the C library's exp and log differ between processors. So this file
// has its own, made of additions, multiplications and divisions.
#pragma once

#include <vector>

namespace mq::sparse {

class UnionModel {
 public:
  UnionModel() = default;  // empty lists
  // For lists of `entries` indices on average, out of `size`. alpha = 0: all indices are equally frequent.
  UnionModel(double size, double entries, double alpha);
  // With the alpha in [0, kMostAlpha] for which the lists of `ranks` ranks have `together` indices.
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
    double weight, rate;  // number of indices near one r, and their r^-alpha
  };
  std::vector<Node> nodes_;
};

namespace portable {
double exp(double x);
double log(double x);  // of x > 0
}  // namespace portable

}  // namespace mq::sparse
