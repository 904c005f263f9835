-- Live and finished jobs are stored apart: the live table stays small however long the history is.  Instants are microseconds
-- UTC, `rank` is the negated priority so that everything sorts upwards.  Text is compared by its bytes.  Keys may end in a
-- space, which every collation that both databases know would pad away: so they are bytes.
--
-- No rollback undoes any of this, and a process may have died half-way: so every statement may be run again.
--
-- There are no partial indexes: every row is in every index, and every index that names `state` is written at each move.  So
-- one index serves all that wait and counts all that run.  `place` is the rank of an available job, 1000 more if it has a lane,
-- so that plain jobs stand side by side and one look tells whether there are others; and 0 of every other.  `line` is the lane of a job that is available or runs; of others it is null, which leaves those in the order of their
-- time.  The server derives both, so no write can forget them.

CREATE TABLE IF NOT EXISTS onward_jobs (
    id varchar(64) NOT NULL PRIMARY KEY,
    queue varchar(100) NOT NULL,
    state varchar(10) NOT NULL,                     -- scheduled, available, executing, retryable
    `rank` bigint NOT NULL,
    available_at bigint NOT NULL,
    expires_at bigint,
    delivery bigint NOT NULL DEFAULT 0,             -- the fencing token: grows with every claim
    max_crashes bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    started_at bigint,
    parked_since bigint,
    idempotency_ttl bigint NOT NULL DEFAULT 0,
    attempts int NOT NULL DEFAULT 0,
    crashes int NOT NULL DEFAULT 0,
    interruptions int NOT NULL DEFAULT 0,
    waits int NOT NULL DEFAULT 0,
    waiting boolean NOT NULL DEFAULT false,         -- for a hold, whenever it is scheduled
    asked boolean NOT NULL DEFAULT false,           -- to cancel
    owner varchar(64),                              -- the session that runs it
    job varchar(200) NOT NULL,
    cancel_reason longtext,
    unique_key varbinary(2500),                     -- as sealed; never changes
    key_held varbinary(2500),                       -- the same while it holds the key, null once that was taken away
    idempotency_key varbinary(2500),
    single_instance varbinary(2500),
    spent longtext,
    -- Null, and so without a byte, in every job that does not use them.
    lane varbinary(1700),                           -- null: the plain line of its queue
    cost int,                                       -- tokens that a start takes, if not 1
    booked boolean,                                 -- true: scheduled for the token of its lane
    flow varchar(64),
    node varchar(200),
    awaits varbinary(810),                          -- what a scheduled job waits for: '' its node, else a signal
    progress longblob,
    sealed longblob NOT NULL,
    place bigint GENERATED ALWAYS AS (CASE WHEN state = 'available' THEN `rank` + CASE WHEN lane IS NULL THEN 0 ELSE 1000 END
                                           ELSE 0 END) STORED,
    line varbinary(1700) GENERATED ALWAYS AS (CASE WHEN lane IS NOT NULL AND state IN ('available', 'executing') THEN lane END) STORED,
    CONSTRAINT CHECK (id <> '' AND state IN ('scheduled', 'available', 'executing', 'retryable') AND (state <> 'executing' OR owner IS NOT NULL)),
    CONSTRAINT CHECK (asked = (cancel_reason IS NOT NULL)),
    CONSTRAINT CHECK (waiting = (waits > 0 AND parked_since IS NULL)),
    -- A walk finds no other lane.  It reads many of them by lines.  (Of a job without a lane only that is looked at: the server
    -- asks at every write.)
    CONSTRAINT CHECK (lane IS NULL OR (locate('/', lane) > 0 AND locate(char(10), lane) = 0 AND lane < x'f48fbfbf'
                                       AND hex(convert(lane USING utf8mb4)) <=> hex(lane))),
    CONSTRAINT CHECK (cost IS NULL OR cost BETWEEN 1 AND 1000000),
    CONSTRAINT CHECK (booked IS NULL OR booked),
    INDEX place_idx (state, queue, place, line, available_at, id),
    INDEX expiry_idx (queue, expires_at, id),
    INDEX owner_idx (owner, asked, id),
    UNIQUE INDEX held_idx (key_held),
    -- Jobs that wait for a hold, in claim order.
    INDEX once_idx (idempotency_key, waiting, `rank`, available_at, id),
    INDEX single_idx (single_instance, waiting, `rank`, available_at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

CREATE TABLE IF NOT EXISTS onward_finished (
    id varchar(64) NOT NULL PRIMARY KEY,
    queue varchar(100) NOT NULL,
    state varchar(10) NOT NULL,                     -- completed, discarded, cancelled
    tombstone boolean NOT NULL,                     -- only the evidence is left
    finished_at bigint NOT NULL,
    `rank` bigint NOT NULL,
    available_at bigint NOT NULL,
    expires_at bigint,
    delivery bigint NOT NULL,
    max_crashes bigint NOT NULL,
    enqueued_at bigint NOT NULL,
    started_at bigint,
    parked_since bigint,
    idempotency_ttl bigint NOT NULL,
    attempts int NOT NULL,
    crashes int NOT NULL,
    interruptions int NOT NULL,
    waits int NOT NULL,
    owner varchar(64),
    job varchar(200) NOT NULL,
    unique_key varbinary(2500),
    idempotency_key varbinary(2500),
    single_instance varbinary(2500),
    lane varbinary(1700),
    cost int,
    flow varchar(64),
    node varchar(200),
    fingerprint varchar(64),                        -- of a discarded job: that of its newest run; null in all others
    dead_job varchar(200) GENERATED ALWAYS AS (CASE WHEN fingerprint IS NOT NULL THEN job END) STORED,
    reason longtext,
    progress longblob,
    result longblob,
    sealed longblob,
    CONSTRAINT CHECK (id <> '' AND state IN ('completed', 'discarded', 'cancelled') AND tombstone = (sealed IS NULL)),
    INDEX state_idx (state, tombstone, id),
    -- Dead jobs by group.  Of every other job it holds two nulls and the id, one behind the other.
    INDEX deaths_idx (dead_job, fingerprint, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- How many jobs have ended so far.  In many rows: a transaction that ends some writes one of them, and holds it until the commit.
CREATE TABLE IF NOT EXISTS onward_ended (
    slot int NOT NULL PRIMARY KEY,
    total bigint NOT NULL
) ENGINE = InnoDB;

-- The record of every run that did not succeed, and the evidence that a repeated settlement was applied.
CREATE TABLE IF NOT EXISTS onward_attempts (
    job_id varchar(64) NOT NULL,
    token bigint NOT NULL,
    at bigint NOT NULL,
    duration_ms bigint NOT NULL,
    attempt int NOT NULL,
    move varchar(10) NOT NULL,
    state varchar(10) NOT NULL,                     -- where the job went
    owner varchar(64),                              -- the session that ran it
    fingerprint varchar(64) NOT NULL DEFAULT '',    -- the same for the same failure
    ran_by longtext,                                -- host, pid and build of its worker, as JSON
    kind longtext NOT NULL,
    message longtext NOT NULL,
    traceback longtext NOT NULL,
    CONSTRAINT CHECK (token BETWEEN 0 AND 2147483647 AND attempt BETWEEN 0 AND 2147483647 AND at BETWEEN 0 AND 253402300799999999),
    PRIMARY KEY (job_id, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Every turn locks its own row here and only renewals write it.
CREATE TABLE IF NOT EXISTS onward_sessions (
    owner varchar(64) NOT NULL PRIMARY KEY,
    expires_at bigint NOT NULL,
    lease_for bigint NOT NULL,
    pid bigint NOT NULL,
    host longtext NOT NULL,
    version longtext NOT NULL,
    description blob NOT NULL,                      -- what the worker says of itself, as JSON
    CONSTRAINT CHECK (expires_at BETWEEN 0 AND 253402300799999999 AND lease_for BETWEEN 0 AND 253402300799999999),
    INDEX expiry_idx (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

CREATE TABLE IF NOT EXISTS onward_queues (
    name varchar(100) NOT NULL PRIMARY KEY,
    paused_at bigint,                               -- null: it is open
    reserved_for varchar(500)                       -- a transfer that has not ended: it stays paused
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Pointers to the lease that holds a key: valid while that lease is, or until `done_until` once a success confirmed it.  A row
-- without a job is a key that is free, since `done_until`.
CREATE TABLE IF NOT EXISTS onward_holds (
    kind varchar(10) NOT NULL,                      -- once (idempotency key), single (one instance at a time)
    `key` varbinary(2500) NOT NULL,
    job_id varchar(64) NOT NULL,
    token bigint NOT NULL,
    done_until bigint,
    PRIMARY KEY (kind, `key`),
    INDEX done_idx (done_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- What a job has written down for its later runs, and the signals that came for it.
CREATE TABLE IF NOT EXISTS onward_notes (
    job_id varchar(64) NOT NULL,
    name varbinary(810) NOT NULL,                   -- the kind is its first character: = step, ~ sleep, ! signal
    at bigint NOT NULL,
    value longblob NOT NULL,
    PRIMARY KEY (job_id, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Who did what by hand.  Entries go with their job; those of no job are kept for 90 days.
CREATE TABLE IF NOT EXISTS onward_audit (
    number bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,  -- the order of entries of one instant
    job_id varchar(64) NOT NULL,                    -- '': it is about no job
    at bigint NOT NULL,
    who varchar(200) NOT NULL,
    act varchar(40) NOT NULL,
    detail varchar(500) NOT NULL,                   -- the reason that was given
    ref varchar(200) NOT NULL,                      -- a queue, a schedule, a flow, a larger act; or ''
    signature varchar(200) NOT NULL,
    INDEX job_idx (job_id, at),
    INDEX ref_idx (ref, at),
    INDEX who_idx (who, at),
    INDEX at_idx (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Every change of a schedule compares and raises its version: of two processes that book a tick, one finds the other's.
CREATE TABLE IF NOT EXISTS onward_schedules (
    name varbinary(810) NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    origin varchar(10) NOT NULL,                    -- code, runtime
    fingerprint varchar(200) NOT NULL,              -- of the specification before it was signed and encrypted
    declared_at bigint NOT NULL,                    -- when the process that declared it started
    booked_until bigint NOT NULL,
    paused_at bigint,
    seen_at bigint NOT NULL,
    missed bigint NOT NULL DEFAULT 0,
    sealed longblob NOT NULL,
    CONSTRAINT CHECK (origin IN ('code', 'runtime') AND version > 0 AND missed >= 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- One row for each limit, never one for each key.  Null: nothing is bounded.
CREATE TABLE IF NOT EXISTS onward_limits (
    kind varchar(10) NOT NULL,                      -- queue, job, key (each key of a job)
    name varbinary(810) NOT NULL,                   -- of the queue or the job
    declared_at bigint NOT NULL DEFAULT 0,          -- when the process that declared it started
    declared_running int,
    declared_tokens int,                            -- so many starts
    declared_period bigint,                         -- in so many microseconds
    declared_burst int,                             -- so many of them at once
    chosen_running int,                             -- by people: these beat the declared ones
    chosen_tokens int,
    chosen_period bigint,
    chosen_burst int,
    CONSTRAINT CHECK (kind IN ('queue', 'job', 'key') AND name <> '' AND declared_at BETWEEN 0 AND 253402300799999999
           AND declared_running BETWEEN 1 AND 1000000 AND chosen_running BETWEEN 1 AND 1000000
           AND declared_tokens BETWEEN 1 AND 1000000 AND chosen_tokens BETWEEN 1 AND 1000000
           AND declared_period BETWEEN 1 AND 86400000000 AND chosen_period BETWEEN 1 AND 86400000000
           AND declared_burst BETWEEN 1 AND 1000000 AND chosen_burst BETWEEN 1 AND 1000000),
    CONSTRAINT CHECK ((declared_tokens IS NULL) = (declared_period IS NULL) AND (declared_tokens IS NULL) = (declared_burst IS NULL)
           AND (chosen_tokens IS NULL) = (chosen_period IS NULL) AND (chosen_tokens IS NULL) = (chosen_burst IS NULL)),
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- What is left of a rate, and what was shut: a queue, all lanes of a job, or a lane.  A gate that is full and open has no row.
CREATE TABLE IF NOT EXISTS onward_gates (
    queue varchar(100) NOT NULL,                    -- '': counted over all queues
    lane varbinary(1700) NOT NULL,                  -- '': all jobs of the queue
    full_at bigint NOT NULL DEFAULT 0,              -- when all tokens are there again
    charged_at bigint NOT NULL DEFAULT 0,           -- when that was written
    shut_until bigint NOT NULL DEFAULT 0,
    shut_for bigint NOT NULL DEFAULT 0,             -- by a breaker: for so long afterwards one run at a time probes
    CONSTRAINT CHECK (full_at BETWEEN 0 AND 253402300799999999 AND charged_at BETWEEN 0 AND 253402300799999999
           AND shut_until BETWEEN 0 AND 253402300799999999 AND shut_for BETWEEN 0 AND 253402300799999999),
    PRIMARY KEY (queue, lane)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Flows and their nodes.  How many jobs of a node are live is never counted in a row: it is looked up.
CREATE TABLE IF NOT EXISTS onward_flows (
    id varchar(64) NOT NULL PRIMARY KEY,
    name varchar(200) NOT NULL,
    created_at bigint NOT NULL,
    stop_on_failure boolean NOT NULL,
    closed boolean NOT NULL,                        -- false: jobs are still added from outside
    stopped boolean NOT NULL DEFAULT false,
    cancelled longtext,                             -- not null: it was cancelled as a whole, and why
    over_at bigint,
    unswept boolean NOT NULL DEFAULT false,         -- a node of it has jobs that are to be made due, cancelled or replayed
    replayed bigint NOT NULL DEFAULT 0,             -- jobs that the last retry of it has replayed
    CONSTRAINT CHECK (id <> '' AND created_at BETWEEN 0 AND 253402300799999999
           AND (over_at IS NULL OR over_at BETWEEN 0 AND 253402300799999999)),
    INDEX over_idx (over_at, id),
    INDEX name_idx (name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

CREATE TABLE IF NOT EXISTS onward_nodes (
    flow varchar(64) NOT NULL,
    name varchar(200) NOT NULL,
    place int NOT NULL,                             -- in the order in which each comes after those that it names
    comes_after longtext NOT NULL,                  -- names, as JSON
    opens_when varchar(10) NOT NULL,                -- succeeded, failed, finished
    state varchar(12) NOT NULL,
    failed boolean NOT NULL DEFAULT false,          -- a job of it was discarded or cancelled
    swept varchar(64),                              -- null: all of its jobs are as its state says; else those up to this id
    replays tinyint NOT NULL DEFAULT 0,             -- its failed jobs are replayed first: 2, and a retry of the flow counts them; 1
    CONSTRAINT CHECK (opens_when IN ('succeeded', 'failed', 'finished') AND json_valid(comes_after)
           AND state IN ('waiting', 'open', 'completed', 'failed', 'passed_over', 'skipped')),
    PRIMARY KEY (flow, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- How many jobs were added to a node, by each call that added some: who adds waits for no other transaction.
CREATE TABLE IF NOT EXISTS onward_additions (
    flow varchar(64) NOT NULL,
    node varchar(200) NOT NULL,
    id varchar(64) NOT NULL,                        -- of the first of these jobs
    at bigint NOT NULL,
    number int NOT NULL,
    CONSTRAINT CHECK (number >= 0 AND at BETWEEN 0 AND 253402300799999999),
    PRIMARY KEY (flow, node, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- The jobs of flows, live and finished ones.  They stand in a table of their own because an index of the jobs
-- would have every job in it.
CREATE TABLE IF NOT EXISTS onward_members (
    flow varchar(64) NOT NULL,
    node varchar(200) NOT NULL,
    id varchar(64) NOT NULL,
    outcome varchar(10) NOT NULL DEFAULT '',        -- '': it is live; else completed, discarded, cancelled
    CONSTRAINT CHECK (outcome IN ('', 'completed', 'discarded', 'cancelled')),
    PRIMARY KEY (flow, node, id),
    INDEX outcome_idx (flow, node, outcome, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;

-- Rows to lock, and nothing else: which of them is locked for a limit follows from its name.  They are always there, for a row
-- that was made just now is waited for, and not skipped.
CREATE TABLE IF NOT EXISTS onward_stripes (
    number int NOT NULL PRIMARY KEY,
    CONSTRAINT CHECK (number BETWEEN 0 AND 1023)
) ENGINE = InnoDB;
INSERT IGNORE INTO onward_stripes (number)
WITH RECURSIVE numbers AS (SELECT 0 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < 31)
SELECT 32 * a.number + b.number FROM numbers AS a CROSS JOIN numbers AS b;

-- The numbers of a minute: a row for each process that has sent some, until the rows of a stretch are replaced by their sum.
CREATE TABLE IF NOT EXISTS onward_series (
    at bigint NOT NULL,                             -- when the minute or the stretch began
    width bigint NOT NULL,                          -- 0: as it was sent; else the length of the stretch
    reporter varchar(64) NOT NULL,                  -- '*': the sampler of the minute, and every merged row
    data mediumblob NOT NULL,
    PRIMARY KEY (at, reporter),
    CONSTRAINT CHECK (at BETWEEN 0 AND 253402300799999999 AND width BETWEEN 0 AND 86400000000 AND reporter <> '')
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_AUTO_RECALC = 0;
