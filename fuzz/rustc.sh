#!/bin/sh
# The compiler as `make fuzz` calls it for the crates of this workspace: those that are fuzzed get counters of branches, and
# report the values that they compare. These are the flags of cargo-fuzz without sanitizers; the stable compiler takes them.
rustc=$1
shift
case " $* " in
*" --crate-name ovms "* | *" --crate-name ovms_proto "* | *" --crate-name ovms_fuzz "*)
	exec "$rustc" "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares
	;;
esac
exec "$rustc" "$@"
