# cmake -D READELF=... -D LIBRARIES=a,b,c -D WITHOUT=a,b,c -P needed_test.cmake: none of these libraries needs
# one whose name has one of these words in it.
string(REPLACE "," ";" libraries "${LIBRARIES}")
string(REPLACE "," "|" words "${WITHOUT}")
foreach(library IN LISTS libraries)
  execute_process(COMMAND ${READELF} -d ${library} OUTPUT_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0 OR NOT output MATCHES "NEEDED")
    message(FATAL_ERROR "${READELF} -d ${library} failed")
  endif()
  string(REGEX MATCH "NEEDED[^\n]*(${words})[^\n]*" found "${output}")
  if(found)
    message(FATAL_ERROR "${library}: ${found}")
  endif()
endforeach()
