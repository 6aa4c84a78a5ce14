// A codec's device row in the emulator beside its host row: the same wire, residual, count, values and
// results, bit for bit. Arrays are surrounded by canaries.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "kernels/device.hpp"
#include "tests/device/simt/emulator.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {

// Bytes that end where memory ends.
class Fenced {
 public:
  explicit Fenced(const std::vector<std::byte>& bytes) {
    if (simt::on_device()) {  // which knows of no such fences
      copy_ = bytes;
      data_ = copy_.data();
      return;
    }
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    kept_ = (bytes.size() + page - 1) / page * page;
    mapped_ = kept_ + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + kept_, page, PROT_NONE);
    data_ = base_ + kept_ - bytes.size();
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~Fenced() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::size_t kept_ = 0, mapped_ = 0;
  std::byte *base_ = nullptr, *data_ = nullptr;
  std::vector<std::byte> copy_;
};

// As small as GPUs come, so that short vectors too are many thread blocks' turns.
inline constexpr kernels::DeviceShape kSmallDevice{1, 99 << 10};

// Scratch memory of the size that a row asks for, at a multiple of 256; what was in it before is anything.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes), memory_(bytes + 512, kFill) {}
  std::byte* data() {
    return memory_.data() + (256 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 256) % 256;
  }
  bool intact() {
    return std::all_of(memory_.data(), data(), is_fill) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.size(), is_fill);
  }

 private:
  static constexpr std::byte kFill{0xa5};
  static bool is_fill(std::byte b) { return b == kFill; }
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

// Of an encode somewhere in a call; its index is a multiple of every block.
constexpr kernels::Site kSite{
    .call = 0x123456789abcdef, .sum = 0xfedcba987654321, .index = 3 << 20, .ranks = 3};

template <class T>
struct DeviceRowUnderTest {
  Row<T> host;
  const kernels::DeviceOps* ops;
  kernels::DeviceShape shape = kSmallDevice;

  std::string describe(std::size_t n, std::string_view what) const {
    return host.describe(n, "device ") + std::string(what) + " ";
  }
  kernels::Launcher launcher() const {
    return simt::launcher(std::max(shape.shared_bytes, simt::kSharedLeast));
  }
  void expect_ran(std::size_t n, std::string_view what) const {
    EXPECT_STREQ(simt::error(), "") << describe(n, what);
    simt::clear_error();
  }

  // Encodes on both; gives the host's wire.
  std::vector<std::byte> encode(const std::vector<T>& x, const std::vector<T>& residual,
                                kernels::Feedback feedback, std::size_t shift, std::string_view what) const {
    const std::size_t n = x.size(), bound = host.bound(n);
    Guarded<T> in(n * sizeof(T), shift), error(residual.size() * sizeof(T), shift);
    Guarded<std::byte> wire(bound, shift);
    in.set(x);
    error.set(residual);
    Guarded<T> host_error(residual.size() * sizeof(T), 0);
    host_error.set(residual);
    std::vector<std::byte> expected(bound);
    const bool kept = !residual.empty() || n == 0;
    const kernels::Encoded host_encoded = host.ops().encode(
        {x.data(), kept ? host_error.data() : nullptr, feedback, n, host.params, expected.data(), kSite});
    expected.resize(host_encoded.bytes);

    Scratch scratch(ops->scratch_bytes(n, host.params));
    // On the heap, which a real GPU sees too (simt/on_device.cpp).
    const auto result = std::make_unique<kernels::DeviceEncoded>(kernels::DeviceEncoded{77, 0, 0});
    kernels::DeviceEncoded& encoded = *result;
    ops->encode({{in.data(), kept ? error.data() : nullptr, feedback, n, host.params, wire.data(), kSite},
                 &encoded,
                 scratch.data(),
                 shape},
                launcher());
    expect_ran(n, what);
    EXPECT_TRUE(in.intact() && error.intact() && wire.intact() && scratch.intact())
        << describe(n, what) << "encode wrote outside";
    EXPECT_TRUE(same_bits(in.get(n), x)) << describe(n, what) << "encode changed its input";
    EXPECT_EQ(encoded.bytes, host_encoded.bytes) << describe(n, what);
    EXPECT_EQ(encoded.nonfinite, host_encoded.nonfinite) << describe(n, what);
    EXPECT_EQ(encoded.overflows, host_encoded.overflows) << describe(n, what);
    EXPECT_TRUE(same_bits(wire.get(host_encoded.bytes), expected)) << describe(n, what) << "wire";
    EXPECT_TRUE(same_bits(error.get(residual.size()), host_error.get(residual.size())))
        << describe(n, what) << "residual";
    return expected;
  }

  // Decodes on both: plain, with a base, and in place. The same result; the same values if it is ok.
  kernels::Decoded decode(const std::vector<std::byte>& wire, const std::vector<T>& base, std::size_t shift,
                          std::string_view what) const {
    const std::size_t n = base.size();
    const Fenced fenced(wire);
    kernels::Decoded decoded_as = kernels::Decoded::ok;
    for (const int way : {0, 1, 2}) {
      std::vector<T> expected = base;
      const void* const host_base = way == 0 ? nullptr : base.data();
      decoded_as = host.ops().decode({wire.data(), wire.size(), n, host.params, host_base, expected.data()});
      Guarded<T> from(n * sizeof(T), shift), to(n * sizeof(T), shift);
      from.set(base);
      to.set(base);
      Guarded<std::byte> moved(wire.size(), shift);
      moved.set(wire);
      const void* const added = way == 0 ? nullptr : way == 1 ? from.data() : to.data();
      Scratch scratch(ops->scratch_bytes(n, host.params));
      const auto said = std::make_unique<std::uint32_t>(0);
      std::uint32_t& malformed = *said;
      ops->decode({{shift == 0 ? fenced.data() : moved.data(), wire.size(), n, host.params, added, to.data()},
                   &malformed,
                   scratch.data(),
                   shape},
                  launcher());
      expect_ran(n, what);
      EXPECT_TRUE(from.intact() && to.intact() && moved.intact() && scratch.intact())
          << describe(n, what) << "decode wrote outside";
      EXPECT_EQ(malformed, decoded_as == kernels::Decoded::malformed) << describe(n, what) << "result";
      if (decoded_as != kernels::Decoded::ok) continue;
      EXPECT_TRUE(same_bits(to.get(n), expected)) << describe(n, what) << "decoded " << way;
    }
    return decoded_as;
  }
};

// Calls property(DeviceRowUnderTest<T>) for every codec with a device row, parameters and compute element.
template <class F>
void for_each_device_row(const F& property) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const kernels::Params& params : param_sets(codec)) {
      const auto with = [&]<class T>(T) {
        const Row<T> row{&codec, params, kernels::Isa::scalar};
        const kernels::DeviceOps* const ops = kernels::device_ops(codec, Row<T>::kElement, params);
        if (ops != nullptr) property(DeviceRowUnderTest<T>{row, ops});
      };
      with(float{});
      with(double{});
    }
}

}  // namespace mq::test
