#!/bin/bash
export HELPERS_LOCAL_ID=local-$$
# the ranks are told to stop; this shell waits for them
trap '' TERM
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

_helpers provenance &

# the ranks, started and watched by one supervisor in this very process
exec /env/bin/python -P -m helpers.runtime.local.ranks
