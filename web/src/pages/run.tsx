// One run: why it fails first, then how reliable it is, what is missing, what it cost, and every attempt.
import { useEffect } from "preact/hooks";
import { href } from "../address";
import { offline, useAnswer } from "../load";
import type { CostView, Estimate, ReliabilityView, RunView, WhyView } from "../models";
import { Bars, Curves } from "../parts/charts";
import { Section } from "../parts/section";
import { Empty, Failed, Loading } from "../parts/states";
import { between, count, dollars, NONE, percent, plural, seconds, short, when } from "../words";
import { Attempts } from "./run-attempts";
import { Why } from "./run-why";
import type { PageProps } from "./registry";
import "./run.css";

export default function Run({ params }: PageProps) {
  const run = params.run ?? "latest";
  const head = useAnswer("/api/run", { run });
  const query = head.answer && head.answer.overview.episodes > 0 ? { run } : null;
  const traced = head.answer && head.answer.traces > 0 ? query : null;
  const why = useAnswer("/api/run/why", traced);
  const reliability = useAnswer("/api/run/reliability", query);
  // a table of outcomes may state what they cost; an exploration without traces does not
  const priced = head.answer?.overview.kind === "explore" ? traced : query;
  const cost = useAnswer("/api/run/cost", priced);
  const name = head.answer?.overview.run ?? run;
  useEffect(() => {
    document.title = `${name} · Ethogram`;
  }, [name]);
  if (head.failure) return <Failed failure={head.failure} />;
  if (head.answer && !query) return <NoEpisode view={head.answer} />;
  return (
    <div class="page run">
      {head.answer ? <Head view={head.answer} /> : <Loading lines={2} />}
      {head.answer && <Figures head={head.answer} reliability={reliability.answer} cost={cost.answer} />}
      <div class="parts">
        <div class="wide">
          {head.answer && !traced ? (
            <NoTraces view={head.answer} />
          ) : (
            <Section title="Why does it fail?" loaded={why} lines={5}>
              {(answer) => <Why run={name} why={answer} />}
            </Section>
          )}
        </div>
        {(!head.answer || priced) && (
          <div class="wide">
            <Attempts run={run} params={params} />
          </div>
        )}
        <div class="column">
          <Section title="Is it reliable?" loaded={reliability} lines={6}>
            {(answer) => <Reliability view={answer} />}
          </Section>
          <Section title="What is missing?" loaded={reliability} lines={3}>
            {(answer) => <MissingPart view={answer} run={name} />}
          </Section>
        </div>
        <div class="column">
          {(!head.answer || traced) && (
            <Section title="What goes wrong, and who owns it" loaded={why} lines={6}>
              {(answer) => <Pareto why={answer} />}
            </Section>
          )}
          {(!head.answer || priced) && (
            <Section title="What does it cost?" loaded={cost} lines={6}>
              {(answer) => <Cost view={answer} />}
            </Section>
          )}
        </div>
      </div>
    </div>
  );
}

/** Outcomes without traces: where they lie can be seen, what went wrong in them cannot. */
function NoTraces({ view }: { view: RunView }) {
  const { kind, run } = view.overview;
  return (
    <section class="part">
      <h2>Why does it fail?</h2>
      <p>This run keeps outcomes and no traces, so nobody can read what went wrong.</p>
      {kind === "explore" && (
        <p>
          <a class="button" href={href("explore", { run })}>
            See in which settings it fails
          </a>
        </p>
      )}
    </section>
  );
}

function NoEpisode({ view }: { view: RunView }) {
  const { live, run } = view.overview;
  const hint = live ? "Somebody writes to it: episodes appear here as they are committed." : "Import something into it, for example:";
  return (
    <div class="page run">
      <Head view={view} />
      <Empty title="No episode yet" hint={hint} command={live ? undefined : `ethogram import PATH --run ${run}`} />
    </div>
  );
}

function Head({ view }: { view: RunView }) {
  const { overview, facts } = view;
  const said = [
    overview.kind,
    ...Object.entries(facts).map(([name, value]) => (value === "unknown" ? "" : name === "model" ? value : `${name} ${value}`)),
    overview.agents.slice(0, 3).join(", "),
    when(overview.created_ns),
  ];
  return (
    <div class="head">
      <h1>{overview.run}</h1>
      {overview.live && <span class="tag live">running</span>}
      {overview.tags.map((tag) => (
        <a key={tag} class="tag" href={href("runs", { filter: `tag:${tag}` })}>
          {tag}
        </a>
      ))}
      <p class="muted facts">{said.filter(Boolean).join(" · ")}</p>
    </div>
  );
}

function Figures({ head, reliability, cost }: { head: RunView; reliability: ReliabilityView | null; cost: CostView | null }) {
  const { overview } = head;
  const ks = Object.keys(reliability?.pass_hat ?? {}).map(Number);
  const most = Math.max(...ks, 0);
  const hat = reliability?.pass_hat[String(most)];
  const missing = Object.values(overview.missing).reduce((sum, n) => sum + n, 0);
  const planned = overview.planned ?? overview.episodes;
  return (
    <dl class="figures">
      <Share name="pass@1" title="one attempt passes" estimate={overview.pass_rate} />
      {hat && most > 1 && <Share name={`pass^${most}`} title={`all of ${most} attempts pass`} estimate={hat} />}
      <Figure name="scored" value={count(overview.scored)} note={`of ${count(planned)}; ${count(missing)} missing`} />
      <Figure name="tasks" value={count(overview.tasks)} note={`${plural(overview.episodes, "episode")}`} />
      <Figure
        name="cost"
        value={overview.cost_usd !== null ? dollars(overview.cost_usd) : overview.at_least_usd ? (overview.at_least_usd < 0.0001 ? "> $0" : `≥ ${dollars(overview.at_least_usd)}`) : NONE}
        note={cost?.per_resolved.value != null ? `${dollars(cost.per_resolved.value)} per resolved task` : cost?.unpriced ? `${plural(cost.unpriced, "call")} without a price` : overview.cost_usd === null ? "the log has no prices" : `${dollars(overview.cost_usd / Math.max(overview.episodes, 1))} per episode`}
      />
      <Figure name="tokens" value={short(overview.tokens)} note={overview.tokens === null ? "the log counts none" : `${short(overview.tokens / Math.max(overview.episodes, 1))} per episode`} />
      {overview.seconds !== null && <Figure name="time" value={seconds(overview.seconds)} note="mean per episode" />}
    </dl>
  );
}

function Share({ name, title, estimate }: { name: string; title: string; estimate: Estimate | null }) {
  const known = estimate !== null && estimate.value !== null;
  return <Figure name={name} title={title} value={known ? percent(estimate.value) : NONE} note={known ? between(estimate) : (estimate?.why ?? "no scores")} />;
}

function Figure({ name, value, note, title }: { name: string; value: string; note: string; title?: string }) {
  return (
    <div title={title ? `${name}: ${title}; ${note}` : note}>
      <dt>{name}</dt>
      <dd>{value}</dd>
      <dd class="about">{note}</dd>
    </div>
  );
}

function Reliability({ view }: { view: ReliabilityView }) {
  if (view.scored === 0) return <p class="muted">No episode has a score yet. Score the run with <code>ethogram score</code>.</p>;
  const curve = (points: Record<string, Estimate>) => Object.entries(points).map(([k, estimate]) => ({ x: Number(k), estimate }));
  const reasons = new Set([...Object.values(view.pass_at), ...Object.values(view.pass_hat)].map((e) => e.why).filter(Boolean));
  return (
    <>
      <Curves
        label="pass@k and pass^k along k"
        axis="k attempts"
        curves={[
          { name: "pass@k", shape: "circle", points: curve(view.pass_at) },
          { name: "pass^k", shape: "square", points: curve(view.pass_hat) },
        ]}
      />
      <p class="note">
        {count(view.passed)} of {plural(view.scored, "scored attempt")} passed. pass@k: any of k passes; pass^k: all k pass. Intervals ({percent(view.level)}) speak of{" "}
        {view.target === "population" ? "the population of tasks that these were drawn from" : "exactly these tasks, were they attempted again"}.
      </p>
      {view.compounding && view.compounding.per_step < 1 && (
        <p class="note">
          Per step {percent(view.compounding.per_step, 1)} went without an error; over {view.compounding.steps.toFixed(1)} steps that would compound to{" "}
          {percent(view.compounding.predicted)} if every error were fatal. End to end it is {percent(view.compounding.observed)}.
        </p>
      )}
      {!view.same_tasks && <p class="note">Some k are over fewer tasks than others.</p>}
      {[...reasons].slice(0, 2).map((reason) => (
        <p key={reason} class="note">
          {reason}
        </p>
      ))}
    </>
  );
}

function MissingPart({ view, run }: { view: ReliabilityView; run: string }) {
  const gone = Object.entries(view.episodes.missing).sort((a, b) => b[1] - a[1]);
  if (gone.length === 0) return <p class="muted">Nothing: all {count(view.episodes.planned)} planned attempts have a score.</p>;
  const total = gone.reduce((sum, [, n]) => sum + n, 0);
  return (
    <>
      <Bars label="missing attempts by reason" bars={gone.map(([reason, n]) => ({ name: reason, value: n, words: count(n) }))} />
      <p class="note">
        {count(total)} of {count(view.episodes.planned)} planned attempts have no score and are in no rate.
        {view.bounds.worst !== null && view.bounds.best !== null && ` Had all of them failed, the mean success rate would be ${percent(view.bounds.worst)}; had all passed, ${percent(view.bounds.best)}.`}{" "}
        {!offline && <a href={href("run", { run, filter: "is:missing" })}>Show them</a>}
      </p>
    </>
  );
}

function Pareto({ why }: { why: WhyView }) {
  if (why.classes.length === 0) return <p class="muted">No class of failure was recognised.</p>;
  const noun = why.failed === null ? "attempts" : "failed attempts";
  return (
    <>
      <Bars
        label={`classes of failure by ${noun}`}
        bars={why.classes.map((row) => ({
          name: row.class.replace(/_/g, " "),
          value: row.share.value ?? 0,
          words: `${percent(row.share.value)} · ${row.owner ?? "no owner"}`,
          note: `${between(row.share)}; with those above ${percent(row.covered)}; try: ${row.try}`,
          tone: "fail",
        }))}
      />
      <p class="note">
        Share of {noun} that show each class; the classes together cover {percent(why.classes[why.classes.length - 1]?.covered)}. A run may show several. {why.look}
      </p>
    </>
  );
}

function Cost({ view }: { view: CostView }) {
  const priced = view.by_step.some((row) => row.cost_usd !== null && row.cost_usd > 0);
  const tokens = (row: CostView["by_step"][number]) => (row.usage.fresh ?? 0) + (row.usage.cached ?? 0) + (row.usage.cache_write ?? 0) + (row.usage.output ?? 0);
  const rows = view.by_step.filter((row) => (priced ? row.cost_usd : tokens(row))).slice(0, 10);
  if (rows.length === 0) return <p class="muted">The log says neither tokens nor prices.</p>;
  return (
    <>
      <Bars
        label={priced ? "dollars by step" : "tokens by step"}
        bars={rows.map((row) => ({
          name: row.step,
          value: priced ? (row.cost_usd ?? 0) : tokens(row),
          words: priced ? `${dollars(row.cost_usd)} · ${short(tokens(row))}` : `${short(tokens(row))} tokens`,
          note: `${plural(row.usage.calls, "call")}; fresh ${short(row.usage.fresh)}, cached ${short(row.usage.cached)}, output ${short(row.usage.output)} tokens`,
        }))}
      />
      <p class="note">
        {priced ? "Dollars and tokens" : "Tokens"} by what went before the call.
        {view.cache_hit_rate !== null && ` ${percent(view.cache_hit_rate)} of input was read from the cache.`}
        {view.per_run.value !== null && ` ${dollars(view.per_run.value)} per episode.`}
      </p>
      {view.notes.slice(0, 2).map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
    </>
  );
}
