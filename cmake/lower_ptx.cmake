# cmake -D FROM=FILE -D TO=FILE -D VERSION=7.0 -P lower_ptx.cmake: declares PTX of a new compiler to be of an
# older version, which older drivers take. ptxas, which then makes the binaries, refuses whatever that version
# lacks. Hints that it lacks are left out.
file(READ ${FROM} text)
string(REGEX REPLACE "\n\\.version [0-9.]+\n" "\n.version ${VERSION}\n" text "${text}")
string(REGEX REPLACE "[^\n]*\"used_bytes_mask [^\n]*\n" "" text "${text}")
file(WRITE ${TO} "${text}")
