#!/usr/bin/env bash
# What the batch scripts beside it share: runs mfsdp-train as one step of the job, and puts the job back into the queue
# when a signal has ended the run early. Arguments are mfsdp-train's, and override what is set here. Variables:
#   MATRIXFSDP_TRAIN  the program (default: mfsdp-train, from PATH)
#   MATRIXFSDP_PMI    how ranks find each other (default: pmi2, which MPICH and its kin speak). Open MPI takes pmix, HPE's
#                     MPI cray_shasta; `srun --mpi=list` names what a cluster has. A wrong one is refused at the start:
#                     every process would be rank 0 of 1.
#   MATRIXFSDP_SRUN   further options of srun
#   MATRIXFSDP_SLURM  folder of these scripts, where the batch script cannot find it (its path has a blank, or the job is
#                     made of a copy)
set -uo pipefail
: "${SLURM_JOB_ID:?expected a Slurm job: sbatch cpu.sbatch ...}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
threads=${SLURM_CPUS_PER_TASK:-1}
run=runs/${SLURM_JOB_NAME:-mfsdp}-$SLURM_JOB_ID
stopped=$PWD/.mfsdp-stopped-$SLURM_JOB_ID
mkdir -p "$run"
rm -f "$stopped"
trap 'rm -f "$stopped"' EXIT

# Slurm may signal this shell too: it waits until srun has ended.
trap : TERM USR1

# Threads of BLAS and Kokkos are --threads; an OpenMP runtime obeys these.
export OMP_NUM_THREADS=$threads OMP_PLACES=cores OMP_PROC_BIND=close
# -K1: a rank that dies ends the step, instead of leaving the others to their deadline. srun has not taken
# --cpus-per-task from the job since Slurm 22.05.
# shellcheck disable=SC2086
srun --mpi="${MATRIXFSDP_PMI:-pmi2}" -K1 --cpus-per-task="$threads" --cpu-bind=cores ${MATRIXFSDP_SRUN:-} \
  bash "$here/rank.sh" "$stopped" "${MATRIXFSDP_TRAIN:-mfsdp-train}" \
  --checkpoint-dir "$run" --metrics "$run/metrics.jsonl" --resume auto --threads "$threads" "$@"
code=$?
[ "$code" -eq 0 ] && [ -e "$stopped" ] || exit "$code"

# A job that was cancelled, or is at its end, is not RUNNING any more, and stays ended.
state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)
if [ "$state" = RUNNING ]; then
  echo "train.sh: back into the queue, restart $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
  scontrol requeue "$SLURM_JOB_ID"
fi
exit 75
