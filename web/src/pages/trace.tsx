// One trace: its head, its outline on a clock beside its turns as cards, and a search over all its words.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { change, go } from "../address";
import { useKeys } from "../keys";
import { load, useAnswer } from "../load";
import type { CardsQuery, TextSearch, TurnCard } from "../models";
import { TurnChart } from "../parts/charts";
import { Failed, Loading } from "../parts/states";
import { Virtual } from "../parts/virtual";
import { useWindows } from "../windows";
import { count, plural, short } from "../words";
import type { PageProps } from "./registry";
import { Card, CardGhost } from "./trace-card";
import { TraceHead } from "./trace-head";
import { OutlinePane } from "./trace-outline";
import "./trace.css";

export type Only = NonNullable<CardsQuery["only"]>;
const CARDS = 12;
const KINDS: { only: Only | null; title: string }[] = [
  { only: null, title: "All" },
  { only: "model", title: "Model" },
  { only: "tools", title: "Tools" },
  { only: "errors", title: "Errors" },
];

export default function Trace({ params }: PageProps) {
  const place = { run: params.run ?? "latest", trace: params.trace ?? "" };
  const only = (params.only ?? null) as Only | null;
  const step = params.step === undefined ? null : Number(params.step);
  const list = { filter: params.filter ?? "", sort: (params.sort ?? "task") as "task", down: params.down === "yes" };
  const head = useAnswer("/api/trace", place);
  const near = useAnswer("/api/trace/neighbours", { ...place, ...list });
  const key = `${place.run} ${place.trace} ${only ?? ""}`;
  const cards = useWindows<TurnCard>(key, CARDS, async (first) => {
    const view = await load("/api/trace/cards", { ...place, ...(only && { only }), first, count: CARDS });
    return { first: view.first, of: view.of, rows: view.cards };
  });
  // the first cards are what is read first: of a large trace they are there long before its tree is
  const begun = cards.of !== null || cards.failure !== null;
  const turns = useAnswer("/api/trace/turns", begun ? place : null);
  const found = useFind(place, params.find ?? "");
  const search = useRef<HTMLInputElement>(null);
  const [target, setTarget] = useState<{ row: number; again: number } | null>(null);
  const [outline, setOutline] = useState(false);
  const told = useRef<number | null>(null);

  const select = (to: number | null, quiet = true) => change({ step: to }, quiet);
  const rowOf = (wanted: number) => {
    for (let i = 0; i < (cards.of ?? 0); i += 1) {
      const card = cards.row(i);
      if (card?.steps.some((one) => one.step === wanted)) return i;
    }
    return null;
  };
  // the address leads: whatever sets the step, its card comes into view
  useEffect(() => {
    if (step === null || told.current === step) return;
    told.current = step;
    const known = rowOf(step);
    const bring = (row: number) => {
      setTarget((before) => ({ row, again: (before?.again ?? 0) + 1 }));
      setTimeout(() => document.getElementById(`step-${step}`)?.scrollIntoView({ block: "nearest" }), 120);
    };
    if (known !== null) return bring(known);
    cards
      .around(async () => {
        const view = await load("/api/trace/cards", { ...place, ...(only && { only }), step, count: CARDS });
        return { first: view.first, of: view.of, rows: view.cards };
      })
      .then((window) => bring(window.first + Math.max(window.rows.findIndex((card) => card.steps.some((one) => one.step >= step)), 0)), () => undefined);
  }, [step, key]);

  const move = (by: 1 | -1) => {
    if (step === null) return select(cards.row(0)?.steps[0]?.step ?? 0);
    const row = rowOf(step);
    if (row === null) return select(step + by);
    const steps = cards.row(row)?.steps ?? [];
    const inside = steps[steps.findIndex((one) => one.step === step) + by];
    const beside = cards.row(row + by)?.steps;
    const next = inside ?? (by > 0 ? beside?.[0] : beside?.[beside.length - 1]);
    if (next) select(next.step);
    else if (!only) select(Math.min(Math.max(step + by, 0), Math.max((head.answer?.steps ?? 1) - 1, 0)));
  };
  const beside = (trace: string | null | undefined) => {
    if (trace) go("trace", { ...params, trace, step: null, fold: null });
  };
  const toMatch = (by: 1 | -1) => {
    const at = found.answer?.at ?? [];
    if (at.length === 0) return;
    const now = step ?? -1;
    const next = by > 0 ? (at.find((one) => one > now) ?? at[0]) : (at.findLast((one) => one < now) ?? at[at.length - 1]);
    select(next ?? null);
  };
  const cycle = () => {
    const i = KINDS.findIndex((kind) => kind.only === only);
    change({ only: KINDS[(i + 1) % KINDS.length]?.only }, true);
  };
  useKeys(
    [
      { keys: ["j"], label: "j", does: "next step", act: () => move(1) },
      { keys: ["k"], label: "k", does: "previous step", act: () => move(-1) },
      { keys: ["ArrowRight"], label: "→", does: "next attempt of the list, as it is filtered and sorted", act: () => beside(near.answer?.next) },
      { keys: ["ArrowLeft"], label: "←", does: "previous attempt of the list", act: () => beside(near.answer?.previous) },
      { keys: ["/"], label: "/", does: "find words in this trace", act: () => search.current?.focus() },
      { keys: ["n"], label: "n", does: "next step that holds them", act: () => toMatch(1) },
      { keys: ["N"], label: "Shift N", does: "previous step that holds them", act: () => toMatch(-1) },
      { keys: ["f"], label: "f", does: "all, model, tools or errors only", act: cycle },
      { keys: ["o"], label: "o", does: "show or hide the outline", act: () => setOutline(!outline) },
    ],
  );
  useEffect(() => {
    const row = head.answer?.attempt;
    if (row) document.title = `${row.task || row.trace_id} · attempt ${row.attempt} · Ethogram`;
  }, [head.answer]);

  const hits = useMemo(() => new Set(found.answer?.at), [found.answer]);
  if (head.failure) return <Failed failure={head.failure} />;
  const wanted = params.find ?? "";
  return (
    <div class={outline ? "trace outline-open" : "trace"}>
      {head.answer ? <TraceHead head={head.answer} near={near.answer} params={params} open={beside} /> : <Loading lines={2} />}
      <div class="tools">
        <div class="segments" role="group" aria-label="Which steps">
          {KINDS.map((kind) => (
            <button key={kind.title} aria-pressed={only === kind.only} title={`${kind.title} (f)`} onClick={() => change({ only: kind.only }, true)}>
              {kind.title}
              {kind.only === "errors" && head.answer && head.answer.errors > 0 && <i>{count(head.answer.errors)}</i>}
            </button>
          ))}
        </div>
        <Find field={search} text={wanted} found={found} now={step} move={toMatch} />
        <button class="button outline-toggle" aria-pressed={outline} onClick={() => setOutline(!outline)}>
          Outline
        </button>
        {turns.answer && turns.answer.step.length > 1 && (
          <div class="turn-chart" title="Context (area) and output tokens (bars) over turns. Click to jump.">
            <TurnChart {...turns.answer} now={step} jump={(to) => select(to)} words={(i) => turnWords(turns.answer, i)} />
          </div>
        )}
      </div>
      <div class="panes">
        <OutlinePane place={place} ready={begun} only={only} folded={params.fold ?? ""} step={step} select={select} hits={hits} />
        <div class="cards-pane">
          {cards.failure && <Failed failure={cards.failure} />}
          {cards.of === 0 ? (
            <p class="nothing">{only ? `This trace has no ${only === "errors" ? "errors" : `${only} steps`}.` : "This trace has no steps."}</p>
          ) : (
            <Virtual
              key={key}
              class="cards"
              label="Turns"
              count={cards.of ?? 0}
              guess={180}
              target={target}
              onShown={cards.show}
              row={(i) => {
                const card = cards.row(i);
                return card ? <Card card={card} place={place} now={step} find={wanted} hits={hits} only={only} select={select} /> : <CardGhost />;
              }}
            />
          )}
        </div>
      </div>
    </div>
  );
}

function turnWords(view: { step: number[]; context: (number | null)[]; output: (number | null)[] } | null, i: number): string {
  if (!view) return "";
  return `step ${view.step[i]}: context ${short(view.context[i])}, output ${short(view.output[i])} tokens`;
}

interface Found {
  answer: TextSearch | null;
  failure: string | null;
}

/** The steps that hold a text, asked for once the typing rests. */
function useFind(place: { run: string; trace: string }, text: string): Found {
  const key = `${place.run} ${place.trace} ${text}`;
  const [state, setState] = useState<Found & { key: string }>({ key: "", answer: null, failure: null });
  useEffect(() => {
    if (!text.trim()) return;
    const stop = new AbortController();
    load("/api/trace/find", { ...place, text }, stop.signal).then(
      (answer) => setState({ key, answer, failure: null }),
      (error: Error) => !stop.signal.aborted && setState({ key, answer: null, failure: error.message }),
    );
    return () => stop.abort();
  }, [key]);
  return useMemo(() => (state.key === key && text.trim() ? state : { answer: null, failure: null }), [state, key]);
}

interface FindProps {
  field: { current: HTMLInputElement | null };
  text: string;
  found: Found;
  now: number | null;
  move: (by: 1 | -1) => void;
}

function Find({ field, text, found, now, move }: FindProps) {
  const timer = useRef(0);
  const type = (value: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => change({ find: value }, true), 250);
  };
  const at = found.answer?.at ?? [];
  const number = now === null ? 0 : at.indexOf(now) + 1;
  const enter = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    move(event.shiftKey ? -1 : 1);
  };
  return (
    <div class="find">
      <input ref={field} type="search" value={text} spellcheck={false} placeholder="Find in this trace ( / )" aria-label="Find in this trace" onInput={(event) => type(event.currentTarget.value)} onKeyDown={enter} />
      {text.trim() && (
        <span class="find-count" role="status" title={found.answer ? `${plural(found.answer.times, "place")} in ${plural(found.answer.steps, "step")} of ${count(found.answer.of)}` : ""}>
          {found.failure ?? (found.answer === null ? "…" : at.length === 0 ? "none" : `${number || "–"} of ${count(at.length)}`)}
        </span>
      )}
      <button class="icon" disabled={at.length === 0} title="Previous (Shift N)" aria-label="Previous match" onClick={() => move(-1)}>
        ↑
      </button>
      <button class="icon" disabled={at.length === 0} title="Next (n)" aria-label="Next match" onClick={() => move(1)}>
        ↓
      </button>
    </div>
  );
}
