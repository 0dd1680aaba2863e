#!/bin/sh
# Install what the test cluster is made of, on Debian or Ubuntu, without starting any of it: the cluster runs
# daemons of its own, and a machine that only runs tests should not get a database listening on a port.
#
# Exit codes: 0 all is there, 3 this script cannot do it here (it says what to do), else apt-get's own.
set -eu

# R, Charliecloud, Open MPI: the tests submit scripts of the first, run jobs in containers of the second, and start
# ranks by the third
PACKAGES="slurm-wlm slurmdbd slurm-client munge mariadb-server r-base-core charliecloud-runtime openmpi-bin iproute2"
POLICY=/usr/sbin/policy-rc.d # asked before a package starts a service; 101 means no

missing=""
for package in $PACKAGES; do
    case "$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null || true)" in
    *" installed") ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then
    echo "slurm-packages: all installed: $PACKAGES"
    exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
    echo "slurm-packages: this script knows Debian and Ubuntu only. Install Slurm 21.08 or newer with slurmdbd," \
        "munge and MariaDB by your system's own means; 'make test' then finds them on PATH." >&2
    exit 3
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "slurm-packages: needs root to install:$missing. Run: sudo make slurm-packages" >&2
    exit 3
fi

# Put a refusal in the place of whatever policy there is, and put that back however this script ends.
kept=""
restore() {
    rm -f "$POLICY"
    if [ -n "$kept" ]; then mv "$kept" "$POLICY"; fi
}
if [ -e "$POLICY" ] || [ -L "$POLICY" ]; then
    kept="$POLICY.kept-by-slurm-packages.$$"
    mv "$POLICY" "$kept"
fi
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
printf '#!/bin/sh\nexit 101\n' >"$POLICY"
chmod 755 "$POLICY"

echo "slurm-packages: installing$missing; no service will be started"
apt-get update --quiet=2
# shellcheck disable=SC2086 # a list of words is meant
DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $missing
