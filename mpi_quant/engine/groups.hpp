// Which codec steps of segments in flight begin together, so that one launch of a device serves all of them:
// the steps of a group of neighbouring pipelines. See Backend::together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mq {

class Groups {
 public:
  // May throw std::bad_alloc.
  void prepare(std::size_t pipelines, std::size_t together) {
    pipelines_ = pipelines;
    together_ = together;
    idle_calls_ = 0;
    held_ = 0;
    enough_.assign((pipelines + together - 1) / together, together);
  }

  // The batch has the pipelines that are at a codec step, by number. Takes out those whose neighbours are not
  // at one yet. round_of(i): how many segments pipeline i has run before its present one; -1: it is not
  // active. is_last(pipeline): nothing that follows in its segment is sent.
  //
  // Last steps wait for a complete group, however slowly messages arrive. Only the same pipeline needs their
  // result. No message that the group waits for depends on it, so waiting cannot deadlock. All receives
  // behind the last send are posted by then (plan_test.cpp), so no sender waits for a pipeline that is held
  // back.
  //
  // Other steps do not wait for ever: a rank with fewer segments in flight may wait for what this step makes,
  // before it sends what a neighbour waits for. After kPatience calls without progress, and without another
  // pipeline that came to a codec step, a group need not be complete: as many as are ready are enough, also
  // for the rest of the reduction, so that it waits only once.
  template <class Pipeline, class RoundOf, class IsLast>
  void hold_back(std::vector<Pipeline*>& batch, bool progress, const RoundOf& round_of,
                 const IsLast& is_last) {
    if (together_ == 1 || batch.empty()) return;
    idle_calls_ = progress || batch.size() > held_ ? 0 : idle_calls_ + 1;
    const bool is_patient = idle_calls_ < kPatience;
    auto kept = batch.begin();
    for (auto begin = batch.begin(); begin != batch.end();) {
      const std::size_t group = group_of(**begin);
      const auto end = std::find_if(begin, batch.end(), [&](auto* p) { return group_of(*p) != group; });
      const auto ready = static_cast<std::size_t>(end - begin);
      const Members members = members_of(group, round_of);
      const bool waits = std::all_of(begin, end, [&](auto* p) {
        return is_last(*p) && round_of(static_cast<std::size_t>(p->index)) == members.last_round;
      });
      if (!is_patient && !waits) enough_[group] = std::min(enough_[group], ready);
      if (ready >= (waits ? members.active : std::min(enough_[group], members.active)))
        kept = std::move(begin, end, kept);
      begin = end;
    }
    held_ = static_cast<std::size_t>(batch.end() - kept);
    batch.erase(kept, batch.end());
    if (!batch.empty()) idle_calls_ = 0;
  }

 private:
  struct Members {
    std::size_t active = 0;
    int last_round = -1;
  };
  template <class Pipeline>
  std::size_t group_of(const Pipeline& pipeline) const {
    return static_cast<std::size_t>(pipeline.index) / together_;
  }
  template <class RoundOf>
  Members members_of(std::size_t group, const RoundOf& round_of) const {
    const std::size_t end = std::min((group + 1) * together_, pipelines_);
    Members members;
    for (std::size_t i = group * together_; i < end; ++i) {
      const int round = round_of(i);
      members.active += round >= 0;
      members.last_round = std::max(members.last_round, round);
    }
    return members;
  }

  static constexpr int kPatience = 100;
  std::size_t pipelines_ = 0, together_ = 1;
  std::vector<std::size_t> enough_;  // by group: with so many at a codec step it need not be complete
  std::size_t held_ = 0;             // pipelines that the last call held back
  int idle_calls_ = 0;               // calls in a row that held back and saw no progress
};

}  // namespace mq
