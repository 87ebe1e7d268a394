#!/bin/sh
# `make demo`: from the sources to an answer from a served model.
set -eu
cd "$(dirname "$0")/.."
ovms=target/demo/ovms

echo "1. Building ovms."
cargo build --profile demo --locked --bin ovms

echo
echo "2. Getting the OpenVINO runtime."
"$ovms" setup

echo
echo "3. Serving the example."
work=$(mktemp -d)
server=
stop() {
	status=$?
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" || status=$?
	fi
	rm -rf "$work"
	exit "$status"
}
trap stop EXIT
trap 'exit 130' INT TERM
# A port that the system gives is free; another one may not be.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
: >"$work/log"
"$ovms" serve --demo --port "$port" --grpc-bind-address 127.0.0.1 >"$work/log" 2>&1 &
server=$!
tries=0
until grep -q ' ready$' "$work/log"; do
	tries=$((tries + 1))
	if ! kill -0 "$server" 2>/dev/null || [ "$tries" -gt 600 ]; then
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.1
done

echo
echo "4. Asking it what is on fixtures/images/star.png:"
echo "   ovms infer classifier -i @fixtures/images/star.png --top 3 --labels fixtures/models/classifier/labels.txt"
"$ovms" infer classifier --url "localhost:$port" -i @fixtures/images/star.png \
	--top 3 --labels fixtures/models/classifier/labels.txt

echo
echo "5. Stopping the server."
kill "$server"
wait "$server"
server=
cat <<END

That was it. This program was built in a short time, not to be fast: \`make build\` makes target/release/ovms. To go on:
  $ovms serve --demo          serve the example on ports 9000 (gRPC) and 8000 (REST)
  $ovms infer classifier -i @fixtures/images/ring.png --top 3
  $ovms serve flowers.onnx    serve a file, a folder, or a repository of models
  $ovms --help
END
