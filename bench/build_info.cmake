# Run at every build by mq_build_info: writes OUT from IN with the commit of SOURCE_DIR, "" outside a git work
# tree.
find_program(GIT git)
set(COMMIT "")
set(DIRTY false)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --verify HEAD
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(COMMIT "")
  endif()
  # What was measured before changes no program.
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} status --porcelain -- . :!results
    OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT changes STREQUAL "")
    set(DIRTY true)
  endif()
endif()
string(STRIP "${FLAGS}" FLAGS)
if(SANITIZE)
  string(APPEND FLAGS " -fsanitize=${SANITIZE}")
endif()
configure_file(${IN} ${OUT} @ONLY)
