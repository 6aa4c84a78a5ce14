#!/bin/sh
# rename_mpi.sh PLUGIN FOLDER: into FOLDER, as plugin.so, a copy of the plugin that needs its MPI library
# under another name, and a copy of that library under this name.
set -eu
name=$(ldd "$1" | grep -oE 'libmpi[a-z]*\.so\.[0-9]+' | head -n 1)
library=$(ldd "$1" | awk -v name="$name" '$1 == name { print $3 }')
other=$(printf '%s' "$name" | sed 's/^libmpi/libXXX/')
mkdir -p "$2"
export LC_ALL=C
sed "s/$name/$other/g" "$library" > "$2/$other"
sed "s/$name/$other/g" "$1" > "$2/plugin.so"
