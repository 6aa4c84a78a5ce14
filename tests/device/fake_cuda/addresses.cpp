// cuGetProcAddress of the fake driver: a function by its plain name, without the number of its version.
#include <string>

#include "tests/device/fake_cuda/state.hpp"

namespace mq::fake {
namespace {

struct Named {
  std::string name;
  void* address;
};

const std::vector<Named>& all() {
#define MQ_FAKE_NAMED(function, ...) {#function, reinterpret_cast<void*>(&function)},
  static const std::vector<Named> functions{MQ_CUDA_FUNCTIONS(MQ_FAKE_NAMED)
                                                MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_FAKE_NAMED)};
#undef MQ_FAKE_NAMED
  return functions;
}

}  // namespace

extern "C" CuResult cuGetProcAddress(const char* symbol, void** function, int, std::uint64_t) {
  *function = nullptr;
  for (const Named& known : all())
    if (known.name.substr(0, known.name.rfind("_v")) == symbol) *function = known.address;
  return *function == nullptr ? kNotFound : kSuccess;
}

}  // namespace mq::fake
