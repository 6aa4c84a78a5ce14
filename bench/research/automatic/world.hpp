// A world in which a chooser is tried: networks, codecs that are faster or slower than the model takes them
// to be, noise, and data with an error for each codec. Everything is a function of a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/automatic/chooser.hpp"
#include "mpi_quant/automatic/own_times.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

struct Network {
  const char* name;
  double latency_s, overhead_s, byte_s;
  Prices prices() const {
    Prices p{};
    p[Term::latency] = latency_s;
    p[Term::overhead] = overhead_s;
    p[Term::byte] = byte_s;
    return p;
  }
};
inline constexpr Network kNetworks[]{
    {"1 Gbit/s", 25e-6, 5e-6, 8e-9},
    {"10 Gbit/s", 15e-6, 3e-6, 8e-10},
    {"100 Gbit/s", 2e-6, 0.7e-6, 8e-11},
    {"memory", 0.5e-6, 0.3e-6, 5e-11},
};

class World {
 public:
  // agrees_anyway: calls of a function of the library, which make an agreement whatever is chosen.
  World(CallClass calls, const Network& network, std::uint64_t seed, bool agrees_anyway = false)
      : chooser(calls, agrees_anyway),
        calls_(calls),
        network_(network),
        seed_(seed),
        agrees_anyway_(agrees_anyway),
        times_(calls.timed()) {}

  Chooser chooser;
  double noise = 0.05;                          // of a time: uniform within this share
  double disturbed_share = 0, disturbance = 0;  // of calls; of MPI's time, and what it takes beside
  std::uint64_t outlier = 0;  // the number of a call that takes so many of MPI's times beside
  double outlier_s = 0;
  double judging = 1.5;      // of MPI's time: what judging a result takes
  double sampling = 0;       // of MPI's time: what a method takes before its call, to be tried on a sample
  double scouting = 0;       // the same of one that is only looked at
  double scouted_error = 1;  // of the error of the whole sample: what shows where it is only looked at
  double first_run = 0;  // of MPI's time: what the first run of a candidate takes beside, as it gets memory

  // The relative error of a codec on these data, and the bytes that it needs for an element (0: the usual).
  std::function<double(const AutoCandidate&)> error = [](const AutoCandidate& c) {
    const auto starts = [&](std::string_view word) { return c.method.codec->name.starts_with(word); };
    return c.method.codec->lossless ? 0
           : starts("bf16")         ? 0.0017
           : starts("f16")          ? 0.0003
           : starts("int8")         ? 0.007
           : starts("int4")         ? 0.13
                                    : 0.6;
  };
  // How many times as long as a usual one this machine takes to encode and to decode. Ranks measure it.
  double machine = 1;
  // What a sample shows, if it is not that error.
  std::function<double(const AutoCandidate&)> sampled_error;
  // What the model does not know, as factors: of the codec's work (null: any within 0.6 to 1.8), and of the
  // whole call.
  std::function<double(const AutoCandidate&)> codec_slowness;
  std::function<double(const AutoCandidate&)> slowness = [](const AutoCandidate&) { return 1.0; };
  std::function<double(const AutoCandidate&)> wire_bytes = [](const AutoCandidate& c) {
    return c.wire_bytes;
  };

  const CallClass& calls() const { return calls_; }
  const Network& network() const { return network_; }
  void set_network(const Network& network) {
    network_ = network;
    true_s_.clear();
  }

  // The expected time of a candidate here, without noise.
  double true_s(std::size_t i) const {
    true_s_.resize(chooser.candidates().size());
    if (true_s_[i] == 0) true_s_[i] = compute_true_s(i);
    return true_s_[i];
  }
  double compute_true_s(std::size_t i) const {
    if (i == 0) return dense_seconds(calls_, network_.prices());
    AutoCandidate c = chooser.candidate(i);
    c.wire_bytes = wire_bytes(c);
    const double any = 0.6 + 1.2 * unit(Hash{}.add(c.method.codec->id).add(seed_).value());
    const double factor = machine * (codec_slowness ? codec_slowness(c) : any);
    c.encode_s *= factor;
    c.decode_s *= factor;
    return predicted_s(calls_, c, network_.prices()) * slowness(c);
  }
  double agreement_s() const { return agreement_cost(calls_.ranks, network_.prices()).seconds; }
  // What a call takes if nothing is learnt.
  double call_s(std::size_t i) const { return true_s(i) + (i == 0 && agrees_anyway_ ? agreement_s() : 0); }
  // The fastest candidate within the limit, by its true time and error.
  std::size_t best() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < chooser.candidates().size(); ++i)
      if (within(i) && call_s(i) < call_s(best)) best = i;
    return best;
  }
  bool within(std::size_t i) const {
    return i == 0 || chooser.candidate(i).is_sure || 1.25 * result_error(i) <= calls_.limit.value;
  }

  // Each encode on the way of an element loses about the same.
  double result_error(std::size_t i) const {
    return std::sqrt(chooser.candidate(i).losses) * error(chooser.candidate(i));
  }

  struct Done {
    double seconds = 0;  // of the call, all included
    std::size_t reduced_by = 0;
    double result_error = 0;  // of what the program got
    double lateness = 1;      // factor of the time
    double disturbed_s = 0;   // of the time, what other processes took; any reduction would have met it
  };
  // By a given candidate, whatever the chooser says.
  Done call_by(std::size_t i) {
    Done done;
    done.reduced_by = i;
    done.seconds = true_s(i) * (1 + noise * (2 * unit(next_random()) - 1));
    if (i != 0 && !chooser.candidate(i).method.codec->lossless) done.result_error = result_error(i);
    return done;
  }
  Done call() {
    const Choice choice = last_choice_ = chooser.next();
    if (heard_by != nullptr) {
      const Choice other = heard_by->next();
      always_alike = always_alike && other.candidate == choice.candidate && other.agrees == choice.agrees &&
                     other.scouted == choice.scouted && other.judged == choice.judged;
    }
    Done done;
    const double agreement = agreement_s();
    const bool agrees = choice.agrees || agrees_anyway_;
    done.reduced_by = choice.candidate;
    if (agrees) {
      Heard heard;
      times_.take(heard);
      if (choice.measures) measure_rates(heard);
      if (choice.sampled) heard.own = sample(choice.candidate);
      if (choice.scouted != 0) heard.scouted = sample(choice.scouted);
      heard.scouted.error *= static_cast<float>(scouted_error);
      if (heard_by != nullptr) (void)heard_by->heard(heard);
      if (!chooser.heard(heard)) done.reduced_by = 0;
    }
    done.lateness = unit(next_random()) < late_share ? 2 : 1;
    const double factor = done.lateness * (1 + noise * (2 * unit(next_random()) - 1));
    double reduction = true_s(done.reduced_by) * factor;
    const double trying =
        agrees ? true_s(0) * (sampling * choice.sampled + scouting * (choice.scouted != 0)) : 0;
    if (disturbed_share > 0 && unit(next_random()) < disturbed_share)
      done.disturbed_s = disturbance * true_s(0);
    if (chooser.totals().calls == outlier) done.disturbed_s += outlier_s * true_s(0);
    has_run_.resize(chooser.candidates().size());
    if (done.reduced_by != 0 && !has_run_[done.reduced_by]) reduction += first_run * true_s(0);
    has_run_[done.reduced_by] = true;
    reduction += done.disturbed_s;
    if (done.reduced_by != 0) {
      done.seconds = trying + reduction + (choice.judged ? judging * true_s(0) * factor : 0);
      times_.add_call(done.seconds, done.seconds - agreement);
      done.result_error = hidden_error * result_error(done.reduced_by);
      if (choice.judged) {
        if (heard_by != nullptr) (void)heard_by->judged(done.result_error);
        if (!chooser.judged(done.result_error)) done.result_error = 0;
      }
    } else {
      if (times_.counts(agrees, chooser.totals().calls)) times_.add_dense(reduction);
      done.seconds = trying + reduction + (agrees ? agreement : 0);
      if (agrees) times_.add_trying(trying);
    }
    if (agrees) times_.add_agreement(agreement * factor);
    return done;
  }

  const Choice& last_choice() const { return last_choice_; }

  Sampled sample(std::size_t i) {
    const AutoCandidate& c = chooser.candidate(i);
    const double shown = sampled_error ? sampled_error(c) : error(c);
    return {static_cast<float>(shown * (1 + noise * (2 * unit(next_random()) - 1))),
            static_cast<float>(wire_bytes(c))};
  }

  void measure_rates(Heard& heard) {
    const CodecRates usual = usual_rates(calls_.element);
    constexpr double kOff = 0.2;  // a rate that is measured once is a rough one
    const auto measured = [&](double rate) {
      return static_cast<float>(rate / machine * (1 + kOff * (2 * unit(next_random()) - 1)));
    };
    heard.encode_rate = measured(usual.encode);
    heard.decode_rate = measured(usual.decode);
  }

  double late_share = 0;        // of the calls takes twice as long
  double hidden_error = 1;      // factor of the error that samples do not show
  Chooser* heard_by = nullptr;  // hears the same
  bool always_alike = true;     // it chose the same

 private:
  static double unit(std::uint64_t bits) { return static_cast<double>(mixed(bits) >> 11) * 0x1p-53; }
  std::uint64_t next_random() { return mixed(seed_ * 0x9e3779b97f4a7c15u + ++drawn_); }

  CallClass calls_;
  Network network_;
  std::uint64_t seed_, drawn_ = 0;
  bool agrees_anyway_;
  OwnTimes times_;
  Choice last_choice_;
  std::vector<bool> has_run_;           // by candidate
  mutable std::vector<double> true_s_;  // of each candidate; 0: not computed yet
};

}  // namespace mq
