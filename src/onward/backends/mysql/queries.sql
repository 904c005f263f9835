-- Every statement of the MySQL and MariaDB backend, in what both of them understand: no RETURNING, no LATERAL.  Values are
-- always parameters, written :name; the table prefix is the only substitution.  A batch comes as one JSON array, of values or
-- of rows; bytes, which JSON cannot carry, end to end in a parameter of their own, and each row says where its own lie.  :now
-- is the store's clock, or the instant to which a test moved it.
--
-- How they are built, again and again: STRAIGHT_JOIN and FORCE INDEX leave one plan, row by row along an index in the order of
-- the batch, whatever the statistics say.  Rows are locked first and written by their primary key then, in a second statement
-- which compares the fence again.  Tests compare the plans.
--
-- A statement that locks a row by way of another index locks the entry there first, and keeps it even if the row itself is
-- skipped.  The transaction that has the row cannot change that entry then.  So by another index rows are only looked for, and
-- locked by their primary key.  But what is due, what waits and what is available is locked along `place_idx` and in this order, for
-- MariaDB takes the moment in which a locked row is found and skipped for a wait.

-- name: begin
START TRANSACTION;

-- name: begin_reading
-- Several statements, one snapshot.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: enqueue
-- All or nothing: an id that is live, or a key that is held, makes it fail.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                         idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed)
SELECT id, queue, CASE WHEN due <= now THEN 'available' ELSE 'scheduled' END, -priority, due, expires_at, max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, job,
       substr(:sealed, start, length)
  FROM (SELECT given.*, clock.now, greatest(now + delay, coalesce(not_before, now + delay)) AS due
          FROM (SELECT :now AS now) AS clock
         STRAIGHT_JOIN JSON_TABLE(:envelopes, '$[*]' COLUMNS (
                   id longtext PATH '$[0]', queue longtext PATH '$[1]', job longtext PATH '$[2]',
                   enqueued_at decimal(30) PATH '$[3]', max_crashes decimal(30) PATH '$[4]', start bigint PATH '$[5]',
                   length bigint PATH '$[6]', priority decimal(30) PATH '$[7]' DEFAULT '0' ON EMPTY,
                   delay decimal(30) PATH '$[8]' DEFAULT '0' ON EMPTY, not_before decimal(30) PATH '$[9]',
                   expires_at decimal(30) PATH '$[10]', unique_key longtext PATH '$[11]',
                   idempotency_key longtext PATH '$[12]', idempotency_ttl decimal(30) PATH '$[13]' DEFAULT '0' ON EMPTY,
                   single_instance longtext PATH '$[14]', lane longtext PATH '$[15]', cost int PATH '$[16]'))
           AS given) AS new;

-- name: enqueue_one
-- One that is due, which is what most callers bring: half the work of a batch of one.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                         idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed)
VALUES (:id, :queue, 'available', :rank, :now, :expires_at, :max_crashes, :enqueued_at, :unique_key, :unique_key,
        :idempotency_key, :idempotency_ttl, :single_instance, :lane, :cost, :job, :sealed);

-- name: this_database
-- The database in which a connection finds Onward's tables; the time of the first migration tells two of one name apart.
SELECT database(), (SELECT applied_at FROM onward_migrations WHERE version = 1);

-- name: live_among
-- Also run on connections of callers, whose collation may be any.
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = convert(wanted.id USING utf8mb4) COLLATE utf8mb4_bin;

-- name: finished_among
SELECT done.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: key_holders
SELECT wanted.name, holder.id
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (name varchar(2500) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS holder FORCE INDEX (held_idx) ON holder.key_held = wanted.name;

-- name: lock_key_holders
-- Those that still hold the key.
SELECT found.name, holder.id
  FROM JSON_TABLE(:holders, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', name varchar(2500) PATH '$[1]')) AS found
 STRAIGHT_JOIN onward_jobs AS holder FORCE INDEX (PRIMARY) ON holder.id = found.id
 WHERE holder.key_held = found.name
   FOR UPDATE;

-- name: begin_opening
-- Before any other lock.  No session is opened while claims are stopped, see `stop_claims`.
SELECT number FROM onward_stripes WHERE number = 0 LOCK IN SHARE MODE;

-- name: begin_declaring
-- The same for a session with limits: it may be the one that stops claims.
SELECT number FROM onward_stripes WHERE number = 0 FOR UPDATE;

-- name: open_session
-- The time is counted from when this transaction has the row: a renewal that waits for a turn loses nothing.
INSERT INTO onward_sessions (owner, expires_at, lease_for, host, pid, version) VALUES (:owner, 0, 0, '', 0, '')
    ON DUPLICATE KEY UPDATE owner = :owner;
UPDATE onward_sessions
   SET expires_at = :now + :lease_for, lease_for = :lease_for, host = :host, pid = :pid, version = :version
 WHERE owner = :owner;
SELECT expires_at FROM onward_sessions WHERE owner = :owner;

-- name: lock_session
-- A lock, not a write.
SELECT expires_at, :now FROM onward_sessions WHERE owner = :owner FOR UPDATE;

-- name: lock_sessions
SELECT session.owner
  FROM JSON_TABLE(:owners, '$[*]' COLUMNS (name varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_sessions AS session FORCE INDEX (PRIMARY) ON session.owner = wanted.name
   FOR UPDATE;

-- name: renew_session
-- Locks the row first: the time is counted from when this transaction has it.
SELECT owner FROM onward_sessions WHERE owner = :owner FOR UPDATE;
UPDATE onward_sessions SET expires_at = :now + lease_for WHERE owner = :owner;

-- name: end_session
DELETE FROM onward_sessions WHERE owner = :owner;

-- name: expired_sessions
-- A locked row belongs to a session whose process is in a transaction: it is alive.
SELECT owner
  FROM onward_sessions FORCE INDEX (expiry_idx)
 WHERE expires_at <= :now
 ORDER BY expires_at
   FOR UPDATE SKIP LOCKED;

-- name: owners_of_queue
SELECT DISTINCT owner FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'executing' AND queue = :queue;

-- name: end_sessions
DELETE session
  FROM JSON_TABLE(:owners, '$[*]' COLUMNS (owner varchar(64) PATH '$')) AS ended
 STRAIGHT_JOIN onward_sessions AS session FORCE INDEX (PRIMARY) ON session.owner = ended.owner;

-- name: adopt
-- The tokens stay: what the old owner's process has run can be settled under the new name.
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.owner = :owner
 WHERE job.owner = :adopted AND job.state = 'executing';

-- name: leases_of
-- In the shape of `candidates`.
SELECT id, queue, delivery, sealed,
       JSON_ARRAY(attempts, crashes, interruptions, waits, parked_since, spent, convert(idempotency_key USING utf8mb4),
                  idempotency_ttl, convert(single_instance USING utf8mb4), convert(lane USING utf8mb4)),
       started_at
  FROM onward_jobs FORCE INDEX (owner_idx)
 WHERE owner = :owner AND state = 'executing'
 ORDER BY id;

-- name: asked_to_cancel
SELECT id, delivery FROM onward_jobs FORCE INDEX (owner_idx) WHERE owner = :owner AND asked = true ORDER BY id;

-- name: paused_queues
SELECT name FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: next_due
-- Is it paused; does a job wait; has it lanes or a limit; when the next job falls due; and the time.  One queue at a time, here
-- and below: only with a value that is known does the server look at one end of an index instead of walking along it.
SELECT EXISTS (SELECT 1 FROM onward_queues WHERE name = :queue AND paused_at IS NOT NULL),
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'available' AND queue = :queue),
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'available' AND queue = :queue AND place > 500)
    OR EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = :queue),
       scheduled.at, retryable.at, :now
  FROM (SELECT min(available_at) AS at FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'scheduled' AND queue = :queue AND place = 0 AND line IS NULL) AS scheduled
 CROSS JOIN (SELECT min(available_at) AS at FROM onward_jobs FORCE INDEX (place_idx)
              WHERE state = 'retryable' AND queue = :queue AND place = 0 AND line IS NULL) AS retryable;

-- name: anything_to_do
-- Is it paused; is there anything to cancel because it has expired, to promote; what is the last place, by which there are jobs
-- to hand out, and jobs with lanes; has it a limit?
SELECT EXISTS (SELECT 1 FROM onward_queues WHERE name = :queue AND paused_at IS NOT NULL),
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (expiry_idx)
                WHERE queue = :queue AND expires_at <= :now AND state <> 'executing'),
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
                WHERE state = 'scheduled' AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now)
    OR EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
                WHERE state = 'retryable' AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now),
       (SELECT max(place) FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'available' AND queue = :queue),
       EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = :queue);

-- name: expired
SELECT id
  FROM onward_jobs FORCE INDEX (expiry_idx)
 WHERE queue = :queue AND expires_at <= :now AND state <> 'executing'
 ORDER BY expires_at, id
 LIMIT :limit;

-- name: lock_expired
-- Rows that another turn has locked are left to it.
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.queue = :queue AND job.expires_at <= :now AND job.state <> 'executing'
   FOR UPDATE SKIP LOCKED;

-- name: due
-- One state after the other: together they would have to be sorted, all that is due.
SELECT available_at, id, lane IS NOT NULL, booked
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = :state AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now
 ORDER BY available_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: due_apart
-- Those that are booked, or the others.
SELECT available_at, id, lane IS NOT NULL, booked
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'scheduled' AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now AND booked <=> :is_booked
 ORDER BY available_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: promote
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.state = 'available', job.booked = NULL
 WHERE job.state IN ('scheduled', 'retryable');

-- name: candidates
-- One queue at a time: `queue IN (a, b) ORDER BY rank` sorts the whole backlog.  Rows that another turn has locked are
-- left to it.  The token is that of the claim that follows; what a job that is claimed for the first time leaves at its
-- defaults is left out.  If something has to be promoted first, `unless_due` finds nothing: all turns lock what is due before
-- what is available.
SELECT id, queue, delivery + 1, sealed,
       CASE WHEN attempts + crashes + interruptions + waits > 0
              OR coalesce(parked_since, spent, idempotency_key, single_instance) IS NOT NULL
            THEN JSON_ARRAY(attempts, crashes, interruptions, waits, parked_since, spent,
                            convert(idempotency_key USING utf8mb4), idempotency_ttl,
                            convert(single_instance USING utf8mb4), NULL) END
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'available' AND queue = :queue AND place < 500 AND (expires_at IS NULL OR expires_at > :now)
   AND (:released = '[]' OR NOT JSON_CONTAINS(:released, JSON_QUOTE(id)))
   AND (NOT :unless_due
        OR NOT EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
                        WHERE state = 'scheduled' AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now)
       AND NOT EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
                        WHERE state = 'retryable' AND queue = :queue AND place = 0 AND line IS NULL AND available_at <= :now))
 ORDER BY place, line, available_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: candidates_among
-- The same by their ids, for a store beside a broker: what is due need not have been promoted.
SELECT job.id, job.queue, job.delivery + 1, job.sealed,
       CASE WHEN job.attempts + job.crashes + job.interruptions + job.waits > 0
              OR coalesce(job.parked_since, job.spent, job.idempotency_key, job.single_instance, job.lane) IS NOT NULL
            THEN JSON_ARRAY(job.attempts, job.crashes, job.interruptions, job.waits, job.parked_since, job.spent,
                            convert(job.idempotency_key USING utf8mb4), job.idempotency_ttl,
                            convert(job.single_instance USING utf8mb4), convert(job.lane USING utf8mb4)) END
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (number FOR ORDINALITY, id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE (job.state = 'available' OR job.state IN ('scheduled', 'retryable') AND job.available_at <= :now)
   AND (job.expires_at IS NULL OR job.expires_at > :now)
   AND NOT EXISTS (SELECT 1 FROM onward_queues WHERE name = job.queue AND paused_at IS NOT NULL)
 ORDER BY wanted.number
   FOR UPDATE SKIP LOCKED;

-- name: claim
-- Every claim takes the next delivery number, which fences off the previous holder: its late settlement matches no row.
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.state = 'executing', job.delivery = job.delivery + 1, job.owner = :owner, job.started_at = :at
 WHERE job.state = 'available';

-- Lanes.  A walk jumps from lane to lane along `place_idx`, whose jobs with lanes stand behind all others, 1000 places further.

-- name: next_places
-- The next ones of plain jobs and of jobs with lanes; each as long as there is one bound and no other.
SELECT (SELECT min(place) FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'available' AND queue = :queue AND place > :plain),
       (SELECT min(place) FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'available' AND queue = :queue AND place > :laned);

-- name: walk_lanes
-- One jump, from the lane in one variable into another.  A variable is a value that is known: the server looks at one end of
-- the index, and one packet has many jumps.  `SET` would lock what it reads.
SELECT (SELECT line FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'available' AND queue = :queue AND place = :place AND line > :lane
         ORDER BY line
         LIMIT 1) INTO :into;

-- name: walked_lanes
SELECT concat_ws(char(10), :variables);

-- name: lane_heads
-- The first jobs of a line, in the shape of `candidates`, and what a walk asks of them.  Several lines are one union.
SELECT id, queue, delivery + 1, sealed,
       JSON_ARRAY(attempts, crashes, interruptions, waits, parked_since, spent, convert(idempotency_key USING utf8mb4),
                  idempotency_ttl, convert(single_instance USING utf8mb4), convert(lane USING utf8mb4)),
       place, line, crashes, cost
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'available' AND queue = :queue AND place = :place AND line <=> :line
   AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY available_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: seen_heads
-- The same for a look that claims nothing.
SELECT id, queue, 0, NULL, NULL, place, line, crashes, cost
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'available' AND queue = :queue AND place = :place AND line <=> :line
   AND (expires_at IS NULL OR expires_at > :now)
 ORDER BY available_at, id
 LIMIT :limit;

-- name: any_gate
SELECT EXISTS (SELECT 1 FROM onward_gates);

-- name: lock_stripes
-- What another turn has is left to it.  Only a statement after this one may count: it sees all that was committed before.
SELECT stripe.number
  FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number int PATH '$')) AS wanted
 STRAIGHT_JOIN onward_stripes AS stripe FORCE INDEX (PRIMARY) ON stripe.number = wanted.number
   FOR UPDATE SKIP LOCKED;

-- name: left_by_limits
-- Whether there are gates, and how many rows are missing that claims of limits lock; without a limit none is.
SELECT EXISTS (SELECT 1 FROM onward_gates),
       CASE WHEN EXISTS (SELECT 1 FROM onward_limits)
            THEN 1024 - (SELECT count(*) FROM onward_stripes WHERE number BETWEEN 0 AND 1023) ELSE 0 END;

-- name: restore_stripes
INSERT IGNORE INTO onward_stripes (number)
WITH RECURSIVE numbers AS (SELECT 0 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < 31)
SELECT 32 * a.number + b.number
  FROM numbers AS a
 CROSS JOIN numbers AS b
  LEFT JOIN onward_stripes AS there ON there.number = 32 * a.number + b.number
 WHERE there.number IS NULL;

-- name: running_in_queue
SELECT count(*) FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'executing' AND queue = :queue;

-- name: running_between
-- In all queues.  Looks at what runs, and at nothing else.
SELECT count(*)
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'executing' AND line >= :lane AND line < :behind AND (:since = 0 OR started_at >= :since);

-- name: running_in_lanes
-- The same for many lanes: a look for each, in each queue of which a job runs.
SELECT wanted.lane, count(*)
  FROM (SELECT DISTINCT queue FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'executing') AS serving
 STRAIGHT_JOIN JSON_TABLE(:lanes, '$[*]' COLUMNS (lane varchar(500) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (place_idx)
    ON job.state = 'executing' AND job.queue = serving.queue AND job.place = 0 AND job.line = cast(wanted.lane AS binary)
 GROUP BY wanted.lane;

-- name: gates_of
SELECT gate.queue, gate.lane, full_at, charged_at, shut_until, shut_for
  FROM JSON_TABLE(:scopes, '$[*]' COLUMNS (queue varchar(100) PATH '$[0]', lane varchar(500) PATH '$[1]')) AS wanted
 STRAIGHT_JOIN onward_gates AS gate FORCE INDEX (PRIMARY)
    ON gate.queue = wanted.queue AND gate.lane = cast(wanted.lane AS binary);

-- name: book
UPDATE JSON_TABLE(:booked, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', at bigint PATH '$[1]')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.state = 'scheduled', job.booked = true, job.available_at = wanted.at
 WHERE job.state = 'available';

-- name: clock
SELECT :now;

-- name: limits
SELECT kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst, chosen_running,
       chosen_tokens, chosen_period, chosen_burst
  FROM onward_limits;

-- name: stop_claims
-- Waits for every turn that is under way, and lets none begin until the commit: each locks the row of its session first.
SELECT number FROM onward_stripes WHERE number = 0 FOR UPDATE;
SELECT owner FROM onward_sessions FORCE INDEX (PRIMARY) FOR UPDATE;

-- name: lock_limits
-- Waits for the claims that count by limits, see `kept_limits`, and keeps others from it until the commit.
SELECT 1 FROM onward_limits FORCE INDEX (PRIMARY) FOR UPDATE;

-- name: kept_limits
-- As they are until the commit: what changes one waits for it.
SELECT kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst, chosen_running,
       chosen_tokens, chosen_period, chosen_burst
  FROM onward_limits FORCE INDEX (PRIMARY)
  LOCK IN SHARE MODE;

-- name: declare_limit
-- The time comes last: it decides about the others.
INSERT INTO onward_limits (kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst)
VALUES (:kind, :named, :declared_at, :declared_running, :declared_tokens, :declared_period, :declared_burst)
    ON DUPLICATE KEY UPDATE
       declared_running = CASE WHEN declared_at <= :declared_at THEN :declared_running ELSE declared_running END,
       declared_tokens = CASE WHEN declared_at <= :declared_at THEN :declared_tokens ELSE declared_tokens END,
       declared_period = CASE WHEN declared_at <= :declared_at THEN :declared_period ELSE declared_period END,
       declared_burst = CASE WHEN declared_at <= :declared_at THEN :declared_burst ELSE declared_burst END,
       declared_at = greatest(declared_at, :declared_at);

-- name: choose_limit
INSERT INTO onward_limits (kind, name, chosen_running, chosen_tokens, chosen_period, chosen_burst)
VALUES (:kind, :named, :chosen_running, :chosen_tokens, :chosen_period, :chosen_burst)
    ON DUPLICATE KEY UPDATE chosen_running = :chosen_running, chosen_tokens = :chosen_tokens,
       chosen_period = :chosen_period, chosen_burst = :chosen_burst;

-- name: drop_limit
DELETE FROM onward_limits
 WHERE kind = :kind AND name = :named
   AND coalesce(declared_running, declared_tokens, chosen_running, chosen_tokens) IS NULL;

-- name: count_running
-- There is nothing to write: `place_idx` has every job that runs, with a lane or without.
DO length(:queue);

-- name: lock_gate
INSERT INTO onward_gates (queue, lane) VALUES (:queue, :lane) ON DUPLICATE KEY UPDATE queue = onward_gates.queue;
SELECT queue, lane, full_at, charged_at, shut_until, shut_for
  FROM onward_gates FORCE INDEX (PRIMARY)
 WHERE queue = :queue AND lane = :lane
   FOR UPDATE;

-- name: put_gate
REPLACE INTO onward_gates (queue, lane, full_at, charged_at, shut_until, shut_for)
VALUES (:queue, :lane, :full_at, :charged_at, :shut_until, :shut_for);

-- name: charge_gate
-- A gate that is shut meanwhile stays shut.
INSERT INTO onward_gates (queue, lane, full_at, charged_at) VALUES (:queue, :lane, :full_at, :charged_at)
    ON DUPLICATE KEY UPDATE full_at = :full_at, charged_at = :charged_at;

-- name: gates
SELECT queue, lane, full_at, charged_at, shut_until, shut_for
  FROM onward_gates FORCE INDEX (PRIMARY)
 WHERE queue > :after_queue OR (queue = :after_queue AND lane > :after_lane)
 ORDER BY queue, lane
 LIMIT :limit;

-- name: drop_gate
DELETE FROM onward_gates
 WHERE queue = :queue AND lane = :lane AND full_at = :full_at AND charged_at = :charged_at AND shut_until = :shut_until
   AND shut_for = :shut_for;

-- name: lock_holds
-- Every key that is wanted has a row now, which this transaction keeps locked until the commit.  In the order of the keys,
-- so that two transactions that want the same ones do not wait for each other.
INSERT INTO onward_holds (kind, `key`, job_id, token, done_until)
SELECT wanted.kind, wanted.name, '', 0, :now
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]')) AS wanted
    ON DUPLICATE KEY UPDATE token = onward_holds.token;

-- name: holds
-- The holders of these keys: until when a success confirms the key, or whether the holder still runs.
SELECT wanted.kind, wanted.name, hold.job_id, hold.token, hold.done_until,
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (PRIMARY)
                WHERE id = hold.job_id AND delivery = hold.token AND state = 'executing')
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]')) AS wanted
 STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = wanted.kind AND hold.`key` = wanted.name;

-- name: take_holds
UPDATE JSON_TABLE(:taken, '$[*]' COLUMNS (kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]',
                                          job_id varchar(64) PATH '$[2]', token bigint PATH '$[3]')) AS taken
STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = taken.kind AND hold.`key` = taken.name
   SET hold.job_id = taken.job_id, hold.token = taken.token, hold.done_until = NULL;

-- name: ended_holds
-- Which of them were held at all.  Without a lock: while a lease is valid no other transaction writes the pointer to it.
SELECT ended.number
  FROM JSON_TABLE(:ended, '$[*]' COLUMNS (number FOR ORDINALITY, kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]',
                                          job_id varchar(64) PATH '$[2]', token bigint PATH '$[3]')) AS ended
 STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = ended.kind AND hold.`key` = ended.name
 WHERE hold.job_id = ended.job_id AND hold.token = ended.token AND hold.done_until IS NULL;

-- name: end_holds
-- A time to live confirms.  Without one the key is free, and its row stays for the next that takes it: where a deleted row is
-- removed for good while two wait for it, both are left with the gap, and neither can insert the row anew.
UPDATE JSON_TABLE(:ended, '$[*]' COLUMNS (kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]',
                                          job_id varchar(64) PATH '$[2]', token bigint PATH '$[3]',
                                          ttl bigint PATH '$[4]')) AS ended
STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = ended.kind AND hold.`key` = ended.name
   SET hold.done_until = :now + coalesce(ended.ttl, 0),
       hold.job_id = CASE WHEN ended.ttl IS NULL THEN '' ELSE hold.job_id END
 WHERE hold.job_id = ended.job_id AND hold.token = ended.token AND hold.done_until IS NULL;

-- name: keys_waited_for
-- Mostly no job waits, and then no key need be looked at by itself.
SELECT ended.number
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (number FOR ORDINALITY, kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]'))
    AS ended
 WHERE CASE WHEN kind = 'once'
            THEN EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (once_idx)
                          WHERE idempotency_key = ended.name AND waiting = true AND state = 'scheduled')
            ELSE EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (single_idx)
                          WHERE single_instance = ended.name AND waiting = true AND state = 'scheduled') END
 ORDER BY number;

-- name: once_waiters
-- The first in claim order.
SELECT `rank`, available_at, id, queue
  FROM onward_jobs FORCE INDEX (once_idx)
 WHERE idempotency_key = :key AND waiting = true AND state = 'scheduled'
 ORDER BY `rank`, available_at, id
 LIMIT :limit;

-- name: single_waiters
SELECT `rank`, available_at, id, queue
  FROM onward_jobs FORCE INDEX (single_idx)
 WHERE single_instance = :key AND waiting = true AND state = 'scheduled'
 ORDER BY `rank`, available_at, id
 LIMIT :limit;

-- name: lock_waiters
-- A job that is locked is being woken or changed by another transaction.  Along the index by which what is due is locked,
-- and in its order.
SELECT job.id
  FROM JSON_TABLE(:waiters, '$[*]' COLUMNS (queue varchar(100) PATH '$[0]', at bigint PATH '$[1]', id varchar(64) PATH '$[2]'))
    AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (place_idx)
    ON job.state = 'scheduled' AND job.queue = wanted.queue AND job.place = 0 AND job.line IS NULL
   AND job.available_at = wanted.at AND job.id = wanted.id
 WHERE job.waiting = true
   FOR UPDATE SKIP LOCKED;

-- name: wake_waiters
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.state = 'available', job.booked = NULL, job.available_at = :now
 WHERE job.state = 'scheduled';

-- name: settle
-- The leases that are held as they are said to be, locked, with all that decides what becomes of them.
SELECT lease.number, job.attempts, job.crashes, job.interruptions, job.max_crashes, job.cancel_reason, job.`rank`,
       job.available_at, job.waits, job.parked_since, job.spent, convert(job.idempotency_key USING utf8mb4),
       job.idempotency_ttl, convert(job.single_instance USING utf8mb4), :now
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (number FOR ORDINALITY, id varchar(64) PATH '$[0]', token bigint PATH '$[1]',
                                           owner varchar(64) PATH '$[2]')) AS lease
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
 WHERE job.delivery = lease.token AND job.owner = lease.owner AND job.state = 'executing'
   FOR UPDATE;

-- name: record_runs
-- It replaces: no row that happens to be there can make a settlement fail.
REPLACE INTO onward_attempts (job_id, token, at, duration_ms, attempt, move, state, owner, kind, message, traceback)
SELECT run.*
  FROM JSON_TABLE(:runs, '$[*]' COLUMNS (
           job_id varchar(64) PATH '$[0]', token bigint PATH '$[1]', at bigint PATH '$[2]', duration_ms bigint PATH '$[3]',
           attempt int PATH '$[4]', move varchar(10) PATH '$[5]', state varchar(10) PATH '$[6]', owner varchar(64) PATH '$[7]',
           kind longtext PATH '$[8]', message longtext PATH '$[9]', traceback longtext PATH '$[10]')) AS run;

-- name: complete
-- Successes without keys, which nearly all are.  It locks what it reads: progress noted meanwhile comes before or after.
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, reason, progress, result, sealed)
SELECT job.id, 'completed', NOT :keep, :now, queue, job, `rank`, delivery, attempts + 1, crashes, interruptions, max_crashes,
       available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
       idempotency_ttl, single_instance, lane, cost, NULL, progress,
       CASE WHEN :keep THEN substr(:results, start, length) END, CASE WHEN :keep THEN sealed END
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', token bigint PATH '$[1]', start bigint PATH '$[2]',
                                           length bigint PATH '$[3]')) AS lease
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
 WHERE job.delivery = lease.token AND job.owner = :owner AND job.state = 'executing'
   AND job.idempotency_key IS NULL AND job.single_instance IS NULL
   FOR UPDATE;
DELETE job
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', token bigint PATH '$[1]')) AS lease
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
 WHERE job.delivery = lease.token AND job.owner = :owner AND job.state = 'executing'
   AND job.idempotency_key IS NULL AND job.single_instance IS NULL;

-- name: finish
-- The answer is how many have left the live ones.
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, reason, progress, result, sealed)
SELECT job.id, lease.goes_to, NOT lease.keep, :now, queue, job, `rank`, delivery, attempts + lease.ran,
       crashes + lease.crashed, interruptions + lease.interrupted, max_crashes, available_at, enqueued_at, started_at,
       expires_at, job.owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost,
       lease.reason, progress, CASE WHEN lease.keep THEN substr(:results, lease.start, lease.length) END,
       CASE WHEN lease.keep THEN sealed END
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           id varchar(64) PATH '$[0]', token bigint PATH '$[1]', owner varchar(64) PATH '$[2]', goes_to varchar(10) PATH '$[3]',
           ran int PATH '$[4]', crashed int PATH '$[5]', interrupted int PATH '$[6]', keep int PATH '$[7]',
           start bigint PATH '$[8]', length bigint PATH '$[9]', reason longtext PATH '$[10]')) AS lease
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
 WHERE job.delivery = lease.token AND job.owner = lease.owner AND job.state = 'executing'
   FOR UPDATE;
DELETE job
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', token bigint PATH '$[1]', owner varchar(64) PATH '$[2]'))
    AS lease
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
 WHERE job.delivery = lease.token AND job.owner = lease.owner AND job.state = 'executing';

-- name: put_back
-- nack, snooze, park, release and crashed: as it was decided from the locked row.  What a job awaits counts while it is
-- scheduled, and every move there writes it: it need not be cleared when it is claimed.
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id varchar(64) PATH '$[0]', token bigint PATH '$[1]', owner varchar(64) PATH '$[2]', goes_to varchar(10) PATH '$[3]',
           available_at bigint PATH '$[4]', attempts int PATH '$[5]', crashes int PATH '$[6]', interruptions int PATH '$[7]',
           waits int PATH '$[8]', waiting int PATH '$[9]', parked_since bigint PATH '$[10]', spent longtext PATH '$[11]',
           awaits varchar(200) CHARACTER SET utf8mb4 PATH '$[12]')) AS lease
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
   SET job.state = lease.goes_to, job.available_at = lease.available_at, job.attempts = lease.attempts,
       job.crashes = lease.crashes, job.interruptions = lease.interruptions, job.waits = lease.waits, job.waiting = lease.waiting,
       job.parked_since = lease.parked_since, job.spent = lease.spent, job.awaits = lease.awaits, job.owner = NULL
 WHERE job.delivery = lease.token AND job.owner = lease.owner AND job.state = 'executing';

-- name: count_ended
INSERT INTO onward_ended (slot, total) VALUES (:slot, :number) ON DUPLICATE KEY UPDATE total = total + :number;

-- name: evidence
-- What is known of settlements that match no lease: the record of the run, the finished job, a live one.
SELECT lease.number, run.move, run.state,
       (SELECT state FROM onward_finished FORCE INDEX (PRIMARY) WHERE id = lease.id AND delivery = lease.token),
       EXISTS (SELECT 1 FROM onward_jobs FORCE INDEX (PRIMARY) WHERE id = lease.id)
    OR EXISTS (SELECT 1 FROM onward_finished FORCE INDEX (PRIMARY) WHERE id = lease.id)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (number FOR ORDINALITY, id varchar(64) PATH '$[0]', token bigint PATH '$[1]'))
    AS lease
  LEFT JOIN onward_attempts AS run FORCE INDEX (PRIMARY) ON run.job_id = lease.id AND run.token = lease.token;

-- name: dead_leases
-- What is locked is being ended by its holder: if not, the next sweep finds it.
SELECT id, delivery, owner, queue, job, crashes
  FROM onward_jobs FORCE INDEX (owner_idx)
 WHERE owner = :owner AND state = 'executing' AND (:queue IS NULL OR queue = :queue)
 ORDER BY asked, id
   FOR UPDATE SKIP LOCKED;

-- name: orphans
-- By the leases, not by the sessions: whatever became of its session's row, a lease without a session is found.
SELECT id, delivery, owner
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'executing' AND (:queue IS NULL OR queue = :queue)
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session FORCE INDEX (PRIMARY) WHERE session.owner = onward_jobs.owner)
 ORDER BY id;

-- name: lock_orphans
-- A row that changed since is compared with what was seen.
SELECT job.id, job.delivery, job.owner, job.queue, job.job, job.crashes
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', token bigint PATH '$[1]', owner varchar(64) PATH '$[2]'))
    AS lost
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lost.id
 WHERE job.delivery = lost.token AND job.owner = lost.owner AND job.state = 'executing'
   FOR UPDATE SKIP LOCKED;

-- name: lock_jobs
SELECT job.id, job.state, job.queue
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   FOR UPDATE;

-- name: cancel_waiting
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, reason, progress, result, sealed)
SELECT job.id, 'cancelled', false, :now, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
       available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
       idempotency_ttl, single_instance, lane, cost, wanted.reason, progress, NULL, sealed
  FROM JSON_TABLE(:cancelled, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', reason longtext PATH '$[1]')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing'
   FOR UPDATE;
DELETE job
  FROM JSON_TABLE(:cancelled, '$[*]' COLUMNS (id varchar(64) PATH '$[0]')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing';

-- name: ask_to_cancel
-- The first reason stands.  A running job that is replaced loses its key at once: its replacement need not wait for it.
UPDATE JSON_TABLE(:asked, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', reason longtext PATH '$[1]')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.cancel_reason = coalesce(job.cancel_reason, wanted.reason), job.asked = true,
       job.key_held = CASE WHEN :replaced THEN NULL ELSE job.key_held END
 WHERE job.state = 'executing';

-- name: make_due
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.state = 'available', job.booked = NULL, job.available_at = :now
 WHERE job.state IN ('scheduled', 'retryable');

-- name: pick
-- Live before finished, by ids.
SELECT job.id, job.queue, job.job, job.sealed, job.state, job.`rank`, job.attempts, job.delivery, job.crashes,
       job.interruptions, job.available_at, job.enqueued_at, job.started_at, NULL, job.owner, job.asked,
       NULL, NULL, job.progress, job.waits, job.parked_since,
       CASE WHEN job.state = 'scheduled' THEN CONVERT(job.awaits USING utf8mb4) END,
       job.max_crashes, job.expires_at, job.spent, convert(job.unique_key USING utf8mb4), job.key_held IS NOT NULL,
       convert(job.idempotency_key USING utf8mb4), job.idempotency_ttl, convert(job.single_instance USING utf8mb4),
       convert(job.lane USING utf8mb4), job.cost
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 UNION ALL
SELECT done.id, done.queue, done.job, done.sealed, done.state, done.`rank`, done.attempts, done.delivery, done.crashes,
       done.interruptions, done.available_at, done.enqueued_at, done.started_at, done.finished_at, done.owner, false,
       done.result, done.reason, done.progress, done.waits, done.parked_since,
       NULL,
       done.max_crashes, done.expires_at, NULL, convert(done.unique_key USING utf8mb4), false,
       convert(done.idempotency_key USING utf8mb4), done.idempotency_ttl, convert(done.single_instance USING utf8mb4),
       convert(done.lane USING utf8mb4), done.cost
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: page_oldest
-- Walks along the ids, merged; a walk that no wanted state needs ends before it begins.  A query of every state finds
-- rows with an unknown state, too.
SELECT id FROM (
    (SELECT id FROM onward_jobs FORCE INDEX (PRIMARY)
      WHERE :live AND id > :after AND (:everything OR JSON_CONTAINS(:states, JSON_QUOTE(state)))
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :discarded AND state = 'discarded' AND tombstone = false AND id > :after
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :cancelled AND state = 'cancelled' AND tombstone = false AND id > :after
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :completed AND state = 'completed' AND tombstone = false AND id > :after
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :everything AND state NOT IN ('completed', 'discarded', 'cancelled') AND tombstone = false AND id > :after
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id LIMIT :limit)) AS page
 ORDER BY id
 LIMIT :limit;

-- name: page_newest
SELECT id FROM (
    (SELECT id FROM onward_jobs FORCE INDEX (PRIMARY)
      WHERE :live AND (:after IS NULL OR id < :after) AND (:everything OR JSON_CONTAINS(:states, JSON_QUOTE(state)))
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id DESC LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :discarded AND state = 'discarded' AND tombstone = false AND (:after IS NULL OR id < :after)
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id DESC LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :cancelled AND state = 'cancelled' AND tombstone = false AND (:after IS NULL OR id < :after)
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id DESC LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :completed AND state = 'completed' AND tombstone = false AND (:after IS NULL OR id < :after)
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id DESC LIMIT :limit)
     UNION ALL
    (SELECT id FROM onward_finished FORCE INDEX (state_idx)
      WHERE :everything AND state NOT IN ('completed', 'discarded', 'cancelled') AND tombstone = false AND (:after IS NULL OR id < :after)
        AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
      ORDER BY id DESC LIMIT :limit)) AS page
 ORDER BY id DESC
 LIMIT :limit;

-- name: runs_of
SELECT run.job_id, run.token, run.attempt, run.move, run.state, run.at, run.duration_ms, run.owner, run.kind, run.message,
       run.traceback
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_attempts AS run FORCE INDEX (PRIMARY) ON run.job_id = wanted.id
 ORDER BY run.job_id, run.token;

-- name: count_live
SELECT state, count(*) FROM onward_jobs WHERE :queue IS NULL OR queue = :queue GROUP BY state;

-- name: count_finished
SELECT state, count(*) FROM onward_finished WHERE tombstone = false AND (:queue IS NULL OR queue = :queue) GROUP BY state;

-- name: live_by_queue
SELECT queue, count(*) FROM onward_jobs GROUP BY queue;

-- name: overview
-- Every count stops at the limit, so it costs the same whatever lies in the tables.
SELECT (SELECT count(*) FROM (SELECT 1 FROM onward_finished FORCE INDEX (state_idx)
                               WHERE state = 'completed' AND tombstone = false LIMIT :at_most) AS counted),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished FORCE INDEX (state_idx)
                               WHERE state = 'discarded' AND tombstone = false LIMIT :at_most) AS counted),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished FORCE INDEX (state_idx)
                               WHERE state = 'cancelled' AND tombstone = false LIMIT :at_most) AS counted),
       (SELECT cast(coalesce(sum(total), 0) AS signed) FROM onward_ended);

-- name: overview_state
SELECT count(*) FROM (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx) WHERE state = :state LIMIT :at_most) AS counted;

-- name: next_queue
-- The next name: the jobs between are passed over, as long as there is one bound and no other.
SELECT min(queue) FROM onward_jobs FORCE INDEX (place_idx) WHERE state = :state AND queue > :after;

-- name: overview_line
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx) WHERE state = :state AND queue = :queue LIMIT :at_most) AS line;

-- name: sessions
SELECT owner, lease_for, host, pid, version, expires_at,
       (SELECT count(*) FROM onward_jobs FORCE INDEX (owner_idx) WHERE onward_jobs.owner = session.owner)
  FROM onward_sessions AS session
 ORDER BY owner;

-- name: running
SELECT id FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'executing' AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job);

-- name: replayable
-- In their order, locked until the commit; the last column is whether it has expired.
SELECT done.id, done.finished_at, convert(done.unique_key USING utf8mb4), done.queue, coalesce(done.expires_at <= :now, false)
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
 WHERE done.state IN ('discarded', 'cancelled')
   FOR UPDATE;

-- name: tombstones_among
SELECT done.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
 WHERE done.tombstone = true;

-- name: revive
-- The delivery number goes on, so that no token of an earlier life fits again; one that no worker wrote begins within bounds.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed)
SELECT done.id, queue, 'available', `rank`, :now, expires_at, least(greatest(delivery, 0), 1073741824), max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: lock_finished
-- As they were seen: a job that lived and finished again meanwhile stays.
SELECT done.id
  FROM JSON_TABLE(:seen, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', finished_at bigint PATH '$[1]')) AS seen
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = seen.id
 WHERE done.finished_at = seen.finished_at
   FOR UPDATE;

-- name: forget_finished
DELETE done
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: forget_runs
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE run
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_attempts AS run FORCE INDEX (PRIMARY) ON run.job_id = wanted.id
 WHERE NOT EXISTS (SELECT 1 FROM onward_jobs AS job WHERE job.id = run.job_id);

-- name: note
-- By a lease that is held, whose row no reap can take until this is committed.  A name that is there already stays as it is.
INSERT INTO onward_notes (job_id, name, at, value)
SELECT id, :note, :now, :value
  FROM onward_jobs FORCE INDEX (PRIMARY)
 WHERE id = :id AND delivery = :token AND owner = :owner AND state = 'executing'
   FOR UPDATE
    ON DUPLICATE KEY UPDATE at = onward_notes.at;
SELECT id
  FROM onward_jobs FORCE INDEX (PRIMARY)
 WHERE id = :id AND delivery = :token AND owner = :owner AND state = 'executing'
   FOR UPDATE;

-- name: store_note
-- For a job that was put back just now, and whose row is locked.  Of the instant at which that was: when the job is due, the sleep
-- that is noted is over.
INSERT INTO onward_notes (job_id, name, at, value)
SELECT id, :note, available_at - :delay, :value FROM onward_jobs FORCE INDEX (PRIMARY) WHERE id = :id
    ON DUPLICATE KEY UPDATE at = onward_notes.at;

-- name: notes_of
SELECT convert(name USING utf8mb4), value, at FROM onward_notes WHERE job_id = :id ORDER BY name;

-- name: lock_live
SELECT state FROM onward_jobs FORCE INDEX (PRIMARY) WHERE id = :id FOR UPDATE;

-- name: finished_state
SELECT state FROM onward_finished WHERE id = :id;

-- name: room_for_note
-- Whether the name is there, and what the others take up.
SELECT cast(coalesce(sum(name = :note), 0) AS signed), cast(coalesce(sum(name <> :note), 0) AS signed),
       cast(coalesce(sum(CASE WHEN name <> :note THEN length(value) END), 0) AS signed)
  FROM onward_notes
 WHERE job_id = :id;

-- name: store_signal
-- A value that replaces another keeps its time: a wait that heard the first one has not timed out.
INSERT INTO onward_notes (job_id, name, at, value) VALUES (:id, :note, :now, :value)
    ON DUPLICATE KEY UPDATE value = :value;

-- name: signalled
-- Those that wait for a signal that is there.  Their rows are locked: a signal that is not seen yet will find them.
SELECT job.id, job.queue
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 STRAIGHT_JOIN onward_notes AS note FORCE INDEX (PRIMARY)
    ON note.job_id = job.id AND note.name = concat(_binary '!', job.awaits)
 WHERE job.state = 'scheduled';

-- name: forget_notes
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE note
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_notes AS note FORCE INDEX (PRIMARY) ON note.job_id = wanted.id
 WHERE NOT EXISTS (SELECT 1 FROM onward_jobs AS job WHERE job.id = note.job_id);

-- name: drop_notes
DELETE note
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_notes AS note FORCE INDEX (PRIMARY) ON note.job_id = wanted.id;

-- name: next_finished
SELECT id, queue, state, finished_at, tombstone, :now
  FROM onward_finished FORCE INDEX (PRIMARY)
 WHERE id > :after
 ORDER BY id
 LIMIT :limit;

-- name: lock_hold
SELECT :now FROM onward_holds WHERE kind = 'once' AND `key` = :key FOR UPDATE;

-- name: forget_hold
-- For operators: of a key that a success confirmed.
DELETE FROM onward_holds WHERE kind = 'once' AND `key` = :key AND done_until IS NOT NULL;

-- name: spent_holds
-- A minute later: a key that is taken often keeps its row.
SELECT kind, convert(`key` USING utf8mb4)
  FROM onward_holds FORCE INDEX (done_idx)
 WHERE done_until <= :now - 60000000
 ORDER BY done_until
 LIMIT :limit;

-- name: drop_spent_holds
DELETE hold
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (kind varchar(10) PATH '$[0]', name varchar(2500) PATH '$[1]')) AS spent
 STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = spent.kind AND hold.`key` = spent.name
 WHERE hold.done_until <= :now - 60000000;

-- name: pause
INSERT INTO onward_queues (name, paused_at) VALUES (:queue, NULL) ON DUPLICATE KEY UPDATE name = :queue;
UPDATE onward_queues SET paused_at = :now WHERE name = :queue AND paused_at IS NULL;

-- name: resume
UPDATE onward_queues SET paused_at = NULL WHERE name = :queue AND paused_at IS NOT NULL AND reserved_for IS NULL;

-- name: progress
UPDATE onward_jobs SET progress = :progress WHERE id = :id AND delivery = :token AND owner = :owner AND state = 'executing';

-- name: oldest_stranded
SELECT min(started_at), :now
  FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'executing'
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session
                    WHERE session.owner = onward_jobs.owner AND session.expires_at > :now);

-- name: server
-- What both databases know of these; the others are not there.
SHOW GLOBAL VARIABLES
 WHERE variable_name IN ('version', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit',
                         'log_bin', 'sync_binlog', 'binlog_format', 'wsrep_on', 'max_allowed_packet');

-- name: cluster
SHOW GLOBAL STATUS WHERE variable_name = 'wsrep_cluster_size';

-- name: oldest_snapshot
SELECT trx_mysql_thread_id, timestampdiff(SECOND, trx_started, now())
  FROM information_schema.innodb_trx
 WHERE trx_mysql_thread_id <> connection_id()
 ORDER BY trx_started
 LIMIT 1;

-- For a caller's connection: jobs with keys one at a time, compared as the columns are, whatever that session has set.

-- name: join
-- A live id and a held key leave things as they are, and lock what is in the way.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                         idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed)
SELECT :id, :queue, CASE WHEN due <= now THEN 'available' ELSE 'scheduled' END, :rank_, due, :expires_at, :max_crashes,
       :enqueued_at, :unique_key, :unique_key, :idempotency_key, :idempotency_ttl, :single_instance, :lane, :cost, :job, :sealed
  FROM (SELECT now, greatest(now + :delay, coalesce(:not_before, now + :delay)) AS due FROM (SELECT :now AS now) AS clock) AS new
    ON DUPLICATE KEY UPDATE id = onward_jobs.id;

-- name: is_live
SELECT id FROM onward_jobs WHERE id = :id;

-- name: lock_key_holder
SELECT id, state FROM onward_jobs WHERE key_held = :key FOR UPDATE;

-- name: take_key_away
-- The running holder is asked to cancel and its key is free at once: its replacement need not wait for it.
UPDATE onward_jobs SET key_held = NULL, asked = true, cancel_reason = coalesce(cancel_reason, :reason)
 WHERE id = :id AND state = 'executing';

-- name: replace_waiting
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, reason, progress, result, sealed)
SELECT id, 'cancelled', false, :now, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, :reason, progress, NULL, sealed
  FROM onward_jobs
 WHERE id = :id AND state <> 'executing'
   FOR UPDATE;
DELETE FROM onward_jobs WHERE id = :id AND state <> 'executing';

-- name: lease_owner
-- The owner of this lease: the session that claimed it, or one that adopted it.  Its row is locked until the commit.
SELECT owner FROM onward_jobs WHERE id = :id AND delivery = :token AND state = 'executing' FOR UPDATE;

-- name: is_completed
SELECT EXISTS (SELECT 1 FROM onward_finished WHERE id = :id AND delivery = :token AND state = 'completed');

-- name: note_after_completion
-- An error after the success: evidence that agrees with the finished job.
INSERT INTO onward_attempts (job_id, token, at, duration_ms, attempt, move, state, owner, kind, message, traceback)
SELECT id, delivery, :now, :duration_ms, attempts, 'ack', state, owner, :kind, :message, :traceback
  FROM onward_finished AS done
 WHERE id = :id AND delivery = :token AND state = 'completed'
    ON DUPLICATE KEY UPDATE token = onward_attempts.token;

-- Schedules.  Every write is followed by whether it wrote.

-- name: schedules
-- The clock comes with every row, and alone if there is none.
SELECT clock.now, schedule.name, version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed, sealed
  FROM (SELECT :now AS now) AS clock
  LEFT JOIN onward_schedules AS schedule ON true;

-- name: put_schedule
-- One that is put at the same moment makes it fail, and run again.
INSERT INTO onward_schedules (name, version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed, sealed)
SELECT :schedule, 1, :origin, :fingerprint, :declared_at, :booked_until, :paused_at, :now, :missed, :sealed
  FROM dual
 WHERE NOT EXISTS (SELECT 1 FROM onward_schedules FORCE INDEX (PRIMARY) WHERE name = :schedule);
SELECT 1 FROM dual WHERE row_count() > 0;

-- name: change_schedule
-- A version that no process wrote is -1.
UPDATE onward_schedules
   SET version = :following, origin = :origin, fingerprint = :fingerprint, declared_at = :declared_at,
       booked_until = :booked_until, paused_at = :paused_at, seen_at = :now, missed = :missed, sealed = :sealed
 WHERE name = :schedule AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version;
SELECT 1 FROM dual WHERE row_count() > 0;

-- name: drop_schedule
DELETE FROM onward_schedules
 WHERE name = :schedule AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version;
SELECT 1 FROM dual WHERE row_count() > 0;

-- name: schedules_seen
UPDATE JSON_TABLE(:names, '$[*]' COLUMNS (name varchar(200) PATH '$')) AS wanted
STRAIGHT_JOIN onward_schedules AS schedule FORCE INDEX (PRIMARY) ON schedule.name = cast(wanted.name AS binary)
   SET schedule.seen_at = :now;

-- name: lock_unbegun
-- A job that was ever claimed has begun.  One that is being claimed is waited for, and compared then.
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing' AND job.delivery = 0 AND job.owner IS NULL
   FOR UPDATE;

-- name: take_back
DELETE job
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing' AND job.delivery = 0 AND job.owner IS NULL;

-- Transfer between stores.

-- name: reservations
SELECT name, reserved_for FROM onward_queues WHERE reserved_for IS NOT NULL;

-- name: reservation
SELECT reserved_for FROM onward_queues WHERE name = :queue FOR UPDATE;

-- name: reserve
UPDATE onward_queues SET reserved_for = :transfer WHERE name = :queue AND reserved_for <=> :was;

-- name: confirmed_keys
SELECT wanted.name, hold.job_id, hold.token, hold.done_until
  FROM JSON_TABLE(:keys, '$[*]' COLUMNS (name varchar(2500) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_holds AS hold FORCE INDEX (PRIMARY) ON hold.kind = 'once' AND hold.`key` = wanted.name
 WHERE hold.done_until IS NOT NULL AND hold.job_id <> '';

-- name: lock_to_remove
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   FOR UPDATE;

-- name: notes_among
SELECT note.job_id, convert(note.name USING utf8mb4), note.value, note.at
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_notes AS note FORCE INDEX (PRIMARY) ON note.job_id = wanted.id;

-- name: remove_live
DELETE job
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing';

-- name: restore_live
-- Rows begin with the names of their columns.  Where an id or a key is in the way, what is there stays as it is.
INSERT INTO onward_jobs :rows ON DUPLICATE KEY UPDATE id = onward_jobs.id;

-- name: restore_dead
INSERT INTO onward_finished :rows ON DUPLICATE KEY UPDATE id = onward_finished.id;

-- name: restore_runs
REPLACE INTO onward_attempts :rows;

-- name: restore_notes
REPLACE INTO onward_notes :rows;

-- name: known
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 UNION ALL
SELECT done.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: restore_confirmed
-- A key that is held here now, or done for longer, stays as it is.  The time comes last: it decides about the others.
INSERT INTO onward_holds (kind, `key`, job_id, token, done_until)
SELECT 'once', new.name, new.job_id, new.token, new.until
  FROM JSON_TABLE(:confirmed, '$[*]' COLUMNS (name varchar(2500) PATH '$[0]', job_id varchar(64) PATH '$[1]',
                                              token bigint PATH '$[2]', until bigint PATH '$[3]')) AS new
    ON DUPLICATE KEY UPDATE
       job_id = CASE WHEN onward_holds.done_until < VALUES(done_until) THEN VALUES(job_id) ELSE onward_holds.job_id END,
       token = CASE WHEN onward_holds.done_until < VALUES(done_until) THEN VALUES(token) ELSE onward_holds.token END,
       done_until = CASE WHEN onward_holds.done_until < VALUES(done_until) THEN VALUES(done_until)
                         ELSE onward_holds.done_until END;

-- name: damaged_jobs
-- Live jobs with values that no worker writes; the code that reads them says which.
-- The counters end one below what a claim may write.
SELECT id AS `key`, id, queue, job, sealed, state, `rank`, available_at, expires_at, enqueued_at, started_at, max_crashes, delivery,
       attempts, crashes, interruptions, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance,
       progress, owner, convert(lane USING utf8mb4), cost, :now
  FROM onward_jobs
 WHERE state NOT IN ('scheduled', 'available', 'executing', 'retryable') OR (state = 'executing' AND owner IS NULL)
    OR delivery NOT BETWEEN 0 AND 2147483646 OR attempts NOT BETWEEN 0 AND 2147483646
    OR crashes NOT BETWEEN 0 AND 2147483646 OR interruptions NOT BETWEEN 0 AND 2147483646
    OR waits NOT BETWEEN 0 AND 2147483646 OR max_crashes NOT BETWEEN 1 AND 2147483646 OR `rank` NOT BETWEEN -100 AND 100
    OR available_at NOT BETWEEN 0 AND 253402300799999999 OR enqueued_at NOT BETWEEN 0 AND 253402300799999999
    OR idempotency_ttl NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 0 AND 253402300799999999
    OR started_at NOT BETWEEN 0 AND 253402300799999999 OR parked_since NOT BETWEEN 0 AND 253402300799999999
 LIMIT 1000
   FOR UPDATE SKIP LOCKED;

-- name: drop_damaged
DELETE FROM onward_jobs WHERE id = :key;

-- name: damaged_sessions
SELECT owner FROM onward_sessions
 WHERE expires_at NOT BETWEEN 0 AND 253402300799999999 OR lease_for NOT BETWEEN 1 AND 253402300799999999
   FOR UPDATE SKIP LOCKED;
