// The commands of MPI_Pcontrol.

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "mpi_quant/base/stub.h"
#include "mpi_quant/preload/control.hpp"

namespace mq::test {
namespace {

TEST(Pcontrol, commands_are_obeyed_and_others_refused) {
  const Control before = control();
  EXPECT_FALSE(before.off);
  EXPECT_TRUE(obey(0, nullptr).ok());
  EXPECT_TRUE(control().off);
  EXPECT_TRUE(obey(1, nullptr).ok());
  EXPECT_FALSE(control().off);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "exact").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "exact").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_TRUE(control().off);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_FALSE(control().off);
  EXPECT_FALSE(obey(MPIQ_PCONTROL, "end").ok());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "step").ok());
  EXPECT_EQ(control().step, before.step + 1);
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "flush").ok());
  EXPECT_EQ(control().flush, before.flush + 1);
  for (const char* const bad : {"", "stop", "key=", "key", "step "})
    EXPECT_FALSE(obey(MPIQ_PCONTROL, bad).ok()) << bad;
  EXPECT_FALSE(obey(MPIQ_PCONTROL, ("key=" + std::string(64, 'x')).c_str()).ok());
  EXPECT_TRUE(obey(7, nullptr).ok()) << "other tools' levels mean nothing here";
}

TEST(Pcontrol, a_key_is_of_one_thread_and_for_one_sum) {
  EXPECT_TRUE(take_key().empty());
  EXPECT_TRUE(obey(MPIQ_PCONTROL, "key=layer 3").ok());
  std::thread([] { EXPECT_TRUE(take_key().empty()); }).join();
  EXPECT_EQ(take_key().view(), "layer 3");
  EXPECT_TRUE(take_key().empty());
  EXPECT_TRUE(obey(MPIQ_PCONTROL * 65536 + 12, nullptr).ok());
  EXPECT_EQ(take_key().view(), "12");
}

}  // namespace
}  // namespace mq::test
