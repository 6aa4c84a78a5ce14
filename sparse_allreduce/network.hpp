// What decisions about sparse reductions know of the machine; equal on all ranks, or they would decide
// differently.
#pragma once

namespace mq::sparse {

struct Network {
  double latency_s = 2e-6;           // of a message
  double s_per_byte = 1.0 / 5e9;     // of a message, with all ranks sending
  double s_per_entry = 3e-9;         // of the result, to merge two lists
  double encode_s_per_entry = 2e-9;  // to make a message of a list
  double decode_s_per_entry = 2e-9;
  double dense_s_per_byte = 1.0 / 2.5e9;  // of the MPI library's allreduce, over the bytes of the vector
  double half_bandwidth_bytes() const { return latency_s / s_per_byte; }  // half of the time is latency
  double message_s(double bytes) const { return latency_s + bytes * s_per_byte; }
};

}  // namespace mq::sparse
