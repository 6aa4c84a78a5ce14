// How a call is made. blocking: by one function. nonblocking: one function starts it, another completes it.
// persistent: a request is prepared once, and started again and again.
#pragma once

#include <cstdint>

namespace mq::bench {

enum class Form : std::uint8_t { blocking, nonblocking, persistent };

// The word of --form.
constexpr const char* name(Form form) {
  return form == Form::persistent ? "persistent" : form == Form::nonblocking ? "nonblocking" : "blocking";
}

}  // namespace mq::bench
