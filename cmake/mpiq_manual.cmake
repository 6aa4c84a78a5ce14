# Manual pages of the installed programs, made from what --help prints, where help2man is installed.

find_program(MPIQ_HELP2MAN help2man)
mark_as_advanced(MPIQ_HELP2MAN)

# mpiq_manual(PROGRAM SUMMARY): PROGRAM.1, which is made with the program and installed.
function(mpiq_manual program summary)
  if(NOT MPIQ_HELP2MAN OR MPIQ_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${program}.1)
  add_custom_command(OUTPUT ${page} DEPENDS ${program} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
    COMMAND ${MPIQ_HELP2MAN} --no-info --name ${summary} --version-string "${program} ${PROJECT_VERSION}" --output ${page}
      $<TARGET_FILE:${program}>)
  add_custom_target(manual_${program} ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()
