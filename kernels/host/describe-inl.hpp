// The description of a codec: its Codec without `ops`. Each instruction set includes this file once, at the
// end; only the scalar objects use it.
#pragma once

template <class Q>
struct Description {
  static std::size_t block(const Params& params) noexcept { return Q::block(params); }

  static std::size_t wire_bound(std::size_t n, Element element, const Params& params) noexcept {
    return compute_element(element) == Element::f32 ? Q::template Family<float>::wire_bytes(n, params)
                                                    : Q::template Family<double>::wire_bytes(n, params);
  }

  static bool whole(const Params& params) noexcept {
    if constexpr (requires { Q::whole(params); })
      return Q::whole(params);
    else
      return false;
  }

  static std::string_view conflict(const Params& params) noexcept {
    if constexpr (requires { Q::conflict(params); })
      return Q::conflict(params);
    else
      return {};
  }

  static Measures measures(const Params& params) noexcept {
    if constexpr (requires { Q::measures(params); })
      return Q::measures(params);
    else
      return Measures::nothing;
  }

  static Measured measure(const void* x, std::size_t n, Element element, const Params& params) noexcept {
    const auto* bytes = static_cast<const std::byte*>(x);
    return compute_element(element) == Element::f32 ? Q::template measure<float>(bytes, n, params)
                                                    : Q::template measure<double>(bytes, n, params);
  }

  // The same numbers on all ranks, whatever rounding the program has set on one of them.
  static Params settle(const Params& params, const Measured& measured) noexcept {
    const DefaultFloatingPoint environment;
    return Q::settle(params, measured);
  }

  static bool unbiased(const Params& params) noexcept {
    if constexpr (requires { Q::unbiased(params); })
      return Q::unbiased(params);
    else
      return Q::kLossless;
  }

  static bool contraction(const Params& params) noexcept {
    if constexpr (requires { Q::contraction(params); })
      return Q::contraction(params);
    else
      return Q::kLossless;
  }

  static double error_bound(const Params& params) noexcept {
    if constexpr (requires { Q::error_bound(params); })
      return Q::error_bound(params);
    else
      return 0;
  }

  static double absolute_bound(const Params& params, int ranks) noexcept {
    if constexpr (requires { Q::absolute_bound(params, ranks); })
      return Q::absolute_bound(params, ranks);
    else
      return 0;
  }

  static Form form(const Params& params) noexcept {
    if constexpr (requires { Q::form(params); })
      return Q::form(params);
    else
      return Form::other;
  }

  static bool symmetric(const Params& params) noexcept {
    if constexpr (requires { Q::symmetric(params); })
      return Q::symmetric(params);
    else
      return true;
  }

  static constexpr bool marks_blocks() {
    if constexpr (requires { Q::kMarksBlocks; })
      return Q::kMarksBlocks;
    else
      return false;
  }

  static constexpr bool exact_sums() {
    if constexpr (requires { Q::kExactSums; })
      return Q::kExactSums;
    else
      return false;
  }

  static Codec codec() noexcept {
    Codec codec{Q::kName,    Q::kId,         Q::kWhat,     Q::kLossless, Q::kSpecs,       &block,
                &wire_bound, nullptr,        &whole,       &conflict,    &measures,       nullptr,
                nullptr,     &unbiased,      &contraction, &error_bound, &absolute_bound, &form,
                &symmetric,  marks_blocks(), exact_sums()};
    if constexpr (requires { &Q::measures; }) {
      codec.measure = &measure;
      codec.settle = &settle;
    }
    return codec;
  }
};
