// The row of a codec for one instruction set: its encode and decode for each compute type. Included once per
// instruction set, after the loops. A codec names its loops: `template <class T> using Family = Loops<T,
// Me>;`.
#pragma once

template <class Q>
constexpr CodecRow make_row() {
  return {CodecOps{&Q::template Family<float>::encode, &Q::template Family<float>::decode},
          CodecOps{&Q::template Family<double>::encode, &Q::template Family<double>::decode}};
}
