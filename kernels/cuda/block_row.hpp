// The DeviceRow of a codec whose family codes blocks of a fixed size (blocks.hpp). A family is a struct with
//
//   kKernels                     MQ_BLOCK_KERNEL_NAMES(name), of the line MQ_BLOCK_KERNELS(name, ...)
//   settings<T>(params)          the Settings of its kernels
//   block<T>(settings)           elements of a block
//   wire_bytes<T>(settings, n)   bytes of n elements
//   serves(params)               false if there are no kernels for these; may be left out
#pragma once

#include <array>

#include "kernels/cuda/blocks.hpp"
#include "kernels/cuda/names.hpp"
#include "kernels/cuda/rows.hpp"

namespace mq::kernels::block_rows {

// Each kind of feedback, and adding, has a kernel of its own, so that none waits for registers of the others.
struct KernelNames {
  std::array<NamesByType, 3> encode;  // by Feedback
  std::array<NamesByType, 2> decode;  // plain, and with a base
};
#define MQ_BLOCK_KERNEL_NAMES(name)                                          \
  mq::kernels::block_rows::KernelNames {                                     \
    {MQ_NAMES_BY_TYPE(name, _encode), MQ_NAMES_BY_TYPE(name, _encode_carry), \
     MQ_NAMES_BY_TYPE(name, _encode_deposit)},                               \
    {                                                                        \
      MQ_NAMES_BY_TYPE(name, _decode), MQ_NAMES_BY_TYPE(name, _decode_add)   \
    }                                                                        \
  }
static_assert(static_cast<int>(Feedback::none) == 0 && static_cast<int>(Feedback::carry) == 1 &&
              static_cast<int>(Feedback::deposit) == 2);

// What a family without settings has, except kKernels. Wire<T> has kBlock and bytes(n).
template <template <class> class Wire>
struct WithoutSettings {
  template <class T>
  static Fixed settings(const Params&) {
    return {};
  }
  template <class T>
  static std::size_t block(Fixed) {
    return Wire<T>::kBlock;
  }
  template <class T>
  static std::size_t wire_bytes(Fixed, std::size_t n) {
    return Wire<T>::bytes(n);
  }
};

template <class Family, class T, class Settings>
Cut cut_of(const Settings& settings, std::size_t n) {
  const std::size_t block = Family::template block<T>(settings);
  return {n, (n + block - 1) / block, static_cast<std::uint32_t>(block),
          static_cast<std::uint32_t>(Family::template wire_bytes<T>(settings, block))};
}

template <class Family, class T>
void encode_as(const DeviceEncode& e, const Launcher& launch) noexcept {
  const auto settings = Family::template settings<T>(e.args.params);
  encode(name_for<T>(Family::kKernels.encode[static_cast<std::size_t>(e.args.feedback)]), e,
         cut_of<Family, T>(settings, e.args.n), Family::template wire_bytes<T>(settings, e.args.n), settings,
         launch);
}

template <class Family, class T>
void decode_as(const DeviceDecode& d, const Launcher& launch) noexcept {
  const auto settings = Family::template settings<T>(d.args.params);
  decode(name_for<T>(Family::kKernels.decode[d.args.base != nullptr]), d,
         cut_of<Family, T>(settings, d.args.n), Family::template wire_bytes<T>(settings, d.args.n), settings,
         launch);
}

template <class Family>
constexpr DeviceRow row() {
  DeviceRow row{{DeviceOps{&scratch_bytes, &encode_as<Family, float>, &decode_as<Family, float>},
                 DeviceOps{&scratch_bytes, &encode_as<Family, double>, &decode_as<Family, double>}}};
  if constexpr (requires { &Family::serves; }) row.serves = &Family::serves;
  return row;
}

}  // namespace mq::kernels::block_rows
