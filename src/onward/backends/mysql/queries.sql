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

-- name: enqueue_few
-- The same of one or a few without a key, an expiry or a lane, which nearly all are: reading JSON takes as long as storing
-- fifteen rows, and every value that is written costs.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, max_crashes, enqueued_at, job, sealed) VALUES :rows;

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

-- name: open_session
-- The time is counted from when this transaction has the row: a renewal that waits for a turn loses nothing.
INSERT INTO onward_sessions (owner, expires_at, lease_for, host, pid, version, description) VALUES (:owner, 0, 0, '', 0, '', '')
    ON DUPLICATE KEY UPDATE owner = :owner;
UPDATE onward_sessions
   SET expires_at = :now + :lease_for, lease_for = :lease_for, host = :host, pid = :pid, version = :version,
       description = :description
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
SELECT owner, host, pid, description
  FROM onward_sessions FORCE INDEX (expiry_idx)
 WHERE expires_at <= :now
 ORDER BY expires_at
   FOR UPDATE SKIP LOCKED;

-- name: owners_of_queue
SELECT DISTINCT owner FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'executing' AND queue = :queue;

-- name: session_of
SELECT owner, host, pid, description FROM onward_sessions WHERE owner = :owner FOR UPDATE;

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
                  idempotency_ttl, convert(single_instance USING utf8mb4), convert(lane USING utf8mb4),
                  flow IS NOT NULL),
       started_at
  FROM onward_jobs FORCE INDEX (owner_idx)
 WHERE owner = :owner AND state = 'executing'
 ORDER BY id;

-- name: asked_to_cancel
SELECT id, delivery FROM onward_jobs FORCE INDEX (owner_idx) WHERE owner = :owner AND asked = true ORDER BY id;

-- name: paused_queues
SELECT name FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: next_due
-- Is it paused; the last place, by which there are jobs to hand out, and jobs with lanes; has it a limit; when the next job falls
-- due; and the time.  One queue at a time, here and below: only with a value that is known does the server look at one end of an
-- index instead of walking along it.  No part is a table of its own: the server would write its one row before it reads it.
SELECT EXISTS (SELECT 1 FROM onward_queues WHERE name = :queue AND paused_at IS NOT NULL),
       (SELECT max(place) FROM onward_jobs FORCE INDEX (place_idx) WHERE state = 'available' AND queue = :queue),
       EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = :queue),
       (SELECT min(available_at) FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'scheduled' AND queue = :queue AND place = 0 AND line IS NULL),
       (SELECT min(available_at) FROM onward_jobs FORCE INDEX (place_idx)
         WHERE state = 'retryable' AND queue = :queue AND place = 0 AND line IS NULL),
       :now;

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
SELECT job.id, job.flow IS NOT NULL
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
              OR coalesce(parked_since, spent, idempotency_key, single_instance, flow) IS NOT NULL
            THEN JSON_ARRAY(attempts, crashes, interruptions, waits, parked_since, spent,
                            convert(idempotency_key USING utf8mb4), idempotency_ttl,
                            convert(single_instance USING utf8mb4), NULL, flow IS NOT NULL) END
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
              OR coalesce(job.parked_since, job.spent, job.idempotency_key, job.single_instance, job.lane, job.flow) IS NOT NULL
            THEN JSON_ARRAY(job.attempts, job.crashes, job.interruptions, job.waits, job.parked_since, job.spent,
                            convert(job.idempotency_key USING utf8mb4), job.idempotency_ttl,
                            convert(job.single_instance USING utf8mb4), convert(job.lane USING utf8mb4),
                            job.flow IS NOT NULL) END
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
                  idempotency_ttl, convert(single_instance USING utf8mb4), convert(lane USING utf8mb4),
                  flow IS NOT NULL),
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
-- Whether there are gates, and how many rows are missing that claims lock; without a limit it is only the first one.
SELECT EXISTS (SELECT 1 FROM onward_gates),
       CASE WHEN EXISTS (SELECT 1 FROM onward_limits)
            THEN 1024 - (SELECT count(*) FROM onward_stripes WHERE number BETWEEN 0 AND 1023)
            ELSE 1 - (SELECT count(*) FROM onward_stripes WHERE number = 0) END;

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

-- name: lock_limits
-- Waits for the claims by lanes that are under way, see `keep_limits`, and keeps others from taking jobs until the commit.
SELECT number FROM onward_stripes WHERE number = 0 FOR UPDATE;

-- name: keep_limits
-- Limits stay as they are until the commit, if no other transaction changes one now, or waits to do so: nothing waits here.
-- The two servers have other words for it.
SELECT number
  FROM onward_stripes
 WHERE number = 0
  /*!80000 FOR SHARE SKIP LOCKED */ /*M!100600 LOCK IN SHARE MODE SKIP LOCKED */;

-- name: has_first_stripe
SELECT EXISTS (SELECT 1 FROM onward_stripes WHERE number = 0);

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
REPLACE INTO onward_attempts (
        job_id, token, at, duration_ms, attempt, move, state, owner, kind, message, traceback, fingerprint, ran_by)
SELECT run.*
  FROM JSON_TABLE(:runs, '$[*]' COLUMNS (
           job_id varchar(64) PATH '$[0]', token bigint PATH '$[1]', at bigint PATH '$[2]', duration_ms bigint PATH '$[3]',
           attempt int PATH '$[4]', move varchar(10) PATH '$[5]', state varchar(10) PATH '$[6]', owner varchar(64) PATH '$[7]',
           kind longtext PATH '$[8]', message longtext PATH '$[9]', traceback longtext PATH '$[10]',
           fingerprint varchar(64) PATH '$[11]', ran_by longtext PATH '$[12]')) AS run;

-- name: complete
-- Successes without keys, which nearly all are.  It locks what it reads: progress noted meanwhile comes before or after.
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, flow, node, reason, progress, result, sealed)
SELECT job.id, 'completed', NOT :keep, :now, queue, job, `rank`, delivery, attempts + 1, crashes, interruptions, max_crashes,
       available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
       idempotency_ttl, single_instance, lane, cost, flow, node, NULL, progress,
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
        idempotency_ttl, single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
SELECT job.id, lease.goes_to, NOT lease.keep, :now, queue, job, `rank`, delivery, attempts + lease.ran,
       crashes + lease.crashed, interruptions + lease.interrupted, max_crashes, available_at, enqueued_at, started_at,
       expires_at, job.owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost,
       flow, node, lease.reason, progress, CASE WHEN lease.keep THEN substr(:results, lease.start, lease.length) END,
       CASE WHEN lease.keep THEN sealed END,
       -- The records of the runs are written already.
       CASE WHEN lease.goes_to = 'discarded'
            THEN coalesce(nullif((SELECT run.fingerprint FROM onward_attempts AS run FORCE INDEX (PRIMARY)
                                   WHERE run.job_id = job.id ORDER BY run.token DESC LIMIT 1), ''), 'unexplained') END
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
SELECT id, delivery, owner, queue, job, crashes, flow IS NOT NULL
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
SELECT job.id, job.delivery, job.owner, job.queue, job.job, job.crashes, job.flow IS NOT NULL
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', token bigint PATH '$[1]', owner varchar(64) PATH '$[2]'))
    AS lost
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = lost.id
 WHERE job.delivery = lost.token AND job.owner = lost.owner AND job.state = 'executing'
   FOR UPDATE SKIP LOCKED;

-- name: lock_jobs
-- And whether it is a member of a flow, and waits for its node.
SELECT job.id, job.state, job.queue, job.flow IS NOT NULL, job.awaits <=> ''
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   FOR UPDATE;

-- name: cancel_waiting
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, flow, node, reason, progress, result, sealed)
SELECT job.id, 'cancelled', false, :now, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
       available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
       idempotency_ttl, single_instance, lane, cost, flow, node, wanted.reason, progress, NULL, sealed
  FROM JSON_TABLE(:cancelled, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', reason longtext PATH '$[1]')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing'
   FOR UPDATE;
DELETE job
  FROM JSON_TABLE(:cancelled, '$[*]' COLUMNS (id varchar(64) PATH '$[0]')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.state <> 'executing';

-- name: ask_each_to_cancel
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
       job.interruptions, job.available_at, job.enqueued_at, job.started_at, NULL, job.owner, job.cancel_reason,
       NULL, NULL, job.progress, job.waits, job.parked_since,
       CASE WHEN job.state = 'scheduled' THEN CONVERT(job.awaits USING utf8mb4) END,
       job.max_crashes, job.expires_at, job.spent, convert(job.unique_key USING utf8mb4), job.key_held IS NOT NULL,
       convert(job.idempotency_key USING utf8mb4), job.idempotency_ttl, convert(job.single_instance USING utf8mb4),
       convert(job.lane USING utf8mb4), job.cost, job.flow, job.node
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 UNION ALL
SELECT done.id, done.queue, done.job, done.sealed, done.state, done.`rank`, done.attempts, done.delivery, done.crashes,
       done.interruptions, done.available_at, done.enqueued_at, done.started_at, done.finished_at, done.owner, NULL,
       done.result, done.reason, done.progress, done.waits, done.parked_since,
       NULL,
       done.max_crashes, done.expires_at, NULL, convert(done.unique_key USING utf8mb4), false,
       convert(done.idempotency_key USING utf8mb4), done.idempotency_ttl, convert(done.single_instance USING utf8mb4),
       convert(done.lane USING utf8mb4), done.cost, done.flow, done.node
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
SELECT run.job_id, run.token, run.attempt, run.move, run.state, run.at, run.duration_ms, run.owner, run.ran_by, run.kind,
       run.message, run.traceback, run.fingerprint
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

-- name: next_dead_job
-- The next name, and below the next fingerprint of it: the jobs between are passed over, see `next_queue`.
SELECT min(dead_job) FROM onward_finished FORCE INDEX (deaths_idx) WHERE dead_job > :after;

-- name: next_fingerprint
SELECT min(fingerprint) FROM onward_finished FORCE INDEX (deaths_idx) WHERE dead_job = :job AND fingerprint > :after;

-- name: deaths
SELECT counted.number, first.id, first.finished_at, last.id, last.finished_at
  FROM (SELECT count(*) AS number
          FROM (SELECT 1 FROM onward_finished FORCE INDEX (deaths_idx)
                 WHERE dead_job = :job AND fingerprint = :fingerprint LIMIT :at_most) AS line) AS counted
 STRAIGHT_JOIN (SELECT id, finished_at FROM onward_finished FORCE INDEX (deaths_idx)
                 WHERE dead_job = :job AND fingerprint = :fingerprint ORDER BY id LIMIT 1) AS first
 STRAIGHT_JOIN (SELECT id, finished_at FROM onward_finished FORCE INDEX (deaths_idx)
                 WHERE dead_job = :job AND fingerprint = :fingerprint ORDER BY id DESC LIMIT 1) AS last;

-- name: page_of_group_oldest
SELECT id FROM onward_finished FORCE INDEX (deaths_idx)
 WHERE dead_job = :job AND fingerprint = :fingerprint AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:flow IS NULL OR flow = :flow) AND (:node IS NULL OR node = :node)
 ORDER BY id
 LIMIT :limit;

-- name: page_of_group_newest
SELECT id FROM onward_finished FORCE INDEX (deaths_idx)
 WHERE dead_job = :job AND fingerprint = :fingerprint AND id < :after
   AND (:queue IS NULL OR queue = :queue) AND (:flow IS NULL OR flow = :flow) AND (:node IS NULL OR node = :node)
 ORDER BY id DESC
 LIMIT :limit;

-- name: newest_of_group
SELECT id FROM onward_finished FORCE INDEX (deaths_idx)
 WHERE dead_job = :job AND fingerprint = :fingerprint
 ORDER BY id DESC
 LIMIT 1;

-- name: dead_among
SELECT done.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
 WHERE done.job = :job AND done.fingerprint = :fingerprint;

-- name: next_queue
-- The next name: the jobs between are passed over, as long as there is one bound and no other.
SELECT min(queue) FROM onward_jobs FORCE INDEX (place_idx) WHERE state = :state AND queue > :after;

-- name: overview_line
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx) WHERE state = :state AND queue = :queue LIMIT :at_most) AS line;

-- name: next_line
-- The first line of waiting jobs behind another: its place, its lane, and since when its first job is due.
SELECT place, line, available_at FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'available' AND queue = :queue AND place > :place ORDER BY place, line, available_at LIMIT 1;

-- name: next_lane
SELECT place, line, available_at FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'available' AND queue = :queue AND place = :place AND line > :line ORDER BY line, available_at LIMIT 1;

-- name: first_due
SELECT min(available_at) FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = :state AND queue = :queue AND place = 0 AND line IS NULL;

-- name: limit_reading
-- So long may each statement take.  Each of the two servers has a word of its own for it, and passes over the other's.
SET @onward_limited = true /*M!100100 , SESSION max_statement_time = :milliseconds / 1000 */ /*!50708 , SESSION max_execution_time = :milliseconds */;

-- name: unlimit_reading
SET @onward_limited = false /*M!100100 , SESSION max_statement_time = DEFAULT */ /*!50708 , SESSION max_execution_time = DEFAULT */;

-- name: ahead
-- In three parts, each a stretch of the index: both servers walk along a whole queue for a comparison of rows.
SELECT count(*)
  FROM ((SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
          WHERE state = 'available' AND queue = :queue AND place < :rank LIMIT :at_most)
         UNION ALL
        (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
          WHERE state = 'available' AND queue = :queue AND place = :rank AND line IS NULL AND available_at < :available_at
          LIMIT :at_most)
         UNION ALL
        (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
          WHERE state = 'available' AND queue = :queue AND place = :rank AND line IS NULL AND available_at = :available_at
            AND id < :id LIMIT :at_most)
         LIMIT :at_most) AS counted;

-- name: ahead_in_lane
SELECT count(*)
  FROM ((SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
          WHERE state = 'available' AND queue = :queue AND place = :rank + 1000 AND line = :lane
            AND available_at < :available_at LIMIT :at_most)
         UNION ALL
        (SELECT 1 FROM onward_jobs FORCE INDEX (place_idx)
          WHERE state = 'available' AND queue = :queue AND place = :rank + 1000 AND line = :lane
            AND available_at = :available_at AND id < :id LIMIT :at_most)
         LIMIT :at_most) AS counted;

-- name: pauses
SELECT name, paused_at FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: sessions
SELECT owner, lease_for, host, pid, version, expires_at,
       (SELECT count(*) FROM onward_jobs FORCE INDEX (owner_idx) WHERE onward_jobs.owner = session.owner),
       description
  FROM onward_sessions AS session
 ORDER BY owner;

-- name: running
SELECT id FROM onward_jobs FORCE INDEX (place_idx)
 WHERE state = 'executing' AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job);

-- name: replayable
-- In their order, locked until the commit; the last column is whether it has expired.
SELECT done.id, done.finished_at, convert(done.unique_key USING utf8mb4), done.queue, coalesce(done.expires_at <= :now, false),
       done.flow, done.node
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
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job, sealed)
SELECT done.id, queue, 'available', `rank`, :now, expires_at, least(greatest(delivery, 0), 1073741824), max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job, sealed
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: lock_finished
-- As they were seen: a job that lived and finished again meanwhile stays.  A member may be seen with the end of its flow.
SELECT done.id, done.flow, done.node
  FROM JSON_TABLE(:seen, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', finished_at bigint PATH '$[1]')) AS seen
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = seen.id
 WHERE done.finished_at = seen.finished_at
    OR done.flow IS NOT NULL AND seen.finished_at > done.finished_at
   AND seen.finished_at = (SELECT over_at FROM onward_flows WHERE onward_flows.id = done.flow)
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
-- Of a member, its flow's end counts; while that is not over, it is kept.
SELECT id, queue, state,
       CASE WHEN flow IS NULL THEN finished_at
            ELSE coalesce((SELECT greatest(finished_at, coalesce(over_at, 9223372036854775807)) FROM onward_flows
                            WHERE onward_flows.id = onward_finished.flow), finished_at) END,
       tombstone, :now
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
SELECT id, state, flow IS NOT NULL FROM onward_jobs WHERE key_held = :key FOR UPDATE;

-- name: take_key_away
-- The running holder is asked to cancel and its key is free at once: its replacement need not wait for it.
UPDATE onward_jobs SET key_held = NULL, asked = true, cancel_reason = coalesce(cancel_reason, :reason)
 WHERE id = :id AND state = 'executing';

-- name: replace_waiting
REPLACE INTO onward_finished (
        id, state, tombstone, finished_at, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes,
        available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
        idempotency_ttl, single_instance, lane, cost, flow, node, reason, progress, result, sealed)
SELECT id, 'cancelled', false, :now, queue, job, `rank`, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, :reason, progress, NULL, sealed
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
INSERT INTO onward_attempts (
       job_id, token, at, duration_ms, attempt, move, state, owner, kind, message, traceback, fingerprint, ran_by)
SELECT id, delivery, :now, :duration_ms, attempts, 'ack', state, owner, :kind, :message, :traceback, :fingerprint, :ran_by
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

-- Flows.  Looks run on connections of callers, too: names are ASCII, and text that may be any is in JSON.  How a member ended
-- is compared with one value at a time: with two the server goes through all members of the node.

-- name: flows_to_look_at
-- Of [[flow, node, job], …]: a live job of the node, first of all the one that was live before, and whether something changes:
-- no job is live, the first has failed, or a step was left.
SELECT seen.flow, seen.node, seen.alive,
       seen.alive IS NULL OR flow.unswept
    OR NOT node.failed AND (EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                                     WHERE member.flow = seen.flow AND member.node = seen.node AND member.outcome = 'discarded')
                         OR EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                                     WHERE member.flow = seen.flow AND member.node = seen.node AND member.outcome = 'cancelled'))
  FROM (SELECT place.flow, place.node,
               coalesce((SELECT member.id FROM onward_members AS member FORCE INDEX (PRIMARY)
                          WHERE member.flow = place.flow AND member.node = place.node AND member.id = place.job
                            AND member.outcome = ''),
                        (SELECT member.id FROM onward_members AS member FORCE INDEX (outcome_idx)
                          WHERE member.flow = place.flow AND member.node = place.node AND member.outcome = ''
                          LIMIT 1)) AS alive
          FROM JSON_TABLE(:places, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]',
                                                   job varchar(64) PATH '$[2]')) AS place) AS seen
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = seen.flow
 STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = seen.flow AND node.name = seen.node;

-- name: lock_flows
-- In this order.  A statement after this one sees all that was committed before.
SELECT flow.id
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id
   FOR UPDATE;

-- name: flows_among
SELECT flow.id, flow.name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id;

-- name: nodes_now
SELECT node.flow, node.place, node.name, node.comes_after, node.opens_when, node.state,
       node.failed OR node.state IN ('waiting', 'open') AND node.replays = 0
                  AND (EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                                WHERE member.flow = node.flow AND member.node = node.name AND member.outcome = 'discarded')
                    OR EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                                WHERE member.flow = node.flow AND member.node = node.name AND member.outcome = 'cancelled')),
       node.swept,
       EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                WHERE member.flow = node.flow AND member.node = node.name AND member.outcome = ''),
       node.replays
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = wanted.id;

-- name: nodes_of
SELECT node.flow, node.place, node.name, node.comes_after, node.opens_when, node.state, node.failed,
       (SELECT cast(coalesce(sum(addition.number), 0) AS signed) FROM onward_additions AS addition FORCE INDEX (PRIMARY)
         WHERE addition.flow = node.flow AND addition.node = node.name)
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = wanted.id;

-- name: live_nodes
-- A value, not EXISTS: that would become a join over all members.
SELECT wanted.name
  FROM JSON_TABLE(:nodes, '$[*]' COLUMNS (name varchar(200) PATH '$')) AS wanted
 WHERE (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
         WHERE member.flow = :flow AND member.node = wanted.name AND member.outcome = ''
         LIMIT 1) IS NOT NULL;

-- name: failed_nodes
SELECT wanted.name
  FROM JSON_TABLE(:nodes, '$[*]' COLUMNS (name varchar(200) PATH '$')) AS wanted
 WHERE (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
         WHERE member.flow = :flow AND member.node = wanted.name AND member.outcome = 'discarded'
         LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
         WHERE member.flow = :flow AND member.node = wanted.name AND member.outcome = 'cancelled'
         LIMIT 1) IS NOT NULL;

-- name: waiting_members
SELECT job.id, job.id
  FROM onward_members AS member FORCE INDEX (outcome_idx)
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = member.id
 WHERE member.flow = :flow AND member.node = :node AND member.outcome = '' AND member.id > :after
   AND job.state = 'scheduled' AND job.awaits = ''
 ORDER BY member.id
 LIMIT :limit;

-- name: members_to_end
SELECT job.id, job.id, job.state
  FROM onward_members AS member FORCE INDEX (outcome_idx)
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = member.id
 WHERE member.flow = :flow AND member.node = :node AND member.outcome = '' AND member.id > :after
   AND (job.state <> 'executing' OR NOT job.asked)
 ORDER BY member.id
 LIMIT :limit;

-- name: lock_members
-- Under the lock of their flow.  What another transaction has locked is left out: it may wait for that lock.
SELECT job.id, job.state
  FROM JSON_TABLE(:jobs, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   FOR UPDATE SKIP LOCKED;

-- name: open_members
-- Their own delay counts from now; `never` is the first time that is no instant.  The state may be set before the time or after
-- it: a time that is an instant was set already.
UPDATE JSON_TABLE(:jobs, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.awaits = NULL,
       job.available_at = CASE WHEN job.available_at >= 2 * :never THEN greatest(:now, job.available_at - 2 * :never)
                               ELSE :now + greatest(0, job.available_at - :never) END,
       job.state = CASE WHEN CASE WHEN job.available_at >= 2 * :never THEN job.available_at - 2 * :never
                                  WHEN job.available_at >= :never THEN :now + job.available_at - :never
                                  ELSE job.available_at END <= :now
                        THEN 'available' ELSE 'scheduled' END
 WHERE job.state = 'scheduled' AND job.awaits = '';
SELECT job.id, job.state, job.queue
  FROM JSON_TABLE(:jobs, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id;

-- name: end_members
-- Of jobs that are finished now: note how they ended, and tell of which nodes they were.
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
STRAIGHT_JOIN onward_members AS member FORCE INDEX (PRIMARY)
    ON member.flow = done.flow AND member.node = done.node AND member.id = done.id
   SET member.outcome = done.state;
SELECT DISTINCT done.flow, done.node
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
 WHERE done.flow IS NOT NULL;

-- name: members_of_flows
-- Those whose flow is there.
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = job.flow;

-- name: end_damaged_member
-- It may be finished under another id.
UPDATE onward_members SET outcome = 'discarded' WHERE flow = :flow AND node = :node AND id = :id;

-- name: ask_to_cancel
-- Members that run and are locked.  The first reason stands.
UPDATE JSON_TABLE(:jobs, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
   SET job.cancel_reason = coalesce(job.cancel_reason, :reason), job.asked = true
 WHERE job.state = 'executing';

-- name: change_nodes
UPDATE JSON_TABLE(:nodes, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', name varchar(200) PATH '$[1]',
                                          state varchar(12) PATH '$[2]', failed boolean PATH '$[3]', swept varchar(64) PATH '$[4]',
                                          replays tinyint PATH '$[5]')) AS new
STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = new.flow AND node.name = new.name
   SET node.state = new.state, node.failed = new.failed, node.swept = new.swept, node.replays = new.replays;

-- name: change_flows
-- One that is over keeps its time, or gets the present one.
UPDATE JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', stopped boolean PATH '$[1]', cancelled longtext PATH '$[2]',
                                          is_over boolean PATH '$[3]', unswept boolean PATH '$[4]')) AS new
STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = new.id
   SET flow.stopped = new.stopped, flow.cancelled = new.cancelled, flow.unswept = new.unswept,
       flow.over_at = CASE WHEN new.is_over THEN coalesce(flow.over_at, :now) END;

-- name: close_flow
UPDATE onward_flows SET closed = true WHERE id = :flow AND NOT closed;
SELECT 1 FROM dual WHERE row_count() > 0;

-- name: leave_to_sweep
-- For a transaction that may read from an older snapshot than its locks are: the next look at these flows, or the next sweep,
-- does what it leaves out.
SELECT flow.id
  FROM JSON_TABLE(:places, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]')) AS place
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = place.flow
   FOR UPDATE;
UPDATE JSON_TABLE(:places, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]')) AS place
STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = place.flow
STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = place.flow AND node.name = place.node
   SET node.swept = '', flow.unswept = true;

-- name: cancel_flow
-- The first reason stands.
UPDATE onward_flows SET cancelled = coalesce(cancelled, :reason), closed = true WHERE id = :flow AND over_at IS NULL;
SELECT 1 FROM dual WHERE row_count() > 0;

-- name: steps_left
SELECT unswept, replayed FROM onward_flows FORCE INDEX (PRIMARY) WHERE id = :flow;

-- name: count_replayed
UPDATE onward_flows SET replayed = CASE WHEN :anew THEN 0 ELSE replayed END + :number WHERE id = :flow;

-- name: lock_lease
SELECT id
  FROM onward_jobs FORCE INDEX (PRIMARY)
 WHERE id = :id AND delivery = :token AND owner = :owner AND state = 'executing'
   FOR UPDATE;

-- name: store_flow
-- The id, if it was not there: a flow and its nodes are committed together.  The look is a statement of its own: within the
-- insert it would lock the gap in which others store their flows.
SELECT count(*) INTO @onward_there FROM onward_flows WHERE id = :flow;
INSERT INTO onward_flows (id, name, created_at, stop_on_failure, closed)
SELECT :flow, :named, :now, :stop_on_failure, :closed FROM dual WHERE @onward_there = 0;
SELECT id FROM onward_flows WHERE id = :flow AND NOT EXISTS (SELECT 1 FROM onward_nodes WHERE onward_nodes.flow = :flow);

-- name: store_nodes
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state)
SELECT :flow, name, place, comes_after, opens_when, state
  FROM JSON_TABLE(:nodes, '$[*]' COLUMNS (place FOR ORDINALITY, name varchar(200) PATH '$[0]', comes_after json PATH '$[1]',
                                          opens_when varchar(10) PATH '$[2]', state varchar(12) PATH '$[3]')) AS new;

-- name: node_states
SELECT node.flow, node.name, node.state, flow.stopped OR flow.cancelled IS NOT NULL
  FROM JSON_TABLE(:places, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]')) AS place
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = place.flow
 STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = place.flow AND node.name = place.node;

-- name: enqueue_members
-- Like `enqueue`.  A job whose node waits is due at no instant.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                         idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, awaits, job, sealed)
SELECT id, queue, CASE WHEN never IS NULL AND due <= now THEN 'available' ELSE 'scheduled' END, -priority, coalesce(never, due),
       expires_at, max_crashes, enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane,
       cost, flow, node, CASE WHEN never IS NOT NULL THEN '' END, job, substr(:sealed, start, length)
  FROM (SELECT given.*, clock.now, greatest(now + delay, coalesce(not_before, now + delay)) AS due
          FROM (SELECT :now AS now) AS clock
         STRAIGHT_JOIN JSON_TABLE(:envelopes, '$[*]' COLUMNS (
                   id longtext PATH '$[0]', queue longtext PATH '$[1]', job longtext PATH '$[2]',
                   enqueued_at decimal(30) PATH '$[3]', max_crashes decimal(30) PATH '$[4]', start bigint PATH '$[5]',
                   length bigint PATH '$[6]', priority decimal(30) PATH '$[7]', delay decimal(30) PATH '$[8]',
                   not_before decimal(30) PATH '$[9]', expires_at decimal(30) PATH '$[10]', unique_key longtext PATH '$[11]',
                   idempotency_key longtext PATH '$[12]', idempotency_ttl decimal(30) PATH '$[13]',
                   single_instance longtext PATH '$[14]', lane longtext PATH '$[15]', cost int PATH '$[16]',
                   flow longtext PATH '$[17]', node longtext PATH '$[18]', never decimal(30) PATH '$[19]'))
           AS given) AS new;
INSERT INTO onward_members (flow, node, id)
SELECT flow, node, id
  FROM JSON_TABLE(:members, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]',
                                            id varchar(64) PATH '$[2]')) AS new;

-- name: make_member
-- Of a job that was stored just now, in a caller's transaction: `never` is null if its node is open.
UPDATE onward_jobs
   SET flow = :flow, node = :node, awaits = CASE WHEN :never IS NOT NULL THEN '' END,
       state = CASE WHEN :never IS NOT NULL THEN 'scheduled' ELSE state END, available_at = coalesce(:never, available_at)
 WHERE id = :id;
INSERT INTO onward_members (flow, node, id) VALUES (:flow, :node, :id);

-- name: count_added
-- Inserts only: no two transactions that add wait for each other.
INSERT INTO onward_additions (flow, node, id, at, number)
SELECT flow, node, uuid(), :now, number
  FROM JSON_TABLE(:added, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]', number int PATH '$[2]'))
    AS new;

-- name: failed_members
SELECT id
  FROM onward_members FORCE INDEX (outcome_idx)
 WHERE flow = :flow AND node = :node AND outcome = :outcome AND id > :after
 ORDER BY id
 LIMIT :limit;

-- name: lock_revivable
-- Those that may still run.  What another transaction has locked is being replayed or pruned.
SELECT done.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
 WHERE done.state IN ('discarded', 'cancelled') AND NOT done.tombstone AND (done.expires_at IS NULL OR done.expires_at > :now)
   FOR UPDATE SKIP LOCKED;

-- name: revive_members
-- They wait until their node opens.  One whose id or unique key is taken stays as it is.
INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, awaits, job, sealed)
SELECT done.id, queue, 'scheduled', `rank`, :never, expires_at, least(greatest(delivery, 0), 1073741824), max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, '', job,
       sealed
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id
    ON DUPLICATE KEY UPDATE id = onward_jobs.id;
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
STRAIGHT_JOIN onward_members AS member FORCE INDEX (PRIMARY)
    ON member.flow = job.flow AND member.node = job.node AND member.id = job.id
   SET member.outcome = '';
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id;

-- name: await_node
-- Members that were replayed; one whose flow is gone is a plain job.
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
STRAIGHT_JOIN onward_members AS member FORCE INDEX (PRIMARY)
    ON member.flow = job.flow AND member.node = job.node AND member.id = job.id
   SET member.outcome = '';
UPDATE JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = job.flow AND node.name = job.node
   SET job.state = 'scheduled', job.awaits = '', job.available_at = :never
 WHERE job.state = 'available';

-- name: reasons_of
SELECT done.id, coalesce(done.reason, '')
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = wanted.id;

-- name: flows
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows FORCE INDEX (PRIMARY)
 WHERE :after IS NULL OR id < :after
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_running
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows FORCE INDEX (over_idx)
 WHERE over_at IS NULL AND (:after IS NULL OR id < :after)
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_named
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows FORCE INDEX (name_idx)
 WHERE name = :named AND (:after IS NULL OR id < :after) AND (NOT :running OR over_at IS NULL)
 ORDER BY id DESC
 LIMIT :limit;

-- name: live_members
-- How many jobs of a node are in each live state, none counted beyond the limit.
SELECT state, count(*)
  FROM (SELECT job.state
          FROM onward_members AS member FORCE INDEX (outcome_idx)
         STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = member.id
         WHERE member.flow = :flow AND member.node = :node AND member.outcome = ''
         LIMIT :at_most) AS counted
 GROUP BY state;

-- name: ended_members
-- The same of those that have ended: completed, discarded, cancelled.  A node at a time: only with values that are known does
-- the limit end the walk.
SELECT (SELECT count(*) FROM (SELECT 1 FROM onward_members FORCE INDEX (outcome_idx)
                               WHERE flow = :flow AND node = :node AND outcome = 'completed' LIMIT :at_most) AS counted),
       (SELECT count(*) FROM (SELECT 1 FROM onward_members FORCE INDEX (outcome_idx)
                               WHERE flow = :flow AND node = :node AND outcome = 'discarded' LIMIT :at_most) AS counted),
       (SELECT count(*) FROM (SELECT 1 FROM onward_members FORCE INDEX (outcome_idx)
                               WHERE flow = :flow AND node = :node AND outcome = 'cancelled' LIMIT :at_most) AS counted);

-- name: node_names
SELECT name FROM onward_nodes WHERE flow = :flow;

-- name: page_of_node_oldest
-- Four walks along the ids, merged.
SELECT id FROM (
    (SELECT job.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = member.id
      WHERE :live AND member.flow = :flow AND member.node = :node AND member.outcome = '' AND member.id > :after
        AND (:everything OR JSON_CONTAINS(:states, JSON_QUOTE(job.state)))
        AND (:queue IS NULL OR job.queue = :queue) AND (:job IS NULL OR job.job = :job)
      ORDER BY member.id LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :discarded AND member.flow = :flow AND member.node = :node AND member.outcome = 'discarded' AND member.id > :after
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :cancelled AND member.flow = :flow AND member.node = :node AND member.outcome = 'cancelled' AND member.id > :after
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :completed AND member.flow = :flow AND member.node = :node AND member.outcome = 'completed' AND member.id > :after
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id LIMIT :limit)) AS page
 ORDER BY id
 LIMIT :limit;

-- name: page_of_node_newest
SELECT id FROM (
    (SELECT job.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = member.id
      WHERE :live AND member.flow = :flow AND member.node = :node AND member.outcome = '' AND (:after IS NULL OR member.id < :after)
        AND (:everything OR JSON_CONTAINS(:states, JSON_QUOTE(job.state)))
        AND (:queue IS NULL OR job.queue = :queue) AND (:job IS NULL OR job.job = :job)
      ORDER BY member.id DESC LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :discarded AND member.flow = :flow AND member.node = :node AND member.outcome = 'discarded' AND (:after IS NULL OR member.id < :after)
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id DESC LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :cancelled AND member.flow = :flow AND member.node = :node AND member.outcome = 'cancelled' AND (:after IS NULL OR member.id < :after)
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id DESC LIMIT :limit)
     UNION ALL
    (SELECT done.id FROM onward_members AS member FORCE INDEX (outcome_idx)
      STRAIGHT_JOIN onward_finished AS done FORCE INDEX (PRIMARY) ON done.id = member.id
      WHERE :completed AND member.flow = :flow AND member.node = :node AND member.outcome = 'completed' AND (:after IS NULL OR member.id < :after)
        AND NOT done.tombstone AND (:queue IS NULL OR done.queue = :queue) AND (:job IS NULL OR done.job = :job)
      ORDER BY member.id DESC LIMIT :limit)) AS page
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_that_stand_still
-- What a sweep has to look at: flows that were left open for long, that have a step left, or whose next step was overlooked.
-- An addition of none tells of a job that a caller completed: the process may have died before it could look.
SELECT id, name,
       unswept OR EXISTS (SELECT 1 FROM onward_additions AS addition FORCE INDEX (PRIMARY)
                           WHERE addition.flow = running.id AND addition.number = 0),
       NOT closed AND added_at <= :now - :left_open
  FROM (SELECT flow.id, flow.name, flow.unswept, flow.closed,
               CASE WHEN closed THEN 0
                    ELSE (SELECT coalesce(max(addition.at), flow.created_at) FROM onward_additions AS addition FORCE INDEX (PRIMARY)
                           WHERE addition.flow = flow.id) END AS added_at
          FROM onward_flows AS flow FORCE INDEX (over_idx)
         WHERE flow.over_at IS NULL) AS running
 WHERE unswept
    OR NOT closed AND added_at <= :now - :left_open
    OR closed AND ((SELECT 1 FROM onward_nodes AS node FORCE INDEX (PRIMARY)
                     WHERE node.flow = running.id AND node.state = 'open'
                       AND (SELECT 1 FROM onward_members AS member FORCE INDEX (outcome_idx)
                             WHERE member.flow = node.flow AND member.node = node.name AND member.outcome = ''
                             LIMIT 1) IS NULL
                     LIMIT 1) IS NOT NULL
                OR (SELECT 1 FROM onward_nodes AS node FORCE INDEX (PRIMARY)
                     WHERE node.flow = running.id AND node.state IN ('waiting', 'open')
                     LIMIT 1) IS NULL)
 ORDER BY id
 LIMIT :limit;

-- name: forget_members
DELETE member
  FROM JSON_TABLE(:gone, '$[*]' COLUMNS (flow varchar(64) PATH '$[0]', node varchar(200) PATH '$[1]', id varchar(64) PATH '$[2]'))
    AS gone
 STRAIGHT_JOIN onward_members AS member FORCE INDEX (PRIMARY)
    ON member.flow = gone.flow AND member.node = gone.node AND member.id = gone.id
 WHERE member.outcome <> '';

-- name: lock_empty_flows
-- Those of these that are over and have no job any more.
SELECT flow.id
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id
 WHERE flow.over_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM onward_members AS member FORCE INDEX (PRIMARY) WHERE member.flow = flow.id)
   FOR UPDATE;

-- name: drop_flows
DELETE addition
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_additions AS addition FORCE INDEX (PRIMARY) ON addition.flow = wanted.id;
DELETE node
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_nodes AS node FORCE INDEX (PRIMARY) ON node.flow = wanted.id;
DELETE flow
  FROM JSON_TABLE(:flows, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_flows AS flow FORCE INDEX (PRIMARY) ON flow.id = wanted.id;

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
-- The counters end one below what a claim may write.  A job that waits for its node is due at no instant.
SELECT id AS `key`, id, queue, job, sealed, state, `rank`,
       CASE WHEN state = 'scheduled' AND awaits <=> '' AND available_at BETWEEN 0 AND 760206902399999999 THEN enqueued_at
            ELSE available_at END, expires_at, enqueued_at, started_at, max_crashes, delivery,
       attempts, crashes, interruptions, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance,
       progress, owner, convert(lane USING utf8mb4), cost, :now, flow, node
  FROM onward_jobs
 WHERE state NOT IN ('scheduled', 'available', 'executing', 'retryable') OR (state = 'executing' AND owner IS NULL)
    OR delivery NOT BETWEEN 0 AND 2147483646 OR attempts NOT BETWEEN 0 AND 2147483646
    OR crashes NOT BETWEEN 0 AND 2147483646 OR interruptions NOT BETWEEN 0 AND 2147483646
    OR waits NOT BETWEEN 0 AND 2147483646 OR max_crashes NOT BETWEEN 1 AND 2147483646 OR `rank` NOT BETWEEN -100 AND 100
    OR available_at NOT BETWEEN 0 AND CASE WHEN state = 'scheduled' AND awaits <=> '' THEN 760206902399999999
                                           ELSE 253402300799999999 END
    OR enqueued_at NOT BETWEEN 0 AND 253402300799999999
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

-- name: store_audit
INSERT INTO onward_audit :rows;

-- name: audit_of_job
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit FORCE INDEX (job_idx)
 WHERE job_id = :job AND at <= :at AND (at < :at OR number < :number)
   AND (:ref IS NULL OR ref = :ref) AND (:who IS NULL OR who = :who) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_about
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit FORCE INDEX (ref_idx)
 WHERE ref = :ref AND at <= :at AND (at < :at OR number < :number)
   AND (:who IS NULL OR who = :who) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_by
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit FORCE INDEX (who_idx)
 WHERE who = :who AND at <= :at AND (at < :at OR number < :number)
   AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_newest
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit FORCE INDEX (at_idx)
 WHERE at <= :at AND (at < :at OR number < :number)
   AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_among
SELECT entry.number, entry.job_id, entry.at, entry.who, entry.act, entry.detail, entry.ref, entry.signature
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_audit AS entry FORCE INDEX (job_idx) ON entry.job_id = wanted.id;

-- name: forget_audit
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE entry
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_audit AS entry FORCE INDEX (job_idx) ON entry.job_id = wanted.id
 WHERE NOT EXISTS (SELECT 1 FROM onward_jobs AS job WHERE job.id = entry.job_id);

-- name: drop_old_audit
DELETE FROM onward_audit WHERE job_id = '' AND at <= :now - :kept_for ORDER BY at LIMIT :limit;

-- name: asked_among
-- The rows are locked in the order of their ids, as a cancellation locks them.
SELECT job.id
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id varchar(64) PATH '$')) AS wanted
 STRAIGHT_JOIN onward_jobs AS job FORCE INDEX (PRIMARY) ON job.id = wanted.id
 WHERE job.cancel_reason IS NOT NULL
   FOR UPDATE;

-- Samples.

-- name: mark_minute
-- One row for the first process of all that sends a sample of this minute: it looks at the store for all of them.
INSERT IGNORE INTO onward_series (at, width, reporter, data) VALUES (:at, 0, '*', '');
SELECT 1 FROM dual WHERE row_count() = 1;

-- name: store_sample
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, 0, :reporter, :data)
    ON DUPLICATE KEY UPDATE width = 0, data = :data;

-- name: drop_stretch
DELETE FROM onward_series WHERE at >= :first AND at < :before;

-- name: store_merged
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, :width, '*', :data);

-- name: series
SELECT at, width, reporter, data FROM onward_series WHERE at >= :first AND at < :before ORDER BY at, reporter LIMIT :at_most;
