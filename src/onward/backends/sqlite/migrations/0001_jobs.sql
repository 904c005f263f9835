-- Live and finished jobs are stored apart: the live table stays small however long the history is, and a unique key is a
-- plain unique index over it.  Instants are microseconds UTC, `rank` is the negated priority so that everything sorts
-- upwards.  Big values stand last in a row, so that reading the small ones never touches their overflow pages.

CREATE TABLE onward_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,                            -- scheduled, available, executing, retryable
    rank INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    expires_at INTEGER,
    owner TEXT,                                     -- the session that runs it
    delivery INTEGER NOT NULL DEFAULT 0,            -- the fencing token: grows with every claim
    attempts INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0,
    max_crashes INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    started_at INTEGER,
    cancel_reason TEXT,                             -- not null: it was asked to cancel
    waits INTEGER NOT NULL DEFAULT 0,
    parked_since INTEGER,
    unique_key TEXT,                                -- as sealed; never changes
    key_held TEXT,                                  -- the same while it holds the key, null once that was taken away
    idempotency_key TEXT,
    idempotency_ttl INTEGER NOT NULL,
    single_instance TEXT,
    job TEXT NOT NULL,
    spent TEXT,
    -- Null in every job that does not use them.
    lane TEXT,                                      -- null: the plain line of its queue; '': the same, and its runs are counted
    cost INTEGER,                                   -- tokens that a start takes, if not 1
    booked INTEGER,                                 -- 1: scheduled for the token of its lane
    flow TEXT,
    node TEXT,
    awaits TEXT,                                    -- what a scheduled job waits for: '' its node, else a signal
    progress BLOB,
    sealed BLOB NOT NULL,
    CHECK (id <> '' AND state IN ('scheduled', 'available', 'executing', 'retryable') AND (state <> 'executing' OR owner IS NOT NULL)),
    CHECK (lane = '' OR (instr(lane, '/') > 0 AND lane < char(1114111))),   -- a walk finds no other one
    CHECK (cost BETWEEN 1 AND 1000000 AND booked = 1)
) STRICT;

-- The claim walks this one and nothing else.  Expiry and state are in it so that expired jobs are passed over, and waiting
-- ones counted, without a look at their rows: SQLite compares even what the condition of the index promises.
CREATE INDEX onward_jobs_claim_idx ON onward_jobs (queue, rank, available_at, id, expires_at, state)
    WHERE state = 'available' AND (lane IS NULL OR lane = '');
CREATE INDEX onward_jobs_due_idx ON onward_jobs (queue, booked, available_at, id, state)
    WHERE state IN ('scheduled', 'retryable');
-- Jobs with lanes; and what runs of lanes and of limited queues.  The lane is compared first, because most jobs have none.
CREATE INDEX onward_jobs_lanes_idx ON onward_jobs (queue, rank, lane, available_at, id, expires_at)
    WHERE lane <> '' AND state = 'available';
CREATE INDEX onward_jobs_running_idx ON onward_jobs (queue, lane, started_at)
    WHERE lane IS NOT NULL AND state = 'executing';
CREATE INDEX onward_jobs_expiry_idx ON onward_jobs (queue, expires_at, id, state)
    WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'available', 'retryable');
CREATE INDEX onward_jobs_owner_idx ON onward_jobs (owner)
    WHERE state = 'executing';
CREATE INDEX onward_jobs_asked_idx ON onward_jobs (owner)
    WHERE cancel_reason IS NOT NULL;
-- Whether a session holds any job with a key at all: then, and only then, settling looks at holds.
CREATE INDEX onward_jobs_keyed_idx ON onward_jobs (owner)
    WHERE state = 'executing' AND (idempotency_key IS NOT NULL OR single_instance IS NOT NULL);
CREATE UNIQUE INDEX onward_jobs_held_idx ON onward_jobs (key_held)
    WHERE key_held IS NOT NULL;
-- Jobs that wait for a hold, in claim order.
CREATE INDEX onward_jobs_once_idx ON onward_jobs (idempotency_key, rank, available_at, id)
    WHERE idempotency_key IS NOT NULL AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL;
CREATE INDEX onward_jobs_single_idx ON onward_jobs (single_instance, rank, available_at, id)
    WHERE single_instance IS NOT NULL AND state = 'scheduled' AND waits > 0 AND parked_since IS NULL;
-- The members of a flow that are live, by node.
CREATE INDEX onward_jobs_flow_idx ON onward_jobs (flow, node, id)
    WHERE flow IS NOT NULL;

CREATE TABLE onward_finished (
    id TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,                            -- completed, discarded, cancelled
    finished_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    job TEXT NOT NULL,
    rank INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    started_at INTEGER,
    expires_at INTEGER,
    owner TEXT,
    waits INTEGER NOT NULL,
    parked_since INTEGER,
    unique_key TEXT,
    idempotency_key TEXT,
    idempotency_ttl INTEGER NOT NULL,
    single_instance TEXT,
    lane TEXT,
    cost INTEGER,
    flow TEXT,
    node TEXT,
    fingerprint TEXT,                               -- of a discarded job: that of its newest run; null in all others
    reason TEXT,
    progress BLOB,
    result BLOB,
    sealed BLOB,                                    -- null: only a tombstone
    CHECK (id <> '' AND state IN ('completed', 'discarded', 'cancelled'))
) STRICT;

-- Completed jobs pay for no index but their key: retention walks the ids, which rise with time.
CREATE INDEX onward_finished_discarded_idx ON onward_finished (id, state) WHERE state = 'discarded';
CREATE INDEX onward_finished_cancelled_idx ON onward_finished (id, state) WHERE state = 'cancelled';
CREATE INDEX onward_finished_tombstone_idx ON onward_finished (id, sealed) WHERE sealed IS NULL;
CREATE INDEX onward_finished_flow_idx ON onward_finished (flow, node, state, id) WHERE flow IS NOT NULL;
-- Dead jobs by group.
CREATE INDEX onward_finished_deaths_idx ON onward_finished (job, fingerprint, id) WHERE fingerprint IS NOT NULL;

-- The record of every run that did not succeed, and the evidence that a repeated settlement was applied.
CREATE TABLE onward_attempts (
    job_id TEXT NOT NULL,
    token INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    move TEXT NOT NULL,
    state TEXT NOT NULL,                            -- where the job went
    at INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    owner TEXT,                                     -- the session that ran it
    ran_by TEXT,                                    -- host, pid and build of its worker, as JSON
    fingerprint TEXT NOT NULL DEFAULT '',           -- the same for the same failure
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    traceback TEXT NOT NULL,
    PRIMARY KEY (job_id, token),
    CHECK (token BETWEEN 0 AND 2147483647 AND attempt BETWEEN 0 AND 2147483647 AND at BETWEEN 0 AND 253402300799999999)
) STRICT;

CREATE TABLE onward_sessions (
    owner TEXT NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    lease_for INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    description BLOB NOT NULL DEFAULT x'',          -- what the worker says of itself, as JSON
    CHECK (expires_at BETWEEN 0 AND 253402300799999999 AND lease_for BETWEEN 1 AND 253402300799999999)
) STRICT, WITHOUT ROWID;

CREATE TABLE onward_queues (
    name TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER,                              -- null: it is open
    reserved_for TEXT                               -- a transfer that has not ended: it stays paused
) STRICT, WITHOUT ROWID;

-- Pointers to the lease that holds a key: valid while that lease is, or until `done_until` once a success confirmed it.
CREATE TABLE onward_holds (
    kind TEXT NOT NULL,                             -- once (idempotency key), single (one instance at a time)
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    token INTEGER NOT NULL,
    done_until INTEGER,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_holds_done_idx ON onward_holds (done_until) WHERE done_until IS NOT NULL;

-- What a job has written down for its later runs, and the signals that came for it.
CREATE TABLE onward_notes (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,                             -- the kind is its first character: = step, ~ sleep, ! signal
    at INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

-- Who did what by hand.  Entries go with their job; those of no job are kept for 90 days.
CREATE TABLE onward_audit (
    number INTEGER PRIMARY KEY,                     -- the order of entries of one instant
    job_id TEXT NOT NULL,                           -- '': it is about no job
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    act TEXT NOT NULL,
    detail TEXT NOT NULL,                           -- the reason that was given
    ref TEXT NOT NULL,                              -- a queue, a schedule, a flow, a larger act; or ''
    signature TEXT NOT NULL,
    CHECK (at BETWEEN 0 AND 253402300799999999)
) STRICT;

CREATE INDEX onward_audit_job_idx ON onward_audit (job_id, at);
CREATE INDEX onward_audit_ref_idx ON onward_audit (ref, at);
CREATE INDEX onward_audit_who_idx ON onward_audit (who, at);
CREATE INDEX onward_audit_at_idx ON onward_audit (at);

-- Every change of a schedule compares and raises its version: of two processes that book a tick, one finds the other's.
CREATE TABLE onward_schedules (
    name TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    origin TEXT NOT NULL,                           -- code, runtime
    fingerprint TEXT NOT NULL,                      -- of the specification before it was signed and encrypted
    declared_at INTEGER NOT NULL,                   -- when the process that declared it started
    booked_until INTEGER NOT NULL,
    paused_at INTEGER,
    seen_at INTEGER NOT NULL,
    missed INTEGER NOT NULL DEFAULT 0,
    sealed BLOB NOT NULL,
    CHECK (origin IN ('code', 'runtime') AND version > 0 AND missed >= 0)
) STRICT, WITHOUT ROWID;

-- One row for each limit, never one for each key.  Null: nothing is bounded.
CREATE TABLE onward_limits (
    kind TEXT NOT NULL,                             -- queue, job, key (each key of a job)
    name TEXT NOT NULL,                             -- of the queue or the job
    declared_at INTEGER NOT NULL DEFAULT 0,         -- when the process that declared it started
    declared_running INTEGER,
    declared_tokens INTEGER,                        -- so many starts
    declared_period INTEGER,                        -- in so many microseconds
    declared_burst INTEGER,                         -- so many of them at once
    chosen_running INTEGER,                         -- by people: these beat the declared ones
    chosen_tokens INTEGER,
    chosen_period INTEGER,
    chosen_burst INTEGER,
    PRIMARY KEY (kind, name),
    CHECK (kind IN ('queue', 'job', 'key') AND name <> '' AND declared_at BETWEEN 0 AND 253402300799999999
           AND declared_running BETWEEN 1 AND 1000000 AND chosen_running BETWEEN 1 AND 1000000
           AND declared_tokens BETWEEN 1 AND 1000000 AND chosen_tokens BETWEEN 1 AND 1000000
           AND declared_period BETWEEN 1 AND 86400000000 AND chosen_period BETWEEN 1 AND 86400000000
           AND declared_burst BETWEEN 1 AND 1000000 AND chosen_burst BETWEEN 1 AND 1000000),
    CHECK ((declared_tokens IS NULL) = (declared_period IS NULL) AND (declared_tokens IS NULL) = (declared_burst IS NULL)
           AND (chosen_tokens IS NULL) = (chosen_period IS NULL) AND (chosen_tokens IS NULL) = (chosen_burst IS NULL))
) STRICT, WITHOUT ROWID;

-- What is left of a rate, and what was shut: a queue, all lanes of a job, or a lane.  A gate that is full and open has no row.
CREATE TABLE onward_gates (
    queue TEXT NOT NULL,                            -- '': counted over all queues
    lane TEXT NOT NULL,                             -- '': all jobs of the queue
    full_at INTEGER NOT NULL DEFAULT 0,             -- when all tokens are there again
    charged_at INTEGER NOT NULL DEFAULT 0,          -- when that was written
    shut_until INTEGER NOT NULL DEFAULT 0,
    shut_for INTEGER NOT NULL DEFAULT 0,            -- by a breaker: for so long afterwards one run at a time probes
    PRIMARY KEY (queue, lane),
    CHECK (full_at BETWEEN 0 AND 253402300799999999 AND charged_at BETWEEN 0 AND 253402300799999999
           AND shut_until BETWEEN 0 AND 253402300799999999 AND shut_for BETWEEN 0 AND 253402300799999999)
) STRICT, WITHOUT ROWID;

-- Flows and their nodes.  How many jobs of a node are live is never counted in a row: it is looked up.
CREATE TABLE onward_flows (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    stop_on_failure INTEGER NOT NULL,
    closed INTEGER NOT NULL,                        -- 0: jobs are still added from outside
    stopped INTEGER NOT NULL DEFAULT 0,
    cancelled TEXT,                                 -- not null: it was cancelled as a whole, and why
    over_at INTEGER,
    unswept INTEGER NOT NULL DEFAULT 0,             -- 1: a node of it has jobs that are to be made due, cancelled or replayed
    replayed INTEGER NOT NULL DEFAULT 0,            -- jobs that the last retry of it has replayed
    CHECK (id <> '' AND stop_on_failure IN (0, 1) AND closed IN (0, 1) AND stopped IN (0, 1) AND unswept IN (0, 1)),
    CHECK (created_at BETWEEN 0 AND 253402300799999999
           AND (over_at IS NULL OR over_at BETWEEN 0 AND 253402300799999999))
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_flows_running_idx ON onward_flows (id) WHERE over_at IS NULL;
CREATE INDEX onward_flows_name_idx ON onward_flows (name, id);

CREATE TABLE onward_nodes (
    flow TEXT NOT NULL,
    name TEXT NOT NULL,
    place INTEGER NOT NULL,                         -- in the order in which each comes after those that it names
    comes_after TEXT NOT NULL,                      -- names, as JSON
    opens_when TEXT NOT NULL,                       -- succeeded, failed, finished
    state TEXT NOT NULL,
    failed INTEGER NOT NULL DEFAULT 0,              -- 1: a job of it was discarded or cancelled
    total INTEGER NOT NULL DEFAULT 0,               -- jobs that were added to it
    added_at INTEGER,                               -- when the last of them was
    swept TEXT,                                     -- null: all of its jobs are as its state says; else those up to this id
    replays INTEGER NOT NULL DEFAULT 0,             -- its failed jobs are replayed first: 2, and a retry of the flow counts them; 1
    PRIMARY KEY (flow, name),
    CHECK (opens_when IN ('succeeded', 'failed', 'finished') AND failed IN (0, 1) AND total >= 0 AND replays IN (0, 1, 2)
           AND (added_at IS NULL OR added_at BETWEEN 0 AND 253402300799999999)),
    CHECK (state IN ('waiting', 'open', 'completed', 'failed', 'passed_over', 'skipped') AND json_valid(comes_after))
) STRICT, WITHOUT ROWID;

-- The numbers of a minute: a row for each process that has sent some, until the rows of a stretch are replaced by their sum.
CREATE TABLE onward_series (
    at INTEGER NOT NULL,                            -- when the minute or the stretch began
    width INTEGER NOT NULL,                         -- 0: as it was sent; else the length of the stretch
    reporter TEXT NOT NULL,                         -- '*': the sampler of the minute, and every merged row
    data BLOB NOT NULL,
    PRIMARY KEY (at, reporter),
    CHECK (at BETWEEN 0 AND 253402300799999999 AND width BETWEEN 0 AND 86400000000 AND reporter <> '')
) STRICT;
