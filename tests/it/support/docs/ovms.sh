#!/bin/sh
# `ovms` as pages call it: the program of this build. `ovms infer` without an address asks the server of its page.
case "$*" in
*kserve-rest* | *tfs-rest*) OVMS_URL=$OVMS_REST_URL ;;
esac
export OVMS_URL
case "$*" in
*--url*) ;;
infer\ *)
	shift
	set -- infer --url "$OVMS_URL" "$@"
	;;
esac
exec "$OVMS_PROGRAM" "$@"
