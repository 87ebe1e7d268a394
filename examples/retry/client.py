#!/usr/bin/env python3
"""Sends the steps of a sequence, and sends a step again where its answer did not come.

    python client.py [--url localhost:9000] [--model total] [--steps 3]

It needs Triton's client: pip install 'tritonclient[grpc]' numpy. The functions `retried` and `steps` are for copying.
"""

import argparse
import random
import secrets
import sys
import time

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

# A server that starts, stops, or cannot be reached; a limit of the server or of the client; no answer within ATTEMPT.
# All else, such as INVALID_ARGUMENT and NOT_FOUND, is no better the next time.
AGAIN = ["StatusCode.UNAVAILABLE", "StatusCode.RESOURCE_EXHAUSTED", "StatusCode.DEADLINE_EXCEEDED"]

# Longest time of one attempt, and the first and the longest pause between two, in seconds.
ATTEMPT, FIRST, LONGEST = 5.0, 0.1, 2.0

# By default gRPC waits up to two minutes before it connects again.
CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", int(FIRST * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(LONGEST * 1000)),
]


# A server that has no version of the model yet: it starts. A request that names no version is not kept waiting.
STARTS = ("StatusCode.NOT_FOUND", "Model with requested version is not found")


def is_worth_another(error):
    """Whether the same request may be answered later. One that is too large never is."""
    status, text = error.status(), error.message() or ""
    return (status in AGAIN and "too large" not in text) or (status == STARTS[0] and text.startswith(STARTS[1]))


def retried(call, seconds):
    """Makes a call until it is answered, for so many seconds at most; `call` is given the time limit of an attempt."""
    deadline = time.monotonic() + seconds
    pause = FIRST
    while True:
        left = deadline - time.monotonic()
        try:
            return call(min(left, ATTEMPT))
        except InferenceServerException as error:
            # Random, so that clients that were refused together do not come back together.
            wait = random.uniform(pause / 2, pause)
            if not is_worth_another(error) or time.monotonic() + wait >= deadline:
                raise
            print(f"{error.status()}: {error.message()}; again in {wait:.2f} s", file=sys.stderr)
        time.sleep(wait)
        pause = min(2 * pause, LONGEST)


def steps(client, model, values, seconds):
    """Sends values as the steps of a sequence, each within so many seconds, and yields the answers."""
    sequence_id = 1 + secrets.randbits(62)
    for index, value in enumerate(values):
        x = triton.InferInput("x", list(value.shape), "FP32")
        x.set_data_from_numpy(value)
        # One key for all attempts of a step: one whose answer was lost is not run again, where the server has a
        # sequence store.
        headers = {"ovms-idempotency-key": secrets.token_hex(16)}

        def call(limit):
            return client.infer(
                model,
                [x],
                sequence_id=sequence_id,
                sequence_start=index == 0,
                sequence_end=index == len(values) - 1,
                headers=headers,
                client_timeout=limit,
            )

        yield retried(call, seconds)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="localhost:9000", metavar="HOST:PORT")
    parser.add_argument("--model", default="total", help="a stateful one, with an input x of FP32 [1,4]")
    parser.add_argument("--steps", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=30, help="the most that a step may take")
    args = parser.parse_args()
    values = np.ones((args.steps, 1, 4), np.float32)
    with triton.InferenceServerClient(args.url, channel_args=CHANNEL) as client:
        try:
            for number, answer in enumerate(steps(client, args.model, values, args.seconds), 1):
                print(number, answer.as_numpy("total").tolist())
        except InferenceServerException as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
