# Manual pages, made by Python where it is installed.

find_program(MPIQ_PAGE_PYTHON NAMES python3 DOC "makes the manual pages")
mark_as_advanced(MPIQ_PAGE_PYTHON)

# mpiq_manual(PROGRAM SUMMARY [COMMANDS NAME=SUMMARY...]): PROGRAM.1 of what PROGRAM --help prints, which is
# made with the program and installed, and PROGRAM-NAME.1 of what PROGRAM NAME --help prints.
function(mpiq_manual program summary)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "COMMANDS")
  if(NOT MPIQ_PAGE_PYTHON OR MPIQ_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(maker ${PROJECT_SOURCE_DIR}/cmake/help_manual.py)
  set(pages)
  foreach(each IN ITEMS "=${summary}" LISTS arg_COMMANDS)
    string(REGEX MATCH "^([^=]*)=(.*)$" each "${each}")
    set(command ${CMAKE_MATCH_1})
    set(text ${CMAKE_MATCH_2})
    string(JOIN - page ${program} ${command})
    set(file ${PROJECT_BINARY_DIR}/man/${page}.1)
    add_custom_command(OUTPUT ${file} DEPENDS ${program} ${maker} VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND ${MPIQ_PAGE_PYTHON} -B ${maker} ${PROJECT_VERSION} ${text} ${file} $<TARGET_FILE:${program}> ${command})
    list(APPEND pages ${file})
  endforeach()
  add_custom_target(manual_${program} ALL DEPENDS ${pages})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()

# mpi_quant(7): the language of policies, environment variables and info keys. It is docs/policy.md.
if(MPIQ_PAGE_PYTHON)
  set(page ${PROJECT_BINARY_DIR}/man/mpi_quant.7)
  set(maker ${CMAKE_CURRENT_LIST_DIR}/page_manual.py)
  set(source ${PROJECT_SOURCE_DIR}/docs/policy.md)
  add_custom_command(OUTPUT ${page} DEPENDS ${maker} ${source} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
    COMMAND ${MPIQ_PAGE_PYTHON} -B ${maker} ${source} mpi_quant 7 ${PROJECT_VERSION} "policies, environment variables and info keys" ${page})
  add_custom_target(manual_mpi_quant ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
endif()

# mpiq(1): the commands of the package for Python. They need its modules to print their help: the first Python
# of PATH makes the page, or Debian's own, as with the commands themselves.
foreach(python ${MPIQ_PAGE_PYTHON} /usr/bin/python3)
  if(NOT TARGET manual_mpiq)
    execute_process(COMMAND ${python} -c "import numpy, h5py, matplotlib" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set(folder ${PROJECT_BINARY_DIR}/man/commands)
      set(maker ${CMAKE_CURRENT_LIST_DIR}/commands_manual.py)
      file(GLOB commands CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/mpi_quant/commands/*.py)
      add_custom_command(OUTPUT ${folder}/mpiq.1 DEPENDS ${maker} ${commands} ${PROJECT_SOURCE_DIR}/python/mpi_quant/__main__.py VERBATIM
        COMMAND ${python} -B ${maker} ${PROJECT_VERSION} ${folder})
      add_custom_target(manual_mpiq ALL DEPENDS ${folder}/mpiq.1)
      install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    endif()
  endif()
endforeach()
