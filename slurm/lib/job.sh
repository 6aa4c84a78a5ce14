# What cell.sbatch and finish.sbatch share. They source it after RUN/settings.sh, which slurm/submit wrote.
# shellcheck shell=bash

# Exit codes of jobs, by which slurm/status explains an end that nothing else explains.
readonly FAILED=1 USAGE=2 MISSING=69 CANNOT_WRITE=74 POINTS_LEFT=75
readonly restarts=${SLURM_RESTART_COUNT:-0}

# The name by which Slurm takes exactly this job. SLURM_JOB_ID will not do: in one task of every array it is the number of the
# whole array, and `scontrol requeue` of it starts all tasks again, finished ones included.
self=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then self=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
readonly self

# Appends a line to RUN/state/<name>.state: time, running | left | failed | done, job, node, why.
note() {  # note STATE WHY
  printf '%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$1" "$self" "$(uname -n)" "${2//[$'\t\n']/ }" >>"$state_file"
}

fail() {  # fail WHY [EXIT_CODE]
  echo "$(date -u +%FT%TZ) $name: failed: $1" >&2
  note failed "$1" || echo "$name: and cannot write $state_file" >&2
  exit "${2:-$FAILED}"
}

finish() { note "done" "" || exit $CANNOT_WRITE; exit 0; }

begin() {  # begin NAME: of a cell, or finish
  name=$1 state_file=$run/state/$1.state
  echo "== $(date -u +%FT%TZ) $name: job $self, life $((restarts + 1)), on ${SLURM_JOB_NODELIST:-?}"
  cd "$run" || fail "no folder $run on $(uname -n): is it on a shared file system?" "$CANNOT_WRITE"
  load_modules
}

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
