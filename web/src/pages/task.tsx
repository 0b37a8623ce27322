// One task: the tree of its attempts with success per branch, the choices that cost most, forks and every attempt.
import { useEffect } from "preact/hooks";
import { change, href } from "../address";
import { useKeys } from "../keys";
import { useAnswer } from "../load";
import type { DecisionPoint, StoredFork, TaskAttempt, TaskReading, TreeBranch } from "../models";
import { Dot } from "../parts/dot";
import { Effect, Rate } from "../parts/estimate";
import { Command, Empty, Failed, Loading } from "../parts/states";
import { NONE, plural, shortId } from "../words";
import type { PageProps } from "./registry";
import "./task.css";

const MOST_STEPS = 6;
const MOST_DEPTH = 12;

export default function Task({ params }: PageProps) {
  const run = params.run ?? "latest";
  const task = params.task ?? "";
  const { answer, failure, loading } = useAnswer("/api/task", task ? { run, task } : null);
  useEffect(() => {
    document.title = `Task ${task} · ${run} · Ethogram`;
  }, [run, task]);
  const to = (other: string | null | undefined) => other && change({ task: other, branch: null });
  useKeys(
    [
      { keys: ["ArrowLeft"], label: "←", does: "previous task", act: () => to(answer?.previous) },
      { keys: ["ArrowRight"], label: "→", does: "next task", act: () => to(answer?.next) },
    ],
    [answer],
  );
  if (!task) return <Empty title="Which task?" hint="Open one from the grid of a run, or list them:" command={`ethogram show ${run}`} />;
  if (!answer) return failure ? <Failed failure={failure} /> : <Loading lines={8} />;
  const chosen = params.branch === undefined ? undefined : answer.branches[Number(params.branch)];
  return (
    <div class="page task-page" aria-busy={loading}>
      <div class="head">
        <h1>Task {answer.task}</h1>
        <Rate estimate={answer.rate} />
        <span class="muted">{plural(answer.attempts.length, "attempt")}</span>
        <span class="spring" />
        {answer.previous !== null && (
          <a class="button" href={href("task", { run, task: answer.previous })}>
            ← {answer.previous}
          </a>
        )}
        {answer.next !== null && (
          <a class="button" href={href("task", { run, task: answer.next })}>
            {answer.next} →
          </a>
        )}
      </div>
      <section class="part">
        <h2>
          Where attempts part <small>steps that attempts have in common, then each way on; choose a branch to list its attempts</small>
        </h2>
        <Tree answer={answer} chosen={params.branch} />
      </section>
      <Points answer={answer} />
      <Forks answer={answer} run={run} />
      <Attempts answer={answer} run={run} branch={chosen} />
      {answer.notes.map((words) => (
        <p key={words} class="note">
          {words}
        </p>
      ))}
    </div>
  );
}

function Tree({ answer, chosen }: { answer: TaskReading; chosen: string | undefined }) {
  const steps = answer.branches.filter((branch) => branch.steps.length > 0);
  if (steps.length === 0) return <p class="muted">No step of these attempts was recorded, so there is nothing to branch.</p>;
  const ways = answer.branches.length > 1;
  return (
    <>
      {!ways && <p class="muted">All attempts take the same steps.</p>}
      <ol class="tree">
        {answer.branches.map((branch, i) =>
          branch.steps.length === 0 && branch.ended.length === 0 ? null : (
            <Branch key={i} branch={branch} place={i} of={answer.branches[0]?.traces.length ?? 1} chosen={chosen === String(i)} />
          ),
        )}
      </ol>
      {answer.left_out > 0 && <p class="note">{plural(answer.left_out, "further branch").replace("branchs", "branches")} not shown.</p>}
    </>
  );
}

function Branch({ branch, place, of, chosen }: { branch: TreeBranch; place: number; of: number; chosen: boolean }) {
  const shown = branch.steps.slice(0, MOST_STEPS);
  const more = branch.steps.length - shown.length;
  const words = branch.steps.length === 0 ? "ends without a step" : shown.join(" → ");
  return (
    <li style={{ "--depth": Math.min(branch.depth, MOST_DEPTH) }}>
      <button aria-pressed={chosen} class={chosen ? "chosen" : undefined} onClick={() => change({ branch: chosen ? null : place })}>
        <span class="way">
          <small class="muted">{branch.at}</small> {words}
          {more > 0 && <span class="muted"> … {plural(more, "more step")}</span>}
          {branch.ended.length > 0 && <span class="tag">{branch.ended.length === branch.traces.length ? "ends" : `${branch.ended.length} end here`}</span>}
        </span>
        <Share branch={branch} of={of} />
        <Rate estimate={branch.rate} />
      </button>
    </li>
  );
}

/** How many attempts went here: passed (full), failed (hatched by a line), without a score (grey). */
function Share({ branch, of }: { branch: TreeBranch; of: number }) {
  const unit = 90 / Math.max(of, 1);
  const failed = branch.scored - branch.passed;
  const missing = branch.traces.length - branch.scored;
  const words = `${branch.passed} passed, ${failed} failed${missing ? `, ${missing} without a score` : ""}`;
  return (
    <span class="share" title={words}>
      <svg viewBox="0 0 90 12" role="img" aria-label={words}>
        <rect class="all" x="0" y="1" width="90" height="10" />
        <rect class="passed" x="0" y="1" width={unit * branch.passed} height="10" />
        <rect class="failed" x={unit * branch.passed} y="1" width={unit * failed} height="10" />
        {failed > 0 && <line class="failed-line" x1={unit * branch.passed} x2={unit * branch.scored} y1="6" y2="6" />}
        <rect class="missing" x={unit * branch.scored} y="4" width={unit * missing} height="4" />
      </svg>
      <small>
        {branch.passed}/{branch.scored || NONE}
      </small>
    </span>
  );
}

function Points({ answer }: { answer: TaskReading }) {
  return (
    <section class="part">
      <h2>
        Decision points <small>success after a choice, minus success after other choices at the same place</small>
      </h2>
      {answer.decision_points.length === 0 && (
        <p class="muted">
          No choice parts failures from successes here: {answer.contrast}. <Command text={`ethogram why ${answer.run}`} />
        </p>
      )}
      {answer.decision_points.length > 0 && (
        <table class="grid points">
          <thead>
            <tr>
              <th>After</th>
              <th>Choice</th>
              <th>Change of success</th>
              <th>All ways on</th>
            </tr>
          </thead>
          <tbody>
            {answer.decision_points.map((point) => (
              <Point key={`${point.after.join()} ${point.choice} ${point.step}`} point={point} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Point({ point }: { point: DecisionPoint }) {
  const sure = point.adjusted !== null && point.adjusted <= 0.025;
  return (
    <tr>
      <td class="muted">{point.after.join(" → ") || "the beginning"}</td>
      <td>
        <b>{point.choice}</b> <small class="muted">{`${point.chosen} of ${point.reached}`}</small>
        {!sure && (
          <span class="tag" title={`adjusted p ${point.adjusted?.toPrecision(2) ?? "unknown"}`}>
            not established
          </span>
        )}
      </td>
      <td>
        <Effect estimate={point.fall} />
      </td>
      <td class="muted small">
        {point.branches?.map((way) => (
          <span key={way.choice} class="way-on">
            {way.choice}: {way.runs - way.failed}/{way.runs} passed
          </span>
        ))}
      </td>
    </tr>
  );
}

function Forks({ answer, run }: { answer: TaskReading; run: string }) {
  const settle = answer.causes.find((cause) => cause.experiment?.kind === "fork" && cause.experiment.command);
  const command = settle?.experiment?.command ?? `ethogram fork ${shortId(answer.attempts.find((one) => one.passed === false)?.trace ?? answer.attempts[0]?.trace ?? "TRACE")} --at auto -k 20`;
  return (
    <section class="part">
      <h2>
        Forks <small>attempts gone on from a step, with one thing changed there and without</small>
      </h2>
      {answer.forks.length === 0 ? (
        <p class="muted">
          No attempt at this task was forked. {settle ? `To settle “${settle.what}”:` : "To try a change at a step:"} <Command text={command} />
        </p>
      ) : (
        <div class="scroll">
          <table class="grid">
            <thead>
              <tr>
                <th>Attempt and step</th>
                <th>Changed</th>
                <th class="number">Pairs</th>
                <th class="number">Passed without → with</th>
                <th>Effect</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {answer.forks.map((fork) => (
                <ForkLine key={`${fork.run} ${fork.trace}`} fork={fork} run={run} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function ForkLine({ fork, run }: { fork: StoredFork; run: string }) {
  return (
    <tr>
      <td>
        <a class="mono" href={href("trace", { run, trace: fork.trace, step: fork.at })}>
          {shortId(fork.trace)}:{fork.at}
        </a>
      </td>
      <td>{fork.change ?? "nothing"}</td>
      <td class="number">{fork.pairs}</td>
      <td class="number">{fork.change === null ? `${fork.unchanged_passed}` : `${fork.unchanged_passed} → ${fork.changed_passed}`}</td>
      <td title={fork.why}>{fork.change === null ? <span class="muted">nothing was changed</span> : <Effect estimate={fork.effect} />}</td>
      <td>
        <a href={href("run", { run: fork.run })}>{fork.run}</a>
        {fork.traces > 1 && <small class="muted"> one of {fork.traces} traces</small>}
      </td>
    </tr>
  );
}

function Attempts({ answer, run, branch }: { answer: TaskReading; run: string; branch: TreeBranch | undefined }) {
  const shown = branch ? answer.attempts.filter((one) => branch.traces.includes(one.trace)) : answer.attempts;
  const passing = answer.attempts.find((one) => one.passed);
  return (
    <section class="part">
      <h2>
        Attempts <small>{branch ? `${shown.length} of ${answer.attempts.length}, those of the chosen branch` : ""}</small>
        {branch && (
          <button class="button" onClick={() => change({ branch: null })}>
            Show all
          </button>
        )}
      </h2>
      <div class="scroll">
        <table class="grid task-attempts">
          <tbody>
            {shown.map((one) => (
              <Line key={one.trace} one={one} run={run} passing={passing} step={branch?.at} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Line({ one, run, passing, step }: { one: TaskAttempt; run: string; passing: TaskAttempt | undefined; step: number | undefined }) {
  const state = one.passed === null ? "missing" : one.passed ? "passed" : "failed";
  return (
    <tr>
      <td>
        <Dot state={state} />
      </td>
      <td>
        <a href={href("trace", { run, trace: one.trace, step: step ?? one.step })}>
          attempt {one.attempt} <span class="mono">{shortId(one.trace)}</span>
        </a>
        {one.condition && <small class="muted"> {one.condition}</small>}
      </td>
      <td>{one.passed === null ? (one.missing ?? "no score") : `${state}, score ${one.score ?? NONE}`}</td>
      <td class="number">{plural(one.steps, "step")}</td>
      <td>
        {one.classes.map((name) => (
          <span key={name} class="tag fail">
            {name.replaceAll("_", " ")}
          </span>
        ))}
      </td>
      <td>{one.passed === false && passing && <a href={href("diff", { run, trace: passing.trace, other: one.trace })}>beside one that passed</a>}</td>
    </tr>
  );
}
