// A card is a turn: what the model was told and said, and the tools that it called, with what they gave back.
import { useEffect, useMemo, useState } from "preact/hooks";
import { href } from "../address";
import { shows, type Only } from "../kinds";
import { load } from "../load";
import type { PartView, StepView, TurnCard } from "../models";
import { clean, matches, pretty } from "../text";
import { count, dollars, plural, seconds, short, shortId } from "../words";
import { Labelled } from "./trace-head";

export interface Place {
  run: string;
  trace: string;
}

/** What is said of a step: that reading begins here, and how it differs from the step beside it. */
export interface StepMark {
  begin: boolean;
  sign: string;
  first: boolean;
}

interface CardProps {
  card: TurnCard;
  place: Place;
  now: number | null;
  find: string;
  hits: Set<number>;
  only: Only | null;
  select: (step: number) => void;
  marks?: Map<number, StepMark>;
  /** What the ids of steps begin with. */
  prefix?: string;
}

const FOLD_AT = 560;
const FOLD_LINES = 9;
const SLICE = 100_000;

/** A card that is drawn anew only when something of it changed: it stands in a list that is drawn while it scrolls. */
export function Card(props: CardProps) {
  const { card, now, find, hits, only, marks } = props;
  const own = card.steps.some((step) => step.step === now) ? now : null;
  return useMemo(() => <Turn {...props} now={own} />, [card, own, find, hits, only, marks]);
}

function Turn({ card, place, now, find, hits, only, select, marks, prefix = "step" }: CardProps) {
  const wanted = card.steps.filter((step) => shows(step, only));
  const hidden = card.steps.length - wanted.length;
  const called = new Set(card.steps.filter((step) => step.kind !== "model").map((step) => step.name));
  return (
    <article class={card.steps.some((step) => step.step === now) ? "card now" : "card"}>
      {card.left_out > 0 && <p class="hidden-steps">… {plural(card.left_out, "step")} left out before this</p>}
      {wanted.map((step) => (
        <Step key={step.step} id={`${prefix}-${step.step}`} step={step} place={place} current={step.step === now} find={find} hit={hits.has(step.step)} called={called} mark={marks?.get(step.step)} select={select} />
      ))}
      {hidden > 0 && <p class="hidden-steps">{count(hidden)} other {hidden === 1 ? "step" : "steps"} of turn {card.turn} hidden by the filter</p>}
    </article>
  );
}

interface StepProps {
  id: string;
  step: StepView;
  mark: StepMark | undefined;
  place: Place;
  current: boolean;
  find: string;
  hit: boolean;
  called: Set<string>;
  select: (step: number) => void;
}

function Step({ id, step, mark, place, current, find, hit, called, select }: StepProps) {
  const parts = step.parts.map((part, i) => ({ part, i })).filter(({ part }) => part.kind !== "read" && !(part.kind === "call" && called.has(part.name)));
  const model = step.kind === "model";
  // a judge says yes to nearly every step: those are counted, everything else is shown with its words
  const fine = step.labels.filter((label) => label.source === "judge" && label.value === true);
  const said = step.labels.filter((label) => !fine.includes(label));
  return (
    <section id={id} class={`step ${step.kind}${current ? " current" : ""}${step.failed ? " bad-step" : ""}${mark?.sign ? " differs" : ""}`} onClick={() => select(step.step)}>
      <header>
        <span class={`kind ${step.kind}`}>{step.kind}</span>
        <b>{clean(model ? (step.model ?? step.name) : step.name)}</b>
        {step.agent && <span class="muted small">{clean(step.agent)}</span>}
        {step.failed && <span class="tag fail">✕ error</span>}
        {mark?.begin && <span class="tag fail">◆ read this first</span>}
        {mark?.first && <span class="tag fail">the first difference</span>}
        {mark?.sign && <span class="tag">{mark.sign}</span>}
        {said.map((label, i) => (
          <Labelled key={i} label={label} />
        ))}
        {fine.length > 0 && (
          <span class="tag" title={fine.map((label) => `${label.name}, by ${label.by}`).join("; ")}>
            ✓ {fine.length === 1 ? clean(fine[0]!.name) : `${fine.length} items`}
          </span>
        )}
        <span class="spring" />
        <span class="step-facts">
          {step.context !== null && <span title="all input tokens → output tokens">{short(step.context)} → {short(step.output_tokens)}</span>}
          {step.cost_usd !== null && <span>{dollars(step.cost_usd)}</span>}
          {step.seconds !== null && <span>{seconds(step.seconds)}</span>}
          {step.stop_reason && step.stop_reason !== "stop" && <span>{clean(step.stop_reason)}</span>}
          <a class="mono" href={href("trace", { ...place, step: step.step })} title="Link to this step">
            {step.step}
          </a>
        </span>
      </header>
      {parts.map(({ part, i }) => (
        <Part key={i} part={part} number={i} step={step.step} place={place} find={find} hit={hit} />
      ))}
      {step.more > 0 && <p class="hidden-steps">{count(step.more)} more texts: ethogram trace {shortId(place.trace)} --step {step.step}</p>}
      {said
        .filter((label) => label.why)
        .map((label, i) => (
          <p key={i} class="why-label">
            <Labelled label={label} /> {clean(label.why)} <span class="muted">— {clean(label.by)}</span>
          </p>
        ))}
    </section>
  );
}

interface PartProps {
  part: PartView;
  number: number;
  step: number;
  place: Place;
  find: string;
  hit: boolean;
}

const TITLES: Record<string, string> = { reasoning: "reasoning", arguments: "arguments", result: "result", error: "error", call: "calls", file: "file" };

function Part({ part, number, step, place, find, hit }: PartProps) {
  const [more, setMore] = useState("");
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const text = more || part.text;
  const whole = text.length >= part.chars;
  const shaped = clean(whole && (part.kind === "arguments" || part.kind === "call" || part.kind === "result") ? pretty(text) : text);
  const inside = find !== "" && hit;
  const long = part.chars > FOLD_AT || shaped.split("\n", FOLD_LINES + 1).length > FOLD_LINES;
  const fetchMore = async () => {
    setBusy(true);
    try {
      const slice = await load("/api/trace/text", { ...place, step, part: number, first: text.length, count: SLICE });
      setMore(text + slice.text);
    } finally {
      setBusy(false);
    }
  };
  // what was found further inside a cut text is fetched, so that it can be seen
  useEffect(() => {
    if (inside && !whole && !more && !text.toLowerCase().includes(find.toLowerCase())) void fetchMore();
  }, [inside, find]);
  const shown = open || (inside && shaped.toLowerCase().includes(find.toLowerCase()));
  const unfold = (event: Event) => {
    event.stopPropagation();
    if (!open && !whole) void fetchMore();
    setOpen(!open);
  };
  const title = part.kind === "input" || part.kind === "message" ? part.name : (TITLES[part.kind] ?? part.kind);
  const said = part.kind === "message" && part.name === "assistant" ? "" : part.kind === "call" ? `calls ${part.name}` : title;
  return (
    <div class={`text ${part.kind} ${part.name === "system" ? "system" : ""}`}>
      {said && <span class="role">{clean(said)}</span>}
      {part.chars === 0 && <span class="muted small">empty</span>}
      <pre hidden={part.chars === 0} class={long && !shown ? "folded" : undefined} dir="auto">
        {matches(shaped, inside ? find : "").map(([words, matched], i) => (matched ? <mark key={i}>{words}</mark> : words))}
      </pre>
      {(long || !whole) && (
        <button class="unfold" onClick={unfold} disabled={busy}>
          {busy ? "fetching…" : shown ? "Fold" : `Show all ${count(part.chars)} characters`}
        </button>
      )}
      {shown && !whole && (
        <button class="unfold" onClick={(event) => (event.stopPropagation(), void fetchMore())} disabled={busy}>
          Next {count(Math.min(SLICE, part.chars - text.length))} of {count(part.chars)} characters
        </button>
      )}
    </div>
  );
}

export function CardGhost() {
  return (
    <article class="card ghost-card">
      <div class="ghost" />
      <div class="ghost" />
      <div class="ghost" />
    </article>
  );
}
