// Everything that codecs are written with, once per instruction set, after its native_*-inl.hpp. The order
// matters: each file needs earlier ones.

// clang-format off
#include "kernels/host/lanes-inl.hpp"
#include "kernels/host/convert-inl.hpp"
#include "kernels/codecs/keys-inl.hpp"
#include "kernels/host/loops-inl.hpp"
#include "kernels/codecs/half-inl.hpp"
#include "kernels/codecs/ternary_format-inl.hpp"
#include "kernels/codecs/valued_format-inl.hpp"
#include "kernels/codecs/cutoff-inl.hpp"
#include "kernels/host/select-inl.hpp"
#include "kernels/host/entries-inl.hpp"
#include "kernels/host/ternary_wire-inl.hpp"
#include "kernels/host/ternary_dense-inl.hpp"
#include "kernels/host/ternary-inl.hpp"
#include "kernels/host/valued_wire-inl.hpp"
#include "kernels/host/valued-inl.hpp"
#include "kernels/host/zeros-inl.hpp"
#include "kernels/host/random-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/host/scaled-inl.hpp"
#include "kernels/codecs/integers_format-inl.hpp"
#include "kernels/host/bitmaps-inl.hpp"
#include "kernels/host/rows-inl.hpp"
#include "kernels/host/describe-inl.hpp"
// clang-format on
