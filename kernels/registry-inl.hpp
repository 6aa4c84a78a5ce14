// The list of codecs. To add a codec, write codecs/NAME-inl.hpp, include it here, and add its type to the
// list. It then exists for every instruction set and element type, in `mpiq-bench --list`, in policies, in
// sweeps and in every table-driven test. This file is included once per instruction set, after the loops.

#include "kernels/codecs/adaptive-inl.hpp"
#include "kernels/codecs/bf16-inl.hpp"
#include "kernels/codecs/f16-inl.hpp"
#include "kernels/codecs/onebit-inl.hpp"
#include "kernels/codecs/raw-inl.hpp"
#include "kernels/codecs/threshold-inl.hpp"
#include "kernels/codecs/topk-inl.hpp"
#include "kernels/codecs/zerorun-inl.hpp"

using AllQuantizers = TypeList<Raw, Bf16, F16, OneBit, Threshold, Adaptive, ZeroRun, TopK>;
