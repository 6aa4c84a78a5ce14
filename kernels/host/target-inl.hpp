// What every object of the kernels is written with, once per instruction set, after its native_*-inl.hpp. A
// codec includes the loops that it runs in, so that a change of one family of loops compiles the codecs of
// that family alone.
// clang-format off
#include "kernels/host/lanes-inl.hpp"
#include "kernels/host/family-inl.hpp"
#include "kernels/host/rows-inl.hpp"
#include "kernels/host/describe-inl.hpp"
// clang-format on
