// Codes of 1 to 8 bits, 32 at a time. 32 codes of b bits take 4 b bytes: a part of 16 bytes with 4 bits of
// each code if b has a 4, then one of 8 bytes with 2 bits if b has a 2, then one of 4 bytes with 1 bit if b
// is odd; codes of 8 bits are the bytes themselves. Each part begins with the lowest bits that are left. In a
// part of k bits, byte i holds codes i, i + 4 k, ... from its lowest bits on, but with k = 1 it holds codes 8
// i to 8 i + 7, like a sign mask. So a register packs and unpacks by a few shifts, and a GPU's thread reads
// the one byte with its code from each part. A group that has fewer than 32 codes takes as many bytes; its
// other codes are 0.
#pragma once

MQ_INLINE void pack(std::byte* p, int bits, Bytes codes) {
  if (bits == 8) return store_bytes(p, codes);
  if ((bits & 4) != 0) {
    store_low<4>(p, codes);
    codes = shifted_down<4>(codes);
    p += 16;
  }
  if ((bits & 2) != 0) {
    store_low<2>(p, codes);
    codes = shifted_down<2>(codes);
    p += 8;
  }
  if ((bits & 1) != 0) store_low<1>(p, codes);
}

MQ_INLINE Bytes unpack(const std::byte* p, int bits) {
  if (bits == 8) return load_bytes(p);
  if (bits == 4) return load_low<4>(p);
  Bytes codes = keep_bytes(Bytes{}, 0);
  int shift = 0;
  if ((bits & 4) != 0) {
    codes = load_low<4>(p);
    p += 16;
    shift = 4;
  }
  if ((bits & 2) != 0) {
    codes = joined(codes, load_low<2>(p), shift);
    p += 8;
    shift += 2;
  }
  if ((bits & 1) != 0) codes = joined(codes, load_low<1>(p), shift);
  return codes;
}
