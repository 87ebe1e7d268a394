"""Puts containers and blobs into the emulator of Azure Blob Storage.

    python blobs.py PORT CONTAINER            makes a container
    python blobs.py PORT CONTAINER/NAME FILE  puts a file, or removes the blob if FILE is -

The account and key are those of every emulator.
"""

import base64
import hashlib
import hmac
import sys
import urllib.parse
import urllib.request
from email.utils import formatdate
from pathlib import Path

ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def connection_string(port):
    """What AZURE_STORAGE_CONNECTION_STRING is set to."""
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    return f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"


def request(port, method, path, query="", body=b"", headers=()):
    """Sends a signed request; `query` is one `name=value`."""
    path = urllib.parse.quote(f"/{ACCOUNT}/{path}")
    special = dict(headers) | {
        "x-ms-date": formatdate(usegmt=True),
        "x-ms-version": "2021-12-02",
    }
    lines = [f"{name}:{value}" for name, value in sorted(special.items())]
    resource = f"/{ACCOUNT}{path}" + (f"\n{query.replace('=', ':')}" if query else "")
    length = str(len(body)) if body else ""
    kind = "application/octet-stream" if body else ""
    to_sign = [method, "", "", length, "", kind, *[""] * 6, *lines, resource]
    digest = hmac.digest(base64.b64decode(KEY), "\n".join(to_sign).encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    special["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    if kind:
        special["Content-Type"] = kind
    url = f"http://127.0.0.1:{port}{path}" + (f"?{query}" if query else "")
    sent = urllib.request.Request(url, data=body or None, headers=special, method=method)
    # Never through a proxy of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(sent, timeout=20):
        pass


def make_container(port, name):
    """Make a container."""
    request(port, "PUT", name, "restype=container")


def put(port, name, body):
    """Put a blob; `name` begins with the container."""
    request(port, "PUT", name, body=body, headers=[("x-ms-blob-type", "BlockBlob")])


def remove(port, name):
    """Remove a blob."""
    request(port, "DELETE", name)


if __name__ == "__main__":
    PORT, NAME, *FILE = sys.argv[1:]
    if not FILE:
        make_container(PORT, NAME)
    elif FILE == ["-"]:
        remove(PORT, NAME)
    else:
        put(PORT, NAME, Path(FILE[0]).read_bytes())
