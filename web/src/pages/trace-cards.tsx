// The turns of a trace as a list of cards, of which only what can be seen is in the page.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Only } from "../kinds";
import { load } from "../load";
import type { TurnCard } from "../models";
import { Failed } from "../parts/states";
import { Virtual } from "../parts/virtual";
import { useWindows, type Rows } from "../windows";
import { Card, CardGhost, type Place, type StepMark } from "./trace-card";

const CARDS = 12;

export interface Cards {
  key: string;
  rows: Rows<TurnCard>;
  /** The number of the card that holds a step; null where it is not known yet. */
  rowOf: (step: number) => number | null;
  target: { row: number; again: number } | null;
}

/** The cards of a trace; that of `step` comes into view whatever sets it. `prefix` begins the ids of its steps. */
export function useCards(place: Place, only: Only | null, step: number | null, prefix = "step"): Cards {
  const key = `${place.run} ${place.trace} ${only ?? ""}`;
  const fetchCards = async (query: { first?: number; step?: number }) => {
    const view = await load("/api/trace/cards", { ...place, ...(only && { only }), ...query, count: CARDS });
    return { first: view.first, of: view.of, rows: view.cards };
  };
  const rows = useWindows<TurnCard>(key, CARDS, (first) => fetchCards({ first }));
  const [target, setTarget] = useState<Cards["target"]>(null);
  const told = useRef("");
  const rowOf = (wanted: number) => {
    for (let i = 0; i < (rows.of ?? 0); i += 1) {
      if (rows.row(i)?.steps.some((one) => one.step === wanted)) return i;
    }
    return null;
  };
  useEffect(() => {
    if (step === null || told.current === `${place.trace} ${step}`) return;
    told.current = `${place.trace} ${step}`;
    const bring = (row: number) => {
      setTarget((before) => ({ row, again: (before?.again ?? 0) + 1 }));
      setTimeout(() => document.getElementById(`${prefix}-${step}`)?.scrollIntoView({ block: "nearest" }), 120);
    };
    const known = rowOf(step);
    if (known !== null) return bring(known);
    rows
      .around(() => fetchCards({ step }))
      .then((window) => bring(window.first + Math.max(window.rows.findIndex((card) => card.steps.some((one) => one.step >= step)), 0)), () => undefined);
  }, [step, key]);
  return { key, rows, rowOf, target };
}

interface CardsPaneProps {
  cards: Cards;
  place: Place;
  only: Only | null;
  step: number | null;
  select: (step: number) => void;
  marks: Map<number, StepMark>;
  find?: string;
  hits?: Set<number>;
  prefix?: string;
  label?: string;
}

const NO_HITS = new Set<number>();

export function CardsPane({ cards, place, only, step, select, marks, find = "", hits = NO_HITS, prefix = "step", label = "Turns" }: CardsPaneProps) {
  const { rows, key, target } = cards;
  const nothing = only ? `This trace has no ${only === "errors" ? "errors" : `${only} steps`}.` : "This trace has no steps.";
  return (
    <>
      {rows.failure && <Failed failure={rows.failure} />}
      {rows.of === 0 ? (
        <p class="nothing">{nothing}</p>
      ) : (
        <Virtual
          key={key}
          class="cards"
          label={label}
          count={rows.of ?? 0}
          guess={180}
          target={target}
          onShown={rows.show}
          row={(i) => {
            const card = rows.row(i);
            return card ? <Card card={card} place={place} now={step} find={find} hits={hits} only={only} marks={marks} prefix={prefix} select={select} /> : <CardGhost />;
          }}
        />
      )}
    </>
  );
}
