// May this change ship: the verdict, the tasks that moved with a failing attempt each, and what more runs would cost.
import { useEffect } from "preact/hooks";
import { change, href } from "../address";
import { useAnswer } from "../load";
import type { Estimate, GateView, LayerChange, MovedTask, TaskChange } from "../models";
import { Command, Empty, Failed, Loading } from "../parts/states";
import { between, count, dollars, NONE, percent, plural, shortId } from "../words";
import type { PageProps } from "./registry";
import "./gate.css";

const SHARES = ["rate", "score", "share"]; // units of metrics that are shown in percent
const VERDICTS = {
  pass: { sign: "✓", words: "The change may ship" },
  regression: { sign: "✗", words: "The change made it worse" },
  undecided: { sign: "?", words: "These runs do not decide it" },
} as const;

export default function Gate({ params }: PageProps) {
  useEffect(() => {
    document.title = `Gate · ${params.run ?? ""} · Ethogram`;
  }, [params.run]);
  if (!params.against) return <ChooseBaseline run={params.run ?? "latest"} />;
  return <Verdict params={params} />;
}

function ChooseBaseline({ run }: { run: string }) {
  const { answer, failure } = useAnswer("/api/runs", { count: 100 });
  if (failure) return <Failed failure={failure} />;
  if (!answer) return <Loading />;
  const others = answer.rows.filter((row) => row.run !== run);
  if (others.length === 0)
    return <Empty title="There is no other run to compare with" hint="Run or import a baseline of the same tasks, then ask:" command={`ethogram gate BASE ${run}`} />;
  return (
    <div class="page">
      <h1>Compare {run} with which baseline?</h1>
      <ul class="choices">
        {others.map((row) => (
          <li key={row.run}>
            <a class="button" href={href("gate", { run, against: row.run, metric: row.scored > 0 ? null : "steps" })}>
              {row.run} <small class="muted">{plural(row.tasks, "task")}, {plural(row.scored, "scored episode")}</small>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Verdict({ params }: PageProps) {
  const run = params.run ?? "latest";
  const against = params.against ?? "";
  const metric = params.metric ?? "success";
  const margin = params.margin ? Number(params.margin) : 0.05;
  const { answer, failure, loading } = useAnswer("/api/gate", { run, against, metric, margin });
  if (!answer) return failure ? <Failed failure={failure} /> : <Loading lines={8} />;
  const verdict = VERDICTS[answer.verdict];
  const share = SHARES.includes(answer.unit);
  return (
    <div class="page gate" aria-busy={loading}>
      <section class={`verdict ${answer.verdict}`}>
        <b aria-hidden="true">{verdict.sign}</b>
        <div>
          <h1>{verdict.words}</h1>
          <p>{answer.why}</p>
        </div>
        <div class="choose">
          <label>
            metric{" "}
            <select value={metric} onChange={(event) => change({ metric: event.currentTarget.value })}>
              {answer.metrics.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          <label>
            margin{" "}
            <select value={String(margin)} onChange={(event) => change({ margin: event.currentTarget.value })}>
              {[0.02, 0.05, 0.1, 0.15, 0.2].map((value) => (
                <option key={value} value={String(value)}>
                  {percent(value)}
                </option>
              ))}
            </select>
          </label>
        </div>
      </section>
      <div class="cards">
        <Card label={answer.base} estimate={answer.base_mean} share={share} />
        <Card label={answer.candidate} estimate={answer.candidate_mean} share={share} />
        <Card label="difference, all attempts" estimate={answer.difference} share={share} signed />
        <Needed answer={answer} />
      </div>
      {answer.warnings.map((words) => (
        <p key={words} class="muted small">
          {words}
        </p>
      ))}
      <Moved answer={answer} />
      {answer.layers && <Layers layers={Object.values(answer.layers.layers)} look={answer.layers.look} />}
      <Tasks answer={answer} share={share} />
      <Evidence answer={answer} share={share} />
      <p class="small">
        <a href={href("golden")}>Golden sets and incidents</a> <span class="muted">which tasks this rests on, and what they guard against</span>
      </p>
    </div>
  );
}

function number(value: number | null, share: boolean, signed = false): string {
  if (value === null) return NONE;
  const sign = signed && value > 0 ? "+" : "";
  const words = share ? percent(value, 1) : value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  return sign + words.replace("-", "−");
}

function Card({ label, estimate, share, signed = false }: { label: string; estimate: Estimate; share: boolean; signed?: boolean }) {
  const { value, low, high } = estimate;
  const why = low === null || high === null ? estimate.why : null;
  return (
    <section class="part card">
      <h3 class="muted">{label}</h3>
      <p class="big">{number(value, share, signed)}</p>
      <p class="muted small" title={estimate.method}>
        {why ?? between(estimate, (end) => number(end, share, signed))}
        {low !== null && ` (${percent(estimate.level)})`}
      </p>
    </section>
  );
}

function Needed({ answer }: { answer: GateView }) {
  const { needed } = answer;
  const more = needed.runs !== null && needed.runs > 0;
  return (
    <section class="part card">
      <h3 class="muted">to decide</h3>
      <p class="big">{more ? `${count(needed.runs)} attempts` : needed.runs === 0 ? "nothing more" : NONE}</p>
      <p class="muted small">
        {more ? `at most, ${needed.cost_usd !== null ? `about ${dollars(needed.cost_usd)}` : "price unknown"}` : (needed.why ?? `${percent(answer.power)} power for a drop of ${percent(answer.margin)}`)}
      </p>
      {more && answer.verdict === "undecided" && <Command text={`ethogram gate ${answer.base} ${answer.candidate} --buy --agent AGENT`} />}
    </section>
  );
}

function Moved({ answer }: { answer: GateView }) {
  if (answer.moved.length === 0)
    return (
      <section class="part">
        <h2>Tasks that moved</h2>
        <p class="muted">No single task moved for certain.</p>
      </section>
    );
  return (
    <section class="part">
      <h2>
        Tasks that moved <small>a failing attempt of each, and the first step where it went another way</small>
      </h2>
      <div class="moved">
        {answer.moved.map((task) => (
          <MovedLine key={task.task} task={task} answer={answer} />
        ))}
      </div>
    </section>
  );
}

function counted({ passed, of, mean }: MovedTask["base"]): string {
  return passed !== null ? `${passed}/${of}` : (mean?.toLocaleString("en-US", { maximumSignificantDigits: 3 }) ?? NONE);
}

function MovedLine({ task, answer }: { task: MovedTask; answer: GateView }) {
  const step = task.step;
  const pair = step?.passing_trace && task.trace;
  return (
    <article class={task.worse ? "worse" : "better"}>
      <h3>
        <b aria-hidden="true">{task.worse ? "↓" : "↑"}</b> {task.task}
        <span class="muted">
          {counted(task.base)} → {counted(task.candidate)}
        </span>
        {!task.moved && <span class="tag">not sure by itself</span>}
      </h3>
      {task.why && <p class="said">{task.why}</p>}
      <p class="small">
        {task.trace && (
          <a class="mono" href={href("trace", { run: answer.candidate, trace: task.trace, step: step?.at })}>
            {shortId(task.trace)}
            {step?.at != null && `:${step.at}`}
          </a>
        )}
        {step?.at != null && (
          <span class="muted">
            {" "}
            <code>{step.failing ?? "no such step"}</code>, where a passing attempt has <code>{step.passing ?? "no such step"}</code>
          </span>
        )}
        {pair && (
          <>
            {" · "}
            <a href={href("diff", { run: answer.candidate, trace: step.passing_trace, other: task.trace })}>side by side</a>
          </>
        )}
      </p>
    </article>
  );
}

function Layers({ layers, look }: { layers: LayerChange[]; look: string }) {
  return (
    <section class="part">
      <h2>Which layer moved</h2>
      {look && <p class="look">{look}</p>}
      <table class="grid">
        <tbody>
          {layers.map((layer) => (
            <tr key={layer.layer}>
              <td>
                <b>{layer.layer}</b> {layer.name}
              </td>
              <td class={layer.state === "fell" ? "bad" : layer.state === "not measured" ? "muted" : ""}>{layer.state}</td>
              <td class="number">
                {percent(layer.base.value)} → {percent(layer.candidate.value)}
              </td>
              <td class="muted small">
                {layer.difference.low !== null && layer.difference.high !== null && `${number(layer.difference.low, true, true)} to ${number(layer.difference.high, true, true)}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A line from the baseline's mean (ring) to the candidate's (disc), worst first. */
function Tasks({ answer, share }: { answer: GateView; share: boolean }) {
  const most = share ? 1 : Math.max(1e-9, ...answer.tasks.flatMap((task) => [task.base ?? 0, task.candidate ?? 0]));
  return (
    <section class="part">
      <h2>
        All tasks{" "}
        <small>
          ○ {answer.base} ● {answer.candidate}
          {answer.of_tasks > answer.tasks.length && `, the ${answer.tasks.length} worst of ${count(answer.of_tasks)}`}
        </small>
      </h2>
      <table class="grid dumbbells">
        <tbody>
          {answer.tasks.map((task) => (
            <Dumbbell key={task.task} task={task} most={most} share={share} better={answer.better} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Dumbbell({ task, most, share, better }: { task: TaskChange; most: number; share: boolean; better: string }) {
  const x = (value: number) => 6 + (288 * value) / most;
  const { base, candidate } = task;
  const worse = base !== null && candidate !== null && (better === "less" ? candidate > base : candidate < base);
  return (
    <tr>
      <td class="name">{task.task}</td>
      <td>
        <svg viewBox="0 0 300 14" width="300" height="14" aria-hidden="true" class={worse ? "worse" : base === candidate ? "" : "better"}>
          <line x1="6" x2="294" y1="7" y2="7" class="axis" />
          {base !== null && candidate !== null && <line x1={x(base)} x2={x(candidate)} y1="7" y2="7" class="between" />}
          {base !== null && <circle cx={x(base)} cy="7" r="4" class="before" />}
          {candidate !== null && <circle cx={x(candidate)} cy="7" r="4" class="after" />}
        </svg>
      </td>
      <td class="number">
        {number(base, share)} → {number(candidate, share)}
      </td>
      <td class="muted small">
        {task.n_base}, {task.n_candidate} attempts {task.moved && <span class="tag fail">moved</span>}
      </td>
    </tr>
  );
}

function Evidence({ answer, share }: { answer: GateView; share: boolean }) {
  const shown = (value: number | string | null) => (typeof value === "number" ? value.toFixed(2) : (value ?? NONE));
  const absent = [...answer.only_base.map((task) => `only in ${answer.base}: ${task}`), ...answer.only_candidate.map((task) => `only in ${answer.candidate}: ${task}`)];
  const missing = [...Object.entries(answer.missing_base).map(([why, n]) => `${answer.base}: ${n} ${why}`), ...Object.entries(answer.missing_candidate).map(([why, n]) => `${answer.candidate}: ${n} ${why}`)];
  return (
    <details class="part">
      <summary>What the verdict rests on</summary>
      <table class="grid">
        <thead>
          <tr>
            <th class="number">Look</th>
            <th class="number">Attempts</th>
            <th class="number">z</th>
            <th class="number">Bound</th>
            <th class="number">Largest drop not ruled out</th>
          </tr>
        </thead>
        <tbody>
          {answer.looks.map((look) => (
            <tr key={look.look}>
              <td class="number">
                {look.look} of {answer.planned_looks}
              </td>
              <td class="number">{count(look.runs)}</td>
              <td class="number">{shown(look.z)}</td>
              <td class="number">{shown(look.bound)}</td>
              <td class="number">{shown(look.worst_case)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="small">
        Difference {answer.decided_at !== null ? `at look ${answer.decided_at}, where it was decided` : "at the latest look"}:{" "}
        {number(answer.at_look.value, share, true)} ({number(answer.at_look.low, share, true)} to {number(answer.at_look.high, share, true)}, {percent(answer.at_look.level)}, {answer.at_look.method})
      </p>
      {Object.entries(answer.facts).map(([name, values]) => (
        <p key={name} class="small">
          {name}: {values.join(" → ")}
        </p>
      ))}
      {[...missing, ...absent].map((words) => (
        <p key={words} class="muted small">
          {words}
        </p>
      ))}
    </details>
  );
}
