"""The seeded bugs: every known way to lose, repeat or steal a job, as a change of a few lines.

A number that stands twice is one mistake in two places.  What an edit looks for must be in its file exactly once: when the
code changes, its mutants follow.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Edit", "Mutant"]


class Edit(NamedTuple):
    file: str
    old: str  # must be there exactly once
    new: str


class Mutant(NamedTuple):
    number: str
    breaks: str
    edits: tuple[Edit, ...]
    noticed_by: tuple[str, ...]  # tests, as pytest names them


SQLITE = "src/onward/backends/sqlite"
ENTRY = "src/onward/entry"
WORKER_TEMPLATES = "tests/supervisor/test_worker_template.py"
TEMPLATES = "tests/supervisor/test_template.py"
MEMORY = "src/onward/backends/memory"
IN_STEPS = "tests/backends/sqlite/test_flows.py::TestSteps"
ON_SQLITE = "tests/contract/test_sqlite.py::TestSqlite"
ON_MEMORY = "tests/contract/test_memory.py::TestMemory"
GRAPHS = "tests/flow/test_graph.py"
FLOWS = "tests/application/test_flows.py"
GATE = "src/onward/operate/deploy"
CHECKS = "tests/application/test_check_deploy.py"
OPERATE = "src/onward/operate"
WEB = "src/onward/web"
COMPAT = "src/onward/compat"
HEALTH = f"{OPERATE}/health"
OF_HEALTH = "tests/operate/test_health.py"
CANARY = "tests/application/test_canary.py"
BULK = "tests/application/test_bulk.py"
EDITING = "tests/application/test_editing.py"
AUDIT = "tests/application/test_audit.py"
BOARDS = "tests/supervisor/test_boards.py"
ON_REDIS = "tests/contract/test_redis.py::TestRedis"
ON_MYSQL = "tests/contract/test_mysql.py::TestMySQL"
ON_POSTGRES = "tests/contract/test_postgres.py::TestPostgres"
ON_A_PAIR = "tests/contract/test_companion.py::TestBeanstalkdWithSqlite"
POSTGRES = "src/onward/backends/postgres"
RACES_ON_POSTGRES = "tests/backends/postgres/test_races.py"
SHORTCUTS_ON_POSTGRES = "tests/backends/postgres/test_shortcuts.py"
MYSQL = "src/onward/backends/mysql"
REDIS = "src/onward/backends/redis"
LANE_MARKS = "tests/backends/postgres/test_lane_marks.py"
SAMPLING = "tests/operate/series/test_sampling.py"
DAMAGE_ON_REDIS = "tests/backends/redis/test_damage.py"
LIMITS_ON_REDIS = "tests/backends/redis/test_limits.py"
KEYS_ON_REDIS = "tests/backends/redis/test_keys.py"
USUAL_ON_REDIS = "tests/backends/redis/test_usual_turns.py"
FLOWS_ON_SQLITE = "tests/backends/sqlite/test_flows.py"
FLOWS_ON_MYSQL = "tests/backends/mysql/test_flows.py"
FLOWS_ON_REDIS = "tests/backends/redis/test_flows.py"
FLOW_RULES_ON_REDIS = "tests/backends/redis/test_flow_rules.py"
FLOWS_ON_POSTGRES = "tests/backends/postgres/test_flows.py"
WHILE_A_CALLER = "test_while_a_caller_that_has_completed_a_member_does_not_commit_others_end_theirs"
UNDER_A_SNAPSHOT = "test_under_a_snapshot_that_stays_open_a_look_does_not_go_through_all_that_have_ended"
LAST_TWO_ENDS = (
    f"{FLOWS_ON_POSTGRES}::TestTwoEnds::"
    "test_in_all_924_orders_of_two_turns_that_end_the_last_members_the_next_node_opens"
)
PLACES = "tests/backends/postgres/test_places.py::TestNodesOfOneNumber"
CLAIMS_ON_SQLITE = "tests/backends/sqlite/test_lanes.py::TestStatements"
LANES_ON_POSTGRES = "tests/backends/postgres/test_lane_claims.py"
KEYS_ON_POSTGRES = "tests/backends/postgres/test_key_order.py::TestKeyOrder"
SWAPPED = "tests/backends/postgres/test_swapped_leases.py"
LANES_ON_MYSQL = "tests/backends/mysql/test_lanes.py"
KEYS_ON_MARIADB = "tests/backends/mysql/test_key_order.py::TestKeyOrder"
TOKENS = "tests/flow/test_limits.py::TestTokens"
CROWDS = "tests/proof/test_crowds.py"
INTERRUPTIONS = "tests/operate/test_interruptions.py"
LOCKS = "tests/proof/test_locks.py"
DURABILITY = "tests/proof/test_durability.py"
GROUP_COMMITS = "tests/application/test_group_commit.py"
IN_SIGNAL_HANDLERS = "tests/application/test_enqueue_in_signal_handlers.py"
PROGRAMS = "tests/proof/test_programs.py"
ATTACKS = "tests/security/signing/test_attacks.py"
ENCRYPTION = "tests/application/test_encryption.py"
SECRETS = "tests/application/test_secrets.py"
HOOKS = "tests/application/test_hooks.py"
OTEL = "tests/integrations/test_otel.py"
SENTRY = "tests/integrations/test_sentry.py"
CALLERS_BLOCK = "src/onward/transactions/callers_block.py"
ELSEWHERE = "tests/transactions/test_completing_elsewhere.py::TestOneCommit"
SCHEDULES = "tests/application/test_schedules.py"
SCHEDULED_FLOWS = "tests/application/test_scheduled_flows.py"
CRON = "tests/flow/test_cron.py"
BREAKERS = "tests/application/test_breakers.py"
WHY = "tests/operate/test_why.py"
REASONS = "src/onward/operate/why"


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "M1",
        "an ack needs no token (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                " WHERE delivery = coalesce(lease.atom, lease.value ->> 0) AND +owner = ?2 AND state = 'executing';",
                " WHERE +owner = ?2 AND state = 'executing';",
            ),
            Edit(
                f"{SQLITE}/queries.sql",
                "WHERE delivery = lease.value AND +owner = ?2 AND state = 'executing');",
                "WHERE +owner = ?2 AND state = 'executing');",
            ),
        ),
        (f"{ON_SQLITE}::test_a_settlement_without_the_lease_is_told_so_and_changes_nothing",),
    ),
    Mutant(
        "M1",
        "a settlement needs no token (memory)",
        (
            Edit(
                f"{MEMORY}/settling.py",
                "job.state is State.EXECUTING and job.delivery == token and",
                "job.state is State.EXECUTING and",
            ),
        ),
        (f"{ON_MEMORY}::test_a_settlement_without_the_lease_is_told_so_and_changes_nothing",),
    ),
    Mutant(
        "M2",
        "an extension renews whatever session there is (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "UPDATE onward_sessions SET expires_at = ?2 + lease_for WHERE owner = ?1;",
                "UPDATE onward_sessions SET expires_at = ?2 + lease_for WHERE ?1 IS NOT NULL;",
            ),
        ),
        (f"{ON_SQLITE}::test_an_extension_renews_no_other_session",),
    ),
    Mutant(
        "M2",
        "an extension renews whatever session there is (memory)",
        (
            Edit(
                f"{MEMORY}/backend.py",
                "            session.expires_at = now + round(session.session.lease_for.total_seconds() * SECOND)\n"
                "            return Renewal(",
                "            for session in self._store.sessions.values():\n"
                "                session.expires_at = now + round(session.session.lease_for.total_seconds() * SECOND)\n"
                "            return Renewal(",
            ),
        ),
        (f"{ON_MEMORY}::test_an_extension_renews_no_other_session",),
    ),
    Mutant(
        "M3",
        "the sweep ends sessions it read about before it had the lock (sqlite)",
        (
            Edit(
                f"{SQLITE}/backend.py",
                """\
        with self._writing() as tx:
            reaped = reaping""",
                """\
        if owner is None:
            with self._reading() as tx:
                expired = "SELECT owner FROM onward_sessions WHERE expires_at <= ?"
                owners = tx._connection.execute(expired, (tx.now,)).fetchall()
            return [reaped for (dead,) in owners for reaped in self.reap(owner=dead, cause=cause)]
        with self._writing() as tx:
            reaped = reaping""",
            ),
        ),
        (f"{LOCKS}::test_a_sweep_that_waited_for_the_lock_spares_a_session_that_was_renewed_meanwhile",),
    ),
    Mutant(
        "M3",
        "the sweep takes every running job, whatever its session (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                """\
 WHERE state = 'executing' AND (?1 IS NULL OR queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session WHERE session.owner = onward_jobs.owner)
""",
                """\
 WHERE state = 'executing' AND (?1 IS NULL OR queue = ?1)
""",
            ),
        ),
        (f"{ON_SQLITE}::test_a_sweep_leaves_living_sessions_alone",),
    ),
    Mutant(
        "M4",
        "a crash is not counted (sqlite)",
        (Edit(f"{SQLITE}/queries.sql", "SET state = 'retryable', crashes = crashes + 1,", "SET state = 'retryable',"),),
        (f"{ON_SQLITE}::test_a_job_that_crashes_too_often_is_discarded_and_says_why",),
    ),
    Mutant(
        "M4",
        "a crash is not counted (memory)",
        (Edit(f"{MEMORY}/settling.py", "    job.crashes += what.crashes\n", ""),),
        (f"{ON_MEMORY}::test_a_job_that_crashes_too_often_is_discarded_and_says_why",),
    ),
    Mutant(
        "M5",
        "a job is acknowledged before its handler runs",
        (
            Edit(
                "src/onward/worker/inline.py",
                "            attempt = self._run(ready) if watch is None",
                "            self._backend.ack(lease)\n            attempt = self._run(ready) if watch is None",
            ),
        ),
        (f"{PROGRAMS}::test_a_job_whose_process_was_killed_in_the_middle_comes_back",),
    ),
    Mutant(
        "M5",
        "a worker acknowledges a job before its handler runs",
        (
            Edit(
                "src/onward/worker/pump.py",
                "            if isinstance(ready, Ready):\n                self._order += 1\n",
                "            if isinstance(ready, Ready):\n                self._parts.backend.ack(lease)\n"
                "                self._order += 1\n",
            ),
        ),
        ("tests/worker/test_programs.py::test_no_thread_of_ours_keeps_a_program_alive",),
    ),
    Mutant(
        "M6",
        "a retry deletes the job and inserts it anew (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                """\
UPDATE onward_jobs
   SET state = ?4, available_at = ?5, attempts = attempts + ?6, waits = ?7, spent = coalesce(?8, spent),
       parked_since = CASE WHEN ?9 IS NOT NULL THEN coalesce(parked_since, ?9) END, awaits = ?10, owner = NULL
""",
                """\
REPLACE INTO onward_jobs (
       id, queue, state, rank, available_at, expires_at, attempts, max_crashes, enqueued_at, waits, spent,
       parked_since, awaits, unique_key, key_held, idempotency_key, idempotency_ttl, single_instance, job, sealed)
SELECT id, queue, ?4, rank, ?5, expires_at, attempts + ?6, max_crashes, enqueued_at, ?7, ?8,
       CASE WHEN ?9 IS NOT NULL THEN coalesce(parked_since, ?9) END, ?10,
       unique_key, key_held, idempotency_key, idempotency_ttl, single_instance, job, sealed
  FROM onward_jobs
""",
            ),
        ),
        (
            f"{ON_SQLITE}::test_a_discarded_job_keeps_the_record_of_every_failed_run",
            f"{ON_SQLITE}::test_a_settlement_moves_the_counters_of_its_line_and_no_others",
        ),
    ),
    Mutant(
        "M6",
        "a retry deletes the job and inserts it anew (memory)",
        (
            Edit(
                f"{MEMORY}/settling.py",
                "    store.place(job, what.to, available_at=what.due)\n",
                """\
    store.remove(job)
    kept = {"attempts": job.attempts, "waits": job.waits, "parked_since": job.parked_since, "spent": job.spent}
    store.add(MemoryJob(job.envelope, what.to, job.available_at if what.due is None else what.due, **kept))
""",
            ),
        ),
        (
            f"{ON_MEMORY}::test_a_discarded_job_keeps_the_record_of_every_failed_run",
            f"{ON_MEMORY}::test_a_settlement_moves_the_counters_of_its_line_and_no_others",
        ),
    ),
    Mutant(
        "M49",
        "a note is written without its fence (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "SELECT id, ?4, ?5, ?6 FROM onward_jobs WHERE id = ?1 AND delivery = ?2 AND owner = ?3",
                "SELECT id, ?4, ?5, ?6 FROM onward_jobs WHERE id = ?1 AND ?2 IS NOT NULL AND ?3 IS NOT NULL",
            ),
        ),
        (f"{ON_SQLITE}::test_a_note_without_the_lease_is_refused_and_changes_nothing",),
    ),
    Mutant(
        "M49",
        "a note is written without its fence (memory)",
        (
            Edit(
                f"{MEMORY}/notes.py",
                "if job is None or (job.state, job.delivery, job.owner) != (State.EXECUTING, lease.token, lease.owner):",
                "if job is None:",
            ),
        ),
        (f"{ON_MEMORY}::test_a_note_without_the_lease_is_refused_and_changes_nothing",),
    ),
    Mutant(
        "M50",
        "a snooze does not look for the signal that it awaits (sqlite)",
        (Edit(f"{SQLITE}/settling.py", "        if matched and self._awaiting:\n", "        if False:\n"),),
        (f"{ON_SQLITE}::test_a_signal_that_came_before_the_wait_makes_it_due_at_once",),
    ),
    Mutant(
        "M50",
        "a snooze does not look for the signal that it awaits (memory)",
        (
            Edit(
                f"{MEMORY}/notes.py",
                "Note(name=name, value=value, at=now))\n    _wake(store, job, now)\n",
                "Note(name=name, value=value, at=now))\n",
            ),
        ),
        (f"{ON_MEMORY}::test_a_signal_that_came_before_the_wait_makes_it_due_at_once",),
    ),
    Mutant(
        "M8",
        "the time of a write is read before the lock is held (sqlite)",
        (
            Edit(
                f"{SQLITE}/transaction.py",
                """\
        with self._connections.writing() as connection:
            tx = Transaction(connection, self._sql, self._clock.micros())
""",
                """\
        now = self._clock.micros()
        with self._connections.writing() as connection:
            tx = Transaction(connection, self._sql, now)
""",
            ),
        ),
        (
            f"{LOCKS}::test_a_lease_does_not_grow_shorter_while_it_waits_for_the_lock",
            f"{LOCKS}::test_the_time_of_a_write_is_read_under_the_write_lock",
        ),
    ),
    Mutant(
        "M8",
        "the host's clock decides about leases, not the store's (sqlite)",
        (
            Edit(
                f"{SQLITE}/transaction.py",
                "            tx = Transaction(connection, self._sql, self._clock.micros())\n            yield tx\n",
                '            now = __import__("time").time_ns() // 1000\n'
                "            tx = Transaction(connection, self._sql, now)\n            yield tx\n",
            ),
        ),
        (f"{ON_SQLITE}::test_a_session_is_extended_by_its_own_length",),
    ),
    Mutant(
        "M8",
        "the host's clock decides about leases, not the store's (memory)",
        (Edit(f"{MEMORY}/backend.py", "now = self.clock.micros()\n", "now = __import__('time').time_ns() // 1000\n"),),
        (f"{ON_MEMORY}::test_a_session_is_swept_at_its_very_microsecond",),
    ),
    Mutant(
        "M9",
        "a session is named after its host",
        (Edit("src/onward/base/ids.py", "return os.urandom(16).hex()", "return os.uname().nodename"),),
        (
            f"{PROGRAMS}::test_a_program_that_ends_takes_no_lease_from_its_neighbour_on_the_same_host",
            f"{PROGRAMS}::test_a_program_that_starts_again_has_another_name",
        ),
    ),
    Mutant(
        "M11",
        "an enqueue that is repeated makes a new id",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "                    return self._enqueue(envelopes, retried=retried)\n",
                """\
                    if retried:
                        envelopes = [msgspec.structs.replace(each, id=uuid.uuid4().hex) for each in envelopes]
                    return self._enqueue(envelopes, retried=retried)
""",
            ),
            Edit("src/onward/client/group_commit.py", "import time\n", "import time\nimport uuid\n\nimport msgspec\n"),
        ),
        (f"{PROGRAMS}::test_an_enqueue_that_is_repeated_because_its_answer_was_lost_stores_one_job",),
    ),
    Mutant(
        "M11",
        "an enqueue that is repeated does not look among the finished",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "pause, retried = min(pause * 2, _LONGEST_PAUSE), True",
                "pause = min(pause * 2, _LONGEST_PAUSE)",
            ),
        ),
        (f"{PROGRAMS}::test_an_enqueue_that_is_repeated_because_its_answer_was_lost_stores_one_job",),
    ),
    Mutant(
        "M12",
        "a sleeping worker looks into the file only when the bell rings (sqlite)",
        (
            Edit(
                f"{SQLITE}/backend.py",
                "            if sleeper.woken or version != seen:\n",
                "            if sleeper.woken or seen is None:\n",
            ),
        ),
        ("tests/backends/sqlite/test_wake.py::TestWaiting::test_looking_ends_it_where_there_is_no_wake_pipe",),
    ),
    Mutant(
        "M16",
        "a write begins without the write lock (sqlite)",
        (
            Edit(
                f"{SQLITE}/connection.py",
                'def _begin_writing(connection: sqlite3.Connection) -> None:\n    connection.execute("BEGIN IMMEDIATE")',
                'def _begin_writing(connection: sqlite3.Connection) -> None:\n    connection.execute("BEGIN DEFERRED")',
            ),
        ),
        (
            f"{CROWDS}::test_processes_that_share_a_file_claim_and_settle_every_job_exactly_once",
            f"{LOCKS}::test_the_time_of_a_write_is_read_under_the_write_lock",
        ),
    ),
    Mutant(
        "M17",
        "a commit is not synced (sqlite)",
        (Edit(f"{SQLITE}/connection.py", "{'FULL' if self.durable else 'NORMAL'}", "OFF"),),
        (
            f"{DURABILITY}::test_what_was_accepted_is_on_the_disk",
            f"{DURABILITY}::test_the_connections_are_set_to_sync_every_commit",
        ),
    ),
    Mutant(
        "M18",
        "a unique key is looked up first and stored later, by no index (sqlite)",
        (
            Edit(
                f"{SQLITE}/migrations/0001_jobs.sql",
                "CREATE UNIQUE INDEX onward_jobs_held_idx",
                "CREATE INDEX onward_jobs_held_idx",
            ),
            Edit(
                f"{SQLITE}/enqueueing.py",
                """\
    with transactions.writing() as tx:
        return enqueue(""",
                """\
    with transactions.reading() as tx:
        holders = [tx.row("key_holder", (envelope.unique_key,)) for envelope in envelopes]
    if any(holders):
        return [Enqueued(each.id, created=False, existing_id=holder[1]) for each, holder in zip(envelopes, holders)]
    with transactions.writing() as tx:
        return enqueue(""",
            ),
        ),
        (f"{CROWDS}::test_a_unique_key_goes_to_one_of_many_processes",),
    ),
    Mutant(
        "M19",
        "a job that is unknown here is dropped",
        (
            Edit(
                "src/onward/attempt/prepare.py",
                '    if has_waited(lease, runtime):\n        failure = stated("UnknownJob", reason, UNKNOWN)\n',
                "    return Attempt(lease=lease, letter=letter, outcome=Skipped(reason))\n"
                '    if has_waited(lease, runtime):\n        failure = stated("UnknownJob", reason, UNKNOWN)\n',
            ),
        ),
        (f"{PROGRAMS}::test_a_job_that_this_program_does_not_know_waits_for_one_that_does",),
    ),
    Mutant(
        "M20",
        "what still runs when the time to stop is over is not given back",
        (
            Edit(
                "src/onward/supervisor/supervisor.py",
                "            self._store_thread.give_back(DeadSessions(owners, held if process.crashed else [], cause))\n",
                "            if process.crashed:\n"
                "                self._store_thread.give_back(DeadSessions(owners, held, cause))\n",
            ),
        ),
        ("tests/supervisor/test_stopping.py::test_what_runs_at_the_deadline_is_killed_given_back_and_run_by_another",),
    ),
    Mutant(
        "M21",
        "the signature of a known key is not compared",
        (
            Edit(
                "src/onward/security/signing.py",
                "return body if equal(mac(body), data[signature]) else None",
                "return body",
            ),
        ),
        (f"{ATTACKS}::test_nothing_that_is_forged_runs_on_any_store",),
    ),
    Mutant(
        "M21",
        "the signature of a known key that does not sign any more is not compared",
        (Edit("src/onward/security/signing.py", 'if hmac.compare_digest(mac(body), signature + b"\\n"):', "if True:"),),
        ("tests/security/test_signing.py::TestModes::test_no_bit_of_it_can_be_turned",),
    ),
    Mutant(
        "M21",
        "a signature for one queue is good for all",
        (Edit("src/onward/security/signing.py", 'queue.encode("utf-8", "surrogatepass")', 'b"queue"'),),
        (f"{ATTACKS}::test_nothing_that_is_forged_runs_on_any_store",),
    ),
    Mutant(
        "M22",
        "a dead letter carries what was refused, under a good signature",
        (
            Edit(
                "src/onward/operate/dead_letters.py", "open_sealed(sealed, verify=self._verify)", "open_sealed(sealed)"
            ),
        ),
        (
            "tests/application/test_signing.py::TestDeadLetterQueue::test_of_a_refused_job_nothing_is_signed_that_the_attacker_wrote",
        ),
    ),
    Mutant(
        "M23",
        "ciphertext decrypts in any place",
        (
            Edit("src/onward/security/cipher.py", "clear, self._start + _parts(*place))", "clear, self._start)"),
            Edit(
                "src/onward/security/cipher.py",
                "sealed[_NONCE:], self._start + _parts(*place))",
                "sealed[_NONCE:], self._start)",
            ),
        ),
        (f"{ENCRYPTION}::test_what_does_not_decrypt_runs_nothing_and_is_kept_counted_and_told",),
    ),
    Mutant(
        "M23",
        "there are several ways to write a ciphertext",
        (Edit("src/onward/security/cipher.py", "if b2a_base64(sealed, newline=False) == text and len", "if len"),),
        ("tests/security/test_cipher.py::test_the_bits_that_base64_does_not_use_cannot_be_changed_either",),
    ),
    Mutant(
        "M24",
        "errors are stored in the clear",
        (Edit("src/onward/security/encryption.py", "failure = self.failure(lease, failure)", "pass"),),
        (f"{ENCRYPTION}::test_nothing_of_it_lies_in_the_store_in_the_clear",),
    ),
    Mutant(
        "M24",
        "what a handler says is stored in the clear",
        (Edit("src/onward/security/encryption.py", "        if item.quotes:\n", "        if False:\n"),),
        (f"{ENCRYPTION}::test_nothing_of_it_lies_in_the_store_in_the_clear",),
    ),
    Mutant(
        "M24",
        "an encrypted job is settled in the clear by a worker whose setting is off",
        (Edit("src/onward/attempt/prepare.py", "lease = msgspec.structs.replace(lease, private=True)", "pass"),),
        (f"{ENCRYPTION}::test_a_worker_whose_setting_is_off_leaves_nothing_of_an_encrypted_job_in_the_clear",),
    ),
    Mutant(
        "M25",
        "a key that a running job holds is forgotten (sqlite)",
        (
            Edit(f"{SQLITE}/holds.py", "    if found[0] is Hold.DONE:\n", "    if found[0] is not Hold.FREE:\n"),
            Edit(
                f"{SQLITE}/queries.sql",
                "WHERE kind = 'once' AND key = ?1 AND done_until IS NOT NULL;",
                "WHERE kind = 'once' AND key = ?1;",
            ),
        ),
        (f"{ON_SQLITE}::test_a_key_that_a_running_job_holds_is_left_to_it",),
    ),
    Mutant(
        "M25",
        "a key that a running job holds is forgotten (memory)",
        (
            Edit(
                f"{MEMORY}/settling.py",
                "    if pointer.until is None:\n        return (Hold.BUSY",
                "    if pointer.until is None:\n        del store.holds[key]\n        return (Hold.BUSY",
            ),
        ),
        (f"{ON_MEMORY}::test_a_key_that_a_running_job_holds_is_left_to_it",),
    ),
    Mutant(
        "M26",
        "keys of a named job belong to its handler",
        (
            Edit("src/onward/job/envelope.py", '"global" else self.name or self.job', '"global" else self.job'),
            Edit(
                "src/onward/job/envelope.py",
                "            return self.name or self.job\n",
                "            return self.job\n",
            ),
        ),
        ("tests/job/test_envelope.py::test_keys_and_the_single_instance_belong_to_the_name_of_a_job_that_has_one",),
    ),
    Mutant(
        "M27",
        "a turn ends keys and takes keys in one transaction",
        (Edit("src/onward/backends/sql/turns.py", "return turn.claim is not None and any(", "return False and any("),),
        (
            f"{KEYS_ON_POSTGRES}::test_two_turns_that_end_the_key_that_the_other_takes_both_go_through",
            f"{KEYS_ON_MARIADB}::test_two_turns_that_end_the_key_that_the_other_takes_both_go_through",
        ),
    ),
    Mutant(
        "M27",
        "keys are locked in the order in which jobs were claimed (postgres)",
        (
            Edit(
                f"{POSTGRES}/holds.py",
                "wanted = sorted({key for keyed in claimed for key in keyed.carried()})",
                "wanted = list(dict.fromkeys(key for keyed in claimed for key in keyed.carried()))",
            ),
        ),
        (f"{KEYS_ON_POSTGRES}::test_two_claims_of_the_same_keys_in_opposite_order_both_go_through",),
    ),
    Mutant(
        "M27",
        "keys are locked in the order in which jobs were claimed (mysql)",
        (
            Edit(
                f"{MYSQL}/holds.py",
                "wanted = sorted({key for keyed in claimed for key in keyed.carried()})",
                "wanted = list(dict.fromkeys(key for keyed in claimed for key in keyed.carried()))",
            ),
        ),
        (f"{KEYS_ON_MARIADB}::test_two_claims_of_the_same_keys_in_opposite_order_both_go_through",),
    ),
    Mutant(
        "M27",
        "keys are ended in the order in which jobs were settled (postgres)",
        (
            Edit(
                f"{POSTGRES}/holds.py",
                "zip(*sorted(held, key=lambda pointer: pointer[:2]), strict=True)",
                "zip(*held, strict=True)",
            ),
        ),
        (f"{KEYS_ON_POSTGRES}::test_a_turn_that_ends_keys_in_the_opposite_order_of_a_claim_goes_through",),
    ),
    Mutant(
        "M488",
        "keys are locked before the jobs that wait for them (postgres)",
        (
            Edit(
                f"{POSTGRES}/holds.py",
                "    woken = _to_wake(tx, held)\n",
                "",
            ),
            Edit(
                f"{POSTGRES}/holds.py",
                "ttls=ttls)\n    if woken:",
                "ttls=ttls)\n    woken = _to_wake(tx, held)\n    if woken:",
            ),
        ),
        (
            "tests/backends/postgres/test_key_order.py::test_a_turn_that_has_to_wait_for_a_job_behind_a_key_has_no_key_in_hand",
        ),
    ),
    Mutant(
        "M27",
        "keys are ended in the order in which jobs were settled (mysql)",
        (
            Edit(
                f"{MYSQL}/holds.py",
                "ended=sorted(self._held, key=lambda pointer: pointer[:2])",
                "ended=self._held",
            ),
        ),
        (f"{KEYS_ON_MARIADB}::test_a_turn_that_ends_keys_in_the_opposite_order_of_a_claim_goes_through",),
    ),
    Mutant(
        "M47",
        "the board takes no token below zero",
        (Edit("src/onward/supervisor/run_board.py", 'struct.Struct("<BBHIqd40s")', 'struct.Struct("<BBHIQd40s")'),),
        ("tests/supervisor/test_run_board.py::test_every_token_that_a_store_can_hold_is_written_as_it_is",),
    ),
    Mutant(
        "M46",
        "a record that cannot be read is let through as what its decoder raises (redis)",
        (
            Edit(
                f"{REDIS}/turning.py",
                "        except UNREADABLE:\n            continue",
                "        except KeyError:\n            continue",
            ),
        ),
        (f"{DAMAGE_ON_REDIS}::test_a_lease_that_cannot_be_read_is_set_aside_and_those_beside_it_are_delivered",),
    ),
    Mutant(
        "M48",
        "what reading an answer raises leaves a verb as it is",
        (
            Edit(
                "src/onward/backends/damage.py",
                "    if isinstance(error, BackendError):",
                "    if isinstance(error, Exception):",
            ),
        ),
        (f"{DAMAGE_ON_REDIS}::test_nothing_but_an_error_of_the_backend_comes_out_of_a_verb",),
    ),
    Mutant(
        "M40",
        "a text is cut before it is scrubbed",
        (
            Edit(
                "src/onward/base/failure.py",
                "return scrub(_plain(str(error)))",
                "return scrub(storable(str(error), 1_000))",
            ),
        ),
        (f"{SECRETS}::TestLimits::test_of_a_secret_at_the_edge_of_a_message_nothing_is_kept",),
    ),
    Mutant(
        "M41",
        "a secret inside an object is not looked for",
        (
            Edit(
                "src/onward/job/secret_places.py",
                "return [((each.encode_name,), each.type) for each in info.fields]",
                "return ()",
            ),
        ),
        ("tests/job/test_secret_places.py::test_a_type_tells_where_its_secrets_are",),
    ),
    Mutant(
        "M42",
        "a configuration file of another user counts",
        (
            Edit(
                "src/onward/base/ownership.py",
                "if status.st_uid not in (0, os.geteuid()):\n            return f",
                "if 0:\n            return f",
            ),
        ),
        ("tests/base/test_ownership.py::TestSettings::test_a_file_that_others_decide_about_is_passed_over",),
    ),
    Mutant(
        "M43",
        "what only the worker knows to be secret is told",
        (
            Edit(
                "src/onward/job/registry.py",
                "        known = () if entry is None else entry.secrets\n",
                "        known = ()\n",
            ),
        ),
        (f"{SECRETS}::TestByType::test_it_is_masked_by_what_the_worker_alone_knows",),
    ),
    Mutant(
        "M44",
        "notes on progress are not scrubbed",
        (Edit("src/onward/job/context.py", "None if note is None else self.scrub(note)", "note"),),
        (f"{SECRETS}::TestByType::test_a_note_on_progress_is_kept_without_it",),
    ),
    Mutant(
        "M45",
        "which users may read a key file does not matter",
        (Edit("src/onward/security/key_ring.py", "            _refuse_open_to_others(path, where)\n", ""),),
        ("tests/base/test_ownership.py::TestKeys::test_one_that_others_may_touch_is_refused_with_the_fix",),
    ),
    Mutant(
        "M76",
        "a schedule is changed whatever its version is (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "WHERE name = :schedule AND iif(version BETWEEN 1 AND :last, version, -1) = :version\nRETURNING version;\n\n"
                "-- name: drop_schedule",
                "WHERE name = :schedule\nRETURNING version;\n\n-- name: drop_schedule",
            ),
        ),
        (f"{ON_SQLITE}::test_of_many_that_change_the_same_row_one_does",),
    ),
    Mutant(
        "M76",
        "a schedule is changed whatever its version is (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                " AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version\nRETURNING version;\n\n"
                "-- name: drop_schedule",
                " AND cast(:last AS bigint) + cast(:version AS bigint) IS NOT NULL\nRETURNING version;\n\n"
                "-- name: drop_schedule",
            ),
        ),
        (f"{ON_POSTGRES}::test_of_many_that_change_the_same_row_one_does",),
    ),
    Mutant(
        "M76",
        "a schedule is changed whatever its version is (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                " AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version;\n"
                "SELECT 1 FROM dual WHERE row_count() > 0;\n\n-- name: drop_schedule",
                ";\nSELECT 1 FROM dual WHERE row_count() > 0;\n\n-- name: drop_schedule",
            ),
        ),
        (f"{ON_MYSQL}::test_a_change_of_another_version_writes_nothing",),
    ),
    Mutant(
        "M76",
        "a schedule is changed whatever its version is (redis)",
        (Edit(f"{REDIS}/scripts/change_schedule.lua", " ~= seen then return 0 end", " < 0 then return 0 end"),),
        (f"{ON_REDIS}::test_of_many_that_change_the_same_row_one_does",),
    ),
    Mutant(
        "M76",
        "a schedule is changed whatever its version is (memory)",
        (
            Edit(
                f"{MEMORY}/schedules.py",
                "if (0 if stored is None else stored.version) != change.version:",
                "if stored is None and change.version:",
            ),
        ),
        (f"{ON_MEMORY}::test_of_many_that_change_the_same_row_one_does",),
    ),
    Mutant(
        "M77",
        "a job that a worker has begun is taken back (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "AND state IN ('scheduled', 'available', 'retryable') AND delivery = 0 AND owner IS NULL\nRETURNING id;",
                "\nRETURNING id;",
            ),
        ),
        (f"{ON_SQLITE}::test_a_job_that_has_begun_stays",),
    ),
    Mutant(
        "M77",
        "a job that a worker has begun is taken back (redis)",
        (Edit(f"{REDIS}/scripts/lib/schedules.lua", " and record[DELIVERY] == 0 then", " then"),),
        (f"{ON_REDIS}::test_a_job_that_has_begun_stays",),
    ),
    Mutant(
        "M78",
        "a booked job that has finished is stored again",
        (
            Edit(
                f"{SQLITE}/schedules.py",
                "enqueueing.enqueue(tx, envelopes, retried=True)",
                "enqueueing.enqueue(tx, envelopes)",
            ),
        ),
        (f"{ON_SQLITE}::test_a_finished_job_is_not_stored_again",),
    ),
    Mutant(
        "M79",
        "a message about a job that was taken back brings it back",
        (
            Edit(
                "src/onward/backends/companion/deliveries.py",
                "            if is_booked(job):  #",
                "            if 0:  #",
            ),
        ),
        (f"{ON_A_PAIR}::test_a_waiting_job_is_removed_without_a_trace",),
    ),
    Mutant(
        "M51",
        "people can resume a queue in the middle of a transfer (sqlite)",
        (Edit(f"{SQLITE}/queries.sql", "paused_at IS NOT NULL AND reserved_for IS NULL;", "paused_at IS NOT NULL;"),),
        (f"{ON_SQLITE}::test_no_worker_claims_from_a_reserved_queue_whatever_people_resume",),
    ),
    Mutant(
        "M52",
        "a transfer removes jobs that have changed since they were read",
        (
            Edit(
                "src/onward/backends/sql/transfer.py",
                "seen.get((job.id, job.is_finished)) == version_of(job)",
                "(job.id, job.is_finished) in seen",
            ),
        ),
        (f"{ON_SQLITE}::test_only_a_job_that_is_still_what_was_read_is_removed",),
    ),
    Mutant(
        "M53",
        "a transfer that was taken over still writes",
        (Edit("src/onward/contract/transfer.py", "    if found != transfer:\n", "    if not found:\n"),),
        (
            f"{ON_SQLITE}::test_a_transfer_without_the_reservation_neither_restores_nor_removes",
            f"{ON_MEMORY}::test_a_transfer_without_the_reservation_neither_restores_nor_removes",
        ),
    ),
    Mutant(
        "M54",
        "a transfer that may have copied goes on to another store",
        (
            Edit(
                "src/onward/operate/transfer.py",
                'if source is not None and source.role == "sends" and target is None:',
                "if False:",
            ),
        ),
        (f"{INTERRUPTIONS}::test_a_transfer_that_may_have_copied_goes_on_to_the_same_store_only",),
    ),
    Mutant(
        "M55",
        "a job that is cancelled while it is in both stores runs at the target",
        (Edit("src/onward/operate/transfer.py", "            run.withdraw_cancelled()\n", "            pass\n"),),
        (f"{INTERRUPTIONS}::test_a_job_that_is_cancelled_while_it_is_in_both_stores_does_not_run",),
    ),
    Mutant(
        "M56",
        "a claim that began before a reservation takes a job after it",
        (Edit("src/onward/backends/sql/transfer.py", "            self._await_claims()\n", "            pass\n"),),
        (f"{INTERRUPTIONS}::test_a_reservation_waits_for_claims_that_began_before_it",),
    ),
    Mutant(
        "M57",
        "a restored job brings no records of its runs (redis)",
        (Edit(f"{REDIS}/scripts/restore.lua", "for _, run in ipairs(each[S_RUNS])", "for _, run in ipairs({})"),),
        (f"{ON_REDIS}::test_a_restored_job_is_what_it_was",),
    ),
    Mutant(
        "M61",
        "the hook registered last is the outermost",
        (Edit("src/onward/job/hooks.py", "    return (*hooks, hook)\n", "    return (hook, *hooks)\n"),),
        (f"{HOOKS}::test_a_hook_is_entered_before_the_handler_and_left_after_it_the_first_outermost",),
    ),
    Mutant(
        "M62",
        "what a hook raises after a success is dropped",
        (
            Edit(
                "src/onward/attempt/hooked.py",
                "            if error is None:\n                next(self._steps)\n",
                "            if error is None:\n                return False\n",
            ),
        ),
        (f"{HOOKS}::test_what_a_hook_raises_is_the_attempts_error",),
    ),
    Mutant(
        "M63",
        "a signal that was returned is a success to hooks",
        (Edit("src/onward/attempt/hooked.py", "    if isinstance(value, Signal):\n", "    if False:\n"),),
        (f"{HOOKS}::test_signals_pass_through_hooks_whether_raised_or_returned",),
    ),
    Mutant(
        "M64",
        "a stamp overrules the meta of the call",
        (Edit("src/onward/client/stamps.py", "{**stamped, **meta}", "{**meta, **stamped}"),),
        ("tests/application/test_stamps.py::test_the_callers_own_keys_win_and_then_the_later_stamp",),
    ),
    Mutant(
        "M264",
        "an integration that raises fails the job",
        (Edit("src/onward/integrations/quietly.py", "        return None\n", "        raise\n"),),
        (f"{OTEL}::test_a_span_that_raises_at_its_end_hides_no_error",),
    ),
    Mutant(
        "M265",
        "a snoozed or cancelled run is an error to traces and reports",
        (
            Edit(
                "src/onward/integrations/quietly.py",
                "    return not isinstance(error, JobStopped) and not waits(error)\n",
                "    return True\n",
            ),
        ),
        (f"{OTEL}::test_only_a_failed_run_is_an_error",),
    ),
    Mutant(
        "M266",
        "a report to Sentry has the secrets of arguments",
        (
            Edit(
                "src/onward/integrations/sentry.py",
                'storable(ctx.scrub(value.get("value") or ""))',
                'value.get("value")',
            ),
        ),
        (f"{SENTRY}::test_secrets_of_arguments_are_in_no_event",),
    ),
    Mutant(
        "M267",
        "what was not stored leaves its span to the next enqueue",
        (Edit("src/onward/client/client.py", "                self.letters.stamps.unsent(error)\n", ""),),
        (f"{OTEL}::test_what_is_not_stored_has_a_span_with_the_error_and_the_next_has_one_of_its_own",),
    ),
    Mutant(
        "M65",
        "a job is taken for completed although its caller did not commit",
        (Edit(f"{CALLERS_BLOCK}", "return self._given.outcome if happened else None", "return self._given.outcome"),),
        (f"{ELSEWHERE}::test_an_exception_before_the_commit_undoes_all_of_it",),
    ),
    Mutant(
        "M66",
        "a lost lease does not keep its handler's own transaction from being committed",
        (Edit(f"{CALLERS_BLOCK}", "        if not settled.applied:\n", "        if False:\n"),),
        (f"{ELSEWHERE}::test_a_lease_that_was_lost_meanwhile_rolls_it_back",),
    ),
    Mutant(
        "M67",
        "a failed run does not tell who ran it (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "SELECT id, delivery, attempts + 1, ?4, ?5, ?6, ?7, owner, ?8, ?9, ?10",
                "SELECT id, delivery, attempts + 1, ?4, ?5, ?6, ?7, NULL, ?8, ?9, ?10",
            ),
        ),
        (f"{ON_SQLITE}::test_each_run_tells_which_session_ran_it",),
    ),
    Mutant(
        "M71",
        "a schedule that was away catches up one tick too many",
        (
            Edit(
                "src/onward/flow/schedule.py",
                '_LATE_RUNS = {"skip": 0, "once": 1}',
                '_LATE_RUNS = {"skip": 1, "once": 2}',
            ),
        ),
        (f"{SCHEDULES}::test_of_the_ticks_that_are_late_so_many_run_the_newest_last[memory-once-1-7]",),
    ),
    Mutant(
        "M72",
        "a fixed time fires twice when the clocks go back",
        (
            Edit(
                "src/onward/flow/zones.py", "        if second > first and not fixed:\n", "        if second > first:\n"
            ),
        ),
        (
            f"{CRON}::test_ticks_are_those_on_the_wall_forwards_and_backwards[30 2 * * *-Europe/Berlin]",
            f"{SCHEDULES}::test_a_night_with_a_change_of_clocks_has_its_tick_once[memory]",
        ),
    ),
    Mutant(
        "M73",
        "a late occurrence runs beside the newer ones, not in their place",
        (
            Edit(
                "src/onward/attempt/occurrences.py",
                "        return (self._replace_newer(occurrence, newer) if newer else tick), None\n",
                "        return tick, None\n",
            ),
        ),
        (f"{SCHEDULES}::test_an_occurrence_that_starts_late_runs_in_place_of_the_newer_ones[memory]",),
    ),
    Mutant(
        "M74",
        "a pause leaves what is booked",
        (
            Edit(
                "src/onward/operate/schedules.py",
                "row=_replace(row, paused_at=now), take_back=taken)",
                "row=_replace(row, paused_at=now))",
            ),
        ),
        (f"{SCHEDULES}::test_what_is_paused_takes_back_what_has_not_begun_and_resuming_catches_nothing_up[memory]",),
    ),
    Mutant(
        "M75",
        "a specification is booked whoever signed it",
        (
            Edit(
                "src/onward/client/schedules.py",
                "body = parted(row.sealed)[2] if verify is None else verify(sealed)",
                "body = parted(row.sealed)[2]",
            ),
        ),
        (f"{SCHEDULES}::test_a_specification_that_was_tampered_with_is_not_booked[memory-altered]",),
    ),
    Mutant(
        "M150",
        "a run that fails while its job is shut burns an attempt",
        (
            Edit(
                "src/onward/flow/breaker.py",
                "        if blamed and self.shut_until > now:\n",
                "        if blamed and self.shut_until > now and False:\n",
            ),
        ),
        (f"{BREAKERS}::TestNothingIsLost::test_a_run_under_way_that_fails_while_it_is_shut_burns_nothing[memory]",),
    ),
    Mutant(
        "M151",
        "a probe that succeeds opens nothing",
        (
            Edit(
                "src/onward/flow/breaker.py",
                "        return Verdict(shut_for=0)\n",
                "        return _NOTHING\n",
            ),
        ),
        (f"{BREAKERS}::TestShutting::test_a_probe_that_succeeds_opens_for_all_at_once[memory]",),
    ),
    Mutant(
        "M153",
        "a walk whose turn has ended a lease of a limit starts any number without its lock (postgres)",
        (Edit(f"{POSTGRES}/lanes.py", " and started <= self._freed\n", "\n"),),
        (f"{SWAPPED}::TestManyLanes::test_a_turn_that_could_start_more_than_it_has_ended_takes_the_lock",),
    ),
    Mutant(
        "M152",
        "a probe that fails shuts for as long as the first time",
        (Edit("src/onward/flow/breaker.py", "min(2 * probe, self._longest)", "self._pause"),),
        (f"{BREAKERS}::TestShutting::test_each_probe_that_fails_shuts_for_twice_as_long_up_to_the_longest[memory]",),
    ),
    Mutant(
        "M153",
        "a transfer forgets the lanes of jobs (memory)",
        (
            Edit(
                f"{MEMORY}/transfer.py",
                "    return MemoryJob(sealed, **",
                "    return MemoryJob(msgspec.structs.replace(sealed, lane=None), **",
            ),
            Edit(
                f"{MEMORY}/transfer.py",
                "from onward.backend import Note",
                "import msgspec\nfrom onward.backend import Note",
            ),
        ),
        (f"{ON_MEMORY}::test_jobs_go_with_their_lanes_and_costs",),
    ),
    Mutant(
        "M154",
        "a changed rate pays for what was taken under the old one (memory)",
        (
            Edit(
                f"{MEMORY}/lanes.py",
                "before.bounds.rate not in (None, row.bounds.rate)",
                "before.bounds.rate not in (None, row.bounds.rate) and False",
            ),
        ),
        (f"{ON_MEMORY}::test_so_does_that_of_each_key",),
    ),
    Mutant(
        "M170",
        "plain jobs of a limited queue are not counted (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "started_at = ?2, lane = ifnull(lane, '')\n",
                "started_at = ?2\n",
            ),
        ),
        (f"{ON_SQLITE}::test_a_queue_counts_every_lease_of_it",),
    ),
    Mutant(
        "M171",
        "what ran before a queue had a limit is not counted (sqlite)",
        (
            Edit(
                "src/onward/backends/sql/limits.py",
                'if kind == "queue" and chosen and not is_there:',
                'if kind == "queue" and chosen and is_there:',
            ),
        ),
        (f"{ON_SQLITE}::test_a_queue_with_a_limit_counts_what_ran_before_it_had_one",),
    ),
    Mutant(
        "M172",
        "tokens that were taken are not stored (sqlite)",
        (Edit(f"{SQLITE}/lanes.py", "    if found.charges:\n", "    if found.charges and False:\n"),),
        (f"{ON_SQLITE}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M173",
        "a job is counted in one of its queues only (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "AND lane IS NOT NULL AND queue > name ORDER BY queue LIMIT 1)\n",
                "AND lane IS NOT NULL AND queue < name ORDER BY queue LIMIT 1)\n",
            ),
        ),
        ("tests/backends/sqlite/test_lanes.py::TestRows::test_what_runs_in_every_queue_is_counted",),
    ),
    Mutant(
        "M174",
        "a job that was booked stays so when it is due (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "UPDATE onward_jobs SET state = 'available', booked = NULL\n",
                "UPDATE onward_jobs SET state = 'available'\n",
            ),
        ),
        ("tests/backends/sqlite/test_lanes.py::TestRows::test_a_booked_job_that_is_made_due_is_booked_no_longer[due]",),
    ),
    Mutant(
        "M175",
        "a settlement that is not applied shuts its lane (sqlite)",
        (
            Edit(
                f"{SQLITE}/settling.py",
                "        if settlement.gate is not None and answer.applied:\n",
                "        if settlement.gate is not None:\n",
            ),
        ),
        (f"{ON_SQLITE}::test_a_settlement_that_is_not_applied_shuts_nothing",),
    ),
    Mutant(
        "M180",
        "a lease that has ended keeps its slot (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/jobs.lua", "      lanes.count(record, false)\n", "      lanes.count(record, 0)\n"
            ),
        ),
        (f"{ON_REDIS}::test_every_way_a_lease_ends_gives_its_slot_back",),
    ),
    Mutant(
        "M181",
        "what a turn settles counts as running in its own claim (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "return counted + (changes[queue] and changes[queue][EXECUTING] or 0)",
                "return counted",
            ),
        ),
        (f"{ON_REDIS}::test_a_settlement_and_a_claim_in_one_turn_count_together",),
    ),
    Mutant(
        "M194",
        "opening a job leaves its keys shut (redis)",
        (Edit(f"{REDIS}/scripts/shut.lua", "then write(field) end", "then break end"),),
        (f"{ON_REDIS}::test_opening_a_job_opens_every_lane_of_it",),
    ),
    Mutant(
        "M195",
        "a limit that left the code stays in the list (sqlite)",
        (
            Edit(
                "src/onward/backends/sql/limits.py",
                'if kind == "queue" or chosen is None:',
                'if kind == "queue":',
            ),
        ),
        (f"{ON_SQLITE}::test_a_limit_that_left_the_code_is_dropped_until_it_is_declared_again[job-render]",),
    ),
    Mutant(
        "M196",
        "a count below zero lets more run than the limit of a queue (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "    if not is_count(stored) then error('DAMAGED counts:' .. queue) end\n",
                "",
            ),
        ),
        (f"{LIMITS_ON_REDIS}::TestRepair::test_counts_of_a_queue_that_were_lost_let_no_more_run_once_that_shows",),
    ),
    Mutant(
        "M182",
        "a job takes the lanes of another whose name goes on with a dot",
        (Edit("src/onward/flow/lanes.py", "group[:-1] + _BEGIN + _LAST", "group[:-1]"),),
        (f"{ON_MEMORY}::test_jobs_whose_names_begin_alike_are_counted_apart",),
    ),
    Mutant(
        "M182",
        "a job takes the lanes of another whose name goes on with a dot (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "return sub(group, 1, -2) .. '.' .. LAST end",
                "return sub(group, 1, -2) end",
            ),
        ),
        (f"{ON_REDIS}::test_jobs_whose_names_begin_alike_are_counted_apart",),
    ),
    Mutant(
        "M183",
        "an adopted lease has no lane (redis)",
        (Edit(f"{REDIS}/scripts/open_session.lua", "if is(record, HAS_LANE) then laned", "if false then laned"),),
        (f"{ON_REDIS}::test_an_adopted_lease_keeps_its_lane",),
    ),
    Mutant(
        "M102",
        "tokens that were taken are not stored (redis)",
        (Edit(f"{REDIS}/scripts/lib/walking.lua", "if own and own.charged then", "if false then"),),
        (f"{ON_REDIS}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M184",
        "workers wake each other for ever where all lanes are full (redis)",
        (Edit(f"{REDIS}/scripts/turn.lua", "quiet[queue] = is_done and", "quiet[queue] = false and"),),
        (f"{LIMITS_ON_REDIS}::TestWaking::test_full_lanes_keep_no_worker_busy",),
    ),
    Mutant(
        "M450",
        "the script for usual turns does not look for requests to cancel (redis)",
        (
            Edit(
                f"{REDIS}/scripts/turn_usual.lua",
                "'EXISTS', P .. 'asked:' .. owner) == 1",
                "'EXISTS', P .. 'asked:' .. owner) == 2",
            ),
        ),
        (f"{USUAL_ON_REDIS}::test_where_anything_takes_more_it_writes_nothing_and_is_not_tried_for_a_while",),
    ),
    Mutant(
        "M451",
        "the script for usual turns completes a job whose lease was lost (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/usual.lua",
                "if not raw or sub(raw, 1, flags_from) ~= usual_fence then return false end\n",
                "if not raw then return false end\n",
            ),
        ),
        (f"{USUAL_ON_REDIS}::test_a_lease_that_was_lost_settles_nothing",),
    ),
    Mutant(
        "M452",
        "a retry at once is claimed from a queue that is paused (redis)",
        (Edit(f"{REDIS}/scripts/turn.lua", "redis.call('SISMEMBER', P .. 'paused', queue) == 0", "true"),),
        (f"{USUAL_ON_REDIS}::test_a_retry_at_once_waits_where_its_queue_is_paused",),
    ),
    Mutant(
        "M471",
        "a usual turn that leaves jobs in a queue wakes no thread for them (redis)",
        (Edit(f"{REDIS}/scripts/turn_usual.lua", "= #page < most", "= #page <= most"),),
        (f"{USUAL_ON_REDIS}::test_it_answers_and_writes_what_the_whole_script_does",),
    ),
    Mutant(
        "M485",
        "a queue in which jobs only wait leaves the list of queues (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/counting.lua",
                "redis.call('EXISTS', P .. 'ready:' .. queue, P .. 'lanes:' .. queue) > 0",
                "false",
            ),
        ),
        (f"{KEYS_ON_REDIS}::test_a_queue_in_which_jobs_only_wait_stays_in_the_list",),
    ),
    Mutant(
        "M486",
        "a queue without counts is not repaired (redis)",
        (
            Edit(
                f"{REDIS}/damage.py",
                'b"counts:" + name.partition(b":")[2] for name in names if _kind(name) in ("ready", "lanes")',
                "",
            ),
        ),
        (f"{DAMAGE_ON_REDIS}::test_a_queue_whose_jobs_are_all_available_is_marked_again_for_its_limit",),
    ),
    Mutant(
        "M472",
        "runs that fail in one turn are on record as those of the first one's claim (redis)",
        (Edit(f"{REDIS}/scripts/lib/retrying.lua", "local run = kind.runs[token]", "local run = kind.runs[1]"),),
        (f"{USUAL_ON_REDIS}::test_runs_that_fail_in_one_turn_are_on_record_by_their_own_claims",),
    ),
    Mutant(
        "M487",
        "runs that fail in one turn are on record with the failure of the first one (redis)",
        (
            Edit(f"{REDIS}/scripts/lib/retrying.lua", "local noted = run[failure] or {}", "local noted = run[1] or {}"),
            Edit(f"{REDIS}/scripts/lib/retrying.lua", "run[failure] = noted", "run[1] = noted"),
        ),
        (f"{USUAL_ON_REDIS}::test_runs_that_fail_in_one_turn_are_on_record_with_their_own_failures",),
    ),
    Mutant(
        "M473",
        "a flow that is cancelled ends jobs of another whose node has the same number (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "AND flow = :flow AND node = :node AND (state <> 'executing' OR cancel_reason IS NULL)",
                "AND (state <> 'executing' OR cancel_reason IS NULL)",
            ),
        ),
        (f"{PLACES}::test_a_flow_that_is_cancelled_ends_its_own_jobs",),
    ),
    Mutant(
        "M474",
        "a claim of many queues finds too few jobs where its turn has released what comes first (sqlite)",
        (
            Edit(
                f"{SQLITE}/claiming.py",
                "(names, tx.now, claim.limit + len(released) + 1, _LONG)",
                "(names, tx.now, claim.limit + 1, _LONG)",
            ),
        ),
        (f"{CLAIMS_ON_SQLITE}::test_a_claim_of_many_queues_is_full_though_the_turn_has_released_what_comes_first",),
    ),
    Mutant(
        "M475",
        "a failure that recurs is told as one of another line of its function",
        (
            Edit(
                "src/onward/base/failure.py",
                "(id(entry.tb_frame.f_code), entry.tb_lasti)",
                "(id(entry.tb_frame.f_code),)",
            ),
        ),
        ("tests/base/test_failure.py::test_two_lines_of_one_function_are_two_places",),
    ),
    Mutant(
        "M476",
        "a failure that recurs is told as one of a class that is gone",
        (
            Edit(
                "src/onward/base/failure.py", "known.error_type() is not type(error)", "known.error_type() is Exception"
            ),
        ),
        ("tests/base/test_failure.py::test_a_class_that_gets_the_id_of_another_that_is_gone_is_told_apart",),
    ),
    Mutant(
        "M477",
        "a text with a credential is remembered as one that needs no mask",
        (Edit("src/onward/base/logs.py", "if cleaned == value and type(value)", "if type(value)"),),
        ("tests/base/test_logs.py::test_a_text_that_was_told_before_is_told_in_the_same_way",),
    ),
    Mutant(
        "M185",
        "a slot of a queue that is free wakes no worker (redis)",
        (Edit(f"{REDIS}/scripts/lib/counting.lua", "freed[queue] = true", "freed[queue] = nil"),),
        (f"{LIMITS_ON_REDIS}::TestWaking::test_a_slot_that_is_free_wakes_a_worker",),
    ),
    Mutant(
        "M186",
        "a job is claimed from a lane that is not its own (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "(is(record, HAS_LANE) and fixed(record)[FIELD.LANE] or PLAIN) ~= lane",
                "false",
            ),
        ),
        (f"{LIMITS_ON_REDIS}::TestRepair::test_a_line_that_names_a_job_of_another_lane_is_corrected",),
    ),
    Mutant(
        "M187",
        "a walk of the scripts does not remember where its circle began (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "          cursors.circles[place] = {group.queue, group.rank, group.name, group.begun}\n",
                "",
            ),
        ),
        (f"{ON_REDIS}::test_a_circle_that_found_nothing_ends",),
    ),
    Mutant(
        "M101",
        "the starts of one claim are not counted against a limit",
        (Edit("src/onward/flow/room.py", "            self._slots -= 1\n", "            self._slots -= 0\n"),),
        (f"{ON_MEMORY}::test_no_more_run_than_the_limit_of_a_job_and_as_many_as_it_allows",),
    ),
    Mutant(
        "M102",
        "tokens that were taken are not stored (memory)",
        (
            Edit(
                f"{MEMORY}/lanes.py",
                "store.gates[scope] = msgspec.structs.replace(gate, bucket=bucket)",
                "store.gates[scope] = gate",
            ),
        ),
        (f"{ON_MEMORY}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M103",
        "the cursor of keys is not moved",
        (
            Edit(
                "src/onward/flow/walk.py",
                "self.cursors.lanes[group.cursor] = pick.lane",
                "self.cursors.lanes.setdefault(group.cursor, pick.lane)",
            ),
        ),
        (f"{ON_MEMORY}::test_keys_take_turns",),
    ),
    Mutant(
        "M104",
        "a job that is full is walked key by key",
        (
            Edit(
                "src/onward/flow/walk.py",
                "            if (line.own is None or line.own.is_open) and (line.jobs",
                "            if all(room.is_open for room in line.rooms) and (line.jobs",
            ),
            Edit(
                "src/onward/flow/walk.py",
                "            return not closed\n",
                "            return True\n",
            ),
        ),
        (f"{ON_MEMORY}::test_a_full_job_with_many_keys_is_one_step",),
    ),
    Mutant(
        "M105",
        "probing does not end by itself",
        (
            Edit(
                "src/onward/flow/room.py",
                "self.shut_until <= now < self.shut_until + self.shut_for",
                "self.shut_until <= now",
            ),
        ),
        (f"{ON_MEMORY}::test_probing_ends_by_itself",),
    ),
    Mutant(
        "M106",
        "two jobs are booked for one token",
        (Edit("src/onward/flow/walk.py", "            tokens += job.cost or 1\n", "            tokens += 0\n"),),
        (f"{ON_MEMORY}::test_jobs_of_a_key_without_tokens_are_booked_for_them",),
    ),
    Mutant(
        "M107",
        "a bucket stands still until a clock that was set back has caught up",
        (
            Edit(
                "src/onward/flow/room.py",
                "rebased(gate.bucket, now) if self.charged else gate.bucket",
                "gate.bucket",
            ),
        ),
        (f"{ON_MEMORY}::test_a_clock_that_is_set_back_adds_no_tokens_and_shuts_nothing",),
    ),
    Mutant(
        "M108",
        "a worker claims more of a limited job than can begin",
        (Edit("src/onward/flow/walk.py", "            self._begins -= 1\n", "            self._begins -= 0\n"),),
        (f"{ON_MEMORY}::test_no_more_are_claimed_than_can_begin",),
    ),
    Mutant(
        "M109",
        "a worker without a free slot asks for limited jobs again and again",
        (
            Edit(
                "src/onward/worker/pump.py",
                "if (queues or self._plan.open_ended) and not self._awaits_slots:",
                "if queues or self._plan.open_ended:",
            ),
        ),
        (
            "tests/application/test_limits.py::TestRunning::test_a_worker_without_a_free_slot_does_not_ask_again_and_again",
        ),
    ),
    Mutant(
        "M120",
        "leases of a limit are counted by a statement that may be older than its lock (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                '        locking = self._tx.ask("lock_scopes", numbers=list(numbers), tries=tries)\n',
                "        counting = running_in(self._tx, counted)\n"
                '        locking = self._tx.ask("lock_scopes", numbers=list(numbers), tries=tries)\n',
            ),
            Edit(
                f"{POSTGRES}/lanes.py",
                "        )\n        counting = running_in(self._tx, counted)\n",
                "        )\n",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::TestTwoClaims::test_two_that_see_four_of_five_start_one",),
    ),
    Mutant(
        "M121",
        "the limit of a job is locked for each of its queues apart (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                "{_number(self._prefix, scope): scope",
                "{_number(self._prefix + self.queues[0], scope): scope",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::TestTwoClaims::test_a_job_is_counted_and_locked_over_all_its_queues",),
    ),
    Mutant(
        "M260",
        "a turn that has ended a lease of a limit starts any number without its lock (postgres)",
        (Edit(f"{POSTGRES}/lanes.py", "        return line, min(freed, most)\n", "        return line, most\n"),),
        (f"{SWAPPED}::TestSingleLine::test_no_more_start_than_were_ended_and_a_walk_takes_the_room_that_is_left",),
    ),
    Mutant(
        "M261",
        "a turn starts as many as it has ended though the limit was lowered since the last walk (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "declared_running) = cast(:bound AS bigint)\n",
                "declared_running) <= cast(:bound AS bigint)\n",
            ),
        ),
        (f"{SWAPPED}::TestSingleLine::test_no_job_starts_while_more_run_than_a_lowered_limit_allows",),
    ),
    Mutant(
        "M262",
        "a walk whose turn has ended a lease of a limit starts any number without its lock (postgres)",
        (Edit(f"{POSTGRES}/lanes.py", " and started <= self._freed\n", "\n"),),
        (f"{SWAPPED}::TestManyLanes::test_a_turn_that_could_start_more_than_it_has_ended_takes_the_lock",),
    ),
    Mutant(
        "M263",
        "what is taken back keeps locks while it waits for a turn (postgres)",
        (
            Edit(
                f"{POSTGRES}/schedules.py",
                '            tx.ask("unlock")\n            tx.ask("lock_live", id=other)\n            tx.ask("unlock")\n',
                '            tx.ask("lock_live", id=other)\n',
            ),
        ),
        (
            "tests/backends/postgres/test_taking_back.py::test_a_turn_that_settles_what_was_claimed_meanwhile_does_not_wait",
        ),
    ),
    Mutant(
        "M122",
        "claims that are under way when a queue gets a limit are not counted (postgres)",
        (Edit(f"{POSTGRES}/backend.py", "        self._await_claims()\n", ""),),
        (f"{LANES_ON_POSTGRES}::TestQueueLimits::test_a_claim_that_was_under_way_when_the_limit_was_set_is_counted",),
    ),
    Mutant(
        "M123",
        "tokens are counted by a time before the lock was held (postgres)",
        (Edit(f"{POSTGRES}/lane_view.py", "        self.now = now\n", ""),),
        (f"{LANES_ON_POSTGRES}::TestRates::test_tokens_are_counted_by_the_time_at_which_the_lock_is_held",),
    ),
    Mutant(
        "M190",
        "what runs is not counted again once a stripe is locked (mysql)",
        (
            Edit(
                f"{MYSQL}/lanes.py",
                "        self._has_gates = True\n        self._read(scopes)\n",
                "",
            ),
        ),
        (f"{LANES_ON_MYSQL}::TestInterleavings::test_a_limit_is_never_passed_and_is_reached[a job]",),
    ),
    Mutant(
        "M191",
        "a stripe that another turn has is no hindrance (mysql)",
        (
            Edit(
                f"{MYSQL}/lanes.py",
                "if stripe_of(scope) in got}",
                "}",
            ),
        ),
        (f"{LANES_ON_MYSQL}::TestInterleavings::test_a_limit_is_never_passed_and_is_reached[a job]",),
    ),
    Mutant(
        "M192",
        "a jump to the next lane locks what it reads (mysql)",
        (
            Edit(f"{MYSQL}/queries.sql", "SELECT (SELECT line FROM", "SET :into = (SELECT line FROM"),
            Edit(f"{MYSQL}/queries.sql", "         LIMIT 1) INTO :into;", "         LIMIT 1);"),
        ),
        (f"{LANES_ON_MYSQL}::TestStripes::test_looking_for_lanes_locks_nothing",),
    ),
    Mutant(
        "M193",
        "a job that was booked stays so once it is due (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "   SET job.state = 'available', job.booked = NULL\n WHERE",
                "   SET job.state = 'available'\n WHERE",
            ),
        ),
        (f"{LANES_ON_MYSQL}::TestRows::test_a_booked_job_is_booked_no_more_once_it_is_due_or_was_made_so",),
    ),
    Mutant(
        "M101",
        "the starts of one claim are not counted against a limit (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "if own.slots then own.slots = own.slots - 1 end",
                "if own.slots then own.slots = own.slots - 0 end",
            ),
        ),
        (f"{ON_REDIS}::test_no_more_run_than_the_limit_of_a_job_and_as_many_as_it_allows",),
    ),
    Mutant(
        "M102",
        "tokens that were taken are not stored (sqlite)",
        (
            Edit(
                f"{SQLITE}/lanes.py", "    if found.charges:\n        tx.run_many", "    if False:\n        tx.run_many"
            ),
        ),
        (f"{ON_SQLITE}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M102",
        "tokens that were taken are not stored (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                "        charge(self._tx, {scope: bucket for scope, bucket in found.charges.items() if scope in needed})\n",
                "",
            ),
        ),
        (f"{ON_POSTGRES}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M102",
        "tokens that were taken are not stored (redis)",
        (Edit(f"{REDIS}/scripts/lib/walking.lua", "      own.charged = true\n", "      own.charged = false\n"),),
        (f"{ON_REDIS}::test_no_more_start_than_there_are_tokens",),
    ),
    Mutant(
        "M103",
        "the cursor of keys is not moved (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "    if lane ~= PLAIN then cursors.lanes[",
                "    if lane == PLAIN then cursors.lanes[",
            ),
        ),
        (f"{ON_REDIS}::test_keys_take_turns",),
    ),
    Mutant(
        "M104",
        "a job that is full is walked key by key (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "      local own = lane_room(line.lane)\n      local job =",
                "      local own = job_room(group.name)\n      local job =",
            ),
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "is_limited(queue, group) then return all_open end",
                "is_limited(queue, group) then return true end",
            ),
        ),
        (f"{ON_REDIS}::test_a_full_job_with_many_keys_is_one_step",),
    ),
    Mutant(
        "M105",
        "probing does not end by itself (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "not is_shut and now < gate.shut_until + gate.shut_for and gate.shut_for or 0",
                "not is_shut and gate.shut_for or 0",
            ),
        ),
        (f"{ON_REDIS}::test_probing_ends_by_itself",),
    ),
    Mutant(
        "M106",
        "two jobs are booked for one token (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/walking.lua",
                "        tokens = tokens + cost_of(each.record)\n",
                "        tokens = tokens + 0\n",
            ),
        ),
        (f"{ON_REDIS}::test_jobs_of_a_key_without_tokens_are_booked_for_them",),
    ),
    Mutant(
        "M111",
        "a limit that another turn has locked is taken all the same (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "CASE WHEN pg_try_advisory_xact_lock(wanted.number) THEN true",
                "CASE WHEN pg_try_advisory_xact_lock(wanted.number) OR true THEN true",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::TestTwoClaims::test_a_job_is_counted_and_locked_over_all_its_queues",),
    ),
    Mutant(
        "M112",
        "the success of a probe does not open its job",
        (
            Edit(
                "src/onward/flow/room.py",
                "        if change.seconds <= 0:\n            return Gate(self.bucket)\n",
                "        if change.seconds <= 0:\n            return self\n",
            ),
        ),
        (f"{ON_MEMORY}::test_a_breaker_lets_one_run_probe_and_its_success_opens",),
    ),
    Mutant(
        "M112",
        "the success of a probe does not open its job (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/limits.lua",
                "    gate.shut_until, gate.shut_for = 0, 0\n",
                "    gate.shut_until, gate.shut_for = gate.shut_until, gate.shut_for\n",
            ),
        ),
        (f"{ON_REDIS}::test_a_breaker_lets_one_run_probe_and_its_success_opens",),
    ),
    Mutant(
        "M113",
        "a job that is released gives its token back (memory)",
        (
            Edit(
                f"{MEMORY}/settling.py",
                "            if settlement.gate is not None:\n",
                '            if settlement.move == "release":\n                store.gates.clear()\n'
                "            if settlement.gate is not None:\n",
            ),
        ),
        (f"{ON_MEMORY}::test_a_token_is_not_given_back",),
    ),
    Mutant(
        "M114",
        "booked jobs are promoted with all others (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "UPDATE onward_jobs SET state = 'scheduled', booked = 1,",
                "UPDATE onward_jobs SET state = 'scheduled', booked = NULL,",
            ),
        ),
        (f"{ON_SQLITE}::test_booked_jobs_do_not_hold_up_what_else_is_due",),
    ),
    Mutant(
        "M116",
        "a turn that waited for a lock counts the time before it a second time",
        (Edit("src/onward/flow/tokens.py", "_OVERLAP = 10 * SECOND", "_OVERLAP = 0 * SECOND"),),
        (f"{TOKENS}::test_turns_that_read_the_clock_and_then_wait_for_a_lock_start_no_more",),
    ),
    Mutant(
        "M130",
        "a node that was not needed counts as failed",
        (
            Edit(
                "src/onward/flow/graph.py",
                "FAILED = frozenset({NodeState.FAILED, NodeState.PASSED_OVER})",
                "FAILED = frozenset({NodeState.FAILED, NodeState.PASSED_OVER, NodeState.SKIPPED})",
            ),
        ),
        (
            f"{ON_MEMORY}::test_what_becomes_of_a_node_by_what_is_before_it",
            f"{GRAPHS}::TestRules::test_what_a_node_becomes",
        ),
    ),
    Mutant(
        "M131",
        "a job that runs again adds its jobs again (memory)",
        (
            Edit(
                f"{MEMORY}/flows.py",
                "self._add(envelope, now, retried=True) for",
                "self._add(envelope, now, retried=False) for",
            ),
        ),
        (f"{ON_MEMORY}::test_a_child_that_has_ended_is_not_added_again",),
    ),
    Mutant(
        "M132",
        "only a success is looked at (memory)",
        (
            Edit(
                f"{MEMORY}/flow_tables.py",
                "        self.touched.add(flow.id)\n        node =",
                "        if succeeded:\n            self.touched.add(flow.id)\n        node =",
            ),
        ),
        (f"{ON_MEMORY}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M133",
        "a node that cannot succeed any more waits for the others before it",
        (
            Edit(
                "src/onward/flow/graph.py",
                'if node.when == "succeeded" and not FAILED.isdisjoint(ends):',
                'if node.when == "succeeded" and not FAILED.isdisjoint(ends) and OVER.issuperset(ends):',
            ),
        ),
        (f"{GRAPHS}::TestRules::test_a_node_that_needs_success_is_passed_over_before_the_others_are_over",),
    ),
    Mutant(
        "M134",
        "a batch is over before it is filled",
        (
            Edit(
                "src/onward/flow/graph.py",
                "if state is NodeState.OPEN and closed and not has_live(node.name):",
                "if state is NodeState.OPEN and not has_live(node.name):",
            ),
        ),
        (f"{ON_MEMORY}::test_a_flow_that_is_not_closed_waits_for_more",),
    ),
    Mutant(
        "M135",
        "the result of a member is read without its signature",
        (
            Edit(
                "src/onward/security/note_seals.py",
                "result = self._signing.open_note(job_id, queue, _RESULT, result)",
                'result = result.rpartition(b"\\n")[2]',
            ),
        ),
        (f"{FLOWS}::TestResults::test_a_result_that_was_tampered_with_is_refused_before_it_is_parsed",),
    ),
    Mutant(
        "M136",
        "a member is pruned before those behind it have read its result (memory)",
        (
            Edit(
                f"{MEMORY}/flow_tables.py",
                'return float("inf") if flow.over_at is None else max(finished_at, flow.over_at)',
                "return finished_at",
            ),
        ),
        (f"{ON_MEMORY}::test_the_result_of_a_member_is_kept_until_its_flow_is_over",),
    ),
    Mutant(
        "M137",
        "the first failure cancels the job that should tell of it",
        (Edit("src/onward/flow/graph.py", 'return node.when == "succeeded"\n', "return True\n"),),
        (f"{ON_MEMORY}::test_stop_on_failure_cancels_what_has_not_begun_and_asks_what_runs",),
    ),
    Mutant(
        "M138",
        "two jobs that add to one node make the same ids",
        (Edit("src/onward/base/ids.py", 'f"place\\0{parent}"', 'f"place\\0{place}"'),),
        (f"{FLOWS}::TestGrowing::test_two_jobs_that_add_to_one_node_do_not_get_in_each_others_way",),
    ),
    Mutant(
        "M139",
        "a flow that is retried runs what was completed again (memory)",
        (
            Edit(
                f"{MEMORY}/flows.py",
                "if job.state is not State.COMPLETED and not job.expired(now)",
                "if not job.expired(now)",
            ),
        ),
        (f"{ON_MEMORY}::test_a_retried_flow_completes_without_running_again_what_was_completed",),
    ),
    Mutant(
        "M140",
        "a cancelled flow still opens what waits for a failure (memory)",
        (
            Edit(
                f"{MEMORY}/flows.py",
                "if flow.cancelled is not None or stopped:",
                "if (flow.cancelled is not None and is_stopped(node)) or stopped:",
            ),
        ),
        (f"{ON_MEMORY}::test_a_cancelled_flow_starts_no_more_and_asks_what_runs",),
    ),
    Mutant(
        "M141",
        "a run that lost its lease adds to nodes that were opened long ago (memory)",
        (
            Edit(
                f"{MEMORY}/flows.py",
                "if job is None or (job.state, job.delivery, job.owner) != (State.EXECUTING, lease.token, lease.owner):",
                "if job is None:",
            ),
        ),
        (f"{ON_MEMORY}::test_a_run_that_lost_its_lease_adds_nothing",),
    ),
    Mutant(
        "M207",
        "two transactions that end the last members look without the lock of their flow (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                " STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id\n   FOR UPDATE;\n\n"
                "-- name: flows_among",
                " STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id;\n\n-- name: flows_among",
            ),
        ),
        (f"{FLOWS_ON_MYSQL}::test_before_each_part_of_one_end_another_one_comes",),
    ),
    Mutant(
        "M208",
        "a look reads from a snapshot that is older than the lock of its flow (mysql)",
        (Edit(f"{MYSQL}/connection.py", "ISOLATION LEVEL READ COMMITTED;", "ISOLATION LEVEL REPEATABLE READ;"),),
        (f"{FLOWS_ON_MYSQL}::test_before_each_part_of_one_end_another_one_comes",),
    ),
    Mutant(
        "M209",
        "a look waits for a member that another transaction has locked (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "   FOR UPDATE SKIP LOCKED;\n\n-- name: open_members",
                "   FOR UPDATE;\n\n-- name: open_members",
            ),
        ),
        (f"{FLOWS_ON_MYSQL}::test_a_member_that_another_transaction_has_locked_is_left_to_the_next_look",),
    ),
    Mutant(
        "M210",
        "a member that is cancelled or expires is not looked at (mysql)",
        (Edit(f"{MYSQL}/enqueueing.py", "    if members:\n        touch(", "    if not cancelled:\n        touch("),),
        (f"{ON_MYSQL}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M211",
        "a member whose process died once too often is not looked at (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "SELECT id, delivery, owner, queue, job, crashes, flow IS NOT NULL\n",
                "SELECT id, delivery, owner, queue, job, crashes, false\n",
            ),
        ),
        (f"{ON_MYSQL}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M212",
        "a member enqueued anew under the id of one that ended counts as ended (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "AND member.id = gone.id\n WHERE member.outcome <> '';",
                "AND member.id = gone.id\n WHERE member.outcome = '';",
            ),
            Edit(
                f"{MYSQL}/queries.sql",
                "                                            id varchar(64) PATH '$[2]')) AS new;\n",
                "                                            id varchar(64) PATH '$[2]')) AS new\n"
                "    ON DUPLICATE KEY UPDATE id = onward_members.id;\n",
            ),
        ),
        (f"{FLOWS_ON_MYSQL}::test_a_member_enqueued_anew_under_the_id_of_one_that_ended_is_live",),
    ),
    Mutant(
        "M213",
        "a caller's transaction looks at a flow in its own old snapshot (mysql)",
        (
            Edit(
                f"{MYSQL}/backend.py",
                "return settle_fenced(tx, settlement, leave_to_completed)",
                "return settle_fenced(tx, settlement, self._look_at_flows)",
            ),
        ),
        (f"{FLOWS_ON_MYSQL}::test_a_member_completed_in_a_callers_snapshot_opens_what_comes_after",),
    ),
    Mutant(
        "M214",
        "a finished member is pruned before its flow is over (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "coalesce(over_at, 9223372036854775807)",
                "coalesce(over_at, finished_at)",
            ),
        ),
        (f"{ON_MYSQL}::test_the_result_of_a_member_is_kept_until_its_flow_is_over",),
    ),
    Mutant(
        "M197",
        "flows are looked at without the lock of their rows (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "(SELECT id FROM onward_flows WHERE id = wanted.id FOR UPDATE) AS flow;",
                "(SELECT id FROM onward_flows WHERE id = wanted.id) AS flow;",
            ),
        ),
        (LAST_TWO_ENDS,),
    ),
    Mutant(
        "M198",
        "flows are locked after they were looked at",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "        yield from self.lock(sorted({flow for flow, _ in touched}))\n        changed: set[str] = set()\n",
                "        changed: set[str] = set()\n",
            ),
            Edit(
                "src/onward/backends/sql/flows.py",
                "            changed = yield from self._changed(ended)\n",
                "            changed = yield from self._changed(ended)\n"
                "        yield from self.lock(sorted({flow for flow, _ in touched}))\n",
            ),
        ),
        (LAST_TWO_ENDS,),
    ),
    Mutant(
        "M199",
        "a look waits for a member that another transaction has (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "DISTINCT FROM 'scheduled' AND awaits = ''\n                            FOR UPDATE SKIP LOCKED)",
                "DISTINCT FROM 'scheduled' AND awaits = ''\n                            FOR UPDATE)",
            ),
        ),
        (f"{FLOWS_ON_POSTGRES}::TestLocks::test_a_member_that_another_transaction_has_is_left_to_the_next_look",),
    ),
    Mutant(
        "M200",
        "members that a look has left out are forgotten",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "if swept.done == len(rows) and len(rows) < room:",
                "if len(rows) < room:",
            ),
        ),
        (f"{FLOWS_ON_POSTGRES}::TestLocks::test_a_member_that_another_transaction_has_is_left_to_the_next_look",),
    ),
    Mutant(
        "M201",
        "a crash too many is not looked at (postgres)",
        (Edit(f"{POSTGRES}/reaping.py", "        touch(tx.touched, [place])\n", ""),),
        (f"{ON_POSTGRES}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M202",
        "a member that a person cancels is not looked at (postgres)",
        (
            Edit(
                f"{POSTGRES}/inspection.py",
                "reasons=[reason], replaced=False, alone=True)",
                "reasons=[reason], replaced=False, alone=False)",
            ),
            Edit(
                f"{POSTGRES}/inspection.py",
                "if any(flow is not None and state != State.EXECUTING for _, state, flow, _ in rows):",
                "if any(flow is None and state is None for _, state, flow, _ in rows):",
            ),
        ),
        (f"{ON_POSTGRES}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M203",
        "a member that expires is not looked at (postgres)",
        (Edit(f"{POSTGRES}/claiming.py", "    touch_expired(tx, expired)\n", ""),),
        (f"{ON_POSTGRES}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M204",
        "a member is pruned before its flow is over (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "SELECT greatest(finished_at, coalesce(over_at, 9223372036854775807))",
                "SELECT finished_at",
            ),
        ),
        (f"{ON_POSTGRES}::test_the_result_of_a_member_is_kept_until_its_flow_is_over",),
    ),
    Mutant(
        "M205",
        "a turn that claims from lanes is committed before it looks (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                "if not self._tx.touched and all(",
                "if all(",
            ),
        ),
        (f"{FLOWS_ON_POSTGRES}::TestCost::test_the_look_comes_before_the_commit_of_a_turn_that_claims_from_lanes",),
    ),
    Mutant(
        "M206",
        "every look goes through all members that have ended, under a snapshot that stays open",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "                self._alive[flow, node] = alive\n",
                "                pass\n",
            ),
        ),
        (f"{FLOWS_ON_POSTGRES}::TestCost::{UNDER_A_SNAPSHOT}",),
    ),
    Mutant(
        "M215",
        "a node that was not needed counts as failed (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/graph.lua",
                "return state == NODE.FAILED or state == NODE.PASSED_OVER end",
                "return state >= NODE.FAILED end",
            ),
        ),
        (
            f"{ON_REDIS}::test_what_becomes_of_a_node_by_what_is_before_it",
            f"{FLOW_RULES_ON_REDIS}::test_the_rules_of_the_scripts_are_those_of_python",
        ),
    ),
    Mutant(
        "M216",
        "a cancelled job is not looked at (redis)",
        (Edit(f"{REDIS}/scripts/cancel.lua", "flows.look(now)\n", ""),),
        (f"{ON_REDIS}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M217",
        "a job that runs again adds its jobs again (redis)",
        (
            Edit(
                f"{REDIS}/flows.py",
                "lease.token, lease.owner), retried=True)",
                "lease.token, lease.owner), retried=False)",
            ),
        ),
        (f"{ON_REDIS}::test_a_child_that_has_ended_is_not_added_again",),
    ),
    Mutant(
        "M218",
        "a job whose node has opened is opened again (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/flows.lua",
                "if waits then zset('waiting:' .. place, id, score) end",
                "if waits and score then zset('waiting:' .. place, id, score) end",
            ),
        ),
        (f"{FLOWS_ON_REDIS}::TestSteps::test_a_large_node_opens_in_steps_that_its_own_jobs_take",),
    ),
    Mutant(
        "M219",
        "a process that dies ends a job without a look (redis)",
        (Edit(f"{REDIS}/scripts/reap.lua", "flows.look(now)\n", ""),),
        (f"{ON_REDIS}::test_whatever_ends_the_last_job_of_a_node_opens_what_comes_after",),
    ),
    Mutant(
        "M220",
        "a node is over before all that failed in it was replayed (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/looking.lua",
                "if node.todo >= TODO.REVIVE or exists(",
                "if exists(",
            ),
        ),
        (f"{FLOWS_ON_REDIS}::TestSteps::test_a_retry_whose_process_ends_between_two_steps_is_finished_by_the_sweep",),
    ),
    Mutant(
        "M221",
        "a run that lost its lease adds to nodes that were opened long ago (redis)",
        (
            Edit(
                f"{REDIS}/scripts/enqueue.lua",
                "record[DELIVERY] ~= lease[2] or record[OWNER] ~= lease[3] then return 0 end",
                "record[OWNER] ~= lease[3] then return 0 end",
            ),
        ),
        (f"{ON_REDIS}::test_a_run_that_lost_its_lease_adds_nothing",),
    ),
    Mutant(
        "M222",
        "a member is pruned before those behind it have read its result (redis)",
        (
            Edit(
                f"{REDIS}/scripts/lib/removing.lua",
                "return state and state.over_at > 0 and math.max(state.over_at, record[ENDED])",
                "return record[ENDED]",
            ),
        ),
        (f"{ON_REDIS}::test_the_result_of_a_member_is_kept_until_its_flow_is_over",),
    ),
    Mutant(
        "M223",
        "a flow that a schedule has started is started again when the job that starts it is repeated",
        (
            Edit(
                "src/onward/client/flow_template.py",
                "self._backend.enqueue(envelopes, retried=True)",
                "self._backend.enqueue(envelopes, retried=retried)",
            ),
        ),
        (f"{SCHEDULED_FLOWS}::test_a_start_that_is_repeated_stores_nothing_twice[memory]",),
    ),
    Mutant(
        "M224",
        "a flow that a person has enqueued keeps a schedule's flow of the same name from starting",
        (
            Edit(
                "src/onward/attempt/occurrences.py",
                "if flow.id != own and is_scheduled_flow(flow.id, self._namespace, occurrence.name):",
                "if flow.id != own:",
            ),
        ),
        (f"{SCHEDULED_FLOWS}::test_flows_of_the_same_name_that_no_tick_has_started_hinder_none[memory]",),
    ),
    Mutant(
        "M225",
        "a process books a flow of which it knows only some jobs",
        (
            Edit(
                "src/onward/client/booking.py",
                "if all(self._registry.find(job) is not None for job in jobs)",
                "if any(self._registry.find(job) is not None for job in jobs)",
            ),
        ),
        (f"{SCHEDULED_FLOWS}::test_a_process_that_does_not_know_all_jobs_books_nothing[sqlite]",),
    ),
    Mutant(
        "M229",
        "a job that was cancelled while its node waited is forgotten when the node opens (memory)",
        (
            Edit(
                f"{MEMORY}/flow_tables.py",
                "if not succeeded and node.state in (NodeState.WAITING, NodeState.OPEN):",
                "if not succeeded and node.state is NodeState.OPEN:",
            ),
        ),
        ("tests/model/test_memory.py::test_the_memory_backend_does_what_the_model_does",),
    ),
    Mutant(
        "M226",
        "the broker gets messages about jobs whose node waits",
        (
            Edit(
                "src/onward/backends/companion/flows.py",
                "if job.awaits == AWAITS_NODE or job.state in FINISHED}",
                "if job.state in FINISHED}",
            ),
        ),
        ("tests/backends/companion/test_flows.py::test_a_member_gets_its_message_when_its_node_opens",),
    ),
    Mutant(
        "M227",
        "a job that opens with a delay beside a broker waits for the sweep",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "[DueMember(job_id, queue) for job_id, _, queue in due]  # those with a delay, too",
                "[DueMember(job_id, queue) for job_id, state, queue in due if state == State.AVAILABLE]",
            ),
        ),
        (f"{ON_SQLITE}::test_a_turn_says_which_jobs_its_look_at_their_flow_has_opened",),
    ),
    Mutant(
        "M237",
        "the limit of a key is passed while that of its job comes or goes (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                "        if not self._kept.value():  # limits are changing",
                "        if self._kept.value() is None:  # limits are changing",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::TestChanges::test_the_limit_of_a_key_holds_while_that_of_its_job_comes_or_goes",),
    ),
    Mutant(
        "M238",
        "a turn that read its clock before it waited for a lock adds tokens",
        (
            Edit(
                "src/onward/flow/tokens.py",
                "    return bucket.at - now > _OVERLAP\n",
                "    return bucket.at - now > 0\n",
            ),
        ),
        (
            "tests/flow/test_limits.py::TestTokens::test_turns_that_read_the_clock_and_then_wait_for_a_lock_start_no_more",
        ),
    ),
    Mutant(
        "M239",
        "a walk that looks twice hands a job out twice",
        (Edit("src/onward/flow/walk.py", "released and job.id not in self._ids]", "released]"),),
        ("tests/flow/test_walk.py::test_a_job_is_picked_once_though_others_come_back_meanwhile",),
    ),
    Mutant(
        "M240",
        "claims under way are not counted by the first limit of a job (postgres)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "SELECT pg_advisory_xact_lock(hashtextextended('onward_limits', 0));\n",
                "SELECT 1;\n",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::TestFirstLimits::test_a_claim_under_way_is_counted_by_the_first_limit[before-job]",),
    ),
    Mutant(
        "M241",
        "claims under way are not counted by the first limit of a job (mysql)",
        (
            Edit(
                f"{MYSQL}/queries.sql",
                "SELECT number FROM onward_stripes WHERE number = 0 FOR UPDATE;\n",
                "SELECT number FROM onward_stripes WHERE number = 0;\n",
            ),
        ),
        (
            f"{LANES_ON_MYSQL}::TestInterleavings::test_a_claim_that_is_under_way_when_the_first_limit_is_set_is_counted",
        ),
    ),
    Mutant(
        "M280",
        "a claim goes on by limits that are changing (mysql)",
        (Edit(f"{MYSQL}/lanes.py", "        if self._kept.rows():\n", "        if self._kept.rows() is not None:\n"),),
        (
            f"{LANES_ON_MYSQL}::TestStripes::test_no_job_with_a_lane_starts_while_a_limit_changes_and_plain_queues_go_on",
        ),
    ),
    Mutant(
        "M281",
        "the commit of a claim is sent before it takes a key (postgres)",
        (
            Edit(
                f"{POSTGRES}/lanes.py",
                "all(pick.job.id in named and pick.job.id in view.keyless for pick in picks)",
                "all(pick.job.id in view.keyless for pick in picks)",
            ),
        ),
        (f"{LANES_ON_POSTGRES}::test_a_key_of_a_job_that_was_not_seen_is_taken_before_the_commit",),
    ),
    Mutant(
        "M242",
        "a limit of keys that left the code of its job binds them for ever (sqlite)",
        (
            Edit(
                "src/onward/backends/sql/limits.py",
                "if not row.only_ends or (row.kind, row.name) in before]",
                "if not row.only_ends]",
            ),
        ),
        (f"{ON_SQLITE}::test_a_limit_of_keys_that_left_the_code_of_a_job_ends_with_the_next_deployment",),
    ),
    Mutant(
        "M243",
        "a breaker does not look into groups of errors",
        (
            Edit(
                "src/onward/flow/breaker.py",
                "            left += reversed(each.exceptions)",
                "            reversed(each.exceptions)",
            ),
        ),
        ("tests/flow/test_breaker.py::TestBlaming::test_a_group_counts_if_any_error_in_it_does",),
    ),
    Mutant(
        "M244",
        "what is due waits until nothing else does (sqlite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "                    WHEN ?5 THEN ?3\n",
                "                    WHEN ?5 OR true THEN ?3\n",
            ),
        ),
        (f"{ON_SQLITE}::test_a_turn_says_how_many_jobs_fell_due",),
    ),
    Mutant(
        "M228",
        "a job with a process of its own adds to its flow under the owner that claimed it, adopted since",
        (
            Edit(
                "src/onward/entry/isolated.py",
                "self._flows.grow(msgspec.structs.replace(lease, owner=owner), envelopes)",
                "self._flows.grow(lease, envelopes)",
            ),
        ),
        ("tests/worker/test_isolated_flows.py::test_a_job_of_its_own_process_adds_to_its_flow_after_an_adoption",),
    ),
    Mutant(
        "M230",
        "what opens wakes no worker (SQLite)",
        (
            Edit(
                f"{SQLITE}/flows.py",
                "tx.wakes = tx.wakes or bool(looked.opened)",
                "tx.wakes = tx.wakes or False",
            ),
        ),
        (f"{FLOWS_ON_SQLITE}::test_a_turn_that_opens_a_node_wakes_a_worker_for_it",),
    ),
    Mutant(
        "M231",
        "a flow is over while jobs of it have still to be cancelled (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "flow.over = flow.row.closed and not flow.swept and all_over(flow.nodes.values())",
                "flow.over = flow.row.closed and all_over(flow.nodes.values())",
            ),
        ),
        (f"{FLOWS_ON_SQLITE}::TestSteps::test_a_sweep_takes_the_steps_that_are_left_and_is_not_alarmed",),
    ),
    Mutant(
        "M232",
        "a node whose waiting jobs were cancelled with its flow counts as completed (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "if ended and node.state in LIVE_NODES:",
                "if ended and node.state in ():",
            ),
        ),
        (f"{ON_SQLITE}::test_a_flow_that_is_filled_is_closed_by_its_cancellation",),
    ),
    Mutant(
        "M233",
        "a flow that is retried goes on being cancelled (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flow_in_look.py",
                "self.stopped, self.cancelled, self.over = False, None, False",
                "self.stopped, self.over = False, False",
            ),
        ),
        (f"{ON_SQLITE}::test_a_retried_flow_completes_without_running_again_what_was_completed",),
    ),
    Mutant(
        "M234",
        "people who look at a flow count all of its jobs (SQLite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "AND flow IS NOT NULL AND state = 'cancelled' LIMIT :at_most",
                "AND flow IS NOT NULL AND state = 'cancelled' LIMIT -1",
            ),
        ),
        (f"{FLOWS_ON_SQLITE}::test_people_who_look_at_a_flow_pay_the_same_for_any_number_of_members",),
    ),
    Mutant(
        "M245",
        "a queue without a worker is named before its pause",
        (Edit(f"{REASONS}/rules.py", "    due.paused,\n    due.unserved,\n", "    due.unserved,\n    due.paused,\n"),),
        (f"{WHY}::test_the_codes_are_the_rules_in_their_order",),
    ),
    Mutant(
        "M246",
        "the jobs before one are counted without their priorities (SQLite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "AND (rank, available_at, id) < (:rank, :available_at, :id)",
                "AND (available_at, id) < (:available_at, :id)",
            ),
        ),
        (f"{ON_SQLITE}::test_those_before_it_are_counted_in_claim_order",),
    ),
    Mutant(
        "M247",
        "the description of a dead session is believed",
        (
            Edit(
                f"{REASONS}/case.py",
                "return [each for each in self.sessions if each.session.expires_at > self.now]",
                "return list(self.sessions)",
            ),
        ),
        (f"{WHY}::test_a_description_of_a_dead_session_counts_for_nothing",),
    ),
    Mutant(
        "M248",
        "the jobs before one are counted to the end of the line (SQLite)",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "AND (rank, available_at, id) < (:rank, :available_at, :id)\n         LIMIT :at_most);",
                "AND (rank, available_at, id) < (:rank, :available_at, :id));",
            ),
        ),
        (f"{ON_SQLITE}::test_none_is_counted_beyond_the_limit",),
    ),
    Mutant(
        "M249",
        "a paused queue is said to starve another",
        (Edit(f"{REASONS}/due.py", "and not queue.paused and", "and"),),
        (f"{WHY}::test_a_paused_queue_starves_no_other",),
    ),
    Mutant(
        "M250",
        "a job that is due and that no worker made available is not the oldest (memory)",
        (
            Edit(
                f"{MEMORY}/overview.py",
                "return job.state is State.AVAILABLE or (job.state in _LATER and job.available_at <= now)",
                "return job.state is State.AVAILABLE",
            ),
        ),
        (f"{ON_MEMORY}::test_a_job_that_is_due_and_was_not_made_available_is_the_oldest",),
    ),
    Mutant(
        "M251",
        "a success that was forgotten is said to hold its key (memory)",
        (
            Edit(
                f"{MEMORY}/settling.py",
                "holds = _valid(store, pointer) if pointer.until is None else pointer.until > now",
                "holds = pointer.until is not None or _valid(store, pointer)",
            ),
        ),
        (f"{ON_MEMORY}::test_a_success_is_named_until_it_is_forgotten",),
    ),
    Mutant(
        "M252",
        "a job that was booked for a token is said to be enqueued for then",
        (Edit(f"{REASONS}/gates.py", "return closed[0] if closed else None", "return None"),),
        (f"{ON_MEMORY}::test_a_job_that_was_booked_for_a_token_of_its_key_waits_for_that",),
    ),
    Mutant(
        "M280",
        "a flow that is cancelled while a node opens leaves the jobs that were opened already (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "if name in flow.live and (name in late or flow.ends(node))",
                "if name in flow.live and name not in flow.swept and (name in late or flow.ends(node))",
            ),
        ),
        (f"{ON_SQLITE}::test_a_flow_that_is_cancelled_while_a_large_node_opens_starts_no_more",),
    ),
    Mutant(
        "M281",
        "a job that is added to a node that has run waits for ever (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                "    late = {name for (name,) in rows}\n",
                "    late: set[str] = {name for (name,) in rows if not name}\n",
            ),
        ),
        (f"{ON_SQLITE}::test_what_a_replayed_run_adds_to_a_node_that_is_over_does_not_wait_for_ever",),
    ),
    Mutant(
        "M282",
        "all turns of a flow wait for a caller who has completed a job of it (postgres)",
        (
            Edit(
                f"{POSTGRES}/backend.py",
                "return settle_fenced(tx, settlement, leave_to_completed)",
                "return settle_fenced(tx, settlement, self._look_joined)",
            ),
        ),
        (f"{FLOWS_ON_POSTGRES}::TestCallersTransactions::{WHILE_A_CALLER}",),
    ),
    Mutant(
        "M253",
        "a node is over when its live jobs have ended, while its failed ones are still being replayed (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flow_in_look.py",
                "return name in self.live or name in self.replays",
                "return name in self.live",
            ),
        ),
        (f"{IN_STEPS}::test_what_comes_after_stays_shut_while_failed_jobs_are_still_to_be_replayed",),
    ),
    Mutant(
        "M254",
        "a retry replays all failed jobs of a node in one transaction (SQL)",
        (
            Edit(
                "src/onward/backends/sql/flows.py",
                '"after": flow.swept[node.name], "limit": room}\n        found',
                '"after": flow.swept[node.name], "limit": (room := 10**9)}\n        found',
            ),
        ),
        (f"{IN_STEPS}::test_a_retry_replays_a_thousand_jobs_in_each_transaction",),
    ),
    Mutant(
        "M255",
        "a retry of a completed flow begins its retention anew (SQL)",
        (Edit("src/onward/backends/sql/flow_verbs.py", 'if flows[0].state == "completed":', "if False:"),),
        (f"{ON_SQLITE}::test_a_retry_of_a_completed_flow_changes_nothing",),
    ),
    Mutant(
        "M268",
        "the check of a deployment stops after its first page",
        (
            Edit(
                f"{GATE}/gate.py",
                "            if len(page) < wanted:\n                return\n            left",
                "            return\n            left",
            ),
        ),
        (f"{CHECKS}::TestEveryStore::test_all_that_waits_is_checked_and_nothing_is_changed[sqlite]",),
    ),
    Mutant(
        "M269",
        "the check of a deployment does not ask whether arguments fit",
        (Edit(f"{GATE}/gate.py", "        found.entry.fit(letter.payload)\n", "        pass\n"),),
        (f"{CHECKS}::test_the_check_says_what_a_worker_would_do",),
    ),
    Mutant(
        "M270",
        "the check of a deployment shows the secrets of a job",
        (
            Edit(
                f"{GATE}/gathering.py",
                "None if record is None else record.payload",
                "None if record is None else record.reveal()",
            ),
        ),
        (f"{CHECKS}::test_secrets_of_arguments_are_masked",),
    ),
    Mutant(
        "M271",
        "the check of a deployment passes jobs whose budget a worker finds spent",
        (
            Edit(
                f"{GATE}/gate.py",
                "spent = None if ends else overdrawn(job.attempts, found.terms)",
                "spent: str | None = None",
            ),
        ),
        (f"{CHECKS}::TestMending::test_a_budget_that_became_smaller_is_raised",),
    ),
    Mutant(
        "M300",
        "a fingerprint has line numbers in it: every deployment splits its groups",
        (
            Edit(
                "src/onward/base/fingerprint.py",
                "places.append((file, code.co_qualname))",
                'places.append((file, f"{code.co_qualname}:{traceback.tb_lineno}"))',
            ),
        ),
        ("tests/base/test_fingerprint.py::test_lines_do_not_count",),
    ),
    Mutant(
        "M301",
        "the message of an encrypted job enters its fingerprint",
        (
            Edit(
                "src/onward/security/encryption.py",
                "without_text(failure.fingerprint, failure.kind, failure.message)",
                "failure.fingerprint",
            ),
        ),
        ("tests/application/test_death_groups.py::test_the_message_of_an_encrypted_job_is_not_in_its_fingerprint",),
    ),
    Mutant(
        "M302",
        "the folder of a deployment enters fingerprints",
        (
            Edit(
                "src/onward/base/fingerprint.py",
                "    below = file if root is None else file[len(root) :]\n",
                "    root = None\n    below = file\n",
            ),
        ),
        ("tests/base/test_fingerprint.py::test_the_folder_of_a_deployment_does_not_count",),
    ),
    Mutant(
        "M303",
        "SQLite counts a group without a limit",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "WHERE died.job = first.job AND died.fingerprint = first.fingerprint LIMIT :at_most)),",
                "WHERE died.job = first.job AND died.fingerprint = first.fingerprint)),",
            ),
        ),
        (
            f"{ON_SQLITE}::test_no_group_is_counted_beyond_the_limit",
            "tests/backends/sqlite/test_deaths.py::test_groups_cost_the_same_however_many_jobs_have_died",
        ),
    ),
    Mutant(
        "M304",
        "a replay in memory leaves the job in its group",
        (
            Edit(
                f"{MEMORY}/store.py",
                "        del self.finished[job_id]\n        self.deaths.remove(job_id)\n",
                "        del self.finished[job_id]\n",
            ),
        ),
        (f"{ON_MEMORY}::test_a_replayed_job_leaves_its_group",),
    ),
    Mutant(
        "M305",
        "PostgreSQL leaves a job that ended again under its id in the group of its death",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                """                excluded.progress, excluded.result, excluded.sealed, excluded.fingerprint)
), released AS (""",
                """                excluded.progress, excluded.result, excluded.sealed, onward_finished.fingerprint)
), released AS (""",
            ),
        ),
        (f"{ON_POSTGRES}::test_a_job_enqueued_again_under_its_id_takes_the_dead_one_out_of_its_group",),
    ),
    Mutant(
        "M306",
        "Redis leaves a job that was purged in its group",
        (
            Edit(
                f"{REDIS}/scripts/lib/jobs.lua",
                "    if old.died then zset('deaths', deaths.member(old), false) end\n",
                "",
            ),
        ),
        (f"{ON_REDIS}::test_a_purged_job_leaves_its_group",),
    ),
    Mutant(
        "M307",
        "a query by a fingerprint acts on all jobs of the name",
        (
            Edit(
                "src/onward/backends/sql/inspection.py",
                "return ids if query.fingerprint is None else deaths.dead_among(tx, ids, query)",
                "return ids",
            ),
        ),
        (f"{ON_SQLITE}::test_ids_are_listed_if_they_are_in_the_group",),
    ),
    Mutant(
        "M308",
        "what was enqueued after a preview is swept along",
        (
            Edit(
                "src/onward/backends/sql/rows.py",
                "return ids if query.until is None else [job_id for job_id in ids if job_id <= query.until]",
                "return ids",
            ),
        ),
        (f"{ON_SQLITE}::test_only_up_to_the_last_id_is_replayed_and_purged",),
    ),
    Mutant(
        "M309",
        "a crash is recorded without the worker that died",
        (
            Edit(
                f"{SQLITE}/reaping.py",
                "lease._replace(by=workers.get(lease.owner))",
                "lease._replace(by=None)",
            ),
        ),
        (f"{ON_SQLITE}::test_a_crash_names_the_worker_whose_session_was_reaped",),
    ),
    Mutant(
        "M310",
        "a canary goes on after a job that failed again",
        (Edit(f"{OPERATE}/canary.py", 'return self.happened in ("failed", "impatient")', "return False"),),
        (f"{CANARY}::TestSteps::test_the_first_that_fails_again_stops_it_and_the_others_stay_dead",),
    ),
    Mutant(
        "M311",
        "a canary does not count a failed run whose job is tried again",
        (Edit(f"{OPERATE}/canary.py", 'frozenset({"nack", "abandon", "crashed"})', 'frozenset({"abandon"})'),),
        (
            f"{CANARY}::TestJudging::test_a_failed_run_counts_though_the_job_is_tried_again",
            f"{CANARY}::TestJudging::test_a_crash_counts",
        ),
    ),
    Mutant(
        "M312",
        "a canary counts the runs of a job's first life",
        (Edit(f"{OPERATE}/canary.py", "run.token > token and run.move in _FAILED", "run.move in _FAILED"),),
        (f"{CANARY}::TestJudging::test_the_runs_of_its_first_life_do_not_count",),
    ),
    Mutant(
        "M313",
        "a bulk act changes what arrived after its preview",
        (
            Edit(f"{OPERATE}/finding.py", "stored.id <= self.id and changed <= self.at", "changed <= self.at"),
            Edit(f"{OPERATE}/finding.py", 'if (walk.at or "") >= until.id:\n                    return', "pass"),
        ),
        (f"{BULK}::TestNoMore::test_what_is_enqueued_after_the_preview_is_left_alone",),
    ),
    Mutant(
        "M314",
        "a bulk act changes an older job that died after its preview",
        (Edit(f"{OPERATE}/finding.py", "stored.id <= self.id and changed <= self.at", "stored.id <= self.id"),),
        (f"{BULK}::TestNoMore::test_an_older_job_that_dies_after_the_preview_is_left_alone",),
    ),
    Mutant(
        "M315",
        "an edit whose job has ended makes it again",
        (
            Edit(
                f"{OPERATE}/acts.py",
                "self._backend.enqueue(envelopes, retried=True, audit=of_old)",
                "self._backend.enqueue(envelopes, audit=of_old)",
            ),
        ),
        (f"{EDITING}::TestMadeOnce::test_a_lost_answer_makes_no_second_job",),
    ),
    Mutant(
        "M316",
        "an edit signs a job that does not verify",
        (
            Edit(
                f"{OPERATE}/editing.py",
                "open_sealed(sealed, verify=signing.verify if signing.required else None)",
                "open_sealed(sealed)",
            ),
        ),
        (f"{EDITING}::TestSigning::test_what_does_not_verify_is_not_signed[sqlite]",),
    ),
    Mutant(
        "M317",
        "an edit takes the unique key of a live job",
        (Edit(f"{OPERATE}/editing.py", 'unique_strategy="ignore_new"', "unique_strategy=letter.unique_strategy"),),
        (f"{EDITING}::TestKeysAndLanes::test_a_live_job_keeps_its_key",),
    ),
    Mutant(
        "M318",
        "a filter matches secrets in the clear",
        (
            Edit(
                f"{OPERATE}/finding.py",
                "            return self.record.payload\n",
                "            return self.record.reveal()\n",
            ),
        ),
        ("tests/application/test_filters.py::TestSecrets::test_they_are_never_matched_in_the_clear",),
    ),
    Mutant(
        "M319",
        "a search is not bounded",
        (Edit(f"{OPERATE}/finding.py", "walk.looked >= LOOKED_AT or ", ""),),
        (
            "tests/application/test_filters.py::TestPages::test_a_search_stops_after_so_many_jobs_and_says_where_to_go_on",
        ),
    ),
    Mutant(
        "M320",
        "an act that changed nothing leaves an entry",
        (
            Edit(
                "src/onward/contract/audit.py",
                "        return []\n    return [\n",
                "        changed = ()\n    return [\n",
            ),
        ),
        (f"{ON_SQLITE}::test_an_act_that_changed_nothing_leaves_no_entry[cancel]",),
    ),
    Mutant(
        "M321",
        "an entry is stored in a transaction of its own",
        (
            Edit(
                "src/onward/backends/sql/audit.py",
                "self._store_audit(tx, audit, changed(result))",
                "self._write(lambda own: self._store_audit(own, audit, changed(result)))",
            ),
        ),
        ("tests/application/test_audit_killed.py::test_both_are_there_or_neither_is[postgres-before the commit]",),
    ),
    Mutant(
        "M322",
        "entries stay when their job is pruned",
        (Edit(f"{SQLITE}/inspection.py", '            tx.ask("forget_audit", ids=list(doomed))\n', ""),),
        (
            f"{ON_SQLITE}::test_entries_are_pruned_with_their_job",
            f"{ON_SQLITE}::test_entries_are_purged_with_their_job",
        ),
    ),
    Mutant(
        "M323",
        "entries of jobs are dropped after ninety days, too",
        (
            Edit(
                f"{SQLITE}/queries.sql", "WHERE job_id = '' AND at <= :now - :kept_for", "WHERE at <= :now - :kept_for"
            ),
        ),
        (f"{ON_SQLITE}::test_entries_of_no_job_are_kept_for_ninety_days",),
    ),
    Mutant(
        "M324",
        "the signature of an entry does not bind its job",
        (
            Edit(
                "src/onward/client/auditing.py",
                "return entry.who, entry.act, entry.job_id, str(entry.at)",
                "return entry.who, entry.act, str(entry.at)",
            ),
        ),
        (f"{AUDIT}::TestSignatures::test_the_signature_of_one_job_is_none_for_another",),
    ),
    Mutant(
        "M325",
        "the secrets of a job are kept in a reason",
        (Edit("src/onward/client/auditing.py", "            reason = scrub(reason)\n", "            scrub(reason)\n"),),
        (f"{AUDIT}::TestWhatIsKept::test_the_secrets_of_a_job_are_not_in_a_reason[memory]",),
    ),
    Mutant(
        "M326",
        "a job that was asked to cancel before gets another entry",
        (Edit(f"{SQLITE}/inspection.py", "[*(found.keys() - asked)] or None", "[*found] or None"),),
        (f"{ON_SQLITE}::test_a_job_that_was_asked_to_cancel_before_is_not_changed_again",),
    ),
    Mutant(
        "M327",
        "entries are lost when their job goes to another store",
        (
            Edit(
                "src/onward/backends/sql/transfer.py",
                '            self._insert(tx, "store_audit", audit_rows(entries))\n',
                "",
            ),
        ),
        (f"{ON_SQLITE}::test_entries_go_with_their_job_to_another_store",),
    ),
    Mutant(
        "M328",
        "a page of the audit trail on Redis begins with the last entry of the page before",
        (
            Edit(
                f"{REDIS}/scripts/lib/audit.lua",
                "local from = rank and rank + 1 or",
                "local from = rank and rank or",
            ),
            Edit(
                f"{REDIS}/scripts/lib/audit.lua",
                "struct.unpack('>I8', each) < number",
                "struct.unpack('>I8', each) <= number",
            ),
        ),
        (f"{ON_REDIS}::test_pages_go_from_the_newest_to_the_oldest",),
    ),
    Mutant(
        "M329",
        "an entry that was changed is not shown as altered",
        (
            Edit(
                "src/onward/security/signing.py",
                'return "verified" if is_right else "altered"',
                'return "verified" if is_right else "unknown"',
            ),
        ),
        (f"{AUDIT}::TestSignatures::test_an_entry_that_was_changed_is_shown_as_altered[who = 'bob']",),
    ),
    Mutant(
        "M330",
        "a sample that is repeated stands beside the one before",
        (
            Edit(
                f"{SQLITE}/queries.sql",
                "DO UPDATE SET width = 0, data = excluded.data",
                "DO UPDATE SET data = onward_series.data || excluded.data",
            ),
        ),
        (f"{ON_SQLITE}::test_a_later_sample_of_the_minute_replaces_the_one_before",),
    ),
    Mutant(
        "M331",
        "a sample of a closed minute is stored",
        (
            Edit(
                "src/onward/contract/samples.py",
                "return minute - MINUTE, minute + _OPEN",
                "return minute - MINUTE, minute + _KEPT",
            ),
        ),
        (f"{ON_SQLITE}::test_a_minute_that_is_merged_gets_no_further_sample",),
    ),
    Mutant(
        "M332",
        "a minute is merged while samples of it may come",
        (
            Edit(
                "src/onward/contract/samples.py",
                "return start + _CLOSED, start + _MINUTES_STAY",
                "return start, start + _MINUTES_STAY",
            ),
        ),
        (f"{ON_SQLITE}::test_a_minute_is_not_merged_while_samples_of_it_may_come",),
    ),
    Mutant(
        "M333",
        "the rows of a stretch stay beside their sum",
        (
            Edit(
                "src/onward/backends/sql/samples.py",
                '            tx.ask("drop_stretch", first=start, before=start + width)\n',
                '            tx.ask("drop_stretch", first=start, before=start)\n',
            ),
        ),
        (f"{ON_SQLITE}::test_ten_minutes_are_replaced_by_one_row",),
    ),
    Mutant(
        "M334",
        "samples are kept for ever",
        (Edit(f"{MEMORY}/samples.py", "if key[0] < kept_since(now)]", "if key[0] < 0]"),),
        ("tests/contract/test_memory.py::TestMemory::test_the_sampler_removes_what_is_older_than_seven_days",),
    ),
    Mutant(
        "M335",
        "what was counted in a minute before is in the sample of the next one, too",
        (
            Edit(
                "src/onward/operate/series/sampling.py",
                "self._minute, self._before_minute = minute, self._told",
                "self._minute = minute",
            ),
        ),
        (f"{SAMPLING}::test_a_sample_has_what_was_counted_in_its_minute",),
    ),
    Mutant(
        "M336",
        "a sample whose answer was lost is not sent again",
        (
            Edit(
                "src/onward/operate/series/sampling.py", "return self._repeated() or self._new()", "return self._new()"
            ),
        ),
        (f"{SAMPLING}::test_over_six_hours_of_lost_answers_every_number_arrives_once_and_the_rows_stay_few",),
    ),
    Mutant(
        "M337",
        "what a merged row has no room for is left out",
        (
            Edit(
                "src/onward/operate/series/measured.py",
                "return added_up({pair if pair in busiest else OTHER: each} for pair, each in numbers.items())",
                "return {pair: each for pair, each in numbers.items() if pair in busiest}",
            ),
        ),
        (
            "tests/operate/series/test_measured.py::test_of_very_many_series_the_busiest_are_kept_and_the_others_added_up",
        ),
    ),
    Mutant(
        "M338",
        "a renewal fails with its sample",
        (
            Edit(
                "src/onward/contract/samples.py",
                "    except Exception as error:  # noqa: BLE001  the session is renewed",
                "    except ArithmeticError as error:  # the session is renewed",
            ),
        ),
        (
            "tests/supervisor/test_store_thread.py::TestSamples::test_trouble_with_samples_is_no_outage",
            f"{SAMPLING}::TestTrouble::test_a_store_that_refuses_samples_is_told_of_once_and_asked_less_often",
        ),
    ),
    Mutant(
        "M339",
        "a rate is told from a single job",
        (Edit("src/onward/operate/series/points.py", "_FEWEST = 20 ", "_FEWEST = 1 "),),
        ("tests/operate/series/test_points.py::test_a_rate_is_never_told_from_fewer_than_20_jobs",),
    ),
    Mutant(
        "M350",
        "a queue that no live worker serves is served by a dead one",
        (Edit(f"{HEALTH}/findings.py", "if each.session.expires_at > self.now]", "]"),),
        (
            f"{OF_HEALTH}::TestQueues::test_one_that_no_live_worker_serves_warns_at_once_and_fails_after_five_minutes",
            f"{OF_HEALTH}::TestWorkers::test_a_dead_worker_is_no_second_build",
        ),
    ),
    Mutant(
        "M351",
        "a queue that has a time of its own is late by that of all",
        (Edit(f"{HEALTH}/findings.py", "self.queue_late_after.get(queue, self.late_after)", "self.late_after"),),
        (f"{OF_HEALTH}::TestQueues::test_a_queue_may_have_a_time_of_its_own",),
    ),
    Mutant(
        "M352",
        "the first problem decides about a check, not the worst",
        (Edit(f"{HEALTH}/verdict.py", "_WORST_FIRST[problem.status]", "0"),),
        (f"{OF_HEALTH}::TestAll::test_the_worst_decides_and_its_fix_is_named",),
    ),
    Mutant(
        "M353",
        "a schedule that left the code is late until it is removed",
        (Edit(f"{HEALTH}/schedules.py", "and _has_left(found, schedule)", "and False"),),
        (f"{OF_HEALTH}::TestSchedules::test_one_that_left_the_code_is_not",),
    ),
    Mutant(
        "M354",
        "a worker is blamed for keys that it has read again meanwhile",
        (Edit(f"{HEALTH}/workers.py", " and not description.key_file", ""),),
        (
            (
                f"{OF_HEALTH}::TestWorkers::"
                "test_a_worker_that_reads_its_key_file_again_is_not_blamed_for_what_it_said_at_its_start"
            ),
        ),
    ),
    Mutant(
        "M355",
        "the time that a question took counts as a difference of clocks",
        (Edit(f"{HEALTH}/workers.py", " - found.asked_for", ""),),
        (f"{OF_HEALTH}::TestWorkers::test_clocks_may_differ_by_two_seconds_and_by_how_long_the_question_took",),
    ),
    Mutant(
        "M356",
        "a check that fails for one queue more is not told",
        (Edit(f"{HEALTH}/changes.py", " or not set(now.about) <= set(before.about)", ""),),
        (f"{OF_HEALTH}::TestChanges::test_one_queue_more_is_told_and_one_less_is_not",),
    ),
    Mutant(
        "M357",
        "every late queue is explained, however many there are",
        (Edit(f"{HEALTH}/asking.py", "_EXPLAINED = 3 ", "_EXPLAINED = 1000 "),),
        (f"{OF_HEALTH}::TestAsking::test_at_most_three_late_queues_and_three_parked_names_are_explained",),
    ),
    Mutant(
        "M358",
        "onward health passes if a check warns, however strict",
        (Edit("src/onward/cli/health.py", '{"fail", "warn"} if args.strict', '{"fail"} if args.strict'),),
        (
            (
                "tests/cli/test_health.py::TestTable::"
                "test_a_check_that_fails_is_a_failure_and_a_warning_is_one_if_it_is_strict"
            ),
        ),
    ),
    Mutant(
        "M359",
        "onward top pauses a queue without a question",
        (
            Edit(
                "src/onward/cli/top_view.py",
                'key not in ("y", "Y")',
                'key == "x"',
            ),
        ),
        ("tests/cli/test_top.py::TestLive::test_p_pauses_the_chosen_queue_when_that_is_confirmed",),
    ),
    Mutant(
        "M340",
        "what a process has counted goes with it",
        (
            Edit(
                "src/onward/supervisor/boards.py",
                "            self._ended = self._bounded(added_up([self._ended, process.board.counters.numbers()]))\n",
                "",
            ),
        ),
        (f"{BOARDS}::test_what_a_process_has_counted_survives_it",),
    ),
    Mutant(
        "M341",
        "pairs of all processes together have no bound",
        (
            Edit(
                "src/onward/supervisor/boards.py",
                "if pair != OTHER and len(self._named) < SERIES - 1:",
                "if pair != OTHER:",
            ),
        ),
        ("tests/supervisor/test_boards.py::test_pairs_beyond_the_bound_are_added_up_however_processes_come_and_go",),
    ),
    Mutant(
        "M342",
        "the last series is taken by a pair of its own",
        (Edit("src/onward/telemetry/counters.py", "next(self._free)) >= SERIES - 1:", "next(self._free)) >= SERIES:"),),
        ("tests/telemetry/test_counters.py::test_more_pairs_than_there_are_series_are_counted_as_other",),
    ),
    Mutant(
        "M343",
        "labels of metrics are not escaped",
        (Edit("src/onward/telemetry/exposition.py", "{each.translate(_ESCAPES)}", "{each}"),),
        ("tests/telemetry/test_exposition.py::test_no_name_ends_its_quotes_or_its_line",),
    ),
    Mutant(
        "M344",
        "every delivery counts as a wait",
        (Edit("src/onward/attempt/report.py", "letter is None or lease.token != 1 or inherited", "letter is None"),),
        ("tests/telemetry/test_counters.py::test_the_first_delivery_tells_how_long_a_job_was_due",),
    ),
    Mutant(
        "M345",
        "a wait may be less than nothing",
        (Edit("src/onward/attempt/report.py", "waits.append(waited if waited > 0 else 0)", "waits.append(waited)"),),
        ("tests/telemetry/test_counters.py::test_a_job_waits_from_when_it_was_due_and_never_less_than_nothing",),
    ),
    Mutant(
        "M346",
        "a store that is away makes a worker look dead",
        (
            Edit(
                "src/onward/supervisor/probes.py",
                'return f"silent: {self._silent}" if self._silent else None',
                'return "away" if self._silent or (self._look.settings and not self.store_fresh()) else None',
            ),
        ),
        ("tests/supervisor/test_probes.py::test_a_store_that_does_not_answer_is_no_reason_for_a_restart",),
    ),
    Mutant(
        "M347",
        "a fork counts into the table of its parent",
        (Edit("src/onward/telemetry/metrics.py", "            self._table = ours\n", ""),),
        ("tests/telemetry/test_counters.py::test_a_fork_counts_apart_from_its_parent",),
    ),
    Mutant(
        "M348",
        "an error in counting reaches the pump",
        (
            Edit(
                "src/onward/telemetry/metrics.py",
                "table.add_runs(pair, runs)\n        except Exception as error:",
                "table.add_runs(pair, runs)\n        except ZeroDivisionError as error:",
            ),
        ),
        ("tests/telemetry/test_counters.py::test_an_error_in_counting_is_logged_once_and_raises_nothing",),
    ),
    Mutant(
        "M349",
        "clients that hold connections keep probes out",
        (Edit("src/onward/supervisor/http.py", "while len(self._connections) >= _MOST_CONNECTIONS:", "while False:"),),
        ("tests/supervisor/test_http.py::test_clients_that_hold_connections_keep_no_probe_out",),
    ),
    Mutant(
        "M360",
        "why advises to replay a dead job without looking at its group",
        (
            Edit(
                "src/onward/operate/why/finished.py",
                '    if group is None:\n        return f"onward job retry {case.job_id}"',
                '    if group is None or group.number:\n        return f"onward job retry {case.job_id}"',
            ),
        ),
        (
            "tests/operate/test_why.py::test_a_dead_job_is_replayed_by_a_canary_where_the_store_groups_dead_jobs[gave up]",
        ),
    ),
    Mutant(
        "M361",
        "a purge by a filter does not say which ids it removed",
        (
            Edit(
                "src/onward/operate/acts.py",
                'ref=f"{min(ids)}-{max(ids)}", reason=self._reason))',
                "ref=self._ref, reason=self._reason))",
            ),
        ),
        ("tests/cli/test_audit.py::test_why_names_who_purged_jobs_by_a_filter",),
    ),
    Mutant(
        "M362",
        "a group beyond those that a look shows matches nothing",
        (
            Edit(
                "src/onward/operate/finding.py",
                "            return msgspec.structs.replace(parsed, states=_DEAD)\n",
                "",
            ),
        ),
        (
            (
                "tests/application/test_triage_by_group.py::TestFilter"
                "::test_a_group_beyond_those_that_a_look_shows_is_found_by_its_job_and_its_whole_name[memory]"
            ),
        ),
    ),
    Mutant(
        "M363",
        "a worker in a program keeps its last numbers to itself",
        (Edit("src/onward/worker/worker.py", "self._parts.samples.finish()", "pass"),),
        (("tests/worker/test_samples.py::test_what_was_counted_since_the_last_renewal_is_sent_when_the_worker_stops"),),
    ),
    Mutant(
        "M364",
        "a look at PostgreSQL sorts all scheduled jobs of a queue",
        (
            Edit(
                "src/onward/backends/postgres/queries.sql",
                "AND booked IS NULL ORDER BY booked, available_at LIMIT 1),\n       (SELECT",
                "AND booked IS NULL ORDER BY available_at LIMIT 1),\n       (SELECT",
            ),
        ),
        ("tests/proof/test_looks.py::test_a_look_costs_what_it_may_count_whatever_is_stored[looks_at_full_tables]",),
    ),
    Mutant(
        "M365",
        "every person who watches a store makes a look",
        (
            Edit(
                f"{OPERATE}/shared_watch.py",
                "(self._clock() < self._next_at or (self._looking.locked() and self._is_recent(last)))",
                "(self._looking.locked() and self._is_recent(last))",
            ),
            Edit(
                f"{OPERATE}/shared_watch.py",
                "if self._last is None or self._clock() >= self._next_at:",
                "if self._clock():",
            ),
        ),
        ("tests/operate/test_shared_watch.py::test_fifty_people_cost_one_look_in_two_seconds",),
    ),
    Mutant(
        "M366",
        "a look that fails is repeated without a pause for what it has cost",
        (
            Edit(
                f"{OPERATE}/watching.py",
                "        finally:  # a look that fails after its time limit has cost as much as one that succeeds\n",
                "        except ArithmeticError:\n",
            ),
        ),
        ("tests/operate/test_shared_watch.py::test_looks_and_checks_take_at_most_five_of_a_hundred_seconds",),
    ),
    Mutant(
        "M367",
        "a search by a queue walks through all that is stored",
        (
            Edit(
                f"{OPERATE}/finding.py",
                "self.finder.page(msgspec.structs.replace(query, within=STORE_LOOKS_FOR))",
                "self.finder.page(query)",
            ),
        ),
        ("tests/application/test_filters.py::TestSlowStores::test_a_search_in_vain_ends_after_so_many_jobs",),
    ),
    Mutant(
        "M368",
        "a page of jobs has no time limit (SQL)",
        (
            Edit(
                "src/onward/backends/sql/inspection.py",
                "self._read(look) if query.within is None else self._read_briefly(look, query.within)",
                "self._read(look)",
            ),
        ),
        ("tests/backends/sqlite/test_overview.py::test_a_page_of_jobs_that_is_not_found_in_time_is_given_up",),
    ),
    Mutant(
        "M369",
        "what a handler enqueues in a process of its own is not counted",
        (
            Edit(
                "src/onward/entry/isolated.py",
                "        self._metrics.pass_on_to(self._counted)\n",
                "",
            ),
        ),
        ("tests/worker/test_isolated_counts.py::test_jobs_that_a_handler_enqueues_in_its_own_process_are_counted",),
    ),
    Mutant(
        "M370",
        "a process that a handler forks writes into the channel of its parent",
        (
            Edit(
                "src/onward/telemetry/metrics.py",
                "            self._pass_on = None  # what two processes write at once into one channel could not be read\n",
                "",
            ),
        ),
        (
            (
                "tests/worker/test_isolated_counts.py"
                "::test_a_process_that_the_handler_forks_does_not_write_into_its_channel"
            ),
        ),
    ),
    Mutant(
        "M371",
        "the dashboard lets every role do everything",
        (Edit(f"{WEB}/dashboard.py", "if not user.may(route.role):", "if not user.name:"),),
        ("tests/web/test_roles.py::test_every_route_asks_for_its_role[POST api/v1/jobs/{id}/retry]",),
    ),
    Mutant(
        "M372",
        "the dashboard takes writes that another site causes",
        (Edit(f"{WEB}/guard.py", "    if not fits:\n", "    if not fits and not site and not origin:\n"),),
        ("tests/web/test_guard.py::test_a_write_that_another_site_causes_is_refused",),
    ),
    Mutant(
        "M373",
        "the dashboard shows arguments of jobs whose secrets it cannot know",
        (Edit(f"{WEB}/views.py", '("", _HIDDEN) if hides_arguments(record) else ', ""),),
        ("tests/web/test_data.py::test_what_this_process_does_not_define_is_not_shown",),
    ),
    Mutant(
        "M374",
        "the dashboard takes a ticket that was changed",
        (Edit(f"{WEB}/tickets.py", "if not hmac.compare_digest(signature, self._signature(data)):", "if not data:"),),
        ("tests/web/test_bulk.py::test_a_ticket_is_for_who_saw_it_for_five_minutes_and_as_it_was",),
    ),
    Mutant(
        "M375",
        "the dashboard shows secrets among the results of jobs",
        (Edit(f"{WEB}/views.py", "json_text(masked(record.result))", "json_text(record.result)"),),
        ("tests/web/test_data.py::test_no_route_tells_a_secret[sqlite]",),
    ),
    Mutant(
        "M376",
        "why names a pause before the time at which a job is due",
        (
            Edit(
                f"{OPERATE}/why/rules.py",
                "    waiting.not_due,\n    due.paused,\n",
                "    due.paused,\n    waiting.not_due,\n",
            ),
        ),
        (f"{WHY}::test_the_obstacles_behind_the_first_are_named",),
    ),
    Mutant(
        "M377",
        "a person who sees one queue is told why a job of no queue is gone",
        (Edit(f"{WEB}/asking.py", "if job_id is None or self.user.queues is not None:", "if job_id is None:"),),
        ("tests/web/test_roles.py::test_a_person_of_one_queue_sees_and_changes_no_other",),
    ),
    Mutant(
        "M470",
        "a bulk act goes on when the browser that asked for it is gone",
        (Edit(f"{WEB}/asgi.py", "while not gone.done():", "while True:"),),
        ("tests/web/test_hosts.py::test_a_connection_that_is_cut_stops_the_act_after_the_batch[bare]",),
    ),
    Mutant(
        "M378",
        "events that were dropped in a minute are told in the next one, too",
        (Edit(f"{OPERATE}/series/sampling.py", "get(_DROPPED, 0)", "get(_DROPPED, 0) and self._events_dropped()"),),
        ("tests/operate/series/test_sampling.py::test_a_sample_has_what_was_counted_in_its_minute",),
    ),
    Mutant(
        "M379",
        "the supervisor does not send how many events were dropped",
        (Edit("src/onward/supervisor/store_thread.py", ", dropped=self._processes.events_dropped", ""),),
        (
            (
                "tests/supervisor/test_store_thread.py::TestSamples"
                "::test_the_first_renewal_of_a_round_brings_what_the_processes_have_counted"
            ),
        ),
    ),
    Mutant(
        "M380",
        "a task of Celery's is retried after exceptions that it does not list",
        (
            Edit(
                f"{COMPAT}/celery/options.py",
                '"retry_on": tuple(said.get("autoretry_for") or ()),',
                '"retry_on": tuple(said.get("autoretry_for") or ()) or None,',
            ),
        ),
        ("tests/compat/test_tasks.py::TestRetries::test_only_what_is_listed_is_retried",),
    ),
    Mutant(
        "M381",
        "an immutable link of a chain takes the result of the one before it",
        (Edit(f"{COMPAT}/celery/canvas.py", "None if first.immutable else before.feed", "before.feed"),),
        ("tests/compat/test_canvas.py::test_each_part_takes_the_result_of_the_one_before_it",),
    ),
    Mutant(
        "M382",
        "a task of Celery's that asks for fewer retries gets all of them",
        (
            Edit(
                f"{COMPAT}/celery/task.py",
                "if ctx.attempt > (ctx.max_retries if max_retries is None else max_retries):",
                "if ctx.attempt > ctx.max_retries:",
            ),
        ),
        ("tests/compat/test_tasks.py::TestRetries::test_fewer_retries_can_be_asked_for",),
    ),
    Mutant(
        "M385",
        "the template tells that every process ended well",
        (Edit(f"{ENTRY}/template.py", "ForkEnded(code)", "ForkEnded(0)"),),
        (f"{TEMPLATES}::test_the_end_of_a_forked_process_is_told_as_that_of_a_fresh_one",),
    ),
    Mutant(
        "M386",
        "a template in which threads run is forked",
        (Edit(f"{ENTRY}/fork_safety.py", "    if threads or tasks:\n", "    if tasks < 0:\n"),),
        (f"{TEMPLATES}::test_a_template_whose_import_leaves_something_behind_is_not_forked",),
    ),
    Mutant(
        "M387",
        "a template with open sockets is forked",
        (
            Edit(
                f"{ENTRY}/fork_safety.py",
                '("socket:", "anon_inode:")):\n        return True',
                '("anon_inode:")):\n        return True\n    if target.startswith("socket:"):\n        return False',
            ),
        ),
        (f"{TEMPLATES}::test_a_template_whose_import_leaves_something_behind_is_not_forked",),
    ),
    Mutant(
        "M388",
        "a forked process outlives its template",
        (Edit(f"{ENTRY}/template.py", "            end_with_parent()\n", ""),),
        (f"{TEMPLATES}::test_a_worker_that_is_killed_takes_its_template_and_all_forks_along",),
    ),
    Mutant(
        "M389",
        "a template whose import has failed is kept",
        (
            Edit(
                "src/onward/worker/template.py",
                "                    self._end(process)\n                    raise CannotPreload(problem)\n",
                "                    raise CannotPreload(problem)\n",
            ),
        ),
        (f"{TEMPLATES}::test_a_job_whose_import_fails_is_put_aside_and_the_next_imports_again",),
    ),
    Mutant(
        "M390",
        "a forked worker process runs although the supervisor never knew its pid",
        (Edit(f"{ENTRY}/worker_template.py", "    if not known:\n        os._exit(0)\n", ""),),
        (f"{WORKER_TEMPLATES}::test_a_forked_process_that_nobody_knows_opens_no_session",),
    ),
    Mutant(
        "M391",
        "the relay does not look for what the application starts after a fork",
        (
            Edit(
                f"{ENTRY}/worker_template.py",
                "        reason = why_not_fork(open_before)\n        pid =",
                "        reason = None\n        pid =",
            ),
        ),
        (f"{WORKER_TEMPLATES}::test_an_application_that_does_not_bear_a_fork_is_served_by_fresh_interpreters",),
    ),
    Mutant(
        "M392",
        "a template that stands still is waited for",
        (
            Edit(
                "src/onward/supervisor/worker_forks.py",
                "self._clock() - self._asked_at > _ANSWERS_WITHIN",
                "self._clock() < self._asked_at",
            ),
        ),
        (f"{WORKER_TEMPLATES}::test_a_template_that_stands_still_leaves_no_place_empty",),
    ),
    Mutant(
        "M393",
        "processes are forked however often forked ones end before they have started",
        (
            Edit(
                "src/onward/supervisor/worker_forks.py",
                "if self._failed_in_a_row >= _MOST_FAILED:",
                "if self._failed_in_a_row < 0:",
            ),
        ),
        (f"{WORKER_TEMPLATES}::test_an_application_that_does_not_bear_a_fork_is_served_by_fresh_interpreters",),
    ),
    Mutant(
        "M394",
        "a reload forks from the template that has imported the code of before",
        (
            Edit(
                "src/onward/supervisor/supervisor.py",
                "        self._awaits_change = False\n        self._fleet.end_template()\n",
                "        self._awaits_change = False\n",
            ),
        ),
        ("tests/supervisor/test_reload.py::test_new_code_runs_and_what_was_begun_is_finished_with_the_old",),
    ),
    Mutant(
        "M480",
        "a caller that was interrupted in the middle of a commit wakes nobody, and those behind it stay blocked",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "        while ticket is not None and ticket.left:\n",
                "        while False:\n",
            ),
        ),
        (f"{GROUP_COMMITS}::TestCallersThatWakeEachOther::test_those_behind_a_caller_that_was_interrupted_are_woken",),
    ),
    Mutant(
        "M481",
        "a failure is written over a lease that was lost (PostgreSQL)",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                " AND delivery = lease.token AND owner = :owner AND state = 'executing'\n                          LIMIT 1",
                "\n                          LIMIT 1",
            ),
            Edit(
                f"{POSTGRES}/queries.sql",
                " AND job.delivery = held.token AND job.owner IS NOT DISTINCT FROM :owner\n"
                "       AND job.state IS NOT DISTINCT FROM 'executing' AND job.cancel_reason IS NULL\n",
                "\n",
            ),
        ),
        (
            f"{SHORTCUTS_ON_POSTGRES}::TestSettling::test_of_many_failures_the_one_whose_lease_was_lost_is_told_apart",
            f"{SHORTCUTS_ON_POSTGRES}::TestSettling::test_of_many_failures_the_one_that_was_asked_to_cancel_is_cancelled",
            f"{RACES_ON_POSTGRES}::test_a_failure_that_waited_for_the_end_of_its_lease_changes_nothing",
        ),
    ),
    Mutant(
        "M481",
        "a failure that matched no lease counts as recorded (PostgreSQL)",
        (Edit(f"{POSTGRES}/settling.py", "        if count < len(self._failed):\n", "        if False:\n"),),
        (f"{SHORTCUTS_ON_POSTGRES}::TestSettling::test_of_many_failures_the_one_whose_lease_was_lost_is_told_apart",),
    ),
    Mutant(
        "M482",
        "what one queue allows, every queue allows",
        (
            Edit(
                "src/onward/attempt/prepare.py",
                "usual = entry, letter.job, letter.queue, letter.max_retries",
                'usual = entry, letter.job, "", letter.max_retries',
            ),
        ),
        (
            "tests/application/test_keyed_handlers.py::test_a_queue_that_allows_a_job_says_nothing_of_another_queue",
            "tests/application/test_settings.py::test_each_queue_keeps_its_own_policy_for_one_job",
        ),
    ),
    Mutant(
        "M501",
        "jobs that an interrupted leader had taken are stored by no other caller",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "            if leader not in self._tickets:",
                "            if False:",
            ),
        ),
        (f"{GROUP_COMMITS}::test_the_jobs_that_an_interrupted_leader_had_taken_are_stored_by_their_callers",),
    ),
    Mutant(
        "M502",
        "a caller that is interrupted as it gets the commit lock keeps it",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "            if self._is_mine():\n                self._commit_lock",
                "            if False:\n                self._commit_lock",
            ),
        ),
        (f"{GROUP_COMMITS}::test_a_caller_that_was_interrupted_as_it_got_the_lock_gives_it_back",),
    ),
    Mutant(
        "M504",
        "a signal handler that enqueues waits for the transaction that it has interrupted",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "                return _own(self._enqueue(envelopes))\n",
                "                return _own(self._persistently(envelopes, inf, retried=False))\n",
            ),
        ),
        (f"{IN_SIGNAL_HANDLERS}::test_only_a_transaction_that_it_interrupts_is_in_its_way",),
    ),
    Mutant(
        "M505",
        "a signal handler gets the id that its own thread is making",
        (
            Edit(
                "src/onward/base/ids.py",
                "        if self._is_mine():\n            return self._apart()",
                "        if False:\n            return self._apart()",
            ),
        ),
        (f"{IN_SIGNAL_HANDLERS}::test_nothing_beside_the_store_is_in_its_way",),
    ),
    Mutant(
        "M506",
        "a worker claims more at once than its store says",
        (Edit("src/onward/worker/inflight.py", "- inflight, self._at_once))", "- inflight, 10_000))"),),
        (
            "tests/worker/test_claim_size.py::TestTheRate::test_one_claim_is_bounded_by_what_the_store_says",
            "tests/worker/test_turns.py::test_no_claim_asks_for_more_than_the_store_says",
        ),
    ),
    Mutant(
        "M503",
        "marks of lanes are kept while more is due than has been made available (PostgreSQL)",
        (
            Edit(
                f"{POSTGRES}/queue_marks.py",
                "self.lanes.promoted(queues, exhausted=exhausted)",
                "self.lanes.promoted(queues, exhausted=True)",
            ),
        ),
        (f"{LANE_MARKS}::test_more_jobs_than_a_claim_takes_that_fall_due_at_once_are_claimed_without_a_pause",),
    ),
    Mutant(
        "M483",
        "the last caller of a commit wakes nobody, and those that came during it stay blocked",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "                self._waking = False\n                self._wake_next()",
                "                self._waking = False",
            ),
        ),
        (f"{GROUP_COMMITS}::TestCallersThatWakeEachOther::test_those_that_came_during_a_commit_are_woken_after_it",),
    ),
    Mutant(
        "M484",
        "callers wait for ever for one that was interrupted before it could wake the next",
        (
            Edit(
                "src/onward/client/group_commit.py",
                "_LOOK_AROUND):\n                    self._waking = False",
                "_LOOK_AROUND):\n                    pass",
            ),
        ),
        (f"{GROUP_COMMITS}::test_nobody_waits_for_good_where_a_caller_was_interrupted_before_it_woke_the_next",),
    ),
    Mutant(
        "M490",
        "behind a snapshot walks over lanes never look at what is before their marks",
        (
            Edit(
                f"{POSTGRES}/lane_marks.py",
                "if any(now >= self._next_look.get(queue, now) for queue in queues):",
                "if any(queue not in self._next_look for queue in queues):",
            ),
        ),
        (f"{LANE_MARKS}::test_a_job_that_appears_before_the_mark_of_its_lane_is_found_within_a_second",),
    ),
    Mutant(
        "M491",
        "the mark of a lane to which a look at everything did not come hides a job for as long as the snapshot stays",
        (
            Edit(
                f"{POSTGRES}/lane_marks.py",
                "            if missed or (seen.crowded and queue in queues):",
                "            if seen.crowded and queue in queues:",
            ),
        ),
        (f"{LANE_MARKS}::TestMarks::test_a_look_that_did_not_come_to_a_lane_drops_its_mark",),
    ),
    Mutant(
        "M492",
        "the marks of lanes outlive the snapshot",
        (
            Edit(
                f"{POSTGRES}/queue_marks.py",
                "        self.lanes.tell(pinned=pinned and of_lanes)\n",
                "        self.lanes.tell(pinned=pinned or self.lanes.is_pinned)\n",
            ),
        ),
        (f"{LANE_MARKS}::test_when_the_snapshot_is_gone_walks_begin_at_the_left_edge_again",),
    ),
    Mutant(
        "M493",
        "a mark is behind a job that was seen and not claimed",
        (
            Edit(
                f"{POSTGRES}/lane_marks.py",
                "place = next((head for head in heads if head[1] not in claimed), (due, last + _BEHIND))",
                "place = (due, last + _BEHIND)",
            ),
        ),
        (f"{LANE_MARKS}::TestMarks::test_a_mark_is_at_the_first_job_that_was_not_claimed",),
    ),
    Mutant(
        "M494",
        "behind a snapshot only the first lane between two known ones is found",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "AND (rank, lane) > (seen.rank, seen.lane) AND (rank, lane) < (seen.high_rank, seen.high_lane)",
                "AND (rank, lane) > (seen.high_rank, seen.high_lane) AND (rank, lane) < (seen.high_rank, seen.high_lane)",
            ),
        ),
        (f"{LANE_MARKS}::test_lanes_jobs_and_priorities_that_are_new_are_found_at_once",),
    ),
    Mutant(
        "M495",
        "with more lanes than a walk from marks looks at, those behind are not found",
        (
            Edit(
                f"{POSTGRES}/lane_source.py",
                "        if is_crowded:\n",
                "        if False:\n",
            ),
        ),
        (f"{LANE_MARKS}::test_more_lanes_than_are_worth_it_are_walked_without_marks",),
    ),
    Mutant(
        "M496",
        "the mark of a lane that was full at a look hides a job for as long as it is full at looks",
        (
            Edit(
                f"{POSTGRES}/lane_marks.py",
                "                elif not seen.marked:\n",
                "                elif False:\n",
            ),
        ),
        (f"{LANE_MARKS}::TestMarks::test_a_look_that_came_to_a_full_lane_drops_its_mark",),
    ),
    Mutant(
        "M497",
        "behind a snapshot each read of more jobs of a lane walks past all its dead entries",
        (
            Edit(
                f"{POSTGRES}/queries.sql",
                "\n          AND (available_at, id) >= (line.due, line.head) AND (expires_at",
                "\n          AND (line.due, line.head) IS NOT NULL AND (expires_at",
            ),
        ),
        (f"{LANE_MARKS}::test_to_read_on_in_a_lane_goes_past_nothing_dead",),
    ),
    Mutant(
        "M498",
        "walks behind a snapshot begin each circle at its first lane: keys do not take turns",
        (
            Edit(
                f"{POSTGRES}/lane_source.py",
                "_IN_CIRCLE = itemgetter(0, 1, 2, 6, 5)",
                "_IN_CIRCLE = itemgetter(0, 1, 2, 5)",
            ),
        ),
        (f"{LANE_MARKS}::test_lanes_take_turns_from_marks_as_without",),
    ),
)
