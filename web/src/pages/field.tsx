// How behaviour varies and what parts success from failure: the chain in words, the cloud, dimensions and horizons.
import { useEffect } from "preact/hooks";
import { change, href } from "../address";
import { useAnswer } from "../load";
import type { CorridorCheck, Estimate, FieldView, HorizonRow } from "../models";
import { Rate } from "../parts/estimate";
import { Command, Failed, Loading } from "../parts/states";
import { between, NONE, percent, plural, shortId } from "../words";
import { CloudPart } from "./field-cloud";
import type { PageProps } from "./registry";
import "./field.css";

const RULES = { visited: "came to a state", reached: "came to it, or further" } as const;
const SIGNS = { yes: "✓", no: "✗" } as const;

export default function FieldPage({ params }: PageProps) {
  const run = params.run ?? "latest";
  const preset = params.preset ?? "standard";
  const rule = params.rule === "reached" ? "reached" : "visited";
  const { answer, failure, loading } = useAnswer("/api/field", { run, rule, preset, against: params.against ?? "" });
  useEffect(() => {
    document.title = `Field · ${run} · Ethogram`;
  }, [run]);
  if (!answer)
    return failure ? (
      <>
        <Failed failure={failure} />
        <p class="page">
          A field needs scored attempts with recorded steps: <Command text={`ethogram why ${run}`} /> says how to score them.
        </p>
      </>
    ) : (
      <Loading lines={10} />
    );
  return (
    <div class="page field-page" aria-busy={loading}>
      <div class="head">
        <h1>How behaviour varies</h1>
        <span class="muted">
          {plural(answer.K, "scored attempt")} of {plural(answer.tasks, "task")}, {answer.successes} passed
        </span>
        <span class="spring" />
        <Choices answer={answer} run={run} against={params.against ?? ""} preset={preset} />
      </div>
      <Chain answer={answer} />
      <CloudPart run={run} preset={preset} params={params} />
      <Dimensions answer={answer} />
      <Horizons answer={answer} />
      <Corridor check={answer.corridor} run={run} />
      <Notes answer={answer} />
    </div>
  );
}

function Choices({ answer, run, against, preset }: { answer: FieldView; run: string; against: string; preset: string }) {
  const { answer: runs } = useAnswer("/api/runs", { count: 100 });
  const others = (runs?.rows ?? []).filter((row) => row.run !== run && row.scored > 0);
  return (
    <div class="field-choose">
      <label>
        dimensions{" "}
        <select value={preset} onChange={(event) => change({ preset: event.currentTarget.value, x: null, y: null, box: null })}>
          {Object.entries(answer.presets).map(([name, words]) => (
            <option key={name} value={name} title={words}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        rule{" "}
        <select value={answer.rule} onChange={(event) => change({ rule: event.currentTarget.value })}>
          {Object.entries(RULES).map(([name, words]) => (
            <option key={name} value={name} title={words}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        corridor{" "}
        <select value={against} onChange={(event) => change({ against: event.currentTarget.value })}>
          <option value="">none</option>
          {others.map((row) => (
            <option key={row.run} value={row.run}>
              successes of {row.run}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Chain({ answer }: { answer: FieldView }) {
  return (
    <section class="part chain">
      <p class="advice">{answer.chain.advice_text}</p>
      <ol>
        {answer.chain.steps.map((step) => (
          <li key={step.name}>
            <h3>
              <span class={`tag ${step.answer === "no" ? "" : "on"}`}>
                {SIGNS[step.answer as keyof typeof SIGNS] ?? "?"} {step.answer}
              </span>{" "}
              {step.question}
            </h3>
            <p>{step.text}</p>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** An interval on a line around 0; the sign at its value says on which side it lies. */
function Around({ estimate, most, plain = false }: { estimate: Estimate | undefined; most: number; plain?: boolean }) {
  if (!estimate || estimate.value === null) return <span class="muted" title={estimate?.why ?? ""}>{NONE}</span>;
  const { value, low, high } = estimate;
  const x = (v: number) => 60 + 56 * Math.max(-1, Math.min(1, v / most));
  const tone = plain ? "open" : low !== null && low > 0 ? "up" : high !== null && high < 0 ? "down" : "open";
  return (
    <span class={`around ${tone}`} title={`${between(estimate, (end) => number(end))} · ${estimate.method}, n = ${estimate.n} ${estimate.of}`}>
      <svg viewBox="0 0 120 14" aria-hidden="true">
        <line class="axis" x1="4" x2="116" y1="7" y2="7" />
        <line class="zero" x1="60" x2="60" y1="1" y2="13" />
        {low !== null && high !== null && <line class="spread" x1={x(low)} x2={x(high)} y1="7" y2="7" />}
        {tone === "down" ? <rect x={x(value) - 3} y="4" width="6" height="6" /> : <circle cx={x(value)} cy="7" r="3.3" />}
      </svg>
      <b>{number(value, true)}</b>
      <small class="muted">{between(estimate, (end) => number(end, true))}</small>
    </span>
  );
}

function number(value: number | null | undefined, signed = false): string {
  if (value === null || value === undefined) return NONE;
  return (signed && value > 0 ? "+" : "") + value.toLocaleString("en-US", { maximumSignificantDigits: 3 }).replace("-", "−");
}

function Dimensions({ answer }: { answer: FieldView }) {
  const rows = Object.entries(answer.dimensions).sort(([, a], [, b]) => Math.abs(b.estimates.separation?.value ?? 0) - Math.abs(a.estimates.separation?.value ?? 0));
  const flagged = new Set(answer.chain.flags.map((flag) => flag.dimension));
  const ends = rows.flatMap(([, row]) => [row.estimates.separation?.low, row.estimates.separation?.high, row.estimates.separation?.value]);
  const most = Math.max(0.1, ...ends.map((end) => Math.abs(end ?? 0)));
  return (
    <section class="part">
      <h2>
        Dimensions <small>those that part success from failure first; ● more of it in successes, ■ more of it in failures</small>
      </h2>
      <div class="scroll">
        <table class="grid dimensions">
          <thead>
            <tr>
              <th>Dimension</th>
              <th class="number">Mean</th>
              <th class="number">Variance within tasks</th>
              <th>Separation (sd)</th>
              <th>Skew (correlation with success)</th>
              <th class="number">Adjusted p</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, row]) => (
              <tr key={name}>
                <td title={row.description}>
                  {name} {flagged.has(name) && <span class="tag on">{answer.chain.flags.find((flag) => flag.dimension === name)?.action}</span>}
                </td>
                <td class="number" title={row.estimates.center?.low == null ? "" : `${number(row.estimates.center.low)} to ${number(row.estimates.center.high)}`}>
                  {number(row.mean)}
                </td>
                <td class="number" title={`${row.estimates.variance?.why ?? row.estimates.variance?.method ?? ""}; over all tasks together ${number(row.variance)}`}>
                  {number(row.estimates.variance?.value)} {row.estimates.variance?.low != null && <small class="muted">{`${number(row.estimates.variance.low)}–${number(row.estimates.variance.high)}`}</small>}
                </td>
                <td>
                  <Around estimate={row.estimates.separation} most={most} />
                </td>
                <td>
                  <Around estimate={row.estimates.skew} most={1} />
                </td>
                <td class="number">{row.adjusted === null ? NONE : row.adjusted.toPrecision(2)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">{answer.test_method}</p>
    </section>
  );
}

function Horizons({ answer }: { answer: FieldView }) {
  if (answer.horizons.length === 0)
    return (
      <section class="part">
        <h2>Horizons</h2>
        <p class="muted">
          These steps name no states. Milestones of your own give some: <Command text={`ethogram field ${answer.run} --states milestones.yaml`} />
        </p>
      </section>
    );
  const most = Math.max(1e-9, ...answer.horizons.map((row) => row.width ?? 0));
  const drift = Math.max(0.1, ...answer.horizons.flatMap((row) => [row.estimates.drift?.low, row.estimates.drift?.high, row.estimates.drift?.value].map((end) => Math.abs(end ?? 0))));
  return (
    <section class="part">
      <h2>
        Horizons <small>attempts that {RULES[answer.rule]}; drift: how much further failures spread than successes</small>
      </h2>
      <div class="scroll">
        <table class="grid">
          <thead>
            <tr>
              <th>State</th>
              <th class="number">Attempts</th>
              <th>Success</th>
              <th>Width</th>
              <th>Drift</th>
            </tr>
          </thead>
          <tbody>
            {answer.horizons.map((row) => (
              <Horizon key={row.state} row={row} most={most} drift={drift} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Horizon({ row, most, drift }: { row: HorizonRow; most: number; drift: number }) {
  const spread = row.estimates.width;
  return (
    <tr>
      <td>{row.state}</td>
      <td class="number">{row.K}</td>
      <td>
        <Rate estimate={row.estimates.pass_rate ?? null} />
      </td>
      <td title={spread && spread.value !== null ? `in logs, within tasks: ${number(spread.value)} (${number(spread.low)} to ${number(spread.high)})` : ""}>
        <span class="width">
          <svg viewBox="0 0 100 12" aria-hidden="true">
            <rect x="0" y="2" height="8" width={(100 * (row.width ?? 0)) / most} />
          </svg>
          {number(row.width)}
        </span>
      </td>
      <td>
        <Around estimate={row.estimates.drift} most={drift} plain />
      </td>
    </tr>
  );
}

function Corridor({ check, run }: { check: CorridorCheck | null; run: string }) {
  if (!check)
    return (
      <section class="part">
        <h2>Corridor</h2>
        <p class="muted">
          None is given: choose a run above, whose successes then serve as a ruler, or hold this run against a file: <Command text={`ethogram field ${run} --corridor corridor.json`} />
        </p>
      </section>
    );
  const { alarm } = check;
  const outside = check.adherence.filter((one) => one.inside === false);
  return (
    <section class="part">
      <h2>
        Corridor <small>{plural(check.K, "success").replace("successs", "successes")} of {check.name}</small>
      </h2>
      <p>
        <span class={`tag ${alarm.raised ? "fail" : "on"}`}>{alarm.raised === null ? "? unknown" : alarm.raised ? "✗ left the corridor" : "✓ within the corridor"}</span>{" "}
        {alarm.why ?? `p ${alarm.p?.toPrecision(2) ?? NONE}; ${alarm.outside} of ${alarm.K} attempts lie outside at ${percent(alarm.alpha)}`}
      </p>
      {outside.length > 0 && (
        <p class="outside">
          outside:{" "}
          {outside.slice(0, 40).map((one) => (
            <a key={one.episode} class="mono" title={`task ${one.task}, p ${one.p.toPrecision(2)}`} href={href("trace", { run, trace: one.episode })}>
              {shortId(one.episode)}
            </a>
          ))}
          {outside.length > 40 && <span class="muted">and {outside.length - 40} more</span>}
        </p>
      )}
      <table class="grid gaps">
        <thead>
          <tr>
            <th>State</th>
            <th class="number">Attempts</th>
            <th class="number">Width against the corridor</th>
            <th class="number">Distance</th>
            <th class="number">p</th>
          </tr>
        </thead>
        <tbody>
          {check.gaps.map((gap) => (
            <tr key={gap.state}>
              <td>{gap.state}</td>
              <td class="number">{gap.K}</td>
              <td class="number">{gap.width_ratio.value === null ? NONE : `× ${number(gap.width_ratio.value)} (${number(gap.width_ratio.low)} to ${number(gap.width_ratio.high)})`}</td>
              <td class="number">{gap.distance.value === null ? NONE : `${number(gap.distance.value)} (${number(gap.distance.low)} to ${number(gap.distance.high)})`}</td>
              <td class="number">{gap.p?.toPrecision(2) ?? NONE}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Notes({ answer }: { answer: FieldView }) {
  const missing = Object.entries(answer.missing).map(([why, n]) => `${n} ${why}`);
  const left = Object.entries(answer.left_out);
  return (
    <>
      {answer.notes.map((words) => (
        <p key={words} class="note">
          {words}
        </p>
      ))}
      {missing.length > 0 && <p class="note">Attempts that are not in the field: {missing.join(", ")}.</p>}
      {left.length > 0 && (
        <details class="note">
          <summary>{plural(left.length, "dimension")} without a value here</summary>
          {left.map(([name, why]) => (
            <p key={name}>
              {name}: {why}
            </p>
          ))}
        </details>
      )}
    </>
  );
}
