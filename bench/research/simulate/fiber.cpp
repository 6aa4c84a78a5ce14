#include "bench/research/simulate/fiber.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)  // GCC
#  define MQ_ADDRESS_SANITIZER
#elif defined(__has_feature)  // clang
#  if __has_feature(address_sanitizer)
#    define MQ_ADDRESS_SANITIZER
#  endif
#endif
#ifdef MQ_ADDRESS_SANITIZER
#  include <sanitizer/common_interface_defs.h>
#endif

namespace mq::sim {
namespace {

constexpr std::size_t kPage = 4096, kStack = (std::size_t{256} << 10) + kMostShift;

// AddressSanitizer must know on which stack the thread is. departing() comes before a switch and keeps what
// the sanitizer knows of this stack in `known`, or forgets it if that is null. arrived() comes behind a
// switch.
void departing([[maybe_unused]] void** known, [[maybe_unused]] const void* bottom,
               [[maybe_unused]] std::size_t size) {
#ifdef MQ_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(known, bottom, size);
#endif
}
void arrived([[maybe_unused]] void* known, [[maybe_unused]] const void** from,
             [[maybe_unused]] std::size_t* size) {
#ifdef MQ_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(known, from, size);
#endif
}

}  // namespace

Fibers::Fibers(std::size_t n) : fibers_(n) {
  void* const memory = mmap(nullptr, n * kStack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stacks_ = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < n; ++i)
    if (mprotect(stacks_ + i * kStack, kPage, PROT_NONE) != 0) {
      munmap(stacks_, n * kStack);
      throw std::bad_alloc();
    }
}

// The page below it cannot be touched.
std::byte* Fibers::stack_of(std::size_t i) const { return stacks_ + i * kStack + kPage; }

std::byte* Fibers::top_of(std::size_t i) const { return stacks_ + (i + 1) * kStack - stack_shift(i); }

Fibers::~Fibers() { munmap(stacks_, fibers_.size() * kStack); }

void Fibers::set(std::size_t i, std::function<void()> body) {
  Fiber& fiber = fibers_[i];
  fiber.body = std::move(body);
  fiber.is_over = false;
  fiber.thrown = nullptr;
  const auto begin = [](void* fibers) { static_cast<Fibers*>(fibers)->run_current(); };
  make_context(fiber.context, stack_of(i), top_of(i), begin, this);
}

void Fibers::run_current() noexcept {
  arrived(nullptr, &outside_stack_, &outside_size_);
  Fiber& fiber = fibers_[current_];
  try {
    fiber.body();
  } catch (...) {
    fiber.thrown = std::current_exception();
  }
  fiber.is_over = true;
  leave();  // for ever
}

void Fibers::resume(std::size_t i) {
  current_ = i;
  departing(&outside_known_, stack_of(i), static_cast<std::size_t>(top_of(i) - stack_of(i)));
  change_context(outside_, fibers_[i].context);
  arrived(outside_known_, nullptr, nullptr);
}

void Fibers::leave() {
  Fiber& fiber = fibers_[current_];
  departing(fiber.is_over ? nullptr : &fiber.known, outside_stack_, outside_size_);
  change_context(fiber.context, outside_);
  arrived(fiber.known, &outside_stack_, &outside_size_);
}

}  // namespace mq::sim
