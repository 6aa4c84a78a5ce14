// The row of a codec for one instruction set: its encode and decode for each compute type. Included once per
// instruction set, after the loops. A codec names its loops: `template <class T> using Family = Loops<T,
// Me>;`.
#pragma once

template <class Family>
constexpr CodecOps make_ops() {
  CodecOps ops{&Family::encode, &Family::decode, nullptr};
  if constexpr (requires { Family::kSums; }) ops.decode_sum = &Family::decode_sum;
  return ops;
}

template <class Q>
constexpr CodecRow make_row() {
  return {make_ops<typename Q::template Family<float>>(), make_ops<typename Q::template Family<double>>()};
}
