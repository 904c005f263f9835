-- Live and finished jobs are stored apart: the live table stays small however long the history is, and a unique key is a
-- plain unique index over it.  Instants are microseconds UTC, `rank` is the negated priority so that everything sorts
-- upwards.  Text is compared by its bytes, as everywhere else: a database's own collation may change with its system.
-- Wide columns of fixed length come first, so that no row is padded.

-- The store's clock, read when it is called and not when the transaction began; or the instant to which a test moved it.
CREATE FUNCTION onward_now(moved bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(moved, cast(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)) $$;

-- A node of a flow as one number, and what ended there in one state.  Members are indexed by it: numbers are compared in a fraction of
-- the time that their texts take, and every member is one more entry.  Two nodes may have the same number, so who looks one up says
-- the texts, too.  The planner puts the expressions in the place of the calls.
CREATE FUNCTION onward_place(flow text, node text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT hashtextextended(node, hashtextextended(flow, 0)) $$;
CREATE FUNCTION onward_place(flow text, node text, state text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT hashtextextended(state, hashtextextended(node, hashtextextended(flow, 0))) $$;

CREATE TABLE onward_jobs (
    rank bigint NOT NULL,
    available_at bigint NOT NULL,
    expires_at bigint,
    delivery bigint NOT NULL DEFAULT 0,             -- the fencing token: grows with every claim
    max_crashes bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    started_at bigint,
    parked_since bigint,
    idempotency_ttl bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    interruptions integer NOT NULL DEFAULT 0,
    waits integer NOT NULL DEFAULT 0,
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,                -- scheduled, available, executing, retryable
    job text COLLATE "C" NOT NULL,
    owner text COLLATE "C",                         -- the session that runs it
    cancel_reason text,                             -- not null: it was asked to cancel
    unique_key text COLLATE "C",                    -- as sealed; never changes
    key_held text COLLATE "C",                      -- the same while it holds the key, null once that was taken away
    idempotency_key text COLLATE "C",
    single_instance text COLLATE "C",
    spent text,
    -- Null, and so without a byte, in every job that does not use them.
    lane text COLLATE "C",                          -- null, or '' where it is counted: the plain line of its queue
    cost integer,                                   -- tokens that a start takes, if not 1
    booked boolean,                                 -- true: scheduled for the token of its lane
    flow text COLLATE "C",
    node text COLLATE "C",
    awaits text COLLATE "C",                        -- what a scheduled job waits for: '' its node, else a signal
    progress bytea,
    sealed bytea NOT NULL,
    CHECK (id <> '' AND state IN ('scheduled', 'available', 'executing', 'retryable') AND (state <> 'executing' OR owner IS NOT NULL)),
    CHECK (lane = '' OR (lane LIKE '%/%' AND lane < chr(1114111))),     -- a walk finds no other one
    CHECK (cost BETWEEN 1 AND 1000000 AND booked)
) WITH (
    -- Room for the row's next version beside it, and a vacuum that keeps up with a table whose every row dies young.
    -- An empty end is not cut off: that would lock the table, for room that the next burst needs again.
    fillfactor = 70,
    vacuum_truncate = false,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- The claim of plain jobs walks this one and nothing else.
CREATE INDEX onward_jobs_claim_idx ON onward_jobs (queue, rank, available_at, id)
    WHERE state = 'available' AND coalesce(lane, '') = '';
-- The claim of jobs with lanes, from lane to lane.
CREATE INDEX onward_jobs_lanes_idx ON onward_jobs (queue, rank, lane, available_at, id)
    WHERE state = 'available' AND lane <> '';
-- What a limit counts.
CREATE INDEX onward_jobs_running_idx ON onward_jobs (queue, lane)
    WHERE state = 'executing' AND lane IS NOT NULL;
CREATE INDEX onward_jobs_due_idx ON onward_jobs (queue, booked, available_at, id)
    WHERE state IN ('scheduled', 'retryable');
CREATE INDEX onward_jobs_expiry_idx ON onward_jobs (queue, expires_at, id)
    WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable');
-- With the id, so that looking for one lease of an owner never walks the others, whatever the planner believes of them.
CREATE INDEX onward_jobs_owner_idx ON onward_jobs (owner, id)
    WHERE state = 'executing';
CREATE INDEX onward_jobs_asked_idx ON onward_jobs (owner, id)
    WHERE cancel_reason IS NOT NULL;
CREATE UNIQUE INDEX onward_jobs_held_idx ON onward_jobs (key_held)
    WHERE key_held IS NOT NULL;
-- Jobs that wait for a hold, in claim order.
CREATE INDEX onward_jobs_once_idx ON onward_jobs (idempotency_key, rank, available_at, id)
    WHERE idempotency_key IS NOT NULL AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL;
CREATE INDEX onward_jobs_single_idx ON onward_jobs (single_instance, rank, available_at, id)
    WHERE single_instance IS NOT NULL AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL;
-- The members of a flow that are live, by node.  They are stored in order, and each gets one more entry beside its own when it is
-- claimed: in pages that are full those claims would split every page, and look for entries to merge or to remove before.
CREATE INDEX onward_jobs_flow_idx ON onward_jobs (onward_place(flow, node), id)
    WITH (fillfactor = 45) WHERE flow IS NOT NULL;

CREATE TABLE onward_finished (
    number bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME onward_ended), -- tells how many jobs have ended so far
    rank bigint NOT NULL,
    available_at bigint NOT NULL,
    expires_at bigint,
    delivery bigint NOT NULL,
    max_crashes bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    started_at bigint,
    parked_since bigint,
    idempotency_ttl bigint NOT NULL,
    finished_at bigint NOT NULL,
    attempts integer NOT NULL,
    crashes integer NOT NULL,
    interruptions integer NOT NULL,
    waits integer NOT NULL,
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,                -- completed, discarded, cancelled
    job text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    unique_key text COLLATE "C",
    idempotency_key text COLLATE "C",
    single_instance text COLLATE "C",
    lane text COLLATE "C",
    cost integer,
    flow text COLLATE "C",
    node text COLLATE "C",
    fingerprint text COLLATE "C",                   -- of a discarded job: that of its newest run; null in all others
    reason text,
    progress bytea,
    result bytea,
    sealed bytea,                                   -- null: only a tombstone
    CHECK (id <> '' AND state IN ('completed', 'discarded', 'cancelled'))
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- Completed jobs pay for no index but their key: retention walks the ids, which rise with time.
CREATE INDEX onward_finished_discarded_idx ON onward_finished (id) WHERE state = 'discarded';
CREATE INDEX onward_finished_cancelled_idx ON onward_finished (id) WHERE state = 'cancelled';
CREATE INDEX onward_finished_flow_idx
    ON onward_finished (onward_place(flow, node, state), id) INCLUDE (flow, node, state)
    WHERE flow IS NOT NULL;
-- Dead jobs by group.
CREATE INDEX onward_finished_deaths_idx ON onward_finished (job, fingerprint, id) WHERE fingerprint IS NOT NULL;

-- The record of every run that did not succeed, and the evidence that a repeated settlement was applied.
CREATE TABLE onward_attempts (
    token bigint NOT NULL,
    at bigint NOT NULL,
    duration_ms bigint NOT NULL,
    attempt integer NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    move text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,                -- where the job went
    owner text COLLATE "C",                         -- the session that ran it
    ran_by text,                                    -- host, pid and build of its worker, as JSON
    fingerprint text COLLATE "C" NOT NULL DEFAULT '', -- the same for the same failure
    kind text NOT NULL,
    message text NOT NULL,
    traceback text NOT NULL,
    PRIMARY KEY (job_id, token),
    CHECK (token BETWEEN 0 AND 2147483647 AND attempt BETWEEN 0 AND 2147483647 AND at BETWEEN 0 AND 253402300799999999)
);

-- Every turn locks its own row here and only renewals write it, often: room on the page keeps those writes in place.
CREATE TABLE onward_sessions (
    expires_at bigint NOT NULL,
    lease_for bigint NOT NULL,
    pid bigint NOT NULL,
    owner text COLLATE "C" NOT NULL PRIMARY KEY,
    host text NOT NULL,
    version text NOT NULL,
    description bytea NOT NULL DEFAULT '',          -- what the worker says of itself, as JSON
    CHECK (expires_at BETWEEN 0 AND 253402300799999999 AND lease_for BETWEEN 1 AND 253402300799999999)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

CREATE TABLE onward_queues (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at bigint,                               -- null: it is open
    reserved_for text COLLATE "C"                   -- a transfer that has not ended: it stays paused
);

-- Pointers to the lease that holds a key: valid while that lease is, or until `done_until` once a success confirmed it.
CREATE TABLE onward_holds (
    token bigint NOT NULL,
    done_until bigint,
    kind text COLLATE "C" NOT NULL,                 -- once (idempotency key), single (one instance at a time)
    key text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX onward_holds_done_idx ON onward_holds (done_until) WHERE done_until IS NOT NULL;

-- Processes that wait to be woken, and until when: a hint, which may be lost and need not be on the disk.
CREATE UNLOGGED TABLE onward_waiters (
    until bigint NOT NULL,
    id text COLLATE "C" NOT NULL PRIMARY KEY
);

CREATE INDEX onward_waiters_until_idx ON onward_waiters (until);

-- What a job has written down for its later runs, and the signals that came for it.
CREATE TABLE onward_notes (
    at bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,                 -- the kind is its first character: = step, ~ sleep, ! signal
    value bytea NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- Who did what by hand.  Entries go with their job; those of no job are kept for 90 days.
CREATE TABLE onward_audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of entries of one instant
    at bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,               -- '': it is about no job
    who text COLLATE "C" NOT NULL,
    act text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL,               -- the reason that was given
    ref text COLLATE "C" NOT NULL,                  -- a queue, a schedule, a flow, a larger act; or ''
    signature text COLLATE "C" NOT NULL,
    CONSTRAINT onward_audit_instant CHECK (at BETWEEN 0 AND 253402300799999999)
);

CREATE INDEX onward_audit_job_idx ON onward_audit (job_id, at, number);
CREATE INDEX onward_audit_ref_idx ON onward_audit (ref, at, number);
CREATE INDEX onward_audit_who_idx ON onward_audit (who, at, number);
-- An expression: no statement that has an index of its own can walk this one instead.
CREATE INDEX onward_audit_at_idx ON onward_audit ((at + 0), number);

-- Every change of a schedule compares and raises its version: of two processes that book a tick, one finds the other's.
CREATE TABLE onward_schedules (
    version bigint NOT NULL,
    declared_at bigint NOT NULL,                    -- when the process that declared it started
    booked_until bigint NOT NULL,
    paused_at bigint,
    seen_at bigint NOT NULL,
    missed bigint NOT NULL DEFAULT 0,
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    origin text COLLATE "C" NOT NULL,               -- code, runtime
    fingerprint text COLLATE "C" NOT NULL,          -- of the specification before it was signed and encrypted
    sealed bytea NOT NULL,
    CHECK (origin IN ('code', 'runtime') AND version > 0 AND missed >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

-- One row for each limit, never one for each key.  Null: nothing is bounded.
CREATE TABLE onward_limits (
    declared_at bigint NOT NULL DEFAULT 0,          -- when the process that declared it started
    declared_period bigint,                         -- microseconds in which there are so many starts
    chosen_period bigint,
    declared_running integer,
    declared_tokens integer,                        -- so many starts
    declared_burst integer,                         -- so many of them at once
    chosen_running integer,                         -- by people: these beat the declared ones
    chosen_tokens integer,
    chosen_burst integer,
    kind text COLLATE "C" NOT NULL,                 -- queue, job, key (each key of a job)
    name text COLLATE "C" NOT NULL,                 -- of the queue or the job
    PRIMARY KEY (kind, name),
    CHECK (kind IN ('queue', 'job', 'key') AND name <> '' AND declared_at BETWEEN 0 AND 253402300799999999
           AND declared_running BETWEEN 1 AND 1000000 AND chosen_running BETWEEN 1 AND 1000000
           AND declared_tokens BETWEEN 1 AND 1000000 AND chosen_tokens BETWEEN 1 AND 1000000
           AND declared_period BETWEEN 1 AND 86400000000 AND chosen_period BETWEEN 1 AND 86400000000
           AND declared_burst BETWEEN 1 AND 1000000 AND chosen_burst BETWEEN 1 AND 1000000),
    CHECK ((declared_tokens IS NULL) = (declared_period IS NULL) AND (declared_tokens IS NULL) = (declared_burst IS NULL)
           AND (chosen_tokens IS NULL) = (chosen_period IS NULL) AND (chosen_tokens IS NULL) = (chosen_burst IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

-- What is left of a rate, and what was shut: a queue, all lanes of a job, or a lane.  A gate that is full and open has no row.
CREATE TABLE onward_gates (
    full_at bigint NOT NULL DEFAULT 0,              -- when all tokens are there again
    charged_at bigint NOT NULL DEFAULT 0,           -- when that was written
    shut_until bigint NOT NULL DEFAULT 0,
    shut_for bigint NOT NULL DEFAULT 0,             -- by a breaker: for so long afterwards one run at a time probes
    queue text COLLATE "C" NOT NULL,                -- '': counted over all queues
    lane text COLLATE "C" NOT NULL,                 -- '': all jobs of the queue
    PRIMARY KEY (queue, lane),
    CHECK (full_at BETWEEN 0 AND 253402300799999999 AND charged_at BETWEEN 0 AND 253402300799999999
           AND shut_until BETWEEN 0 AND 253402300799999999 AND shut_for BETWEEN 0 AND 253402300799999999)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

-- Flows and their nodes.  How many jobs of a node are live is never counted in a row: it is looked up, under the lock of the
-- flow's row.  No turn writes a row here but where something changes.
CREATE TABLE onward_flows (
    created_at bigint NOT NULL,
    over_at bigint,
    stop_on_failure boolean NOT NULL,
    closed boolean NOT NULL,                        -- false: jobs are still added from outside
    stopped boolean NOT NULL DEFAULT false,
    unswept boolean NOT NULL DEFAULT false,         -- a node of it has jobs that are to be made due, cancelled or replayed
    replayed bigint NOT NULL DEFAULT 0,             -- jobs that the last retry of it has replayed
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    cancelled text,                                 -- not null: it was cancelled as a whole, and why
    CHECK (id <> '' AND created_at BETWEEN 0 AND 253402300799999999 AND over_at BETWEEN 0 AND 253402300799999999)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX onward_flows_running_idx ON onward_flows (id) WHERE over_at IS NULL;
-- Only for those who ask by name: with its condition no other statement can take it.
CREATE INDEX onward_flows_name_idx ON onward_flows (name, id) WHERE name <> '';

CREATE TABLE onward_nodes (
    place integer NOT NULL,                         -- in the order in which each comes after those that it names
    replays smallint NOT NULL DEFAULT 0,            -- its failed jobs are replayed first: 2, and a retry of the flow counts them; 1
    failed boolean NOT NULL DEFAULT false,          -- a job of it was discarded or cancelled
    flow text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    comes_after text NOT NULL,                      -- names, as JSON
    opens_when text COLLATE "C" NOT NULL,           -- succeeded, failed, finished
    state text COLLATE "C" NOT NULL,
    swept text COLLATE "C",                         -- null: all of its jobs are as its state says; else those up to this id
    PRIMARY KEY (flow, name),
    CHECK (opens_when IN ('succeeded', 'failed', 'finished') AND cast(comes_after AS json) IS NOT NULL
           AND state IN ('waiting', 'open', 'completed', 'failed', 'passed_over', 'skipped'))
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.05);

-- How many jobs were added to a node, by each transaction that added some: a row of the node would make them wait.
CREATE TABLE onward_additions (
    added_at bigint NOT NULL,
    number bigint NOT NULL,
    flow text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    CHECK (number >= 0 AND added_at BETWEEN 0 AND 253402300799999999)
);

CREATE INDEX onward_additions_idx ON onward_additions (flow, node);

-- The numbers of a minute: a row for each process that has sent some, until the rows of a stretch are replaced by their sum.
CREATE TABLE onward_series (
    at bigint NOT NULL,                             -- when the minute or the stretch began
    width bigint NOT NULL,                          -- 0: as it was sent; else the length of the stretch
    reporter text COLLATE "C" NOT NULL,             -- '*': the sampler of the minute, and every merged row
    data bytea NOT NULL,
    PRIMARY KEY (at, reporter),
    CHECK (at BETWEEN 0 AND 253402300799999999 AND width BETWEEN 0 AND 86400000000 AND reporter <> '')
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

-- How much work a queue has, for those who decide how many workers there are: the jobs that run and, unless it is paused, those
-- that are due, up to 10000 of either.  Not all that is due is available: a worker's turn makes it so, and there may be no worker.
-- Onward never calls it.  Its name, its argument and what it answers stay.
CREATE FUNCTION onward_due(of_queue text) RETURNS bigint LANGUAGE sql STABLE
    SET search_path FROM CURRENT                    -- whoever calls it need not have these tables in the path
    SET enable_seqscan = off                        -- each branch walks its index and stops at its limit, whatever the planner
    SET enable_bitmapscan = off                     -- believes of the table
AS $$
SELECT (SELECT count(*)
          FROM ((SELECT 1 FROM onward_jobs
                  WHERE queue = of_queue AND state = 'available' AND coalesce(lane, '') = '' LIMIT 10000)
                 UNION ALL
                (SELECT 1 FROM onward_jobs WHERE queue = of_queue AND state = 'available' AND lane <> '' LIMIT 10000)
                 UNION ALL
                (SELECT 1 FROM onward_jobs
                  WHERE queue = of_queue AND booked IS NULL AND available_at <= (SELECT onward_now(NULL))
                    AND state IN ('scheduled', 'retryable')
                  LIMIT 10000)
                 UNION ALL
                (SELECT 1 FROM onward_jobs
                  WHERE queue = of_queue AND booked AND available_at <= (SELECT onward_now(NULL))
                    AND state IN ('scheduled', 'retryable')
                  LIMIT 10000)
                 LIMIT 10000) AS waiting
         WHERE (SELECT paused_at FROM onward_queues WHERE name = of_queue) IS NULL)
     + (SELECT count(*)
          FROM (SELECT queue FROM onward_jobs WHERE state = 'executing' LIMIT 10000) AS running
         WHERE queue = of_queue)
$$;
