# What scripts that measure have in common; sourced by scripts/run, scripts/mnist and scripts/mnist_local.
# Uses the caller's usage().
# shellcheck shell=bash

# shellcheck disable=SC2034  # for those who source this
bin=build/release/bin

say() { printf '\n== %s\n' "$*"; }
usage_error() { echo "scripts/${0##*/}: $1" >&2; usage >&2; exit 2; }

# The launcher of MPICH, also where another MPI's is the default.
launcher() { command -v mpiexec.mpich || command -v mpiexec; }

build() {  # build TARGET...
  # Else CMake says so in thousands of lines.
  local folder
  for folder in . build build/release; do
    if [ -e "$folder" ] && [ ! -w "$folder" ]; then
      echo "scripts/${0##*/}: $(realpath "$folder") is not yours to write: build in a copy of the tree that is yours" >&2
      exit 1
    fi
  done
  scripts/setup build run plot
  cmake --preset release
  cmake --build --preset release --target "$@"
}

default_out() {  # prints results/<date>-<host>, with a number if that exists
  local first next=2
  first=results/$(date +%Y-%m-%d)-$(uname -n | cut -d. -f1)
  local out=$first
  while [ -e "$out" ]; do out=$first-$((next++)); done
  echo "$out"
}

# A program on hosts with a network between them, as in 4x1gbit, a rank each. 3: no lab can be made here, and
# it has been said why.
in_lab() {  # in_lab HOSTSxRATE COMMAND...
  local hosts=${1%%x*} rate=${1#*x} why status=0; shift
  if ! why=$(scripts/lab check 2>&1); then echo "left out: $why"; return 3; fi
  # `with` takes the lab down again whatever happens, if it is told: a foreground job would not be.
  scripts/lab with "$hosts" "$rate" "$hosts" "$@" &
  lab_pid=$!
  trap 'kill "$lab_pid" 2>/dev/null && wait "$lab_pid" || true' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  wait "$lab_pid" || status=$?
  trap - EXIT INT TERM
  # 3: the lab could not be made, as in a container without the right to; it has said why.
  if [ $status = 3 ]; then echo "left out: no lab here"; fi
  return $status
}
