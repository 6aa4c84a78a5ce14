// What SMPI, the simulated MPI of SimGrid 3.32, lacks of the functions that the library calls. Included before each file of the
// library and of the program that tests it. Variables here are hidden, and so each rank has its own.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

// No interface for tools. The library has one question to it, and takes "no" for an answer.
using MPI_T_cvar_handle = void*;
#define MPI_T_CVAR_HANDLE_NULL nullptr
inline int PMPI_T_init_thread(int, int*) { return MPI_ERR_OTHER; }
inline int PMPI_T_finalize() { return MPI_SUCCESS; }
inline int PMPI_T_cvar_get_index(const char*, int*) { return MPI_ERR_OTHER; }
inline int PMPI_T_cvar_handle_alloc(int, void*, MPI_T_cvar_handle*, int*) { return MPI_ERR_OTHER; }
inline int PMPI_T_cvar_read(MPI_T_cvar_handle, void*) { return MPI_ERR_OTHER; }
inline int PMPI_T_cvar_handle_free(MPI_T_cvar_handle*) { return MPI_SUCCESS; }

// No new errors: SMPI's functions return MPI_SUCCESS and do nothing, so that each new code would be 0. A text has 99 characters
// at most there.
namespace smpi_compat {

constexpr int kFirstCode = 1 << 20;
inline std::vector<std::string> texts;  // of the codes from kFirstCode on

inline int add_error_code(int* code) {
  *code = kFirstCode + static_cast<int>(texts.size());
  texts.emplace_back();
  return MPI_SUCCESS;
}
inline int add_error_string(int code, const char* text) {
  texts.at(static_cast<std::size_t>(code - kFirstCode)) = text;
  return MPI_SUCCESS;
}
inline int error_string(int code, char* text, int* length) {
  if (code < kFirstCode) return PMPI_Error_string(code, text, length);
  const std::string& known = texts.at(static_cast<std::size_t>(code - kFirstCode));
  text[known.copy(text, known.size())] = '\0';
  *length = static_cast<int>(known.size());
  return MPI_SUCCESS;
}

}  // namespace smpi_compat

#undef MPI_MAX_ERROR_STRING
#define MPI_MAX_ERROR_STRING 512
#define PMPI_Add_error_class(error_class) smpi_compat::add_error_code(error_class)
#define PMPI_Add_error_code(error_class, code) smpi_compat::add_error_code(code)
#define PMPI_Add_error_string(code, text) smpi_compat::add_error_string(code, text)
#define MPI_Error_string(code, text, length) smpi_compat::error_string(code, text, length)
