#include "bench/mpi_algorithm.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace mq::bench {
namespace {

constexpr std::string_view kMpichAlgorithm = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM";
constexpr std::string_view kOpenMpiAlgorithm = "coll_tuned_allreduce_algorithm";
constexpr std::string_view kOpenMpiRules = "coll_tuned_use_dynamic_rules";
constexpr std::string_view kOpenMpiSegment = "coll_tuned_allreduce_algorithm_segmentsize";
constexpr std::string_view kOpenMpiAutomatic = "ignore";
constexpr std::string_view kSegmented = "segmented_ring";

// A control variable of this process, an integer or a truth value.
class Variable {
 public:
  bool open(int index, MPI_Datatype type) {
    is_byte_ = type == MPI_CHAR || type == MPI_C_BOOL;
    int count = 0;
    is_open_ = (is_byte_ || type == MPI_INT) &&
               MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) == MPI_SUCCESS && count == 1;
    return is_open_;
  }
  bool is_open() const { return is_open_; }
  int read() const {
    int value = 0;
    signed char byte = 0;
    if (is_open_) MPI_T_cvar_read(handle_, is_byte_ ? static_cast<void*>(&byte) : &value);
    return is_byte_ ? byte : value;
  }
  void write(int value) const {
    auto byte = static_cast<signed char>(value);
    if (is_open_) MPI_T_cvar_write(handle_, is_byte_ ? static_cast<void*>(&byte) : &value);
  }

 private:
  bool is_open_ = false, is_byte_ = false;
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
};

// The names and values of an enumeration, by position.
void read_enumeration(MPI_T_enum values, std::vector<std::string>& names, std::vector<int>& numbers) {
  int count = 0, no_bytes = 0;
  if (values == MPI_T_ENUM_NULL || MPI_T_enum_get_info(values, &count, nullptr, &no_bytes) != MPI_SUCCESS)
    return;
  for (int i = 0; i < count; ++i) {
    std::array<char, 128> name{};
    int number = 0, bytes = name.size();
    if (MPI_T_enum_get_item(values, i, &number, name.data(), &bytes) != MPI_SUCCESS) continue;
    names.emplace_back(name.data() == kOpenMpiAutomatic ? kAutomatic : std::string_view(name.data()));
    numbers.push_back(number);
  }
}

// Open MPI 4.1 takes this variable from the environment alone, before MPI or its tool interface starts.
// Without an algorithm and without a file of rules it changes nothing.
void allow_open_mpi_a_choice() {
#ifdef OPEN_MPI
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
#endif
}

// Such a file goes before the variables in Open MPI 4.1. mpiexec hands its own options on in the environment.
bool has_file_of_rules() {
  const char* const path = std::getenv("OMPI_MCA_coll_tuned_dynamic_rules_filename");
  return path != nullptr && *path != '\0';
}

// The variables of this library, and the algorithms that they choose from. All stays open until the process
// ends: Open MPI 4.1 crashes if its tool interface ends after MPI.
class Choice {
 public:
  Choice() {
    int provided = 0, variables = 0;
    allow_open_mpi_a_choice();
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return;
    if (MPI_T_cvar_get_num(&variables) != MPI_SUCCESS) return;
    for (int i = 0; i < variables; ++i) look_at(i);
    if (is_open_mpi_ && (!segment_.is_open() || rules_.read() == 0 || has_file_of_rules())) names_.clear();
  }

  const std::vector<std::string>& names() const { return names_; }
  std::string in_force() const {
    const auto at = std::find(numbers_.begin(), numbers_.end(), algorithm_.read());
    return at == numbers_.end() ? "" : names_[static_cast<std::size_t>(at - numbers_.begin())];
  }
  // The values of the two variables: the number of the algorithm, and the bytes of a segment.
  std::array<int, 2> values() const { return {algorithm_.read(), segment_.read()}; }
  void set(const std::array<int, 2>& values) const {
    algorithm_.write(values[0]);
    segment_.write(values[1]);
  }
  // The values that choose the algorithm at this position.
  std::array<int, 2> values_for(std::size_t at) const {
    return {numbers_[at], names_[at] == kSegmented ? kSegmentBytes : 0};
  }

 private:
  void look_at(int index) {
    std::array<char, 128> name{};
    std::array<char, 4096> description{};
    int name_bytes = name.size(), description_bytes = description.size(), verbosity = 0, binds = 0, scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum values = MPI_T_ENUM_NULL;
    if (MPI_T_cvar_get_info(index, name.data(), &name_bytes, &verbosity, &type, &values, description.data(),
                            &description_bytes, &binds, &scope) != MPI_SUCCESS)
      return;
    const std::string_view word = name.data();
    if (word == kOpenMpiRules) rules_.open(index, type);
    if (word == kOpenMpiSegment) segment_.open(index, type);
    is_open_mpi_ = is_open_mpi_ || word == kOpenMpiAlgorithm;
    if (word == kMpichAlgorithm) {
      names_ = algorithm_names(description.data());
      for (std::size_t i = 0; i < names_.size(); ++i) numbers_.push_back(static_cast<int>(i));
    } else if (word == kOpenMpiAlgorithm) {
      read_enumeration(values, names_, numbers_);
    } else {
      return;
    }
    if (names_.empty() || names_.front() != kAutomatic || !algorithm_.open(index, type)) names_.clear();
  }

  Variable algorithm_, rules_, segment_;
  bool is_open_mpi_ = false;
  std::vector<std::string> names_;
  std::vector<int> numbers_;
};

const Choice& choice() {
  static const Choice only;
  return only;
}

bool in_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::vector<std::string> algorithm_names(std::string_view description) {
  constexpr std::string_view kDash = " - ", kGlued = "algorithm";
  std::vector<std::string> names;
  for (std::size_t dash = description.find(kDash); dash != std::string_view::npos;
       dash = description.find(kDash, dash + kDash.size())) {
    std::size_t end = dash;
    while (end > 0 && description[end - 1] == ' ') --end;
    std::size_t begin = end;
    while (begin > 0 && in_name(description[begin - 1])) --begin;
    std::string_view name = description.substr(begin, end - begin);
    // Some versions leave out the line break after "Force ring algorithm".
    if (name.starts_with(kGlued)) name.remove_prefix(kGlued.size());
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

const std::vector<std::string>& mpi_algorithms() { return choice().names(); }

std::string mpi_algorithm_in_force() { return choice().names().empty() ? "" : choice().in_force(); }

MpiAlgorithm::MpiAlgorithm(std::string_view name) {
  if (name.empty()) return;
  const auto& names = choice().names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return;
  has_set_ = true;
  before_ = choice().values();
  choice().set(choice().values_for(static_cast<std::size_t>(at - names.begin())));
}

MpiAlgorithm::~MpiAlgorithm() {
  if (has_set_) choice().set(before_);
}

}  // namespace mq::bench
