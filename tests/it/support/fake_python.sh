#!/bin/sh
# Stands in for Python and pip in the tests of `ovms setup`, so that they need no network.
#
# FAKE_VERSION: the version that it gives itself, such as "3 11".
# FAKE_LOG:     the file that its arguments are written to, a line for each call.
# FAKE_RUNTIME: the folder that "the wheel of openvino" brings.
# FAKE_ERROR:   what pip complains of instead of installing that wheel.
# FAKE_HANG:    the file that pip writes its id and a child's to, before it hangs.
set -eu
echo "$*" >>"$FAKE_LOG"
case "$*" in
"-c import sys;"*) echo "$FAKE_VERSION" ;;
"-c import pip;"*) echo 25 ;;
"-m venv "*)
	mkdir -p "$3/bin"
	cp "$0" "$3/bin/python"
	echo "version = 3.11" >"$3/pyvenv.cfg"
	;;
*runtime.txt)
	if [ -n "${FAKE_HANG:-}" ]; then
		sleep 1000 &
		echo "$$ $!" >"$FAKE_HANG.part"
		mv "$FAKE_HANG.part" "$FAKE_HANG"
		wait
	fi
	echo "Collecting openvino"
	if [ -n "$FAKE_ERROR" ]; then
		echo "WARNING: Retrying after connection broken" >&2
		echo "ERROR: $FAKE_ERROR" >&2
		exit 1
	fi
	echo "  Downloading https://example.org/files/openvino-1.0-py3-none-any.whl (1.0 MB)"
	echo "Progress 500000 of 1000000"
	echo "Installing collected packages: openvino"
	wheel="$(dirname "$0")/../lib/python3.11/site-packages/openvino"
	mkdir -p "$wheel"
	ln -sfn "$FAKE_RUNTIME" "$wheel/libs"
	;;
esac
