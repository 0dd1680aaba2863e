#!/bin/bash

# Parameters
#SBATCH --account=vision
#SBATCH --chdir='/projects/my net'
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=a100:2
#SBATCH --job-name='it'"'"'s 50%'
#SBATCH --kill-on-invalid-dep=yes
#SBATCH --mail-type=END
#SBATCH --mem=64GB
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --open-mode=append
#SBATCH --output='/runs/it'"'"'s 50%%/1/logs/batch.log'
#SBATCH --partition=gpu
#SBATCH --requeue
#SBATCH --signal=USR2@90
#SBATCH --time=480

# command
export SUBMITIT_EXECUTOR=slurm
# the ranks are told to stop; this shell waits for them
trap : TERM
export HELPERS_RUN='/runs/it'"'"'s 50%/1'
_helpers() { /env/bin/python -P -m helpers.runtime.batch "$@"; }
begun=$(_helpers begin) || exit; eval "$begun"

# set-up: the first line that fails, or leaves, ends the job
setup_line() { sed -n "${BASH_LINENO[${#BASH_LINENO[@]} - 2]}p" "$HELPERS_RUN/submission.sh"; }
setup_failed() { trap - ERR EXIT; _helpers setup-failed "$1" "${2:-$(setup_line)}"; exit 1; }
trap 'setup_failed $?' ERR; trap 'setup_failed $? "$BASH_COMMAND"' EXIT
module load cuda
export FOO="bar baz"
trap - ERR EXIT; set +eu; set +o pipefail  # what a line has set holds for the lines only

_helpers provenance &

# the ranks: Python directly under srun, so that it is Python that gets the signals
srun --ntasks=4 --cpus-per-task=4 --kill-on-bad-exit=1 --unbuffered --export=ALL \
  --output='/runs/it'"'"'s 50%%/1/logs'/"$HELPERS_ATTEMPT"/%t.out --error='/runs/it'"'"'s 50%%/1/logs'/"$HELPERS_ATTEMPT"/%t.err \
  /env/bin/python -u -P -m helpers.runtime.rank
code=$?
wait
_helpers end $code  # decides whether the job is requeued
