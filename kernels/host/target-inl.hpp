// Everything that is compiled once per instruction set after its native_*-inl.hpp, in the order each needs
// the one before.

// clang-format off
#include "kernels/host/lanes-inl.hpp"
#include "kernels/host/convert-inl.hpp"
#include "kernels/host/loops-inl.hpp"
#include "kernels/codecs/half-inl.hpp"
#include "kernels/registry-inl.hpp"
#include "kernels/host/rows-inl.hpp"
// clang-format on
