// The tree of spans beside a clock: every row has its place in time. Only rows in view are in the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { change } from "../address";
import type { Only } from "../kinds";
import { load } from "../load";
import type { OutlineView } from "../models";
import { Failed } from "../parts/states";
import { Virtual } from "../parts/virtual";
import { clean } from "../text";
import { useWindows, type Window } from "../windows";
import { count, plural, seconds } from "../words";

const ROWS = 200;
const HEIGHT = 25;
const SIGNS: Record<string, string> = { agent: "◆", model: "●", tool: "■", retrieval: "▤", memory: "▥", handoff: "➜", user: "▲", judge: "◇", other: "·" };

interface OutlineRow {
  at: number;
  depth: number;
  kind: string;
  name: string;
  failed: boolean;
  step: number | null;
  begin: number;
  seconds: number | null;
  inside: number;
}

interface PaneProps {
  place: { run: string; trace: string };
  /** Whether to fetch it by now. */
  ready: boolean;
  only: Only | null;
  folded: string;
  step: number | null;
  select: (step: number) => void;
  hits: Set<number>;
}

export function OutlinePane({ place, ready, only, folded, step, select, hits }: PaneProps) {
  const [clock, setClock] = useState({ timed: false, whole: 1, spans: 0 });
  const [target, setTarget] = useState<{ row: number; again: number } | null>(null);
  const told = useRef<string>("");
  const key = `${place.run} ${place.trace} ${only ?? ""} ${folded}`;
  const query = { ...place, ...(only && { only }), folded, count: ROWS };
  const take = (view: OutlineView): Window<OutlineRow> => {
    setClock({ timed: view.timed, whole: view.whole || 1, spans: view.spans });
    return { first: view.first, of: view.of, rows: view.at.map((_, i) => rowOf(view, i)) };
  };
  const rows = useWindows<OutlineRow>(key, ROWS, async (first) => take(await load("/api/trace/outline", { ...query, first })), ready);
  useEffect(() => {
    if (!ready || step === null || told.current === `${key} ${step}`) return;
    told.current = `${key} ${step}`;
    const bring = (row: number) => setTarget((before) => ({ row, again: (before?.again ?? 0) + 1 }));
    for (let i = 0; i < (rows.of ?? 0); i += 1) if (rows.row(i)?.step === step) return bring(i);
    const near = (window: Window<OutlineRow>) => bring(window.first + Math.max(window.rows.findIndex((row) => row.step === step), 0));
    rows.around(async () => take(await load("/api/trace/outline", { ...query, step }))).then(near, () => undefined);
  }, [step, key, ready]);
  const fold = (row: OutlineRow) => {
    const places = folded.split(",").filter(Boolean);
    const own = String(row.at);
    change({ fold: (places.includes(own) ? places.filter((one) => one !== own) : [...places, own]).join(",") }, true);
  };
  const closed = new Set(folded.split(",").filter(Boolean).map(Number));
  return (
    <aside class="outline" aria-label="Outline">
      <header>
        <span>{rows.of === null ? "reading the spans…" : rows.of < clock.spans ? `${count(rows.of)} of ${plural(clock.spans, "span")}` : plural(clock.spans, "span")}</span>
        <span class="spring" />
        <span>{rows.of === null ? "" : clock.timed ? seconds(clock.whole) : "by step; the log has no times"}</span>
      </header>
      {rows.failure && <Failed failure={rows.failure} />}
      <Virtual
        key={`${place.run} ${place.trace} ${only}`}
        class="outline-rows"
        label="Spans"
        count={rows.of ?? 0}
        guess={HEIGHT}
        fixed
        target={target}
        onShown={rows.show}
        row={(i) => {
          const row = rows.row(i);
          if (!row) return <div class="outline-row" />;
          return <Line row={row} clock={clock} current={row.step !== null && row.step === step} hit={row.step !== null && hits.has(row.step)} closed={closed.has(row.at)} fold={() => fold(row)} select={select} />;
        }}
      />
    </aside>
  );
}

interface LineProps {
  row: OutlineRow;
  clock: { timed: boolean; whole: number };
  current: boolean;
  hit: boolean;
  closed: boolean;
  fold: () => void;
  select: (step: number) => void;
}

function Line({ row, clock, current, hit, closed, fold, select }: LineProps) {
  const left = (100 * row.begin) / clock.whole;
  const wide = clock.timed ? (100 * (row.seconds ?? 0)) / clock.whole : row.step === null ? 0 : 100 / clock.whole;
  const words = [row.kind, row.name, row.step === null ? "" : `step ${row.step}`, row.seconds === null ? "" : seconds(row.seconds), row.failed ? "failed" : ""];
  const classes = ["outline-row", `is-${row.kind}`, current ? "current" : "", row.failed ? "bad-row" : "", hit ? "hit" : ""];
  return (
    <div class={classes.filter(Boolean).join(" ")} title={words.filter(Boolean).join(" · ")} onClick={() => row.step !== null && select(row.step)}>
      <span class="what" style={{ paddingLeft: `${Math.min(row.depth, 12) * 12}px` }}>
        {row.inside > 0 ? (
          <button class="caret" aria-expanded={!closed} aria-label={`${closed ? "Unfold" : "Fold"} ${count(row.inside)} spans`} onClick={(event) => (event.stopPropagation(), fold())}>
            {closed ? "▸" : "▾"}
          </button>
        ) : (
          <i class="caret" />
        )}
        <i class="sign" aria-hidden="true">
          {SIGNS[row.kind] ?? "·"}
        </i>
        <span class="span-name">{clean(row.name) || row.kind}</span>
        {closed && <small>{count(row.inside)}</small>}
        {row.failed && <b class="cross">✕</b>}
      </span>
      <span class="time">{(wide > 0 || row.step !== null) && <i style={{ left: `${Math.min(left, 99.5)}%`, width: `${Math.min(wide, 100 - Math.min(left, 99.5))}%` }} />}</span>
    </div>
  );
}

function rowOf(view: OutlineView, i: number): OutlineRow {
  return {
    at: view.at[i] ?? 0,
    depth: view.depth[i] ?? 0,
    kind: view.kinds[view.kind[i] ?? 0] ?? "other",
    name: view.names[view.name[i] ?? 0] ?? "",
    failed: view.failed[i] ?? false,
    step: view.step[i] ?? null,
    begin: view.begin[i] ?? 0,
    seconds: view.seconds[i] ?? null,
    inside: view.inside[i] ?? 0,
  };
}
