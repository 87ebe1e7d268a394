#!/bin/sh
# `ovms` as pages call it: the program of this build. Over REST the server of the page is at its other port, as the
# usual address of `ovms infer` is.
if [ "${OVMS_URL-}" = "$OVMS_OWN_URL" ]; then
	case "$*" in
	*kserve-rest* | *tfs-rest*) export OVMS_URL="$OVMS_REST_URL" ;;
	esac
fi
exec "$OVMS_PROGRAM" "$@"
