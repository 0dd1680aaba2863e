#!/bin/bash
export HELPERS_LOCAL_ID=local-$$
# the ranks are told to stop; this shell waits for them
trap '' TERM
export HELPERS_RUN='/runs/it'"'"'s 50%/1'
_helpers() { /env/bin/python -P -m helpers.runtime.batch "$@"; }
begun=$(_helpers begin) || exit; eval "$begun"

_helpers provenance &

# the ranks, started and watched by one supervisor in this very process
exec /env/bin/python -P -m helpers.runtime.local
