// Structs whose size the program sets: programs that were compiled for an earlier library work with this one.

#include "mpi_quant/core/sized.hpp"

#include <gtest/gtest.h>

#include <array>

namespace mq {
namespace {

struct Old {
  std::uint64_t size, calls;
};
struct New {
  std::uint64_t size, calls, bytes;
};

Status check(std::uint64_t size) { return check_size<New>(size, sizeof(Old), "New", "NEW_INIT"); }

TEST(Sized, an_earlier_program_gets_what_its_struct_has_room_for_and_nothing_behind_it_changes) {
  std::array<Old, 2> of_program{Old{sizeof(Old), 0}, Old{7, 7}};
  ASSERT_TRUE(check(of_program[0].size).ok());
  write_sized(of_program.data(), of_program[0].size, New{0, 5, 6});
  EXPECT_EQ(of_program[0].size, sizeof(Old)) << "the program's size stays";
  EXPECT_EQ(of_program[0].calls, 5U);
  EXPECT_EQ(of_program[1].size, 7U);
  EXPECT_EQ(of_program[1].calls, 7U);
}

TEST(Sized, members_that_an_earlier_program_does_not_have_are_read_as_zero) {
  const std::array<Old, 2> of_program{Old{sizeof(Old), 5}, Old{7, 7}};
  const New read = read_sized<New>(of_program.data(), of_program[0].size);
  EXPECT_EQ(read.calls, 5U);
  EXPECT_EQ(read.bytes, 0U);
}

TEST(Sized, a_size_that_is_not_set_or_is_of_a_later_library_is_an_error_that_says_what_to_do) {
  EXPECT_TRUE(check(sizeof(New)).ok());
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{sizeof(Old) - 1},
                                  std::uint64_t{sizeof(New) + 1}, ~std::uint64_t{0}}) {
    const Status status = check(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_NE(status.text().find("New.size is " + std::to_string(bad)), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("set it with NEW_INIT"), std::string::npos) << status.text();
    EXPECT_EQ(status.text().find("a library that is as new") != std::string::npos, bad > sizeof(New))
        << status.text();
  }
}

}  // namespace
}  // namespace mq
