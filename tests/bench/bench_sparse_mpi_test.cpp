// The check of sparse results notices what is wrong with them, on whatever rank it is.
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "bench/sparse_check.hpp"

namespace mq::bench {
namespace {

class SparseCheck : public ::testing::Test {
 protected:
  SparseCheck()
      : shape_{300, 2, kernels::Element::f32},
        inputs_{shape_, SupportGenerator({.support = Support::uniform, .density = 0.1}, 300), Generator({})} {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    sum_ = sum_of_lists(inputs_, 0, size_);
    indices_ = sum_.indices;
    for (const double s : sum_.sum) values_.push_back(static_cast<float>(s));
    vector_.assign(600, 0);
    for (std::size_t i = 0; i < values_.size(); ++i)
      vector_[static_cast<std::size_t>(indices_[i / 2]) * 2 + i % 2] = values_[i];
  }
  bool last() const { return rank_ == size_ - 1; }
  SparseChecker checker() const { return {sum_, shape_, MPI_COMM_WORLD}; }

  SparseShape shape_;
  SparseInputs inputs_;
  int rank_ = 0, size_ = 1;
  SparseSum sum_;
  std::vector<std::int64_t> indices_;
  std::vector<float> values_, vector_;
};

TEST_F(SparseCheck, a_right_result_of_every_form_is_right) {
  for (const ResultErrors& v :
       {checker().compare_vector(vector_.data(), true), checker().compare_list(indices_, values_.data()),
        checker().compare_wanted(indices_, values_.data())}) {
    EXPECT_EQ(v.n_wrong, 0);
    EXPECT_TRUE(v.replicas_equal);
    EXPECT_LT(v.rel_l2, 1e-6);
  }
}

TEST_F(SparseCheck, one_wrong_value_on_one_rank_is_counted) {
  if (last()) values_[3] += 1;
  if (last()) vector_[static_cast<std::size_t>(indices_[1]) * 2 + 1] += 1;
  for (const ResultErrors& v :
       {checker().compare_vector(vector_.data(), true), checker().compare_list(indices_, values_.data()),
        checker().compare_wanted(indices_, values_.data())}) {
    EXPECT_EQ(v.n_wrong, 1);
    EXPECT_EQ(v.replicas_equal, size_ == 1);
  }
}

TEST_F(SparseCheck, what_nobody_holds_is_0) {
  std::size_t absent = 0;
  while (vector_[2 * absent] != 0) ++absent;
  if (last()) vector_[2 * absent] = 1e-30F;
  EXPECT_EQ(checker().compare_vector(vector_.data(), true).n_wrong, 1);
  const std::vector<std::int64_t> wanted{static_cast<std::int64_t>(absent)};
  const std::vector<float> zero{0, 0}, not_zero{0, 1e-30F};
  EXPECT_EQ(checker().compare_wanted(wanted, zero.data()).n_wrong, 0);
  EXPECT_EQ(checker().compare_wanted(wanted, not_zero.data()).n_wrong, size_);
}

TEST_F(SparseCheck, a_list_that_lacks_an_index_is_wrong) {
  indices_.pop_back();
  EXPECT_GT(checker().compare_list(indices_, values_.data()).n_wrong, 0);
}

// Ranks that want different indices: the smallest unit in the last place is a difference.
TEST_F(SparseCheck, ranks_that_differ_in_a_bit_are_noticed) {
  if (size_ == 1) GTEST_SKIP() << "one rank has no replica";
  std::vector<std::int64_t> wanted = indices_;
  std::vector<float> values = values_;
  if (rank_ == 0) {  // wants all but the first
    wanted.erase(wanted.begin());
    values.erase(values.begin(), values.begin() + 2);
  }
  EXPECT_TRUE(checker().compare_wanted(wanted, values.data()).replicas_equal);
  if (last()) reinterpret_cast<unsigned char*>(&values.back())[0] ^= 1;
  EXPECT_FALSE(checker().compare_wanted(wanted, values.data()).replicas_equal);
}

}  // namespace
}  // namespace mq::bench
