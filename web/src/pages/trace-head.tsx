// The head of a trace stays in view: what was asked, what was wanted, how it ended, and the attempts beside it.
import { useState } from "preact/hooks";
import { href, type Params } from "../address";
import type { LabelView, NeighboursView, TraceView } from "../models";
import { Dot } from "../parts/dot";
import { clean, shortened } from "../text";
import { count, dollars, plural, seconds, short, shortId } from "../words";

interface TraceHeadProps {
  head: TraceView;
  near: NeighboursView | null;
  params: Params;
  open: (trace: string | null | undefined) => void;
}

export function TraceHead({ head, near, params, open }: TraceHeadProps) {
  const [whole, setWhole] = useState(false);
  const { attempt } = head;
  const verdict = attempt.score !== null ? `${head.state}, score ${Math.round(attempt.score * 1000) / 1000}` : `no score: ${attempt.missing}`;
  const general = head.labels.filter((label) => label.step === null);
  return (
    <header class="trace-head">
      <div class="title">
        <Dot state={head.state} />
        <h1 title={attempt.trace_id}>
          {/^\d+$/.test(attempt.task) && <span>task </span>}
          {clean(attempt.task) || shortId(attempt.trace_id)} <span>attempt {attempt.attempt}</span>
          {attempt.condition && <span class="tag">{attempt.condition}</span>}
        </h1>
        <span class={`verdict ${head.state}`}>{verdict}</span>
        {head.limit && <span class="tag fail">limit: {clean(head.limit)}</span>}
        <span class="spring" />
        {near && near.siblings.length > 1 && <Siblings near={near} params={params} own={attempt.trace_id} />}
        {near && (
          <nav class="steps" aria-label="Attempts of the list">
            <button class="icon" disabled={!near.previous} title="Previous attempt (←)" aria-label="Previous attempt" onClick={() => open(near.previous)}>
              ←
            </button>
            <span class="muted small">{near.at ? `${count(near.at)} of ${count(near.of)}` : `not among ${count(near.of)}`}</span>
            <button class="icon" disabled={!near.next} title="Next attempt (→)" aria-label="Next attempt" onClick={() => open(near.next)}>
              →
            </button>
          </nav>
        )}
      </div>
      <dl class={whole ? "words whole" : "words"} onClick={() => setWhole(!whole)} title={whole ? undefined : "Click to see all of it"}>
        <Said name="input" text={head.input} />
        {head.target !== null && <Said name="target" text={head.target} />}
        {head.answer !== null && <Said name="answer" text={head.answer} />}
      </dl>
      {head.problem && <p class="failure">{head.problem}</p>}
      <p class="sums">
        <span>{plural(head.turns, "turn")}</span>
        <span>{plural(head.steps, "step")}</span>
        {!!head.errors && <span class="bad">✕ {plural(head.errors, "error")}</span>}
        {head.tokens !== null && <span>{short(head.tokens)} tokens</span>}
        {attempt.cost_usd !== null && <span>{dollars(attempt.cost_usd)}</span>}
        {attempt.seconds !== null && <span>{seconds(attempt.seconds)}</span>}
        {attempt.agent && <span>{clean(attempt.agent)}</span>}
        {general.map((label, i) => (
          <Labelled key={i} label={label} />
        ))}
      </p>
    </header>
  );
}

function Said({ name, text }: { name: string; text: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{text ? clean(text) : <span class="muted">–</span>}</dd>
    </div>
  );
}

function Siblings({ near, params, own }: { near: NeighboursView; params: Params; own: string }) {
  return (
    <span class="siblings" title="All attempts at this task">
      {near.siblings.map((cell) => (
        <a key={cell.trace} href={href("trace", { ...params, trace: cell.trace, step: null, fold: null })} title={cell.words} aria-label={cell.words} aria-current={cell.trace === own ? "true" : undefined}>
          <Dot state={cell.state} />
        </a>
      ))}
    </span>
  );
}

/** A judgement, with its sign: yes, no, or a value. */
export function Labelled({ label }: { label: LabelView }) {
  const sign = label.value === true ? "✓" : label.value === false ? "✕" : label.value === null ? "–" : "";
  const value = typeof label.value === "number" ? String(Math.round(label.value * 1000) / 1000) : typeof label.value === "string" ? label.value : "";
  return (
    <span class={label.value === false ? "tag fail" : "tag"} title={`${label.source}, by ${label.by}${label.why ? `: ${label.why}` : ""}`}>
      {sign} {clean(label.name)}
      {value && `: ${clean(shortened(value, 60))}`}
    </span>
  );
}
