// What the choice of an algorithm needs to know about the machine. The values must be equal on all ranks;
// otherwise the ranks would choose differently.
#pragma once

namespace mq::sparse {

struct Network {
  double latency_s = 2e-6;           // of a message that is alone
  double further_s = 0.2e-6;         // of each further one that is under way at the same time
  double s_per_byte = 1.0 / 5e9;     // per byte of a message, with all ranks sending
  double s_per_entry = 3e-9;         // per entry of the result, to merge two lists
  double encode_s_per_entry = 2e-9;  // to encode a list as a message
  double decode_s_per_entry = 2e-9;
  double dense_s_per_byte = 1.0 / 2.5e9;  // MPI's own allreduce, per byte of the vector
  // So many messages at once, without their bytes. Fewer than one: not all ranks send one.
  double messages_s(double messages) const {
    return messages <= 1 ? messages * latency_s : latency_s + (messages - 1) * further_s;
  }
  double half_bandwidth_bytes() const { return latency_s / s_per_byte; }  // takes twice the latency
  double message_s(double bytes) const { return latency_s + bytes * s_per_byte; }
};

}  // namespace mq::sparse
