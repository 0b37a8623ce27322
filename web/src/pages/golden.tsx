// Which tasks scores rest on, how they changed and why; what failed in production, and which task guards against it now.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { change, href } from "../address";
import { revision } from "../live";
import { useAnswer } from "../load";
import type { GoldenChange, Incident, IncidentCard, KnownGolden, SuiteChanges, TaskHealth } from "../models";
import { Rate } from "../parts/estimate";
import { Command, Empty, Failed, Loading } from "../parts/states";
import { clean } from "../text";
import { count, dollars, NONE, plural, seconds, shortId, when } from "../words";
import type { PageProps } from "./registry";
import "./golden.css";

export default function Golden({ params }: PageProps) {
  const { answer, failure, loading } = useAnswer("/api/golden", {}, revision(null));
  useEffect(() => {
    document.title = "Golden sets and incidents · Ethogram";
  }, []);
  if (!answer) return failure ? <Failed failure={failure} /> : <Loading lines={8} />;
  if (answer.sets.length === 0 && answer.incidents.length === 0)
    return (
      <Empty title="No golden set and no incident yet" hint="Freeze a suite, and run it: from then on every change to it has a version and a reason." command="ethogram golden freeze SUITE">
        <p class="or">or record a failure of production</p>
        <Command text='ethogram incident open --trace TRACE --why "what happened"' />
      </Empty>
    );
  const state = params.state === "open" || params.state === "closed" ? params.state : "";
  const shown = answer.incidents.filter((one) => !state || one.incident.state === state);
  return (
    <div class="page golden" aria-busy={loading}>
      <div class="head">
        <h1>Golden sets and incidents</h1>
        <span class="muted">
          {plural(answer.sets.length, "set")}, {plural(answer.of_incidents, "incident")}, {count(answer.open)} open
        </span>
      </div>
      {failure && <Failed failure={failure} />}
      {answer.sets.length === 0 && (
        <section class="part">
          <h2>Golden sets</h2>
          <p class="muted">No run of this home ran a frozen suite. Freeze one, and run it:</p>
          <Command text="ethogram golden freeze SUITE" />
        </section>
      )}
      {answer.sets.map((set) => (
        <GoldenPart key={`${set.suite} ${set.place}`} set={set} />
      ))}
      <section class="part">
        <h2>
          Incidents
          {answer.of_incidents > answer.incidents.length && <small>the newest {answer.incidents.length} of {count(answer.of_incidents)}</small>}
          <span class="spring" />
          {answer.incidents.length > 0 && (
            <select aria-label="Which incidents" value={state} onChange={(event) => change({ state: event.currentTarget.value })}>
              <option value="">all</option>
              <option value="open">open</option>
              <option value="closed">closed</option>
            </select>
          )}
        </h2>
        {answer.incidents.length === 0 && (
          <>
            <p class="muted">None was recorded. When an agent fails in production:</p>
            <Command text='ethogram incident open --trace TRACE --why "what happened"' />
          </>
        )}
        {answer.incidents.length > 0 && shown.length === 0 && <p class="muted">None is {state}.</p>}
        <div class="incidents">
          {shown.map((card) => (
            <IncidentPart key={card.incident.id} card={card} />
          ))}
        </div>
      </section>
    </div>
  );
}

function GoldenPart({ set }: { set: KnownGolden }) {
  return (
    <section class="part golden-set">
      <h2>
        {clean(set.suite)} {set.version && <span class="tag on">{set.version}</span>}
        <small>
          {set.tasks !== null && `${plural(set.tasks, "task")} · `}
          {set.digest && <span class="mono">{set.digest.slice(0, 15)}</span>} {clean(set.place)}
        </small>
      </h2>
      {set.problem && (
        <p class="failure">
          <b aria-hidden="true">!</b> {clean(set.problem)}
        </p>
      )}
      <div class="golden-columns">
        {set.history.length > 0 && (
          <div>
            <h3>History</h3>
            <ol class="history">
              {set.history.map((entry) => (
                <Version key={entry.version} entry={entry} />
              ))}
            </ol>
          </div>
        )}
        <div>
          <h3>Runs</h3>
          <ul class="ran">
            {set.runs.map((run) => (
              <li key={run.run}>
                <a href={href("run", { run: run.run })}>{run.run}</a> <span class="tag">{run.version ?? NONE}</span>{" "}
                {run.version !== set.version && set.version && <small class="muted">an earlier version</small>}
                {run.unrecorded && <small class="bad"> ! changed without a version: {clean(run.unrecorded)}</small>}
              </li>
            ))}
          </ul>
        </div>
      </div>
      {set.health.length > 0 && <Health set={set} />}
    </section>
  );
}

const SIGNS: { field: "added" | "removed" | "changed" | "reworded"; sign: string; words: string }[] = [
  { field: "added", sign: "+", words: "added" },
  { field: "removed", sign: "−", words: "removed" },
  { field: "changed", sign: "~", words: "changed checks, files, tools or rules of" },
  { field: "reworded", sign: "≈", words: "changed wording of" },
];
const MOST_NAMES = 8;

function Changes({ changes }: { changes: SuiteChanges }) {
  const told = SIGNS.filter(({ field }) => changes[field].length > 0);
  return (
    <>
      {told.map(({ field, sign, words }) => (
        <span key={field} class={`edit ${field}`}>
          <b aria-hidden="true">{sign}</b> {words} {changes[field].slice(0, MOST_NAMES).map(clean).join(", ")}
          {changes[field].length > MOST_NAMES && ` and ${count(changes[field].length - MOST_NAMES)} more`}
        </span>
      ))}
      {told.length === 0 && changes.renamed && <span class="edit">another name or order</span>}
    </>
  );
}

function day(at: string): string {
  const time = Date.parse(at);
  return Number.isNaN(time) ? at : when(time * 1e6);
}

function Version({ entry }: { entry: GoldenChange }) {
  return (
    <li>
      <p>
        <b>{entry.version}</b> <span class="muted small">{day(entry.at)} · {clean(entry.by)}</span>
      </p>
      <p class="small">
        <Changes changes={entry.changes} />
      </p>
      <p class="said">{clean(entry.why)}</p>
    </li>
  );
}

const ADVICE: Record<TaskHealth["advice"], { sign: string; kind: string }> = {
  keep: { sign: "✓", kind: "on" },
  retire: { sign: "○", kind: "" },
  split: { sign: "✗", kind: "fail" },
  "fix the check": { sign: "✗", kind: "fail" },
  "read the task": { sign: "!", kind: "fail" },
};

function Health({ set }: { set: KnownGolden }) {
  return (
    <details open={set.health.length <= 30}>
      <summary>
        Health of {plural(set.health.length, "task")} <small class="muted">attempts at the tasks as they are frozen now</small>
      </summary>
      <div class="scroll">
        <table class="grid health">
          <thead>
            <tr>
              <th>Task</th>
              <th>Pass rate</th>
              <th class="number">Attempts</th>
              <th class="number">Cost</th>
              <th class="number">Time</th>
              <th>Advice</th>
              <th>Guards</th>
            </tr>
          </thead>
          <tbody>
            {set.health.map((task) => (
              <tr key={task.task}>
                <td class="name">{clean(task.task)}</td>
                <td>
                  <Rate estimate={task.success} />
                </td>
                <td class="number">
                  {count(task.attempts)} <small class="muted">in {plural(task.runs, "run")}</small>
                </td>
                <td class="number">{dollars(task.usd.value)}</td>
                <td class="number">{seconds(task.seconds.value)}</td>
                <td>
                  {task.attempts === 0 ? (
                    <span class="muted">not run yet</span>
                  ) : (
                    <span class={`tag ${ADVICE[task.advice].kind}`} title={task.why}>
                      {ADVICE[task.advice].sign} {task.advice}
                    </span>
                  )}{" "}
                  <small class="muted">{task.findings.map((name) => name.replace("_", " ")).join(", ")}</small>
                </td>
                <td class="small">
                  {task.guards.map((name) => (
                    <a key={name} href={`#incident-${name}`} onClick={(event) => (event.preventDefault(), document.getElementById(`incident-${name}`)?.scrollIntoView({ block: "center" }))}>
                      {name}{" "}
                    </a>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">
        Contamination, and checks that give both verdicts on the same end, need the suite itself: <code>ethogram golden check {set.place || "SUITE"}</code>
      </p>
    </details>
  );
}

function IncidentPart({ card }: { card: IncidentCard }) {
  const { incident } = card;
  const { facts } = incident;
  const closed = incident.state === "closed";
  return (
    <article id={`incident-${incident.id}`} class={`incident ${incident.state}`}>
      <h3>
        <span class={closed ? "tag on" : "tag fail"}>{closed ? "✓ closed" : "✗ open"}</span> {clean(incident.title)}
        <span class="muted mono">{incident.id}</span>
      </h3>
      <dl>
        <Fact name="class">{facts.class ?? "not known"}</Fact>
        <Fact name="owner">{facts.owner ? clean(facts.owner) : "nobody: name one in owners.toml"}</Fact>
        <Fact name="task">{clean(facts.task)}</Fact>
        <Fact name="cost">
          {facts.cost.usd === null ? "dollars unknown" : dollars(facts.cost.usd)}, {facts.cost.tokens === null ? "tokens unknown" : plural(facts.cost.tokens, "token")}, {seconds(facts.cost.seconds)}
        </Fact>
        <Fact name="guarded by">
          {incident.guard ? (
            <>
              <b>{clean(incident.guard.task)}</b> of {clean(incident.guard.suite)} {incident.guard.version}
            </>
          ) : (
            <span class="bad">nothing yet</span>
          )}
        </Fact>
      </dl>
      <Evidence incident={incident} gone={card.gone} />
      <p class="rollback small">
        <span class="muted">to roll back:</span> {facts.rollback ? <Command text={facts.rollback} /> : <span class="muted">{clean(facts.rollback_why)}</span>}
      </p>
      {!closed && (
        <p class="small rollback">
          <span class="muted">next:</span>{" "}
          {card.next.split(", then: ").map((command) => (
            <Command key={command} text={command} />
          ))}
        </p>
      )}
      <details>
        <summary class="small muted">{plural(incident.history.length, "event")}</summary>
        <ol class="history">
          {incident.history.map((event) => (
            <li key={event.at + event.event}>
              <p>
                <b>{event.event}</b> <span class="muted small">{day(event.at)} · {clean(event.by)}</span>
              </p>
              {event.why && <p class="said">{clean(event.why)}</p>}
            </li>
          ))}
        </ol>
      </details>
    </article>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Evidence({ incident, gone }: { incident: Incident; gone: string[] }) {
  const pair = incident.facts.evidence;
  const both = pair.passing && pair.passing_run && gone.length === 0;
  return (
    <div class="evidence small">
      <p>
        <b class="bad">✗ failing</b> <TraceLink run={pair.failing_run} trace={pair.failing} step={pair.t_star} gone={gone} /> {pair.failing_step && <code>{clean(pair.failing_step)}</code>}
      </p>
      {pair.passing && pair.passing_run && (
        <p>
          <b class="good">✓ passing</b> <TraceLink run={pair.passing_run} trace={pair.passing} step={pair.t_star} gone={gone} /> {pair.t_star !== null && <code>{clean(pair.passing_step ?? "no such step")}</code>}
        </p>
      )}
      {pair.why && <p class="muted">{clean(pair.why)}</p>}
      {both && (
        <p>
          <a href={href("diff", { run: pair.passing_run, trace: pair.passing, other: pair.failing, against: pair.failing_run === pair.passing_run ? null : pair.failing_run })}>
            side by side{pair.t_star !== null && `, t* = step ${pair.t_star}`}
          </a>
        </p>
      )}
    </div>
  );
}

function TraceLink({ run, trace, step, gone }: { run: string; trace: string; step: number | null; gone: string[] }) {
  if (gone.includes(run))
    return (
      <span class="muted">
        <span class="mono">{shortId(trace)}</span> of {run}, which this home no longer has
      </span>
    );
  return (
    <>
      <a class="mono" href={href("trace", { run, trace, step })}>
        {shortId(trace)}
      </a>{" "}
      <span class="muted">of {run}</span>
    </>
  );
}
