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
_helpers() { /env/bin/python -P -m helpers.runtime.attempt.batch "$@"; }
_cannot_begin() {  # the interpreter cannot say so itself
  if [ ! -x /env/bin/python ]; then why='/env/bin/python, the interpreter of this job, does not exist there'
  elif found=$(/env/bin/python -c 'import sys; print('"'"'%d.%d'"'"' % sys.version_info[:2])' | tr -cd 0-9.); [ "$found" != 3.11 ]; then why='/env/bin/python was Python 3.11 when this was submitted, and is Python '"${found:-unknown}"' there'
  elif ! /env/bin/python -P -c 'import helpers.runtime.attempt.batch'; then why='/env/bin/python cannot import helpers there'
  else exit $1; fi
  cd "$HELPERS_RUN" && ! grep -qs COMPLETED status.json || exit $1
  job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}; now=$(date +%s)
  job=${job:-${SLURM_JOB_ID:-$HELPERS_LOCAL_ID}}; number=$(ls attempts 2>/dev/null | wc -l)
  printf '{"time":%s.0,"event":"end","attempt":%d,"job_id":"%s","state":"FAILED","cause":"environment","step":null}\n' $now $number "$job" >>jobs.jsonl
  printf '{"state":"FAILED","job_id":"%s","attempt":%d,"ending":{"cause":"environment","rank":null,"node":"%s","exit_code":%d,"signal":null,"detail":"%s"},"updated":%s.0}\n' "$job" $number "$(uname -n)" $1 "$why" $now >.status.tmp
  mv .status.tmp status.json; echo "[helpers] $why" >&2; exit $1
}
begun=$(_helpers begin) || _cannot_begin $?; eval "$begun"

# set-up: the first line that fails, or leaves, ends the job
setup_line() { sed -n "${BASH_LINENO[${#BASH_LINENO[@]} - 2]}p" "$HELPERS_RUN/submission.sh"; }
setup_failed() { trap - ERR EXIT; _helpers setup-failed "$1" "${2:-$(setup_line)}"; exit 1; }
trap 'setup_failed $?' ERR; trap 'setup_failed $? "$BASH_COMMAND"' EXIT
module load cuda
export FOO="bar baz"
trap - ERR EXIT; set +eu; set +o pipefail  # what a line has set holds for the lines only

_helpers provenance & provenance=$!

# the ranks: Python directly under srun, so that it is Python that gets the signals, and not before it listens
hold='env --block-signal=TERM,USR2'; $hold true 2>/dev/null || hold=  # coreutils 8.31 and newer
srun --ntasks=4 --cpus-per-task=4 --kill-on-bad-exit=1 --unbuffered --export=ALL \
  --output='/runs/it'"'"'s 50%%/1/logs'/"$HELPERS_ATTEMPT"/%t.out --error='/runs/it'"'"'s 50%%/1/logs'/"$HELPERS_ATTEMPT"/%t.err \
  $hold /env/bin/python -u -P -m helpers.runtime.rank.rank
code=$?
wait $provenance  # and for nothing that the set-up has left running
_helpers end $code  # decides whether the job is requeued
