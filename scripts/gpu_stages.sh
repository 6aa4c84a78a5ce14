# The stages of scripts/gpu_check, which sources this: stage_NAME is what runs for NAME of its list STAGES.
# Each runs in a process of its own, with its output in a log. Exit code: 0 passed, 77 left out, else failed.
# shellcheck shell=bash
# shellcheck disable=SC2154  # set by scripts/gpu_check

stage_configure() {
  find_dependencies || return 1
  local generator="Unix Makefiles" scalar=OFF quick=() fresh=() made_of
  if command -v ninja >/dev/null; then generator=Ninja; fi
  # Host rows with all instruction sets take long to compile, and their bits do not depend on the instruction
  # set.
  if [ "$(nproc)" -lt 8 ]; then scalar=ON; fi
  if [ -n "$fake" ]; then quick=(-D CMAKE_CXX_FLAGS_RELEASE=-O1); fi
  # CMake refuses a folder that was made elsewhere, for example one copied with the tree. It also keeps the
  # libraries that it found before.
  made_of="$PWD $build, $generator, $mpiexec${fake:+, fake}"
  if [ "$(cat "$build/made_of" 2>/dev/null)" != "$made_of" ]; then fresh=(--fresh); fi
  cmake -S . -B "$build" "${fresh[@]}" -G "$generator" -D CMAKE_BUILD_TYPE=Release -D MPIQ_SCALAR=$scalar -D MPIQ_UNIT_TESTS=OFF \
    -D MPIQ_CUDA="$([ -n "$fake" ] && echo AUTO || echo ON)" "${quick[@]}" "${cmake_options[@]}" && echo "$made_of" >"$build/made_of"
}

stage_build() {
  local jobs=${MPIQ_JOBS:-$(nproc)}
  # The image of the kernels takes longest. So it is built beside everything else, and the benchmarks before
  # the tests.
  cmake --build "$build" --parallel "$jobs" --target gpu_check_programs &&
    cmake --build "$build" --parallel "$jobs" --target gpu_check_tests
}

# With --fake only a small part runs, because its GPU is one thread of the host.
stage_kernels() {
  local filter=.
  if [ -n "$fake" ]; then filter='bf16/.*/f32/cuda/512KiB'; fi
  "$build/bin/mpiq-kernels" --memory cuda --benchmark_filter="$filter" \
    --benchmark_out="$out/kernels.json" --benchmark_out_format=json
}

# The methods of a launch are measured in turn, and its rows are written when all are done. So the most
# important methods have a launch of their own, the first. Each launch has mpi, because speed-ups are paired
# with it.
stage_allreduce() {
  find_dependencies || return 1
  local size=64M link=gpu number=0 failed=0 methods file launches="mpi,onebit,bf16,adaptive mpi,threshold,topk,zerorun mpi,mpi-direct,nccl"
  if [ -n "$fake" ]; then size=64K link=fake-gpu launches="mpi,onebit,bf16 mpi,zerorun mpi,mpi-direct,nccl"; fi
  rm -f "$out"/allreduce-[0-9].*
  for methods in $launches; do
    file=$out/allreduce-$((++number))
    "$mpiexec" -n 2 "$build/bin/mpiq-bench" allreduce --memory cuda --sizes $size --methods "$methods" --phases --min-reps 20 \
      --point-time 1 --link $link -O "$file.h5" | tee "$file.txt"
    if [ "${PIPESTATUS[0]}" != 0 ]; then failed=1; fi
  done
  return $failed
}

# Without MPS, kernels of two processes never run at the same time. MPS is a daemon of ours alone, with
# folders of its own: it changes nothing for others, and ends with the stage.
stage_sharing() {
  find_dependencies || return 1
  local size=64M link=gpu counts="4 8 16 32" segments failed=0 ways=(plain) way
  if [ -n "$fake" ]; then size=16K link=fake-gpu counts=4; fi
  mps_control=$(command -v nvidia-cuda-mps-control) && [ -z "$fake" ] && ways=(plain mps)
  [ ${#ways[@]} = 2 ] || echo "without MPS only: there is no nvidia-cuda-mps-control, or no GPU"
  for way in "${ways[@]}"; do
    if [ "$way" = mps ]; then
      export CUDA_MPS_PIPE_DIRECTORY=$out/mps CUDA_MPS_LOG_DIRECTORY=$out/mps
      mkdir -p "$out/mps"
      if ! "$mps_control" -d; then echo "MPS does not start: without it only"; break; fi
      trap 'echo quit | "$mps_control" >/dev/null' EXIT
    fi
    for segments in $counts; do
      echo "== $way, $segments segments in flight"
      MPIQ_CUDA_SEGMENTS=$segments "$mpiexec" -n 2 "$build/bin/mpiq-bench" allreduce --memory cuda --sizes $size \
        --methods mpi,onebit --min-reps 10 --point-time 0.5 --link $link -O "$out/sharing-$way-$segments.h5" || failed=1
    done
  done
  return $failed
}

gpu_tests() {  # gpu_tests rows|calls|streams: the programs
  local name
  while read -r name; do
    case $1:$name in
      streams:*streams_mpi_test) echo "$build/bin/$name" ;;
      streams:* | calls:*streams_mpi_test) ;;
      calls:*_mpi_test) echo "$build/bin/$name" ;;
      *:*_mpi_test | calls:*) ;;
      *) echo "$build/bin/$name" ;;
    esac
  done <"$build/gpu_check_tests.txt"
}

# each_case FILTER: the cases of the tests of rows, a line each: the program and the case.
each_case() {
  local test
  for test in $(gpu_tests rows); do
    "$test" --gtest_list_tests --gtest_filter="$1" |
      awk -v test="$test" '/^[^ ]*\.( |$)/ { suite = $1 } /^  / { print test, suite $1 }'
  done
}

# side_by_side NAME FILTER [COMMAND...]: the cases of FILTER, each in a process of its own with COMMAND before
# it, as many at a time as there are processors, because most of their time goes into computing what the host
# rows give.
side_by_side() {
  local name=$1 filter=$2 cases failed=0 log
  shift 2
  cases=$(each_case "$filter")
  [ -n "$cases" ] || { echo "there are no device tests"; return 1; }
  rm -rf "$out/$name.d" && mkdir -p "$out/$name.d"
  # shellcheck disable=SC2016  # for the inner shell to expand
  xargs -P "$(nproc)" -L 1 bash -c 'case=${*: -1} log=$0/$(basename "${*: -2:1}")-${case//\//_}
    MPIQ_TEST_DEVICE=cuda "${@:1:$#-1}" --gtest_filter="$case" >"$log.log" 2>&1 || { mv "$log.log" "$log.failed.log"; exit 1; }' \
    "$out/$name.d" "$@" <<<"$cases" || failed=1
  for log in "$out/$name.d"/*; do
    echo "== ${log##*/}"
    cat "$log"
  done
  rm -rf "$out/$name.d"
  return $failed
}

stage_rows() { side_by_side rows "${MPIQ_ROWS_FILTER:-*}"; }

stage_calls() {
  find_dependencies || return 1
  local test ranks failed=0 any=""
  for test in $(gpu_tests calls); do
    for ranks in 1 2 3; do
      any=1
      echo "== $test, $ranks ranks"
      "$mpiexec" -n $ranks "$test" || failed=1
    done
  done
  [ -n "$any" ] || { echo "there are no tests of calls"; return 1; }
  return $failed
}

stage_streams() {
  find_dependencies || return 1
  local test
  test=$(gpu_tests streams)
  [ -n "$test" ] || { echo "there is no test of streams"; return 1; }
  "$mpiexec" -n 1 "$test"
}

# The driver ignores binaries and what it has compiled before. The bits must be the same.
stage_ptx() {
  local test started=$SECONDS
  test=$(gpu_tests rows | grep -m1 device_rows_test)
  [ -n "$test" ] || { echo "there are no device tests"; return 1; }
  CUDA_FORCE_PTX_JIT=1 CUDA_CACHE_DISABLE=1 MPIQ_TEST_DEVICE=cuda "$test" --gtest_filter="${MPIQ_PTX_FILTER:-*NansKeepTheirBits}" |
    tee "$out/ptx.txt"
  if [ "${PIPESTATUS[0]}" != 0 ] || ! grep -q "Running [1-9]" "$out/ptx.txt"; then return 1; fi
  echo "compiled and tested in $((SECONDS - started)) s"
}

sanitize() {  # sanitize TOOL
  local tool
  if [ -n "$fake" ]; then echo "left out: no GPU (--fake)"; return 77; fi
  tool=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null) ||
    { echo "left out: no compute-sanitizer here"; return 77; }
  side_by_side "$1" "${MPIQ_SANITIZE_FILTER:-*Nans*:*NotFinite*:*ManyTilesAndPieces*:*PiecesAndOrders*:*LengthsAndAddresses*:DeviceBitmaps*}" \
    "$tool" --tool "$1" --error-exitcode 9 --launch-timeout 0
}
stage_memcheck() { sanitize memcheck; }
stage_racecheck() { sanitize racecheck; }
stage_initcheck() { sanitize initcheck; }
stage_synccheck() { sanitize synccheck; }
