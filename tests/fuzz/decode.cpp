// Every codec row of the processor: wires that nobody encoded, wires that were damaged, and elements of any
// bits there and back.
#include <cmath>
#include <limits>

#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/methods.hpp"

namespace mq::fuzz {
namespace {

using kernels::Decoded;

template <class T>
class Target {
 public:
  Target(const Method& method, Bytes& bytes, std::size_t n)
      : codec_(*method.codec), params_(method.params), bytes_(bytes), n_(n) {}

  void any_wire() const { (void)decode(bytes_.rest()); }

  // Elements of the input's bits; what is left of it damages their wire.
  void own_wire() const {
    std::vector<T> x(n_), residual(n_);
    for (T& value : x) value = bytes_.take<T>();
    const auto feedback = static_cast<kernels::Feedback>(bytes_.take<std::uint8_t>() % 3);
    for (T& value : residual) value = finite(bytes_.take<T>());
    const std::size_t bound = codec_.wire_bound(n_, kElement, params_);
    Guarded wire(bound);
    const kernels::Encoded encoded =
        ops().encode({x.data(), residual.data(), feedback, n_, params_, wire.data()});
    require(encoded.bytes <= bound && wire.intact(), "encode writes no more than its bound");
    for (const T value : residual) require(std::isfinite(value), "residuals are finite");
    std::vector<std::byte> sent(wire.data(), wire.data() + encoded.bytes);
    require(decode(sent) == Decoded::ok, "a codec decodes what it encoded");
    damage(bytes_, sent);
    (void)decode(sent);
  }

 private:
  static constexpr kernels::Element kElement = sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64;

  const kernels::CodecOps& ops() const { return *codec_.ops(kElement, kernels::best_isa()); }

  Decoded decode(const std::vector<std::byte>& wire) const {
    const std::vector<T> base(n_, T{1.5});
    Guarded plain(n_ * sizeof(T)), sum(n_ * sizeof(T)), in_place(n_ * sizeof(T));
    if (n_ > 0) std::memcpy(in_place.data(), base.data(), n_ * sizeof(T));
    const auto run = [&](const void* from, Guarded& to) {
      const Decoded result = ops().decode({wire.data(), wire.size(), n_, params_, from, to.data(), false});
      require(to.intact(), "decode writes nothing outside of its n elements");
      return result;
    };
    const Decoded result = run(nullptr, plain);
    require(run(base.data(), sum) == result, "decode and decode_add accept the same wires");
    require(run(in_place.data(), in_place) == result, "so they do in place");
    for (std::size_t i = 0; i < n_ && result == Decoded::ok; ++i) {
      const T expected = base[i] + at(plain, i);
      require(same(at(sum, i), expected), "decode_add adds what decode gives");
      require(same(at(in_place, i), expected), "so it does in place");
    }
    return result;
  }
  static T at(Guarded& memory, std::size_t i) {
    T value;
    std::memcpy(&value, memory.data() + i * sizeof value, sizeof value);
    return value;
  }
  static T finite(T value) { return std::isfinite(value) ? value : T{1}; }
  static bool same(T a, T b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

  const kernels::Codec& codec_;
  const kernels::Params params_;
  Bytes& bytes_;
  std::size_t n_;
};

template <class T>
void run(const Method& method, Bytes& bytes, unsigned way) {
  const std::size_t n = bytes.below(way & 2 ? 300 : 5000);
  const Target<T> target(method, bytes, n);
  if (way & 2)
    target.own_wire();
  else
    target.any_wire();
}

}  // namespace
}  // namespace mq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mq::fuzz::Bytes bytes(data, size);
  const unsigned way = bytes.take<std::uint8_t>();
  mq::Method method;
  if (!mq::fuzz::take_method(bytes, method)) return 0;
  if (way & 1)
    mq::fuzz::run<double>(method, bytes, way);
  else
    mq::fuzz::run<float>(method, bytes, way);
  return 0;
}
