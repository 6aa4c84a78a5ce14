#include "tests/device/device_run.hpp"

#include <cstring>

namespace mq::test {

template <class T>
Outcome<T> run_on_devices(const DeviceScene& s, const Vectors<T>& input, Vectors<Compute<T>> residual) {
  const auto ranks = static_cast<std::size_t>(s.scene.ranks);
  Outcome<T> out{Vectors<T>(ranks, std::vector<T>(input[0].size())), std::move(residual),
                 std::vector<Status>(ranks), std::vector<Tally>(ranks), 0};
  if (s.scene.in_place) out.output = input;
  Loopback net(s.scene.ranks, s.scene.delay_seed, s.scene.tamper);
  net.set_patience(std::chrono::microseconds(10));
  if (s.rendezvous) net.set_rendezvous();
  if (s.device_wire != 0) net.set_copy(&Gpus::carry);
  Agreed agreed;
  net.run_in_turn([&](Loopback::Rank& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    out.status[r] = RankRun<T>(s, comm, input[r], out.output[r], out.residual[r]).run(out.tally[r], agreed);
  });
  out.leaked = net.leaked();
  return out;
}

template <class T>
void expect_all_same(std::span<const DeviceScene> ways, std::size_t n, const std::string& what) {
  const Scene& scene = ways[0].scene;
  const auto x = inputs<T>(scene.ranks, n);
  auto e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  const auto sums = e[0];
  for (auto& arrays :
       e) {  // of the rule, one after the other; the second array of estimates is the same on all ranks
    const auto residual = arrays;
    for (int a = 1; a < scene.memory->arrays; ++a) {
      const auto& more = a == 1 && scene.memory->keeps_estimates ? sums : residual;
      arrays.insert(arrays.end(), more.begin(), more.end());
    }
  }
  const Outcome<T> expected = run(scene, x, e);
  for (std::size_t way = 0; way < ways.size(); ++way) {
    Gpus::get().forget();
    const Outcome<T> got = run_on_devices(ways[way], x, e);
    const std::string where = scene.describe(n) + what + " (" + std::to_string(way) + ")";
    if (!scene.reduces) expect_sound(got, where);  // all ranks have the same then
    ASSERT_EQ(got.leaked, 0u) << where;
    for (std::size_t r = 0; r < x.size(); ++r) {
      ASSERT_TRUE(got.status[r].ok()) << where << " rank " << r << ": " << got.status[r].text();
      ASSERT_EQ(0, std::memcmp(expected.output[r].data(), got.output[r].data(), n * sizeof(T))) << where;
      ASSERT_TRUE(same_bits(expected.residual[r], got.residual[r])) << where << " rank " << r;
      ASSERT_EQ(expected.tally[r].sent_bytes, got.tally[r].sent_bytes) << where;
      ASSERT_EQ(expected.tally[r].nonfinite, got.tally[r].nonfinite) << where;
      ASSERT_EQ(expected.tally[r].overflows, got.tally[r].overflows) << where;
    }
  }
}

template <class T>
void expect_same(const DeviceScene& s, std::size_t n, const std::string& what) {
  expect_all_same<T>({&s, 1}, n, what);
}

#define MQ_RUNS_OF(T)                                                                             \
  template Outcome<T> run_on_devices(const DeviceScene&, const Vectors<T>&, Vectors<Compute<T>>); \
  template void expect_same<T>(const DeviceScene&, std::size_t, const std::string&);              \
  template void expect_all_same<T>(std::span<const DeviceScene>, std::size_t, const std::string&);
MQ_RUNS_OF(float)
MQ_RUNS_OF(double)
MQ_RUNS_OF(F16)
MQ_RUNS_OF(Bf16)
#undef MQ_RUNS_OF

}  // namespace mq::test
