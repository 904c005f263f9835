// Written by `python -m tools.web_types write` from src/onward/web/routes.py.  Do not edit.

/** An instant: ISO 8601, in UTC, such as "2030-01-31T12:00:00.25Z". */
export type Instant = string;

/** Something that can be done to a job. */
export interface ActView {
  act: "cancel" | "edit" | "replay" | "retry" | "signal" | "stack";
  possible: boolean;
  /** why not; "": it is possible */
  reason: string;
}

/** An argument of a dead job, for the form in which it is edited. */
export interface ArgumentView {
  name: string;
  /** JSON; masked where it is secret */
  text: string;
  /** it must be typed anew, or left as it is */
  secret: boolean;
  /** in the words of the signature; "": not known */
  type: string;
}

export interface ArrowView {
  /** ids of boxes */
  start: string;
  end: string;
  /** a line through these */
  points: [number, number][];
  critical: boolean;
}

export interface AuditAnswer {
  /** newest first */
  entries: AuditView[];
  /** `before` of the next page; null: there is no more */
  next: string | null;
  /** all words for `act` */
  acts: string[];
}

export interface AuditAsked {
  who?: string | null;
  act?: string | null;
  ref?: string | null;
  job?: string | null;
  limit?: number;
  before?: string | null;
}

/** One act of a person. */
export interface AuditView {
  at: Instant;
  who: string;
  act: string;
  /** the reason that was given */
  detail: string;
  /** what it is about if not a job */
  ref: string;
  /** "": no job */
  job_id: string;
  /** "verified", "unsigned", …; "altered": its signature does not match what it says */
  trust: string;
  place: string;
  /** in one line: "pause mail: deploy of 1.4" */
  text: string;
  /** where to look, relative to the dashboard; "": nowhere */
  page: string;
}

/** A node of a flow, drawn: its place is in units of which a line of text is about 16 high. */
export interface BoxView {
  /** the name of the node; of nodes that are shown as one, a name that no node has */
  id: string;
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
  state: "completed" | "failed" | "open" | "passed_over" | "skipped" | "waiting";
  /** "", "if one failed", "either way" */
  when: string;
  total: number;
  counts: StateCount[];
  /** its jobs in words */
  text: string;
  /** ids of the boxes that it comes after */
  after: string[];
  /** on the longest path that is not over */
  critical: boolean;
  /** how many nodes it stands for; 1 unless the graph is collapsed */
  nodes: number;
  /** that finds its jobs; "": it stands for several nodes */
  filter: string;
}

export interface BulkAsked {
  ticket: string;
  reason?: string;
  /** of a replay */
  fresh?: boolean;
}

/** A line of a bulk act: one for each batch, and a last one with ``over``.  Numbers are of all batches so far. */
export interface BulkLine {
  done: number;
  looked: number;
  skipped: number;
  /** why jobs of this batch were left alone */
  reasons: NameCount[];
  text: string;
  over: boolean;
  /** why it stopped early */
  error: string | null;
}

export interface CanaryBody {
  filter: string;
  /** "all" at the end only */
  steps?: (number | "all")[];
  patience?: string;
  rate?: string;
  reason?: string;
}

/** A line of a canary.  Numbers are of all steps so far. */
export interface CanaryLine {
  happened: "error" | "failed" | "finished" | "impatient" | "passed" | "replayed" | "waiting";
  step: number;
  replayed: number;
  ended: number;
  text: string;
  /** that failed, or is waited for */
  job_id: string | null;
  why: ReasonView | null;
  skipped: number;
  /** it is the last line */
  over: boolean;
  /** it gave up: what was not replayed is still dead */
  stopped: boolean;
}

/** One argument before and after an edit, as JSON text; None: it was not, or is not given. */
export interface ChangeView {
  name: string;
  before: string | null;
  after: string | null;
}

/** One check of health. */
export interface CheckView {
  name: string;
  status: "fail" | "ok" | "warn";
  detail: string;
  /** "": nothing is to be done */
  fix: string;
  /** queues, jobs, hosts or schedules */
  about: string[];
  /** where to look: the path of a page, relative to the dashboard, such as "queues/mail"; "": nowhere */
  page: string;
}

/** A number that was not counted beyond a limit. */
export interface Counted {
  count: number;
  /** shown as "10,000+" */
  or_more: boolean;
}

/** What came of an act on one thing. */
export interface DoneAnswer {
  /** False: there was nothing to change */
  done: boolean;
  text: string;
  /** of the job or flow that was made */
  id: string | null;
}

export interface EditAnswer {
  /** of the new job */
  id: string;
  changes: ChangeView[];
  /** whether the arguments were compared with the job's signature */
  checked: boolean;
  /** of arguments that were not: which of them the job did not have before */
  doubt: string;
  /** False: it was asked for the difference only, or another job holds the unique key */
  enqueued: boolean;
  text: string;
}

export interface EditBody {
  set?: Record<string, string>;
  unset?: string[];
  /** all arguments, instead of the two above */
  payload?: string | null;
  dry_run?: boolean;
  reason?: string;
}

/** Why a request was refused, and what to do.  Every answer from 400 on has this form. */
export interface ErrorAnswer {
  /** a stable word: "unauthorized", "forbidden", "not_found", "bad_request", "conflict", "unsupported", … */
  error: string;
  message: string;
  /** what to do; "": the message says it */
  fix: string;
  /** of a 400: the field of the query or the body that is wrong */
  field: string | null;
  /** of a filter that cannot be read: where, counted from 1 */
  column: number | null;
  /** of a 401: whether a token can be given to `login` */
  login: boolean;
  /** of a 503: the seconds since the store last answered; null: it has not answered yet */
  age: number | null;
}

/** Something that happened to a job, or will. */
export interface EventView {
  at: Instant;
  kind: "audit" | "crashed" | "due" | "ended" | "enqueued" | "failed" | "note" | "retry" | "started";
  text: string;
  /** a traceback */
  detail: string;
  /** host, process and build */
  place: string;
  /** of "ended": the state */
  state: string;
  /** of "audit": its signature does not match */
  altered: boolean;
  is_to_come: boolean;
}

/** A label and a text. */
export interface FactView {
  label: string;
  text: string;
  ok: boolean;
}

export interface FlowAnswer {
  at: Instant;
  flow: FlowView;
  /** the part of its jobs that has ended, between 0 and 1 */
  progress: number;
  graph: GraphView;
  audit: AuditView[];
}

export interface FlowView {
  id: string;
  name: string;
  state: "cancelled" | "completed" | "failed" | "running";
  nodes: number;
  jobs: number;
  created_at: Instant;
  over_at: Instant | null;
  stop_on_failure: boolean;
  /** jobs may still be added from outside */
  is_open: boolean;
}

export interface FlowsAnswer {
  at: Instant;
  /** newest first */
  flows: FlowView[];
  /** `after` of the next page; null: there is no more */
  next: string | null;
}

export interface FlowsAsked {
  name?: string | null;
  running?: boolean;
  limit?: number;
  after?: string | null;
}

export interface FrameView {
  function: string;
  file: string;
  line: number;
  code: string;
}

/** A worker that an earlier look saw and the last one did not. */
export interface GoneWorkerView {
  host: string;
  pid: number;
  at: Instant;
  /** null: it ended in order */
  cause: string | null;
}

/** A graph with its layout: columns from left to right, each box behind those that it comes after. */
export interface GraphView {
  width: number;
  height: number;
  boxes: BoxView[];
  arrows: ArrowView[];
  /** more than 200 nodes: those with the same state and the same neighbours are shown as one */
  collapsed: boolean;
  /** the graph in a sentence, for people who do not see it */
  summary: string;
}

export interface GroupAnswer {
  at: Instant;
  group: GroupView;
  /** why the newest was given up */
  reason: string | null;
  message: string;
  traceback: string;
  /** of the newest hundred */
  hosts: NameCount[];
  builds: string[];
  samples: SampleView[];
}

export interface GroupAsked {
  job?: string | null;
}

/** Dead jobs of one name whose last failure is the same one. */
export interface GroupView {
  job: string;
  fingerprint: string;
  count: number;
  or_more: boolean;
  /** "": no record tells it */
  kind: string;
  /** "file:line in function" */
  place: string | null;
  first: Instant;
  last: Instant;
  builds: string[];
  /** that finds its jobs */
  filter: string;
  /** of this job, whatever the failure, in the last three hours by ten minutes, the newest last */
  deaths: number[];
}

export interface GroupsAnswer {
  at: Instant;
  /** largest first */
  groups: GroupView[];
  /** there are more than the hundred that are shown */
  more: boolean;
  last_death: Instant | null;
}

export interface GroupsAsked {
  queue?: string | null;
  job?: string | null;
  /** how long ago: "2h" */
  since?: string | null;
}

export interface HealthAnswer {
  at: Instant;
  /** worst first */
  checks: CheckView[];
  versions: FactView[];
  /** of the store; `ok`: whether it has it */
  capabilities: FactView[];
}

/** Everything known about one job. */
export interface JobAnswer {
  at: Instant;
  job: JobRowView;
  /** the name by which it is registered, if it has another one */
  handler: string;
  /** null: the store cannot say */
  why: ReasonView | null;
  /** by time */
  timeline: EventView[];
  runs: RunView[];
  notes: NoteView[];
  audit: AuditView[];
  /** when it would run again, if every run fails; without jitter */
  retries: Instant[];
  /** rendered JSON, secrets masked */
  arguments: string;
  /** why they are not shown; "": they are */
  arguments_note: string;
  meta: string;
  /** null: it has none */
  result: string | null;
  result_note: string;
  /** of its end */
  reason: string | null;
  progress: number | null;
  progress_note: string;
  priority: number;
  attempts: number;
  max_attempts: number | null;
  crashes: number;
  interruptions: number;
  available_at: Instant;
  started_at: Instant | null;
  finished_at: Instant | null;
  cancel_requested: boolean;
  waiting_for: string | null;
  owner: string | null;
  /** "host, process 123" */
  worker: string | null;
  flow: string | null;
  node: string | null;
  /** the fingerprint of a dead job */
  group: string | null;
  edited_from: string | null;
  damage: string | null;
  acts: ActView[];
  /** of a dead job with named arguments */
  editable: ArgumentView[];
  as_python: string;
  as_command: string;
  log_url: string | null;
  trace_url: string | null;
}

/** What became of one job's runs in a queue, within the last hour. */
export interface JobNameView {
  name: string;
  ended: number;
  failed: number;
  /** milliseconds */
  run_p50: number | null;
  run_p95: number | null;
}

/** A job in a list. */
export interface JobRowView {
  id: string;
  name: string;
  queue: string;
  state: string;
  enqueued_at: Instant;
  /** the instant that matters in this state */
  when: Instant | null;
  /** waits: for its workflow or a signal, so for no instant */
  when_is: "began" | "due" | "ended" | "waits";
  /** runs of how many: "2/6" */
  tries: string;
  /** the last one, or the reason of the end, in one line */
  error: string | null;
  /** between 0 and 1 */
  progress: number | null;
  lane: string | null;
  flow: string | null;
  damaged: boolean;
}

/** A page of jobs, newest first. */
export interface JobsAnswer {
  at: Instant;
  /** as it was read */
  filter: string;
  jobs: JobRowView[];
  /** `after` of the next page; null: there is no more */
  next: string | null;
  looked: number;
  /** how far it looked, and what was not compared; "": nothing is to be said */
  text: string;
  /** of no job at all: which part of the filter leaves none; "": it is not empty */
  empty: string;
  /** [] where the store cannot count */
  tabs: TabView[];
}

export interface JobsAsked {
  filter?: string;
  limit?: number;
  after?: string | null;
}

export interface LimitBody {
  kind: "job" | "key" | "queue";
  name: string;
  running?: number | null;
  rate?: string | null;
  burst?: number | null;
  reason?: string;
}

export interface LimitGateBody {
  job: string;
  reason?: string;
}

export interface LimitPlaceBody {
  kind: "job" | "key" | "queue";
  name: string;
  reason?: string;
}

/** A limit, where it comes from, and how much of it is used. */
export interface LimitView {
  /** key: each key of a job */
  kind: "job" | "key" | "queue";
  name: string;
  /** how many may run at once */
  running: number | null;
  /** such as "100/min" */
  rate: string | null;
  /** by the code; "": nothing */
  declared: string;
  /** by people, which beats the code; "": nothing */
  chosen: string;
  running_now: number | null;
  tokens: number | null;
  next_token_at: Instant | null;
  is_shut: boolean;
  /** null although it is shut: until it is opened by hand */
  shut_until: Instant | null;
  /** the limit and its use in short */
  text: string;
}

export interface LimitsAnswer {
  at: Instant;
  limits: LimitView[];
}

export interface LoginBody {
  token: string;
}

/** A build of the application that began to run. */
export interface MarkerView {
  at: Instant;
  build: string;
}

/** A name, and how often it was met. */
export interface NameCount {
  name: string;
  count: number;
}

export interface NoBody {
}

export interface NoQuery {
}

/** A step, a sleep, a wait or a signal. */
export interface NoteView {
  kind: "signal" | "sleep" | "step" | "wait";
  name: string;
  at: Instant;
}

/** A minute, or, two hours later, ten minutes.  A time in which no worker ran has no point. */
export interface PointView {
  at: Instant;
  /** how long the point is */
  seconds: number;
  ended: number;
  failed: number;
  per_second: number;
  /** milliseconds, as the next three */
  run_p50: number | null;
  run_p95: number | null;
  wait_p50: number | null;
  wait_p95: number | null;
  depth: number | null;
  /** milliseconds */
  oldest_age: number | null;
}

/** What a bulk act would change. */
export interface PreviewAnswer {
  act: "cancel" | "purge" | "replay" | "retry";
  filter: string;
  count: number;
  /** False: there may be more */
  exact: boolean;
  by_queue: QueueStateCount[];
  samples: JobRowView[];
  /** the act in a sentence: "Replay 312 dead jobs of queue mail" */
  text: string;
  /** what `bulk/run` takes; null: nothing matches */
  ticket: string | null;
  expires_at: Instant | null;
  /** the number has to be typed first */
  destructive: boolean;
}

export interface PreviewBody {
  act: "cancel" | "purge" | "replay" | "retry";
  filter: string;
}

/** What the overview shows, and what every page shows at its edge.  It has an ETag: 304 means "as before". */
export interface PulseAnswer {
  /** of the look: ages are told against it */
  at: Instant;
  /** checks that are not ok, worst first */
  needs_you: CheckView[];
  /** False: the checks have not been made yet */
  checked: boolean;
  /** every state, in the order of a job's life */
  counts: StateCount[];
  /** jobs that ended, between the last two looks */
  per_second: number | null;
  /** the same, of the last looks, the newest last */
  rates: number[];
  /** those in trouble first, then by the age of their oldest due job */
  queues: QueueView[];
  workers: WorkersSummary;
  dead_while_watching: number;
  /** the last five entries */
  audit: AuditView[];
  /** the store holds no job and no worker: the page teaches how to begin */
  empty: boolean;
}

export interface QueueAnswer {
  at: Instant;
  queue: QueueView;
  jobs: JobNameView[];
  limits: LimitView[];
  /** "host, process 123" */
  servers: string[];
  audit: AuditView[];
}

export interface QueueStateCount {
  queue: string;
  state: string;
  count: number;
}

/** A queue at one moment. */
export interface QueueView {
  name: string;
  paused: boolean;
  paused_at: Instant | null;
  /** who, and the reason; only in `queues` and `queues/{queue}` */
  paused_by: string | null;
  /** since when the job that waits for longest could run; null: none is due */
  oldest_due: Instant | null;
  due: Counted;
  running: Counted;
  retryable: Counted;
  scheduled: Counted;
  /** jobs a second, over the last five minutes; null: too few to say */
  rate_in: number | null;
  rate_out: number | null;
  /** seconds until what is due has ended, if nothing is added */
  eta: number | null;
  /** seconds that 95 of 100 runs took at most */
  p95: number | null;
  /** live workers that serve it; null: not known */
  servers: number | null;
  /** the check that it fails, in a word or two: "no worker", "late", "paused"; "": none */
  trouble: string;
  /** in short: "3 of 5 running", "100/min" */
  limits: string[];
  /** due jobs by the minute, of the last hour; null: no worker ran; only in `queues` */
  depth: (number | null)[];
}

export interface QueuesAnswer {
  at: Instant;
  queues: QueueView[];
  /** there are more than the hundred that are shown */
  more: boolean;
}

export interface ReasonBody {
  reason?: string;
}

/** Why a job is where it is. */
export interface ReasonView {
  code: string;
  text: string;
  /** what to type; "": nothing */
  fix: string;
  /** when it passes by itself */
  until: Instant | null;
  /** whether `until` is that instant, or an estimate */
  exact: boolean;
  /** the numbers and ids behind the sentence, as JSON text */
  facts: string;
  /** the codes of what would hold it next */
  then: string[];
  /** the act of this API that does the fix: "retry", "resume", …; null: none does */
  act: string | null;
  /** the other job that the reason names */
  job_id: string | null;
}

export interface ReplayBody {
  reason?: string;
  /** without its notes: steps that were done are done again */
  fresh?: boolean;
}

/** A run that did not succeed. */
export interface RunView {
  attempt: number;
  kind: string;
  message: string;
  traceback: string;
  at: Instant;
  duration_ms: number;
  host: string | null;
  pid: number | null;
  build: string | null;
  fingerprint: string;
}

/** A job that runs. */
export interface RunningView {
  id: string;
  name: string;
  queue: string;
  attempt: number;
  started_at: Instant | null;
  owner: string | null;
  host: string;
  pid: number | null;
  /** between 0 and 1 */
  progress: number | null;
  progress_note: string;
  /** seconds that 95 of 100 runs of this job took at most */
  p95: number | null;
  /** it has run for more than ten times that, and more than a minute */
  slow: boolean;
  /** its process is on this machine, so its stack can be asked for */
  stack_here: boolean;
  /** what to type there instead */
  command: string;
}

/** A dead job of a group. */
export interface SampleView {
  id: string;
  at: Instant;
  arguments: string;
  /** why the arguments are not shown; "": they are */
  note: string;
}

export interface ScheduleAnswer {
  at: Instant;
  schedule: ScheduleView;
  audit: AuditView[];
}

export interface ScheduleView {
  name: string;
  origin: "code" | "runtime";
  /** null, as the next ones, if the specification cannot be read */
  cron: string | null;
  tz: string | null;
  job: string | null;
  flow: string | null;
  queue: string | null;
  arguments: string;
  catch_up: string;
  overlap: string;
  /** "": none */
  spread: string;
  paused_at: Instant | null;
  /** late ticks that did not run */
  missed: number;
  /** why nothing is booked for it */
  problem: string | null;
  /** the check that it fails; "": none */
  late: string;
  /** five; none while it is paused */
  next: TickView[];
  /** the job of the last tick; of one schedule the last twenty, newest first */
  last: JobRowView[];
}

export interface SchedulesAnswer {
  at: Instant;
  schedules: ScheduleView[];
}

/** The points of a chart, in the order of time. */
export interface SeriesAnswer {
  /** the first instant that the chart shows */
  since: Instant;
  until: Instant;
  points: PointView[];
  markers: MarkerView[];
  /** the chart in a sentence, for people who do not see it */
  summary: string;
}

export interface SeriesAsked {
  last?: "1h" | "24h" | "3h" | "7d";
  queue?: string | null;
  job?: string | null;
  /** only points that began after it: those that the page lacks */
  since?: Instant | null;
}

/** Who looks, what that person may do, and what this store can do. */
export interface SessionAnswer {
  name: string;
  role: "admin" | "operator" | "viewer";
  /** the only queues that this person sees, names and patterns; null: all of them */
  queues: string[] | null;
  /** what this person may do: "retry", "cancel", "replay", "signal", "edit", "purge", "pause", … */
  acts: string[];
  unavailable: Record<string, string>;
  title: string;
  read_only: boolean;
  can_log_out: boolean;
  /** seconds between two questions for `pulse` */
  refresh: number;
  /** its URL, without credentials */
  store: string;
  namespace: string;
  version: string;
  build: string;
  /** templates with {job_id}, {from} and {to}; a job's own links are in its answer */
  log_url: string | null;
  trace_url: string | null;
}

export interface SignalBody {
  name: string;
  value?: string;
  /** replace a value that it was told before */
  again?: boolean;
  reason?: string;
}

/** What a job does just now. */
export interface StackAnswer {
  pid: number;
  /** thread or task */
  where: string;
  /** the innermost last */
  frames: FrameView[];
  /** the same as text */
  text: string;
}

/** How many jobs are in a state. */
export interface StateCount {
  state: string;
  count: number;
  or_more: boolean;
}

/** A state, and how many jobs are in it, whatever the filter says. */
export interface TabView {
  state: string;
  count: number;
  or_more: boolean;
}

/** An instant of a schedule. */
export interface TickView {
  at: Instant;
  /** in the zone of the schedule: "Wed 2030-01-02 09:00:00 +0100" */
  local: string;
}

/** A worker process, or a program with a worker inside. */
export interface WorkerView {
  owner: string;
  host: string;
  pid: number;
  version: string;
  build: string;
  alive: boolean;
  renewed_at: Instant;
  expires_at: Instant;
  started_at: Instant | null;
  /** jobs that it holds */
  busy: number;
  slots: number | null;
  /** names and patterns, in the order in which it serves them */
  queues: string[];
  /** it serves a queue only while those before it have nothing due */
  strict: boolean;
  /** how many job names it knows */
  jobs: number | null;
  /** it is a program with a worker inside */
  inside: boolean;
  /** bytes, of a process on this machine */
  rss: number | null;
}

export interface WorkersAnswer {
  at: Instant;
  summary: WorkersSummary;
  /** by host */
  workers: WorkerView[];
  /** longest first */
  running: RunningView[];
  more_running: boolean;
  gone: GoneWorkerView[];
}

/** The workers of a store in numbers. */
export interface WorkersSummary {
  live: number;
  /** not renewed for a whole lease: their jobs are about to be given back */
  expired: number;
  hosts: number;
  slots: number | null;
  busy: number;
}

/** What each route takes and returns.  Paths are relative to the dashboard; braces are filled in, encoded. */
export interface Routes {
  /** Who looks, what they may do, and what the store can do.  (role viewer) */
  "GET api/v1/session": { parameters: null; query: NoQuery; body: null; answer: SessionAnswer; streams: false };
  /** What the overview shows; one look at the store for all who ask within two seconds.  (role viewer) */
  "GET api/v1/pulse": { parameters: null; query: NoQuery; body: null; answer: PulseAnswer; streams: false };
  /** The points of charts.  (role viewer) */
  "GET api/v1/series": { parameters: null; query: SeriesAsked; body: null; answer: SeriesAnswer; streams: false };
  /** Queues, those in trouble first.  (role viewer) */
  "GET api/v1/queues": { parameters: null; query: NoQuery; body: null; answer: QueuesAnswer; streams: false };
  /** One queue.  (role viewer) */
  "GET api/v1/queues/{queue}": { parameters: { queue: string }; query: NoQuery; body: null; answer: QueueAnswer; streams: false };
  /** A page of jobs that match a filter, newest first.  (role viewer) */
  "GET api/v1/jobs": { parameters: null; query: JobsAsked; body: null; answer: JobsAnswer; streams: false };
  /** Everything known about a job.  (role viewer) */
  "GET api/v1/jobs/{id}": { parameters: { id: string }; query: NoQuery; body: null; answer: JobAnswer; streams: false };
  /** Why a job is where it is.  (role viewer) */
  "GET api/v1/jobs/{id}/why": { parameters: { id: string }; query: NoQuery; body: null; answer: ReasonView; streams: false };
  /** The Python stack of a job that runs on this machine.  (role viewer) */
  "GET api/v1/jobs/{id}/stack": { parameters: { id: string }; query: NoQuery; body: null; answer: StackAnswer; streams: false };
  /** Dead jobs in groups, largest first.  (role viewer) */
  "GET api/v1/groups": { parameters: null; query: GroupsAsked; body: null; answer: GroupsAnswer; streams: false };
  /** One group of dead jobs.  (role viewer) */
  "GET api/v1/groups/{fingerprint}": { parameters: { fingerprint: string }; query: GroupAsked; body: null; answer: GroupAnswer; streams: false };
  /** Workers, and the jobs that run.  (role viewer) */
  "GET api/v1/workers": { parameters: null; query: NoQuery; body: null; answer: WorkersAnswer; streams: false };
  /** Schedules, each with its next five times.  (role viewer) */
  "GET api/v1/schedules": { parameters: null; query: NoQuery; body: null; answer: SchedulesAnswer; streams: false };
  /** One schedule, with its last jobs.  (role viewer) */
  "GET api/v1/schedules/{name}": { parameters: { name: string }; query: NoQuery; body: null; answer: ScheduleAnswer; streams: false };
  /** Flows, newest first.  (role viewer) */
  "GET api/v1/flows": { parameters: null; query: FlowsAsked; body: null; answer: FlowsAnswer; streams: false };
  /** One flow as a graph, with its layout.  (role viewer) */
  "GET api/v1/flows/{id}": { parameters: { id: string }; query: NoQuery; body: null; answer: FlowAnswer; streams: false };
  /** Limits, and how much of them is used.  (role viewer) */
  "GET api/v1/limits": { parameters: null; query: NoQuery; body: null; answer: LimitsAnswer; streams: false };
  /** Every check, versions, and what the store can do.  (role viewer) */
  "GET api/v1/health": { parameters: null; query: NoQuery; body: null; answer: HealthAnswer; streams: false };
  /** What people did by hand, newest first.  (role viewer) */
  "GET api/v1/audit": { parameters: null; query: AuditAsked; body: null; answer: AuditAnswer; streams: false };
  /** This API as OpenAPI 3.1.  (open to everybody) */
  "GET api/v1/openapi.json": { parameters: null; query: NoQuery; body: null; answer: Record<string, unknown>; streams: false };
  /** Exchange a token for a cookie.  (open to everybody) */
  "POST api/v1/login": { parameters: null; query: NoQuery; body: LoginBody; answer: SessionAnswer; streams: false };
  /** Remove the cookie.  (open to everybody) */
  "POST api/v1/logout": { parameters: null; query: NoQuery; body: NoBody; answer: DoneAnswer; streams: false };
  /** Stop claims from a queue.  (role operator) */
  "POST api/v1/queues/{queue}/pause": { parameters: { queue: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Allow claims from a queue again.  (role operator) */
  "POST api/v1/queues/{queue}/resume": { parameters: { queue: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Run a waiting job now, or put an ended one back.  (role operator) */
  "POST api/v1/jobs/{id}/retry": { parameters: { id: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Cancel a job that waits, ask one that runs to stop.  (role operator) */
  "POST api/v1/jobs/{id}/cancel": { parameters: { id: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Put a dead or cancelled job back in its queue.  (role operator) */
  "POST api/v1/jobs/{id}/replay": { parameters: { id: string }; query: NoQuery; body: ReplayBody; answer: DoneAnswer; streams: false };
  /** Tell a job what it waits for.  (role operator) */
  "POST api/v1/jobs/{id}/signal": { parameters: { id: string }; query: NoQuery; body: SignalBody; answer: DoneAnswer; streams: false };
  /** Enqueue a dead job with other arguments, as a new job.  (role admin) */
  "POST api/v1/jobs/{id}/edit": { parameters: { id: string }; query: NoQuery; body: EditBody; answer: EditAnswer; streams: false };
  /** Cancel a flow.  (role operator) */
  "POST api/v1/flows/{id}/cancel": { parameters: { id: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Replay what failed in a flow.  (role operator) */
  "POST api/v1/flows/{id}/retry": { parameters: { id: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Enqueue the job of a schedule now.  (role operator) */
  "POST api/v1/schedules/{name}/run": { parameters: { name: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Book nothing more for a schedule.  (role operator) */
  "POST api/v1/schedules/{name}/pause": { parameters: { name: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Book a schedule again, from now on.  (role operator) */
  "POST api/v1/schedules/{name}/resume": { parameters: { name: string }; query: NoQuery; body: ReasonBody; answer: DoneAnswer; streams: false };
  /** Set a limit, which beats the code.  (role operator) */
  "POST api/v1/limits/set": { parameters: null; query: NoQuery; body: LimitBody; answer: DoneAnswer; streams: false };
  /** Let the code decide again.  (role operator) */
  "POST api/v1/limits/clear": { parameters: null; query: NoQuery; body: LimitPlaceBody; answer: DoneAnswer; streams: false };
  /** Start no job of a name any more.  (role operator) */
  "POST api/v1/limits/shut": { parameters: null; query: NoQuery; body: LimitGateBody; answer: DoneAnswer; streams: false };
  /** Start jobs of a name again.  (role operator) */
  "POST api/v1/limits/open": { parameters: null; query: NoQuery; body: LimitGateBody; answer: DoneAnswer; streams: false };
  /** Count what a bulk act would change.  (role operator) */
  "POST api/v1/bulk/preview": { parameters: null; query: NoQuery; body: PreviewBody; answer: PreviewAnswer; streams: false };
  /** Do what was previewed, batch by batch.  (role operator; a stream of lines) */
  "POST api/v1/bulk/run": { parameters: null; query: NoQuery; body: BulkAsked; answer: BulkLine; streams: true };
  /** Replay dead jobs: one, then ten, then the rest, and none after one that fails again.  (role operator; a stream of lines) */
  "POST api/v1/canary": { parameters: null; query: NoQuery; body: CanaryBody; answer: CanaryLine; streams: true };
  /** What the store holds, for Prometheus.  (role viewer) */
  "GET metrics": { parameters: null; query: NoQuery; body: null; answer: string; streams: false };
  /** Whether this process answers.  (open to everybody) */
  "GET livez": { parameters: null; query: NoQuery; body: null; answer: string; streams: false };
  /** Whether the store answers.  (open to everybody) */
  "GET readyz": { parameters: null; query: NoQuery; body: null; answer: string; streams: false };
}

export const API = "api/v1/";
