# shellcheck shell=bash
# What the runners written in bash share. Sourced, never run.

# Names of the shell's own kind for what ../matrix/run.py says in the environment.
work_dir=$WORK_DIR
bootstrap=$BOOTSTRAP

# Runs case $1, if it is wanted, and reports what became of it: the rest is a command.
run_case() {
    local name=$1 started=$SECONDS
    shift
    [[ " $SCENARIOS " == *" $name "* ]] || return 0
    echo "--- $name"
    set +e
    # A subshell with errexit: any failing command of the case fails the case.
    (set -euo pipefail; "$@") 2>&1
    local status=$?
    set -e
    if ((status == 0)); then
        echo "pass $name" >>"$RESULTS"
    else
        echo "fail $name" >>"$RESULTS"
    fi
    echo "    status $status after $((SECONDS - started)) s"
}
