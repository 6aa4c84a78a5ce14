#include "mpi_quant/core/call_samples.hpp"

#include <algorithm>
#include <new>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

bool is_for_sure_on_host(const void* vector) {
  const Result<bool> there = is_on_device(vector);
  return there.ok() && !*there;
}

}  // namespace

// Lists the vectors that have elements. False if they cannot be sampled, because one is on a GPU: the sample
// would have to wait for what makes the vector. The vectors of a group are in host memory.
bool CallSamples::list(const Call& call, const CallClass& calls, const CallResiduals& waiting) {
  vectors_.clear();
  if (call.group == nullptr) {
    if (call.input() == nullptr || !is_for_sure_on_host(call.input())) return false;
    if (waiting.of_vector != nullptr && !is_for_sure_on_host(waiting.of_vector)) return false;
    vectors_.push_back(
        {static_cast<const std::byte*>(call.input()), call.input_range().n, waiting.of_vector});
    return true;
  }
  const std::vector<GroupCall::Vector>& vectors = call.group->vectors;
  for (std::size_t i = 0; i < vectors.size(); ++i)
    if (vectors[i].n > 0)
      vectors_.push_back({static_cast<const std::byte*>(vectors[i].input()), vectors[i].n,
                          waiting.of_group.empty() ? nullptr : waiting.of_group[i].residual,
                          calls.sends_raw(vectors[i].n), true});
  return true;
}

void CallSamples::bring(const Chosen& chosen, const Call& call, kernels::Element element,
                        const CallResiduals& waiting, Heard& heard) noexcept {
  const Chooser& chooser = *chosen.chooser;
  const Choice& choice = chosen.choice;
  if (call.input_range().n == 0) return;  // it brings nothing, so it loses nothing
  heard.own = choice.sampled ? unknown_sample() : Sampled{};
  heard.scouted = choice.scouted != 0 ? unknown_sample() : Sampled{};
  if (kernels::compute_element(element) != element) return;
  constexpr std::size_t kMostKept = std::size_t{16} << 20;
  if (sample_.bytes() > kMostKept) sample_ = {};  // of a call of very many vectors
  try {
    if (!list(call, chooser.calls(), waiting)) return;
  } catch (const std::bad_alloc&) {
    return;  // nothing is known of the vectors, so MPI reduces
  }
  const kernels::Isa isa = env()->isa;
  if (choice.measures) {
    const auto longest =
        std::max_element(vectors_.begin(), vectors_.end(),
                         [](const SampledVector& a, const SampledVector& b) { return a.n < b.n; });
    const CodecRates rates = sample_.rates(longest->elements, longest->n, element, isa);
    heard.encode_rate = static_cast<float>(rates.encode);
    heard.decode_rate = static_cast<float>(rates.decode);
  }
  if (!choice.sampled && choice.scouted == 0) return;
  // What is only scouted is sampled again before it runs, so not each vector has to be seen.
  if (!sample_.take(vectors_, element, chooser.seconds(chooser.favourite()), taken_++, choice.sampled))
    return;
  const bool owes = chooser.calls().limit.kind == Automatic::Kind::feedback;
  if (choice.scouted != 0) heard.scouted = sample_.try_on(chooser.candidate(choice.scouted), isa, false);
  if (owes) heard.scouted.error = 0;  // what a call leaves out waits for the next
  if (!choice.sampled) return;
  if (owes)
    heard.own = {sample_.debt(), 0};
  else
    heard.own = sample_.try_on(chooser.candidate(choice.candidate), isa, true);
}

}  // namespace mq
