// How a call is made: by a function that blocks, by one that starts it and one that completes it, or by a
// request that is prepared once and started again and again.
#pragma once

#include <cstdint>

namespace mq::bench {

enum class Form : std::uint8_t { blocking, nonblocking, persistent };

// The word of --form.
constexpr const char* name(Form form) {
  return form == Form::persistent ? "persistent" : form == Form::nonblocking ? "nonblocking" : "blocking";
}

}  // namespace mq::bench
