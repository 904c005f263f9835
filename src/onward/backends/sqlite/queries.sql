-- Every statement of the SQLite backend.  Values are always parameters; the table prefix is the only substitution.
-- Parameters are numbered, which is bound fastest, or have the names by which shared code asks in every dialect; a list comes
-- as one JSON array.
-- INDEXED BY, CROSS JOIN (which fixes the order of a join) and a plus before a column (which keeps its index out) are
-- promises that a test compares with EXPLAIN: a free plan for settling was eight times slower, one for claiming three
-- hundred times.

-- name: enqueue
-- Both an id that is live and a unique key that is held make it write nothing; the caller then finds out which.
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, unique_key, key_held, lane, cost, sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16)
ON CONFLICT DO NOTHING;

-- name: enqueue_or_not
-- The same for drivers that do not return how many rows a statement wrote.
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, unique_key, key_held, lane, cost, sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: enqueue_alike
-- Jobs without a unique key come as one object, {id: [enqueued_at, start, length]}: where in the bytes of all its own lie;
-- if any has a lane, {id: [enqueued_at, start, length, lane, cost]}.  All or none: an id that is live makes it fail.
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, lane, cost, sealed)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, new.key, new.value ->> 0, CASE WHEN ?13 THEN new.value ->> 3 END,
       CASE WHEN ?13 THEN new.value ->> 4 END, substr(?12, new.value ->> 1, new.value ->> 2)
  FROM json_each(?11) AS new;

-- name: enqueue_alike_or_not
-- The same, but an id that is live is left out.  (The condition tells the parser that ON belongs to no join.)
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, lane, cost, sealed)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, new.key, new.value ->> 0, CASE WHEN ?13 THEN new.value ->> 3 END,
       CASE WHEN ?13 THEN new.value ->> 4 END, substr(?12, new.value ->> 1, new.value ->> 2)
  FROM json_each(?11) AS new
 WHERE true
ON CONFLICT DO NOTHING
RETURNING id;

-- name: this_database
-- The files that a connection has open: they tell whether it reaches Onward's tables.
PRAGMA database_list;

-- name: is_live
SELECT EXISTS (SELECT 1 FROM onward_jobs WHERE id = ?1);

-- name: is_finished
SELECT EXISTS (SELECT 1 FROM onward_finished WHERE id = ?1);

-- name: key_holder
SELECT rowid, id, state FROM onward_jobs INDEXED BY onward_jobs_held_idx WHERE key_held = ?1;

-- name: take_key_away
-- The running holder is asked to cancel and its key is free at once: its replacement need not wait for it.
UPDATE onward_jobs SET key_held = NULL, cancel_reason = coalesce(cancel_reason, ?2) WHERE rowid = ?1;

-- name: open_session
INSERT INTO onward_sessions (owner, expires_at, lease_for, host, pid, version, description)
VALUES (:owner, :expires_at, :lease_for, :host, :pid, :version, :description)
ON CONFLICT (owner) DO UPDATE
   SET expires_at = excluded.expires_at, lease_for = excluded.lease_for, host = excluded.host, pid = excluded.pid,
       version = excluded.version, description = excluded.description;

-- name: session
-- What a turn must know of its session, and what it need not look for: is any of its jobs asked to cancel, does any carry
-- keys, is any queue paused?
-- (Each column of a turn's statements has a name: else its text is the name, which the driver makes a string of every time.)
SELECT expires_at,
       EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_asked_idx WHERE owner = ?1 AND cancel_reason IS NOT NULL) AS asked,
       EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_keyed_idx
                WHERE owner = ?1 AND state = 'executing' AND (idempotency_key IS NOT NULL OR single_instance IS NOT NULL)) AS keyed,
       EXISTS (SELECT 1 FROM onward_queues WHERE paused_at IS NOT NULL) AS paused
  FROM onward_sessions
 WHERE owner = ?1;

-- name: either_session
SELECT EXISTS (SELECT 1 FROM onward_sessions WHERE owner IN (?1, ?2));

-- name: renew_session
UPDATE onward_sessions SET expires_at = ?2 + lease_for WHERE owner = ?1;

-- name: end_session
DELETE FROM onward_sessions WHERE owner = :owner RETURNING owner, host, pid, description;

-- name: end_expired_sessions
-- Those that expired; of one queue, those that held a lease of it.
DELETE FROM onward_sessions
 WHERE expires_at <= ?1
   AND (?2 IS NULL OR EXISTS (SELECT 1 FROM onward_jobs AS job INDEXED BY onward_jobs_owner_idx
                               WHERE job.owner = onward_sessions.owner AND job.state = 'executing' AND job.queue = ?2))
RETURNING owner, host, pid, description;

-- name: adopt
-- The tokens stay: what the old owner's process has run can be settled under the new name.
UPDATE onward_jobs INDEXED BY onward_jobs_owner_idx SET owner = ?2 WHERE owner = ?1 AND state = 'executing';

-- name: leases_of
SELECT rowid, id, delivery, length(sealed), flow IS NOT NULL, attempts, crashes, interruptions, waits, parked_since, spent,
       idempotency_key, idempotency_ttl, single_instance, queue, started_at, sealed, lane
  FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE owner = ?1 AND state = 'executing'
 ORDER BY id;

-- name: sealed
SELECT sealed FROM onward_jobs WHERE rowid = ?1;

-- name: asked_to_cancel
SELECT id, delivery, cancel_reason
  FROM onward_jobs INDEXED BY onward_jobs_asked_idx
 WHERE owner = ?1 AND cancel_reason IS NOT NULL
 ORDER BY id;

-- name: paused_queues
SELECT name FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: anything_to_do
-- A look without the write lock: is there anything in this queue to hand out (if any is wanted), to promote or to expire?
-- 0: no, 1: yes, 2: there are jobs, and limits or lanes decide whether any may start.
SELECT CASE WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                          WHERE queue = ?1 AND booked IS NULL AND state IN ('scheduled', 'retryable') AND available_at <= ?2)
              OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                          WHERE queue = ?1 AND booked = 1 AND state IN ('scheduled', 'retryable') AND available_at <= ?2)
              OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
                          WHERE queue = ?1 AND expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable')
                            AND expires_at <= ?2)
            THEN 1
            WHEN NOT ?3 THEN 0
            WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                          WHERE queue = ?1 AND state = 'available' AND lane <> '') THEN 2
            WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                          WHERE queue = ?1 AND state = 'available' AND (lane IS NULL OR lane = ''))
            THEN 1 + EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = ?1)
            ELSE 0
       END AS found;

-- name: next_due
-- When this queue has work: 0 is now, NULL is never; and whether lanes or a limit decide, so that a walk has to tell.
SELECT CASE WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                          WHERE queue = ?1 AND state = 'available' AND (lane IS NULL OR lane = ''))
            THEN 0
       END AS plain,
       (SELECT available_at FROM onward_jobs INDEXED BY onward_jobs_due_idx
         WHERE queue = ?1 AND booked IS NULL AND state IN ('scheduled', 'retryable') ORDER BY available_at LIMIT 1) AS due,
       (SELECT available_at FROM onward_jobs INDEXED BY onward_jobs_due_idx
         WHERE queue = ?1 AND booked = 1 AND state IN ('scheduled', 'retryable') ORDER BY available_at LIMIT 1) AS booked,
       EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                WHERE queue = ?1 AND state = 'available' AND lane <> '')
       OR EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = ?1) AS lanes_decide;

-- name: past_its_time
-- Whether anything of this queue has expired or is due; 2: what was booked is due.  And whether lanes or a limit decide.
SELECT CASE WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                          WHERE queue = ?1 AND booked = 1 AND state IN ('scheduled', 'retryable') AND available_at <= ?2)
            THEN 2
            ELSE EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
                          WHERE queue = ?1 AND expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable')
                            AND expires_at <= ?2)
              OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                          WHERE queue = ?1 AND booked IS NULL AND state IN ('scheduled', 'retryable') AND available_at <= ?2)
       END AS late,
       EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                WHERE queue = ?1 AND state = 'available' AND lane <> '')
       OR EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = ?1) AS lanes_decide;

-- name: expired
SELECT rowid
  FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
 WHERE queue = ?1 AND expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable') AND expires_at <= ?2
 ORDER BY expires_at, id
 LIMIT ?3;

-- name: promote
UPDATE onward_jobs SET state = 'available'
 WHERE rowid IN (SELECT rowid
                   FROM onward_jobs INDEXED BY onward_jobs_due_idx
                  WHERE queue = ?1 AND booked IS NULL AND state IN ('scheduled', 'retryable') AND available_at <= ?2
                  ORDER BY available_at, id
                  LIMIT ?3);

-- name: promote_booked
-- Apart from others: so many may be booked in one lane that they would hold up what else is due.
UPDATE onward_jobs SET state = 'available', booked = NULL
 WHERE rowid IN (SELECT rowid
                   FROM onward_jobs INDEXED BY onward_jobs_due_idx
                  WHERE queue = ?1 AND booked = 1 AND state IN ('scheduled', 'retryable') AND available_at <= ?2
                  ORDER BY available_at, id
                  LIMIT ?3);

-- name: candidates
-- One queue at a time: `queue IN (a, b) ORDER BY rank` sorts the whole backlog.  What has expired is left for the next
-- turn to cancel.  The token is that of the claim that follows.
-- All of them in one row, because at every row the driver lets go of the interpreter's lock and has to wait for it again:
-- the columns as JSON, without those that a job which is claimed for the first time leaves at their defaults; and the
-- sealed bytes end to end, but for long ones.
-- None where lanes or a limit decide, for then a walk chooses; and none, unless ?5, where anything is past its time.  Then
-- `past_its_time` says why: a statement for itself in every turn would cost more than the looks do.
SELECT json_group_array(
         iif(attempts + crashes + interruptions + waits = 0
               AND coalesce(parked_since, spent, idempotency_key, single_instance) IS NULL,
             iif(flow IS NULL, json_array(rowid, id, delivery + 1, length(sealed)),
                               json_array(rowid, id, delivery + 1, length(sealed), 1)),
             json_array(rowid, id, delivery + 1, length(sealed), flow IS NOT NULL, attempts, crashes, interruptions, waits,
                        parked_since, spent, idempotency_key, idempotency_ttl, single_instance))) AS columns,
       CAST(group_concat(iif(length(sealed) <= ?4, sealed, ''), '') AS BLOB) AS sealed
  FROM (SELECT rowid, *
          FROM onward_jobs INDEXED BY onward_jobs_claim_idx
         WHERE queue = ?1 AND state = 'available' AND (lane IS NULL OR lane = '') AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY rank, available_at, id
         LIMIT CASE WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                                  WHERE queue = ?1 AND state = 'available' AND lane <> '')
                      OR EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = ?1) THEN 0
                    WHEN ?5 THEN ?3
                    WHEN EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                  WHERE queue = ?1 AND booked = 1 AND state IN ('scheduled', 'retryable') AND available_at <= ?2)
                      OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
                                  WHERE queue = ?1 AND expires_at IS NOT NULL
                                    AND state IN ('scheduled', 'available', 'retryable') AND expires_at <= ?2)
                      OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                  WHERE queue = ?1 AND booked IS NULL AND state IN ('scheduled', 'retryable')
                                    AND available_at <= ?2) THEN 0
                    ELSE ?3
               END);

-- name: queues_out_of_line
-- Those of many queues, [name, …], in which anything has expired or is due, or lanes or a limit decide: what `past_its_time`
-- answers for one, where it is not (0, 0).  Nothing is looked for queue by queue that no queue has.
SELECT queue, late, lanes_decide
  FROM (SELECT wanted.value AS queue,
               CASE WHEN (SELECT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                          WHERE queue >= '' AND state IN ('scheduled', 'retryable')))
                         AND EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                      WHERE queue = wanted.value AND booked = 1 AND state IN ('scheduled', 'retryable')
                                        AND available_at <= ?2)
                    THEN 2
                    ELSE (SELECT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
                                          WHERE queue >= '' AND expires_at IS NOT NULL
                                            AND state IN ('scheduled', 'available', 'retryable')))
                         AND EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_expiry_idx
                                      WHERE queue = wanted.value AND expires_at IS NOT NULL
                                        AND state IN ('scheduled', 'available', 'retryable') AND expires_at <= ?2)
                      OR (SELECT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                          WHERE queue >= '' AND state IN ('scheduled', 'retryable')))
                         AND EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                                      WHERE queue = wanted.value AND booked IS NULL AND state IN ('scheduled', 'retryable')
                                        AND available_at <= ?2)
               END AS late,
               (SELECT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                                WHERE queue >= '' AND state = 'available' AND lane <> ''))
               AND EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                            WHERE queue = wanted.value AND state = 'available' AND lane <> '')
               OR EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = wanted.value) AS lanes_decide
          FROM json_each(?1) AS wanted)
 WHERE late OR lanes_decide;

-- name: candidates_of_queues
-- What `candidates` returns, of plain queues that are not out of line, [name, …], in their order: the second column names the
-- place of the queue of each.  The join walks the claim index of one queue after the other, and ends at the last job wanted.
SELECT json_group_array(
         iif(attempts + crashes + interruptions + waits = 0
               AND coalesce(parked_since, spent, idempotency_key, single_instance) IS NULL,
             iif(flow IS NULL, json_array(rowid, id, delivery + 1, length(sealed)),
                               json_array(rowid, id, delivery + 1, length(sealed), 1)),
             json_array(rowid, id, delivery + 1, length(sealed), flow IS NOT NULL, attempts, crashes, interruptions, waits,
                        parked_since, spent, idempotency_key, idempotency_ttl, single_instance))) AS columns,
       CAST(group_concat(iif(length(sealed) <= ?4, sealed, ''), '') AS BLOB) AS sealed,
       json_group_array(place) AS places
  FROM (SELECT job.rowid AS rowid, job.*, wanted.key AS place
          FROM json_each(?1) AS wanted
         CROSS JOIN onward_jobs AS job INDEXED BY onward_jobs_claim_idx
         WHERE job.queue = wanted.value AND job.state = 'available' AND (job.lane IS NULL OR job.lane = '')
           AND (job.expires_at IS NULL OR job.expires_at > ?2)
         LIMIT ?3);

-- name: candidates_among
-- The same by their ids, for a store beside a broker: what is due need not have been promoted.
SELECT job.rowid, job.id, delivery + 1, length(sealed), flow IS NOT NULL, attempts, crashes, interruptions, waits,
       parked_since, spent, idempotency_key, idempotency_ttl, single_instance, queue, ?2, sealed
  FROM json_each(?1) AS wanted
 CROSS JOIN onward_jobs AS job ON job.id = wanted.value
 WHERE (state = 'available' OR state IN ('scheduled', 'retryable') AND available_at <= ?2)
   AND (expires_at IS NULL OR expires_at > ?2)
   AND NOT EXISTS (SELECT 1 FROM onward_queues WHERE name = job.queue AND paused_at IS NOT NULL);

-- name: claim
-- Every claim takes the next delivery number, which fences off the previous holder: its late settlement matches no row.
UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = ?1, started_at = ?2
 WHERE rowid IN (SELECT value FROM json_each(?3));

-- name: claim_counted
-- Of a queue with a limit: plain jobs get a lane, by which their runs are counted.
UPDATE onward_jobs SET state = 'executing', delivery = delivery + 1, owner = ?1, started_at = ?2, lane = ifnull(lane, '')
 WHERE rowid IN (SELECT value FROM json_each(?3));

-- Lanes.

-- name: next_rank
-- The next lower priority of plain jobs, and of lanes; and what there is to look up at all.
SELECT (SELECT rank FROM onward_jobs INDEXED BY onward_jobs_claim_idx
         WHERE queue = ?1 AND rank > ?2 AND state = 'available' AND (lane IS NULL OR lane = '') ORDER BY rank LIMIT 1),
       (SELECT rank FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
         WHERE queue = ?1 AND rank > ?2 AND state = 'available' AND lane <> '' ORDER BY rank LIMIT 1),
       EXISTS (SELECT 1 FROM onward_limits),
       EXISTS (SELECT 1 FROM onward_gates);

-- name: lane_heads
-- The next lanes in their order, each with its first job: from head to head along the index, so that the jobs between are
-- passed over.
WITH RECURSIVE walk (head) AS (
    SELECT (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
             WHERE queue = ?1 AND rank = ?2 AND lane > ?3 AND state = 'available' AND lane <> ''
               AND (expires_at IS NULL OR expires_at > ?4)
             ORDER BY lane, available_at, id LIMIT 1)
     UNION ALL
    SELECT (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
             WHERE queue = ?1 AND rank = ?2 AND lane > (SELECT lane FROM onward_jobs WHERE rowid = walk.head)
               AND state = 'available' AND lane <> '' AND (expires_at IS NULL OR expires_at > ?4)
             ORDER BY lane, available_at, id LIMIT 1)
      FROM walk
     WHERE head IS NOT NULL
     LIMIT ?5
)
SELECT json_group_array(json_array(job.rowid, job.id, job.crashes, job.cost, job.lane))
  FROM walk CROSS JOIN onward_jobs AS job ON job.rowid = walk.head;

-- name: lane_jobs
SELECT json_group_array(json_array(rowid, id, crashes, cost))
  FROM (SELECT rowid, id, crashes, cost
          FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
         WHERE queue = ?1 AND rank = ?2 AND lane = ?3 AND state = 'available' AND lane <> ''
           AND (expires_at IS NULL OR expires_at > ?4)
         ORDER BY available_at, id
         LIMIT ?6 OFFSET ?5);

-- name: plain_jobs
SELECT json_group_array(json_array(rowid, id, crashes, cost))
  FROM (SELECT rowid, id, crashes, cost
          FROM onward_jobs INDEXED BY onward_jobs_claim_idx
         WHERE queue = ?1 AND rank = ?2 AND state = 'available' AND (lane IS NULL OR lane = '')
           AND (expires_at IS NULL OR expires_at > ?3)
         ORDER BY available_at, id
         LIMIT ?5 OFFSET ?4);

-- name: picked
-- What `candidates` returns, of the jobs that a walk has chosen.
SELECT json_group_array(
         iif(attempts + crashes + interruptions + waits = 0
               AND coalesce(parked_since, spent, idempotency_key, single_instance) IS NULL,
             iif(flow IS NULL, json_array(job.rowid, job.id, delivery + 1, length(sealed)),
                               json_array(job.rowid, job.id, delivery + 1, length(sealed), 1)),
             json_array(job.rowid, job.id, delivery + 1, length(sealed), flow IS NOT NULL, attempts, crashes, interruptions,
                        waits, parked_since, spent, idempotency_key, idempotency_ttl, single_instance))),
       CAST(group_concat(iif(length(sealed) <= ?2, sealed, ''), '') AS BLOB)
  FROM json_each(?1) AS wanted CROSS JOIN onward_jobs AS job ON job.rowid = wanted.value;

-- name: running_of_queue
SELECT count(*) FROM onward_jobs INDEXED BY onward_jobs_running_idx
 WHERE queue = ?1 AND state = 'executing' AND lane IS NOT NULL AND started_at >= ?2;

-- name: running_of_lanes
-- How many leases there are from one lane up to another, [[first, behind the last], …], over all queues that run any.
WITH RECURSIVE queues (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_running_idx WHERE state = 'executing' AND lane IS NOT NULL
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_running_idx
             WHERE state = 'executing' AND lane IS NOT NULL AND queue > name ORDER BY queue LIMIT 1)
      FROM queues
     WHERE name IS NOT NULL
)
SELECT json_group_array((SELECT coalesce(sum((SELECT count(*) FROM onward_jobs INDEXED BY onward_jobs_running_idx
                                               WHERE queue = queues.name AND state = 'executing' AND lane IS NOT NULL
                                                 AND lane >= wanted.value ->> 0 AND lane < wanted.value ->> 1
                                                 AND started_at >= ?2)), 0)
                           FROM queues WHERE name IS NOT NULL))
  FROM json_each(?1) AS wanted;

-- name: gates_among
SELECT gate.queue, gate.lane, full_at, charged_at, shut_until, shut_for
  FROM json_each(?1) AS wanted
 CROSS JOIN onward_gates AS gate ON gate.queue = wanted.value ->> 0 AND gate.lane = wanted.value ->> 1;

-- name: book
UPDATE onward_jobs SET state = 'scheduled', booked = 1, available_at = ?2 WHERE rowid = ?1 AND state = 'available';

-- name: holds
-- The holders of these keys: until when a success confirms the key, or whether the holder still runs.
SELECT hold.kind, hold.key, hold.job_id, hold.token, hold.done_until,
       EXISTS (SELECT 1 FROM onward_jobs WHERE id = hold.job_id AND delivery = hold.token AND state = 'executing')
  FROM json_each(?1) AS wanted
 CROSS JOIN onward_holds AS hold ON hold.kind = wanted.value ->> 0 AND hold.key = wanted.value ->> 1;

-- name: take_hold
INSERT INTO onward_holds (kind, key, job_id, token) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (kind, key) DO UPDATE SET job_id = excluded.job_id, token = excluded.token, done_until = NULL;

-- name: confirm_hold
UPDATE onward_holds SET done_until = ?5 WHERE kind = ?1 AND key = ?2 AND job_id = ?3 AND token = ?4 AND done_until IS NULL;

-- name: drop_hold
DELETE FROM onward_holds WHERE kind = ?1 AND key = ?2 AND job_id = ?3 AND token = ?4 AND done_until IS NULL;

-- name: forget_hold
-- For operators: of a key that a success confirmed.
DELETE FROM onward_holds WHERE kind = 'once' AND key = ?1 AND done_until IS NOT NULL;

-- name: wake_once
UPDATE onward_jobs SET state = 'available', available_at = ?2, booked = NULL
 WHERE rowid IN (SELECT rowid
                   FROM onward_jobs INDEXED BY onward_jobs_once_idx
                  WHERE idempotency_key = ?1 AND idempotency_key IS NOT NULL AND state = 'scheduled' AND waits > 0
                    AND parked_since IS NULL AND id <> ?3
                  ORDER BY rank, available_at, id
                  LIMIT ?4)
RETURNING id;

-- name: wake_single
UPDATE onward_jobs SET state = 'available', available_at = ?2, booked = NULL
 WHERE rowid IN (SELECT rowid
                   FROM onward_jobs INDEXED BY onward_jobs_single_idx
                  WHERE single_instance = ?1 AND single_instance IS NOT NULL AND state = 'scheduled' AND waits > 0
                    AND parked_since IS NULL AND id <> ?3
                  ORDER BY rank, available_at, id
                  LIMIT ?4)
RETURNING id;

-- name: keyed_leases
SELECT job.id, job.delivery, job.idempotency_key, job.idempotency_ttl, job.single_instance
  FROM json_each(?1) AS wanted
 CROSS JOIN onward_jobs AS job ON job.id = wanted.value
 WHERE job.state = 'executing' AND (job.idempotency_key IS NOT NULL OR job.single_instance IS NOT NULL);

-- name: record_run
-- Before the move, while the row still says how many runs there were.
INSERT OR REPLACE INTO onward_attempts (
       job_id, token, attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
SELECT id, delivery, attempts + 1, ?4, ?5, ?6, ?7, owner, ?8, ?9, ?10, ?11, ?12
  FROM onward_jobs
 WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: finish
-- Leases come as one object, {id: token}, or {id: [token, start, length]} where a result lies in the bytes of all results.
-- An upsert: no row that happens to be there can make a settlement fail.  ?9: 0 keeps a tombstone, 1 the whole, 2 the whole
-- if the job's flow is there.
INSERT OR REPLACE INTO onward_finished (
       id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, reason, progress, result, sealed)
SELECT job.id, ?3, ?4, queue, job, rank, delivery, attempts + ?5, crashes + ?6, interruptions + ?7, max_crashes,
       available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key,
       idempotency_ttl, single_instance, lane, cost, flow, node, ?8, progress,
       CASE WHEN lease.atom IS NULL AND (?9 <> 2 OR EXISTS (SELECT 1 FROM onward_flows WHERE onward_flows.id = job.flow))
            THEN substr(?10, lease.value ->> 1, lease.value ->> 2)
       END,
       CASE WHEN iif(?9 = 2, EXISTS (SELECT 1 FROM onward_flows WHERE onward_flows.id = job.flow), ?9) THEN sealed END
  FROM json_each(?1) AS lease
 CROSS JOIN onward_jobs AS job ON job.id = lease.key
 WHERE delivery = coalesce(lease.atom, lease.value ->> 0) AND +owner = ?2 AND state = 'executing';

-- name: name_deaths
-- The group of jobs that were just discarded, {id: …}: the records of their runs are written already.
UPDATE onward_finished
   SET fingerprint = coalesce(nullif((SELECT run.fingerprint FROM onward_attempts AS run
                                       WHERE run.job_id = onward_finished.id ORDER BY run.token DESC LIMIT 1), ''),
                              'unexplained')
 WHERE id IN (SELECT key FROM json_each(?1));

-- name: leave
DELETE FROM onward_jobs
 WHERE rowid IN (SELECT job.rowid
                   FROM json_each(?1) AS lease
                  CROSS JOIN onward_jobs AS job ON job.id = lease.key
                  WHERE delivery = lease.value AND +owner = ?2 AND state = 'executing');

-- name: places_of
-- Of which nodes jobs are that leave.  Two statements cost less than one that returns a row for each.
SELECT DISTINCT flow, node
  FROM json_each(?1) AS lease
 CROSS JOIN onward_jobs AS job ON job.id = lease.key
 WHERE flow IS NOT NULL;

-- name: put_back
-- nack, snooze and park: due later, and waiting is counted anew.  What a job awaits counts while it is scheduled, and every
-- move there writes it: it need not be cleared when it is claimed.
UPDATE onward_jobs
   SET state = ?4, available_at = ?5, attempts = attempts + ?6, waits = ?7, spent = coalesce(?8, spent),
       parked_since = CASE WHEN ?9 IS NOT NULL THEN coalesce(parked_since, ?9) END, awaits = ?10, owner = NULL
 WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: release
UPDATE onward_jobs SET state = 'available', interruptions = interruptions + 1, owner = NULL
 WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: crash_budget
SELECT crashes, max_crashes FROM onward_jobs WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: crash
UPDATE onward_jobs SET state = 'retryable', crashes = crashes + 1, available_at = ?4, owner = NULL
 WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: evidence
-- What is known of a settlement that matches no lease: the record of the run, the finished job, a live one.
SELECT (SELECT move FROM onward_attempts WHERE job_id = ?1 AND token = ?2),
       (SELECT state FROM onward_attempts WHERE job_id = ?1 AND token = ?2),
       (SELECT state FROM onward_finished WHERE id = ?1 AND delivery = ?2),
       EXISTS (SELECT 1 FROM onward_jobs WHERE id = ?1) OR EXISTS (SELECT 1 FROM onward_finished WHERE id = ?1);

-- name: lease_owner
-- The owner of this lease: the session that claimed it, or one that adopted it.
SELECT owner FROM onward_jobs WHERE id = ?1 AND delivery = ?2 AND state = 'executing';

-- name: is_completed
SELECT EXISTS (SELECT 1 FROM onward_finished WHERE id = ?1 AND delivery = ?2 AND state = 'completed');

-- name: note_after_completion
-- An error after the success: evidence that agrees with the finished job.
INSERT INTO onward_attempts (
       job_id, token, attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
SELECT id, delivery, attempts, 'ack', state, ?3, ?4, owner, ?5, ?6, ?7, ?8, ?9
  FROM onward_finished
 WHERE id = ?1 AND delivery = ?2 AND state = 'completed'
ON CONFLICT DO NOTHING;

-- name: dead_leases
SELECT id, delivery, owner, queue, job, crashes, max_crashes, cancel_reason, idempotency_key, idempotency_ttl, single_instance,
       flow IS NOT NULL
  FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE owner = ?1 AND state = 'executing' AND (?2 IS NULL OR queue = ?2)
 ORDER BY id;

-- name: orphans
-- By the leases, not by the sessions: whatever became of its session's row, a lease without a session is found.
SELECT id, delivery, owner, queue, job, crashes, max_crashes, cancel_reason, idempotency_key, idempotency_ttl, single_instance,
       flow IS NOT NULL
  FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE state = 'executing' AND (?1 IS NULL OR queue = ?1)
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session WHERE session.owner = onward_jobs.owner)
 ORDER BY owner, id;

-- name: cancel_waiting
INSERT OR REPLACE INTO onward_finished (
       id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, reason, progress, sealed)
SELECT id, 'cancelled', :now, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, :reason, progress, sealed
  FROM onward_jobs
 WHERE rowid IN (SELECT value FROM json_each(:jobs)) AND state <> 'executing';

-- name: forget_waiting
-- And tell which of them were members, of which nodes.
DELETE FROM onward_jobs WHERE rowid IN (SELECT value FROM json_each(:jobs)) AND state <> 'executing' RETURNING flow, node;

-- name: states_of
-- And whether a job waits for its node: then it cannot be made due.
SELECT job.rowid, job.id, job.state, job.state = 'scheduled' AND job.awaits IS ''
  FROM json_each(?1) AS wanted CROSS JOIN onward_jobs AS job ON job.id = wanted.value;

-- name: ask_to_cancel
-- The first reason stands.
UPDATE onward_jobs SET cancel_reason = coalesce(cancel_reason, :reason)
 WHERE rowid IN (SELECT value FROM json_each(:jobs)) AND state = 'executing'
RETURNING id;

-- name: make_due
UPDATE onward_jobs SET state = 'available', available_at = ?2, booked = NULL
 WHERE rowid IN (SELECT value FROM json_each(?1)) AND state IN ('scheduled', 'retryable');

-- name: pick
-- Live before finished, by ids.
SELECT job.id, job.queue, job.job, job.sealed, job.state, job.rank, job.attempts, job.delivery, job.crashes,
       job.interruptions, job.available_at, job.enqueued_at, job.started_at, NULL, job.owner, job.cancel_reason,
       NULL, NULL, job.progress, job.waits, job.parked_since,
       CASE WHEN job.state = 'scheduled' THEN job.awaits END,
       job.max_crashes, job.expires_at, job.spent, job.unique_key, job.key_held IS NOT NULL,
       job.idempotency_key, job.idempotency_ttl, job.single_instance, job.lane, job.cost, job.flow, job.node
  FROM json_each(:ids) AS wanted
 CROSS JOIN onward_jobs AS job ON job.id = wanted.value
 UNION ALL
SELECT done.id, done.queue, done.job, done.sealed, done.state, done.rank, done.attempts, done.delivery, done.crashes,
       done.interruptions, done.available_at, done.enqueued_at, done.started_at, done.finished_at, done.owner, NULL,
       done.result, done.reason, done.progress, done.waits, done.parked_since,
       NULL,
       done.max_crashes, done.expires_at, NULL, done.unique_key, 0,
       done.idempotency_key, done.idempotency_ttl, done.single_instance, done.lane, done.cost, done.flow, done.node
  FROM json_each(:ids) AS wanted
 CROSS JOIN onward_finished AS done ON done.id = wanted.value;

-- name: page_oldest
-- Four walks along the ids, merged; a walk that no wanted state needs ends before it begins.  A query of every state
-- finds rows with an unknown state, too.
SELECT id FROM onward_jobs
 WHERE :live AND id > :after AND (:everything OR state IN (SELECT value FROM json_each(:states)))
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_discarded_idx
 WHERE :discarded AND state = 'discarded' AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_cancelled_idx
 WHERE :cancelled AND state = 'cancelled' AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished
 WHERE :completed AND (state = 'completed' OR :everything AND state NOT IN ('discarded', 'cancelled'))
   AND sealed IS NOT NULL AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 ORDER BY id
 LIMIT :limit;

-- name: page_newest
-- From the end if no id is given: every blob sorts after every text.
SELECT id FROM onward_jobs
 WHERE :live AND id < coalesce(:after, x'') AND (:everything OR state IN (SELECT value FROM json_each(:states)))
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_discarded_idx
 WHERE :discarded AND state = 'discarded' AND id < coalesce(:after, x'')
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_cancelled_idx
 WHERE :cancelled AND state = 'cancelled' AND id < coalesce(:after, x'')
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished
 WHERE :completed AND (state = 'completed' OR :everything AND state NOT IN ('discarded', 'cancelled'))
   AND sealed IS NOT NULL AND id < coalesce(:after, x'')
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 ORDER BY id DESC
 LIMIT :limit;

-- name: runs_of
SELECT run.job_id, run.token, run.attempt, run.move, run.state, run.at, run.duration_ms, run.owner, run.ran_by, run.kind,
       run.message, run.traceback, run.fingerprint
  FROM json_each(:ids) AS wanted
 CROSS JOIN onward_attempts AS run ON run.job_id = wanted.value
 ORDER BY run.job_id, run.token;

-- name: count_live
-- Each count walks one narrow index; jobs with lanes have their own.
SELECT 'available', (SELECT count(*) FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                      WHERE state = 'available' AND (lane IS NULL OR lane = '') AND (:queue IS NULL OR queue = :queue))
                  + (SELECT count(*) FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                      WHERE state = 'available' AND lane <> '' AND (:queue IS NULL OR queue = :queue))
 UNION ALL
SELECT 'executing', count(*) FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE state = 'executing' AND (:queue IS NULL OR queue = :queue)
 UNION ALL
SELECT state, count(*) FROM onward_jobs INDEXED BY onward_jobs_due_idx
 WHERE state IN ('scheduled', 'retryable') AND (:queue IS NULL OR queue = :queue)
 GROUP BY state;

-- name: count_finished
-- Completed jobs have no index of their own: they are all the others.  To count all of them without a condition is quickest.
WITH counted (everything, discarded, cancelled, tombstones) AS (
    SELECT CASE WHEN :queue IS NULL THEN (SELECT count(*) FROM onward_finished)
                ELSE (SELECT count(*) FROM onward_finished WHERE queue = :queue) END,
           (SELECT count(*) FROM onward_finished INDEXED BY onward_finished_discarded_idx
             WHERE state = 'discarded' AND (:queue IS NULL OR queue = :queue)),
           (SELECT count(*) FROM onward_finished INDEXED BY onward_finished_cancelled_idx
             WHERE state = 'cancelled' AND (:queue IS NULL OR queue = :queue)),
           (SELECT count(*) FROM onward_finished INDEXED BY onward_finished_tombstone_idx
             WHERE sealed IS NULL AND (:queue IS NULL OR queue = :queue))
)
SELECT 'completed', everything - discarded - cancelled - tombstones FROM counted
 UNION ALL
SELECT 'discarded', discarded FROM counted
 UNION ALL
SELECT 'cancelled', cancelled FROM counted;

-- name: live_by_queue
SELECT queue, sum(number)
  FROM (SELECT queue, count(*) AS number FROM onward_jobs INDEXED BY onward_jobs_claim_idx
         WHERE state = 'available' AND (lane IS NULL OR lane = '') GROUP BY queue
         UNION ALL
        SELECT queue, count(*) FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
         WHERE state = 'available' AND lane <> '' GROUP BY queue
         UNION ALL
        SELECT queue, count(*) FROM onward_jobs INDEXED BY onward_jobs_due_idx
         WHERE state IN ('scheduled', 'retryable') GROUP BY queue
         UNION ALL
        SELECT queue, count(*) FROM onward_jobs INDEXED BY onward_jobs_owner_idx WHERE state = 'executing' GROUP BY queue)
 GROUP BY queue;

-- name: queues_with_work
-- From name to name along the indexes: the jobs between are passed over.
WITH RECURSIVE ready (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_claim_idx
     WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue >= ?1 AND queue > ?2 AND queue < ?3
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_claim_idx
             WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue > name AND queue < ?3 ORDER BY queue LIMIT 1)
      FROM ready
     WHERE name IS NOT NULL
     LIMIT ?5
), laned (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
     WHERE state = 'available' AND lane <> '' AND queue >= ?1 AND queue > ?2 AND queue < ?3
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
             WHERE state = 'available' AND lane <> '' AND queue > name AND queue < ?3 ORDER BY queue LIMIT 1)
      FROM laned
     WHERE name IS NOT NULL
     LIMIT ?5
), later (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_due_idx
     WHERE state IN ('scheduled', 'retryable') AND queue >= ?1 AND queue > ?2 AND queue < ?3
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_due_idx
             WHERE state IN ('scheduled', 'retryable') AND queue > name AND queue < ?3 ORDER BY queue LIMIT 1)
      FROM later
     WHERE name IS NOT NULL
     LIMIT ?5
)
SELECT 'ready', name, NOT EXISTS (SELECT 1 FROM onward_queues AS queue WHERE queue.name = ready.name AND paused_at IS NOT NULL)
  FROM ready
 WHERE name IS NOT NULL
 UNION ALL
SELECT 'laned', name, NOT EXISTS (SELECT 1 FROM onward_queues AS queue WHERE queue.name = laned.name AND paused_at IS NOT NULL)
  FROM laned
 WHERE name IS NOT NULL
 UNION ALL
SELECT 'later', name,
       (EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                 WHERE state IN ('scheduled', 'retryable') AND queue = later.name AND booked IS NULL AND available_at <= ?4)
        OR EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_due_idx
                    WHERE state IN ('scheduled', 'retryable') AND queue = later.name AND booked = 1 AND available_at <= ?4))
       AND NOT EXISTS (SELECT 1 FROM onward_queues AS queue WHERE queue.name = later.name AND paused_at IS NOT NULL)
  FROM later
 WHERE name IS NOT NULL;

-- name: running
SELECT id FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE state = 'executing' AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job);

-- name: overview
-- Every count stops at the limit, so it costs the same whatever lies in the tables.  A row number is given to every job that
-- ends and none is given twice, but when the last one was removed.
SELECT (SELECT count(*)
          FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_claim_idx WHERE state = 'available' AND (lane IS NULL OR lane = '')
                 UNION ALL
                SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx WHERE state = 'available' AND lane <> ''
                 LIMIT :at_most)),
       (SELECT count(*) FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_owner_idx WHERE state = 'executing' LIMIT :at_most)),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished LIMIT :at_most)),
       (SELECT count(*)
          FROM (SELECT 1 FROM onward_finished INDEXED BY onward_finished_tombstone_idx WHERE sealed IS NULL LIMIT :at_most)),
       (SELECT count(*)
          FROM (SELECT 1 FROM onward_finished INDEXED BY onward_finished_discarded_idx WHERE state = 'discarded' LIMIT :at_most)),
       (SELECT count(*)
          FROM (SELECT 1 FROM onward_finished INDEXED BY onward_finished_cancelled_idx WHERE state = 'cancelled' LIMIT :at_most)),
       (SELECT coalesce(max(rowid), 0) FROM onward_finished);

-- name: overview_later
SELECT count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'retryable')
  FROM (SELECT state FROM onward_jobs INDEXED BY onward_jobs_due_idx WHERE state IN ('scheduled', 'retryable') LIMIT :at_most);

-- name: overview_due_by_queue
-- From name to name along the indexes: the jobs between are passed over.  A queue that has both has two rows.
WITH RECURSIVE plain (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_claim_idx WHERE state = 'available' AND (lane IS NULL OR lane = '')
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_claim_idx
             WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue > name ORDER BY queue LIMIT 1)
      FROM plain
     WHERE name IS NOT NULL
     LIMIT :queues
), laned (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_lanes_idx WHERE state = 'available' AND lane <> ''
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
             WHERE state = 'available' AND lane <> '' AND queue > name ORDER BY queue LIMIT 1)
      FROM laned
     WHERE name IS NOT NULL
     LIMIT :queues
)
SELECT name, (SELECT count(*) FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                                     WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue = name LIMIT :at_most))
  FROM plain
 WHERE name IS NOT NULL
 UNION ALL
SELECT name, (SELECT count(*) FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                                     WHERE state = 'available' AND lane <> '' AND queue = name LIMIT :at_most))
  FROM laned
 WHERE name IS NOT NULL;

-- name: overview_later_by_queue
WITH RECURSIVE queues (name) AS (
    SELECT min(queue) FROM onward_jobs INDEXED BY onward_jobs_due_idx WHERE state IN ('scheduled', 'retryable')
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_due_idx
             WHERE state IN ('scheduled', 'retryable') AND queue > name ORDER BY queue LIMIT 1)
      FROM queues
     WHERE name IS NOT NULL
     LIMIT :queues
), later (name, counts) AS MATERIALIZED (
    SELECT name, (SELECT json_array(count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'retryable'))
                    FROM (SELECT state FROM onward_jobs INDEXED BY onward_jobs_due_idx
                           WHERE state IN ('scheduled', 'retryable') AND queue = name LIMIT :at_most))
      FROM queues
     WHERE name IS NOT NULL
)
SELECT name, counts ->> 0, counts ->> 1,
       (SELECT available_at FROM onward_jobs INDEXED BY onward_jobs_due_idx
         WHERE queue = name AND booked IS NULL AND state IN ('scheduled', 'retryable') ORDER BY available_at LIMIT 1),
       (SELECT available_at FROM onward_jobs INDEXED BY onward_jobs_due_idx
         WHERE queue = name AND booked = 1 AND state IN ('scheduled', 'retryable') ORDER BY available_at LIMIT 1)
  FROM later;

-- name: overview_oldest
-- From line to line along the indexes, to the first job of each: of a queue and a priority, and of a lane besides.  After so many
-- lines of a queue on to the next one.  (Not by comparing rows of values: SQLite would pass over every job of a line.)
WITH RECURSIVE plain (place, before, number) AS (
    SELECT (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_claim_idx
             WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue > '' ORDER BY queue, rank, available_at LIMIT 1),
           NULL, 0
     UNION ALL
    SELECT coalesce(iif(job.queue IS before AND number + 1 >= :lines, NULL,
                        (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                          WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue = job.queue AND rank > job.rank
                          ORDER BY rank, available_at LIMIT 1)),
                    (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_claim_idx
                      WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue > job.queue
                      ORDER BY queue, rank, available_at LIMIT 1)),
           job.queue, iif(job.queue IS before, number + 1, 1)
      FROM plain CROSS JOIN onward_jobs AS job ON job.rowid = plain.place
     LIMIT :steps
), laned (place, before, number) AS (
    SELECT (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
             WHERE state = 'available' AND lane <> '' AND queue > '' ORDER BY queue, rank, lane, available_at LIMIT 1),
           NULL, 0
     UNION ALL
    SELECT coalesce(iif(job.queue IS before AND number + 1 >= :lines, NULL,
                        coalesce((SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                                   WHERE state = 'available' AND lane <> '' AND queue = job.queue AND rank = job.rank AND lane > job.lane
                                   ORDER BY lane, available_at LIMIT 1),
                                 (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                                   WHERE state = 'available' AND lane <> '' AND queue = job.queue AND rank > job.rank
                                   ORDER BY rank, lane, available_at LIMIT 1))),
                    (SELECT rowid FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
                      WHERE state = 'available' AND lane <> '' AND queue > job.queue
                      ORDER BY queue, rank, lane, available_at LIMIT 1)),
           job.queue, iif(job.queue IS before, number + 1, 1)
      FROM laned CROSS JOIN onward_jobs AS job ON job.rowid = laned.place
     LIMIT :steps
)
SELECT job.queue, job.available_at FROM plain CROSS JOIN onward_jobs AS job ON job.rowid = plain.place
 UNION ALL
SELECT job.queue, job.available_at FROM laned CROSS JOIN onward_jobs AS job ON job.rowid = laned.place;

-- name: deaths
-- From group to group along the index: the jobs between are passed over.  A row comparison would read all of a job's groups.
WITH RECURSIVE walk (head) AS (
    SELECT (SELECT rowid FROM onward_finished INDEXED BY onward_finished_deaths_idx
             WHERE job >= '' AND fingerprint IS NOT NULL ORDER BY job, fingerprint, id LIMIT 1)
     UNION ALL
    SELECT coalesce((SELECT next.rowid FROM onward_finished AS next INDEXED BY onward_finished_deaths_idx
                      WHERE next.job = last.job AND next.fingerprint > last.fingerprint
                      ORDER BY next.job, next.fingerprint, next.id LIMIT 1),
                    (SELECT next.rowid FROM onward_finished AS next INDEXED BY onward_finished_deaths_idx
                      WHERE next.job > last.job AND next.fingerprint IS NOT NULL
                      ORDER BY next.job, next.fingerprint, next.id LIMIT 1))
      FROM walk
     CROSS JOIN onward_finished AS last ON last.rowid = walk.head
     LIMIT :groups
)
SELECT first.job, first.fingerprint,
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS died INDEXED BY onward_finished_deaths_idx
                               WHERE died.job = first.job AND died.fingerprint = first.fingerprint LIMIT :at_most)),
       first.id, first.finished_at, last.id, last.finished_at
  FROM walk
 CROSS JOIN onward_finished AS first ON first.rowid = walk.head
 CROSS JOIN onward_finished AS last
    ON last.rowid = (SELECT newest.rowid FROM onward_finished AS newest INDEXED BY onward_finished_deaths_idx
                      WHERE newest.job = first.job AND newest.fingerprint = first.fingerprint
                      ORDER BY newest.id DESC LIMIT 1);

-- name: page_of_group_oldest
SELECT id FROM onward_finished INDEXED BY onward_finished_deaths_idx
 WHERE job = :job AND fingerprint = :fingerprint AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:flow IS NULL OR flow = :flow) AND (:node IS NULL OR node = :node)
 ORDER BY id
 LIMIT :limit;

-- name: page_of_group_newest
SELECT id FROM onward_finished INDEXED BY onward_finished_deaths_idx
 WHERE job = :job AND fingerprint = :fingerprint AND id < :after
   AND (:queue IS NULL OR queue = :queue) AND (:flow IS NULL OR flow = :flow) AND (:node IS NULL OR node = :node)
 ORDER BY id DESC
 LIMIT :limit;

-- name: newest_of_group
SELECT id FROM onward_finished INDEXED BY onward_finished_deaths_idx
 WHERE job = :job AND fingerprint = :fingerprint
 ORDER BY id DESC
 LIMIT 1;

-- name: dead_among
SELECT done.id
  FROM json_each(:ids) AS wanted
 CROSS JOIN onward_finished AS done ON done.id = wanted.value
 WHERE done.job = :job AND +done.fingerprint = :fingerprint;

-- name: ahead
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_claim_idx
         WHERE state = 'available' AND (lane IS NULL OR lane = '') AND queue = :queue
           AND (rank, available_at, id) < (:rank, :available_at, :id)
         LIMIT :at_most);

-- name: ahead_in_lane
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_lanes_idx
         WHERE state = 'available' AND lane <> '' AND queue = :queue AND rank = :rank AND lane = :lane
           AND (available_at, id) < (:available_at, :id)
         LIMIT :at_most);

-- name: pauses
SELECT name, paused_at FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: clock
SELECT :now;

-- name: overview_running_by_queue
SELECT queue, count(*)
  FROM (SELECT queue FROM onward_jobs INDEXED BY onward_jobs_owner_idx WHERE state = 'executing' LIMIT :at_most)
 GROUP BY queue;

-- name: sessions
SELECT owner, lease_for, host, pid, version, expires_at,
       (SELECT count(*) FROM onward_jobs INDEXED BY onward_jobs_owner_idx
         WHERE onward_jobs.owner = session.owner AND state = 'executing'),
       description
  FROM onward_sessions AS session
 ORDER BY owner;

-- name: replayable
SELECT done.id, done.expires_at, done.unique_key, done.flow, done.node
  FROM json_each(?1) AS wanted
 CROSS JOIN onward_finished AS done ON done.id = wanted.value;

-- name: tombstones_among
SELECT done.id FROM json_each(?1) AS wanted CROSS JOIN onward_finished AS done ON done.id = wanted.value
 WHERE done.sealed IS NULL;

-- name: revive
-- The delivery number goes on, so that no token of an earlier life fits again; one that no worker wrote begins within bounds.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job, sealed)
SELECT id, queue, 'available', rank, ?2, expires_at, min(max(delivery, 0), 1073741824), max_crashes, enqueued_at, unique_key,
       unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job, sealed
  FROM onward_finished
 WHERE id = ?1
ON CONFLICT DO NOTHING;

-- name: forget_finished
-- And tell of which flows they were.
DELETE FROM onward_finished WHERE id IN (SELECT value FROM json_each(?1)) RETURNING flow;

-- name: forget_runs
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_attempts
 WHERE job_id IN (SELECT value FROM json_each(:ids))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_attempts.job_id);

-- name: note
-- By a lease that is held; else it writes nothing.  A name that is there already stays as it is, and counts as written.
INSERT INTO onward_notes (job_id, name, at, value)
SELECT id, ?4, ?5, ?6 FROM onward_jobs WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing'
ON CONFLICT (job_id, name) DO UPDATE SET at = at;

-- name: notes_of
SELECT name, value, at FROM onward_notes WHERE job_id = :id ORDER BY name;

-- name: state_of
-- Of a live job, else of a finished one.
SELECT state FROM onward_jobs WHERE id = ?1
 UNION ALL
SELECT state FROM onward_finished WHERE id = ?1
 LIMIT 1;

-- name: room_for_note
-- Whether the name is there, and what the others take up.
SELECT coalesce(sum(name = ?2), 0), coalesce(sum(name <> ?2), 0), coalesce(sum(iif(name = ?2, 0, length(value))), 0)
  FROM onward_notes
 WHERE job_id = ?1;

-- name: store_signal
-- A value that replaces another keeps its time: a wait that heard the first one has not timed out.
INSERT INTO onward_notes (job_id, name, at, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job_id, name) DO UPDATE SET value = excluded.value;

-- name: wake_signalled
-- If it waits for a signal that is there.
UPDATE onward_jobs SET state = 'available', available_at = ?2, booked = NULL
 WHERE id = ?1 AND state = 'scheduled' AND awaits <> ''
   AND EXISTS (SELECT 1 FROM onward_notes WHERE job_id = ?1 AND name = '!' || onward_jobs.awaits);

-- name: forget_notes
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_notes
 WHERE job_id IN (SELECT value FROM json_each(:ids))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_notes.job_id);

-- name: drop_notes
DELETE FROM onward_notes WHERE job_id = ?1;

-- name: next_finished
-- Of a member, its flow's end counts; while that is not over, it is kept.
SELECT id, queue, state,
       iif(flow IS NULL, finished_at,
           coalesce((SELECT max(finished_at, coalesce(over_at, 9223372036854775807)) FROM onward_flows WHERE onward_flows.id = flow),
                    finished_at)),
       sealed IS NULL, :now
  FROM onward_finished
 WHERE id > :after
 ORDER BY id
 LIMIT :limit;

-- name: drop_spent_holds
DELETE FROM onward_holds
 WHERE (kind, key) IN (SELECT kind, key
                         FROM onward_holds INDEXED BY onward_holds_done_idx
                        WHERE done_until IS NOT NULL AND done_until <= ?1
                        LIMIT ?2);

-- name: pause
INSERT INTO onward_queues (name, paused_at) VALUES (:queue, :now)
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at WHERE paused_at IS NULL;

-- name: resume
UPDATE onward_queues SET paused_at = NULL WHERE name = :queue AND paused_at IS NOT NULL AND reserved_for IS NULL;

-- name: progress
UPDATE onward_jobs SET progress = ?4 WHERE id = ?1 AND delivery = ?2 AND owner = ?3 AND state = 'executing';

-- name: oldest_stranded
SELECT min(started_at) FROM onward_jobs INDEXED BY onward_jobs_owner_idx
 WHERE state = 'executing'
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session
                    WHERE session.owner = onward_jobs.owner AND session.expires_at > ?1);

-- Schedules.

-- name: schedules
-- The clock comes with every row, and alone if there is none.
SELECT :now, CAST(schedule.name AS BLOB), version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed,
       sealed
  FROM (SELECT 1) LEFT JOIN onward_schedules AS schedule;

-- name: put_schedule
INSERT INTO onward_schedules (name, version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed, sealed)
VALUES (:schedule, 1, :origin, :fingerprint, :declared_at, :booked_until, :paused_at, :now, :missed, :sealed)
ON CONFLICT DO NOTHING
RETURNING version;

-- name: change_schedule
-- A version that no process wrote is -1.
UPDATE onward_schedules
   SET version = :following, origin = :origin, fingerprint = :fingerprint, declared_at = :declared_at,
       booked_until = :booked_until, paused_at = :paused_at, seen_at = :now, missed = :missed, sealed = :sealed
 WHERE name = :schedule AND iif(version BETWEEN 1 AND :last, version, -1) = :version
RETURNING version;

-- name: drop_schedule
DELETE FROM onward_schedules
 WHERE name = :schedule AND iif(version BETWEEN 1 AND :last, version, -1) = :version
RETURNING version;

-- name: schedules_seen
UPDATE onward_schedules SET seen_at = :now WHERE name IN (SELECT value FROM json_each(:names));

-- name: take_back
-- A job that was ever claimed has begun.
DELETE FROM onward_jobs
 WHERE id IN (SELECT value FROM json_each(:ids))
   AND state IN ('scheduled', 'available', 'retryable') AND delivery = 0 AND owner IS NULL
RETURNING id;

-- Limits and gates.

-- name: limits
SELECT kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst,
       chosen_running, chosen_tokens, chosen_period, chosen_burst
  FROM onward_limits;

-- name: lock_limits
-- There is nothing to lock: whoever writes has the file alone.
SELECT 1;

-- name: declare_limit
INSERT INTO onward_limits (kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst)
VALUES (:kind, :named, :declared_at, :declared_running, :declared_tokens, :declared_period, :declared_burst)
ON CONFLICT (kind, name) DO UPDATE
   SET declared_at = excluded.declared_at, declared_running = excluded.declared_running,
       declared_tokens = excluded.declared_tokens, declared_period = excluded.declared_period,
       declared_burst = excluded.declared_burst
 WHERE declared_at <= excluded.declared_at;

-- name: choose_limit
INSERT INTO onward_limits (kind, name, chosen_running, chosen_tokens, chosen_period, chosen_burst)
VALUES (:kind, :named, :chosen_running, :chosen_tokens, :chosen_period, :chosen_burst)
ON CONFLICT (kind, name) DO UPDATE
   SET chosen_running = excluded.chosen_running, chosen_tokens = excluded.chosen_tokens,
       chosen_period = excluded.chosen_period, chosen_burst = excluded.chosen_burst;

-- name: drop_limit
DELETE FROM onward_limits
 WHERE kind = :kind AND name = :named
   AND coalesce(declared_running, declared_tokens, chosen_running, chosen_tokens) IS NULL;

-- name: count_running
-- Along the leases, which are few: once, when a queue gets its first limit.
UPDATE onward_jobs INDEXED BY onward_jobs_owner_idx SET lane = ''
 WHERE state = 'executing' AND queue = :queue AND lane IS NULL;

-- name: lock_gate
SELECT queue, lane, full_at, charged_at, shut_until, shut_for FROM onward_gates WHERE queue = :queue AND lane = :lane;

-- name: put_gate
INSERT OR REPLACE INTO onward_gates (queue, lane, full_at, charged_at, shut_until, shut_for)
VALUES (:queue, :lane, :full_at, :charged_at, :shut_until, :shut_for);

-- name: charge_gate
INSERT INTO onward_gates (queue, lane, full_at, charged_at) VALUES (:queue, :lane, :full_at, :charged_at)
ON CONFLICT (queue, lane) DO UPDATE SET full_at = excluded.full_at, charged_at = excluded.charged_at;

-- name: gates
SELECT queue, lane, full_at, charged_at, shut_until, shut_for
  FROM onward_gates
 WHERE (queue, lane) > (:after_queue, :after_lane)
 ORDER BY queue, lane
 LIMIT :limit;

-- name: drop_gate
DELETE FROM onward_gates
 WHERE queue = :queue AND lane = :lane AND full_at = :full_at AND charged_at = :charged_at AND shut_until = :shut_until
   AND shut_for = :shut_for;

-- Flows.  Every write that ends a member looks at its flow, last in its transaction; the write lock of the file serves as
-- the lock of the flow's row.

-- name: store_flow
INSERT INTO onward_flows (id, name, created_at, stop_on_failure, closed) VALUES (:flow, :named, :now, :stop_on_failure, :closed)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: store_nodes
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state)
SELECT :flow, new.value ->> 0, new.key, new.value -> 1, new.value ->> 2, new.value ->> 3 FROM json_each(:nodes) AS new;

-- name: node_states
SELECT node.flow, node.name, node.state, flow.stopped OR flow.cancelled IS NOT NULL
  FROM json_each(:places) AS wanted
 CROSS JOIN onward_flows AS flow ON flow.id = wanted.value ->> 0
 CROSS JOIN onward_nodes AS node ON node.flow = flow.id AND node.name = wanted.value ->> 1;

-- name: enqueue_members
-- Like `enqueue_alike_or_not`, of one node.  ?17: an id that is finished is left out, too.
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, lane, cost, flow, node, awaits, sealed)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, new.key, new.value ->> 0, CASE WHEN ?13 THEN new.value ->> 3 END,
       CASE WHEN ?13 THEN new.value ->> 4 END, ?14, ?15, ?16, substr(?12, new.value ->> 1, new.value ->> 2)
  FROM json_each(?11) AS new
 WHERE NOT (?17 AND EXISTS (SELECT 1 FROM onward_finished WHERE onward_finished.id = new.key))
ON CONFLICT DO NOTHING
RETURNING id;

-- name: enqueue_member
-- Like `enqueue_or_not`: one that has a unique key.
INSERT INTO onward_jobs (queue, state, rank, available_at, expires_at, max_crashes, idempotency_key, idempotency_ttl,
                         single_instance, job, id, enqueued_at, unique_key, key_held, lane, cost, sealed, flow, node, awaits)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: count_added
-- [[flow, node, number], …].  An upsert of rows that are there: an update would go through all nodes for each.
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state, total, added_at)
SELECT new.value ->> 0, new.value ->> 1, 0, '[]', 'succeeded', 'open', new.value ->> 2, :now
  FROM json_each(:added) AS new
 WHERE true
ON CONFLICT (flow, name) DO UPDATE SET total = total + excluded.total, added_at = excluded.added_at;

-- name: flows_to_look_at
-- Of the nodes in which a job has ended, [[flow, node, job], …], those by which something changes: it was the last live
-- job of its node, or the first that failed, or a step was left.
SELECT flow.id, node.name, NULL, 1
  FROM json_each(:places) AS touched
 CROSS JOIN onward_flows AS flow ON flow.id = touched.value ->> 0
 CROSS JOIN onward_nodes AS node ON node.flow = flow.id AND node.name = touched.value ->> 1
 WHERE flow.unswept
    OR NOT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_flow_idx
                    WHERE onward_jobs.flow = touched.value ->> 0 AND onward_jobs.node = touched.value ->> 1
                      AND onward_jobs.flow IS NOT NULL)
    OR NOT node.failed AND EXISTS (SELECT 1 FROM onward_finished INDEXED BY onward_finished_flow_idx
                                    WHERE onward_finished.flow = touched.value ->> 0 AND onward_finished.node = touched.value ->> 1
                                      AND onward_finished.flow IS NOT NULL AND onward_finished.state IN ('discarded', 'cancelled'));

-- name: flows_among
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows
 WHERE id IN (SELECT value FROM json_each(:flows));

-- name: nodes_of
SELECT flow, place, name, comes_after, opens_when, state, failed, total
  FROM onward_nodes
 WHERE flow IN (SELECT value FROM json_each(:flows));

-- name: nodes_now
-- To look at them: whether a job has failed, of those that are not over; and whether a job is live, of those that can have one.
-- (One that has run can if a job was added late, and a step is left.)
SELECT flow, place, name, comes_after, opens_when, state,
       failed OR state IN ('waiting', 'open') AND NOT replays
                 AND EXISTS (SELECT 1 FROM onward_finished INDEXED BY onward_finished_flow_idx
                              WHERE onward_finished.flow = node.flow AND onward_finished.node = node.name
                                AND onward_finished.flow IS NOT NULL AND onward_finished.state IN ('discarded', 'cancelled')),
       swept,
       (state NOT IN ('completed', 'failed') OR swept IS NOT NULL)
       AND EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_flow_idx
                WHERE onward_jobs.flow = node.flow AND onward_jobs.node = node.name AND onward_jobs.flow IS NOT NULL),
       replays
  FROM onward_nodes AS node
 WHERE flow IN (SELECT value FROM json_each(:flows));

-- name: live_nodes
-- Of these nodes, those of which a job is live.
SELECT wanted.value FROM json_each(:nodes) AS wanted
 WHERE EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_flow_idx
                WHERE flow = :flow AND node = wanted.value AND flow IS NOT NULL);

-- name: failed_nodes
-- Of these nodes, those of which a job has failed.
SELECT wanted.value FROM json_each(:nodes) AS wanted
 WHERE EXISTS (SELECT 1 FROM onward_finished INDEXED BY onward_finished_flow_idx
                WHERE flow = :flow AND node = wanted.value AND flow IS NOT NULL AND state IN ('discarded', 'cancelled'));

-- name: change_nodes
-- [[flow, name, state, failed, swept, replays], …].  An upsert, as above.
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state, failed, swept, replays)
SELECT new.value ->> 0, new.value ->> 1, 0, '[]', 'succeeded', new.value ->> 2, new.value ->> 3, new.value ->> 4, new.value ->> 5
  FROM json_each(:nodes) AS new
 WHERE true
ON CONFLICT (flow, name) DO UPDATE
   SET state = excluded.state, failed = excluded.failed, swept = excluded.swept, replays = excluded.replays;

-- name: change_flows
-- [[id, stopped, cancelled, over, unswept], …].
UPDATE onward_flows
   SET stopped = new.value ->> 1, cancelled = new.value ->> 2,
       over_at = iif(new.value ->> 3, coalesce(over_at, :now), NULL), unswept = new.value ->> 4
  FROM json_each(:flows) AS new
 WHERE onward_flows.id = new.value ->> 0;

-- name: waiting_members
SELECT rowid, id
  FROM onward_jobs INDEXED BY onward_jobs_flow_idx
 WHERE flow = :flow AND node = :node AND id > :after AND flow IS NOT NULL AND state = 'scheduled' AND awaits IS ''
 ORDER BY id
 LIMIT :limit;

-- name: members_to_end
SELECT rowid, id, state
  FROM onward_jobs INDEXED BY onward_jobs_flow_idx
 WHERE flow = :flow AND node = :node AND id > :after AND flow IS NOT NULL AND (state <> 'executing' OR cancel_reason IS NULL)
 ORDER BY id
 LIMIT :limit;

-- name: open_members
-- Their own delay counts from now; :never is the first time that is no instant.
UPDATE onward_jobs
   SET awaits = NULL,
       available_at = iif(available_at >= 2 * :never, max(:now, available_at - 2 * :never), :now + max(0, available_at - :never)),
       state = iif(iif(available_at >= 2 * :never, max(:now, available_at - 2 * :never), :now + max(0, available_at - :never)) <= :now,
                   'available', 'scheduled')
 WHERE rowid IN (SELECT value FROM json_each(:jobs)) AND state = 'scheduled' AND awaits IS ''
RETURNING id, state, queue;

-- name: close_flow
UPDATE onward_flows SET closed = 1 WHERE id = :flow AND NOT closed RETURNING id;

-- name: cancel_flow
-- The first reason stands.
UPDATE onward_flows SET cancelled = coalesce(cancelled, :reason), closed = 1 WHERE id = :flow AND over_at IS NULL RETURNING id;

-- name: steps_left
SELECT unswept, replayed FROM onward_flows WHERE id = :flow;

-- name: count_replayed
UPDATE onward_flows SET replayed = iif(:anew, 0, replayed) + :number WHERE id = :flow;

-- name: lock_lease
SELECT 1 FROM onward_jobs WHERE id = :id AND delivery = :token AND owner = :owner AND state = 'executing';

-- name: failed_members
SELECT id
  FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE flow = :flow AND node = :node AND flow IS NOT NULL AND state = :outcome AND id > :after
 ORDER BY id
 LIMIT :limit;

-- name: revive_members
-- Those that may still run; they wait until their node opens.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, awaits, job, sealed)
SELECT id, queue, 'scheduled', rank, :never, expires_at, min(max(delivery, 0), 1073741824), max_crashes, enqueued_at, unique_key,
       unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, '', job, sealed
  FROM onward_finished
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('discarded', 'cancelled') AND sealed IS NOT NULL
   AND (expires_at IS NULL OR expires_at > :now)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: forget_revived
DELETE FROM onward_finished WHERE id IN (SELECT value FROM json_each(:ids));

-- name: await_node
-- Members that were replayed; one whose flow is gone is a plain job.
UPDATE onward_jobs SET state = 'scheduled', awaits = '', available_at = :never
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'available'
   AND EXISTS (SELECT 1 FROM onward_nodes WHERE onward_nodes.flow = onward_jobs.flow AND onward_nodes.name = onward_jobs.node);

-- name: reasons_of
SELECT done.id, coalesce(done.reason, '') FROM json_each(:ids) AS wanted
 CROSS JOIN onward_finished AS done ON done.id = wanted.value;

-- name: flows
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows
 WHERE id < coalesce(:after, x'')
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_running
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows INDEXED BY onward_flows_running_idx
 WHERE over_at IS NULL AND id < coalesce(:after, x'')
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_named
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows INDEXED BY onward_flows_name_idx
 WHERE name = :named AND id < coalesce(:after, x'') AND (NOT :running OR over_at IS NULL)
 ORDER BY id DESC
 LIMIT :limit;

-- name: member_counts
-- Of each node; every count stops at the limit.
WITH live (node, states) AS MATERIALIZED (
    SELECT node.name, (SELECT json_array(sum(state = 'scheduled'), sum(state = 'available'), sum(state = 'executing'),
                                         sum(state = 'retryable'))
                         FROM (SELECT state FROM onward_jobs INDEXED BY onward_jobs_flow_idx
                                WHERE flow = :flow AND onward_jobs.node = node.name AND flow IS NOT NULL LIMIT :at_most))
      FROM onward_nodes AS node
     WHERE node.flow = :flow
)
SELECT node, coalesce(states ->> 0, 0), coalesce(states ->> 1, 0), coalesce(states ->> 2, 0), coalesce(states ->> 3, 0),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done INDEXED BY onward_finished_flow_idx
                               WHERE flow = :flow AND done.node = live.node AND flow IS NOT NULL AND state = 'completed' LIMIT :at_most)),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done INDEXED BY onward_finished_flow_idx
                               WHERE flow = :flow AND done.node = live.node AND flow IS NOT NULL AND state = 'discarded' LIMIT :at_most)),
       (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done INDEXED BY onward_finished_flow_idx
                               WHERE flow = :flow AND done.node = live.node AND flow IS NOT NULL AND state = 'cancelled' LIMIT :at_most))
  FROM live;

-- name: node_names
SELECT name FROM onward_nodes WHERE flow = :flow;

-- name: page_of_node_oldest
-- Four walks along the ids, merged: SQLite orders what has ended by state first.
SELECT id FROM onward_jobs INDEXED BY onward_jobs_flow_idx
 WHERE :live AND flow = :flow AND node = :node AND flow IS NOT NULL AND id > :after
   AND (:everything OR state IN (SELECT value FROM json_each(:states)))
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :discarded AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'discarded' AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :cancelled AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'cancelled' AND id > :after
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :completed AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'completed' AND id > :after
   AND sealed IS NOT NULL AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 ORDER BY id
 LIMIT :limit;

-- name: page_of_node_newest
SELECT id FROM onward_jobs INDEXED BY onward_jobs_flow_idx
 WHERE :live AND flow = :flow AND node = :node AND flow IS NOT NULL AND id < coalesce(:after, x'')
   AND (:everything OR state IN (SELECT value FROM json_each(:states)))
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :discarded AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'discarded' AND id < coalesce(:after, x'')
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :cancelled AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'cancelled' AND id < coalesce(:after, x'')
   AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 UNION ALL
SELECT id FROM onward_finished INDEXED BY onward_finished_flow_idx
 WHERE :completed AND flow = :flow AND node = :node AND flow IS NOT NULL AND state = 'completed' AND id < coalesce(:after, x'')
   AND sealed IS NOT NULL AND (:queue IS NULL OR queue = :queue) AND (:job IS NULL OR job = :job)
 ORDER BY id DESC
 LIMIT :limit;

-- name: flows_that_stand_still
-- What a sweep has to look at: flows that were left open for long, that have a step left, or whose next step was overlooked.
SELECT id, name, unswept, left_open
  FROM (SELECT id, name, unswept, closed,
               NOT closed AND max(created_at, coalesce((SELECT max(added_at) FROM onward_nodes WHERE onward_nodes.flow = onward_flows.id), 0))
                              <= :now - :left_open AS left_open
          FROM onward_flows INDEXED BY onward_flows_running_idx
         WHERE over_at IS NULL
         ORDER BY id) AS flow
 WHERE unswept
    OR left_open
    OR closed AND (EXISTS (SELECT 1 FROM onward_nodes AS node
                            WHERE node.flow = flow.id AND node.state = 'open'
                              AND NOT EXISTS (SELECT 1 FROM onward_jobs AS job INDEXED BY onward_jobs_flow_idx
                                               WHERE job.flow = flow.id AND job.node = node.name AND job.flow IS NOT NULL))
                   OR NOT EXISTS (SELECT 1 FROM onward_nodes AS node
                                   WHERE node.flow = flow.id AND node.state IN ('waiting', 'open')))
 ORDER BY id
 LIMIT :limit;

-- name: drop_flows
-- Those of these that are over and have no job any more.
DELETE FROM onward_flows
 WHERE id IN (SELECT value FROM json_each(?1)) AND over_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM onward_finished INDEXED BY onward_finished_flow_idx
                    WHERE flow = onward_flows.id AND flow IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM onward_jobs INDEXED BY onward_jobs_flow_idx WHERE flow = onward_flows.id AND flow IS NOT NULL)
RETURNING id;

-- name: drop_nodes
DELETE FROM onward_nodes WHERE flow IN (SELECT value FROM json_each(?1));

-- Transfer between stores.

-- name: reservations
SELECT name, reserved_for FROM onward_queues WHERE reserved_for IS NOT NULL;

-- name: reservation
SELECT reserved_for FROM onward_queues WHERE name = :queue;

-- name: reserve
UPDATE onward_queues SET reserved_for = :transfer WHERE name = :queue AND reserved_for IS :was;

-- name: confirmed_keys
SELECT hold.key, hold.job_id, hold.token, hold.done_until
  FROM json_each(:keys) AS wanted
 CROSS JOIN onward_holds AS hold ON hold.kind = 'once' AND hold.key = wanted.value
 WHERE hold.done_until IS NOT NULL;

-- name: notes_among
SELECT note.job_id, note.name, note.value, note.at
  FROM json_each(:ids) AS wanted
 CROSS JOIN onward_notes AS note ON note.job_id = wanted.value;

-- name: remove_live
DELETE FROM onward_jobs WHERE id IN (SELECT value FROM json_each(:ids)) AND state <> 'executing';

-- name: restore_live
-- Into the columns that the rows name, in place of this one; so it is with the next three.
INSERT INTO onward_jobs (id) VALUES (:id);

-- name: restore_dead
INSERT INTO onward_finished (id) VALUES (:id);

-- name: restore_runs
INSERT INTO onward_attempts (job_id) VALUES (:job_id);

-- name: restore_notes
INSERT INTO onward_notes (job_id) VALUES (:job_id);

-- name: known
SELECT job.id FROM json_each(:ids) AS wanted CROSS JOIN onward_jobs AS job ON job.id = wanted.value
 UNION ALL
SELECT done.id FROM json_each(:ids) AS wanted CROSS JOIN onward_finished AS done ON done.id = wanted.value;

-- name: key_holders
SELECT holder.key_held, holder.id
  FROM json_each(:keys) AS wanted
 CROSS JOIN onward_jobs AS holder INDEXED BY onward_jobs_held_idx ON holder.key_held = wanted.value;

-- name: restore_confirmed
-- A key that is held here now, or done for longer, stays as it is.
INSERT INTO onward_holds (kind, key, job_id, token, done_until)
SELECT 'once', new.value ->> 0, new.value ->> 1, new.value ->> 2, new.value ->> 3 FROM json_each(:confirmed) AS new WHERE true
ON CONFLICT (kind, key) DO UPDATE
   SET job_id = excluded.job_id, token = excluded.token, done_until = excluded.done_until
 WHERE onward_holds.done_until < excluded.done_until;

-- name: damaged_jobs
-- Live jobs with values that no worker writes; the code that reads them says which.
-- The counters end one below what a claim may write.  A job that waits for its node is due at no instant.
SELECT rowid, id, queue, job, sealed, state, rank,
       iif(state = 'scheduled' AND awaits IS '' AND available_at BETWEEN 0 AND 760206902399999999, enqueued_at, available_at), expires_at, enqueued_at, started_at, max_crashes, delivery,
       attempts, crashes, interruptions, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance,
       progress, owner, lane, cost, :now, flow, node
  FROM onward_jobs
 WHERE state NOT IN ('scheduled', 'available', 'executing', 'retryable') OR (state = 'executing' AND owner IS NULL)
    OR delivery NOT BETWEEN 0 AND 2147483646 OR attempts NOT BETWEEN 0 AND 2147483646
    OR crashes NOT BETWEEN 0 AND 2147483646 OR interruptions NOT BETWEEN 0 AND 2147483646
    OR waits NOT BETWEEN 0 AND 2147483646 OR max_crashes NOT BETWEEN 1 AND 2147483646 OR rank NOT BETWEEN -100 AND 100
    OR available_at NOT BETWEEN 0 AND iif(state = 'scheduled' AND awaits IS '', 760206902399999999, 253402300799999999)
    OR enqueued_at NOT BETWEEN 0 AND 253402300799999999
    OR idempotency_ttl NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 0 AND 253402300799999999
    OR started_at NOT BETWEEN 0 AND 253402300799999999 OR parked_since NOT BETWEEN 0 AND 253402300799999999
 LIMIT 1000;

-- name: drop_damaged
DELETE FROM onward_jobs WHERE rowid = :key;

-- name: damaged_sessions
SELECT owner FROM onward_sessions
 WHERE expires_at NOT BETWEEN 0 AND 253402300799999999 OR lease_for NOT BETWEEN 1 AND 253402300799999999;

-- name: store_audit
INSERT INTO onward_audit (job_id) VALUES (:job_id);

-- name: audit_of_job
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE job_id = :job AND at <= :at AND (at < :at OR number < :number)
   AND (:ref IS NULL OR ref = :ref) AND (:who IS NULL OR who = :who) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_about
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE ref = :ref AND at <= :at AND (at < :at OR number < :number)
   AND (:who IS NULL OR who = :who) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_by
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE who = :who AND at <= :at AND (at < :at OR number < :number) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_newest
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE at <= :at AND (at < :at OR number < :number) AND (:act IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT :limit;

-- name: audit_among
SELECT entry.number, entry.job_id, entry.at, entry.who, entry.act, entry.detail, entry.ref, entry.signature
  FROM json_each(:ids) AS wanted CROSS JOIN onward_audit AS entry ON entry.job_id = wanted.value;

-- name: forget_audit
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_audit
 WHERE job_id IN (SELECT value FROM json_each(:ids))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_audit.job_id);

-- name: drop_old_audit
DELETE FROM onward_audit
 WHERE number IN (SELECT number FROM onward_audit WHERE job_id = '' AND at <= :now - :kept_for ORDER BY at LIMIT :limit);

-- name: asked_among
SELECT job.id FROM json_each(:ids) AS wanted CROSS JOIN onward_jobs AS job ON job.id = wanted.value
 WHERE job.cancel_reason IS NOT NULL;

-- Samples.

-- name: mark_minute
-- One row for the first process of all that sends a sample of this minute: it looks at the store for all of them.
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, 0, '*', x'')
ON CONFLICT (at, reporter) DO NOTHING
RETURNING 1;

-- name: store_sample
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, 0, :reporter, :data)
ON CONFLICT (at, reporter) DO UPDATE SET width = 0, data = excluded.data;

-- name: drop_stretch
DELETE FROM onward_series WHERE at >= :first AND at < :before;

-- name: store_merged
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, :width, '*', :data);

-- name: series
SELECT at, width, reporter, data FROM onward_series WHERE at >= :first AND at < :before ORDER BY at, reporter LIMIT :at_most;
