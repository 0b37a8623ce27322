// One attempt to read; a failed one beside an attempt that passed, the first difference marked.
import { useEffect, useRef } from "preact/hooks";
import { href } from "../address";
import { useAnswer } from "../load";
import type { OpenRow, OpenStep, OpenText, OpenTrace } from "../models";
import { count, shortId } from "../words";
import { Failed, Loading } from "./states";

/** The report that an attempt is opened from. */
export interface Here {
  run: string;
  against: string | null;
}

interface AttemptProps {
  here: Here;
  trace: string;
  step?: string;
}

export function AttemptBeside({ here, trace, step }: AttemptProps) {
  const { answer, failure } = useAnswer("/api/report/attempt", { run: here.run, against: here.against ?? "", trace });
  const body = useRef<HTMLElement>(null);
  const shown = answer?.trace;
  useEffect(() => {
    if (!shown) return;
    const at = step === undefined ? null : body.current?.querySelector(`[data-step="${Number(step)}"]`);
    if (at instanceof HTMLDetailsElement) at.open = true;
    (at ?? body.current)?.scrollIntoView({ block: at ? "center" : "start" });
    body.current?.focus({ preventScroll: true });
  }, [shown, step]);
  if (failure) return <Failed failure={failure} />;
  return (
    <article class="attempt" ref={body} tabIndex={-1}>
      {answer ? <Attempt open={answer} here={here} at={step === undefined ? null : Number(step)} /> : <Loading lines={6} />}
    </article>
  );
}

function Attempt({ open, here, at }: { open: OpenTrace; here: Here; at: number | null }) {
  const facts = [open.state === "unscored" ? "no score" : open.state, open.outcome, ...open.classes, open.condition];
  const paired = open.passing !== null;
  return (
    <>
      <h3>
        {open.task}, attempt {open.attempt} <span class={`tag ${open.state === "failed" ? "fail" : "on"}`}>{facts[0]}</span>
        <a class="spring-end" href={href("report", { ...here })} title="Close (back to the grid)">
          close
        </a>
      </h3>
      <p class="muted">
        {[...new Set(facts.slice(1).filter(Boolean))].join(" · ")} · trace <code>{shortId(open.trace)}</code> · {count(open.steps)} steps
      </p>
      {open.said && <p>The checks said: {open.said}</p>}
      {paired && <Beside open={open} here={here} />}
      {open.note && <p class="note">{open.note}</p>}
      <ol class={paired ? "steps pair" : "steps"}>
        {paired && (
          <li class="heads">
            <b>this attempt</b>
            <b>one that passed</b>
          </li>
        )}
        {open.rows.map((row, i) => (
          <Row key={i} row={row} paired={paired} at={at} />
        ))}
      </ol>
      {open.answer && (
        <>
          <p class="muted">answer</p>
          <pre>{open.answer}</pre>
        </>
      )}
    </>
  );
}

function Beside({ open, here }: { open: OpenTrace; here: Here }) {
  const first = open.rows.find((row) => row.differs);
  const words = `attempt ${open.passing_attempt ?? ""}${open.passing_run ? ` of run ${open.passing_run}` : ""}`;
  const other = open.passing_condition !== open.condition ? (open.passing_condition ? ` under ${open.passing_condition}` : " without a condition") : "";
  const link = open.passing_run ? words : <a href={href("report", { ...here, attempt: open.passing })}>{words}</a>;
  return (
    <p>
      Beside it: {link}
      {other}, which passed
      {first ? `. The first difference: ${difference(first)}.` : "; both took the same steps with the same arguments and results; only words of the model differ."}
    </p>
  );
}

function difference(row: OpenRow): string {
  if (!row.own) return `the one that passed has a step here that this one has not: ${row.passing?.what ?? ""}`;
  if (row.sign === "≈") return `step ${row.own.step} calls ${row.own.what} with other arguments`;
  if (row.sign === "≠") return `step ${row.own.step}: the same call of ${row.own.what} has another result`;
  return `step ${row.own.step}: ${row.own.what}${row.passing ? `, not ${row.passing.what}` : ", which the other has not"}`;
}

function Row({ row, paired, at }: { row: OpenRow; paired: boolean; at: number | null }) {
  const kind = row.differs ? "first" : row.sign === "=" ? "same" : "other";
  return (
    <>
      {row.left_out > 0 && <li class="gap">… {count(row.left_out)} steps left out</li>}
      <li class={paired ? kind : undefined}>
        {row.differs && <em>the first difference</em>}
        {row.own ? <Step step={row.own} open={row.differs || row.own.step === at} own /> : <span>–</span>}
        {paired && (row.passing ? <Step step={row.passing} open={row.differs} /> : <span>–</span>)}
      </li>
    </>
  );
}

function Step({ step, open, own = false }: { step: OpenStep; open: boolean; own?: boolean }) {
  const head = (
    <>
      <b>{step.step}</b> <span class={step.failed ? "what failed-step" : "what"}>{step.what}</span>{" "}
      {step.blamed && <mark>read this first</mark>} <span>{step.line}</span>
    </>
  );
  const at = own ? step.step : undefined;
  if (!step.texts.length) {
    return (
      <div class="bare" data-step={at}>
        {head}
      </div>
    );
  }
  return (
    <details open={open || step.blamed} data-step={at}>
      <summary>{head}</summary>
      {step.texts.map((text, i) => (
        <Words key={i} text={text} failed={step.failed} />
      ))}
    </details>
  );
}

/** One text under its name; what went in is folded, for it is long and seldom what went wrong. */
function Words({ text, failed }: { text: OpenText; failed: boolean }) {
  const name = `${text.kind} ${text.name}`.trim();
  const words = <pre class={text.kind === "error" || (failed && text.kind === "result") ? "error" : undefined}>{text.text}</pre>;
  if (text.kind !== "input") {
    return (
      <>
        <p class="muted small">{name}</p>
        {words}
      </>
    );
  }
  return (
    <details class="given">
      <summary>{name}</summary>
      {words}
    </details>
  );
}
