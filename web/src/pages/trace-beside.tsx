// An attempt beside one that passed: what differs first in a sentence, and both side by side, step by step.
import { useMemo } from "preact/hooks";
import { change, href, type Params } from "../address";
import type { Only } from "../kinds";
import type { AttemptBeside, PassingAttempt } from "../models";
import { clean } from "../text";
import { shortId } from "../words";
import type { StepMark } from "./trace-card";
import { CardsPane, useCards } from "./trace-cards";

const SIGNS: Record<string, string> = { "≈": "≈ other arguments", "≠": "≠ gave something else", "~": "~ another step", "+": "+ only here", "-": "− only here" };

/** What is said of steps of both sides, by their numbers. */
export interface BesideMarks {
  own: Map<number, StepMark>;
  other: Map<number, StepMark>;
}

export function useMarks(beside: AttemptBeside | null, open: boolean): BesideMarks {
  return useMemo(() => {
    const marks: BesideMarks = { own: new Map(), other: new Map() };
    if (beside === null) return marks;
    if (beside.step !== null) marks.own.set(beside.step, { begin: true, sign: "", first: false });
    if (!open) return marks;
    [...beside.signs].forEach((sign, i) => {
      const said = { sign: SIGNS[sign] ?? "", first: i === beside.differs };
      const [own, other] = [beside.own[i] ?? null, beside.other[i] ?? null];
      if (sign === "=") return;
      if (own !== null) marks.own.set(own, { begin: own === beside.step, ...said });
      if (other !== null) marks.other.set(other, { begin: false, ...said });
    });
    return marks;
  }, [beside, open]);
}

/** The step that stands beside another one, or the last before it that has one. */
export function across(from: (number | null)[], to: (number | null)[], step: number | null): number | null {
  if (step === null) return null;
  let found: number | null = null;
  for (let i = 0; i < from.length; i += 1) {
    const at = from[i] ?? null;
    if (at !== null && at > step) break;
    found = to[i] ?? found;
  }
  return found;
}

/** Where the two part: a step of this attempt, where it has one there. */
export function firstStep(beside: AttemptBeside): number | null {
  const at = beside.differs;
  if (at === null) return beside.step;
  return beside.own[at] ?? across(beside.other, beside.own, beside.other[at] ?? null) ?? 0;
}

export function BesideLine({ beside, params, open }: { beside: AttemptBeside; params: Params; open: boolean }) {
  const { passing } = beside;
  const at = firstStep(beside);
  if (!passing && !beside.said && !beside.reasons.length && !beside.note) return null;
  return (
    <p class="beside-line">
      {beside.reasons.map((reason) => (
        <span key={reason.what} class="reason">
          <b>{clean(reason.what)}</b> <span class={reason.kind === "cause" ? "tag fail" : "tag"}>{reason.kind}</span>{" "}
          {reason.step !== null && (
            <a href={href("trace", { ...params, step: reason.step })} title="Read this step">
              step {reason.step}
            </a>
          )}{" "}
          · <b>Try</b> {clean(reason.try)}
        </span>
      ))}
      {beside.said && <span>The checks said: {clean(beside.said)}</span>}
      {passing && (
        <span>
          {named(passing, params.run)} passed. {beside.differs === null ? "" : "First difference: "}
          {clean(beside.first)}.{" "}
          <button class="unfold" aria-pressed={open} title="Both attempts side by side (b)" onClick={() => change(open ? { beside: null } : { beside: "yes", step: at }, true)}>
            {open ? "Close the comparison" : "Read both side by side"}
          </button>
        </span>
      )}
      {beside.note && <span class="muted">{beside.note}</span>}
    </p>
  );
}

function named(passing: PassingAttempt, run: string | undefined): string {
  const under = passing.condition ? ` under ${passing.condition}` : "";
  return `Attempt ${passing.attempt}${passing.run === run ? "" : ` of run ${passing.run}`}${under}`;
}

interface PassingPaneProps {
  beside: AttemptBeside;
  passing: PassingAttempt;
  only: Only | null;
  step: number | null;
  marks: Map<number, StepMark>;
  select: (step: number) => void;
}

/** The attempt that passed, which follows the step that is read in the other one. */
export function PassingPane({ beside, passing, only, step, marks, select }: PassingPaneProps) {
  const place = { run: passing.run, trace: passing.trace };
  const parting = beside.differs !== null && step === firstStep(beside) ? (beside.other[beside.differs] ?? null) : null;
  const now = parting ?? across(beside.own, beside.other, step);
  const cards = useCards(place, only, now, "passing-step");
  const back = (other: number) => {
    const own = across(beside.other, beside.own, other);
    if (own !== null) select(own);
  };
  return (
    <div class="cards-pane passing">
      <p class="pane-head">
        <b>one that passed</b>{" "}
        <a href={href("trace", place)}>
          attempt {passing.attempt}, <span class="mono">{shortId(passing.trace)}</span>
        </a>
      </p>
      <CardsPane cards={cards} place={place} only={only} step={now} select={back} marks={marks} prefix="passing-step" label="Turns of the attempt that passed" />
    </div>
  );
}
