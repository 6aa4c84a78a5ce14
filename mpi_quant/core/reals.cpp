// What a codec sees in an element of a datatype. MPI gives the handle of a freed type to a new one, so the
// answer is kept only for types that nobody can free. Derived types are taken apart at each call.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "mpi_quant/base/hash.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/request.hpp"

#if MPI_VERSION >= 4
// Weak, because libraries with the same ABI but an older standard lack them.
extern "C" {
__attribute__((weak)) decltype(PMPI_Type_get_envelope_c) PMPI_Type_get_envelope_c;
__attribute__((weak)) decltype(PMPI_Type_get_contents_c) PMPI_Type_get_contents_c;
}
#endif

namespace mq {
namespace {

using kernels::Element;

// What is known of a predefined type. The numbers fit into three bits.
enum class Kind : std::uint8_t { other, f32, f64, f16, bf16, c32, c64 };

struct Known {
  MPI_Datatype type;
  Kind kind;
};

// MPI has these names, but some libraries have no type for one of them: MPI_DATATYPE_NULL, or another size.
// The size of MPI_REAL depends on how the library's Fortran was configured.
Kind kind_in_table(MPI_Datatype type) {
  const Known table[]{
      {MPI_FLOAT, Kind::f32},
      {MPI_DOUBLE, Kind::f64},
      {MPI_REAL, Kind::f32},
      {MPI_DOUBLE_PRECISION, Kind::f64},
      {MPI_REAL4, Kind::f32},
      {MPI_REAL8, Kind::f64},
      {MPI_C_FLOAT_COMPLEX, Kind::c32},
      {MPI_C_DOUBLE_COMPLEX, Kind::c64},
      {MPI_CXX_FLOAT_COMPLEX, Kind::c32},
      {MPI_CXX_DOUBLE_COMPLEX, Kind::c64},
      {MPI_COMPLEX, Kind::c32},
      {MPI_DOUBLE_COMPLEX, Kind::c64},
      {MPI_COMPLEX8, Kind::c32},
      {MPI_COMPLEX16, Kind::c64},
#ifdef MPIX_C_FLOAT16
      {MPIX_C_FLOAT16, Kind::f16},
#endif
  };
  for (const Known& known : table)
    if (type == known.type) return known.kind;
  return Kind::other;
}

std::string_view name_of(MPI_Datatype type, std::array<char, MPI_MAX_OBJECT_NAME>& text) {
  int length = 0;
  return PMPI_Type_get_name(type, text.data(), &length) == MPI_SUCCESS ? std::string_view(text.data()) : "";
}

// Half types of other libraries than the one that this code is compiled for.
Kind kind_by_name(MPI_Datatype type) {
  std::array<char, MPI_MAX_OBJECT_NAME> text{};
  const std::string_view name = name_of(type, text);
  for (const std::string_view half : {"MPIX_C_FLOAT16", "MPIX_FLOAT16", "MPI_FLOAT16"})
    if (name == half) return Kind::f16;
  for (const std::string_view half :
       {"MPIX_C_BF16", "MPIX_BF16", "MPIX_C_BFLOAT16", "MPIX_BFLOAT16", "MPI_BFLOAT16"})
    if (name == half) return Kind::bf16;
  return Kind::other;
}

constexpr std::size_t bytes_of(Kind kind) {
  constexpr std::size_t bytes[]{0, 4, 8, 2, 2, 8, 16};
  return bytes[static_cast<std::size_t>(kind)];
}

std::size_t size_of(MPI_Datatype type) {
  int size = 0;
  return PMPI_Type_size(type, &size) == MPI_SUCCESS && size > 0 ? static_cast<std::size_t>(size) : 0;
}

// How a type was made: by which function, of what.
struct Origin {
  int combiner = MPI_COMBINER_NAMED;
  int ints = 0, addresses = 0, types = 0;
  int counts = 0;  // of type MPI_Count, if a function like MPI_Type_contiguous_c made it
};

// The older query is an error for types that MPI_Type_contiguous_c and the like have made.
bool ask_origin(MPI_Datatype type, Origin& origin) {
#if MPI_VERSION >= 4
  if (PMPI_Type_get_envelope_c != nullptr && PMPI_Type_get_contents_c != nullptr) {
    MPI_Count ints = 0, addresses = 0, counts = 0, types = 0;
    if (PMPI_Type_get_envelope_c(type, &ints, &addresses, &counts, &types, &origin.combiner) != MPI_SUCCESS)
      return false;
    origin.ints = static_cast<int>(ints);
    origin.addresses = static_cast<int>(addresses);
    origin.counts = static_cast<int>(counts);
    origin.types = static_cast<int>(types);
    return true;
  }
#endif
  return PMPI_Type_get_envelope(type, &origin.ints, &origin.addresses, &origin.types, &origin.combiner) ==
         MPI_SUCCESS;
}

// Nobody can free these.
bool is_predefined(const Origin& origin) {
  return origin.combiner == MPI_COMBINER_NAMED || origin.combiner == MPI_COMBINER_F90_REAL ||
         origin.combiner == MPI_COMBINER_F90_COMPLEX || origin.combiner == MPI_COMBINER_F90_INTEGER;
}

Kind kind_of_predefined(MPI_Datatype type, const Origin& origin) {
  const std::size_t size = size_of(type);
  if (origin.combiner == MPI_COMBINER_F90_REAL)
    return size == 4 ? Kind::f32 : size == 8 ? Kind::f64 : Kind::other;
  if (origin.combiner == MPI_COMBINER_F90_COMPLEX)
    return size == 8 ? Kind::c32 : size == 16 ? Kind::c64 : Kind::other;
  Kind kind = kind_in_table(type);
  if (kind == Kind::other && size == 2) kind = kind_by_name(type);
  return size == bytes_of(kind) ? kind : Kind::other;
}

// A place for each predefined type that was asked for: its handle and its kind in one word, so that threads
// read both or neither. Types that share a place take it from each other.
std::uint64_t word_of(MPI_Datatype type) {
  std::uint64_t handle = 0;
  std::memcpy(&handle, &type, sizeof type);
  return handle << 3;
}

std::atomic<std::uint64_t>& place_of(std::uint64_t word) {
  static std::array<std::atomic<std::uint64_t>, 64> places{};
  return places[mixed(word) % places.size()];
}

std::optional<Kind> remembered(MPI_Datatype type) {
  const std::uint64_t word = word_of(type);
  const std::uint64_t kept = place_of(word).load(std::memory_order_relaxed);
  if (kept == 0 || (kept & ~std::uint64_t{7}) != word) return {};
  return static_cast<Kind>((kept & 7) - 1);
}

void remember(MPI_Datatype type, Kind kind) {
  const std::uint64_t word = word_of(type);
  place_of(word).store(word | (static_cast<std::uint64_t>(kind) + 1), std::memory_order_relaxed);
}

std::optional<Reals> reals_of(Kind kind, MPI_Datatype type) {
  switch (kind) {
    case Kind::f32: return Reals{Element::f32, 1, false, type};
    case Kind::f64: return Reals{Element::f64, 1, false, type};
    case Kind::f16: return Reals{Element::f16, 1, false, type};
    case Kind::bf16: return Reals{Element::bf16, 1, false, type};
    case Kind::c32: return Reals{Element::f32, 2, true, MPI_FLOAT};
    case Kind::c64: return Reals{Element::f64, 2, true, MPI_DOUBLE};
    case Kind::other: break;
  }
  return {};
}

// This library's half types are derived types, too. Open MPI gives a copy of them where it tells what another
// type is made of: only the end of its name is theirs.
std::optional<Reals> own_half(MPI_Datatype type, const Origin& origin) {
  std::array<char, MPI_MAX_OBJECT_NAME> text{};
  if (origin.combiner != MPI_COMBINER_DUP || size_of(type) != 2) return {};
  const std::string_view name = name_of(type, text);
  for (const Element half : {Element::f16, Element::bf16}) {
    if (!name.ends_with(half == Element::f16 ? "MPIQ_FLOAT16" : "MPIQ_BFLOAT16")) continue;
    const Result<MPI_Datatype> own = half_datatype(half);
    if (own.ok()) return Reals{half, 1, false, *own, true};
  }
  return {};
}

// The reals of the type that this one is made of, and how often it has them.
std::optional<Reals> of_parts(MPI_Datatype type, const Origin& origin) {
  constexpr int kMost = 2;  // numbers in the description of such a type
  if (origin.types != 1 || origin.ints > kMost || origin.addresses > kMost || origin.counts > kMost)
    return {};
  std::array<int, kMost> ints{};
  std::array<MPI_Aint, kMost> addresses{};
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  MPI_Count often = 1;
#if MPI_VERSION >= 4
  if (PMPI_Type_get_envelope_c != nullptr && PMPI_Type_get_contents_c != nullptr) {
    std::array<MPI_Count, kMost> counts{};
    if (PMPI_Type_get_contents_c(type, origin.ints, origin.addresses, origin.counts, 1, ints.data(),
                                 addresses.data(), counts.data(), &inner) != MPI_SUCCESS)
      return {};
    if (origin.counts > 0) often = counts[0];
  } else
#endif
      if (PMPI_Type_get_contents(type, origin.ints, origin.addresses, 1, ints.data(), addresses.data(),
                                 &inner) != MPI_SUCCESS)
    return {};
  if (origin.ints > 0) often = ints[0];
  if (origin.combiner != MPI_COMBINER_CONTIGUOUS) often = 1;
  std::optional<Reals> reals = mq::reals_of(inner, Types::derived);
  if (Origin made; ask_origin(inner, made) && !is_predefined(made)) (void)PMPI_Type_free(&inner);
  constexpr MPI_Count kMostReals = MPI_Count{1} << 30;
  if (!reals || often <= 0 || often > kMostReals / static_cast<MPI_Count>(reals->each)) return {};
  reals->each *= static_cast<std::size_t>(often);
  reals->is_derived = true;
  return reals;
}

// Elements of this type follow each other without gaps.
bool is_packed(MPI_Datatype type, std::size_t bytes) {
  MPI_Aint begin = 0, extent = 0, true_begin = 0, true_extent = 0;
  return PMPI_Type_get_extent(type, &begin, &extent) == MPI_SUCCESS &&
         PMPI_Type_get_true_extent(type, &true_begin, &true_extent) == MPI_SUCCESS && begin == 0 &&
         true_begin == 0 && static_cast<std::size_t>(extent) == bytes &&
         static_cast<std::size_t>(true_extent) == bytes;
}

std::optional<Reals> of_derived(MPI_Datatype type, const Origin& origin) {
  if (origin.combiner != MPI_COMBINER_CONTIGUOUS && origin.combiner != MPI_COMBINER_DUP &&
      origin.combiner != MPI_COMBINER_RESIZED)
    return {};
  if (const auto half = own_half(type, origin)) return half;
  const std::optional<Reals> reals = of_parts(type, origin);
  if (!reals || !is_packed(type, reals->each * kernels::element_bytes(reals->element))) return {};
  return reals;
}

}  // namespace

std::optional<Reals> reals_of(MPI_Datatype datatype, Types types) {
  if (datatype == MPI_DATATYPE_NULL) return {};
  if (const std::optional<Kind> known = remembered(datatype)) return reals_of(*known, datatype);
  if (const std::optional<Element> half = own_half_of(datatype)) return Reals{*half, 1, false, datatype};
  Origin origin;
  if (!ask_origin(datatype, origin)) return {};
  if (!is_predefined(origin)) return types == Types::derived ? of_derived(datatype, origin) : std::nullopt;
  const Kind kind = kind_of_predefined(datatype, origin);
  // Types like MPI_Type_create_f90_real are made anew if MPI is initialized again: a handle may mean another.
  if (origin.combiner == MPI_COMBINER_NAMED) remember(datatype, kind);
  return reals_of(kind, datatype);
}

bool is_predefined(MPI_Datatype datatype) {
  Origin origin;
  return ask_origin(datatype, origin) && is_predefined(origin);
}

bool may_hold_reals(MPI_Datatype datatype) {
  return datatype != MPI_DATATYPE_NULL && remembered(datatype) != Kind::other;
}

std::optional<Element> element_of(MPI_Datatype datatype) {
  const std::optional<Reals> reals = reals_of(datatype, Types::predefined);
  if (!reals || reals->each != 1) return {};
  return reals->element;
}

std::size_t count_in_reals(Call& call, Types types) {
  constexpr MPI_Count kMostElements = MPI_Count{1} << 58;
  const std::optional<Reals> reals = reals_of(call.datatype, types);
  if (!reals || (reals->each == 1 && !reals->is_derived)) return 1;
  // Another operation than a sum is for elements as the program made them, as rows or complex numbers.
  if (reals->is_derived && adds(call.collective) && call.op != MPI_SUM) return 1;
  const auto each = static_cast<MPI_Count>(reals->each);
  if (call.count > kMostElements / each) return 1;
  call.given = {call.count, call.datatype, reals->is_complex};
  if (reals->is_derived && adds(call.collective)) call.given.datatype = MPI_DATATYPE_NULL;
  if (call.count > 0) call.count *= each;
  call.datatype = reals->datatype;
  return reals->each;
}

}  // namespace mq
