// A process that is not linked with a driver: nothing is opened until it maps one. And what is said where
// there is one, but no table. Which of these a process is, CMake says by TABLE (FOUND, OFF, MISSING, OLD).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant/base/device.hpp"
#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

bool is_mapped(const std::string& library) {
  auto* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr && dlclose(handle) == 0;
}

// Whether any object whose path has this in it is mapped.
bool has_object(const char* part) {
  struct Asked {
    const char* part;
    bool is_found;
  } asked{part, false};
  (void)dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& a = *static_cast<Asked*>(data);
        a.is_found |= std::string(object->dlpi_name).find(a.part) != std::string::npos;
        return 0;
      },
      &asked);
  return asked.is_found;
}

void expect_nothing() {
  const int here = 0;
  EXPECT_EQ(device_api(), nullptr);
  const Result<Where> found = where(&here);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found).memory, Memory::host);
}

// The environment is read once, so each of these in a process of its own.
void expect_word(const char* variable, const char* word, bool is_known) {
  EXPECT_EXIT(
      {
        setenv(variable, word, 1);
        std::exit(env().ok() ? 0 : env().status().text().find(variable) != std::string::npos ? 1 : 2);
      },
      ::testing::ExitedWithCode(is_known ? 0 : 1), "")
      << variable << "=" << word;
}

// First, before anything reads the environment.
TEST(DeviceAbsent, words_of_the_environment) {
  for (const char* word : {"auto", "off", ""}) expect_word("MPIQ_CUDA", word, true);
  for (const char* word : {"on", "Off", "off "}) expect_word("MPIQ_CUDA", word, false);
  for (const std::string_view word : kDeviceSyncs) expect_word("MPIQ_CUDA_SYNC", word.data(), true);
  for (const char* word : {"stream", "legacy,none"}) expect_word("MPIQ_CUDA_SYNC", word, false);
  for (const std::string_view word : kDeviceWires) expect_word("MPIQ_CUDA_WIRE", word.data(), true);
  for (const char* word : {"automatic", "gpu"}) expect_word("MPIQ_CUDA_WIRE", word, false);
  for (const char* word : {"1", "16", "32"}) expect_word("MPIQ_CUDA_SEGMENTS", word, true);
  for (const char* word : {"0", "33", "many"}) expect_word("MPIQ_CUDA_SEGMENTS", word, false);
  for (const char* word : {"on", "off", ""}) expect_word("MPIQ_CUDA_TIME", word, true);
  for (const char* word : {"1", "auto"}) expect_word("MPIQ_CUDA_TIME", word, false);
  EXPECT_EXIT(
      {
        setenv("MPIQ_CUDA_SYNC", "perthread", 1);
        const Env e = env().ok() ? Env(*env()) : Env();
        std::exit(e.cuda_sync == DeviceSync::perthread ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(DeviceAbsent, nothing_is_opened_without_a_driver_and_the_table_is_found_when_one_comes) {
  const std::string table = std::getenv("TABLE");
  expect_nothing();
  EXPECT_EQ(device_unusable_reason(), nullptr);
  EXPECT_FALSE(is_mapped("libcuda.so.1"));
  EXPECT_FALSE(has_object("mpi_quant_cuda"));

  void* const driver = dlopen(std::getenv("DRIVER"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  ASSERT_TRUE(is_mapped("libcuda.so.1"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(device_api() != nullptr, table == "FOUND"); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(has_object("mpi_quant_cuda"), table == "FOUND" || table == "OLD");
  if (table == "FOUND") {
    ASSERT_NE(device_api(), nullptr) << device_unusable_reason();
    EXPECT_EQ(device_api()->version, kDeviceApi);
    const int here = 0;
    EXPECT_TRUE(where(&here).ok());
  } else {
    expect_nothing();
  }
  if (table == "FOUND" || table == "OFF") {
    EXPECT_EQ(device_unusable_reason(), nullptr) << device_unusable_reason();
  } else {
    ASSERT_NE(device_unusable_reason(), nullptr);
    const std::string trouble = device_unusable_reason();
    const char* const why =
        table == "OLD" ? "the CUDA driver is too old: it has no cu" : "libmpi_quant_cuda.so";
    EXPECT_NE(trouble.find(why), std::string::npos) << trouble;
  }
}

}  // namespace
}  // namespace mq
