#!/usr/bin/env python3
"""A cleaner with a policy of its own: it cleans the emptiest segments first, and prefers old ones among them.

    cleaner.py MOUNT [SEGMENTS]     cleans that many segments (10), as the mount's owner

The daemon checks everything: a wrong answer here costs time, never data. docs/internals/cleaner-port.md
"""
import json, os, socket, sys


def connect(mount):
    dev, uid = os.stat(mount).st_dev, os.geteuid()
    run = "/run/firnfs" if uid == 0 else f"/run/user/{uid}/firnfs"
    if uid and not os.path.isdir(f"/run/user/{uid}"):
        run = f"/tmp/firnfs-{uid}"
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(f"{run}/{os.major(dev)}:{os.minor(dev)}.sock")
    lines = stream.makefile("rw")

    def ask(op, **arguments):
        print(json.dumps({"op": op, **arguments}), file=lines, flush=True)
        answer = json.loads(lines.readline())
        return answer["ok"] if "ok" in answer else sys.exit(answer["error"]["message"])

    return ask


def pages(ask, op, member, **arguments):
    start = 0
    while start is not None:
        page = ask(op, **{"from": start}, **arguments)
        yield from page[member]
        start = page["next"]


def score(segment, now_ns, size):  # the policy: dead share, weighted by the time since the last write
    age_s = max(now_ns - segment["written_ns"], 0) / 1e9
    return (1 - segment["live_bytes"] / size) * (1 + age_s) ** 0.5


ask = connect(sys.argv[1])
head, cleaned = ask("segments", count=1), 0
found = [s for s in pages(ask, "segments", "list") if s["in_use"] and not s["busy"] and s["live_bytes"] < head["segment_bytes"]]
found.sort(key=lambda s: score(s, head["now_ns"], head["segment_bytes"]), reverse=True)
for victim in found[: int(sys.argv[2]) if len(sys.argv) > 2 else 10]:
    blocks = list(pages(ask, "segment_read", "blocks", segment=victim["segment"]))
    live = [b for b, at in zip(blocks, ask("bmapv", blocks=blocks)) if b["addr"] == at]
    ask("markv", blocks=live)
    cleaned += ask("segclean", segments=[victim["segment"]])["states"] == ["clean"]
print(f"{cleaned} segments cleaned")
