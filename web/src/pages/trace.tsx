// One trace: its head, its outline on a clock (or an attempt that passed) beside its turns as cards, and a search.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { change, go } from "../address";
import { useKeys } from "../keys";
import type { Only } from "../kinds";
import { useAnswer } from "../load";
import { TurnChart } from "../parts/charts";
import { Failed, Loading } from "../parts/states";
import { count, short } from "../words";
import type { PageProps } from "./registry";
import { BesideLine, firstStep, PassingPane, useMarks } from "./trace-beside";
import { CardsPane, useCards } from "./trace-cards";
import { Find, useFind } from "./trace-find";
import { TraceHead } from "./trace-head";
import { OutlinePane } from "./trace-outline";
import "./trace.css";

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
  const cards = useCards(place, only, step);
  // the first cards are what is read first: of a large trace they are there long before its tree is
  const begun = cards.rows.of !== null || cards.rows.failure !== null;
  const turns = useAnswer("/api/trace/turns", begun ? place : null);
  const beside = useAnswer("/api/trace/beside", begun ? { ...place, against: params.against ?? "" } : null).answer;
  const passing = params.beside === "yes" ? (beside?.passing ?? null) : null;
  const marks = useMarks(beside, passing !== null);
  const found = useFind(place, params.find ?? "");
  const search = useRef<HTMLInputElement>(null);
  const [outline, setOutline] = useState(false);

  const select = (to: number | null, quiet = true) => change({ step: to }, quiet);
  // two attempts are opened where they part
  useEffect(() => {
    if (passing && beside && params.step === undefined) select(firstStep(beside));
  }, [beside, passing?.trace]);

  const move = (by: 1 | -1) => {
    if (step === null) return select(cards.rows.row(0)?.steps[0]?.step ?? 0);
    const row = cards.rowOf(step);
    if (row === null) return select(step + by);
    const steps = cards.rows.row(row)?.steps ?? [];
    const inside = steps[steps.findIndex((one) => one.step === step) + by];
    const after = cards.rows.row(row + by)?.steps;
    const next = inside ?? (by > 0 ? after?.[0] : after?.[after.length - 1]);
    if (next) select(next.step);
    else if (!only) select(Math.min(Math.max(step + by, 0), Math.max((head.answer?.steps ?? 1) - 1, 0)));
  };
  const open = (trace: string | null | undefined) => {
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
      { keys: ["ArrowRight"], label: "→", does: "next attempt of the list, as it is filtered and sorted", act: () => open(near.answer?.next) },
      { keys: ["ArrowLeft"], label: "←", does: "previous attempt of the list", act: () => open(near.answer?.previous) },
      { keys: ["/"], label: "/", does: "find words in this trace", act: () => search.current?.focus() },
      { keys: ["n"], label: "n", does: "next step that holds them", act: () => toMatch(1) },
      { keys: ["N"], label: "Shift N", does: "previous step that holds them", act: () => toMatch(-1) },
      { keys: ["f"], label: "f", does: "all, model, tools or errors only", act: cycle },
      { keys: ["b"], label: "b", does: "beside an attempt that passed", act: () => beside?.passing && change({ beside: passing ? null : "yes" }, true) },
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
      {head.answer ? <TraceHead head={head.answer} near={near.answer} params={params} open={open} /> : <Loading lines={2} />}
      {beside && <BesideLine beside={beside} params={params} open={passing !== null} />}
      <div class="tools">
        <div class="segments" role="group" aria-label="Which steps">
          {KINDS.map((kind) => (
            <button key={kind.title} aria-pressed={only === kind.only} title={`${kind.title} (f)`} onClick={() => change({ only: kind.only }, true)}>
              {kind.title}
              {kind.only === "errors" && !!head.answer?.errors && <i>{count(head.answer.errors)}</i>}
            </button>
          ))}
        </div>
        <Find field={search} text={wanted} found={found} now={step} move={toMatch} />
        {!passing && (
          <button class="button outline-toggle" aria-pressed={outline} onClick={() => setOutline(!outline)}>
            Outline
          </button>
        )}
        {turns.answer && turns.answer.step.length > 1 && (
          <div class="turn-chart" title="Context (area) and output tokens (bars) over turns. Click to jump.">
            <TurnChart {...turns.answer} now={step} jump={(to) => select(to)} words={(i) => turnWords(turns.answer, i)} />
          </div>
        )}
      </div>
      <div class={passing ? "panes pair" : "panes"}>
        {!passing && <OutlinePane place={place} ready={begun} only={only} folded={params.fold ?? ""} step={step} select={select} hits={hits} />}
        <div class="cards-pane">
          {passing && (
            <p class="pane-head">
              <b>this attempt</b>
            </p>
          )}
          <CardsPane cards={cards} place={place} only={only} step={step} select={select} marks={marks.own} find={wanted} hits={hits} />
        </div>
        {passing && beside && <PassingPane beside={beside} passing={passing} only={only} step={step} marks={marks.other} select={select} />}
      </div>
    </div>
  );
}

function turnWords(view: { step: number[]; context: (number | null)[]; output: (number | null)[] } | null, i: number): string {
  if (!view) return "";
  return `step ${view.step[i]}: context ${short(view.context[i])}, output ${short(view.output[i])} tokens`;
}
