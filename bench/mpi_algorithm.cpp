#include "bench/mpi_algorithm.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace mq::bench {
namespace {

constexpr std::string_view kVariable = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM";

// The control variable, which stays open until the process ends.
class Variable {
 public:
  Variable() {
    int provided = 0, variables = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return;
    started_ = true;
    if (MPI_T_cvar_get_num(&variables) != MPI_SUCCESS) return;
    for (int i = 0; i < variables && names_.empty(); ++i) open_if_wanted(i);
  }
  ~Variable() {
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle_);
    if (started_) MPI_T_finalize();
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  int read() const {
    int value = 0;
    MPI_T_cvar_read(handle_, &value);
    return value;
  }
  void write(int value) const { MPI_T_cvar_write(handle_, &value); }

 private:
  void open_if_wanted(int index) {
    std::array<char, 128> name{};
    std::array<char, 4096> description{};
    int name_bytes = name.size(), description_bytes = description.size(), verbosity = 0, binds = 0, scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum values = MPI_T_ENUM_NULL;
    if (MPI_T_cvar_get_info(index, name.data(), &name_bytes, &verbosity, &type, &values, description.data(),
                            &description_bytes, &binds, &scope) != MPI_SUCCESS ||
        name.data() != kVariable || type != MPI_INT)
      return;
    std::vector<std::string> names = algorithm_names(description.data());
    if (names.empty() || names.front() != kAutomatic) return;
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) == MPI_SUCCESS && count == 1)
      names_ = std::move(names);
  }

  bool started_ = false;
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  std::vector<std::string> names_;
};

const Variable& variable() {
  static const Variable only;
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

const std::vector<std::string>& mpi_algorithms() { return variable().names(); }

std::string mpi_algorithm_in_force() {
  const auto& names = variable().names();
  if (names.empty()) return "";
  const auto value = static_cast<std::size_t>(variable().read());
  return value < names.size() ? names[value] : "";
}

MpiAlgorithm::MpiAlgorithm(std::string_view name) {
  if (name.empty()) return;
  const auto& names = variable().names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return;
  before_ = variable().read();
  variable().write(static_cast<int>(at - names.begin()));
}

MpiAlgorithm::~MpiAlgorithm() {
  if (before_ >= 0) variable().write(before_);
}

}  // namespace mq::bench
