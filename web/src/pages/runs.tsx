// All runs: searched, filtered and sorted by the server; two can be picked and compared.
import { useEffect, useRef, useState } from "preact/hooks";
import { change, go, href } from "../address";
import { useKeys } from "../keys";
import { useAnswer } from "../load";
import type { RunOverview, RunsQuery } from "../models";
import { Rate } from "../parts/estimate";
import { Search } from "../parts/search";
import { Empty, Failed, Loading } from "../parts/states";
import { count, dollars, NONE, plural, short, when } from "../words";
import type { PageProps } from "./registry";
import "./runs.css";

type Sort = NonNullable<RunsQuery["sort"]>;
const PAGE = 100;
const COLUMNS: { sort: Sort | null; title: string; kind?: string }[] = [
  { sort: null, title: "" },
  { sort: "name", title: "Run" },
  { sort: "pass", title: "Pass rate" },
  { sort: "episodes", title: "Episodes", kind: "number" },
  { sort: "missing", title: "Missing", kind: "number" },
  { sort: "cost", title: "Cost", kind: "number" },
  { sort: "tokens", title: "Tokens", kind: "number" },
  { sort: "created", title: "Created" },
];

export default function Runs({ params }: PageProps) {
  const sort = (params.sort ?? "created") as Sort;
  const down = params.down !== "no";
  const first = Number(params.first ?? 0);
  const [waited, setWaited] = useState(0);
  const query = { filter: params.filter ?? "", sort, down, first, count: PAGE };
  const loaded = useAnswer("/api/runs", query, waited);
  const { answer } = loaded;
  const search = useRef<HTMLInputElement>(null);
  const [at, setAt] = useState(0);
  const rows = answer?.rows ?? [];
  const picked = (params.pick ?? "").split(",").filter(Boolean);

  useEffect(() => {
    document.title = "Runs · Ethogram";
  }, []);
  useEffect(() => {
    if (!answer?.pending) return;
    const timer = setTimeout(() => setWaited(waited + 1), 400);
    return () => clearTimeout(timer);
  }, [answer]);
  useKeys(
    [
      { keys: ["j", "ArrowDown"], label: "j", does: "next run", act: () => setAt(Math.min(at + 1, rows.length - 1)) },
      { keys: ["k", "ArrowUp"], label: "k", does: "previous run", act: () => setAt(Math.max(at - 1, 0)) },
      { keys: ["Enter"], label: "Enter", does: "open the run", act: () => rows[at] && go("run", { run: rows[at].run }) },
      { keys: ["x"], label: "x", does: "pick the run to compare it", act: () => rows[at] && pick(rows[at].run) },
      { keys: ["/", "f"], label: "/", does: "filter", act: () => search.current?.focus() },
    ],
  );

  const pick = (run: string) => {
    const next = picked.includes(run) ? picked.filter((name) => name !== run) : [...picked, run].slice(-2);
    change({ pick: next.join(",") }, true);
  };

  if (!answer) return loaded.failure ? <Failed failure={loaded.failure} /> : <Loading lines={6} />;
  if (answer.of === 0)
    return (
      <Empty title="No runs yet" hint={`Nothing is stored in ${answer.home}. Import logs of your agents, or try the demonstration:`} command="ethogram import PATH">
        <p class="or">or</p>
        <code>ethogram demo</code>
      </Empty>
    );
  return (
    <div class="page runs">
      <div class="head">
        <h1>Runs</h1>
        <span class="muted">
          {answer.matched === answer.of - answer.pending - answer.unsearched.length ? plural(answer.of, "run") : `${count(answer.matched)} of ${plural(answer.of, "run")}`}
          {answer.pending > 0 && `, reading ${answer.pending} more…`}
          {answer.unsearched.length > 0 && <span title={answer.unsearched.join(", ")}>{`, ${plural(answer.unsearched.length, "run")} not searched to the end: too large, or sealed`}</span>}
        </span>
        <span class="spring" />
        <a href={href("golden")}>Golden sets and incidents</a>
        <Compare picked={picked} />
      </div>
      <FilterField value={params.filter ?? ""} problem={answer.problem} fields={answer.fields} field={search} />
      {answer.tags.length > 0 && <Tags tags={answer.tags} filter={params.filter ?? ""} />}
      {rows.length === 0 && !answer.problem && answer.pending === 0 ? (
        <Empty title="No run matches" hint="Take something out of the filter.">
          <button class="button" onClick={() => change({ filter: "" })}>
            Clear the filter
          </button>
        </Empty>
      ) : (
        <table class="grid">
          <thead>
            <tr>
              {COLUMNS.map((column) => (
                <Head key={column.title} {...column} current={sort} down={down} />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <Line key={row.run} row={row} active={i === at} picked={picked.includes(row.run)} pick={() => pick(row.run)} />
            ))}
          </tbody>
        </table>
      )}
      {answer.matched > PAGE && <Windows first={first} of={answer.matched} />}
    </div>
  );
}

function Head({ sort, title, kind, current, down }: { sort: Sort | null; title: string; kind?: string; current: Sort; down: boolean }) {
  if (sort === null) return <th class="pick" aria-label="pick to compare" />;
  const chosen = sort === current;
  const turn = () => change({ sort, down: chosen && down ? "no" : null, first: null });
  return (
    <th class={kind} aria-sort={chosen ? (down ? "descending" : "ascending") : undefined}>
      <button onClick={turn}>
        {title}
        <i aria-hidden="true">{chosen ? (down ? "↓" : "↑") : ""}</i>
      </button>
    </th>
  );
}

function Line({ row, active, picked, pick }: { row: RunOverview; active: boolean; picked: boolean; pick: () => void }) {
  const missing = Object.values(row.missing).reduce((sum, n) => sum + n, 0);
  const reasons = Object.entries(row.missing).map(([reason, n]) => `${n} ${reason}`);
  return (
    <tr class={active ? "active" : undefined}>
      <td class="pick">
        <input type="checkbox" checked={picked} onChange={pick} aria-label={`pick ${row.run} to compare it`} />
      </td>
      <td class="name">
        <a href={href("run", { run: row.run })}>{row.run}</a>
        {row.live && <span class="tag live">running</span>}
        {row.tags.map((tag) => (
          <span key={tag} class="tag">
            {tag}
          </span>
        ))}
        <small>{row.problem ? <span class="bad">{row.problem}</span> : [row.kind, row.model !== "unknown" && row.model, row.agents.slice(0, 2).join(", ")].filter(Boolean).join(" · ")}</small>
      </td>
      <td data-title="pass">
        <Rate estimate={row.pass_rate} />
      </td>
      <td class="number" data-title="episodes" title={`${plural(row.tasks, "task")}`}>
        {row.planned !== null && row.planned > row.episodes ? `${count(row.episodes)} of ${count(row.planned)}` : count(row.episodes)}
      </td>
      <td class="number" data-title="missing" title={reasons.join(", ")}>
        {missing ? count(missing) : <span class="muted">0</span>}
      </td>
      <td class="number" data-title="cost" title={row.cost_usd === null ? "not every call has a price" : undefined}>
        {row.cost_usd !== null ? dollars(row.cost_usd) : row.at_least_usd > 0 ? `≥ ${dollars(row.at_least_usd)}` : NONE}
      </td>
      <td class="number" data-title="tokens">
        {short(row.tokens)}
      </td>
      <td class="when" data-title="created">
        {when(row.created_ns)}
      </td>
    </tr>
  );
}

function FilterField({ value, problem, fields, field }: { value: string; problem: string | null; fields: string[]; field: { current: HTMLInputElement | null } }) {
  return (
    <div class={problem ? "filter wrong" : "filter"}>
      <Search
        field={field}
        text={value}
        label="Filter runs"
        hint="Filter: a name, pass<0.5, cost>1, tag:nightly, words:refund, -kind:import"
        wrong={problem !== null}
        set={(filter) => change({ filter, first: null }, true)}
      />
      {problem ? <p role="alert">{problem}</p> : <p class="muted small">fields: {fields.join(", ")}</p>}
    </div>
  );
}

function Tags({ tags, filter }: { tags: string[]; filter: string }) {
  return (
    <p class="tags">
      {tags.slice(0, 20).map((tag) => {
        const term = /\s/.test(tag) ? `tag:"${tag}"` : `tag:${tag}`;
        const on = filter.split(/\s+/).includes(term);
        const next = on ? filter.replace(term, "").trim() : `${filter} ${term}`.trim();
        return (
          <button key={tag} class={on ? "tag on" : "tag"} aria-pressed={on} onClick={() => change({ filter: next })}>
            {tag}
          </button>
        );
      })}
    </p>
  );
}

function Compare({ picked }: { picked: string[] }) {
  if (picked.length < 2) return <span class="muted small">{picked.length ? "pick one more to compare" : ""}</span>;
  return (
    <a class="button strong" href={href("gate", { run: picked[1], against: picked[0] })}>
      Compare {picked[0]} → {picked[1]}
    </a>
  );
}

function Windows({ first, of }: { first: number; of: number }) {
  return (
    <p class="windows">
      <button class="button" disabled={first === 0} onClick={() => change({ first: Math.max(first - PAGE, 0) || null })}>
        Previous
      </button>
      <span class="muted">
        {first + 1} to {Math.min(first + PAGE, of)} of {count(of)}
      </span>
      <button class="button" disabled={first + PAGE >= of} onClick={() => change({ first: first + PAGE })}>
        Next
      </button>
    </p>
  );
}
