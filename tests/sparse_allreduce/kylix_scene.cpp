#include "tests/sparse_allreduce/kylix_scene.hpp"

namespace mq::test {

std::vector<std::byte> as_bytes(const KylixScene& scene, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * kernels::element_bytes(scene.element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto f = static_cast<float>(values[i]);
    if (scene.element == kernels::Element::f64)
      std::memcpy(bytes.data() + i * 8, &values[i], 8);
    else
      std::memcpy(bytes.data() + i * 4, &f, 4);
  }
  return bytes;
}

std::vector<double> expected(const KylixScene& scene, int rank) {
  std::map<std::int64_t, std::vector<double>> all;
  for (int r = 0; r < scene.ranks / scene.replicas; ++r) {
    const Share& share = scene.shares[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < share.out.size(); ++i) {
      const double* v = share.values.data() + i * scene.stride;
      auto [at, fresh] = all.try_emplace(share.out[i], v, v + scene.stride);
      for (std::size_t s = 0; s < scene.stride && !fresh; ++s)
        at->second[s] = apply(scene.op, at->second[s], v[s]);
    }
  }
  const double none = scene.op == Op::sum ? 0 : scene.op == Op::min ? HUGE_VAL : -HUGE_VAL;
  std::vector<double> result;
  for (const std::int64_t index : scene.shares[static_cast<std::size_t>(rank)].in) {
    const auto at = all.find(index);
    for (std::size_t s = 0; s < scene.stride; ++s) result.push_back(at == all.end() ? none : at->second[s]);
  }
  return result;
}

Status Player::sets(sparse::IndexSet& out, sparse::IndexSet& in) {
  scratch.reset();
  MQ_TRY(make_index_set(share_.out, scene_.order, sparse::kIndexLimit, scratch, out));
  return make_index_set(share_.in, scene_.order, sparse::kIndexLimit, scratch, in);
}

Status Player::configure() {
  sparse::IndexSet out, in;
  MQ_TRY(sets(out, in));
  return sparse::configure(comm_, scene_.settings(), out, share_.out.size(), in, share_.in.size(), scratch,
                           kylix, &reduction, traffic);
}

Status Player::fused() {
  sparse::IndexSet out, in;
  MQ_TRY(sets(out, in));
  scribble();
  return sparse::configure_reduce(comm_, scene_.settings(), out, share_.out.size(), out_bytes_.data(), in,
                                  share_.in.size(), in_bytes_.data(), scratch, kylix, reduction, traffic);
}

Status Player::reduce() {
  scribble();
  MQ_TRY(reduction.start(comm_, out_bytes_.data(), in_bytes_.data()));
  return finish(comm_, reduction);
}

void Player::settle(double seconds) {
  const double end = now_s() + seconds;
  while (!reduction.quiet() && now_s() < end) {
    ASSERT_TRUE(reduction.receive_late(comm_).ok());
    comm_.idle();
  }
}

}  // namespace mq::test
