"""What was tried for goals that were missed, by part and figure: the page shows it where they are missed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRIED"]

# Ratios of processor time are of two versions by turns in one run; instructions were counted by callgrind.
_WORKER = (
    "A success takes about 8 us of the worker's Python: decoding and checking a lease 2.0, its slot and its "
    "handler 2.3, the settlement 0.4, the report 0.6, packing and unpacking for the store 1.7. One lock instead "
    "of two between two jobs of a thread, and permissions and budgets found once for all jobs of a name and "
    "queue, leave 0.93 of the processor time that the worker took before. Several jobs for a thread at once was "
    "not built: it would save about 0.35 us, and a slow job would hold up those behind it."
)
_FAILURES = (
    "A failing run's record is made with fewer steps in the worker: its process, its policy and the search for "
    "secrets' names are looked up or done once."
)
_SIXTEEN = (
    "Half of the callers were sealing their jobs while the others' were committed, and each commit waited for the"
    " interpreter's lock. Now the callers of a commit are awake before the next one begins, so that nearly all "
    "share one: 15.9 of 16 instead of 7.7, for {time} of the processor time a job. On SQLite `executemany`, rows "
    "as `VALUES` instead of JSON, and single inserts in one transaction were no faster, or not worth it."
)
_LUA = (
    "The loop in Lua that does the same writes by hand is 11.8 times as fast as the peer was on this page before."
    " The server makes and hashes every string of a script anew, a quarter of the instructions of a turn of 500: "
    "records are cut and joined once less often now (0.93 of the server's time)."
)

_CLAIMS = (
    "A store says how many jobs a claim takes (decision 0070): with {count} instead of 500 two processes do {gain} "
    "times as many jobs. "
)

TRIED: Mapping[str, Mapping[str, str]] = {
    "SQLite": {
        "In a program: no-op processing beside the faster of huey and litequeue": _WORKER,
        "Two processes: no-op processing beside the fastest peer": _WORKER,
        "Enqueue one by one beside a raw durable insert": (
            "The statement itself costs what the raw one does (1 % more in time; row and indexes are the same). "
            "The rest, 13 us hot and about 18 after the wait for the disk, is many small parts: packing 1.5, "
            "sealing 2.5 to 4, a look whether the file was replaced 2, waking sleepers 1.5, the group commit 1, "
            "the handle 0.5."
        ),
        "Enqueue from 16 threads beside one": _SIXTEEN.format(time="0.68"),
        "Two processes: memory of the lightest peer beside ours": (
            "The lightest peer is a loop without a supervisor. What only some processes need is imported where it"
            " is first used: 0.7 MB less in the supervisor, as much in what workers share."
        ),
        "In a program: no-op processing, signed beside not signed": (
            "What checks a signature is made once for each queue: 1.04 to 0.94 us a job. OpenSSL's HMAC copied "
            "for each job takes 0.68 us where two prepared states take 0.63; hashing with Python's own SHA-256 "
            "takes four times as long."
        ),
    },
    "PostgreSQL": {
        "No-op processing with retention 0, beside the fastest peer": _WORKER,
        "No-op processing with history kept, beside the fastest peer": (
            f"{_WORKER} The server's part is 15 us a job beside 13 of the raw loop: fewer columns in the answer of"
            " a claim, and a cheaper test for what few jobs have, changed nothing."
        ),
        "No-op processing beside the raw loop that does the same writes": (
            "The server's part is 15 us a job beside 13 of the raw loop; the difference is the worker's Python, "
            "about 8 us, which shares two cores with the server."
        ),
        "Enqueue one by one beside the fastest peer": (
            "The flush of the disk is common to all: a bare insert was at 1.3 on this page before. Values are "
            "dumped as plain tuples now (4.1 to 2.8 us); the notification goes in the same packet."
        ),
        "Enqueue from 16 threads beside one": _SIXTEEN.format(time="0.67"),
        "Bulk enqueue beside the fastest peer": (
            "Sealed bytes, ids and handles of a batch are made from common parts: 5.5 to 3.7 us a job, and 0.91 "
            "of the instructions since. COPY was measured at 1.15 times what is sent now, one JSON parameter "
            "slower."
        ),
        "Fail once, then succeed, beside the fastest peer": (
            f"{_FAILURES} Plain failures have a statement of their own: 16.7 to 10.9 us a job on the server. In "
            "all 0.88 of the processor time, client and server together."
        ),
        "Pick-up p50, the fastest peer's beside ours": (
            "Two durable commits are in it, of the enqueue and of the claim, as the peer has them, too. The "
            "notification goes with the insert's packet (heard after 1.57 ms instead of 1.75), which changed the "
            "whole by nothing. When hot, the statements of a claim take 110 us of the server, half of them to "
            "find that nothing has fallen due; a claim without a flush could be forgotten by a server that "
            "crashes."
        ),
    },
    "MariaDB": {
        "Enqueue one by one beside a raw autocommit insert": (
            "One plain job is written as a batch of one; making its statement takes 4.0 us instead of 4.4. The "
            "client takes 49 us in all, with the driver."
        ),
        "Enqueue from 16 threads beside one": _SIXTEEN.format(time="0.75"),
    },
    "Redis": {
        "No-op processing beside the fastest peer": (
            f"{_CLAIMS.format(count='200', gain='1.16')}{_LUA} {_WORKER} The rest of the time both processes wait for the"
            " server's one thread, or it waits for them: 16 % of two cores are idle."
        ),
        "Enqueue one by one beside the fastest peer": (
            "The peer sends one LPUSH. A job that is fenced, counted and found by its id is a script, and the "
            "script alone, by hand, was no faster than ours. It takes 129,000 instructions now instead of "
            "154,000."
        ),
        "Fail once, then succeed, beside the fastest peer": (
            f"{_CLAIMS.format(count='200', gain='1.18')}{_FAILURES} On the server the record of a failed run is made "
            "once for all runs that have it in common: 0.90 of its time."
        ),
        "Pick-up p50, the fastest peer's beside ours": (
            "The peer's wake-up carries the job, and a crash loses it; a lease is one more exchange. Usual turns "
            "have a script of their own (456,000 instead of 1,116,000 instructions). That an enqueue claims for a"
            " worker that waits was not built: decision 0066 says why."
        ),
    },
    "Growth on Redis": {
        "A turn with 1 M waiting, 10 M finished beside one with 1 k waiting, 1 k finished": (
            "Nearly all of the difference is the server's look at cold memory: about half of it where a finished "
            "job's id is added to the index of ends, nearly a third where records are read. Fewer indexes would "
            "be another layout of all that is stored."
        ),
        "A turn over 100 queues beside one over one": (
            "Available jobs are counted by their indexes and not written any more: a turn over 100 queues takes "
            "121,000 instructions a job instead of 146,000. One HMGET and one HSET for each queue took more than "
            "HINCRBY; ZPOPMIN saves 7 % of a queue, and writes before all is read."
        ),
    },
    "Limits and lanes on PostgreSQL": {
        "Turns behind a pinned snapshot beside turns without one, 1,000 lanes": (
            "Walks begin in each lane behind what is known to be dead (decision 0069), and look at everything "
            "about once a second, for a twentieth of the time at the most."
        ),
    },
    "Memory and start": {
        "Two processes, a bare application: 70 MiB beside what they take": (
            "SQL read without `importlib.resources` saves 0.9 MB; fewer arenas of malloc, and giving back what is"
            " free, saved nothing. What is left is 19 MB of supervisor, and pages that are copied because "
            "references are counted in them."
        ),
        "Two processes, a bare application: start to first job without preloading beside with it": (
            "The template is one more process on the way to the first job, and imports once what two processes "
            "import at the same time on two cores. It is meant for larger applications, and for more processes."
        ),
    },
}
