// Written by scripts/generate.py from the view models of ethogram.viewer. Do not edit.

/** One run against the corridor: `p` is the share of runs at least as far out, itself included. `inside` is None where the corridor is too small for the level. `distance` is over the median of the reference. */
export interface Adherence {
  episode: string;
  task: string;
  p: number;
  inside: boolean | null;
  distance: number | null;
  reference: "all tasks" | "task";
  n: number;
  why: string | null;
}

/** Pairs taken together: of one operator, or of all. `pairs` counts all of them, `delivered` those whose damage reached the agent; shares, distances and the recovery rate are over the delivered ones. `recovery_rate`: of the pairs that took another way, the share that still arrived, by the outcomes where both sides have one, else by the answers. `accuracy_lost` is clean minus disturbed over all attempts as planned, `accuracy_lost_delivered` over the delivered ones. `manifestations_within_floor` is the part of each prevalence that lies within the noise floor, of the same pairs; empty where the floor was not measured. */
export interface Aggregate {
  name: string;
  pairs: number;
  delivered: number;
  mean_d_norm: number | null;
  max_d_norm: number | null;
  within_noise_floor: Estimate | null;
  manifestations: Record<string, Estimate>;
  manifestations_within_floor: Record<string, Estimate>;
  groups: Record<string, Estimate>;
  counts: Record<string, number>;
  recovery_rate: Estimate;
  token_overhead: number | "unavailable";
  accuracy_clean: number | null;
  accuracy_perturbed: number | null;
  accuracy_lost: Estimate;
  accuracy_lost_delivered: Estimate;
}

/** Whether new runs as a whole left the corridor: a permutation test of their distance, at level alpha. */
export interface Alarm {
  raised: boolean | null;
  p: number | null;
  alpha: number;
  distance: number | null;
  K: number;
  untested: number;
  outside: number;
  draws: number;
  seed: number;
  why: string | null;
}

/** What an answer says when there is none: one sentence. */
export interface ApiProblem {
  error: string;
}

/** What helps to read an attempt. `step` is where to begin, `said` what the checks said of it, `reasons` are the causes and leads that it shows. `own` and `other` are aligned steps of this attempt and of the passing one, one sign for each pair: that of a diff from the passing attempt to this one; `≈` is the same call with different arguments, `≠` the same call with another result, or, where nothing else differs, other words of the model. `differs` is the first pair that is not the same, and `first` says so in words. */
export interface AttemptBeside {
  trace: string;
  state: "failed" | "missing" | "passed" | "unscored";
  classes: string[];
  reasons: AttemptReason[];
  step: number | null;
  said: string;
  passing: PassingAttempt | null;
  own: (number | null)[];
  other: (number | null)[];
  signs: string;
  differs: number | null;
  first: string;
  note: string;
}

/** One attempt: its trace, how it ended, and what to say of it. */
export interface AttemptCell {
  trace: string;
  attempt: number;
  state: "failed" | "missing" | "passed";
  words: string;
}

/** A cause or lead that an attempt shows: what happens, at which step, and what to try. */
export interface AttemptReason {
  what: string;
  kind: "cause" | "lead";
  step: number | null;
  try: string;
}

/** A task under one condition, and its attempts. */
export interface AttemptRow {
  task: string;
  condition: string;
  passed: number;
  scored: number;
  cells: AttemptCell[];
}

/** Which attempts of a run, in which order (`down`: largest first), and a window of their tasks. */
export interface AttemptsQuery {
  run?: string;
  filter?: string;
  sort?: "cost" | "errors" | "score" | "seconds" | "steps" | "task" | "tokens";
  down?: boolean;
  first?: number;
  count?: number;
}

/** A window of tasks; `problem` is what is wrong with the filter: then none is shown. */
export interface AttemptsView {
  rows: AttemptRow[];
  tasks: number;
  attempts: number;
  of: number;
  fields: string[];
  problem: string | null;
}

/** Another exploration of the same grid: how it learned over its rounds. */
export interface BaselineCurve {
  run: string;
  strategy: string;
  rounds: RoundPoint[];
}

/** The exploration that others are held beside; not `run`, for the answer changes with other runs too. */
export interface BaselinesQuery {
  exploration: string;
}

/** Other strategies on the same map, and what to type to buy one where there is none. */
export interface BaselinesView {
  curves: BaselineCurve[];
  command: string;
}

/** A trace, and another run whose passing attempts may stand beside it where its own run has none. */
export interface BesideQuery {
  run: string;
  trace: string;
  against?: string;
}

/** The mean success rate of the tasks if every missing attempt had failed, and if every one had passed. */
export interface Bounds {
  worst: number | null;
  best: number | null;
}

/** One choice at a place: how many attempts made it, and how many of those failed. */
export interface Branch {
  choice: string;
  runs: number;
  failed: number;
}

/** A headline figure with what it rests on. */
export interface Card {
  label: string;
  value: string;
  detail: string;
}

/** A window of cards: from card `first`, or so that `step` is in it. */
export interface CardsQuery {
  run: string;
  trace: string;
  only?: "errors" | "model" | "tools" | null;
  first?: number;
  step?: number | null;
  count?: number;
}

/** A window of the turns; `of` is how many there are under the filter. */
export interface CardsView {
  first: number;
  of: number;
  cards: TurnCard[];
}

/** Something that failed runs show, in the order of the failed runs that it accounts for. A cause is more frequent in failures than in successes of the same tasks by one test over everything that was looked at; a lead is not, or could not be tested. `adjusted` is the p-value of that test over all events. `also` are other events that add nothing to this one: they happen in the same runs, or because of it. `rests_on` are failed runs that show it (the first 100), `experiment` is what would settle it, `settled` what one found. `tasks` counts the failed runs with it by task, most first; of a run without scores, all runs with it. */
export interface Cause {
  cause: string;
  what: string;
  class: "bad_args" | "budget" | "gave_up" | "hallucinated_state" | "infrastructure" | "loop" | "wrong_tool" | null;
  source: "class" | "decision" | "event" | "reference" | "template";
  failed_with: number;
  succeeded_with: number;
  share: Estimate;
  lift: number | null;
  examples: Example[];
  owner: string | null;
  try: string;
  runs_with: number;
  excess: number;
  p: number | null;
  adjusted: number | null;
  step: number | null;
  also: string[];
  rests_on: string[];
  experiment: SettlingExperiment | null;
  settled: SettledCause | null;
  tasks: Record<string, number>;
}

/** One attempt: how it ended, what to say of it, and its trace, if it can be opened. */
export interface Cell {
  mark: "fail" | "missing" | "pass";
  words: string;
  trace: string;
}

/** The summary of one field; `text` is all of it as paragraphs. */
export interface Chain {
  K: number;
  tasks: number;
  successes: number;
  failures: number;
  missing: Record<string, number>;
  steps: ChainStep[];
  flags: Flag[];
  advice: "constrain" | "expand" | "look elsewhere" | "mixed" | "not enough evidence" | "nothing to fix";
  advice_text: string;
  rule: "reached" | "visited";
  alpha: number;
  draws: number;
  seed: number;
}

/** One question of the summary: its answer, the same as a sentence, and the numbers behind it. */
export interface ChainStep {
  name: string;
  question: string;
  answer: "no" | "unknown" | "yes";
  text: string;
  estimates: Record<string, Estimate>;
}

/** One bar of the Pareto chart: a class of failure, the failed runs that show it, and who owns it. `covered` is the share of failed attempts that show this class or one above it. */
export interface ClassRow {
  class: "bad_args" | "budget" | "gave_up" | "hallucinated_state" | "infrastructure" | "loop" | "wrong_tool";
  failed_with: number;
  succeeded_with: number;
  share: Estimate;
  covered: number | null;
  owner: string | null;
  try: string;
}

/** One trajectory: where it lies in the plane, and its standardised dimensions, each task's mean taken out. */
export interface CloudPoint {
  trace_id: string;
  task: string;
  outcome: string;
  x: number;
  y: number;
  values: Record<string, number>;
}

/** The points of a run's field. */
export interface CloudQuery {
  run?: string;
  preset?: string;
}

/** Trajectories as points, `of` that many; `explained` are the shares of the variance that both axes carry. */
export interface CloudView {
  explained: number[];
  dimensions: string[];
  points: CloudPoint[];
  of: number;
}

/** Per step against end to end. `per_step` is the share of steps without an error; were errors fatal and independent, a run of its length would end well with `predicted`. `implied` is the per-step reliability that would give the observed rate. */
export interface Compounding {
  steps: number;
  per_step: number;
  predicted: number;
  observed: number;
  implied: number | null;
}

/** Labels by what judge and people said; a label on which people are split counts in part on both sides. */
export interface ConfusionTable {
  both_yes: number;
  judge_yes_people_no: number;
  judge_no_people_yes: number;
  both_no: number;
}

/** These runs against a corridor: gaps per horizon, every run's adherence, and whether they left it as a whole. */
export interface CorridorCheck {
  file: string;
  name: string;
  K: number;
  dimensions: string[];
  not_compared: Record<string, string>;
  rule: "reached" | "visited";
  gaps: CorridorGap[];
  adherence: Adherence[];
  alarm: Alarm;
}

/** One horizon of a field against the corridor. `width_gap` is the essay's W(horizon) - W(corridor); `width_ratio` and `distance` are the default reading; `p` is of a distance of 0, which the interval of `distance` leaves out exactly where p is at most 1 - level. `dimensions` holds the plain centroid gap and its standardised form with interval and p. */
export interface CorridorGap {
  state: string;
  rule: "reached" | "visited";
  K: number;
  width: number;
  width_gap: number;
  width_ratio: Estimate;
  distance: Estimate;
  p: number | null;
  dimensions: DimensionShift[];
  centroid_gap: Record<string, number>;
}

/** A class of model call by what went before it, or another kind of step; `unpriced` calls are not in the cost. */
export interface CostStep {
  step: string;
  kind: string;
  usage: CostUsage;
  cost_usd: number | null;
  share: number | null;
  unpriced: number;
}

/** What a tool's results put into contexts: tokens, tokens as often as they were read, and what reading cost. `unmeasured` results have no text, `unpriced` ones were read by a model without a price; neither is in the figures. `after_usd` is what the model calls right after it cost: what `--route after-tool:NAME=MODEL` would move. */
export interface CostTool {
  tool: string;
  calls: number;
  errors: number;
  tokens: number | null;
  largest: number | null;
  read_tokens: number | null;
  cost_usd: number | null;
  unmeasured: number;
  unpriced: number;
  after_calls: number;
  after_usd: number | null;
}

/** Tokens of leaf model calls; all input is fresh + cached + cache write, output includes reasoning. None means that the log never says, which is not zero. */
export interface CostUsage {
  calls: number;
  fresh: number | null;
  cached: number | null;
  cache_write: number | null;
  output: number | null;
  reasoning: number | null;
}

/** What a run cost, by kind of step and by tool; `unpriced` calls are in no dollar figure. */
export interface CostView {
  cost_usd: number | null;
  per_run: Estimate;
  per_resolved: Estimate;
  by_step: CostStep[];
  by_tool: CostTool[];
  unpriced: number;
  cache_hit_rate: number | null;
  notes: string[];
}

/** Attempts of a task by one version: how many passed (null for other metrics), how many are known, their mean. */
export interface Counted {
  passed: number | null;
  of: number;
  mean: number | null;
}

/** A choice and its price: `fall` is the success rate after it minus that after other choices at the same place. Compared within tasks; the interval holds for all decision points and events at once. `after` are the last steps before it, `step` its position where all runs have the same; `branches` are all ways that runs went on. */
export interface DecisionPoint {
  after: string[];
  choice: string;
  step: number | null;
  reached: number;
  chosen: number;
  fall: Estimate;
  tasks: number;
  p: number | null;
  adjusted: number | null;
  branches: Branch[];
}

/** Two traces by id or by the start of it, each in its run, and a window of their aligned steps. Without `start` the window begins a little before the first step that differs. */
export interface DiffQuery {
  run?: string;
  trace?: string;
  other?: string;
  against?: string;
  start?: number;
  count?: number;
}

/** Two traces compared. `rows` are aligned steps from `start` on, of `of`; `signs` has one character for each step (`=~+-`); `differs` is the first row that differs. */
export interface DiffView {
  first: Side;
  second: Side;
  d_norm: number | null;
  t_star: number | null;
  edits: EditCounts | null;
  manifestation: "answer_changed" | "answer_same" | "baseline_crash" | "catastrophic_failure" | "crash" | "early_termination" | "loop_or_extended_execution" | "no_observable_effect" | "not_comparable" | "silent_semantic_corruption" | "strategy_reroute" | "structural_divergence" | "structural_divergence_recovered" | "structural_divergence_with_outcome_change";
  group: "behavioral_detours" | "by_answer_alone" | "combined_disruption" | "crash" | "no_observable_effect" | "not_comparable" | "silent_corruption";
  rule: string;
  answer_changed: boolean | null;
  token_overhead: number | "unavailable";
  within_noise_floor: boolean | null;
  tail_probability: number | null;
  noise_floor: NoiseFloor;
  warnings: string[];
  unavailable: string | null;
  differs: number | null;
  start: number;
  of: number;
  rows: StepRow[];
  signs: string;
}

/** The position on each side of one aligned row; -1 where a side has none. */
export interface DiffWordsQuery {
  run?: string;
  trace?: string;
  other?: string;
  against?: string;
  first?: number;
  second?: number;
}

/** The words of both sides; `cut` counts the characters that were left out. */
export interface DiffWordsView {
  first: WordsPart[];
  second: WordsPart[];
  cut: number;
}

/** The essay's values, then the default reading: center, separation and skew within tasks, with intervals. `p` is of no difference between success and failure, `adjusted` the same over all dimensions. */
export interface DimensionRow {
  mean: number;
  variance: number;
  separation: number | null;
  skew: number | null;
  description: string;
  estimates: Record<string, Estimate>;
  p: number | null;
  adjusted: number | null;
}

/** How one dimension moved between two fields: the plain difference of means, the default reading, and p. */
export interface DimensionShift {
  name: string;
  difference: number;
  shift: Estimate;
  p: number | null;
  adjusted: number | null;
  separation: Estimate;
  separation_p: number | null;
}

/** A run against another run of the same tasks; without it, its own repeats. */
export interface DistancesQuery {
  run?: string;
  against?: string;
}

/** How far attempts are apart, by task, beside the noise floor; `pairs` are the furthest ones with the other run. */
export interface DistancesView {
  run: string;
  against: string | null;
  tasks: Record<string, TaskDivergence>;
  mean_of_means: number | null;
  noise_floor: NoiseFloor;
  evidence: string | null;
  p_value: number | null;
  pairs: PairRow[];
  of_pairs: number;
  groups: Record<string, Estimate>;
  within_noise_floor: Estimate | null;
  warnings: string[];
}

/** One operator at one intensity: what it cost and how far behaviour moved, over all attempts at that intensity. */
export interface Dose {
  operator: string;
  intensity: number;
  accuracy_lost: Estimate;
  accuracy_perturbed: number | null;
  mean_d_norm: number | null;
  pairs: number;
  delivered: number;
}

/** Edits that turn the first trace into the second. */
export interface EditCounts {
  substitutions: number;
  insertions: number;
  deletions: number;
}

/** An answer as `web/src/load.ts` finds it: of a path, for every query that says at least this. */
export interface Embedded {
  path: string;
  query: Record<string, unknown>;
  answer: unknown;
}

/** What was planned and what came of it. */
export interface EpisodeCounts {
  planned: number;
  run: number;
  scored: number;
  missing: Record<string, number>;
  coverage: number;
}

/** One episode of a run. `totals` are what was recorded; `tokens`, `seconds` and `cost_usd` are the metrics, which are unknown where a part of them is. */
export interface EpisodeRow {
  trace_id: string;
  task: string;
  attempt: number;
  condition: string;
  agent: string;
  score: number | null;
  missing: string | null;
  totals: Totals;
  tokens: number | null;
  seconds: number | null;
  forgotten: string | null;
  cost_usd: number | null;
}

/** A number with its uncertainty: `value` between `low` and `high` at the confidence `level`, by `method`. `low` and `high` are None where no valid interval exists, and `why` says so. `n` counts what `of` names (tasks, attempts, traces, …); `missing` counts what is not in it, by reason. */
export interface Estimate {
  value: number | null;
  low: number | null;
  high: number | null;
  level: number;
  method: string;
  n: number;
  of: string;
  missing: Record<string, number>;
  why: string | null;
}

/** The failing attempt beside a passing one of the same task; `t_star` is the first step that differs. Where there is no passing attempt, or no step differs, `why` says so. */
export interface EvidencePair {
  failing: string;
  failing_run: string;
  passing: string | null;
  passing_run: string | null;
  t_star: number | null;
  t_star_norm: number | null;
  failing_step: string | null;
  passing_step: string | null;
  why: string | null;
}

/** One place to read: a trace, a step of it (None: the whole trace), and its text. */
export interface Example {
  trace: string;
  step: number | null;
  text: string;
}

/** The text at a place. */
export interface Excerpt {
  place: PagePlace;
  text: string;
}

/** A clean and a disturbed attempt with the same seed; `calls_changed` is known where tools were disturbed. `delivered` is false where the damage never reached the agent: no call that it made was changed. */
export interface ExperimentPair {
  operator: string;
  condition: string;
  intensity: number;
  file: string | null;
  attempt: number;
  score_clean: number | null;
  score_perturbed: number | null;
  calls_changed: number | null;
  delivered: boolean;
  pair: PairRow;
}

/** Which exploration. */
export interface ExploreQuery {
  run?: string;
}

/** An exploration as it stands. `tube` are points in the order of their failure rates, `of` that many; `rounds` say how what is known grew. */
export interface ExploreView {
  run: string;
  world: string;
  strategy: string;
  parameters: Record<string, string[]>;
  tau: number;
  zone: number;
  level: number;
  episodes: number;
  safe: number;
  unsafe: number;
  undecided: number;
  established: string;
  missing: Record<string, number>;
  main: ParameterEffect[];
  interactions: ParameterEffect[];
  tube: GridPoint[];
  of: number;
  worst: GridPoint[];
  rounds: RoundPoint[];
  live: boolean;
}

/** What the failed attempt used; None where the log does not say. */
export interface FailureCost {
  usd: number | null;
  tokens: number | null;
  seconds: number | null;
}

/** A field of a run: which dimensions, which runs belong to a state, and a run whose successes are the corridor. */
export interface FieldQuery {
  run?: string;
  rule?: "reached" | "visited";
  preset?: string;
  against?: string;
}

/** A field, summarised in words; `presets` says what each choice of dimensions is for. */
export interface FieldView {
  run: string;
  field: string;
  rule: "reached" | "visited";
  level: number;
  K: number;
  tasks: number;
  successes: number;
  failures: number;
  estimates: Record<string, Estimate>;
  chain: Chain;
  dimensions: Record<string, DimensionRow>;
  horizons: HorizonRow[];
  corridor: CorridorCheck | null;
  presets: Record<string, string>;
  missing: Record<string, number>;
  left_out: Record<string, string>;
  test_method: string;
  notes: string[];
}

/** A text to look for in a trace. */
export interface FindQuery {
  run: string;
  trace: string;
  text: string;
}

/** The first step at which the failing attempt does something else than a passing one of the same task. `at` counts steps from 0; `failing` and `passing` are the signatures there, null where that attempt had ended. Where no such step can be named, `at` is null and `why` says so. */
export interface FirstDifference {
  at: number | null;
  failing: string | null;
  passing: string | null;
  passing_trace: string | null;
  why: string | null;
}

/** A dimension on which successes and failures differ: what to do about it, and the evidence. */
export interface Flag {
  dimension: string;
  action: "constrain" | "expand";
  separation: Estimate;
  skew: Estimate;
  adjusted_p: number;
}

/** The candidate `run` and the baseline `against`; which metric, and the drop that must not slip through. */
export interface GateQuery {
  run?: string;
  against?: string;
  metric?: string;
  margin?: number;
}

/** The verdict with its evidence. `moved` names tasks with a failing attempt, `tasks` has all of them. `difference` is that of all recorded attempts; `at_look` that of the looks which the verdict rests on. `metrics` are all that can be asked for. */
export interface GateView {
  base: string;
  candidate: string;
  metric: string;
  metrics: string[];
  unit: string;
  better: string;
  margin: number;
  verdict: "pass" | "regression" | "undecided";
  why: string;
  difference: Estimate;
  at_look: Estimate;
  decided_at: number | null;
  base_mean: Estimate;
  candidate_mean: Estimate;
  looks: LookRow[];
  planned_looks: number;
  power: number;
  needed: Needed;
  moved: MovedTask[];
  tasks: TaskChange[];
  of_tasks: number;
  layers: LayerComparison | null;
  missing_base: Record<string, number>;
  missing_candidate: Record<string, number>;
  only_base: string[];
  only_candidate: string[];
  facts: Record<string, string[]>;
  warnings: string[];
}

/** One version: when it was made, by whom, why, and what changed since the one before. */
export interface GoldenChange {
  version: string;
  at: string;
  by: string;
  why: string;
  digest: string;
  changes: SuiteChanges;
}

/** All golden sets and incidents of the home. */
export interface GoldenQuery {
}

/** Golden sets by name, and incidents, the newest first, of `of_incidents`. */
export interface GoldenView {
  sets: KnownGolden[];
  incidents: IncidentCard[];
  of_incidents: number;
  open: number;
}

/** One cell: the positions of its values, and the mean failure rate over its points. */
export interface GridCell {
  x: number;
  y: number;
  rate: Estimate;
  episodes: number;
  points: number;
}

/** One point: its settings in words, its rate and what is established of it. */
export interface GridPoint {
  point: number;
  settings: Record<string, string>;
  episodes: number;
  failures: number;
  rate: Estimate;
  verdict: string;
}

/** What is hidden from a person until all questions about a trace are answered. */
export interface HeldBack {
  outcome: string;
  verdicts: SaidVerdict[];
}

/** What an event says: runs that changed or came, and runs that are gone. */
export interface HomeChange {
  changed: string[];
  gone: string[];
}

/** The trajectories that visited, or reached, a state. Plain keys are the essay's, `estimates` the default. */
export interface HorizonRow {
  state: string;
  rule: "reached" | "visited";
  K: number;
  successes: number;
  width: number | null;
  convergence: number | string | null;
  drift: number | null;
  estimates: Record<string, Estimate>;
  mean_outcome: number | null;
  dimensions: Record<string, PlainDimension>;
}

/** An incident as its events make it. */
export interface Incident {
  id: string;
  state: "closed" | "open";
  opened: string;
  closed: string | null;
  title: string;
  facts: IncidentFacts;
  guard: IncidentGuard | null;
  history: IncidentEvent[];
}

/** One incident, and what to do with it now; `gone` are runs of its evidence that the home no longer has. */
export interface IncidentCard {
  incident: Incident;
  next: string;
  gone: string[];
}

/** One thing that happened to an incident: dated, with who and why. */
export interface IncidentEvent {
  event: "closed" | "noted" | "opened" | "reopened";
  at: string;
  by: string;
  why?: string;
  facts?: IncidentFacts | null;
  guard?: IncidentGuard | null;
}

/** What is known of a failure when its incident is opened. `class` is None where no detector recognised one. `rollback` is the command of the playbook, and `rollback_why` says where it comes from or why there is none. */
export interface IncidentFacts {
  task: string;
  agent: string;
  class: string | null;
  classes: string[];
  owner: string | null;
  try: string;
  step: number | null;
  said: string;
  outcome: string;
  evidence: EvidencePair;
  cost: FailureCost;
  rollback: string | null;
  rollback_why: string;
}

/** The golden task that guards against the failure from now on, and its score of the recorded failure. */
export interface IncidentGuard {
  suite: string;
  version: string;
  task: string;
  digest: string;
  failure_score: number;
  said: string;
}

/** What `web/src/load.ts` reads: answers of pages, and in which chunk each attempt is. */
export interface Inside {
  answers: Embedded[];
  chunks: Record<string, number>;
}

/** One judge on one item since it was calibrated; `alarm_at` counts labels until the alarm. `due` traces belong to the audit and have no label yet. `limit` is the agreement that the judge must not fall below: the lower end of what the calibration measured. */
export interface ItemAudit {
  item: string;
  judge: string;
  baseline: Estimate;
  limit: number | null;
  audited: number;
  due: string[];
  now: Estimate;
  periods: Period[];
  e_value: number | null;
  alarm: boolean;
  alarm_at: number | null;
  why: string;
}

/** One judge on one item of a run. `drawn` units were drawn by a sample, and `unlabelled` of them have no label yet. `outside` labels were drawn by none and do not enter; `outside_traces` names the first of them. `unjudged` units got no verdict, `earlier` counts verdicts of other versions of the judge. */
export interface ItemCalibration {
  labels: number;
  judged: number;
  tasks: number;
  confusion: ConfusionTable;
  agreement: Estimate;
  kappa: Estimate;
  ac1: Estimate;
  precision: Estimate;
  recall: Estimate;
  sensitivity: Estimate;
  specificity: Estimate;
  j: Estimate;
  phi: number | null;
  bias: number | null;
  raw: Estimate;
  corrected: Estimate;
  trust: number | null;
  label_worth: number | null;
  runs_multiplier: number | null;
  gate_multiplier: number | null;
  automate: boolean;
  decided: boolean;
  why: string;
  warnings: string[];
  people: People | null;
  weighted_kappa: Estimate | null;
  item: string;
  judge: string;
  version: string;
  drawn: number;
  unlabelled: number;
  outside: number;
  outside_traces: string[];
  unjudged: number;
  earlier: number;
  slices: SliceRate[];
  next: NextLabels | null;
  for_width: LabelsForWidth | null;
}

/** The judges of a run; `against` is the run in which they were calibrated, by default the same one. */
export interface JudgeQuery {
  run?: string;
  against?: string;
}

/** Agreement, corrected rates and audit per item; nothing of it where no judge has spoken. */
export interface JudgeView {
  run: string;
  judged: boolean;
  level: number;
  items: ItemCalibration[];
  notes: string[];
  audit: ItemAudit[];
  audit_share: number;
  audit_level: number;
  against: string;
}

/** A golden set by its name. `version`, `digest`, `history` and `health` are those of the file beside its suite; where `problem` says why it cannot be read, only what runs kept is known. `runs` are the newest first. */
export interface KnownGolden {
  suite: string;
  place: string;
  version: string | null;
  digest: string | null;
  tasks: number | null;
  history: GoldenChange[];
  health: TaskHealth[];
  runs: RanSuite[];
  problem: string | null;
}

/** An answer by hand to one question of the queue. */
export interface LabelQuery {
  run: string;
  trace: string;
  item: string;
  answer: "no" | "unsure" | "yes";
  why?: string;
  by?: string;
}

/** All that samples drew for labelling, in the order to label it; `done` of the rows are answered by `by`. */
export interface LabelQueue {
  run: string;
  by: string;
  judged: boolean;
  sampled: number;
  items: QueueItem[];
  rows: QueueRow[];
  done: number;
}

/** A label of a trace, or of a step of it: a score, a judgement, a note. */
export interface LabelView {
  name: string;
  value: number | boolean | string | null;
  by: string;
  source: string;
  step: number | null;
  why: string;
}

/** What was kept, and how many questions about the trace are left; who may write sees no words by that. */
export interface Labelled {
  trace: string;
  item: string;
  answer: string;
  left: number;
}

/** About how many labels in all give an interval of this half width; None where no number does, and why. */
export interface LabelsForWidth {
  half_width: number;
  labels: number | null;
  why: string;
}

/** One layer in both versions; `adjusted` is the p-value after Holm's rule over the layers that were tested. `difference` is candidate minus base. Its interval holds together with those of the other layers. */
export interface LayerChange {
  layer: "L0" | "L1" | "L2" | "L3";
  name: string;
  state: "fell" | "held" | "not measured" | "rose" | "unsure";
  base: Estimate;
  candidate: Estimate;
  difference: Estimate;
  p: number | null;
  adjusted: number | null;
}

/** All layers, those that moved significantly, and where to look: whom to suspect, and why, in a sentence. `suspects` is empty where nothing fell significantly. `unsettled` says what the layers leave open. */
export interface LayerComparison {
  level: number;
  layers: Record<string, LayerChange>;
  moved: ("L0" | "L1" | "L2" | "L3")[];
  suspects: ("environment" | "plan" | "prompt" | "tools" | "verifier")[];
  look: string;
  unsettled: string;
  notes: string[];
}

/** One planned look; `z` and `bound` may be infinite, which is a word then. */
export interface LookRow {
  look: number;
  runs: number;
  z: number | string | null;
  bound: number | string | null;
  worst_case: number | string | null;
}

/** One task and its attempts. */
export interface MatrixRow {
  task: string;
  cells: Cell[];
  rate: string;
}

/** A task that moved, or with `moved` false one of those that got worse most where no task is sure by itself. `trace` is a failing attempt of the candidate, and `why` what the check said of it; for metrics other than success and score, they are the worst attempt and its value. */
export interface MovedTask {
  task: string;
  base: Counted;
  candidate: Counted;
  moved: boolean;
  worse: boolean;
  q: number | null;
  trace: string | null;
  step: FirstDifference | null;
  why: string | null;
}

/** What it takes to decide: how many more runs at most, how many until the next look, and their price. */
export interface Needed {
  runs: number | null;
  next_look_runs: number | null;
  cost_usd: number | null;
  baseline_runs: number | null;
  why: string | null;
}

/** A trace, and the filter and order of the list that it was opened from. */
export interface NeighboursQuery {
  run: string;
  trace: string;
  filter?: string;
  sort?: "cost" | "errors" | "score" | "seconds" | "steps" | "task" | "tokens";
  down?: boolean;
}

/** Where a trace stands in the list (from 1; 0 where the filter leaves it out), and its neighbours. */
export interface NeighboursView {
  at: number;
  of: number;
  previous: string | null;
  next: string | null;
  siblings: AttemptCell[];
}

/** Which labels to give next: a number per stratum, and the command that draws them. */
export interface NextLabels {
  labels: number;
  rule: string;
  strata: Record<string, number>;
  command: string;
}

/** Distances of a baseline to itself; numbers are None where no task has two runs. `runs` and `pairs` are counted over all tasks; `reruns` is the least R of a task that has any; `without_steps` counts tasks whose runs recorded no step, so that their distances are unavailable. */
export interface NoiseFloor {
  runs: number;
  tasks: number;
  pairs: number;
  reruns: number;
  mean: number | null;
  median: number | null;
  q95: number | null;
  max: number | null;
  without_steps: number;
}

/** An operator that was not applied to a task, and why: known before anything ran. */
export interface NotApplied {
  operator: string;
  task: string;
  why: string;
  file: string | null;
}

/** One operator on one task, over delivered pairs: how many changed their answer or crashed, and the score lost. `changed` counts among `comparable` pairs, those with answers or a crash to go by; `score_lost` is null without scores on both sides. */
export interface OperatorTask {
  operator: string;
  task: string;
  pairs: number;
  delivered: number;
  comparable: number;
  changed: number;
  score_lost: number | null;
}

/** A window of the outline: from row `first`, or so that `step` is in it. `folded` are places whose inside is hidden, with commas between them. */
export interface OutlineQuery {
  run: string;
  trace: string;
  only?: "errors" | "model" | "tools" | null;
  folded?: string;
  first?: number;
  step?: number | null;
  count?: number;
}

/** Rows of the outline as columns. `at` are places in the tree, `inside` counts what is below each, `begin` and `seconds` are on the clock of the trace (`seconds` long in all), or by step where the log has no times. */
export interface OutlineView {
  first: number;
  of: number;
  spans: number;
  timed: boolean;
  whole: number;
  kinds: string[];
  names: string[];
  at: number[];
  depth: number[];
  kind: number[];
  name: number[];
  failed: boolean[];
  step: (number | null)[];
  begin: number[];
  seconds: (number | null)[];
  tokens: (number | null)[];
  inside: number[];
}

/** Words that lead to an attempt, or to a step of it; without a `trace` they are words. */
export interface PagePlace {
  text: string;
  trace: string;
  step: number | null;
}

/** A run against the baseline run of the same attempt (by order where attempts do not match). Where neither run recorded a step, distance, edits and control flow are null: they are unavailable, not 0. */
export interface PairRow {
  task: string;
  baseline_trace: string;
  trace: string;
  d_norm: number | null;
  t_star: number | null;
  t_star_norm: number | null;
  edits: EditCounts | null;
  control_flow_changes: number | null;
  answer_changed: boolean | null;
  answer_sealed: boolean;
  baseline_crashed: boolean;
  crashed: boolean;
  recovered: boolean | null;
  manifestation: "answer_changed" | "answer_same" | "baseline_crash" | "catastrophic_failure" | "crash" | "early_termination" | "loop_or_extended_execution" | "no_observable_effect" | "not_comparable" | "silent_semantic_corruption" | "strategy_reroute" | "structural_divergence" | "structural_divergence_recovered" | "structural_divergence_with_outcome_change";
  group: "behavioral_detours" | "by_answer_alone" | "combined_disruption" | "crash" | "no_observable_effect" | "not_comparable" | "silent_corruption";
  rule: string;
  token_overhead: number | "unavailable";
  within_noise_floor: boolean | null;
  tail_probability: number | null;
}

/** One attempt as `web/src/paper.ts` reads it: the answers of every route of its page. */
export interface PaperTrace {
  trace: string;
  head: TraceView;
  turns: TurnsView;
  outline: OutlineView;
  cards: TurnCard[];
  beside: AttemptBeside;
}

/** How much of the variation of the failure rate one or two parameters explain. */
export interface ParameterEffect {
  parameters: string[];
  share: Estimate;
}

/** One text of a step: the beginning of it, and how long it is. A part of kind `read` was written by `step`. Of a text inside a report `left_out` characters of the middle are gone, and the text says so where they were. */
export interface PartView {
  kind: "arguments" | "call" | "error" | "file" | "input" | "message" | "read" | "reasoning" | "result";
  name: string;
  text: string;
  chars: number;
  step: number | null;
  left_out: number;
}

/** The attempt beside another one; `run` is that which holds it. */
export interface PassingAttempt {
  trace: string;
  run: string;
  attempt: number;
  condition: string;
}

/** How far people agree with each other: no judge can be held to more. `twice` units have two labels or more. */
export interface People {
  people: number;
  twice: number;
  agreement: Estimate;
  alpha: Estimate;
  kappa: Estimate;
}

/** A stretch of audited labels in order of time, of one version of the judge. */
export interface Period {
  version: string;
  from_ns: number;
  to_ns: number;
  labels: number;
  agreement: Estimate;
  j: Estimate;
}

/** An experiment, and which of its pairs are listed: of one operator, of one task, or of one manifestation. */
export interface PerturbationQuery {
  run?: string;
  operator?: string;
  task?: string;
  showed?: string;
}

/** A paired experiment. `aggregates` has one row per operator and `overall` all pairs; `pairs` are those that were asked for, the furthest apart first, `of_pairs` that many. */
export interface PerturbationView {
  run: string;
  agent: string;
  deterministic: boolean;
  planned_pairs: number;
  all_pairs: number;
  delivered_pairs: number;
  noise_floor: NoiseFloor;
  noise_floor_runs: number;
  treatments: Treatment[];
  aggregates: Aggregate[];
  overall: Aggregate;
  by_task: OperatorTask[];
  doses: Dose[];
  not_applicable: NotApplied[];
  missing: Record<string, number>;
  warnings: string[];
  pairs: ExperimentPair[];
  of_pairs: number;
}

/** A chart and what it shows, in words; `svg` is the chart drawn, on its way into a page. */
export interface Picture {
  spec: Record<string, unknown>;
  words: string;
  svg: string;
}

/** One dimension by the essay's definitions: ddof 0, all tasks pooled; None where there is nothing to say. */
export interface PlainDimension {
  mean: number;
  variance: number;
  separation: number | null;
  skew: number | null;
}

/** One question of the queue, and a window of the turns of its trace: from turn `first`, or around `step`. */
export interface QuestionQuery {
  run: string;
  trace: string;
  item: string;
  by?: string;
  first?: number;
  step?: number | null;
  count?: number;
}

/** What is needed to answer one question; the cards hold no labels. */
export interface QuestionView {
  question: QueueQuestion;
  cards: CardsView;
}

/** A question of the queue: what counts as yes and as no. `question` is empty for an item of a rubric of one's own, whose words are not stored, and for a score. */
export interface QueueItem {
  name: string;
  question: string;
  yes: string;
  no: string;
}

/** Whose queue: `by` is the login of the server where it is empty. */
export interface QueueQuery {
  run?: string;
  by?: string;
}

/** One question about one trace. `steps` are those that the item asks about, empty where that is not known; `left` questions about the trace have no answer by this person, and `told` is None as long as there are some. */
export interface QueueQuestion {
  row: QueueRow;
  item: QueueItem;
  steps: number[];
  why: string;
  left: number;
  told: HeldBack | null;
}

/** One trace and one item; `answer` is this person's label, where `answered`. */
export interface QueueRow {
  trace: string;
  task: string;
  attempt: number;
  item: string;
  answered: boolean;
  answer: string | number | boolean | null;
}

/** The suite of one run; `version` is that of the golden set, None where the suite was not frozen. `unrecorded` is what had changed in a frozen suite without a new version, in words. */
export interface RanSuite {
  run: string;
  name: string;
  digest: string;
  version: string | null;
  unrecorded: string | null;
}

/** An attempt that no established cause explains: the step to begin at, what the verifier said, its answer, and an attempt at the same task that passed. */
export interface ReadFirst {
  trace: string;
  task: string;
  attempt: number;
  step: number | null;
  said: string;
  answer: string;
  passing: string | null;
}

/** A cause or a lead: what happens, in how many failed and successful runs, where to read it, what to try. */
export interface ReasonView {
  what: string;
  kind: "cause" | "lead";
  class: string | null;
  failed_with: number;
  succeeded_with: number;
  runs_with: number;
  share: Estimate;
  lift: number | string | null;
  adjusted: number | null;
  owner: string | null;
  try: string;
  also: string[];
  tasks: Record<string, number>;
  examples: Example[];
  experiment: SettlingExperiment | null;
  settled: SettledCause | null;
}

/** pass@k and pass^k along k, what is missing, and what would be if it were not. */
export interface ReliabilityView {
  episodes: EpisodeCounts;
  scored: number;
  passed: number;
  target: string;
  level: number;
  pass_at: Record<string, Estimate>;
  pass_hat: Record<string, Estimate>;
  bounds: Bounds;
  same_tasks: boolean;
  compounding: Compounding | null;
  notes: string[];
}

/** Which run, and the run to compare it with, if any. */
export interface ReportQuery {
  run?: string;
  against?: string;
}

/** A whole report; `against` is the run that it is compared with, if any. */
export interface ReportView {
  run: string;
  against: string | null;
  subtitle: string;
  made: string;
  cards: Card[];
  sections: Section[];
  schema_version: number;
}

/** What was known after a round; `balanced_accuracy` only where the truth is known. */
export interface RoundPoint {
  round: number;
  episodes: number;
  safe: number;
  unsafe: number;
  undecided: number;
  expected_balanced_accuracy: number | null;
  balanced_accuracy: number | null;
  tube_coverage: number;
  status: string;
}

/** A run in a list. What could not be known of it is None, and `problem` says why. */
export interface RunOverview {
  run: string;
  kind: string;
  created_ns: number;
  tags: string[];
  live: boolean;
  episodes: number;
  planned: number | null;
  scored: number;
  missing: Record<string, number>;
  tasks: number;
  agents: string[];
  model: string;
  pass_rate: Estimate | null;
  cost_usd: number | null;
  at_least_usd: number;
  tokens: number | null;
  seconds: number | null;
  problem: string | null;
}

/** Which run: its name, or `latest`. */
export interface RunQuery {
  run?: string;
}

/** What stands at the head of a run's page. `facts` are model, temperature and scaffold; `experiment` says that it pairs clean and disturbed attempts; without `traces` only outcomes are known. */
export interface RunView {
  overview: RunOverview;
  version: string;
  facts: Record<string, string>;
  meta: Record<string, string | number | boolean | null>;
  conditions: string[];
  experiment: boolean;
  traces: number;
}

/** Which runs: a filter, a column to sort by (`down`: largest or newest first), and a window of them. */
export interface RunsQuery {
  filter?: string;
  sort?: "cost" | "created" | "episodes" | "missing" | "name" | "pass" | "tokens";
  down?: boolean;
  first?: number;
  count?: number;
}

/** Runs of a home. `problem` is what is wrong with the filter: then no run is shown. `pending` runs are still being read or searched, and are not in `rows` yet; `unsearched` ones were too large to be searched to their end, or cannot be read. */
export interface RunsView {
  home: string;
  of: number;
  matched: number;
  rows: RunOverview[];
  fields: string[];
  tags: string[];
  pending: number;
  unsearched: string[];
  problem: string | null;
}

/** The verdict of a judge on the whole trace, or on one step. */
export interface SaidVerdict {
  by: string;
  value: string | number | boolean | null;
  step: number | null;
  why: string;
}

/** A part of the report that answers one question, in this order: the answer in a sentence (`lead`, with the place to read first), reasons, paragraphs, attempts, pictures, tables, commands and notes. */
export interface Section {
  id: string;
  title: string;
  lead: string;
  lead_place: PagePlace | null;
  reasons: ShownReason[];
  paragraphs: string[];
  pictures: Picture[];
  tables: TableView[];
  matrix: MatrixRow[];
  commands: string[];
  notes: string[];
}

/** What an experiment found of a cause: attempts that show it, each gone on from its step with what successful attempts chose there (`to`), against what it chose itself (`from`). `effect` is the difference; its interval holds for all causes that were tried at once, wherever it stopped, and counts each attempt once. `confirmed`: it excludes 0; `struck_out`: it lies below the smallest effect that matters; else `not_settled`, and `needed` are the attempts that would settle it if they went as these did, with `needed_usd` as the price of their runs. */
export interface SettledCause {
  status: "confirmed" | "not_settled" | "struck_out";
  what: string;
  effect: Estimate;
  from: Estimate;
  to: Estimate;
  attempts: number;
  runs: number;
  usd: number | null;
  run: string | null;
  command: string;
  why: string;
  needed: number | null;
  needed_usd: number | null;
}

/** What would settle whether a cause is one: a command, at most how many runs it takes, and their price. A `fork` goes on from the step with what a successful attempt chose there; a `gate` compares a changed agent. Where there is no command, or no price, `why` says so. */
export interface SettlingExperiment {
  kind: "fork" | "gate" | null;
  command: string | null;
  runs: number | null;
  usd: number | null;
  why: string | null;
}

/** A cause or a lead: what happens, how often, with examples, what to try first, and what would settle it. */
export interface ShownReason {
  what: string;
  kind: "cause" | "lead";
  facts: string[];
  excerpts: Excerpt[];
  next: string;
  settle: string;
  price: string;
}

/** One of the two traces. */
export interface Side {
  trace_id: string;
  run: string | null;
  task: string;
  attempt: number;
  condition: string;
  agent: string;
  score: number | null;
  passed: boolean | null;
  missing: string | null;
  answer: string | null;
  crashed: boolean;
  steps: number;
  turns: number;
  tool_calls: number;
  tokens: Totals;
}

/** Two parameters against each other; `fixed` is a JSON object from other parameters to values in words. */
export interface SliceQuery {
  run?: string;
  x?: string;
  y?: string;
  fixed?: string;
}

/** The raw and the corrected rate of a part of the runs. */
export interface SliceRate {
  by: string;
  value: string;
  judged: number;
  labels: number;
  raw: Estimate;
  corrected: Estimate;
}

/** A slice of the grid; parameters that are not fixed are averaged over. */
export interface SliceView {
  x: string;
  y: string;
  x_values: string[];
  y_values: string[];
  tau: number;
  cells: GridCell[];
}

/** One position of the alignment: `=` the same, `~` another step, `-` only in the first, `+` only in the second. */
export interface StepRow {
  sign: "+" | "-" | "=" | "~";
  first: number | null;
  second: number | null;
  first_signature: string | null;
  second_signature: string | null;
  lane: string;
}

/** One step: its facts, its texts, and its labels. `more` parts are not shown. */
export interface StepView {
  step: number;
  kind: string;
  name: string;
  agent: string;
  failed: boolean;
  seconds: number | null;
  model: string | null;
  prompt_version: string | null;
  context: number | null;
  output_tokens: number | null;
  cost_usd: number | null;
  stop_reason: string | null;
  parts: PartView[];
  more: number;
  labels: LabelView[];
}

/** A fork of one trace: at which step, what kind of change, and its effect on success (changed minus unchanged). `traces` counts the traces that its run forks; the effect is that on this one alone. `change` is None where only the rate without a change was measured. */
export interface StoredFork {
  run: string;
  trace: string;
  at: number;
  change: string | null;
  traces: number;
  pairs: number;
  unchanged_passed: number;
  changed_passed: number;
  effect: Estimate;
  verdict: "lowers" | "negligible" | "raises" | "undecided";
  why: string;
}

/** What differs between two states of a suite, as task ids; `renamed`: only its name, its own version or its order differs. */
export interface SuiteChanges {
  added: string[];
  removed: string[];
  changed: string[];
  reworded: string[];
  renamed: boolean;
}

/** A table as it is read: words, and numbers that are already rounded; a folded one opens under its caption. */
export interface TableView {
  columns: string[];
  rows: ((string | PagePlace)[])[];
  caption: string;
  folded: boolean;
}

/** One attempt: `passed` is None without a score, and `missing` says why; `step` is the one to read first. */
export interface TaskAttempt {
  trace: string;
  attempt: number;
  condition: string;
  agent: string;
  passed: boolean | null;
  score: number | null;
  missing: string | null;
  steps: number;
  step: number | null;
  classes: string[];
}

/** One task in both versions; `q` is its p-value after control of the share of false finds. */
export interface TaskChange {
  task: string;
  base: number | null;
  candidate: number | null;
  n_base: number;
  n_candidate: number;
  difference: number | null;
  p: number | null;
  q: number | null;
  moved: boolean;
}

/** One task: distances over its pairs. `runs` are the run's, `baseline_runs` the baseline's, if there is one. */
export interface TaskDivergence {
  runs: number;
  baseline_runs: number;
  pairs: number;
  mean: number | null;
  max: number | null;
  min: number | null;
}

/** What stored runs say of one task, what was found, and what to do; `needs` says what more it takes to know. `success` is the pass rate over all attempts; `item_rest` the correlation over runs of this task with the others, whose interval holds for all tasks at once; `same_end_other_verdict` the share of attempts that ended alike and were judged differently; `usd_for_its_worth` and `seconds_for_its_worth` are the task's share of the cost over its share of what the suite tells, 1 where it is worth its price. */
export interface TaskHealth {
  task: string;
  runs: number;
  attempts: number;
  success: Estimate;
  item_rest: Estimate;
  same_end_other_verdict: Estimate;
  usd: Estimate;
  seconds: Estimate;
  usd_for_its_worth: Estimate;
  seconds_for_its_worth: Estimate;
  findings: ("at_odds" | "costly" | "dead" | "flaky" | "saturated" | "slow")[];
  advice: "fix the check" | "keep" | "read the task" | "retire" | "split";
  why: string;
  needs: string[];
  guards: string[];
}

/** A task of a run. */
export interface TaskQuery {
  run?: string;
  task?: string;
}

/** The attempts at one task. `branches` are in the order of a tree that is read from top to bottom; `left_out` counts those beyond the first few hundred. `contrast` says on what decision points and causes rest. */
export interface TaskReading {
  run: string;
  task: string;
  rate: Estimate;
  attempts: TaskAttempt[];
  branches: TreeBranch[];
  left_out: number;
  decision_points: DecisionPoint[];
  causes: Cause[];
  contrast: string;
  forks: StoredFork[];
  missing: Record<string, number>;
  notes: string[];
  previous: string | null;
  next: string | null;
}

/** A slice of one text: the `part`th of a step, from character `first`. */
export interface TextQuery {
  run: string;
  trace: string;
  step: number;
  part: number;
  first?: number;
  count?: number;
}

/** What a search found: in `steps` of `of` steps, `times` in all; `at` are their positions. */
export interface TextSearch {
  text: string;
  steps: number;
  of: number;
  times: number;
  at: number[];
}

/** A slice of a text, and how long the whole is. */
export interface TextView {
  text: string;
  first: number;
  chars: number;
}

/** Sums over a trace. Calls of tools and errors are counted over its steps, tokens and cost over leaf model spans, because parents repeat children; None means that the log never said, which is not zero. Of an episode without a trace nobody knows how many steps it took. */
export interface Totals {
  spans?: number;
  steps?: number | null;
  model_calls?: number | null;
  tool_calls?: number | null;
  errors?: number | null;
  input_tokens?: number | null;
  cache_read_tokens?: number | null;
  cache_write_tokens?: number | null;
  output_tokens?: number | null;
  reasoning_tokens?: number | null;
  cost_usd?: number | null;
}

/** Which trace: a run, and the start of the trace's id. */
export interface TraceQuery {
  run: string;
  trace: string;
}

/** What stands at the head of a trace. `input` is the first thing that was asked, `target` what the log says was wanted; `problem` says why words could not be read. */
export interface TraceView {
  attempt: EpisodeRow;
  state: "failed" | "missing" | "passed";
  tokens: number | null;
  input: string;
  answer: string | null;
  target: string | null;
  limit: string | null;
  source: string | null;
  spans: number;
  steps: number;
  turns: number;
  errors: number | null;
  labels: LabelView[];
  meta: Record<string, string>;
  problem: string | null;
}

/** A condition of an experiment: which operator, on what, how strongly, and what it changed in words. */
export interface Treatment {
  condition: string;
  operator: string;
  kind: string;
  intensity: number;
  file: string | null;
  tasks: string[];
  summary: string;
}

/** Steps that some attempts have in common, in words, after a branching; and how often those attempts succeed. `depth` counts branchings before it, `parent` is its place in the list, `at` the position of its first step. `rate` is over the scored attempts that came here; `traces` are all that did, `ended` those whose last step is here. */
export interface TreeBranch {
  depth: number;
  parent: number | null;
  at: number;
  steps: string[];
  scored: number;
  passed: number;
  rate: Estimate;
  traces: string[];
  ended: string[];
}

/** A turn: a call of a model, or a message of a user, and the steps that follow it. A report may leave `left_out` steps out, of this turn and before it. */
export interface TurnCard {
  turn: number;
  steps: StepView[];
  left_out: number;
}

/** The turns of a trace as columns, several to a point where there are many: the first step, the largest context (all input tokens) and all output tokens of each point, and whether something failed. */
export interface TurnsView {
  turns: number;
  step: number[];
  context: (number | null)[];
  output: (number | null)[];
  cost_usd: (number | null)[];
  failed: boolean[];
}

/** Why a run fails. `failed` is None in a run without scores; then everything is a lead. */
export interface WhyView {
  headline: string;
  runs: number;
  scored: number;
  failed: number | null;
  explained: number | null;
  unexplained: number | null;
  reasons: ReasonView[];
  more_reasons: number;
  read: ReadFirst[];
  classes: ClassRow[];
  layers: Record<string, Estimate>;
  look: string;
  contrast: string;
  score_with: string[];
  notes: string[];
}

/** One text of a step. `name` is the role of a message or the tool of a call; a part of kind `read` has no text of its own: step `step` wrote it. */
export interface WordsPart {
  kind: "arguments" | "call" | "error" | "file" | "input" | "message" | "read" | "reasoning" | "result";
  text: string;
  name: string;
  step: number | null;
}

export interface Routes {
  "/api/runs": { method: "GET"; query: RunsQuery; answer: RunsView };
  "/api/run": { method: "GET"; query: RunQuery; answer: RunView };
  "/api/run/why": { method: "GET"; query: RunQuery; answer: WhyView };
  "/api/run/reliability": { method: "GET"; query: RunQuery; answer: ReliabilityView };
  "/api/run/cost": { method: "GET"; query: RunQuery; answer: CostView };
  "/api/report": { method: "GET"; query: ReportQuery; answer: ReportView };
  "/api/run/attempts": { method: "GET"; query: AttemptsQuery; answer: AttemptsView };
  "/api/trace": { method: "GET"; query: TraceQuery; answer: TraceView };
  "/api/trace/neighbours": { method: "GET"; query: NeighboursQuery; answer: NeighboursView };
  "/api/trace/beside": { method: "GET"; query: BesideQuery; answer: AttemptBeside };
  "/api/trace/outline": { method: "GET"; query: OutlineQuery; answer: OutlineView };
  "/api/trace/turns": { method: "GET"; query: TraceQuery; answer: TurnsView };
  "/api/trace/cards": { method: "GET"; query: CardsQuery; answer: CardsView };
  "/api/trace/text": { method: "GET"; query: TextQuery; answer: TextView };
  "/api/trace/find": { method: "GET"; query: FindQuery; answer: TextSearch };
  "/api/diff": { method: "GET"; query: DiffQuery; answer: DiffView };
  "/api/diff/words": { method: "GET"; query: DiffWordsQuery; answer: DiffWordsView };
  "/api/distances": { method: "GET"; query: DistancesQuery; answer: DistancesView };
  "/api/gate": { method: "GET"; query: GateQuery; answer: GateView };
  "/api/task": { method: "GET"; query: TaskQuery; answer: TaskReading };
  "/api/field": { method: "GET"; query: FieldQuery; answer: FieldView };
  "/api/field/cloud": { method: "GET"; query: CloudQuery; answer: CloudView };
  "/api/explore": { method: "GET"; query: ExploreQuery; answer: ExploreView };
  "/api/explore/baselines": { method: "GET"; query: BaselinesQuery; answer: BaselinesView };
  "/api/explore/slice": { method: "GET"; query: SliceQuery; answer: SliceView };
  "/api/perturbation": { method: "GET"; query: PerturbationQuery; answer: PerturbationView };
  "/api/golden": { method: "GET"; query: GoldenQuery; answer: GoldenView };
  "/api/judge": { method: "GET"; query: JudgeQuery; answer: JudgeView };
  "/api/judge/queue": { method: "GET"; query: QueueQuery; answer: LabelQueue };
  "/api/judge/question": { method: "GET"; query: QuestionQuery; answer: QuestionView };
  "/api/judge/label": { method: "POST"; query: LabelQuery; answer: Labelled };
}
