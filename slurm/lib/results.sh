# Makes the results from the cells of each kind of experiment. slurm/merge.sbatch and slurm/report.sbatch source it.
# shellcheck shell=bash

# The files of all cells in the order of the plan. The job fails at the first that is missing.
cell_files() {  # cell_files SUFFIX
  local cell rest
  while IFS=$'\t' read -r cell rest; do
    [ -f "cells/$cell.$1" ] || fail "cells/$cell.$1 is missing"
    files+=("cells/$cell.$1")
  done <plan.tsv
}

merge_results() {
  files=()
  case $kind in
    bench)
      cell_files h5
      "$python" "$root/scripts/merge" --replace -o "$link.h5" "${files[@]}" || fail "scripts/merge refused: see the log"
      "$python" "$root/scripts/check_results" "$link.h5" || fail "$link.h5 breaks rules: see the log" ;;
    kernels)
      cell_files json
      "$python" -m json.tool "${files[0]}" >/dev/null || fail "${files[0]} is not whole"
      cp -f "${files[0]}" kernels.json || fail "cannot write to $run" "$CANNOT_WRITE"
      cp -f "${files[0]%.json}.csv" quality.csv || fail "cannot write to $run" "$CANNOT_WRITE" ;;
    train)
      cell_files csv
      "$python" "$root/scripts/mnist_table" "${files[@]}" >train.md || fail "no table: see the log" ;;
    dropin)
      cell_files seconds
      "$python" "$root/slurm/lib/dropin_table" "$run" >dropin.md || fail "no table: see the log" ;;
  esac
}

report_results() {
  case $kind in
    bench) "$python" "$root/scripts/report" "$link.h5" -o report.html || fail "no report: see the log" ;;
    kernels) "$python" "$root/scripts/plot" roofline kernels.json -o . || fail "no figure: see the log" ;;
    train)
      files=()
      cell_files csv
      cat train.md
      "$python" "$root/scripts/plot" training "${files[@]}" --name "$link" -o . || fail "no figure: see the log" ;;
    dropin) cat dropin.md ;;
  esac
}
