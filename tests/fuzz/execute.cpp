// One rank of an allreduce whose peers are the fuzzer: any codec, plan and element type, and frames of any
// length and contents. The rank ends, with a result or an error, and writes nothing outside of its vectors.
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/engine/host_steps.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/methods.hpp"

namespace mq::fuzz {
namespace {

constexpr std::uint64_t kCall = 7;

// Messages that arrive are the input's, in its order; when it is used up, every peer has given up.
class Peers {
 public:
  struct Request {
    bool receive = false;
    std::span<std::byte> in;
  };
  Peers(Bytes& bytes, int rank, int size) : bytes_(bytes), rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  Status send(int to, int, std::span<const std::byte>, Request& request) {
    require(to >= 0 && to < size_ && to != rank_, "messages go to other ranks");
    request = {};
    return {};
  }
  Status receive(int from, int, std::span<std::byte> in, Request& request) {
    require(from >= 0 && from < size_ && from != rank_, "messages come from other ranks");
    request = {true, in};
    return {};
  }
  Status test(Request& request, bool& done, std::size_t& received_bytes) {
    done = true;
    if (!request.receive) return {};
    const std::vector<std::byte> message = next();
    received_bytes = message.size();
    const std::size_t n = std::min(message.size(), request.in.size());
    if (n > 0) std::memcpy(request.in.data(), message.data(), n);
    return {};
  }
  void idle() { require(false, "a rank whose messages are all here has something to do"); }
  void busy() {}

 private:
  std::vector<std::byte> next() {
    FrameHeader header;
    header.call = kCall;
    header.error_code = bytes_.empty() ? static_cast<std::uint16_t>(Code::no_memory) : 0;
    const auto way = bytes_.take<std::uint8_t>();
    if (way & 1) header.error_code = bytes_.take<std::uint16_t>();
    header.chunk = way >> 4;
    if (way & 2) header.segment = bytes_.take<std::uint8_t>();
    const std::vector<std::byte> payload = bytes_.take(bytes_.take<std::uint16_t>());
    if (way & 4) return payload;  // no header of ours
    header.payload_bytes = way & 8 ? bytes_.take<std::uint64_t>() : payload.size();
    std::vector<std::byte> message(sizeof header + payload.size());
    std::memcpy(message.data(), &header, sizeof header);
    if (!payload.empty()) std::memcpy(message.data() + sizeof header, payload.data(), payload.size());
    return message;
  }

  Bytes& bytes_;
  int rank_, size_;
};

void run(const Method& method, const Plan& plan, Bytes& bytes, const Ranks& who) {
  const PlanIndex plan_index = index_of(plan);
  Reduction reduction;
  reduction.element = kernels::kElements[bytes.take<std::uint8_t>() % kernels::kElements.size()];
  reduction.count = bytes.below(1000);
  const bool feedback = bytes.take<std::uint8_t>() % 2 != 0;
  const std::size_t input_bytes = reduction.count * kernels::element_bytes(reduction.element);
  Guarded output(input_bytes);
  Guarded residual(reduction.count * kernels::element_bytes(kernels::compute_element(reduction.element)));
  std::memset(output.data(), 0x3c, input_bytes);
  std::memset(residual.data(), 0,
              reduction.count * kernels::element_bytes(kernels::compute_element(reduction.element)));
  reduction.plan = &plan;
  reduction.plan_index = &plan_index;
  reduction.codec = method.codec;
  reduction.params = method.params;
  reduction.ops = method.codec->ops(reduction.element, kernels::best_isa());
  reduction.raw_ops = plan_index.raw ? raw_codec().ops(reduction.element, kernels::best_isa()) : nullptr;
  reduction.convert = kernels::convert(reduction.element, kernels::best_isa());
  reduction.input = reduction.output = output.data();
  reduction.residual = feedback ? residual.data() : nullptr;
  reduction.call = kCall;
  reduction.rank = who.rank;
  reduction.size = who.size;
  HostBackend backend;
  reduction.backend = &backend;
  Peers peers(bytes, who.rank, who.size);
  Buffer scratch;
  require(scratch.reserve(Execution<Peers>::scratch_bytes(reduction)), "there is memory for the scratch");
  Execution<Peers> execution;
  execution.prepare(reduction, scratch.data());
  Tally tally;
  require(execution.start(peers).ok(), "the communication does not fail");
  while (!execution.done()) {
    bool moved = false;
    require(execution.advance(peers, tally, moved).ok(), "the communication does not fail");
    if (!moved) peers.idle();
  }
  require(output.intact() && residual.intact(), "nothing outside of the vectors is written");
}

}  // namespace
}  // namespace mq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mq::fuzz::Bytes bytes(data, size);
  mq::Ranks who{0, 2 + bytes.take<std::uint8_t>() % 5, 1};
  who.rank = bytes.take<std::uint8_t>() % who.size;
  if (who.size % 2 == 0) who.per_node = 1 + bytes.take<std::uint8_t>() % 2;
  const mq::PlanRow& plan = mq::plans()[bytes.take<std::uint8_t>() % mq::plans().size()];
  mq::Method method;
  if (mq::fuzz::take_method(bytes, method)) mq::fuzz::run(method, plan.make(who), bytes, who);
  return 0;
}
