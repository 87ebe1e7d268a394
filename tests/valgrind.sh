#!/bin/sh
# Runs the tests of custom nodes under valgrind: exits 1 if memory is used that is not there, or is
# lost. Needs valgrind; `make test` does not run it, and OpenVINO is not loaded by these tests.
#
#     tests/valgrind.sh [TEST ...]       all of `custom_node` without names
set -eu
cd "$(dirname "$0")/.."
command -v valgrind > /dev/null || {
    echo "valgrind is missing; on Debian and Ubuntu: apt-get install valgrind" >&2
    exit 72
}
cargo test --locked --no-run --test it
# The newest is the one that was just built, or found to be.
program=$(cargo test --locked --no-run --test it --message-format json 2> /dev/null |
    sed -n 's/.*"name":"it".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
test $# -gt 0 || set -- custom_node
# What is kept on purpose (libraries that stay, threads of the test program) is still reachable.
exec valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite,indirect \
    --errors-for-leak-kinds=definite,indirect --num-callers=30 --fair-sched=yes \
    "$program" --test-threads 2 "$@"
