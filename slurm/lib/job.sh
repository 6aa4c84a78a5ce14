# What all jobs have in common; sourced by slurm/*.sbatch after RUN/settings.sh, which slurm/submit wrote.
# shellcheck shell=bash

# Exit codes of cells, by which slurm/status explains an end that nothing else explains.
readonly FAILED=1 USAGE=2 MISSING=69 CANNOT_WRITE=74 POINTS_LEFT=75

# The name by which Slurm takes exactly this job. SLURM_JOB_ID will not do: in one task of every array it is the number of the
# whole array, and `scontrol requeue` of it starts all tasks again, finished ones included.
own_name() {
  if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; else echo "$SLURM_JOB_ID"; fi
}

# Appends a line to RUN/state/<name>.state: time, running | left | failed | done, job, node, why.
note() {  # note STATE WHY
  printf '%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$1" "$self" "$(uname -n)" "${2//[$'\t\n']/ }" >>"$state_file"
}

fail() {  # fail WHY [EXIT_CODE]
  echo "$(date -u +%FT%TZ) $name: failed: $1" >&2
  note failed "$1" || echo "$name: and cannot write $state_file" >&2
  exit "${2:-$FAILED}"
}

begin() {  # begin NAME: of a cell, or of what comes after the cells
  name=$1 self=$(own_name) state_file=$run/state/$1.state
  echo "== $(date -u +%FT%TZ) $name: job $self, life $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-?}"
  cd "$run" || fail "no folder $run on $(uname -n): is it on a shared file system?" "$CANNOT_WRITE"
  load_modules
}

finish() { note "done" "" || exit $CANNOT_WRITE; exit 0; }

# A job is no login shell: it has the function `module` only if the shell that submitted it exported it.
find_module_command() {
  local file
  for file in "${LMOD_PKG:+$LMOD_PKG/init/bash}" "${MODULESHOME:+$MODULESHOME/init/bash}" /etc/profile.d/{lmod,z00_lmod,modules}.sh; do
    if type module >/dev/null 2>&1; then return; fi
    # shellcheck source=/dev/null
    if [ -n "$file" ] && [ -r "$file" ]; then source "$file"; fi
  done
}

load_modules() {
  local module said
  if [ -n "$modules" ]; then find_module_command; fi
  for module in $modules; do
    type module >/dev/null 2>&1 || fail "module $module: there is no 'module' command on $(uname -n)" "$MISSING"
    # Into a file, not a pipe: `module` changes this shell. Some versions return 0 whatever happens.
    said=$(mktemp) || fail "no temporary file can be made on $(uname -n)" "$CANNOT_WRITE"
    if ! module load "$module" >"$said" 2>&1 || grep -qiE 'unable to (load|locate)|unknown module|\(s\) are unknown' "$said"; then
      cat "$said" >&2
      fail "module $module cannot be loaded on $(uname -n): $(grep -m 1 '[[:alnum:]]' "$said")" "$MISSING"
    fi
    rm -f "$said"
  done
  if declare -F site_setup >/dev/null; then
    site_setup || fail "site_setup of the site's settings failed on $(uname -n)" "$MISSING"
  fi
}

# Begins the cell that is line SLURM_ARRAY_TASK_ID of RUN/plan.tsv, and ends here if there is nothing to be done or it cannot
# be. Sets name, nodes, ranks_per_node, ranks, launch_index and cell_options.
begin_cell() {
  local line=() text
  text=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$run/plan.tsv")
  IFS=$'\t' read -r -a line <<<"$text"
  if [ ${#line[@]} -lt 4 ]; then echo "$run/plan.tsv has no line for task $SLURM_ARRAY_TASK_ID" >&2; exit $USAGE; fi
  nodes=${line[1]} ranks_per_node=${line[2]} launch_index=${line[3]} cell_options=("${line[@]:4}")
  ranks=$((nodes * ranks_per_node))
  begin "${line[0]}"
  result=$run/cells/$name
  if [ "$(tail -n 1 "$state_file" 2>/dev/null | cut -f 2)" = "done" ]; then echo "$name is complete"; exit 0; fi
  if [ "${SLURM_RESTART_COUNT:-0}" -gt "$max_restarts" ]; then
    fail "gave up after $max_restarts restarts: more --time, or more --max-restarts"
  fi
  if [ "${SLURM_JOB_NUM_NODES:-0}" -ne "$nodes" ]; then
    fail "the plan says $nodes nodes, the allocation has ${SLURM_JOB_NUM_NODES:-none}" "$USAGE"
  fi
  check_disk
  remove_dead_lock
  set_end_time
  source "$root/slurm/lib/metadata.sh"
  write_metadata >"$result.ini.tmp" && mv "$result.ini.tmp" "$result.ini"
  note running "life $((${SLURM_RESTART_COUNT:-0} + 1))" || fail "cannot write $state_file" "$CANNOT_WRITE"
}

# A quota shows only in writing, so a megabyte is written.
check_disk() {
  local free_kb probe=$run/cells/$name.probe
  free_kb=$(df -Pk "$run" | awk 'NR == 2 {print $4}')
  if [ "${free_kb:-0}" -lt $((min_free_mb * 1024)) ]; then
    fail "the disk of $run is full: $((${free_kb:-0} / 1024)) MB free, $min_free_mb wanted" "$CANNOT_WRITE"
  fi
  if ! dd if=/dev/zero of="$probe" bs=65536 count=16 status=none; then
    rm -f "$probe"
    fail "cannot write to $run/cells: see the log for why (a quota?)" "$CANNOT_WRITE"
  fi
  rm -f "$probe"
}

# A cell that was killed leaves mpiq-bench's lock. Its own next life takes it over; a job of a later slurm/submit may run on
# another node, and only Slurm knows that the owner is gone.
remove_dead_lock() {
  local job lock=$result.h5.lock
  [ -f "$lock" ] || return 0
  job=$(cut -d " " -f 3 "$lock")  # host, process, job, when it began
  [[ ${job:-} =~ ^[0-9]+$ ]] && [ "$job" != "$SLURM_JOB_ID" ] || return 0
  # By its number of its own (%A): -j with that of an array lists all tasks. No answer is no reason to take a lock.
  local running
  running=$(squeue -h -t R,CG,S,CF -o %A) || return 0
  if grep -qx "$job" <<<"$running"; then return 0; fi
  echo "$name: removes the lock of job $job, which has ended"
  rm -f "$lock"
}

# Seconds; fails where there is no limit, or no answer.
end_time() {
  local end
  end=$(squeue -h -j "$self" -o %e) && [ -n "$end" ] && date -d "$end" +%s 2>/dev/null
}

# For `mpiq-bench --deadline auto`: Slurm sets it from version 23.02 on.
set_end_time() {
  local end
  [ -z "${SLURM_JOB_END_TIME:-}" ] || return 0
  end=$(end_time) && export SLURM_JOB_END_TIME=$end
  return 0
}

# All ranks of the cell, each bound to cores of its own, and says how. What the ranks really got is in the result file.
launch() {  # launch CMD...
  # Of a job that was submitted with --export=NONE, which would else hold for the ranks too.
  unset SLURM_EXPORT_ENV
  # From 22.05 on srun does not take over the --cpus-per-task of the job.
  export SRUN_CPUS_PER_TASK=$cpus_per_task OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus_per_task}
  local gpu=()
  if [ "$gpus_per_node" -gt 0 ]; then gpu=(--gpus-per-node="$gpus_per_node" --gpu-bind=none); fi
  case $launcher in
    srun:*)
      srun --mpi="${launcher#srun:}" --export=ALL --nodes="$nodes" --ntasks="$ranks" --ntasks-per-node="$ranks_per_node" \
        --cpus-per-task="$cpus_per_task" --distribution=block:block --cpu-bind=verbose,cores --kill-on-bad-exit=1 \
        "${gpu[@]}" "${srun_options[@]}" "$@" ;;
    hydra) mpiexec.hydra -n "$ranks" -ppn "$ranks_per_node" -bind-to "core:$cpus_per_task" "${srun_options[@]}" "$@" ;;
    openmpi)
      mpirun -n "$ranks" --map-by "ppr:$ranks_per_node:node:PE=$cpus_per_task" --bind-to core --report-bindings \
        "${srun_options[@]}" "$@" ;;
  esac
}

need_program() {  # need_program PATH
  [ -x "$1" ] || fail "there is no program $1 on $(uname -n): built, and on a shared file system?" "$MISSING"
}

# What each rank runs: the program, noting how it ended. Of several codes srun returns the greatest, and as soon as one rank exits
# with another than 0 it ends those that are a moment later (--kill-on-bad-exit): 143 in place of 75.
# shellcheck disable=SC2016  # expanded by the ranks
readonly RANK='"$@"; code=$?; if [ $code != 0 ]; then echo $code >"$0"; fi; if [ $code != 75 ]; then exit $code; fi'

# One launch of mpiq-bench: the whole of a cell of most experiments.
run_bench() {  # run_bench allreduce|sparse [OPTIONS...]
  local section=$1; shift
  need_program "$bin/mpiq-bench"
  rm -f "$result.exit"
  launch bash -c "$RANK" "$result.exit" \
    "$bin/mpiq-bench" --config "$run/sweep.toml" "$section" "$@" "${cell_options[@]}" "${extra_options[@]}" \
    --link "$link" --launch-index "$launch_index" --expect-ranks "$ranks" --deadline auto -O "$result.h5"
  local code=$?
  if [ -s "$result.exit" ]; then code=$(<"$result.exit"); fi
  end_cell "$code"
}

# What the end of a launch means for the cell. 75: points are left, and the cell begins again where it stopped.
end_cell() {  # end_cell EXIT_CODE
  case $1 in
    0) finish ;;
    "$POINTS_LEFT") begin_again ;;
  esac
  # Slurm ends the launch first: there may be time to say so.
  if time_is_over; then fail "killed by its time limit: give more --time; what was measured is kept"; fi
  case $1 in
    "$USAGE") fail "the program refused its options: see the log" "$USAGE" ;;
    1)
      check_disk
      fail "a point failed or was invalid, or the program could not start: see the log" ;;
    *) fail "the launch ended with $1$(signal_of "$1"): see the log" ;;
  esac
}

time_is_over() {
  local end
  end=$(end_time) && [ "$end" -le "$(date +%s)" ]
}

signal_of() { if [ "$1" -gt 128 ]; then echo " (SIG$(kill -l $(($1 - 128)) 2>/dev/null))"; fi; }

begin_again() {
  if [ "${SLURM_RESTART_COUNT:-0}" -ge "$max_restarts" ]; then
    fail "points are left after $max_restarts restarts: more --time, or more --max-restarts"
  fi
  note left "the time was over"
  # No trap on TERM here: the requeue itself sends it.
  scontrol requeue "$self" || fail "points are left, and Slurm does not let the job be requeued" "$POINTS_LEFT"
  sleep 120  # Slurm ends this life meanwhile
  fail "points are left, and the requeue did not come" "$POINTS_LEFT"
}
