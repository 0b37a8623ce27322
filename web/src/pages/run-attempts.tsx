// Tasks × attempts: one dot opens a trace, two picked dots open their difference.
import { useRef, useState } from "preact/hooks";
import { change, go, href, type Params } from "../address";
import { useKeys } from "../keys";
import { offline, useAnswer } from "../load";
import type { AttemptCell, AttemptRow, AttemptsQuery } from "../models";
import { Dot } from "../parts/dot";
import { Search } from "../parts/search";
import { Failed, Loading } from "../parts/states";
import { count, percent, plural } from "../words";

type Sort = NonNullable<AttemptsQuery["sort"]>;
const SORTS: Sort[] = ["task", "score", "cost", "steps", "errors", "tokens", "seconds"];
const PAGE = 60;

export function Attempts({ run, params }: { run: string; params: Params }) {
  const [shown, setShown] = useState(PAGE);
  const [picking, setPicking] = useState(false);
  const [picked, setPicked] = useState<AttemptCell[]>([]);
  const field = useRef<HTMLInputElement>(null);
  const sort = (params.sort ?? "task") as Sort;
  const list = { filter: params.filter ?? "", sort, down: params.down === "yes" };
  const { answer, failure, loading } = useAnswer("/api/run/attempts", { run, ...list, count: shown });
  const first = answer?.rows[0]?.cells[0];
  const link = (cell: AttemptCell) => href("trace", { run, trace: cell.trace, filter: params.filter, sort: params.sort, down: params.down });
  useKeys(
    [
      { keys: ["/", "f"], label: "f", does: "filter attempts", act: () => field.current?.focus() },
      { keys: ["Enter"], label: "Enter", does: "open the first attempt of the list", act: () => first && (location.hash = link(first)) },
      { keys: ["x"], label: "x", does: "pick two attempts, to see their difference", act: () => setPicking(!picking) },
    ],
  );
  const pick = (cell: AttemptCell) => {
    const next = picked.some((one) => one.trace === cell.trace) ? picked.filter((one) => one.trace !== cell.trace) : [...picked, cell];
    const [a, b] = next;
    if (a && b) go("diff", { run, trace: a.trace, other: b.trace });
    else setPicked(next);
  };
  const clicked = (event: MouseEvent, cell: AttemptCell) => {
    if (!picking && !event.shiftKey) return;
    event.preventDefault();
    pick(cell);
  };
  return (
    <section class="part" aria-busy={loading}>
      <h2>
        Tasks and attempts
        <small>
          {answer && (answer.attempts === answer.of ? `${plural(answer.tasks, "task")}, ${plural(answer.of, "attempt")}` : `${count(answer.attempts)} of ${plural(answer.of, "attempt")}`)}
        </small>
        <span class="spring" />
        {!offline && <button class={picking ? "button strong" : "button"} aria-pressed={picking} title="Pick two attempts to see their difference (x, or Shift and click)" onClick={() => (setPicking(!picking), setPicked([]))}>
          {picking ? `Pick ${2 - picked.length} more` : "Pick two"}
        </button>}
      </h2>
      {!offline && <div class={answer?.problem ? "filter wrong with-sort" : "filter with-sort"}>
        <Search field={field} text={params.filter ?? ""} label="Filter attempts" hint="Filter: is:failed, task:7, steps>20, errors>0, cost>0.1" set={(filter) => change({ filter }, true)} />
        <label>
          sort{" "}
          <select value={sort} onChange={(event) => change({ sort: event.currentTarget.value === "task" ? null : event.currentTarget.value, down: event.currentTarget.value === "task" ? null : "yes" }, true)}>
            {SORTS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {answer?.problem && <p role="alert">{answer.problem}</p>}
      </div>}
      <p class="legend">
        <Dot state="passed" /> passed <Dot state="failed" /> failed <Dot state="missing" /> no score
      </p>
      {failure && <Failed failure={failure} />}
      {!answer && loading && <Loading lines={4} />}
      {answer?.rows.length === 0 && !answer.problem && <p class="muted">No attempt matches.</p>}
      <div class={picking ? "matrix picking" : "matrix"}>
        {answer?.rows.map((row, i) => (
          <Row key={`${row.task} ${row.condition} ${i}`} row={row} run={run} link={link} clicked={clicked} picked={picked} />
        ))}
      </div>
      {answer && offline && answer.tasks > answer.rows.length && <p class="note">{`${plural(answer.tasks - answer.rows.length, "task")} more: ethogram view ${run}`}</p>}
      {answer && !offline && answer.tasks > shown && (
        <button class="button" onClick={() => setShown(shown + 5 * PAGE)}>
          Show more of {plural(answer.tasks, "task")}
        </button>
      )}
    </section>
  );
}

interface RowProps {
  row: AttemptRow;
  run: string;
  link: (cell: AttemptCell) => string;
  clicked: (event: MouseEvent, cell: AttemptCell) => void;
  picked: AttemptCell[];
}

function Row({ row, run, link, clicked, picked }: RowProps) {
  return (
    <div class="matrix-row">
      <span class="task" title={`${row.task}: the tree of its attempts`}>
        {offline ? row.task : <a href={href("task", { run, task: row.task })}>{row.task}</a>}
        {row.condition && <small> {row.condition}</small>}
      </span>
      <span class="dots">
        {row.cells.map((cell) => (
          <a
            key={cell.trace}
            href={link(cell)}
            title={cell.words}
            aria-label={`task ${row.task}, ${cell.words}`}
            class={picked.some((one) => one.trace === cell.trace) ? "picked" : undefined}
            onClick={(event) => clicked(event, cell)}
          >
            <Dot state={cell.state} />
          </a>
        ))}
      </span>
      <span class="number muted" title={`${row.passed} of ${row.scored} scored attempts passed`}>
        {row.scored ? `${row.passed}/${row.scored}` : "–"}
        {row.scored > 1 && <small> {percent(row.passed / row.scored)}</small>}
      </span>
    </div>
  );
}
