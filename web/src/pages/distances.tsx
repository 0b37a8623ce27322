// How far attempts of a run are apart, by task: from the other run, or from each other, beside the noise floor.
import { href } from "../address";
import { useAnswer } from "../load";
import type { DistancesView, PairRow } from "../models";
import { Rate } from "../parts/estimate";
import { Empty, Failed, Loading } from "../parts/states";
import { NONE, plural, shortId } from "../words";

const WIDE = 320;

export function Distances({ run, against }: { run: string; against: string }) {
  const { answer, failure } = useAnswer("/api/distances", { run, against });
  if (!answer) return failure ? <Failed failure={failure} /> : <Loading lines={8} />;
  const tasks = Object.entries(answer.tasks);
  if (tasks.length === 0)
    return <Empty title="No distance could be measured" hint={answer.warnings[0] ?? "No task has two attempts with recorded steps."} command={`ethogram divergence ${run}`} />;
  return (
    <div class="page distances">
      <div class="head">
        <h1>{answer.against ? `${answer.run} against ${answer.against}` : `Repeats of ${answer.run}`}</h1>
        <span class="muted">mean distance {answer.mean_of_means?.toFixed(2) ?? NONE}</span>
      </div>
      {answer.evidence && <p class="facts">{answer.evidence}</p>}
      {answer.warnings.map((words) => (
        <p key={words} class="muted small">
          {words}
        </p>
      ))}
      <section class="part">
        <h2>
          Distance by task <small>{floorWords(answer)}</small>
        </h2>
        <ByTask answer={answer} />
      </section>
      {Object.keys(answer.groups).length > 0 && (
        <section class="part">
          <h2>How the difference showed</h2>
          <table class="grid">
            <tbody>
              {Object.entries(answer.groups).map(([name, share]) => (
                <tr key={name}>
                  <td>{name.replaceAll("_", " ")}</td>
                  <td>
                    <Rate estimate={share} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {answer.pairs.length > 0 && <Pairs answer={answer} />}
    </div>
  );
}

function floorWords({ noise_floor: floor }: DistancesView): string {
  if (floor.mean === null) return "the noise floor was not measured: no task has repeats";
  return `noise floor ${floor.mean.toFixed(2)}, 95th percentile ${floor.q95?.toFixed(2) ?? NONE} (${plural(floor.pairs, "pair")})`;
}

/** A line per task from its least to its greatest distance, over a band that repeats alone fill. */
function ByTask({ answer }: { answer: DistancesView }) {
  const tasks = Object.entries(answer.tasks).sort(([, a], [, b]) => (b.mean ?? -1) - (a.mean ?? -1));
  const q95 = answer.noise_floor.q95;
  return (
    <table class="grid bars">
      <tbody>
        {tasks.slice(0, 200).map(([name, task]) => (
          <tr key={name}>
            <td class="name">{name}</td>
            <td>
              <svg viewBox={`0 0 ${WIDE} 14`} width={WIDE} height="14" role="img" aria-label={`distance ${task.mean?.toFixed(2) ?? "unknown"}`}>
                {q95 !== null && <rect x="0" y="1" width={Math.max(1, q95 * WIDE)} height="12" class="floor" />}
                <line x1="0" x2={WIDE} y1="7" y2="7" class="axis" />
                {task.min !== null && task.max !== null && <line x1={task.min * WIDE} x2={task.max * WIDE} y1="7" y2="7" class="spread" />}
                {task.mean !== null && <circle cx={Math.min(Math.max(task.mean * WIDE, 4), WIDE - 4)} cy="7" r="4" class={q95 !== null && task.mean > q95 ? "beyond" : "point"} />}
              </svg>
            </td>
            <td class="number">{task.mean?.toFixed(2) ?? NONE}</td>
            <td class="muted small">{plural(task.pairs, "pair")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Pairs({ answer }: { answer: DistancesView }) {
  return (
    <section class="part">
      <h2>
        Pairs, furthest first <small>{answer.of_pairs > answer.pairs.length ? `${answer.pairs.length} of ${answer.of_pairs}` : ""}</small>
      </h2>
      <table class="grid">
        <thead>
          <tr>
            <th>Task</th>
            <th class="number">Distance</th>
            <th class="number">Parts at</th>
            <th>What it did</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {answer.pairs.map((pair) => (
            <Line key={pair.trace + pair.baseline_trace} pair={pair} run={answer.run} against={answer.against ?? answer.run} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Line({ pair, run, against }: { pair: PairRow; run: string; against: string }) {
  return (
    <tr>
      <td>{pair.task}</td>
      <td class="number">{pair.d_norm?.toFixed(2) ?? NONE}</td>
      <td class="number">{pair.t_star ?? NONE}</td>
      <td>
        {pair.manifestation.replaceAll("_", " ")}
        {pair.within_noise_floor && <span class="tag">within the noise floor</span>}
      </td>
      <td>
        <a class="mono" href={href("diff", { run: against, trace: pair.baseline_trace, other: pair.trace, against: run })}>
          {shortId(pair.baseline_trace)} → {shortId(pair.trace)}
        </a>
      </td>
    </tr>
  );
}
