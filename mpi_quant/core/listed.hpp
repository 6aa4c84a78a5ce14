// Lists that parts above the core enter when the library is loaded, so that the core can call them without
// naming them: each entry is a static object of a class derived from Listed<that class>.
#pragma once

namespace mq {

template <class Entry>
class Listed {
 public:
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  static const Entry* first() { return first_; }
  const Entry* next() const { return next_; }

 protected:
  Listed() noexcept : next_(first_) { first_ = static_cast<const Entry*>(this); }
  ~Listed() = default;

 private:
  static inline constinit const Entry* first_ = nullptr;
  const Entry* next_;
};

}  // namespace mq
