-- Every statement of the PostgreSQL backend.  Values are always parameters, written :name; the table prefix is the only
-- substitution.  A batch comes as arrays, one for each column; an array may be empty if every value is the usual one.
--
-- How they are built, again and again: `clock` reads the time once.  `held` finds and locks the rows, one by one in the
-- order of the batch: the FOR UPDATE within LATERAL leaves the planner no other way than along an index, whatever it
-- believes of the table's size, and never waits in another order.  Then rows are written where they were found, by ctid.
-- A row that was changed while the statement waited for its lock has a newer version, which is locked now but not in the
-- snapshot, and by its ctid it is not found.  So the answer is always what was written, or the row is looked for by its
-- key, which leads to the newest version.  Tests compare the plans.
--
-- Members of flows are indexed by the number of their node (`onward_place`) and their id.  A statement says the number, and then the
-- texts.  Where it takes the first or the next ones it says a range of the number, though that is one: of an equal number the planner
-- knows that the ids alone are in order, and believes now and then that the index of all ids would be as good.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: configure
-- The settings of Onward's own connections, for this transaction only: the next may be in another session.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true), set_config('lock_timeout', '30s', true),
       set_config('idle_in_transaction_session_timeout', '20s', true);

-- name: begin_reading
-- Several statements, one snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: savepoint
SAVEPOINT onward_unlocked;

-- name: unlock
-- What was locked since is free again.
ROLLBACK TO SAVEPOINT onward_unlocked;

-- name: listen
-- The channel's name is the table prefix's.
LISTEN onward_wake;

-- name: wake
-- On its own, after the commit: a transaction that notifies takes a lock of the whole database until it is on the disk.
SELECT pg_notify('onward_wake', :queues);

-- name: wake_apart
-- `wake` as a transaction of its own, which is a hint and need not be on the disk before it is sent.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('onward_wake', :queues);

-- name: enqueue
-- Both an id that is live and a unique key that is held make it store nothing.  The answer: which were stored, if not all were;
-- and whether a process waits to be woken.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
given AS (
    SELECT *
      FROM unnest(cast(:ids AS text[]), cast(:queues AS text[]), cast(:jobs AS text[]), cast(:sealed AS bytea[]),
                  cast(:enqueued_at AS bigint[]), cast(:max_crashes AS bigint[]), cast(:priorities AS bigint[]),
                  cast(:delays AS bigint[]), cast(:not_before AS bigint[]), cast(:expires_at AS bigint[]),
                  cast(:unique_keys AS text[]), cast(:idempotency_keys AS text[]), cast(:idempotency_ttls AS bigint[]),
                  cast(:single_instances AS text[]), cast(:lanes AS text[]), cast(:costs AS integer[]))
        AS given (id, queue, job, sealed, enqueued_at, max_crashes, priority, delay, not_before, expires_at, unique_key,
                  idempotency_key, idempotency_ttl, single_instance, lane, cost)
), stored AS (
    INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                             idempotency_key, idempotency_ttl, single_instance, lane, cost, job, sealed)
    SELECT id, queue, CASE WHEN due.at <= now THEN 'available' ELSE 'scheduled' END, -coalesce(priority, 0), due.at, expires_at,
           max_crashes, enqueued_at, unique_key, unique_key, idempotency_key, coalesce(idempotency_ttl, 0), single_instance,
           lane, cost, job, sealed
      FROM clock
     CROSS JOIN given
     CROSS JOIN LATERAL (SELECT greatest(now + coalesce(delay, 0), not_before)) AS due (at)
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT CASE WHEN count(*) < cardinality(cast(:ids AS text[])) THEN coalesce(array_agg(id), cast(ARRAY[] AS text[])) END,
       EXISTS (SELECT 1 FROM onward_waiters WHERE until > (SELECT onward_now(NULL)))
  FROM stored;

-- name: enqueue_new
-- `enqueue` for jobs of which none is expected to be there: it does not make sure row by row.  If one is there after
-- all, nothing is stored and it says so.  What all have in common comes once.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
stored AS (
    INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, max_crashes, enqueued_at, idempotency_key,
                             idempotency_ttl, single_instance, lane, cost, job, sealed)
    SELECT id, cast(:queue AS text), CASE WHEN due.at <= now THEN 'available' ELSE 'scheduled' END, -coalesce(priority, 0),
           due.at, expires_at, cast(:max_crashes AS bigint), enqueued_at, idempotency_key, coalesce(idempotency_ttl, 0),
           single_instance, lane, cost, cast(:job AS text), sealed
      FROM clock
     CROSS JOIN unnest(cast(:ids AS text[]), cast(:sealed AS bytea[]), cast(:enqueued_at AS bigint[]),
                       cast(:priorities AS bigint[]), cast(:delays AS bigint[]), cast(:not_before AS bigint[]),
                       cast(:expires_at AS bigint[]), cast(:idempotency_keys AS text[]), cast(:idempotency_ttls AS bigint[]),
                       cast(:single_instances AS text[]), cast(:lanes AS text[]), cast(:costs AS integer[]))
        AS given (id, sealed, enqueued_at, priority, delay, not_before, expires_at, idempotency_key, idempotency_ttl,
                  single_instance, lane, cost)
     CROSS JOIN LATERAL (SELECT greatest(now + coalesce(delay, 0), not_before)) AS due (at)
)
SELECT cast(NULL AS text[]), EXISTS (SELECT 1 FROM onward_waiters WHERE until > (SELECT onward_now(NULL)));

-- name: enqueue_one
-- `enqueue_new` for one that is due, which is what most callers bring.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, max_crashes, enqueued_at, idempotency_key,
                         idempotency_ttl, single_instance, lane, cost, job, sealed)
VALUES (:id, :queue, 'available', :rank, onward_now(:now), :expires_at, :max_crashes, :enqueued_at, :idempotency_key,
        :idempotency_ttl, :single_instance, :lane, :cost, :job, :sealed)
RETURNING EXISTS (SELECT 1 FROM onward_waiters WHERE until > (SELECT onward_now(NULL)));

-- name: enqueue_plain
-- The same of one without a key, an expiry or a lane, which nearly all are: every value that is sent costs.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed)
VALUES (:id, :queue, 'available', :rank, onward_now(:now), :max_crashes, :enqueued_at, :job, :sealed)
RETURNING EXISTS (SELECT 1 FROM onward_waiters WHERE until > (SELECT onward_now(NULL)));

-- name: this_database
-- The database in which a connection finds Onward's tables; the time of the first migration tells two of one name apart.
SELECT current_database(), (SELECT applied_at FROM onward_migrations WHERE version = 1);

-- name: live_among
SELECT job.id FROM unnest(cast(:ids AS text[])) AS wanted (id) JOIN onward_jobs AS job ON job.id = wanted.id;

-- name: finished_among
SELECT done.id FROM unnest(cast(:ids AS text[])) AS wanted (id) JOIN onward_finished AS done ON done.id = wanted.id;

-- name: key_holders
SELECT holder.key_held, holder.id
  FROM unnest(cast(:keys AS text[])) AS wanted (key)
 CROSS JOIN LATERAL (SELECT key_held, id FROM onward_jobs WHERE key_held = wanted.key LIMIT 1) AS holder;

-- name: lock_unique_keys
-- Numbers instead of rows: a role that may only enqueue can write no table but that of jobs.
SELECT pg_advisory_xact_lock(number) FROM unnest(cast(:numbers AS bigint[])) AS wanted (number);

-- name: lock_key_holders
-- Those that still hold the key.
SELECT holder.key_held, holder.id
  FROM unnest(cast(:ids AS text[]), cast(:keys AS text[])) AS found (id, key)
 CROSS JOIN LATERAL (SELECT key_held, id FROM onward_jobs WHERE id = found.id AND key_held = found.key FOR UPDATE) AS holder;

-- name: try_key_holders
SELECT holder.key_held, holder.id
  FROM unnest(cast(:ids AS text[]), cast(:keys AS text[])) AS found (id, key)
 CROSS JOIN LATERAL (SELECT key_held, id
                       FROM onward_jobs
                      WHERE id = found.id AND key_held = found.key FOR UPDATE SKIP LOCKED) AS holder;

-- name: open_session
-- The time is counted from when this transaction has the row: a renewal that waits for a turn loses nothing.
INSERT INTO onward_sessions (owner, expires_at, lease_for, host, pid, version, description)
VALUES (:owner, onward_now(:now) + cast(:lease_for AS bigint), cast(:lease_for AS bigint), :host, cast(:pid AS bigint), :version,
        :description)
ON CONFLICT (owner) DO UPDATE
   SET expires_at = onward_now(:now) + excluded.lease_for, lease_for = excluded.lease_for, host = excluded.host,
       pid = excluded.pid, version = excluded.version, description = excluded.description
RETURNING expires_at;

-- name: lock_session
-- A lock, not a write: a row written by every turn is a chain of dead versions under a snapshot that stays open.
WITH session AS MATERIALIZED (SELECT expires_at FROM onward_sessions WHERE owner = :owner FOR UPDATE)
SELECT expires_at, onward_now(:now),
       ARRAY (SELECT id FROM onward_jobs WHERE owner = :owner AND cancel_reason IS NOT NULL ORDER BY id),
       ARRAY (SELECT delivery FROM onward_jobs WHERE owner = :owner AND cancel_reason IS NOT NULL ORDER BY id)
  FROM session;

-- name: lock_sessions
SELECT owner FROM onward_sessions WHERE owner = ANY (cast(:owners AS text[])) ORDER BY owner FOR UPDATE;

-- name: renew_session
WITH session AS MATERIALIZED (SELECT owner FROM onward_sessions WHERE owner = :owner FOR UPDATE)
UPDATE onward_sessions SET expires_at = onward_now(:now) + lease_for
  FROM session
 WHERE onward_sessions.owner = session.owner
RETURNING ARRAY (SELECT id FROM onward_jobs WHERE owner = :owner AND cancel_reason IS NOT NULL ORDER BY id),
          ARRAY (SELECT delivery FROM onward_jobs WHERE owner = :owner AND cancel_reason IS NOT NULL ORDER BY id);

-- name: end_session
DELETE FROM onward_sessions WHERE owner = :owner RETURNING owner, host, pid, description;

-- name: end_expired_sessions
-- A locked row belongs to a session whose process is in a transaction: it is alive.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now)
DELETE FROM onward_sessions
 WHERE owner IN (SELECT owner
                   FROM onward_sessions
                  WHERE expires_at <= (SELECT now FROM clock)
                    AND (cast(:queue AS text) IS NULL
                         OR EXISTS (SELECT 1 FROM onward_jobs AS job
                                     WHERE job.owner = onward_sessions.owner AND job.state = 'executing'
                                       AND job.queue = :queue))
                  ORDER BY owner
                    FOR UPDATE SKIP LOCKED)
RETURNING owner, host, pid, description;

-- name: adopt
-- The tokens stay: what the old owner's process has run can be settled under the new name.
WITH held AS MATERIALIZED (
    SELECT id FROM onward_jobs WHERE owner = :adopted AND state = 'executing' ORDER BY id FOR UPDATE
)
UPDATE onward_jobs SET owner = :owner WHERE id = ANY (ARRAY (SELECT id FROM held));

-- name: leases_of
-- In the shape of `claim`.
SELECT rank, available_at, id, queue, sealed, delivery, started_at, attempts,
       CASE WHEN crashes > 0 OR interruptions > 0 OR waits > 0 OR parked_since IS NOT NULL OR spent IS NOT NULL
                 OR idempotency_key IS NOT NULL OR single_instance IS NOT NULL OR lane <> '' OR flow IS NOT NULL
            THEN cast(json_build_array(crashes, interruptions, waits, parked_since, spent, idempotency_key, idempotency_ttl,
                                       single_instance, flow IS NOT NULL, nullif(lane, '')) AS text) END
  FROM onward_jobs
 WHERE owner = :owner AND state = 'executing'
 ORDER BY id;

-- name: paused_queues
SELECT name FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: next_due
-- In how many microseconds one of these queues has work: 0 or less is now, NULL is never.  The thread that asks may
-- be about to wait, and registers to be woken; the second answer is how many others are registered.  The third: queues with
-- lanes or a limit, where only a walk can tell whether one of the available jobs may start.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
open AS MATERIALIZED (
    SELECT name, since, first_range, last_range,
           EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND onward_limits.name = wanted.name)
           OR (SELECT true FROM onward_jobs WHERE queue = wanted.name AND state = 'available' AND lane <> ''
                ORDER BY rank LIMIT 1) IS TRUE AS is_walked
      FROM unnest(cast(:queues AS text[]), cast(:due_since AS bigint[]), cast(:first_ranges AS bigint[]),
                  cast(:last_ranges AS bigint[]))
        AS wanted (name, since, first_range, last_range)
     WHERE (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
), waits AS (
    INSERT INTO onward_waiters (id, until)
    SELECT :waiter, onward_now(NULL) + cast(:sleeps AS bigint) WHERE cast(:sleeps AS bigint) IS NOT NULL
    ON CONFLICT (id) DO UPDATE SET until = excluded.until
)
SELECT min(CASE WHEN NOT is_walked
                 AND EXISTS (SELECT 1
                               FROM (SELECT generate_series(open.first_range, open.last_range) AS number) AS part
                              CROSS JOIN LATERAL (
                                    SELECT 1
                                      FROM onward_jobs
                                     WHERE queue = open.name AND state = 'available' AND coalesce(lane, '') = ''
                                       AND rank <= (cast(:high_ranks AS bigint[]))[part.number]
                                       AND (rank, available_at, id) >= ((cast(:low_ranks AS bigint[]))[part.number],
                                                                        (cast(:low_times AS bigint[]))[part.number],
                                                                        (cast(:low_ids AS text[]))[part.number])
                                     ORDER BY rank, available_at, id
                                     LIMIT 1) AS job) THEN 0
                ELSE least((SELECT available_at FROM onward_jobs
                             WHERE queue = open.name AND booked IS NULL AND available_at >= open.since
                               AND state IN ('scheduled', 'retryable')
                             ORDER BY booked, available_at LIMIT 1),
                           (SELECT available_at FROM onward_jobs
                             WHERE queue = open.name AND booked AND state IN ('scheduled', 'retryable')
                             ORDER BY booked, available_at LIMIT 1)) - (SELECT now FROM clock) END),
       (SELECT count(*) FROM onward_waiters WHERE until > (SELECT onward_now(NULL)) AND id <> :waiter),
       array_agg(name) FILTER (WHERE is_walked)
  FROM open;

-- name: pinned
-- Whether a snapshot is open that is so many transactions old: versions that died since cannot be
-- removed.  A transaction that has written keeps one, too, by its number.  And whether the server ends the walk of a range at its end:
-- up to version 17 it goes on to the end of the rank where the last columns of a row comparison decide.
SELECT greatest((SELECT max(greatest(age(backend_xmin), age(backend_xid))) FROM pg_stat_activity
                  WHERE datname = current_database() OR datname IS NULL),
                (SELECT max(age(transaction)) FROM pg_prepared_xacts WHERE database = current_database()),
                (SELECT max(age(xmin)) FROM pg_replication_slots)) > cast(:transactions AS bigint),
       cast(current_setting('server_version_num') AS integer) >= 180000;

-- name: forget_waiters
-- Those of processes that have ended.
DELETE FROM onward_waiters WHERE until < (SELECT onward_now(NULL) - 60000000);

-- name: promote
-- Cancel what has expired, and make available what is due; what was booked apart from the rest, so that no number of such
-- jobs keeps others waiting.  The second answer: the nodes of
-- members that have expired.  Rows that another turn has locked are left to it.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
late AS MATERIALIZED (
    -- For all queues at once: three parts of the statement for each would cost more, and mostly there is nothing.
    SELECT EXISTS (SELECT 1 FROM onward_jobs
                    WHERE queue = ANY (cast(:queues AS text[])) AND expires_at <= (SELECT now FROM clock)
                      AND expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable')) AS any_expired,
           EXISTS (SELECT 1 FROM onward_jobs
                    WHERE queue = ANY (cast(:queues AS text[])) AND booked IS NULL
                      AND available_at >= (SELECT min(since) FROM unnest(cast(:due_since AS bigint[])) AS since)
                      AND available_at <= (SELECT now FROM clock) AND state IN ('scheduled', 'retryable')) AS any_due,
           EXISTS (SELECT 1 FROM onward_jobs
                    WHERE queue = ANY (cast(:queues AS text[])) AND booked AND available_at <= (SELECT now FROM clock)
                      AND state IN ('scheduled', 'retryable')) AS any_booked
),
expired AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:queues AS text[])) AS wanted (name)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE queue = wanted.name AND expires_at <= (SELECT now FROM clock)
                            AND expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable')
                            AND (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
                          ORDER BY expires_at, id
                          LIMIT cast(:limit AS bigint)
                            FOR UPDATE SKIP LOCKED) AS job
     WHERE (SELECT any_expired FROM late)
), gone AS (
    DELETE FROM onward_jobs WHERE ctid = ANY (ARRAY (SELECT place FROM expired)) RETURNING *
), finished AS (
    INSERT INTO onward_finished (
           id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, reason, progress, result, sealed)
    SELECT id, 'cancelled', now, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, 'expired', progress, NULL, sealed
      FROM gone
     CROSS JOIN clock
    ON CONFLICT (id) DO UPDATE
       SET (state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
            enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
            single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
         = ROW (excluded.state, excluded.finished_at, excluded.queue, excluded.job, excluded.rank, excluded.delivery,
                excluded.attempts, excluded.crashes, excluded.interruptions, excluded.max_crashes, excluded.available_at,
                excluded.enqueued_at, excluded.started_at, excluded.expires_at, excluded.owner, excluded.waits,
                excluded.parked_since, excluded.unique_key, excluded.idempotency_key, excluded.idempotency_ttl,
                excluded.single_instance, excluded.lane, excluded.cost, excluded.flow, excluded.node, excluded.reason,
                excluded.progress, excluded.result, excluded.sealed, excluded.fingerprint)
), due AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:queues AS text[]), cast(:due_since AS bigint[])) AS wanted (name, since)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE queue = wanted.name AND booked IS NULL AND available_at >= wanted.since
                            AND available_at <= (SELECT now FROM clock)
                            AND state IN ('scheduled', 'retryable')
                            AND NOT ctid = ANY (ARRAY (SELECT place FROM expired))
                            AND (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
                          ORDER BY booked, available_at, id
                          LIMIT cast(:limit AS bigint)
                            FOR UPDATE SKIP LOCKED) AS job
     WHERE (SELECT any_due FROM late)
), booked AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:queues AS text[])) AS wanted (name)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE queue = wanted.name AND booked AND available_at <= (SELECT now FROM clock)
                            AND state IN ('scheduled', 'retryable')
                            AND NOT ctid = ANY (ARRAY (SELECT place FROM expired))
                            AND (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
                          ORDER BY booked, available_at, id
                          LIMIT 200
                            FOR UPDATE SKIP LOCKED) AS job
     WHERE (SELECT any_booked FROM late)
), promoted AS (
    UPDATE onward_jobs SET state = 'available', booked = NULL
     WHERE ctid = ANY (ARRAY (SELECT place FROM due UNION ALL SELECT place FROM booked))
    RETURNING id
)
SELECT count(*),
       (SELECT cast(json_agg(json_build_array(flow, node)) AS text) FROM gone WHERE flow IS NOT NULL)
  FROM promoted;

-- name: claim
-- Of plain jobs, and only if none of the queues has lanes or a limit: then it returns one row of nulls, and `walk_lanes` and
-- `take` claim.
-- Queue by queue, in the order given: `queue IN (a, b) ORDER BY rank` sorts the whole backlog; and within a queue part by
-- part, in the order of the ranks, each from where it is said to begin.  Rows that another turn has locked are left to
-- it.  A suspect is claimed only if it stands first, and then alone.  Every claim takes the next delivery number, which
-- fences off the previous holder: its late settlement matches no row.  What few jobs have comes as one value, and mostly
-- as none: every column costs.  A member of a flow that has nothing else has an empty one.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
walked AS MATERIALIZED (
    -- For all queues at once, and along indexes that are empty where there are none: a part of the statement for each would cost more.
    SELECT EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = ANY (cast(:queues AS text[])))
           OR EXISTS (SELECT 1 FROM onward_jobs
                       WHERE queue = ANY (cast(:queues AS text[])) AND state = 'available' AND lane <> '') AS answer
), candidates AS MATERIALIZED (
    -- As one array: to number rows and pass them on from step to step takes a tenth of the whole claim.
    SELECT array_agg(place) AS places, array_position(array_agg(crashes > 0), true) AS suspect
      FROM (SELECT job.*
              FROM unnest(cast(:queues AS text[]), cast(:at_most AS bigint[]), cast(:first_ranges AS bigint[]),
                          cast(:last_ranges AS bigint[]))
                AS wanted (name, at_most, first_range, last_range)
             CROSS JOIN LATERAL (SELECT job.*
                                   FROM (SELECT generate_series(wanted.first_range, wanted.last_range) AS number) AS part
                                  CROSS JOIN LATERAL (
                                        SELECT ctid AS place, crashes
                                          FROM onward_jobs
                                         WHERE queue = wanted.name AND state = 'available' AND coalesce(lane, '') = ''
                                           AND rank <= (cast(:high_ranks AS bigint[]))[part.number]
                                           AND (rank, available_at, id) >= ((cast(:low_ranks AS bigint[]))[part.number],
                                                                            (cast(:low_times AS bigint[]))[part.number],
                                                                            (cast(:low_ids AS text[]))[part.number])
                                           AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                                           AND NOT id = ANY (cast(:released AS text[]))
                                         ORDER BY rank, available_at, id
                                         LIMIT wanted.at_most
                                           FOR UPDATE SKIP LOCKED) AS job
                                  WHERE (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
                                  LIMIT wanted.at_most) AS job
             WHERE NOT (SELECT answer FROM walked)
             LIMIT cast(:limit AS bigint)) AS job
), claimed AS (
    UPDATE onward_jobs
       SET state = 'executing', delivery = delivery + 1, owner = :owner, started_at = (SELECT now FROM clock)
     WHERE ctid = ANY (cast((SELECT CASE WHEN suspect IS NULL THEN places ELSE places[1 : greatest(suspect - 1, 1)] END
                               FROM candidates) AS tid[]))
    RETURNING rank, available_at, id, queue, sealed, delivery, started_at, attempts,
              CASE WHEN crashes > 0 OR interruptions > 0 OR waits > 0 OR parked_since IS NOT NULL OR spent IS NOT NULL
                        OR idempotency_key IS NOT NULL OR single_instance IS NOT NULL
                   THEN cast(json_build_array(crashes, interruptions, waits, parked_since, spent, idempotency_key,
                                              idempotency_ttl, single_instance, flow IS NOT NULL, NULL) AS text)
                   WHEN flow IS NOT NULL THEN '' END AS special
)
SELECT * FROM claimed
 UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM walked WHERE answer;

-- name: claim_among
-- The same by their ids, for a store beside a broker: what is due need not have been promoted.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
candidates AS MATERIALIZED (
    SELECT job.ctid AS place, job.crashes, wanted.number
      FROM unnest(cast(:ids AS text[])) WITH ORDINALITY AS wanted (id, number)
      JOIN onward_jobs AS job ON job.id = wanted.id
     WHERE (job.state = 'available'
            OR job.state IN ('scheduled', 'retryable') AND job.available_at <= (SELECT now FROM clock))
       AND (job.expires_at IS NULL OR job.expires_at > (SELECT now FROM clock))
       AND NOT EXISTS (SELECT 1 FROM onward_queues WHERE name = job.queue AND paused_at IS NOT NULL)
     ORDER BY wanted.number
       FOR UPDATE OF job SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT place
      FROM candidates
     WHERE number = (SELECT min(number) FROM candidates)
        OR number < ALL (SELECT number FROM candidates WHERE crashes > 0)
)
UPDATE onward_jobs
   SET state = 'executing', delivery = delivery + 1, owner = :owner, started_at = (SELECT now FROM clock)
 WHERE ctid = ANY (ARRAY (SELECT place FROM chosen))
RETURNING rank, available_at, id, queue, sealed, delivery, started_at, attempts,
          CASE WHEN crashes > 0 OR interruptions > 0 OR waits > 0 OR parked_since IS NOT NULL OR spent IS NOT NULL
                    OR idempotency_key IS NOT NULL OR single_instance IS NOT NULL OR lane <> '' OR flow IS NOT NULL
               THEN cast(json_build_array(crashes, interruptions, waits, parked_since, spent, idempotency_key, idempotency_ttl,
                                          single_instance, flow IS NOT NULL, nullif(lane, '')) AS text) END;

-- name: lock_holds
-- Every key that is wanted has a row now, which this transaction keeps locked until the commit.  In the order of the keys,
-- so that two transactions that want the same ones do not wait for each other.
INSERT INTO onward_holds (kind, key, job_id, token)
SELECT kind, key, '', 0 FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[])) AS wanted (kind, key)
ON CONFLICT (kind, key) DO UPDATE SET token = onward_holds.token;

-- name: holds
-- The holders of these keys: until when a success confirms the key, or whether the holder still runs.
SELECT hold.kind, hold.key, hold.job_id, hold.token, hold.done_until,
       EXISTS (SELECT 1 FROM onward_jobs WHERE id = hold.job_id AND delivery = hold.token AND state = 'executing')
  FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[])) AS wanted (kind, key)
 CROSS JOIN LATERAL (SELECT * FROM onward_holds WHERE kind = wanted.kind AND key = wanted.key LIMIT 1) AS hold;

-- name: take_holds
WITH held AS MATERIALIZED (
    SELECT hold.place, wanted.job_id, wanted.token
      FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[]), cast(:ids AS text[]), cast(:tokens AS bigint[]))
        AS wanted (kind, key, job_id, token)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_holds WHERE kind = wanted.kind AND key = wanted.key FOR UPDATE) AS hold
)
UPDATE onward_holds SET job_id = held.job_id, token = held.token, done_until = NULL
  FROM held
 WHERE onward_holds.ctid = held.place;

-- name: drop_blank_holds
-- Rows that were made to be locked, and whose keys no claim took.
WITH held AS MATERIALIZED (
    SELECT hold.place
      FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[])) AS wanted (kind, key)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_holds
                          WHERE kind = wanted.kind AND key = wanted.key AND job_id = '' FOR UPDATE) AS hold
)
DELETE FROM onward_holds WHERE ctid = ANY (ARRAY (SELECT place FROM held));

-- name: ended_holds
-- Which of them were held at all.  Without a lock: while a lease is valid no other transaction writes the pointer to it.
SELECT ended.number
  FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[]), cast(:ids AS text[]), cast(:tokens AS bigint[]))
       WITH ORDINALITY AS ended (kind, key, job_id, token, number)
 CROSS JOIN LATERAL (SELECT 1
                       FROM onward_holds
                      WHERE kind = ended.kind AND key = ended.key AND job_id = ended.job_id AND token = ended.token
                        AND done_until IS NULL
                      LIMIT 1) AS hold;

-- name: end_holds
-- A time to live confirms, none drops.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
held AS MATERIALIZED (
    SELECT ended.ttl, hold.*
      FROM unnest(cast(:kinds AS text[]), cast(:keys AS text[]), cast(:ids AS text[]), cast(:tokens AS bigint[]),
                  cast(:ttls AS bigint[])) AS ended (kind, key, job_id, token, ttl)
     CROSS JOIN LATERAL (SELECT kind, key
                           FROM onward_holds
                          WHERE kind = ended.kind AND key = ended.key AND job_id = ended.job_id AND token = ended.token
                            AND done_until IS NULL
                            FOR UPDATE) AS hold
), confirmed AS (
    UPDATE onward_holds AS hold SET done_until = (SELECT now FROM clock) + held.ttl
      FROM held
     WHERE hold.kind = held.kind AND hold.key = held.key AND held.ttl IS NOT NULL
), dropped AS (
    DELETE FROM onward_holds AS hold USING held
     WHERE hold.kind = held.kind AND hold.key = held.key AND held.ttl IS NULL
)
SELECT count(*) FROM held;

-- name: once_waiters
-- The first in claim order for each key.  A job that is locked is being woken or changed by another transaction.  Before any key
-- is locked: where a row's newest version is locked by the time that the server gets to it, it waits in spite of SKIP LOCKED.
SELECT ended.key, job.id
  FROM unnest(cast(:keys AS text[]), cast(:limits AS bigint[])) AS ended (key, at_most)
 CROSS JOIN LATERAL (SELECT id
                       FROM onward_jobs
                      WHERE idempotency_key = ended.key AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL
                      ORDER BY rank, available_at, id
                      LIMIT ended.at_most
                        FOR UPDATE SKIP LOCKED) AS job;

-- name: single_waiters
SELECT ended.key, job.id
  FROM unnest(cast(:keys AS text[]), cast(:limits AS bigint[])) AS ended (key, at_most)
 CROSS JOIN LATERAL (SELECT id
                       FROM onward_jobs
                      WHERE single_instance = ended.key AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL
                      ORDER BY rank, available_at, id
                      LIMIT ended.at_most
                        FOR UPDATE SKIP LOCKED) AS job;

-- name: wake_waiters
UPDATE onward_jobs SET state = 'available', available_at = onward_now(:now)
 WHERE id = ANY (cast(:ids AS text[]))
RETURNING queue;

-- name: settle
-- All that may become of a lease, for any number of them.  Every fence is (id, token, owner, executing).  An array of
-- moves that is empty means that all were successes, which nearly all are.  The last answer is how many rows were written:
-- if one was changed while the statement waited for its lock they are too few, and all of it starts over.  What is to be
-- tried again at once, in a queue that this very turn claims from, is promoted by the same write.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
open AS MATERIALIZED (
    SELECT name
      FROM unnest(cast(:claimed AS text[])) AS wanted (name)
     WHERE (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
), lease AS (
    SELECT *
      FROM unnest(cast(:ids AS text[]), cast(:tokens AS bigint[]), cast(:owners AS text[]), cast(:moves AS text[]),
                  cast(:targets AS text[]), cast(:ran AS boolean[]), cast(:keep AS boolean[]), cast(:results AS bytea[]),
                  cast(:reasons AS text[]), cast(:delays AS bigint[]), cast(:waits AS bigint[]), cast(:spents AS text[]),
                  cast(:kinds AS text[]), cast(:messages AS text[]), cast(:tracebacks AS text[]),
                  cast(:fingerprints AS text[]), cast(:workers AS text[]), cast(:durations AS bigint[]),
                  cast(:awaits AS text[]))
           WITH ORDINALITY
        AS lease (id, token, owner, move, target, ran, keep, result, reason, delay, waits, spent, kind, message, traceback,
                  fingerprint, ran_by, duration_ms, awaits, number)
), held AS MATERIALIZED (
    SELECT lease.number, lease.id, token, coalesce(move, 'ack') AS move, cast(coalesce(ran, true) AS integer) AS ran,
           coalesce(keep, true) AS keep, result, delay, waits, spent, kind, message, traceback, fingerprint, ran_by,
           duration_ms, awaits, job.place,
           job.owner, job.attempts, job.crashes, job.idempotency_key, job.idempotency_ttl, job.single_instance, job.flow,
           job.node, fate.*,
           goes_to = 'retryable' AND move = 'nack' AND delay <= 0 AND queue = ANY (ARRAY (SELECT name FROM open)) AS at_once
      FROM lease
     CROSS JOIN LATERAL (SELECT ctid AS place, queue, onward_jobs.owner, attempts, crashes, max_crashes, cancel_reason, idempotency_key,
                                idempotency_ttl, single_instance, flow, node
                           FROM onward_jobs
                          WHERE id = lease.id AND delivery = lease.token AND owner = coalesce(lease.owner, :owner)
                            AND state = 'executing'
                            FOR UPDATE) AS job
     CROSS JOIN LATERAL (SELECT CASE WHEN move IS NULL OR move = 'ack' THEN 'completed'
                                     WHEN cancel_reason IS NOT NULL THEN 'cancelled'
                                     WHEN move = 'crashed' AND crashes + 1 >= max_crashes THEN 'discarded'
                                     ELSE target END,
                                CASE WHEN move IS NULL OR move IN ('ack', 'cancelled') THEN reason
                                     WHEN cancel_reason IS NOT NULL THEN cancel_reason
                                     WHEN move = 'crashed' THEN format('crashed %s time%s: %s', crashes + 1, CASE crashes WHEN 0 THEN '' ELSE 's' END, reason)
                                     ELSE reason END) AS fate (goes_to, because)
), recorded AS (
    INSERT INTO onward_attempts (
           job_id, token, attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
    SELECT id, token, attempts + 1, move, goes_to, now, duration_ms, owner, kind, message, traceback, fingerprint, ran_by
      FROM held
     CROSS JOIN clock
     WHERE kind IS NOT NULL
    ON CONFLICT (job_id, token) DO UPDATE
       SET (attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
         = ROW (excluded.attempt, excluded.move, excluded.state, excluded.at, excluded.duration_ms, excluded.owner,
                excluded.kind, excluded.message, excluded.traceback, excluded.fingerprint, excluded.ran_by)
), gone AS (
    DELETE FROM onward_jobs AS job
     USING held
     WHERE job.ctid = held.place AND goes_to IN ('completed', 'discarded', 'cancelled')
    RETURNING job.*, held.goes_to, held.because, held.result, held.keep, held.ran, held.move, held.fingerprint
), finished AS (
    -- An upsert: no row that happens to be there can make a settlement fail.
    INSERT INTO onward_finished (
           id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
    SELECT id, goes_to, now, queue, job, rank, delivery, attempts + ran, crashes + cast(move = 'crashed' AS integer),
           interruptions + cast(move = 'release' AS integer), max_crashes, available_at, enqueued_at, started_at, expires_at,
           owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node,
           because, progress, CASE WHEN kept.answer THEN result END, CASE WHEN kept.answer THEN sealed END,
           -- That of the newest run: of this one, unless it has no record.
           CASE WHEN goes_to = 'discarded'
                THEN coalesce(nullif(coalesce(fingerprint, (SELECT run.fingerprint FROM onward_attempts AS run
                                                             WHERE run.job_id = gone.id ORDER BY run.token DESC LIMIT 1)), ''),
                              'unexplained') END
      FROM gone
     CROSS JOIN clock
     -- Those behind a member may want its result.
     CROSS JOIN LATERAL (SELECT keep OR flow IS NOT NULL AND goes_to = 'completed'
                                        AND (SELECT true FROM onward_flows WHERE onward_flows.id = flow LIMIT 1) IS TRUE)
             AS kept (answer)
    ON CONFLICT (id) DO UPDATE
       SET (state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
            enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
            single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
         = ROW (excluded.state, excluded.finished_at, excluded.queue, excluded.job, excluded.rank, excluded.delivery,
                excluded.attempts, excluded.crashes, excluded.interruptions, excluded.max_crashes, excluded.available_at,
                excluded.enqueued_at, excluded.started_at, excluded.expires_at, excluded.owner, excluded.waits,
                excluded.parked_since, excluded.unique_key, excluded.idempotency_key, excluded.idempotency_ttl,
                excluded.single_instance, excluded.lane, excluded.cost, excluded.flow, excluded.node, excluded.reason,
                excluded.progress, excluded.result, excluded.sealed, excluded.fingerprint)
), released AS (
    -- It keeps its place.
    UPDATE onward_jobs AS job SET state = goes_to, interruptions = job.interruptions + 1, owner = NULL
      FROM held
     WHERE job.ctid = held.place AND goes_to = 'available'
    RETURNING 1
), crashed AS (
    UPDATE onward_jobs AS job
       SET state = goes_to, crashes = job.crashes + 1, owner = NULL,
           available_at = (SELECT now FROM clock)
                        + (cast(:pauses AS bigint[]))[least(job.crashes + 1, cardinality(cast(:pauses AS bigint[])))]
      FROM held
     WHERE job.ctid = held.place AND goes_to = 'retryable' AND move = 'crashed'
    RETURNING 1
), put_back AS (
    -- nack, snooze and park: due later, and waiting is counted anew.  What a job awaits counts while it is scheduled, and
    -- every move there writes it: it need not be cleared when it is claimed.
    UPDATE onward_jobs AS job
       SET state = CASE WHEN at_once THEN 'available' ELSE goes_to END, available_at = (SELECT now FROM clock) + held.delay,
           attempts = job.attempts + held.ran, waits = held.waits, spent = coalesce(held.spent, job.spent),
           parked_since = CASE WHEN move = 'park' THEN coalesce(parked_since, (SELECT now FROM clock)) END,
           awaits = held.awaits, owner = NULL
      FROM held
     WHERE job.ctid = held.place AND goes_to IN ('scheduled', 'retryable') AND move <> 'crashed'
    RETURNING 1
)
SELECT number, goes_to, at_once, idempotency_key, idempotency_ttl, single_instance,
       CASE WHEN goes_to IN ('completed', 'discarded', 'cancelled') THEN flow END, node,
       (SELECT count(*) FROM gone) + (SELECT count(*) FROM released) + (SELECT count(*) FROM crashed)
           + (SELECT count(*) FROM put_back)
  FROM held;

-- name: complete
-- `settle` for leases that all were successes with nothing to tell, which nearly all are.  One write, where `settle` locks and
-- writes; and where `settle` makes sure of every row that none of its id has finished before, this one fails if one has.  A row
-- that changes meanwhile is waited for and looked at again.  The conditions on owner and state fit no index on
-- purpose: the ids are walked, in their order, whatever the planner believes.  The answer is how many were completed: if one
-- was not, the transaction is rolled back, and `settle` is asked.
WITH gone AS (
    DELETE FROM onward_jobs
     WHERE id = ANY (cast(:ids AS text[]))
       AND ((id, delivery) IN (SELECT * FROM unnest(cast(:ids AS text[]), cast(:tokens AS bigint[])))) IS TRUE
       AND owner IS NOT DISTINCT FROM :owner AND state IS NOT DISTINCT FROM 'executing'
    RETURNING *
), finished AS (
    INSERT INTO onward_finished (
           id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, progress, sealed)
    SELECT id, 'completed', (SELECT onward_now(:now)), queue, job, rank, delivery, attempts + 1, crashes, interruptions,
           max_crashes, available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key,
           idempotency_key, idempotency_ttl, single_instance, lane, cost, progress,
           CASE WHEN cast(:keep AS boolean) THEN sealed END
      FROM gone
    RETURNING 1
)
SELECT count(*) FROM finished;

-- name: nack
-- `settle` for leases that all failed with nothing else to tell, which nearly all failures do.  It finds the rows as `settle` does, and
-- locks none before it writes it: one that was changed meanwhile is waited for, and the conditions of the write are looked at again.
-- (Whether the place is, too, depends on the age of the server.)  They fit no index on purpose, so that rows are written where they
-- were found.  It makes sure of no record: one that is there makes it fail.  The answer is how many were put back, and how many of them
-- can be claimed at once: if one was not, or was asked to cancel, the transaction is rolled back, and `settle` is asked.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
open AS MATERIALIZED (
    SELECT name
      FROM unnest(cast(:claimed AS text[])) AS wanted (name)
     WHERE (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
), held AS MATERIALIZED (
    SELECT lease.*, job.place
      FROM unnest(cast(:ids AS text[]), cast(:tokens AS bigint[]), cast(:delays AS bigint[]), cast(:kinds AS text[]),
                  cast(:messages AS text[]), cast(:tracebacks AS text[]), cast(:fingerprints AS text[]), cast(:workers AS text[]),
                  cast(:durations AS bigint[]))
        AS lease (id, token, delay, kind, message, traceback, fingerprint, ran_by, duration_ms)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE id = lease.id AND delivery = lease.token AND owner = :owner AND state = 'executing'
                          LIMIT 1) AS job
), put_back AS (
    UPDATE onward_jobs AS job
       SET state = CASE WHEN held.delay <= 0 AND queue = ANY (ARRAY (SELECT name FROM open)) THEN 'available' ELSE 'retryable' END,
           available_at = (SELECT now FROM clock) + held.delay, attempts = attempts + 1, waits = 0, parked_since = NULL,
           awaits = NULL, owner = NULL
      FROM held
     WHERE job.ctid = held.place AND job.delivery = held.token AND job.owner IS NOT DISTINCT FROM :owner
       AND job.state IS NOT DISTINCT FROM 'executing' AND job.cancel_reason IS NULL
    RETURNING held.*, job.attempts, job.state
), recorded AS (
    INSERT INTO onward_attempts (
           job_id, token, attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
    SELECT id, token, attempts, 'nack', 'retryable', (SELECT now FROM clock), duration_ms, :owner, kind, message, traceback,
           fingerprint, ran_by
      FROM put_back
)
SELECT count(*), count(*) FILTER (WHERE state = 'available') FROM put_back;

-- name: complete_members
-- `complete` where all are members of flows: what those behind them may read is kept, and the answer is how many by node.
WITH gone AS (
    DELETE FROM onward_jobs
     WHERE id = ANY (cast(:ids AS text[]))
       AND ((id, delivery) IN (SELECT * FROM unnest(cast(:ids AS text[]), cast(:tokens AS bigint[])))) IS TRUE
       AND owner IS NOT DISTINCT FROM :owner AND state IS NOT DISTINCT FROM 'executing'
    RETURNING *
), finished AS (
    INSERT INTO onward_finished (
           id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, progress, sealed)
    SELECT id, 'completed', (SELECT onward_now(:now)), queue, job, rank, delivery, attempts + 1, crashes, interruptions,
           max_crashes, available_at, enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key,
           idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, progress,
           CASE WHEN cast(:keep AS boolean) OR (SELECT true FROM onward_flows WHERE onward_flows.id = flow LIMIT 1) IS TRUE
                THEN sealed END
      FROM gone
    RETURNING flow, node
)
SELECT flow, node, count(*) FROM finished GROUP BY flow, node;

-- name: evidence
-- What is known of settlements that match no lease: the record of the run, the finished job, a live one.
SELECT lease.number, run.move, run.state, done.state,
       EXISTS (SELECT 1 FROM onward_jobs WHERE id = lease.id) OR EXISTS (SELECT 1 FROM onward_finished WHERE id = lease.id)
  FROM unnest(cast(:ids AS text[]), cast(:tokens AS bigint[])) WITH ORDINALITY AS lease (id, token, number)
  LEFT JOIN LATERAL (SELECT move, state FROM onward_attempts WHERE job_id = lease.id AND token = lease.token LIMIT 1) AS run
    ON true
  LEFT JOIN LATERAL (SELECT state FROM onward_finished WHERE id = lease.id AND delivery = lease.token LIMIT 1) AS done
    ON true;

-- name: lease_owner
-- The owner of this lease: the session that claimed it, or one that adopted it.  Its row is locked until the commit.
SELECT owner FROM onward_jobs WHERE id = :id AND delivery = cast(:token AS bigint) AND state = 'executing' FOR UPDATE;

-- name: is_completed
SELECT EXISTS (SELECT 1 FROM onward_finished
                WHERE id = :id AND delivery = cast(:token AS bigint) AND state = 'completed');

-- name: note_after_completion
-- An error after the success: evidence that agrees with the finished job.
INSERT INTO onward_attempts (
       job_id, token, attempt, move, state, at, duration_ms, owner, kind, message, traceback, fingerprint, ran_by)
SELECT id, delivery, attempts, 'ack', state, onward_now(:now), cast(:duration_ms AS bigint), owner, :kind, :message, :traceback,
       :fingerprint, cast(:ran_by AS text)
  FROM onward_finished
 WHERE id = :id AND delivery = cast(:token AS bigint) AND state = 'completed'
ON CONFLICT (job_id, token) DO NOTHING
RETURNING job_id;

-- name: dead_leases
-- What is locked is being ended by its holder: if not, the next sweep finds it.
SELECT id, delivery, owner, queue, job, crashes
  FROM onward_jobs
 WHERE owner = :owner AND state = 'executing' AND (cast(:queue AS text) IS NULL OR queue = :queue)
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- name: orphans
-- By the leases, not by the sessions: whatever became of its session's row, a lease without a session is found.  Looked for first
-- and locked then: a row that changed in between is compared with what was seen, not with sessions as they were.  In the order of the
-- index that has running jobs alone: for that of the ids the server would walk all that wait.
WITH lost AS MATERIALIZED (
    SELECT id, delivery, owner
      FROM onward_jobs
     WHERE state = 'executing' AND (cast(:queue AS text) IS NULL OR queue = :queue)
       AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session WHERE session.owner = onward_jobs.owner)
     ORDER BY owner, id
)
SELECT job.*
  FROM lost
 CROSS JOIN LATERAL (SELECT id, delivery, owner, queue, job, crashes
                       FROM onward_jobs
                      WHERE id = lost.id AND delivery = lost.delivery AND owner = lost.owner AND state = 'executing'
                        FOR UPDATE SKIP LOCKED) AS job;

-- name: try_jobs
-- Those that no other transaction has.
SELECT job.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_jobs WHERE id = wanted.id FOR UPDATE SKIP LOCKED) AS job;

-- name: cancel
-- What waits is cancelled; what runs is asked to, and the first reason stands.  A running job that is replaced loses its key at
-- once: its replacement need not wait for it.  Alone, without a look that follows, it leaves members that wait as they are.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
held AS MATERIALIZED (
    SELECT wanted.reason, job.*
      FROM unnest(cast(:ids AS text[]), cast(:reasons AS text[])) AS wanted (id, reason)
     CROSS JOIN LATERAL (SELECT id, state, flow, node FROM onward_jobs WHERE id = wanted.id FOR UPDATE) AS job
), gone AS (
    DELETE FROM onward_jobs AS job USING held WHERE job.id = held.id AND held.state <> 'executing'
       AND (held.flow IS NULL OR NOT cast(:alone AS boolean))
    RETURNING job.*, held.reason
), finished AS (
    INSERT INTO onward_finished (
           id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, reason, progress, result, sealed)
    SELECT id, 'cancelled', now, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
           enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
           single_instance, lane, cost, flow, node, reason, progress, NULL, sealed
      FROM gone
     CROSS JOIN clock
    ON CONFLICT (id) DO UPDATE
       SET (state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
            enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
            single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
         = ROW (excluded.state, excluded.finished_at, excluded.queue, excluded.job, excluded.rank, excluded.delivery,
                excluded.attempts, excluded.crashes, excluded.interruptions, excluded.max_crashes, excluded.available_at,
                excluded.enqueued_at, excluded.started_at, excluded.expires_at, excluded.owner, excluded.waits,
                excluded.parked_since, excluded.unique_key, excluded.idempotency_key, excluded.idempotency_ttl,
                excluded.single_instance, excluded.lane, excluded.cost, excluded.flow, excluded.node, excluded.reason,
                excluded.progress, excluded.result, excluded.sealed, excluded.fingerprint)
), asked AS (
    UPDATE onward_jobs AS job
       SET cancel_reason = coalesce(cancel_reason, held.reason),
           key_held = CASE WHEN cast(:replaced AS boolean) THEN NULL ELSE key_held END
      FROM held
     WHERE job.id = held.id AND held.state = 'executing'
)
SELECT id, state, flow, node FROM held;

-- name: make_due
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
held AS MATERIALIZED (
    SELECT job.id
      FROM unnest(cast(:ids AS text[])) AS wanted (id)
     CROSS JOIN LATERAL (SELECT id
                           FROM onward_jobs
                          WHERE id = wanted.id AND state IN ('scheduled', 'retryable')
                            AND NOT (state = 'scheduled' AND awaits IS NOT DISTINCT FROM '') -- it waits for its node
                            FOR UPDATE) AS job
)
UPDATE onward_jobs SET state = 'available', available_at = (SELECT now FROM clock), booked = NULL
 WHERE id = ANY (ARRAY (SELECT id FROM held))
RETURNING id, queue;

-- name: pick
-- Live before finished, by ids.
SELECT job.id, job.queue, job.job, job.sealed, job.state, job.rank, job.attempts, job.delivery, job.crashes,
       job.interruptions, job.available_at, job.enqueued_at, job.started_at, NULL, job.owner, job.cancel_reason,
       NULL, NULL, job.progress, job.waits, job.parked_since,
       CASE WHEN job.state = 'scheduled' THEN job.awaits END,
       job.max_crashes, job.expires_at, job.spent, job.unique_key, job.key_held IS NOT NULL,
       job.idempotency_key, job.idempotency_ttl, job.single_instance, job.lane, job.cost, job.flow, job.node
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT * FROM onward_jobs WHERE id = wanted.id LIMIT 1) AS job
 UNION ALL
SELECT done.id, done.queue, done.job, done.sealed, done.state, done.rank, done.attempts, done.delivery, done.crashes,
       done.interruptions, done.available_at, done.enqueued_at, done.started_at, done.finished_at, done.owner, NULL,
       done.result, done.reason, done.progress, done.waits, done.parked_since,
       NULL,
       done.max_crashes, done.expires_at, NULL, done.unique_key, false,
       done.idempotency_key, done.idempotency_ttl, done.single_instance, done.lane, done.cost, done.flow, done.node
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT * FROM onward_finished WHERE id = wanted.id LIMIT 1) AS done;

-- name: page_oldest
-- Four walks along the ids, merged; a walk that no wanted state needs ends before it begins.  A query of every state
-- finds rows with an unknown state, too.
SELECT id FROM (
    (SELECT id FROM onward_jobs
      WHERE cast(:live AS boolean) AND id > :after AND (cast(:everything AS boolean) OR state = ANY (cast(:states AS text[])))
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:discarded AS boolean) AND state = 'discarded' AND id > :after
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:cancelled AS boolean) AND state = 'cancelled' AND id > :after
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:completed AS boolean) AND (state = 'completed' OR cast(:everything AS boolean) AND state NOT IN ('discarded', 'cancelled'))
        AND sealed IS NOT NULL AND id > :after
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id LIMIT cast(:limit AS bigint))) AS page
 ORDER BY id
 LIMIT cast(:limit AS bigint);

-- name: page_newest
SELECT id FROM (
    (SELECT id FROM onward_jobs
      WHERE cast(:live AS boolean) AND (cast(:after AS text) IS NULL OR id < :after) AND (cast(:everything AS boolean) OR state = ANY (cast(:states AS text[])))
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:discarded AS boolean) AND state = 'discarded' AND (cast(:after AS text) IS NULL OR id < :after)
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:cancelled AS boolean) AND state = 'cancelled' AND (cast(:after AS text) IS NULL OR id < :after)
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:completed AS boolean) AND (state = 'completed' OR cast(:everything AS boolean) AND state NOT IN ('discarded', 'cancelled'))
        AND sealed IS NOT NULL
        AND (cast(:after AS text) IS NULL OR id < :after)
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY id DESC LIMIT cast(:limit AS bigint))) AS page
 ORDER BY id DESC
 LIMIT cast(:limit AS bigint);

-- name: runs_of
SELECT run.job_id, run.token, run.attempt, run.move, run.state, run.at, run.duration_ms, run.owner, run.ran_by, run.kind,
       run.message, run.traceback, run.fingerprint
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
  JOIN onward_attempts AS run ON run.job_id = wanted.id
 ORDER BY run.job_id, run.token;

-- name: count_live
SELECT state, count(*) FROM onward_jobs WHERE cast(:queue AS text) IS NULL OR queue = :queue GROUP BY state;

-- name: count_finished
SELECT state, count(*)
  FROM onward_finished
 WHERE sealed IS NOT NULL AND (cast(:queue AS text) IS NULL OR queue = :queue)
 GROUP BY state;

-- name: live_by_queue
SELECT queue, count(*) FROM onward_jobs GROUP BY queue;

-- name: overview
-- Every count stops at the limit, so it costs the same whatever lies in the tables.
SELECT (SELECT count(*)
          FROM ((SELECT 1 FROM onward_jobs WHERE state = 'available' AND coalesce(lane, '') = '' LIMIT cast(:at_most AS bigint))
                 UNION ALL
                (SELECT 1 FROM onward_jobs WHERE state = 'available' AND lane <> '' LIMIT cast(:at_most AS bigint))
                 LIMIT cast(:at_most AS bigint)) AS counted),
       (SELECT count(*) FROM (SELECT 1 FROM onward_jobs WHERE state = 'executing' LIMIT cast(:at_most AS bigint)) AS counted),
       finished.all_of_them, finished.tombstones,
       (SELECT count(*)
          FROM (SELECT 1 FROM onward_finished WHERE state = 'discarded' LIMIT cast(:at_most AS bigint)) AS counted),
       (SELECT count(*)
          FROM (SELECT 1 FROM onward_finished WHERE state = 'cancelled' LIMIT cast(:at_most AS bigint)) AS counted),
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM onward_ended)
  FROM (SELECT count(*), count(*) FILTER (WHERE sealed IS NULL)
          FROM (SELECT sealed FROM onward_finished ORDER BY id DESC LIMIT cast(:at_most AS bigint)) AS newest
       ) AS finished (all_of_them, tombstones);

-- name: overview_later
SELECT count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'retryable')
  FROM (SELECT state FROM onward_jobs WHERE state IN ('scheduled', 'retryable') LIMIT cast(:at_most AS bigint)) AS counted;

-- name: queues_with_work
-- From name to name along the indexes: the jobs between are passed over.
WITH RECURSIVE clock AS MATERIALIZED (SELECT onward_now(:now) AS now), ready (name) AS (
    (SELECT queue FROM onward_jobs
      WHERE state = 'available' AND coalesce(lane, '') = '' AND queue >= :prefix AND queue > :after AND queue < :beyond
      ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs
             WHERE state = 'available' AND coalesce(lane, '') = '' AND queue > name AND queue < :beyond
             ORDER BY queue LIMIT 1)
      FROM ready
     WHERE name IS NOT NULL
), laned (name) AS (
    (SELECT queue FROM onward_jobs
      WHERE state = 'available' AND lane <> '' AND queue >= :prefix AND queue > :after AND queue < :beyond
      ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs
             WHERE state = 'available' AND lane <> '' AND queue > name AND queue < :beyond ORDER BY queue LIMIT 1)
      FROM laned
     WHERE name IS NOT NULL
), later (name) AS (
    (SELECT queue FROM onward_jobs
      WHERE state IN ('scheduled', 'retryable') AND queue >= :prefix AND queue > :after AND queue < :beyond
      ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs
             WHERE state IN ('scheduled', 'retryable') AND queue > name AND queue < :beyond ORDER BY queue LIMIT 1)
      FROM later
     WHERE name IS NOT NULL
), walked (which, name, due) AS (
    (SELECT 'ready', name, true FROM ready WHERE name IS NOT NULL LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT 'laned', name, true FROM laned WHERE name IS NOT NULL LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT 'later', name,
            -- Not EXISTS, which PostgreSQL before 18 may answer for all queues at once, by reading the whole index.  And not
            -- any job that is due, for which it may read the whole table: the first of the index.
            coalesce(least((SELECT available_at FROM onward_jobs
                             WHERE state IN ('scheduled', 'retryable') AND queue = name AND booked IS NULL
                             ORDER BY booked, available_at LIMIT 1),
                           (SELECT available_at FROM onward_jobs
                             WHERE state IN ('scheduled', 'retryable') AND queue = name AND booked
                             ORDER BY booked, available_at LIMIT 1)) <= (SELECT now FROM clock), false)
       FROM later
      WHERE name IS NOT NULL
      LIMIT cast(:limit AS bigint))
)
SELECT which, name, due AND NOT EXISTS (SELECT 1 FROM onward_queues AS queue
                                         WHERE queue.name = walked.name AND queue.paused_at IS NOT NULL)
  FROM walked;

-- name: overview_due_by_queue
-- From name to name along the index: the jobs between are passed over.
WITH RECURSIVE queues (name) AS (
    (SELECT queue FROM onward_jobs WHERE state = 'available' AND coalesce(lane, '') = '' ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs
             WHERE state = 'available' AND coalesce(lane, '') = '' AND queue > name ORDER BY queue LIMIT 1)
      FROM queues
     WHERE name IS NOT NULL
), laned (name) AS (
    (SELECT queue FROM onward_jobs WHERE state = 'available' AND lane <> '' ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs WHERE state = 'available' AND lane <> '' AND queue > name ORDER BY queue LIMIT 1)
      FROM laned
     WHERE name IS NOT NULL
)
SELECT name, counted.available
  FROM ((SELECT name FROM queues WHERE name IS NOT NULL LIMIT cast(:queues AS bigint))
         UNION
        (SELECT name FROM laned WHERE name IS NOT NULL LIMIT cast(:queues AS bigint))
         LIMIT cast(:queues AS bigint)) AS queue
 CROSS JOIN LATERAL (SELECT count(*)
                       FROM ((SELECT 1 FROM onward_jobs
                               WHERE state = 'available' AND coalesce(lane, '') = '' AND queue = name
                               LIMIT cast(:at_most AS bigint))
                              UNION ALL
                             (SELECT 1 FROM onward_jobs
                               WHERE state = 'available' AND lane <> '' AND queue = name
                               LIMIT cast(:at_most AS bigint))
                              LIMIT cast(:at_most AS bigint)) AS line
                    ) AS counted (available);

-- name: overview_later_by_queue
WITH RECURSIVE queues (name) AS (
    (SELECT queue FROM onward_jobs WHERE state IN ('scheduled', 'retryable') ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs
             WHERE state IN ('scheduled', 'retryable') AND queue > name ORDER BY queue LIMIT 1)
      FROM queues
     WHERE name IS NOT NULL
)
SELECT name, counted.scheduled, counted.retryable,
       (SELECT available_at FROM onward_jobs
         WHERE state IN ('scheduled', 'retryable') AND queue = name AND booked IS NULL ORDER BY booked, available_at LIMIT 1),
       (SELECT available_at FROM onward_jobs
         WHERE state IN ('scheduled', 'retryable') AND queue = name AND booked ORDER BY booked, available_at LIMIT 1)
  FROM (SELECT name FROM queues WHERE name IS NOT NULL LIMIT cast(:queues AS bigint)) AS queue
 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'retryable')
                       FROM (SELECT state FROM onward_jobs
                              WHERE state IN ('scheduled', 'retryable') AND queue = name
                              LIMIT cast(:at_most AS bigint)) AS line) AS counted (scheduled, retryable);

-- name: overview_oldest
-- From line to line along the indexes, to the first job of each: of a queue and a priority, and of a lane besides.  After so many
-- lines of a queue on to the next one.
WITH RECURSIVE plain (queue, rank, since, number) AS (
    (SELECT queue, rank, available_at, 1 FROM onward_jobs
      WHERE state = 'available' AND coalesce(lane, '') = '' ORDER BY queue, rank, available_at, id LIMIT 1)
     UNION ALL
    SELECT following.*, CASE WHEN following.queue = plain.queue THEN number + 1 ELSE 1 END
      FROM plain
     CROSS JOIN LATERAL (SELECT queue, rank, available_at FROM onward_jobs AS job
                          WHERE state = 'available' AND coalesce(lane, '') = ''
                            AND (job.queue, job.rank)
                                > (plain.queue, CASE WHEN number < cast(:lines AS bigint) THEN plain.rank ELSE 2000000000 END)
                          ORDER BY queue, rank, available_at, id LIMIT 1) AS following
), laned (queue, rank, lane, since, number) AS (
    (SELECT queue, rank, lane, available_at, 1 FROM onward_jobs
      WHERE state = 'available' AND lane <> '' ORDER BY queue, rank, lane, available_at, id LIMIT 1)
     UNION ALL
    SELECT following.*, CASE WHEN following.queue = laned.queue THEN number + 1 ELSE 1 END
      FROM laned
     CROSS JOIN LATERAL (SELECT queue, rank, lane, available_at FROM onward_jobs AS job
                          WHERE state = 'available' AND lane <> ''
                            AND (job.queue, job.rank, job.lane)
                                > (laned.queue, CASE WHEN number < cast(:lines AS bigint) THEN laned.rank ELSE 2000000000 END,
                                   laned.lane)
                          ORDER BY queue, rank, lane, available_at, id LIMIT 1) AS following
)
(SELECT queue, since FROM plain LIMIT cast(:steps AS bigint))
 UNION ALL
(SELECT queue, since FROM laned LIMIT cast(:steps AS bigint));

-- name: deaths
-- From group to group along the index: the jobs between are passed over.  (Equal columns would be left out of the order, and any
-- index of ids would do.)
WITH RECURSIVE walk (job, fingerprint, id, finished_at) AS (
    (SELECT job, fingerprint, id, finished_at FROM onward_finished
      WHERE fingerprint IS NOT NULL ORDER BY job, fingerprint, id LIMIT 1)
     UNION ALL
    SELECT next.*
      FROM walk
     CROSS JOIN LATERAL (SELECT job, fingerprint, id, finished_at FROM onward_finished
                          WHERE fingerprint IS NOT NULL AND (job, fingerprint) > (walk.job, walk.fingerprint)
                          ORDER BY job, fingerprint, id LIMIT 1) AS next
)
SELECT walked.job, walked.fingerprint, counted.number, walked.id, walked.finished_at, last.id, last.finished_at
  FROM (SELECT * FROM walk LIMIT cast(:groups AS bigint)) AS walked
 CROSS JOIN LATERAL (SELECT count(*)
                       FROM (SELECT 1 FROM onward_finished AS died
                              WHERE died.job = walked.job AND died.fingerprint = walked.fingerprint
                              LIMIT cast(:at_most AS bigint)) AS line
                    ) AS counted (number)
 CROSS JOIN LATERAL (SELECT id, finished_at FROM onward_finished AS died
                      WHERE died.fingerprint IS NOT NULL
                        AND (died.job, died.fingerprint) <= (walked.job, walked.fingerprint)
                      ORDER BY died.job DESC, died.fingerprint DESC, died.id DESC LIMIT 1) AS last;

-- name: page_of_group_oldest
-- Ordered by more than the id, so that no other index will do.
SELECT id FROM onward_finished
 WHERE fingerprint IS NOT NULL AND (job, fingerprint) <= (:job, :fingerprint)
   AND (job, fingerprint, id) > (:job, :fingerprint, :after)
   AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:flow AS text) IS NULL OR flow = :flow)
   AND (cast(:node AS text) IS NULL OR node = :node)
 ORDER BY job, fingerprint, id
 LIMIT cast(:limit AS bigint);

-- name: page_of_group_newest
SELECT id FROM onward_finished
 WHERE fingerprint IS NOT NULL AND (job, fingerprint) >= (:job, :fingerprint)
   AND (job, fingerprint, id) < (:job, :fingerprint, :after)
   AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:flow AS text) IS NULL OR flow = :flow)
   AND (cast(:node AS text) IS NULL OR node = :node)
 ORDER BY job DESC, fingerprint DESC, id DESC
 LIMIT cast(:limit AS bigint);

-- name: newest_of_group
SELECT id FROM onward_finished
 WHERE fingerprint IS NOT NULL AND (job, fingerprint) >= (:job, :fingerprint) AND (job, fingerprint) <= (:job, :fingerprint)
 ORDER BY job DESC, fingerprint DESC, id DESC
 LIMIT 1;

-- name: dead_among
SELECT done.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, job, fingerprint FROM onward_finished WHERE id = wanted.id LIMIT 1) AS done
 WHERE done.job = :job AND done.fingerprint = :fingerprint;

-- name: ahead
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs
         WHERE state = 'available' AND coalesce(lane, '') = '' AND queue = :queue
           AND (rank, available_at, id) < (cast(:rank AS bigint), cast(:available_at AS bigint), :id)
         LIMIT cast(:at_most AS bigint)) AS counted;

-- name: ahead_in_lane
SELECT count(*)
  FROM (SELECT 1 FROM onward_jobs
         WHERE state = 'available' AND lane <> '' AND queue = :queue AND rank = cast(:rank AS bigint) AND lane = :lane
           AND (available_at, id) < (cast(:available_at AS bigint), :id)
         LIMIT cast(:at_most AS bigint)) AS counted;

-- name: pauses
SELECT name, paused_at FROM onward_queues WHERE paused_at IS NOT NULL;

-- name: limit_reading
-- For this transaction: each of its statements may take so many milliseconds.
SELECT set_config('statement_timeout', cast(cast(:milliseconds AS bigint) AS text), true);

-- name: overview_running_by_queue
SELECT queue, count(*)
  FROM (SELECT queue FROM onward_jobs WHERE state = 'executing' LIMIT cast(:at_most AS bigint)) AS running
 GROUP BY queue;

-- name: sessions
SELECT owner, lease_for, host, pid, version, expires_at,
       (SELECT count(*) FROM onward_jobs WHERE onward_jobs.owner = session.owner AND state = 'executing'),
       description
  FROM onward_sessions AS session
 ORDER BY owner;

-- name: running
SELECT id FROM onward_jobs
 WHERE state = 'executing' AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job);

-- name: replayable
-- In their order, locked until the commit; the last column is whether it has expired.
SELECT done.id, done.finished_at, done.unique_key, done.flow, done.node, coalesce(done.expires_at <= onward_now(:now), false)
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, finished_at, expires_at, unique_key, flow, node
                       FROM onward_finished
                      WHERE id = wanted.id AND state IN ('discarded', 'cancelled') FOR UPDATE) AS done;

-- name: tombstones_among
SELECT done.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
  JOIN onward_finished AS done ON done.id = wanted.id
 WHERE done.sealed IS NULL;

-- name: revive
-- The delivery number goes on, so that no token of an earlier life fits again; one that no worker wrote begins within bounds.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job, sealed)
SELECT done.id, queue, 'available', rank, onward_now(:now), expires_at, least(greatest(delivery, 0), 1073741824), max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, job,
       sealed
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT * FROM onward_finished WHERE id = wanted.id LIMIT 1) AS done
ON CONFLICT DO NOTHING
RETURNING id, queue;

-- name: forget_finished
-- As they were seen: a job that lived and finished again meanwhile stays.  Of a member, its flow's end counts.
WITH held AS MATERIALIZED (
    SELECT done.place
      FROM unnest(cast(:ids AS text[]), cast(:finished_at AS bigint[])) AS wanted (id, finished_at)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_finished
                          WHERE id = wanted.id AND finished_at = wanted.finished_at FOR UPDATE) AS done
)
DELETE FROM onward_finished WHERE ctid = ANY (ARRAY (SELECT place FROM held)) RETURNING id, flow;

-- name: forget_runs
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_attempts
 WHERE job_id = ANY (cast(:ids AS text[]))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_attempts.job_id);

-- name: note
-- By a lease that is held, whose row no reap can take until this is committed.  A name that is there already stays as it is.
WITH held AS MATERIALIZED (
    SELECT id
      FROM onward_jobs
     WHERE id = :id AND delivery = cast(:token AS bigint) AND owner = :owner AND state = 'executing'
       FOR SHARE
), noted AS (
    INSERT INTO onward_notes (job_id, name, at, value)
    SELECT id, cast(:note AS text), onward_now(:now), cast(:value AS bytea) FROM held
    ON CONFLICT (job_id, name) DO NOTHING
)
SELECT id FROM held;

-- name: store_note
-- For a job that was put back just now, and whose row is locked.  Of the instant at which that was: when the job is due, the sleep
-- that is noted is over.
INSERT INTO onward_notes (job_id, name, at, value)
SELECT id, cast(:note AS text), available_at - cast(:delay AS bigint), cast(:value AS bytea) FROM onward_jobs WHERE id = :id
ON CONFLICT (job_id, name) DO NOTHING;

-- name: notes_of
SELECT name, value, at FROM onward_notes WHERE job_id = :id ORDER BY name;

-- name: lock_live
SELECT state FROM onward_jobs WHERE id = :id FOR UPDATE;

-- name: finished_state
SELECT state FROM onward_finished WHERE id = :id;

-- name: room_for_note
-- Whether the name is there, and what the others take up.
SELECT count(*) FILTER (WHERE name = :note), count(*) FILTER (WHERE name <> :note),
       cast(coalesce(sum(length(value)) FILTER (WHERE name <> :note), 0) AS bigint)
  FROM onward_notes
 WHERE job_id = :id;

-- name: store_signal
-- A value that replaces another keeps its time: a wait that heard the first one has not timed out.
INSERT INTO onward_notes (job_id, name, at, value) VALUES (:id, :note, onward_now(:now), :value)
ON CONFLICT (job_id, name) DO UPDATE SET value = excluded.value;

-- name: signalled
-- Those that wait for a signal that is there.  Their rows are locked: a signal that is not seen yet will find them.
SELECT job.id, job.queue
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, queue, state, awaits FROM onward_jobs WHERE id = wanted.id LIMIT 1) AS job
 WHERE job.state = 'scheduled'
   AND EXISTS (SELECT 1 FROM onward_notes WHERE job_id = wanted.id AND name = '!' || job.awaits);

-- name: forget_notes
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_notes
 WHERE job_id = ANY (cast(:ids AS text[]))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_notes.job_id);

-- name: drop_notes
DELETE FROM onward_notes WHERE job_id = ANY (cast(:ids AS text[]));

-- name: next_finished
-- Of a member, its flow's end counts; while that is not over, it is kept.  The last answer is when it ended itself.
SELECT id, queue, state,
       CASE WHEN flow IS NULL THEN finished_at
            ELSE coalesce((SELECT greatest(finished_at, coalesce(over_at, 9223372036854775807))
                             FROM onward_flows WHERE onward_flows.id = flow LIMIT 1), finished_at) END,
       sealed IS NULL, onward_now(:now), finished_at
  FROM onward_finished
 WHERE id > :after
 ORDER BY id
 LIMIT cast(:limit AS bigint);

-- name: forget_key
-- For operators.  All of it is seen in one snapshot, so a key that is being confirmed is still its job's.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
forgotten AS (
    DELETE FROM onward_holds WHERE kind = 'once' AND key = :key AND done_until > (SELECT now FROM clock) RETURNING job_id
)
SELECT hold.job_id, EXISTS (SELECT 1 FROM forgotten),
       hold.done_until IS NULL AND EXISTS (SELECT 1 FROM onward_jobs
                                            WHERE id = hold.job_id AND delivery = hold.token AND state = 'executing')
  FROM onward_holds AS hold
 WHERE hold.kind = 'once' AND hold.key = :key;

-- name: drop_spent_holds
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now)
DELETE FROM onward_holds
 WHERE ctid = ANY (ARRAY (SELECT ctid
                            FROM onward_holds
                           WHERE done_until <= (SELECT now FROM clock)
                           LIMIT cast(:limit AS bigint)
                             FOR UPDATE SKIP LOCKED));

-- name: pause
INSERT INTO onward_queues AS queue (name, paused_at) VALUES (:queue, onward_now(:now))
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at WHERE queue.paused_at IS NULL
RETURNING name;

-- name: resume
UPDATE onward_queues SET paused_at = NULL
 WHERE name = :queue AND paused_at IS NOT NULL AND reserved_for IS NULL
RETURNING name;

-- name: progress
UPDATE onward_jobs SET progress = :progress
 WHERE id = :id AND delivery = cast(:token AS bigint) AND owner = :owner AND state = 'executing'
RETURNING id;

-- name: oldest_stranded
SELECT min(started_at), onward_now(:now)
  FROM onward_jobs
 WHERE state = 'executing'
   AND NOT EXISTS (SELECT 1 FROM onward_sessions AS session
                    WHERE session.owner = onward_jobs.owner AND session.expires_at > onward_now(:now));

-- name: durability
SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery();

-- name: sees_all
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user;

-- name: pins
-- What keeps vacuum from removing rows, and the log from being cut: transactions, forgotten prepared ones, slots without a
-- reader.  An idle transaction that has written has an id and no snapshot, and counts as well.
SELECT 'transaction', cast(pid AS text), coalesce(nullif(application_name, ''), usename),
       cast(extract(epoch FROM clock_timestamp() - xact_start) AS bigint), cast(0 AS bigint)
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND datname = current_database() AND pid <> pg_backend_pid()
   AND xact_start IS NOT NULL
UNION ALL
SELECT 'prepared', gid, owner, cast(extract(epoch FROM clock_timestamp() - prepared) AS bigint), 0
  FROM pg_prepared_xacts
 WHERE database = current_database()
UNION ALL
SELECT 'slot', slot_name, '', 0, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)
  FROM pg_replication_slots
 WHERE NOT active
 ORDER BY 4 DESC, 5 DESC;

-- Lanes and limits.

-- part: lanes_wanted
-- Queues, and the ranks of their plain lines.
WITH RECURSIVE clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
wanted AS MATERIALIZED (
    SELECT name, number
      FROM unnest(cast(:queues AS text[])) WITH ORDINALITY AS wanted (name, number)
     WHERE (SELECT paused_at FROM onward_queues WHERE onward_queues.name = wanted.name) IS NULL
), lines (queue, rank) AS (
    SELECT wanted.name, highest.rank
      FROM wanted
     CROSS JOIN LATERAL (SELECT rank FROM onward_jobs
                          WHERE queue = wanted.name AND state = 'available' AND coalesce(lane, '') = ''
                          ORDER BY rank LIMIT 1) AS highest
     UNION ALL
    SELECT lines.queue, following.rank
      FROM lines
     CROSS JOIN LATERAL (SELECT rank FROM onward_jobs
                          WHERE queue = lines.queue AND state = 'available' AND coalesce(lane, '') = '' AND rank > lines.rank
                          ORDER BY rank LIMIT 1) AS following
),

-- part: lanes_jobs
-- With each job the limits and the gate that all its lanes have.
-- `is_open` repeats `LimitRoom.is_open`, to step over a job that is full: what may start is for the walk to say.
busy (name) AS (
    (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL AND queue > name
             ORDER BY queue LIMIT 1)
      FROM busy
     WHERE name IS NOT NULL
), jobs AS MATERIALIZED (
    SELECT each.queue, each.rank, each.lane, each.job, each.start, bound.running AS bound, key_bound, gate.shut_until,
           bound.columns AS job_limit, bound.key_columns AS key_limit, gate.columns AS gate,
           coalesce(gate.shut_until, 0) <= (SELECT now FROM clock)
           AND (bound.running IS NULL OR bound.running > counted.number)
           AND (bound.interval IS NULL OR gate.full_at IS NULL
                OR gate.full_at - greatest(gate.charged_at - (SELECT now FROM clock), 0) - (SELECT now FROM clock)
                   <= bound.burst * bound.interval - bound.interval) AS is_open,
           counted.number AS running
      FROM (SELECT queue, rank, lane, split_part(lane, '/', 1) AS job,
                   coalesce((SELECT cursor.lane
                               FROM unnest(cast(:cursor_queues AS text[]), cast(:cursor_groups AS text[]), cast(:cursor_lanes AS text[]))
                                 AS cursor (queue, name, lane)
                              WHERE cursor.queue = stops.queue AND cursor.name = split_part(stops.lane, '/', 1) || '/' LIMIT 1),
                            split_part(stops.lane, '/', 1) || '/' || cast(:drawn AS text)) AS start
              FROM stops
             WHERE (cast(:only_rank AS bigint) IS NULL OR rank = :only_rank)
               AND (cast(:only_group AS text) IS NULL OR split_part(lane, '/', 1) || '/' = :only_group)) AS each
     CROSS JOIN LATERAL (
           SELECT coalesce(job.chosen_running, job.declared_running) AS running,
                  coalesce(job.chosen_burst, job.declared_burst) AS burst,
                  CASE WHEN job.chosen_tokens IS NULL THEN (job.declared_period + job.declared_tokens - 1) / job.declared_tokens
                       ELSE (job.chosen_period + job.chosen_tokens - 1) / job.chosen_tokens END AS interval,
                  job.columns, key.columns AS key_columns, key.running AS key_bound
             FROM (SELECT 1) AS one
             LEFT JOIN LATERAL (SELECT *, json_build_array(kind, name, declared_at, declared_running, declared_tokens,
                                                           declared_period, declared_burst, chosen_running, chosen_tokens,
                                                           chosen_period, chosen_burst) AS columns
                                  FROM onward_limits WHERE kind = 'job' AND name = each.job LIMIT 1) AS job ON true
             LEFT JOIN LATERAL (SELECT coalesce(chosen_running, declared_running) AS running,
                                       json_build_array(kind, name, declared_at, declared_running, declared_tokens,
                                                        declared_period, declared_burst, chosen_running, chosen_tokens,
                                                        chosen_period, chosen_burst) AS columns
                                  FROM onward_limits WHERE kind = 'key' AND name = each.job LIMIT 1) AS key ON true) AS bound
      LEFT JOIN LATERAL (SELECT full_at, charged_at, shut_until,
                                json_build_array(full_at, charged_at, shut_until, shut_for) AS columns
                           FROM onward_gates WHERE queue = '' AND lane = each.job || '/' LIMIT 1) AS gate ON true
     CROSS JOIN LATERAL (
           SELECT CASE WHEN bound.running IS NULL THEN 0
                       ELSE (SELECT count(*)
                               FROM (SELECT 1
                                       FROM busy
                                      CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs
                                                           WHERE queue = busy.name AND state = 'executing' AND lane IS NOT NULL
                                                             AND lane >= each.job || '/' AND lane < each.job || '0'
                                                           ORDER BY lane LIMIT bound.running) AS one
                                      WHERE busy.name IS NOT NULL
                                      LIMIT bound.running) AS counted_one) END AS number) AS counted
),

-- part: lanes_answer
share AS MATERIALIZED (
    -- A little more than each will give, if all have enough: what is missing is read by one statement for all of them.
    SELECT least(cast(:limit AS bigint) * 5 / (4 * greatest(count(*), 1)) + 1, cast(:limit AS bigint)) AS heads
      FROM walked
     WHERE is_lane AND lane IS NOT NULL
)
SELECT (SELECT now FROM clock), (SELECT heads FROM share),
       (SELECT cast(coalesce(json_agg(json_build_array(name, ranks, heads, columns, gate, running)), '[]') AS text)
          FROM (SELECT wanted.name, bound.columns, gate.columns AS gate,
                       (SELECT json_agg(lines.rank) FROM lines WHERE lines.queue = wanted.name) AS ranks,
                       (SELECT json_agg(json_build_array(rank, available_at, id, crashes, cost))
                          FROM (SELECT rank, available_at, id, crashes, cost FROM onward_jobs
                                 WHERE queue = wanted.name AND state = 'available' AND coalesce(lane, '') = ''
                                   AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                                 ORDER BY rank, available_at, id
                                 LIMIT cast(:limit AS bigint)) AS head) AS heads,
                       CASE WHEN bound.running IS NULL THEN 0
                            ELSE (SELECT count(*)
                                    FROM (SELECT 1 FROM onward_jobs
                                           WHERE queue = wanted.name AND state = 'executing' AND lane IS NOT NULL
                                           ORDER BY lane LIMIT bound.running) AS counted_one) END AS running
                  FROM wanted
                  LEFT JOIN LATERAL (SELECT coalesce(chosen_running, declared_running) AS running,
                                            json_build_array(kind, name, declared_at, declared_running, declared_tokens,
                                                             declared_period, declared_burst, chosen_running, chosen_tokens,
                                                             chosen_period, chosen_burst) AS columns
                                       FROM onward_limits AS bound WHERE kind = 'queue' AND bound.name = wanted.name LIMIT 1) AS bound
                         ON true
                  LEFT JOIN LATERAL (SELECT json_build_array(full_at, charged_at, shut_until, shut_for) AS columns
                                       FROM onward_gates WHERE queue = wanted.name AND lane = '' LIMIT 1) AS gate ON true
               ) AS queue),
       (SELECT cast(coalesce(json_agg(json_build_array(queue, rank, lane, job_limit, key_limit, gate, running)), '[]') AS text) FROM jobs),
       (SELECT cast(coalesce(json_agg(json_build_array(walked.queue, walked.rank, walked.job || '/', walked.start, walked.is_lane, walked.lane, walked.has_wrapped,
                                                       gate.columns, counted.number, head.columns)), '[]') AS text)
          FROM walked
          LEFT JOIN LATERAL (SELECT json_build_array(full_at, charged_at, shut_until, shut_for) AS columns
                               FROM onward_gates WHERE is_lane AND onward_gates.queue = '' AND onward_gates.lane = walked.lane LIMIT 1) AS gate ON true
         CROSS JOIN LATERAL (
               SELECT CASE WHEN walked.key_bound IS NULL OR NOT walked.is_lane THEN 0
                           ELSE (SELECT count(*)
                                   FROM (SELECT 1
                                           FROM busy
                                          CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs
                                                               WHERE onward_jobs.queue = busy.name AND state = 'executing'
                                                                 AND onward_jobs.lane IS NOT NULL
                                                                 AND onward_jobs.lane >= walked.lane
                                                                 AND onward_jobs.lane <= walked.lane
                                                               ORDER BY lane LIMIT walked.key_bound) AS one
                                          WHERE busy.name IS NOT NULL
                                          LIMIT walked.key_bound) AS counted_one) END AS number) AS counted
         CROSS JOIN LATERAL (
               SELECT json_agg(json_build_array(available_at, id, crashes, cost)) AS columns
                 FROM (SELECT available_at, id, crashes, cost FROM onward_jobs
                        WHERE is_lane AND (walked.key_bound IS NULL OR counted.number < walked.key_bound)
                          AND onward_jobs.queue = walked.queue AND onward_jobs.rank = walked.rank AND state = 'available'
                          AND onward_jobs.lane <> '' AND onward_jobs.lane = walked.lane
                          AND (available_at, id) >= (walked.due, walked.head)
                          AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                        ORDER BY available_at, id
                        LIMIT (SELECT heads FROM share)) AS counted_one) AS head)

-- name: walk_lanes
-- All that a claim looks at, in one snapshot: for each queue its limit and the ranks and first jobs of its plain line; from
-- group to group the first lane of each (`stops`), with the limits of its job; and in each group that may be open the lanes from
-- behind the cursor around to it (`around`), a lane of each group at a time, with their first jobs.  No row is locked.
-- A lane is looked for once: what lies before its first job may be dead, and kept by an old snapshot.
-- include: lanes_wanted
stops (queue, rank, lane) AS (
    SELECT wanted.name, first.rank, first.lane
      FROM wanted
     CROSS JOIN LATERAL (SELECT rank, lane FROM onward_jobs
                          WHERE queue = wanted.name AND state = 'available' AND lane <> ''
                          ORDER BY rank, lane LIMIT 1) AS first
     UNION ALL
    SELECT stops.queue, following.rank, following.lane
      FROM stops
     CROSS JOIN LATERAL (SELECT rank, lane FROM onward_jobs
                          WHERE queue = stops.queue AND state = 'available' AND lane <> ''
                            AND (rank, lane) >= (stops.rank, split_part(stops.lane, '/', 1) || '0')
                          ORDER BY rank, lane LIMIT 1) AS following
),
-- include: lanes_jobs
around (queue, rank, job, start, key_bound, lane, due, head, is_lane, has_wrapped) AS (
    SELECT queue, rank, job, start, key_bound, start, cast(0 AS bigint), cast('' AS text) COLLATE "C", false, false
      FROM jobs
     WHERE is_open OR cast(:only_group AS text) IS NOT NULL
     UNION ALL
    SELECT around.queue, around.rank, around.job, around.start, around.key_bound, following.lane, following.available_at,
           following.id, true,
           coalesce(following.has_wrapped, around.has_wrapped)
      FROM around
      LEFT JOIN LATERAL (
           (SELECT lane, available_at, id, around.has_wrapped AS has_wrapped FROM onward_jobs
             WHERE queue = around.queue AND rank = around.rank AND state = 'available' AND lane <> '' AND lane > around.lane
               AND lane < CASE WHEN around.has_wrapped THEN around.start || chr(1) ELSE around.job || '0' END
             ORDER BY lane, available_at, id LIMIT 1)
            UNION ALL
           (SELECT lane, available_at, id, true FROM onward_jobs
             WHERE NOT around.has_wrapped AND queue = around.queue AND rank = around.rank AND state = 'available'
               AND lane <> '' AND lane > around.job AND lane <= around.start
             ORDER BY lane, available_at, id LIMIT 1)
            LIMIT 1) AS following ON true
     WHERE around.lane IS NOT NULL
), walked AS MATERIALIZED (
    SELECT * FROM around LIMIT cast(:lanes AS bigint)
),
-- include: lanes_answer
;

-- name: walk_known_lanes
-- `walk_lanes` where an old snapshot keeps dead entries, and this process knows up to which place those of many lanes are dead.  The
-- ranges are in the order of the index, and cover all of it but what is before those places: each begins in a lane that is known, and ends
-- where the next one begins.  So a lane that is not known, and what was added to one that is, are found as ever.  `seen` has the first
-- lane of each range, then those behind it.
-- All lanes are looked at, in no order: the caller knows where each circle begins.  The last answer is whether there are more lanes than
-- so many: then it is not worth it, and the answer is not whole.
-- include: lanes_wanted
seen (queue, rank, lane, due, head, high_rank, high_lane) AS (
    SELECT part.queue, first.rank, first.lane, first.available_at, first.id, part.high_rank, part.high_lane
      FROM unnest(cast(:range_queues AS text[]), cast(:low_ranks AS bigint[]), cast(:low_lanes AS text[]),
                  cast(:low_times AS bigint[]), cast(:low_ids AS text[]), cast(:high_ranks AS bigint[]),
                  cast(:high_lanes AS text[]))
        AS part (queue, low_rank, low_lane, low_time, low_id, high_rank, high_lane)
     CROSS JOIN LATERAL (SELECT rank, lane, available_at, id FROM onward_jobs
                          WHERE queue = part.queue AND state = 'available' AND lane <> ''
                            AND (rank, lane, available_at, id) >= (part.low_rank, part.low_lane, part.low_time, part.low_id)
                            AND (rank, lane) < (part.high_rank, part.high_lane)
                          ORDER BY rank, lane, available_at, id LIMIT 1) AS first
     WHERE part.queue = ANY (ARRAY (SELECT name FROM wanted))
     UNION ALL
    SELECT seen.queue, following.rank, following.lane, following.available_at, following.id, seen.high_rank, seen.high_lane
      FROM seen
     CROSS JOIN LATERAL (SELECT rank, lane, available_at, id FROM onward_jobs
                          WHERE queue = seen.queue AND state = 'available' AND lane <> ''
                            AND (rank, lane) > (seen.rank, seen.lane) AND (rank, lane) < (seen.high_rank, seen.high_lane)
                          ORDER BY rank, lane, available_at, id LIMIT 1) AS following
), lanes AS MATERIALIZED (
    SELECT queue, rank, lane, due, head, split_part(lane, '/', 1) AS job FROM seen LIMIT 2 * cast(:lanes AS bigint)
), stops (queue, rank, lane) AS (
    SELECT queue, rank, min(lane) FROM lanes GROUP BY queue, rank, job
),
-- include: lanes_jobs
walked AS MATERIALIZED (
    SELECT lanes.queue, lanes.rank, lanes.job, own.start, own.key_bound, lanes.lane, lanes.due, lanes.head, true AS is_lane,
           lanes.lane <= own.start AS has_wrapped
      FROM lanes
     CROSS JOIN LATERAL (SELECT start, key_bound FROM jobs
                          WHERE jobs.queue = lanes.queue AND jobs.rank = lanes.rank AND jobs.job = lanes.job AND is_open
                          LIMIT 1) AS own
),
-- include: lanes_answer
     , (SELECT count(*) >= 2 * cast(:lanes AS bigint) FROM lanes);

-- name: line_heads
-- The first jobs of lanes, or of the plain line, with the number of each line; and whether they have no key to take.
SELECT line.number, head.*
  FROM unnest(cast(:queues AS text[]), cast(:ranks AS bigint[]), cast(:lanes AS text[]), cast(:counts AS bigint[])) WITH ORDINALITY
    AS line (queue, rank, lane, at_most, number)
 CROSS JOIN LATERAL (
       (SELECT available_at, id, crashes, cost, idempotency_key IS NULL AND single_instance IS NULL FROM onward_jobs
         WHERE line.lane <> '' AND queue = line.queue AND rank = line.rank AND state = 'available'
           AND lane <> '' AND lane = line.lane AND (expires_at IS NULL OR expires_at > onward_now(:now))
         ORDER BY available_at, id
         LIMIT line.at_most)
        UNION ALL
       (SELECT available_at, id, crashes, cost, idempotency_key IS NULL AND single_instance IS NULL FROM onward_jobs
         WHERE line.lane = '' AND queue = line.queue AND rank = line.rank AND state = 'available'
           AND coalesce(lane, '') = '' AND (expires_at IS NULL OR expires_at > onward_now(:now))
         ORDER BY available_at, id
         LIMIT line.at_most)) AS head;

-- name: line_heads_from
-- `line_heads` of lanes, from a place on in each: what is before it may be dead, and kept by an old snapshot.
SELECT line.number, head.*
  FROM unnest(cast(:queues AS text[]), cast(:ranks AS bigint[]), cast(:lanes AS text[]), cast(:counts AS bigint[]),
              cast(:times AS bigint[]), cast(:heads AS text[])) WITH ORDINALITY
    AS line (queue, rank, lane, at_most, due, head, number)
 CROSS JOIN LATERAL (
       SELECT available_at, id, crashes, cost, idempotency_key IS NULL AND single_instance IS NULL FROM onward_jobs
        WHERE queue = line.queue AND rank = line.rank AND state = 'available' AND lane <> '' AND lane = line.lane
          AND (available_at, id) >= (line.due, line.head) AND (expires_at IS NULL OR expires_at > onward_now(:now))
        ORDER BY available_at, id
        LIMIT line.at_most) AS head;

-- name: lock_scopes
-- Those that no other turn has, until the commit.  It tries several times, a millisecond apart: a turn of its own would cost more.
-- The number of tries is the end of it, whatever the other turn waits for, so locks need no order.
SELECT number
  FROM unnest(cast(:numbers AS bigint[])) AS wanted (number)
 WHERE EXISTS (SELECT 1
                 FROM generate_series(1, cast(:tries AS bigint)) AS try (number)
                WHERE CASE WHEN pg_try_advisory_xact_lock(wanted.number) THEN true
                           WHEN try.number < :tries THEN pg_sleep(0.001) IS NULL END);

-- name: keep_limits
-- Limits stay as they are until the commit, if no other transaction changes one now, or waits to do so: nothing waits here.
SELECT set_config('onward.limits', CASE WHEN pg_try_advisory_xact_lock_shared(hashtextextended('onward_limits', 0)) THEN 'kept' ELSE '' END, true);

-- name: take_line
-- Lease the first jobs of a lane, no more than this transaction has ended leases of its job; if it is the only line of its queue, and has
-- the limit that an earlier walk has seen: then there is nothing to choose, and nothing to lock.  The last row has the room that its
-- job seems to have besides; or -1, a walk must look: for another line, another limit, a suspect or a job with a key to take.
WITH RECURSIVE clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
busy (name) AS (
    (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL AND queue > name
             ORDER BY queue LIMIT 1)
      FROM busy
     WHERE name IS NOT NULL
), found AS MATERIALIZED (
    SELECT current_setting('onward.limits') = 'kept'
           AND (SELECT coalesce(chosen_running, declared_running) = cast(:bound AS bigint)
                       AND coalesce(chosen_tokens, declared_tokens) IS NULL
                  FROM onward_limits WHERE kind = 'job' AND name = split_part(:lane, '/', 1)) IS TRUE
           AND NOT EXISTS (SELECT 1 FROM onward_limits WHERE kind = 'queue' AND name = :queue)
           AND NOT EXISTS (SELECT 1 FROM onward_gates WHERE queue = '' AND lane = :lane)
           AND (SELECT true FROM onward_jobs WHERE queue = :queue AND state = 'available' AND coalesce(lane, '') = ''
                 ORDER BY rank LIMIT 1) IS NULL
           AND (SELECT (rank, lane) < (cast(:rank AS bigint), :lane) FROM onward_jobs
                 WHERE queue = :queue AND state = 'available' AND lane <> '' ORDER BY rank, lane LIMIT 1) IS NOT TRUE
           AND (SELECT true FROM onward_jobs
                 WHERE queue = :queue AND state = 'available' AND lane <> '' AND (rank, lane) > (:rank, :lane)
                 ORDER BY rank, lane LIMIT 1) IS NULL AS is_single
), room AS MATERIALIZED (
    SELECT CASE WHEN NOT is_single OR (SELECT paused_at FROM onward_queues WHERE name = :queue) IS NOT NULL THEN 0
                ELSE greatest(0, :bound - (SELECT count(*)
                                             FROM busy
                                            CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs
                                                                 WHERE queue = busy.name AND state = 'executing' AND lane IS NOT NULL
                                                                   AND lane >= :lane AND lane < split_part(:lane, '/', 1) || '0'
                                                                 ORDER BY lane) AS one
                                            WHERE busy.name IS NOT NULL)) END AS free
      FROM found
), candidates AS MATERIALIZED (
    SELECT job.*, row_number() OVER () AS number
      FROM (SELECT ctid AS place, crashes > 0 OR idempotency_key IS NOT NULL OR single_instance IS NOT NULL AS is_special
              FROM onward_jobs
             WHERE queue = :queue AND rank = :rank AND state = 'available' AND lane <> '' AND lane = :lane
               AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
               AND NOT id = ANY (cast(:released AS text[]))
             ORDER BY available_at, id
             LIMIT (SELECT least(free, cast(:limit AS bigint)) FROM room)
               FOR UPDATE SKIP LOCKED) AS job
), chosen AS MATERIALIZED (
    SELECT place
      FROM candidates
     WHERE number < coalesce((SELECT min(number) FROM candidates WHERE is_special), :limit + 1)
), taken AS (
    UPDATE onward_jobs
       SET state = 'executing', delivery = delivery + 1, owner = :owner, started_at = (SELECT now FROM clock)
     WHERE ctid = ANY (ARRAY (SELECT place FROM chosen))
    RETURNING rank, available_at, id, queue, sealed, delivery, started_at, attempts,
              cast(json_build_array(crashes, interruptions, waits, parked_since, spent, idempotency_key, idempotency_ttl,
                                    single_instance, flow IS NOT NULL, lane) AS text) AS special
)
SELECT * FROM taken
 UNION ALL
SELECT CASE WHEN is_single AND (SELECT bool_or(is_special) FROM candidates) IS NOT TRUE
            THEN (SELECT free FROM room) - (SELECT count(*) FROM chosen) ELSE -1 END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM found;

-- name: running_in
-- In the order of the lanes, so that the planner has one index for it, whatever it believes of the table.
-- The leases of a queue (its name), or of lanes from one up to another over all queues; those that began since an instant.  Where it
-- follows `lock_scopes` it must be a statement of its own: only then its snapshot is younger than the locks, and has all that their
-- last holders have committed.
WITH RECURSIVE busy (name) AS (
    (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL ORDER BY queue LIMIT 1)
     UNION ALL
    SELECT (SELECT queue FROM onward_jobs WHERE state = 'executing' AND lane IS NOT NULL AND queue > name
             ORDER BY queue LIMIT 1)
      FROM busy
     WHERE name IS NOT NULL
)
SELECT CASE WHEN scope.queue <> ''
            THEN (SELECT count(*)
                    FROM (SELECT 1 FROM onward_jobs
                           WHERE queue = scope.queue AND state = 'executing' AND lane IS NOT NULL AND started_at >= scope.since
                           ORDER BY lane) AS one)
            ELSE (SELECT count(*)
                    FROM busy
                   CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs
                                        WHERE queue = busy.name AND state = 'executing' AND lane IS NOT NULL
                                          AND lane >= scope.low AND lane < scope.high AND started_at >= scope.since
                                        ORDER BY lane) AS one
                   WHERE busy.name IS NOT NULL) END
  FROM unnest(cast(:queues AS text[]), cast(:lows AS text[]), cast(:highs AS text[]), cast(:since AS bigint[]))
    AS scope (queue, low, high, since);

-- name: gates_of
SELECT gate.*
  FROM unnest(cast(:queues AS text[]), cast(:lanes AS text[])) AS scope (queue, lane)
 CROSS JOIN LATERAL (SELECT queue, lane, full_at, charged_at, shut_until, shut_for
                       FROM onward_gates WHERE queue = scope.queue AND lane = scope.lane LIMIT 1) AS gate;

-- name: try_gates
-- The gates of scopes that this turn has locked, as they are now.  One that a settlement is changing is not waited for: that turn may
-- be about to charge another one, which this turn has.  The last answer is the time, read when the locks are held: tokens are counted
-- by it, and turns that have one lock after another see it rise.
SELECT scope.number, gate.*, EXISTS (SELECT 1 FROM onward_gates WHERE queue = scope.queue AND lane = scope.lane),
       onward_now(:now)
  FROM unnest(cast(:queues AS text[]), cast(:lanes AS text[])) WITH ORDINALITY AS scope (queue, lane, number)
  LEFT JOIN LATERAL (SELECT queue, lane, full_at, charged_at, shut_until, shut_for
                       FROM onward_gates WHERE queue = scope.queue AND lane = scope.lane
                        FOR UPDATE SKIP LOCKED) AS gate ON true;

-- name: take
-- Lease what a walk has chosen.  Without a limit: so many of a lane, or of the plain line, from the first one that was seen,
-- whichever no other turn has; and no suspect, which is claimed alone.  With a limit, whose lock keeps other turns away, or alone: by their ids.  A plain
-- job of a queue with a limit is counted from now on.  They start at the instant for which their tokens were counted.
WITH clock AS MATERIALIZED (SELECT cast(:at AS bigint) AS now),
laned AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:lane_queues AS text[]), cast(:lane_ranks AS bigint[]), cast(:lanes AS text[]),
                  cast(:lane_times AS bigint[]), cast(:lane_heads AS text[]), cast(:lane_counts AS bigint[]))
        AS line (queue, rank, lane, due, head, at_most)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE queue = line.queue AND rank = line.rank AND state = 'available' AND lane <> ''
                            AND lane = line.lane AND (available_at, id) >= (line.due, line.head) AND crashes = 0
                            AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                            AND NOT id = ANY (cast(:released AS text[]))
                          ORDER BY available_at, id
                          LIMIT line.at_most
                            FOR UPDATE SKIP LOCKED) AS job
), plain AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:plain_queues AS text[]), cast(:plain_ranks AS bigint[]), cast(:plain_times AS bigint[]),
                  cast(:plain_heads AS text[]), cast(:plain_counts AS bigint[]))
        AS line (queue, rank, due, head, at_most)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE queue = line.queue AND rank = line.rank AND state = 'available' AND coalesce(lane, '') = ''
                            AND (available_at, id) >= (line.due, line.head) AND crashes = 0 AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                            AND NOT id = ANY (cast(:released AS text[]))
                          ORDER BY available_at, id
                          LIMIT line.at_most
                            FOR UPDATE SKIP LOCKED) AS job
), named AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:ids AS text[])) AS wanted (id)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs
                          WHERE id = wanted.id AND state = 'available'
                            AND (expires_at IS NULL OR expires_at > (SELECT now FROM clock))
                            FOR UPDATE SKIP LOCKED) AS job
)
UPDATE onward_jobs
   SET state = 'executing', delivery = delivery + 1, owner = :owner, started_at = (SELECT now FROM clock),
       lane = CASE WHEN queue = ANY (cast(:counted AS text[])) THEN coalesce(lane, '') ELSE lane END
 WHERE ctid = ANY (ARRAY (SELECT place FROM laned UNION ALL SELECT place FROM plain UNION ALL SELECT place FROM named))
RETURNING rank, available_at, id, queue, sealed, delivery, started_at, attempts,
          CASE WHEN crashes > 0 OR interruptions > 0 OR waits > 0 OR parked_since IS NOT NULL OR spent IS NOT NULL
                    OR idempotency_key IS NOT NULL OR single_instance IS NOT NULL OR lane <> '' OR flow IS NOT NULL
               THEN cast(json_build_array(crashes, interruptions, waits, parked_since, spent, idempotency_key, idempotency_ttl,
                                          single_instance, flow IS NOT NULL, nullif(lane, '')) AS text) END;

-- name: book
-- Schedule jobs of a lane without tokens for those to come.  What another turn has is left to it.
WITH held AS MATERIALIZED (
    SELECT job.place, wanted.due
      FROM unnest(cast(:ids AS text[]), cast(:due AS bigint[])) AS wanted (id, due)
     CROSS JOIN LATERAL (SELECT ctid AS place FROM onward_jobs
                          WHERE id = wanted.id AND state = 'available' FOR UPDATE SKIP LOCKED) AS job
)
UPDATE onward_jobs SET state = 'scheduled', booked = true, available_at = held.due
  FROM held
 WHERE onward_jobs.ctid = held.place;

-- name: limits
SELECT kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst, chosen_running,
       chosen_tokens, chosen_period, chosen_burst
  FROM onward_limits;

-- name: lock_limits
-- Waits for the claims by lanes that are under way, see `keep_limits`, and keeps others from taking jobs until the commit.
SELECT pg_advisory_xact_lock(hashtextextended('onward_limits', 0));

-- name: declare_limit
INSERT INTO onward_limits AS there (kind, name, declared_at, declared_running, declared_tokens, declared_period, declared_burst)
VALUES (:kind, :named, :declared_at, :declared_running, :declared_tokens, :declared_period, :declared_burst)
ON CONFLICT (kind, name) DO UPDATE
   SET declared_at = excluded.declared_at, declared_running = excluded.declared_running,
       declared_tokens = excluded.declared_tokens, declared_period = excluded.declared_period,
       declared_burst = excluded.declared_burst
 WHERE there.declared_at <= excluded.declared_at;

-- name: choose_limit
INSERT INTO onward_limits (kind, name, chosen_running, chosen_tokens, chosen_period, chosen_burst)
VALUES (:kind, :named, :chosen_running, :chosen_tokens, :chosen_period, :chosen_burst)
ON CONFLICT (kind, name) DO UPDATE
   SET chosen_running = excluded.chosen_running, chosen_tokens = excluded.chosen_tokens,
       chosen_period = excluded.chosen_period, chosen_burst = excluded.chosen_burst;

-- name: drop_limit
DELETE FROM onward_limits
 WHERE kind = :kind AND name = :named AND declared_running IS NULL AND declared_tokens IS NULL AND chosen_running IS NULL
   AND chosen_tokens IS NULL;

-- name: count_running
-- Every lease of the queue, one by one along the leases that there are: these are few, and it is asked when a limit is made.
UPDATE onward_jobs SET lane = ''
 WHERE id = ANY (ARRAY (SELECT id FROM onward_jobs
                         WHERE state = 'executing' AND queue = :queue AND lane IS NULL ORDER BY owner, id FOR UPDATE))
   AND lane IS NULL;

-- name: lock_gate
INSERT INTO onward_gates AS gate (queue, lane) VALUES (:queue, :lane)
ON CONFLICT (queue, lane) DO UPDATE SET shut_for = gate.shut_for
RETURNING queue, lane, full_at, charged_at, shut_until, shut_for;

-- name: put_gate
INSERT INTO onward_gates (queue, lane, full_at, charged_at, shut_until, shut_for)
VALUES (:queue, :lane, :full_at, :charged_at, :shut_until, :shut_for)
ON CONFLICT (queue, lane) DO UPDATE
   SET full_at = excluded.full_at, charged_at = excluded.charged_at, shut_until = excluded.shut_until,
       shut_for = excluded.shut_for;

-- name: charge_gate
INSERT INTO onward_gates (queue, lane, full_at, charged_at) VALUES (:queue, :lane, :full_at, :charged_at)
ON CONFLICT (queue, lane) DO UPDATE SET full_at = excluded.full_at, charged_at = excluded.charged_at;

-- name: gates
SELECT queue, lane, full_at, charged_at, shut_until, shut_for
  FROM onward_gates
 WHERE (queue, lane) > (:after_queue, :after_lane)
 ORDER BY queue, lane
 LIMIT cast(:limit AS bigint);

-- name: drop_gate
DELETE FROM onward_gates
 WHERE queue = :queue AND lane = :lane AND full_at = :full_at AND charged_at = :charged_at AND shut_until = :shut_until
   AND shut_for = :shut_for;

-- name: clock
SELECT onward_now(:now);

-- Schedules.

-- name: schedules
-- The clock comes with every row, and alone if there is none.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now)
SELECT clock.now, name, version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed, sealed
  FROM clock
  LEFT JOIN onward_schedules ON true;

-- name: put_schedule
INSERT INTO onward_schedules (name, version, origin, fingerprint, declared_at, booked_until, paused_at, seen_at, missed, sealed)
VALUES (:schedule, 1, :origin, :fingerprint, :declared_at, :booked_until, :paused_at, onward_now(:now), :missed, :sealed)
ON CONFLICT DO NOTHING
RETURNING version;

-- name: change_schedule
-- A version that no process wrote is -1.
UPDATE onward_schedules
   SET version = :following, origin = :origin, fingerprint = :fingerprint, declared_at = :declared_at,
       booked_until = :booked_until, paused_at = :paused_at, seen_at = onward_now(:now), missed = :missed, sealed = :sealed
 WHERE name = :schedule AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version
RETURNING version;

-- name: drop_schedule
DELETE FROM onward_schedules
 WHERE name = :schedule AND CASE WHEN version BETWEEN 1 AND :last THEN version ELSE -1 END = :version
RETURNING version;

-- name: schedules_seen
WITH held AS MATERIALIZED (
    SELECT schedule.name
      FROM unnest(cast(:names AS text[])) AS wanted (name)
     CROSS JOIN LATERAL (SELECT name FROM onward_schedules WHERE name = wanted.name FOR UPDATE) AS schedule
)
UPDATE onward_schedules SET seen_at = onward_now(:now) WHERE name = ANY (ARRAY (SELECT name FROM held));

-- name: unique_keys_of
SELECT job.key_held
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT key_held FROM onward_jobs WHERE id = wanted.id LIMIT 1) AS job;

-- name: try_unbegun
-- Which of these jobs were never claimed, and whether this transaction has them now.  What another one has is not waited for.
SELECT wanted.id, held.id IS NOT NULL
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs
                      WHERE id = wanted.id AND state IN ('scheduled', 'available', 'retryable') AND delivery = 0
                        AND owner IS NULL
                      LIMIT 1) AS unbegun
  LEFT JOIN LATERAL (SELECT id FROM onward_jobs
                      WHERE id = wanted.id AND state IN ('scheduled', 'available', 'retryable') AND delivery = 0
                        AND owner IS NULL
                        FOR UPDATE SKIP LOCKED) AS held ON true;

-- name: take_back
DELETE FROM onward_jobs
 WHERE id = ANY (cast(:ids AS text[]))
   AND state IN ('scheduled', 'available', 'retryable') AND delivery = 0 AND owner IS NULL
RETURNING id;

-- Flows.  Every write that ends a member looks at its flow, last in its transaction: `lock_flows`, and then, in a new statement,
-- whose snapshot is younger than the lock, `flows_to_look_at`.  Under the lock of a flow rows of jobs are written only with SKIP
-- LOCKED: a turn that has one may wait for this lock.
-- A subquery with LIMIT 1 instead of EXISTS, which PostgreSQL before 18 may answer for all rows at once, by reading a whole index.
-- States one by one: before 17 a list of them may be compared after the walk.
-- (flow, node) is compared as a row where the last id is wanted: else the order of the ids alone would do, along the primary key.

-- name: store_flow
INSERT INTO onward_flows (id, name, created_at, stop_on_failure, closed)
VALUES (:flow, :named, onward_now(:now), cast(:stop_on_failure AS boolean), cast(:closed AS boolean))
ON CONFLICT DO NOTHING
RETURNING id;

-- name: store_nodes
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state)
SELECT :flow, new.row ->> 0, number, cast(new.row -> 1 AS text), new.row ->> 2, new.row ->> 3
  FROM jsonb_array_elements(cast(:nodes AS jsonb)) WITH ORDINALITY AS new (row, number);

-- name: node_states
SELECT node.flow, node.name, node.state, flow.stopped OR flow.cancelled IS NOT NULL
  FROM jsonb_array_elements(cast(:places AS jsonb)) AS wanted (place)
 CROSS JOIN LATERAL (SELECT stopped, cancelled FROM onward_flows WHERE id = wanted.place ->> 0 LIMIT 1) AS flow
 CROSS JOIN LATERAL (SELECT flow, name, state
                       FROM onward_nodes WHERE flow = wanted.place ->> 0 AND name = wanted.place ->> 1 LIMIT 1) AS node;

-- name: enqueue_members
-- `enqueue` where members of flows are among them.  One whose node waits is due at no instant.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
given AS (
    SELECT *
      FROM unnest(cast(:ids AS text[]), cast(:queues AS text[]), cast(:jobs AS text[]), cast(:sealed AS bytea[]),
                  cast(:enqueued_at AS bigint[]), cast(:max_crashes AS bigint[]), cast(:priorities AS bigint[]),
                  cast(:delays AS bigint[]), cast(:not_before AS bigint[]), cast(:expires_at AS bigint[]),
                  cast(:unique_keys AS text[]), cast(:idempotency_keys AS text[]), cast(:idempotency_ttls AS bigint[]),
                  cast(:single_instances AS text[]), cast(:lanes AS text[]), cast(:costs AS integer[]), cast(:flows AS text[]),
                  cast(:nodes AS text[]), cast(:never_due AS bigint[]))
        AS given (id, queue, job, sealed, enqueued_at, max_crashes, priority, delay, not_before, expires_at, unique_key,
                  idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, never)
), stored AS (
    INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, max_crashes, enqueued_at, unique_key, key_held,
                             idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, awaits, job, sealed)
    SELECT id, queue, CASE WHEN never IS NULL AND due.at <= now THEN 'available' ELSE 'scheduled' END, -coalesce(priority, 0),
           coalesce(never, due.at), expires_at, max_crashes, enqueued_at, unique_key, unique_key, idempotency_key,
           coalesce(idempotency_ttl, 0), single_instance, lane, cost, flow, node, CASE WHEN never IS NOT NULL THEN '' END, job,
           sealed
      FROM clock
     CROSS JOIN given
     CROSS JOIN LATERAL (SELECT greatest(now + coalesce(delay, 0), not_before)) AS due (at)
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT CASE WHEN count(*) < cardinality(cast(:ids AS text[])) THEN coalesce(array_agg(id), cast(ARRAY[] AS text[])) END,
       EXISTS (SELECT 1 FROM onward_waiters WHERE until > (SELECT onward_now(NULL)))
  FROM stored;

-- name: count_added
-- [[flow, node, number], …].
INSERT INTO onward_additions (flow, node, number, added_at)
SELECT new.row ->> 0, new.row ->> 1, cast(new.row ->> 2 AS bigint), onward_now(:now)
  FROM jsonb_array_elements(cast(:added AS jsonb)) AS new (row);

-- name: lock_flows
-- In the order given.  A lock, not a write: a row written by every turn is a chain of dead versions.
SELECT flow.id
  FROM unnest(cast(:flows AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_flows WHERE id = wanted.id FOR UPDATE) AS flow;

-- name: flows_to_look_at
-- Of the nodes in which a job has ended, [[flow, node, job], …]: a live job, and whether something changes: that was the last one,
-- or the first that failed, or a step was left.  The job that this process saw last time is looked for first, and then the
-- newest: under a snapshot that stays open, a walk goes through all that have ended since.
SELECT wanted.place ->> 0, wanted.place ->> 1, live.id,
       flow.unswept OR live.id IS NULL
       OR NOT node.failed
          AND (SELECT true
                 FROM (VALUES ('discarded'), ('cancelled')) AS failed (state)
                CROSS JOIN LATERAL (SELECT 1 FROM onward_finished AS done
                                     WHERE onward_place(done.flow, done.node, done.state)
                                           = onward_place(wanted.place ->> 0, wanted.place ->> 1, failed.state)
                                       AND done.flow = wanted.place ->> 0 AND done.node = wanted.place ->> 1
                                       AND done.state = failed.state LIMIT 1) AS one
                LIMIT 1) IS TRUE
  FROM jsonb_array_elements(cast(:places AS jsonb)) AS wanted (place)
 CROSS JOIN LATERAL (SELECT onward_place(wanted.place ->> 0, wanted.place ->> 1)) AS place (key)
 CROSS JOIN LATERAL (SELECT unswept FROM onward_flows WHERE id = wanted.place ->> 0 LIMIT 1) AS flow
 CROSS JOIN LATERAL (SELECT failed
                       FROM onward_nodes WHERE flow = wanted.place ->> 0 AND name = wanted.place ->> 1 LIMIT 1) AS node
 CROSS JOIN LATERAL (SELECT coalesce((SELECT id FROM onward_jobs
                                       WHERE id = wanted.place ->> 2 AND flow IS NOT DISTINCT FROM wanted.place ->> 0
                                         AND node IS NOT DISTINCT FROM wanted.place ->> 1 LIMIT 1),
                                     (SELECT id FROM onward_jobs
                                       WHERE onward_place(flow, node) BETWEEN place.key AND place.key
                                         AND flow = wanted.place ->> 0 AND node = wanted.place ->> 1
                                       ORDER BY onward_place(flow, node) DESC, id DESC LIMIT 1))) AS live (id);

-- name: leave_to_sweep
-- For a caller's transaction that reads from one snapshot, which may be older than the lock: the next look at these flows, or the
-- next sweep, does what it would have to do.  At READ COMMITTED it writes and answers nothing.
WITH held AS MATERIALIZED (
    SELECT flow.id, wanted.place
      FROM jsonb_array_elements(cast(:places AS jsonb)) AS wanted (place)
     CROSS JOIN LATERAL (SELECT id FROM onward_flows WHERE id = wanted.place ->> 0 FOR UPDATE) AS flow
     WHERE current_setting('transaction_isolation') <> 'read committed'
), nodes AS (
    UPDATE onward_nodes SET swept = coalesce(swept, '')
      FROM held
     WHERE onward_nodes.flow = held.id AND onward_nodes.name = held.place ->> 1
)
UPDATE onward_flows SET unswept = true WHERE id = ANY (ARRAY (SELECT id FROM held)) RETURNING id;

-- name: place_of
SELECT flow, node FROM onward_finished WHERE id = :id AND flow IS NOT NULL;

-- name: flows_among
SELECT flow.*
  FROM unnest(cast(:flows AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
                       FROM onward_flows WHERE id = wanted.id LIMIT 1) AS flow;

-- name: nodes_of
SELECT node.flow, node.place, node.name, node.comes_after, node.opens_when, node.state, node.failed,
       (SELECT cast(coalesce(sum(number), 0) AS bigint)
          FROM onward_additions WHERE onward_additions.flow = node.flow AND onward_additions.node = node.name)
  FROM unnest(cast(:flows AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT * FROM onward_nodes WHERE flow = wanted.id ORDER BY flow, name LIMIT 100000) AS node;

-- name: nodes_now
-- To look at them: whether a job has failed, of those that are not over; and whether a job is live, of those that can have one.
-- (One that has run can if a job was added late, and a step is left.)
SELECT node.flow, node.place, node.name, node.comes_after, node.opens_when, node.state,
       node.failed OR node.state IN ('waiting', 'open') AND node.replays = 0
                      AND (SELECT true
                             FROM (VALUES ('discarded'), ('cancelled')) AS failed (state)
                            CROSS JOIN LATERAL (SELECT 1 FROM onward_finished AS done
                                                 WHERE onward_place(done.flow, done.node, done.state)
                                                       = onward_place(node.flow, node.name, failed.state)
                                                   AND done.flow = node.flow AND done.node = node.name
                                                   AND done.state = failed.state LIMIT 1) AS one
                            LIMIT 1) IS TRUE,
       node.swept,
       (node.state NOT IN ('completed', 'failed') OR node.swept IS NOT NULL)
       AND (SELECT true FROM onward_jobs AS job
             WHERE onward_place(job.flow, job.node) BETWEEN node.key AND node.key
               AND job.flow = node.flow AND job.node = node.name
             ORDER BY onward_place(job.flow, job.node) DESC, job.id DESC LIMIT 1) IS TRUE,
       node.replays
  FROM unnest(cast(:flows AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT *, onward_place(flow, name) AS key
                       FROM onward_nodes WHERE flow = wanted.id ORDER BY flow, name LIMIT 100000) AS node;

-- name: live_nodes
-- Of these nodes, those of which a job is live.
SELECT wanted.name
  FROM unnest(cast(:nodes AS text[])) AS wanted (name)
 CROSS JOIN LATERAL (SELECT onward_place(:flow, wanted.name)) AS place (key)
 WHERE (SELECT true FROM onward_jobs
         WHERE onward_place(flow, node) BETWEEN place.key AND place.key
           AND flow = :flow AND node = wanted.name
         ORDER BY onward_place(flow, node) DESC, id DESC LIMIT 1) IS TRUE;

-- name: failed_nodes
-- Of these nodes, those of which a job has failed.
SELECT wanted.name
  FROM unnest(cast(:nodes AS text[])) AS wanted (name)
 WHERE (SELECT true
          FROM (VALUES ('discarded'), ('cancelled')) AS failed (state)
         CROSS JOIN LATERAL (SELECT 1 FROM onward_finished AS done
                              WHERE onward_place(done.flow, done.node, done.state) = onward_place(:flow, wanted.name, failed.state)
                                AND done.flow = :flow AND done.node = wanted.name AND done.state = failed.state LIMIT 1) AS one
         LIMIT 1) IS TRUE;

-- name: change_nodes
-- [[flow, name, state, failed, swept, replays], …], under the lock of their flows.
WITH held AS MATERIALIZED (
    SELECT node.place, new.row
      FROM jsonb_array_elements(cast(:nodes AS jsonb)) AS new (row)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_nodes WHERE flow = new.row ->> 0 AND name = new.row ->> 1 FOR UPDATE) AS node
)
UPDATE onward_nodes
   SET state = held.row ->> 2, failed = cast(held.row ->> 3 AS boolean), swept = held.row ->> 4,
       replays = cast(held.row ->> 5 AS smallint)
  FROM held
 WHERE onward_nodes.ctid = held.place;

-- name: change_flows
-- [[id, stopped, cancelled, over, unswept], …].
WITH held AS MATERIALIZED (
    SELECT flow.place, new.row
      FROM jsonb_array_elements(cast(:flows AS jsonb)) AS new (row)
     CROSS JOIN LATERAL (SELECT ctid AS place FROM onward_flows WHERE id = new.row ->> 0 FOR UPDATE) AS flow
)
UPDATE onward_flows
   SET stopped = cast(held.row ->> 1 AS boolean), cancelled = held.row ->> 2, unswept = cast(held.row ->> 4 AS boolean),
       over_at = CASE WHEN cast(held.row ->> 3 AS boolean) THEN coalesce(over_at, onward_now(:now)) END
  FROM held
 WHERE onward_flows.ctid = held.place;

-- name: waiting_members
SELECT id, id
  FROM onward_jobs
 WHERE (onward_place(flow, node), id) > (onward_place(:flow, :node), :after)
   AND onward_place(flow, node) <= onward_place(:flow, :node)
   AND flow = :flow AND node = :node AND state = 'scheduled' AND awaits = ''
 ORDER BY onward_place(flow, node), id
 LIMIT cast(:limit AS bigint);

-- name: members_to_end
SELECT id, id, state
  FROM onward_jobs
 WHERE (onward_place(flow, node), id) > (onward_place(:flow, :node), :after)
   AND onward_place(flow, node) <= onward_place(:flow, :node)
   AND flow = :flow AND node = :node AND (state <> 'executing' OR cancel_reason IS NULL)
 ORDER BY onward_place(flow, node), id
 LIMIT cast(:limit AS bigint);

-- name: open_members
-- Their own delay counts from now; `never` is the first time that is no instant.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
held AS MATERIALIZED (
    SELECT job.place, due.at
      FROM unnest(cast(:jobs AS text[])) AS wanted (id)
     CROSS JOIN LATERAL (SELECT ctid AS place, available_at
                           FROM onward_jobs
                          WHERE id = wanted.id AND state IS NOT DISTINCT FROM 'scheduled' AND awaits = ''
                            FOR UPDATE SKIP LOCKED) AS job
     CROSS JOIN clock
     CROSS JOIN LATERAL (SELECT CASE WHEN available_at >= 2 * cast(:never AS bigint)
                                     THEN greatest(now, available_at - 2 * cast(:never AS bigint))
                                     ELSE now + greatest(0, available_at - cast(:never AS bigint)) END) AS due (at)
)
UPDATE onward_jobs AS job
   SET awaits = NULL, available_at = held.at,
       state = CASE WHEN held.at <= (SELECT now FROM clock) THEN 'available' ELSE 'scheduled' END
  FROM held
 WHERE job.ctid = held.place
RETURNING job.id, job.state, job.queue;

-- name: cancel_members
-- Those that wait; what another transaction has locked is left to it.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now),
held AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:jobs AS text[])) AS wanted (id)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs WHERE id = wanted.id AND state <> 'executing' FOR UPDATE SKIP LOCKED) AS job
), gone AS (
    DELETE FROM onward_jobs WHERE ctid = ANY (ARRAY (SELECT place FROM held)) RETURNING *
)
INSERT INTO onward_finished (
       id, state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, reason, progress, result, sealed)
SELECT id, 'cancelled', now, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
       enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
       single_instance, lane, cost, flow, node, cast(:reason AS text), progress, NULL, sealed
  FROM gone
 CROSS JOIN clock
ON CONFLICT (id) DO UPDATE
   SET (state, finished_at, queue, job, rank, delivery, attempts, crashes, interruptions, max_crashes, available_at,
        enqueued_at, started_at, expires_at, owner, waits, parked_since, unique_key, idempotency_key, idempotency_ttl,
        single_instance, lane, cost, flow, node, reason, progress, result, sealed, fingerprint)
     = ROW (excluded.state, excluded.finished_at, excluded.queue, excluded.job, excluded.rank, excluded.delivery,
            excluded.attempts, excluded.crashes, excluded.interruptions, excluded.max_crashes, excluded.available_at,
            excluded.enqueued_at, excluded.started_at, excluded.expires_at, excluded.owner, excluded.waits,
            excluded.parked_since, excluded.unique_key, excluded.idempotency_key, excluded.idempotency_ttl,
            excluded.single_instance, excluded.lane, excluded.cost, excluded.flow, excluded.node, excluded.reason,
            excluded.progress, excluded.result, excluded.sealed, excluded.fingerprint)
RETURNING id;

-- name: ask_to_cancel
-- The first reason stands.  What another transaction has locked is left to it.
WITH held AS MATERIALIZED (
    SELECT job.place
      FROM unnest(cast(:jobs AS text[])) AS wanted (id)
     CROSS JOIN LATERAL (SELECT ctid AS place
                           FROM onward_jobs WHERE id = wanted.id AND state IS NOT DISTINCT FROM 'executing' FOR UPDATE SKIP LOCKED) AS job
)
UPDATE onward_jobs SET cancel_reason = coalesce(cancel_reason, cast(:reason AS text))
 WHERE ctid = ANY (ARRAY (SELECT place FROM held))
RETURNING id;

-- name: close_flow
UPDATE onward_flows SET closed = true WHERE id = :flow AND NOT closed RETURNING id;

-- name: cancel_flow
-- The first reason stands.
UPDATE onward_flows SET cancelled = coalesce(cancelled, cast(:reason AS text)), closed = true
 WHERE id = :flow AND over_at IS NULL
RETURNING id;

-- name: steps_left
SELECT unswept, replayed FROM onward_flows WHERE id = :flow;

-- name: lock_lease
-- A reap waits for what the lease adds.
SELECT 1 FROM onward_jobs
 WHERE id = :id AND delivery = cast(:token AS bigint) AND owner = :owner AND state = 'executing'
   FOR SHARE;

-- name: failed_members
SELECT id
  FROM onward_finished AS done
 CROSS JOIN (SELECT onward_place(:flow, :node, :outcome)) AS place (key)
 WHERE (onward_place(flow, node, state), id) > (place.key, :after)
   AND onward_place(flow, node, state) <= place.key
   AND flow = :flow AND node = :node AND state = :outcome
 ORDER BY onward_place(flow, node, state), id
 LIMIT cast(:limit AS bigint);

-- name: count_replayed
UPDATE onward_flows
   SET replayed = CASE WHEN cast(:anew AS boolean) THEN 0 ELSE replayed END + cast(:number AS bigint)
 WHERE id = :flow;

-- name: revive_members
-- Those that may still run; they wait until their node opens.
INSERT INTO onward_jobs (id, queue, state, rank, available_at, expires_at, delivery, max_crashes, enqueued_at, unique_key,
                         key_held, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, awaits, job, sealed)
SELECT id, queue, 'scheduled', rank, cast(:never AS bigint), expires_at, least(greatest(delivery, 0), 1073741824), max_crashes,
       enqueued_at, unique_key, unique_key, idempotency_key, idempotency_ttl, single_instance, lane, cost, flow, node, '', job,
       sealed
  FROM onward_finished
 WHERE id = ANY (cast(:ids AS text[])) AND state IN ('discarded', 'cancelled') AND sealed IS NOT NULL
   AND (expires_at IS NULL OR expires_at > (SELECT onward_now(:now)))
ON CONFLICT DO NOTHING
RETURNING id;

-- name: forget_revived
DELETE FROM onward_finished WHERE id = ANY (cast(:ids AS text[]));

-- name: await_node
-- Members that were replayed; one whose flow is gone is a plain job.
UPDATE onward_jobs SET state = 'scheduled', awaits = '', available_at = cast(:never AS bigint)
 WHERE id = ANY (cast(:ids AS text[])) AND state = 'available'
   AND (SELECT true FROM onward_nodes
         WHERE onward_nodes.flow = onward_jobs.flow AND onward_nodes.name = onward_jobs.node LIMIT 1) IS TRUE;

-- name: reasons_of
SELECT done.id, coalesce(done.reason, '')
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, reason FROM onward_finished WHERE id = wanted.id LIMIT 1) AS done;

-- name: flows
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows
 WHERE cast(:after AS text) IS NULL OR id < :after
 ORDER BY id DESC
 LIMIT cast(:limit AS bigint);

-- name: flows_running
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows
 WHERE over_at IS NULL AND (cast(:after AS text) IS NULL OR id < :after)
 ORDER BY id DESC
 LIMIT cast(:limit AS bigint);

-- name: flows_named
SELECT id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at
  FROM onward_flows
 WHERE name = :named AND name <> '' AND (cast(:after AS text) IS NULL OR id < :after) AND (NOT cast(:running AS boolean) OR over_at IS NULL)
 ORDER BY name DESC, id DESC
 LIMIT cast(:limit AS bigint);

-- name: member_counts
-- Of each node; every count stops at the limit.
SELECT node.name, live.scheduled, live.available, live.executing, live.retryable, completed.number, discarded.number,
       cancelled.number
  FROM (SELECT flow, name, onward_place(flow, name) AS key
          FROM onward_nodes WHERE flow = :flow ORDER BY flow, name LIMIT 100000) AS node
 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'available'),
                            count(*) FILTER (WHERE state = 'executing'), count(*) FILTER (WHERE state = 'retryable')
                       FROM (SELECT state FROM onward_jobs AS job
                              WHERE onward_place(job.flow, job.node) BETWEEN node.key AND node.key
                                AND job.flow = node.flow AND job.node = node.name
                              ORDER BY onward_place(job.flow, job.node), id
                              LIMIT cast(:at_most AS bigint)) AS counted) AS live (scheduled, available, executing, retryable)
 CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done
                                            WHERE onward_place(done.flow, done.node, state) = onward_place(node.flow, node.name, 'completed')
                                              AND done.flow = node.flow AND done.node = node.name AND state = (SELECT 'completed')
                                            LIMIT cast(:at_most AS bigint)) AS counted) AS completed (number)
 CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done
                                            WHERE onward_place(done.flow, done.node, state) = onward_place(node.flow, node.name, 'discarded')
                                              AND done.flow = node.flow AND done.node = node.name AND state = (SELECT 'discarded')
                                            LIMIT cast(:at_most AS bigint)) AS counted) AS discarded (number)
 CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT 1 FROM onward_finished AS done
                                            WHERE onward_place(done.flow, done.node, state) = onward_place(node.flow, node.name, 'cancelled')
                                              AND done.flow = node.flow AND done.node = node.name AND state = (SELECT 'cancelled')
                                            LIMIT cast(:at_most AS bigint)) AS counted) AS cancelled (number);

-- name: node_names
SELECT name FROM onward_nodes WHERE flow = :flow ORDER BY flow, name;

-- name: page_of_node_oldest
-- Four walks along the ids, merged: the finished are in the order of their states first.  (A state from a subquery fits no index
-- of one state.)
SELECT id FROM (
    (SELECT id FROM onward_jobs
      WHERE cast(:live AS boolean)
        AND (onward_place(flow, node), id) > (onward_place(:flow, :node), :after)
        AND onward_place(flow, node) <= onward_place(:flow, :node)
        AND flow = :flow AND node = :node
        AND (cast(:everything AS boolean) OR state = ANY (cast(:states AS text[])))
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node), id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:discarded AS boolean)
        AND (onward_place(flow, node, state), id) > (onward_place(:flow, :node, 'discarded'), :after)
        AND onward_place(flow, node, state) <= onward_place(:flow, :node, 'discarded')
        AND flow = :flow AND node = :node AND state = (SELECT 'discarded')
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state), id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:cancelled AS boolean)
        AND (onward_place(flow, node, state), id) > (onward_place(:flow, :node, 'cancelled'), :after)
        AND onward_place(flow, node, state) <= onward_place(:flow, :node, 'cancelled')
        AND flow = :flow AND node = :node AND state = (SELECT 'cancelled')
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state), id LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:completed AS boolean)
        AND (onward_place(flow, node, state), id) > (onward_place(:flow, :node, 'completed'), :after)
        AND onward_place(flow, node, state) <= onward_place(:flow, :node, 'completed')
        AND flow = :flow AND node = :node AND state = (SELECT 'completed')
        AND sealed IS NOT NULL
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state), id LIMIT cast(:limit AS bigint))) AS page
 ORDER BY id
 LIMIT cast(:limit AS bigint);

-- name: page_of_node_newest
SELECT id FROM (
    (SELECT id FROM onward_jobs
      WHERE cast(:live AS boolean)
        AND (onward_place(flow, node), id) < (onward_place(:flow, :node), coalesce(:after, chr(1114111)))
        AND onward_place(flow, node) >= onward_place(:flow, :node)
        AND flow = :flow AND node = :node
        AND (cast(:everything AS boolean) OR state = ANY (cast(:states AS text[])))
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node) DESC, id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:discarded AS boolean)
        AND (onward_place(flow, node, state), id) < (onward_place(:flow, :node, 'discarded'), coalesce(:after, chr(1114111)))
        AND onward_place(flow, node, state) >= onward_place(:flow, :node, 'discarded')
        AND flow = :flow AND node = :node AND state = (SELECT 'discarded')
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state) DESC, id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:cancelled AS boolean)
        AND (onward_place(flow, node, state), id) < (onward_place(:flow, :node, 'cancelled'), coalesce(:after, chr(1114111)))
        AND onward_place(flow, node, state) >= onward_place(:flow, :node, 'cancelled')
        AND flow = :flow AND node = :node AND state = (SELECT 'cancelled')
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state) DESC, id DESC LIMIT cast(:limit AS bigint))
     UNION ALL
    (SELECT id FROM onward_finished
      WHERE cast(:completed AS boolean)
        AND (onward_place(flow, node, state), id) < (onward_place(:flow, :node, 'completed'), coalesce(:after, chr(1114111)))
        AND onward_place(flow, node, state) >= onward_place(:flow, :node, 'completed')
        AND flow = :flow AND node = :node AND state = (SELECT 'completed') AND sealed IS NOT NULL
        AND (cast(:queue AS text) IS NULL OR queue = :queue) AND (cast(:job AS text) IS NULL OR job = :job)
      ORDER BY onward_place(flow, node, state) DESC, id DESC LIMIT cast(:limit AS bigint))) AS page
 ORDER BY id DESC
 LIMIT cast(:limit AS bigint);

-- name: flows_that_stand_still
-- What a sweep has to look at: flows that were left open for long, that have a step left, or whose next step was overlooked.
-- An addition of none tells of a job that a caller completed: the process may have died before it could look.
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now)
SELECT flow.id, flow.name,
       flow.unswept OR (SELECT true FROM onward_additions WHERE onward_additions.flow = flow.id AND number = 0 LIMIT 1) IS TRUE,
       age.left_open
  FROM onward_flows AS flow
 CROSS JOIN LATERAL (SELECT NOT flow.closed
                            AND greatest(flow.created_at, (SELECT max(added_at) FROM onward_additions
                                                            WHERE onward_additions.flow = flow.id))
                                <= (SELECT now FROM clock) - cast(:left_open AS bigint)) AS age (left_open)
 WHERE flow.over_at IS NULL
   AND (flow.unswept OR age.left_open
        OR flow.closed
           AND ((SELECT true FROM onward_nodes AS node
                  WHERE node.flow = flow.id AND node.state = 'open'
                    AND (SELECT true FROM onward_jobs AS job
                          WHERE onward_place(job.flow, job.node) BETWEEN onward_place(node.flow, node.name)
                                                                     AND onward_place(node.flow, node.name)
                            AND job.flow = flow.id AND job.node = node.name
                          ORDER BY onward_place(job.flow, job.node) DESC, job.id DESC LIMIT 1) IS NULL
                  LIMIT 1) IS TRUE
                OR (SELECT true FROM onward_nodes AS node
                     WHERE node.flow = flow.id AND node.state IN ('waiting', 'open') LIMIT 1) IS NULL))
 ORDER BY flow.id
 LIMIT cast(:limit AS bigint);

-- name: try_flows
-- Those of these that are over, and whether this transaction has their locks now.
SELECT flow.id, locked.id IS NOT NULL
  FROM unnest(cast(:flows AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_flows WHERE id = wanted.id AND over_at IS NOT NULL LIMIT 1) AS flow
  LEFT JOIN LATERAL (SELECT id FROM onward_flows WHERE id = wanted.id AND over_at IS NOT NULL FOR UPDATE SKIP LOCKED) AS locked
    ON true;

-- name: drop_flows
-- Those of these, which are locked, that have no job any more.
WITH gone AS (
    DELETE FROM onward_flows
     WHERE id = ANY (cast(:flows AS text[]))
       AND (SELECT true
              FROM (SELECT flow, name FROM onward_nodes WHERE flow = onward_flows.id ORDER BY flow, name LIMIT 100000) AS node
             CROSS JOIN (VALUES ('completed'), ('discarded'), ('cancelled')) AS ended (state)
             CROSS JOIN LATERAL (SELECT 1 FROM onward_finished AS done
                                  WHERE onward_place(done.flow, done.node, done.state)
                                        = onward_place(node.flow, node.name, ended.state)
                                    AND done.flow = node.flow AND done.node = node.name AND done.state = ended.state
                                  LIMIT 1) AS one
             LIMIT 1) IS NULL
       AND (SELECT true
              FROM (SELECT flow, name, onward_place(flow, name) AS key
                      FROM onward_nodes WHERE flow = onward_flows.id ORDER BY flow, name LIMIT 100000) AS node
             CROSS JOIN LATERAL (SELECT 1 FROM onward_jobs AS job
                                  WHERE onward_place(job.flow, job.node) BETWEEN node.key AND node.key
                                    AND job.flow = node.flow AND job.node = node.name
                                  ORDER BY onward_place(job.flow, job.node), job.id
                                  LIMIT 1) AS one
             LIMIT 1) IS NULL
    RETURNING id
), nodes AS (
    DELETE FROM onward_nodes WHERE flow = ANY (ARRAY (SELECT id FROM gone))
)
DELETE FROM onward_additions WHERE flow = ANY (ARRAY (SELECT id FROM gone));

-- Transfer between stores.

-- name: reservations
SELECT name, reserved_for FROM onward_queues WHERE reserved_for IS NOT NULL;

-- name: reservation
SELECT reserved_for FROM onward_queues WHERE name = :queue FOR UPDATE;

-- name: reserve
UPDATE onward_queues SET reserved_for = cast(:transfer AS text)
 WHERE name = :queue AND reserved_for IS NOT DISTINCT FROM cast(:was AS text);

-- name: confirmed_keys
SELECT hold.key, hold.job_id, hold.token, hold.done_until
  FROM unnest(cast(:keys AS text[])) AS wanted (key)
 CROSS JOIN LATERAL (SELECT * FROM onward_holds WHERE kind = 'once' AND key = wanted.key LIMIT 1) AS hold
 WHERE hold.done_until IS NOT NULL;

-- name: lock_to_remove
SELECT job.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_jobs WHERE id = wanted.id FOR UPDATE) AS job;

-- name: notes_among
SELECT note.job_id, note.name, note.value, note.at
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
  JOIN onward_notes AS note ON note.job_id = wanted.id;

-- name: remove_live
DELETE FROM onward_jobs WHERE id = ANY (cast(:ids AS text[])) AND state <> 'executing';

-- name: restore_live
-- By the names of the columns: a new column needs no change here.
INSERT INTO onward_jobs SELECT * FROM jsonb_populate_recordset(cast(NULL AS onward_jobs), cast(:rows AS jsonb))
ON CONFLICT DO NOTHING;

-- name: restore_dead
-- Their numbers are given here, not by the other store.
INSERT INTO onward_finished OVERRIDING USER VALUE
SELECT * FROM jsonb_populate_recordset(cast(NULL AS onward_finished), cast(:rows AS jsonb))
ON CONFLICT DO NOTHING;

-- name: restore_runs
INSERT INTO onward_attempts SELECT * FROM jsonb_populate_recordset(cast(NULL AS onward_attempts), cast(:rows AS jsonb))
ON CONFLICT DO NOTHING;

-- name: restore_notes
INSERT INTO onward_notes SELECT * FROM jsonb_populate_recordset(cast(NULL AS onward_notes), cast(:rows AS jsonb))
ON CONFLICT DO NOTHING;

-- name: known
SELECT job.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_jobs WHERE id = wanted.id LIMIT 1) AS job
 UNION ALL
SELECT done.id
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id FROM onward_finished WHERE id = wanted.id LIMIT 1) AS done;

-- name: restore_confirmed
-- A key that is held here now, or done for longer, stays as it is.
INSERT INTO onward_holds (kind, key, job_id, token, done_until)
SELECT 'once', new ->> 0, new ->> 1, cast(new ->> 2 AS bigint), cast(new ->> 3 AS bigint)
  FROM jsonb_array_elements(cast(:confirmed AS jsonb)) AS new
ON CONFLICT (kind, key) DO UPDATE
   SET job_id = excluded.job_id, token = excluded.token, done_until = excluded.done_until
 WHERE onward_holds.done_until < excluded.done_until;

-- name: damaged_jobs
-- Live jobs with values that no worker writes; the code that reads them says which.
-- The counters end one below what a claim may write.  A job that waits for its node is due at no instant.
SELECT id AS place, id, queue, job, sealed, state, rank,
       CASE WHEN state = 'scheduled' AND awaits = '' AND available_at BETWEEN 0 AND 760206902399999999 THEN enqueued_at
            ELSE available_at END,
       expires_at, enqueued_at, started_at, max_crashes, delivery,
       attempts, crashes, interruptions, waits, parked_since, unique_key, idempotency_key, idempotency_ttl, single_instance,
       progress, owner, lane, cost, onward_now(:now), flow, node
  FROM onward_jobs
 WHERE state NOT IN ('scheduled', 'available', 'executing', 'retryable') OR (state = 'executing' AND owner IS NULL)
    OR delivery NOT BETWEEN 0 AND 2147483646 OR attempts NOT BETWEEN 0 AND 2147483646
    OR crashes NOT BETWEEN 0 AND 2147483646 OR interruptions NOT BETWEEN 0 AND 2147483646
    OR waits NOT BETWEEN 0 AND 2147483646 OR max_crashes NOT BETWEEN 1 AND 2147483646 OR rank NOT BETWEEN -100 AND 100
    OR available_at NOT BETWEEN 0 AND CASE WHEN state = 'scheduled' AND awaits = '' THEN 760206902399999999 ELSE 253402300799999999 END
    OR enqueued_at NOT BETWEEN 0 AND 253402300799999999
    OR idempotency_ttl NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 0 AND 253402300799999999
    OR started_at NOT BETWEEN 0 AND 253402300799999999 OR parked_since NOT BETWEEN 0 AND 253402300799999999
    OR cost NOT BETWEEN 1 AND 1000000
 LIMIT 1000
   FOR UPDATE SKIP LOCKED;

-- name: drop_damaged
DELETE FROM onward_jobs WHERE id = :key;

-- name: damaged_sessions
SELECT owner FROM onward_sessions
 WHERE expires_at NOT BETWEEN 0 AND 253402300799999999 OR lease_for NOT BETWEEN 1 AND 253402300799999999
   FOR UPDATE SKIP LOCKED;

-- name: store_audit
INSERT INTO onward_audit (job_id, at, who, act, detail, ref, signature)
SELECT job_id, at, who, act, detail, ref, signature
  FROM jsonb_populate_recordset(cast(NULL AS onward_audit), cast(:rows AS jsonb));

-- name: audit_of_job
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE job_id = :job AND at <= cast(:at AS bigint) AND (at < cast(:at AS bigint) OR number < cast(:number AS bigint))
   AND (cast(:ref AS text) IS NULL OR ref = :ref) AND (cast(:who AS text) IS NULL OR who = :who) AND (cast(:act AS text) IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT cast(:limit AS bigint);

-- name: audit_about
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE ref = :ref AND at <= cast(:at AS bigint) AND (at < cast(:at AS bigint) OR number < cast(:number AS bigint))
   AND (cast(:who AS text) IS NULL OR who = :who) AND (cast(:act AS text) IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT cast(:limit AS bigint);

-- name: audit_by
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE who = :who AND at <= cast(:at AS bigint) AND (at < cast(:at AS bigint) OR number < cast(:number AS bigint))
   AND (cast(:act AS text) IS NULL OR act = :act)
 ORDER BY at DESC, number DESC
 LIMIT cast(:limit AS bigint);

-- name: audit_newest
SELECT number, job_id, at, who, act, detail, ref, signature
  FROM onward_audit
 WHERE at + 0 <= cast(:at AS bigint) AND (at < cast(:at AS bigint) OR number < cast(:number AS bigint))
   AND (cast(:act AS text) IS NULL OR act = :act)
 ORDER BY at + 0 DESC, number DESC
 LIMIT cast(:limit AS bigint);

-- name: audit_among
SELECT entry.number, entry.job_id, entry.at, entry.who, entry.act, entry.detail, entry.ref, entry.signature
  FROM unnest(cast(:ids AS text[])) AS wanted (id) JOIN onward_audit AS entry ON entry.job_id = wanted.id;

-- name: forget_audit
-- What belongs to a live job of the same id, which was enqueued anew, stays.
DELETE FROM onward_audit
 WHERE job_id = ANY (cast(:ids AS text[]))
   AND NOT EXISTS (SELECT 1 FROM onward_jobs WHERE onward_jobs.id = onward_audit.job_id);

-- name: drop_old_audit
WITH clock AS MATERIALIZED (SELECT onward_now(:now) AS now)
DELETE FROM onward_audit
 WHERE ctid = ANY (ARRAY (SELECT ctid
                            FROM onward_audit
                           WHERE job_id = '' AND at <= (SELECT now FROM clock) - cast(:kept_for AS bigint)
                           ORDER BY at, number
                           LIMIT cast(:limit AS bigint)
                             FOR UPDATE SKIP LOCKED));

-- name: asked_among
SELECT job.id, job.cancel_reason IS NOT NULL
  FROM unnest(cast(:ids AS text[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT id, cancel_reason FROM onward_jobs WHERE id = wanted.id FOR UPDATE) AS job;

-- Samples.

-- name: mark_minute
-- One row for the first process of all that sends a sample of this minute: it looks at the store for all of them.
INSERT INTO onward_series (at, width, reporter, data) VALUES (:at, 0, '*', '')
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
