# Tests whose package is not there are skipped, with one line that names the package and the command that
# brings it. scripts/test shows these lines at its end. In Python, tests/scripts/needs.py does the same.

# mpiq_needs(NAME LABELS WHAT PACKAGE...): the test NAME, which is always skipped. It stands for the tests
# that are left out because the packages are missing.
function(mpiq_needs name labels what)
  set(command "apt-get install ${ARGN}")
  string(REPLACE ";" " " command "${command}")
  list(GET ARGN 0 package)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../scripts/packages.txt line REGEX "^${package} *#")
  if(line MATCHES "# *([a-z]+):")
    set(command "scripts/setup ${CMAKE_MATCH_1}")
  endif()
  list(JOIN ARGN " and " packages)
  add_test(NAME ${name} COMMAND sh -c "echo '${what} needs ${packages}: ${command}'; exit 77")
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77)
endfunction()
