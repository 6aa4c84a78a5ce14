// The union allreduce for vectors with so many entries that the caller's reduction of whole vectors is
// fastest. If the result is a list, a dissemination of bitmaps first finds which elements are in it. This
// takes log2 P steps of n / 8 bytes each, which is 1/32 of the bytes of a float vector.
#pragma once

#include "sparse_allreduce/union_call.hpp"

namespace mq::sparse {

// The exchange of bitmaps also tells all ranks whether every rank has the memory it needs. A message damaged
// on the way is a local error only: the other ranks will call dense_allreduce, so this rank calls it too.
template <Comm C, class Dense>
class DenseList {
 public:
  DenseList(UnionCall<C>& call, const Dense& dense_allreduce)
      : call_(call), dense_allreduce_(dense_allreduce) {}

  Status run(UnionResult& result) {
    const UnionJob& job = call_.job;
    call_.attempt([&]() -> Status {
      MQ_TRY(check_message(job.size / 8 + 8));
      const std::size_t words = static_cast<std::size_t>(job.size / 64 + 1);
      mine_ = call_.memory.template take<std::uint64_t>(words);
      theirs_ = call_.memory.template take<std::uint64_t>(words);
      if (job.size > (std::uint64_t{1} << 46) / job.entry.bytes()) throw std::bad_alloc();
      vector_ = call_.memory.template take<std::byte>(words * 64 * job.entry.bytes());
      const std::span<const std::uint64_t> indices = job.list.indices;
      bitmap_ops().make(indices.data(), indices.size(), 0, reinterpret_cast<std::byte*>(mine_.data()), words);
      // Filled with the identity, so that a result of -0 stays -0.
      spread(job.entry, job.list, call_.whole(), Background::identity, vector_.data());
      return {};
    });
    stop_ = !call_.local_error.ok();
    MQ_TRY(share_presence());
    if (!stop_) MQ_TRY(dense_allreduce_(static_cast<void*>(vector_.data()), job.size * job.entry.stride));
    call_.attempt([&]() -> Status { return list(result); });
    return std::move(call_.local_error);
  }

 private:
  Status share_presence() {
    const std::size_t mark = call_.mark();
    Header &out = *call_.take_header(kStepPresence), &in = *call_.take_header(kStepPresence);
    MQ_TRY(call_.disseminate(
        [&](int to, int from, std::size_t, std::size_t) { return step(to, from, out, in); }));
    call_.release(mark);
    return {};
  }
  Status step(int to, int from, Header& out, Header& in) {
    if (stop_) call_.announce(out);
    call_.post_header(to, out);
    call_.receive_header(from, in);
    MQ_TRY(call_.wait());
    Status said = check(in, from, call_.job.call, kStepPresence);
    if (said.code() == Code::peer_failed) stop_ = true;
    call_.note(std::move(said));
    call_.send(to, out.error_code ? std::span<const std::byte>{} : std::as_bytes(mine_));
    call_.receive(from, stop_ ? std::span<std::byte>{} : std::as_writable_bytes(theirs_));
    MQ_TRY(call_.wait());
    if (call_.local_error.ok())
      for (std::size_t w = 0; w < mine_.size(); ++w) mine_[w] |= theirs_[w];
    return {};
  }
  Status list(UnionResult& result) {
    const UnionOutput& output = call_.job.output;
    const Entry& entry = call_.job.entry;
    const kernels::BitmapOps& ops = bitmap_ops(entry.element);
    const auto* const bitmap = reinterpret_cast<const std::byte*>(mine_.data());
    const std::size_t count = ops.count(bitmap, mine_.size());
    MQ_TRY(check_room(output, count));
    if (entry.stride == 1) {
      ops.collect(vector_.data(), bitmap, mine_.size(), 0, output.indices, output.values, count);
    } else {
      ops.list(bitmap, mine_.size(), 0, output.indices, count);
      collect(entry, {output.indices, count}, vector_.data(), output.values);
    }
    result.count = count;
    return {};
  }

  UnionCall<C>& call_;
  const Dense& dense_allreduce_;
  std::span<std::uint64_t> mine_, theirs_;  // bitmaps of present entries
  std::span<std::byte> vector_;
  bool stop_ = false;  // a rank has no memory: no rank calls dense_allreduce_
};

template <Comm C, class Dense>
Status union_by_dense(UnionCall<C>& call, const Dense& dense_allreduce, UnionResult& result) {
  const UnionJob& job = call.job;
  if (!job.output.dense) return DenseList<C, Dense>(call, dense_allreduce).run(result);
  deliver(job, job.list, call.whole(), 0);
  result.count = job.size;
  return dense_allreduce(static_cast<void*>(job.output.values), job.size * job.entry.stride);
}

}  // namespace mq::sparse
