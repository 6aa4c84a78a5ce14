# What a cell ran on, as Slurm describes it, as sections of an INI file. It contains only what is named here, never the whole
# environment.
# shellcheck shell=bash

JOB_KEYS='JobId|ArrayJobId|ArrayTaskId|JobName|Partition|QOS|Features|Gres|NodeList|NumNodes|NumCPUs|NumTasks|CPUs/Task'
JOB_KEYS+='|ReqB:S:C:T|Socks/Node|NtasksPerN:B:S:C|CoreSpec|TRES|TresPerNode|TimeLimit|SubmitTime|StartTime|Restarts'
JOB_KEYS+='|OverSubscribe|Contiguous|Switches|Nodes|CPU_IDs|GRES'
readonly JOB_KEYS
NODE_KEYS='NodeName|Arch|CoresPerSocket|CPUTot|CPUAlloc|AvailableFeatures|ActiveFeatures|Gres|OS|RealMemory|Sockets|Boards'
NODE_KEYS+='|ThreadsPerCore|Version|CpuSpecList'
readonly NODE_KEYS
SLURM_KEYS='ClusterName|SLURM_VERSION|SelectType|SelectTypeParameters|TaskPlugin|ProctrackType|SwitchType|TopologyPlugin'
SLURM_KEYS+='|MpiDefault|LaunchParameters|AccountingStorageType'
readonly SLURM_KEYS
ENV_KEYS='SLURM_JOB_(ID|NAME|NODELIST|NUM_NODES|PARTITION|END_TIME|CPUS_PER_NODE)'
ENV_KEYS+='|SLURM_(NTASKS|NTASKS_PER_NODE|TASKS_PER_NODE|CPUS_PER_TASK|CPUS_ON_NODE|RESTART_COUNT|CLUSTER_NAME)'
ENV_KEYS+='|SLURM_ARRAY_[A-Z_]+|SLURM_CPU_BIND[A-Z_]*|SLURM_GPU[A-Z_]*|CUDA_VISIBLE_DEVICES|LOADEDMODULES'
ENV_KEYS+='|(MPIR_CVAR|UCX|FI|OMP|MPIQ|OMPI_MCA)_[A-Za-z0-9_]+'
readonly ENV_KEYS

# `scontrol show` prints KEY=VALUE words. If a value contains blanks, only its first word is kept.
chosen() { tr ' ' '\n' | grep -E "^($1)=" || true; }

write_metadata() {
  local node
  echo "[cell]"
  echo "name=$name"
  echo "written_utc=$(date -u +%FT%TZ)"
  echo "nodes=$nodes"
  echo "ranks_per_node=$ranks_per_node"
  echo "cpus_per_task=$cpus_per_task"
  echo "gpus_per_node=$gpus_per_node"
  echo "launcher=$launcher"
  echo "launcher_options=${srun_options[*]}"
  case $launcher in
    srun:*) echo "binding=--distribution=block:block --cpu-bind=verbose,cores; what was bound is in the result file" ;;
    hydra) echo "binding=-bind-to core:$cpus_per_task" ;;
    openmpi) echo "binding=--bind-to core; what was bound is in the log" ;;
  esac
  echo "[slurm]"
  echo "commands=$(scontrol --version)"
  scontrol show config | sed -nE "s/^($SLURM_KEYS) +=( .*)?\$/\1=\2/p" | sed 's/= */=/'
  echo "[job]"
  scontrol -o show job -d "$self" | chosen "$JOB_KEYS"
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    echo "[node $node]"
    scontrol -o show node "$node" | chosen "$NODE_KEYS"
  done
  write_processor
  echo "[environment]"
  env | grep -aE "^($ENV_KEYS)=" | sort
}

# The processor of the first node. The result file has the processor of each node.
write_processor() {
  echo "[processor $(uname -n)]"
  lscpu |
    sed -nE 's/^(Model name|Socket\(s\)|Core\(s\) per socket|Thread\(s\) per core|NUMA node\(s\)|L3 cache|CPU max MHz): +/\1=/p'
  echo "governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo unknown)"
  if [ "$gpus_per_node" -gt 0 ]; then
    echo "[gpus $(uname -n)]"
    if command -v nvidia-smi >/dev/null; then
      nvidia-smi --format=csv,noheader \
        --query-gpu=index,name,uuid,pci.bus_id,driver_version,memory.total,ecc.mode.current,clocks.max.sm,power.limit |
        sed 's/^\([0-9]*\), /gpu\1=/'
    else
      echo "nvidia_smi=not found"
    fi
  fi
}
