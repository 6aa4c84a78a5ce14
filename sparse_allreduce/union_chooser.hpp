// Chooses the algorithm of union allreduces by what calls have taken. The model (expected_s) says in which
// order algorithms are worth a try. It may be wrong by a factor of two about what lists cost on a machine.
//
// It is a pure function of the calls' shapes and of seconds that the ranks have agreed on, so all ranks
// choose alike. It allocates nothing, so that no rank can fail alone.
//
//   try      an algorithm that has not run is taken to need half of what the model says, corrected by what
//            the fastest one took; and one that has run once half of what it took, because a first run also
//            gets memory. So each algorithm that may be the fastest runs twice, and none that cannot. The
//            first call of a class does not count.
//            A list made by `dense` takes memory for the whole vector, so there it is only tried where the
//            model puts it first.
//   exploit  the fastest runs, by the median of its last three times.
//   look     in calls 8, 32, 128 and so on, the second counts as if it had run once, or not at all if it has
//            run once. So one that was disturbed has another chance.
//   change   if the fastest needs twice or half of what it needed, all are tried again.
#pragma once

#include <array>
#include <cstdint>

#include "sparse_allreduce/union_job.hpp"

namespace mq::sparse {

class UnionChooser {
 public:
  // The algorithm of the next call. Equal on all ranks if shape and network are, and all that was heard.
  Algorithm next(const UnionShape& shape, const Network& network);
  // What the last call took, as the ranks agreed before the next one; 0: not known.
  void heard(double seconds);

 private:
  static constexpr std::size_t kClasses = 32, kKept = 3, kNone = ~std::size_t{0};

  struct Candidate {
    double predicted_s = 0;           // 0: the algorithm is not tried
    std::array<double, kKept> off{};  // measured over predicted, of the last runs
    std::uint32_t runs = 0;
    double usual_off = 0;    // after kKept runs
    double off_now() const;  // what the next run is expected to have; only after a run
    void add_run(double seconds);
    void doubt();  // it needs a further run
  };
  // Calls whose vectors and lists have the same number of bits in their lengths, and are else alike.
  struct Class {
    UnionShape shape;             // of a call, for predictions
    std::uint64_t last_call = 0;  // of all classes, to find the one that is unused for the longest time
    std::uint64_t calls = 0;      // 0: the class is free
    std::array<Candidate, kChoices.size()> candidates;
    void predict(const UnionShape& shape, const Network& network);
    double trust() const;  // by which predictions of algorithms that have not run are multiplied
    std::size_t fastest(std::size_t but_not = kNone) const;  // there are always two
  };

  Class& class_of(const UnionShape& shape);

  std::array<Class, kClasses> classes_;
  std::uint64_t calls_ = 0;
  Class* timed_ = nullptr;     // of the call whose time comes next
  std::size_t algorithm_ = 0;  // of that call
};

}  // namespace mq::sparse
