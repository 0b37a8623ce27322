// Did the damage do something: operators × tasks, how it showed beside the noise floor, and pairs that open the diff.
import { useEffect } from "preact/hooks";
import { change, href, type Params } from "../address";
import { useAnswer } from "../load";
import type { Aggregate, Dose, ExperimentPair, OperatorTask, PerturbationView } from "../models";
import { Effect, Rate } from "../parts/estimate";
import { Command, Failed, Loading } from "../parts/states";
import { firstOf } from "../text";
import { NONE, plural, shortId } from "../words";
import type { PageProps } from "./registry";
import "./perturbation.css";

const MOST_TASKS = 40;

export default function Perturbation({ params }: PageProps) {
  const run = params.run ?? "latest";
  const chosen = { operator: params.operator ?? "", task: params.task ?? "", showed: params.showed ?? "" };
  const { answer, failure, loading } = useAnswer("/api/perturbation", { run, ...chosen });
  useEffect(() => {
    document.title = `Perturbation · ${run} · Ethogram`;
  }, [run]);
  if (!answer)
    return failure ? (
      <>
        <Failed failure={failure} />
        <p class="page">
          Pairs of clean and disturbed attempts are made with <Command text="ethogram perturb --agent AGENT --file FILE --question QUESTION" />
        </p>
      </>
    ) : (
      <Loading lines={10} />
    );
  if (answer.all_pairs === 0)
    return (
      <div class="page">
        <h1>No pair is complete yet</h1>
        <p>
          What is left is run with <Command text={`ethogram run --resume ${answer.run}`} />
        </p>
      </div>
    );
  return (
    <div class="page perturbation-page" aria-busy={loading}>
      <div class="head">
        <h1>Did the damage do something?</h1>
        <span class="muted">
          {answer.all_pairs} of {plural(answer.planned_pairs, "pair")}, {answer.delivered_pairs} delivered, agent {answer.agent}
        </span>
      </div>
      <p class="lost">
        Accuracy lost to the damage: <Effect estimate={answer.overall.accuracy_lost} lost />
      </p>
      <p class="muted">{floorWords(answer)}</p>
      {answer.warnings.map((words) => (
        <p key={words} class="warning">
          <b aria-hidden="true">!</b> {words}
        </p>
      ))}
      <HeatMap answer={answer} params={params} />
      <Showings answer={answer} showed={chosen.showed} />
      <Operators aggregates={answer.aggregates} />
      {answer.doses.length > 0 && <Doses doses={answer.doses} />}
      <Pairs answer={answer} chosen={chosen} />
      <Changes answer={answer} />
    </div>
  );
}

function floorWords({ noise_floor: floor, deterministic, overall }: PerturbationView): string {
  if (overall.mean_d_norm === null) return "Distances are unavailable: no steps were captured, so pairs are compared by their answers alone.";
  if (floor.mean !== null && floor.max !== null)
    return `Noise floor: clean attempts at a task are ${floor.mean.toFixed(3)} apart on average, at most ${floor.max.toFixed(3)} (${plural(floor.pairs, "pair")}, ${floor.reruns} re-runs).`;
  if (deterministic) return "The agent is scripted: with the same seed it does the same, so every difference is due to the change.";
  return "The noise floor was not measured, so no distance here can be held against it.";
}

function HeatMap({ answer, params }: { answer: PerturbationView; params: Params }) {
  const scored = answer.by_task.some((cell) => cell.score_lost !== null);
  const value = (cell: OperatorTask) => (scored ? cell.score_lost : cell.comparable ? cell.changed / cell.comparable : null);
  const operators = [...new Set(answer.by_task.map((cell) => cell.operator))];
  const worst = new Map<string, number>();
  for (const cell of answer.by_task) worst.set(cell.task, Math.max(worst.get(cell.task) ?? -1, value(cell) ?? -1));
  const tasks = [...worst.keys()].sort((a, b) => (worst.get(b) ?? 0) - (worst.get(a) ?? 0)).slice(0, MOST_TASKS);
  const cells = new Map(answer.by_task.map((cell) => [`${cell.operator} ${cell.task}`, cell]));
  return (
    <section class="part">
      <h2>
        Operators and tasks <small>{scored ? "mean score lost" : "share of answers that changed"} in delivered pairs; choose a cell to list its pairs{tasks.length < worst.size && `; the ${MOST_TASKS} of ${worst.size} tasks that lost most`}</small>
      </h2>
      <div class="scroll">
        <table class="heat-table">
          <thead>
            <tr>
              <th />
              {tasks.map((task) => (
                <th key={task} title={task}>
                  <a href={href("task", { run: answer.run, task })}>{task}</a>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {operators.map((operator) => (
              <tr key={operator}>
                <th>{operator}</th>
                {tasks.map((task) => {
                  const cell = cells.get(`${operator} ${task}`);
                  const now = params.operator === operator && params.task === task;
                  return <Cell key={task} cell={cell} value={cell ? value(cell) : null} now={now} />;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">▼ lost · ▲ gained · = nothing changed · – no damage arrived, or nothing to compare</p>
    </section>
  );
}

function Cell({ cell, value, now }: { cell: OperatorTask | undefined; value: number | null; now: boolean }) {
  if (!cell || value === null) return <td class="none">{NONE}</td>;
  const sign = value > 0.0005 ? "▼" : value < -0.0005 ? "▲" : "=";
  const words = `${cell.operator} on ${cell.task}: ${value.toFixed(2)} lost; ${cell.changed} of ${cell.comparable} answers changed, ${cell.delivered} of ${cell.pairs} pairs delivered`;
  return (
    <td>
      <button
        class={`${sign === "▼" ? "lost" : sign === "▲" ? "gained" : "same"}${now ? " chosen" : ""}`}
        style={{ "--strength": `${Math.round(15 + 65 * Math.min(1, Math.abs(value)))}%` }}
        title={words}
        aria-label={words}
        aria-pressed={now}
        onClick={() => change(now ? { operator: null, task: null } : { operator: cell.operator, task: cell.task, showed: null })}
      >
        {sign} {sign === "=" ? "0" : Math.abs(value).toFixed(2)}
      </button>
    </td>
  );
}

/** How pairs showed: the whole bar is the prevalence, the hatched part lies within the noise floor. */
function Showings({ answer, showed }: { answer: PerturbationView; showed: string }) {
  const whole = answer.overall;
  const rows = Object.entries(whole.manifestations)
    .filter(([name]) => whole.counts[name])
    .sort(([a], [b]) => (whole.counts[b] ?? 0) - (whole.counts[a] ?? 0));
  const measured = Object.keys(whole.manifestations_within_floor).length > 0;
  return (
    <section class="part">
      <h2>
        How the changes showed <small>share of {plural(whole.delivered, "delivered pair")}; beside it, how much of that lies within the noise floor</small>
      </h2>
      <table class="grid showings">
        <thead>
          <tr>
            <th>Manifestation</th>
            <th class="number">Pairs</th>
            <th />
            <th>Share</th>
            <th>Of which within the floor</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, share]) => {
            const inside = whole.manifestations_within_floor[name];
            const harmless = name === "no_observable_effect" || name === "answer_same";
            return (
              <tr key={name} class={showed === name ? "active" : undefined}>
                <td>
                  <button class="link" aria-pressed={showed === name} onClick={() => change({ showed: showed === name ? null : name, operator: null, task: null })}>
                    {name.replaceAll("_", " ")}
                  </button>
                </td>
                <td class="number">{whole.counts[name]}</td>
                <td>
                  <svg viewBox="0 0 200 14" width="200" height="14" aria-hidden="true" class={harmless ? "harmless" : "harm"}>
                    <rect class="all" x="0" y="1" width="200" height="12" />
                    <rect class="share-of" x="0" y="1" width={200 * (share.value ?? 0)} height="12" />
                    {inside && <rect class="inside" x="0" y="5" width={200 * (inside.value ?? 0)} height="4" />}
                  </svg>
                </td>
                <td>
                  <Rate estimate={share} />
                </td>
                <td>{measured && inside ? <Rate estimate={inside} /> : <span class="muted">not measured</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="note">The floor is about steps: a wrong answer that was reached by the same steps lies within it.</p>
    </section>
  );
}

function Operators({ aggregates }: { aggregates: Aggregate[] }) {
  return (
    <section class="part">
      <h2>Operators</h2>
      <div class="scroll">
        <table class="grid">
          <thead>
            <tr>
              <th>Operator</th>
              <th class="number">Delivered</th>
              <th class="number">Mean distance</th>
              <th>Within the floor</th>
              <th>Recovered</th>
              <th>Accuracy lost</th>
            </tr>
          </thead>
          <tbody>
            {aggregates.map((one) => (
              <tr key={one.name}>
                <td>{one.name}</td>
                <td class="number">
                  {one.delivered} of {one.pairs}
                </td>
                <td class="number">{one.mean_d_norm?.toFixed(3) ?? NONE}</td>
                <td>
                  <Rate estimate={one.within_noise_floor} />
                </td>
                <td>
                  <Rate estimate={one.recovery_rate} />
                </td>
                <td>
                  <Effect estimate={one.accuracy_lost} lost />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Doses({ doses }: { doses: Dose[] }) {
  return (
    <section class="part">
      <h2>
        Dose and response <small>over all attempts at an intensity, reached by the damage or not</small>
      </h2>
      <div class="scroll">
        <table class="grid">
          <tbody>
            {doses.map((dose) => (
              <tr key={`${dose.operator} ${dose.intensity}`}>
                <td>{dose.operator}</td>
                <td class="number">{dose.intensity}</td>
                <td class="number">
                  {dose.delivered} of {dose.pairs} delivered
                </td>
                <td class="number">distance {dose.mean_d_norm?.toFixed(3) ?? NONE}</td>
                <td>
                  <Effect estimate={dose.accuracy_lost} lost />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface ChosenPairs {
  operator: string;
  task: string;
  showed: string;
}

function Pairs({ answer, chosen }: { answer: PerturbationView; chosen: ChosenPairs }) {
  const only = [chosen.operator, chosen.task, chosen.showed.replaceAll("_", " ")].filter(Boolean).join(", ");
  return (
    <section class="part">
      <h2>
        Pairs, furthest first{" "}
        <small>
          {only && `only ${only}; `}
          {answer.pairs.length < answer.of_pairs ? `${answer.pairs.length} of ${answer.of_pairs}` : plural(answer.of_pairs, "pair")}
        </small>
        {only && (
          <button class="button" onClick={() => change({ operator: null, task: null, showed: null })}>
            Show all
          </button>
        )}
      </h2>
      <div class="scroll">
        <table class="grid pairs">
          <thead>
            <tr>
              <th>Change</th>
              <th>Task</th>
              <th class="number">Distance</th>
              <th class="number">Parts at</th>
              <th>Manifestation</th>
              <th class="number">Score</th>
              <th>Clean → disturbed</th>
            </tr>
          </thead>
          <tbody>
            {answer.pairs.map((one) => (
              <Pair key={one.pair.trace} one={one} run={answer.run} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Pair({ one, run }: { one: ExperimentPair; run: string }) {
  const { pair } = one;
  return (
    <tr>
      <td>{one.condition}</td>
      <td>
        <a href={href("task", { run, task: pair.task })}>{pair.task}</a> <small class="muted">attempt {one.attempt}</small>
      </td>
      <td class="number">{pair.d_norm?.toFixed(3) ?? NONE}</td>
      <td class="number">{pair.t_star ?? NONE}</td>
      <td>
        {one.delivered ? pair.manifestation.replaceAll("_", " ") : <span class="muted">not delivered</span>}{" "}
        {pair.within_noise_floor !== null && <span class="tag">{pair.within_noise_floor ? "within the floor" : "above the floor"}</span>}
      </td>
      <td class="number">
        {one.score_clean ?? NONE} → {one.score_perturbed ?? NONE}
      </td>
      <td>
        <a class="mono" href={href("diff", { run, trace: pair.baseline_trace, other: pair.trace })}>
          {shortId(pair.baseline_trace)} → {shortId(pair.trace)}
        </a>
      </td>
    </tr>
  );
}

function Changes({ answer }: { answer: PerturbationView }) {
  const missing = Object.entries(answer.missing).map(([why, n]) => `${n} ${why}`);
  return (
    <details class="part">
      <summary>What was changed, and where it could not be</summary>
      <table class="grid">
        <tbody>
          {answer.treatments.map((one) => (
            <tr key={one.condition}>
              <td>{one.condition}</td>
              <td class="muted">{firstOf(one.tasks, 3)}</td>
              <td>{one.summary}</td>
            </tr>
          ))}
          {answer.not_applicable.map((one) => (
            <tr key={`${one.operator} ${one.task} ${one.file}`}>
              <td>{one.operator}</td>
              <td class="muted">{one.task}</td>
              <td class="muted">not applied: {one.why}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {missing.length > 0 && <p class="note">Episodes without a score: {missing.join(", ")}.</p>}
    </details>
  );
}
