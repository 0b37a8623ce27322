// Can this judge be trusted: questions answered by hand and blind, beside the agreement that they measure.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { change } from "../address";
import { useKeys } from "../keys";
import { Failure, send, useAnswer } from "../load";
import type { LabelQueue, QueueQuestion, QueueRow, QuestionView } from "../models";
import { Command, Empty, Failed, Loading } from "../parts/states";
import { Section } from "../parts/section";
import { clean } from "../text";
import { count, plural } from "../words";
import { Trusted, itemName } from "./judge-trust";
import type { PageProps } from "./registry";
import { Card } from "./trace-card";
import "./trace.css";
import "./judge.css";

type Answer = "yes" | "no" | "unsure";
const ANSWERS: { answer: Answer; key: string; sign: string }[] = [
  { answer: "yes", key: "y", sign: "✓" },
  { answer: "no", key: "n", sign: "✗" },
  { answer: "unsure", key: "u", sign: "?" },
];
const WINDOW = 8;
const NO_STEPS = new Set<number>();

export default function Judge({ params }: PageProps) {
  const run = params.run ?? "latest";
  const by = params.by ?? "";
  const [told, setTold] = useState(0);
  const queue = useAnswer("/api/judge/queue", { run, by }, told);
  const trust = useAnswer("/api/judge", { run, against: params.against ?? "" }, told);
  useEffect(() => {
    document.title = `Judge · ${run} · Ethogram`;
  }, [run]);
  if (!queue.answer) return queue.failure ? <Failed failure={queue.failure} /> : <Loading lines={8} />;
  if (!queue.answer.judged)
    return <Empty title="No judge has said anything of this run" hint="Judge the way that its attempts took, which costs nothing with rules:" command={`ethogram judge ${run} --judge rule`} />;
  return (
    <div class="page judge" aria-busy={queue.loading}>
      {queue.failure && <Failed failure={queue.failure} />}
      {queue.answer.rows.length > 0 ? (
        <Labelling queue={queue.answer} at={placeOf(queue.answer, params)} labelled={() => setTold(told + 1)} />
      ) : (
        <section class="part no-sample">
          <h2>Nothing was drawn for labelling yet</h2>
          <p class="muted">A judge is held against labels by hand, of attempts that nobody chose. Draw them, and label them here:</p>
          <Command text={`ethogram label ${run} --sample 100`} />
        </section>
      )}
      <Section title="How far the judge can be trusted" loaded={trust} lines={6}>
        {(answer) => <Trusted answer={answer} />}
      </Section>
    </div>
  );
}

/** Where the address says that one is; else at the first question without an answer. */
function placeOf({ rows }: LabelQueue, params: PageProps["params"]): number {
  const named = rows.findIndex((row) => row.trace === params.trace && row.item === params.item);
  if (named >= 0) return named;
  const open = rows.findIndex((row) => !row.answered);
  return open >= 0 ? open : 0;
}

interface LabellingProps {
  queue: LabelQueue;
  at: number;
  labelled: () => void;
}

function Labelling({ queue, at, labelled }: LabellingProps) {
  const { rows, run } = queue;
  const row = rows[at];
  const [why, setWhy] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const [finished, setFinished] = useState<QueueRow | null>(null);
  const busy = useRef(false);
  const reason = useRef<HTMLInputElement>(null);
  useEffect(() => setWhy(""), [row?.trace, row?.item]);

  const open = (place: number) => {
    const next = rows[Math.max(0, Math.min(place, rows.length - 1))];
    if (next) change({ trace: next.trace, item: next.item, first: null }, true);
  };
  const back = () => finished && open(rows.findIndex((one) => one.trace === finished.trace && one.item === finished.item));
  /** The next question without an answer, from here on and then from the start; else the next one. */
  const ahead = () => {
    const open = (i: number) => i !== at && rows[i]?.answered === false;
    const order = [...rows.keys()].map((i) => (at + 1 + i) % rows.length);
    return order.find(open) ?? at;
  };
  const say = async (answer: Answer) => {
    if (!row || busy.current) return;
    busy.current = true;
    setFailure(null);
    try {
      const kept = await send("/api/judge/label", { run, trace: row.trace, item: row.item, answer, why, by: queue.by });
      if (kept.left === 0) setFinished(row);
      open(ahead());
      labelled();
    } catch (error) {
      setFailure(error instanceof Failure ? error : new Failure("The server does not answer. Start it again with: ethogram view", 0));
    } finally {
      busy.current = false;
    }
  };
  useKeys(
    [
      ...ANSWERS.map(({ answer, key }) => ({ keys: [key], label: key, does: `answer ${answer}`, act: () => void say(answer) })),
      { keys: ["s", "Enter"], label: "s", does: "skip to the next question without an answer", act: () => open(ahead()) },
      { keys: ["j", "ArrowDown"], label: "j", does: "next question", act: () => open(at + 1) },
      { keys: ["k", "ArrowUp"], label: "k", does: "previous question", act: () => open(at - 1) },
      { keys: ["b"], label: "b", does: "back to the attempt that was finished last", act: () => back() },
      { keys: ["w"], label: "w", does: "write why", act: () => reason.current?.focus() },
    ],
    [at, why, queue, finished],
  );
  if (!row) return null;
  return (
    <section class="part labelling">
      <header>
        <h2>Label by hand</h2>
        <Progress queue={queue} />
        <span class="spring" />
        <label class="who">
          as{" "}
          <input type="text" value={queue.by} aria-label="Who labels" maxLength={100} onChange={(event) => change({ by: event.currentTarget.value.trim() })} />
        </label>
      </header>
      {failure && <Failed failure={failure} />}
      {finished && finished.trace !== row.trace && (
        <p class="finished small" role="status">
          ✓ Task {clean(finished.task)}, attempt {finished.attempt} is labelled.{" "}
          <button onClick={back}>
            See its outcome, and what the judge said <kbd>b</kbd>
          </button>
        </p>
      )}
      <Asked run={run} by={queue.by} row={row} at={at} of={rows.length} done={queue.done}>
        <div class="answers">
          {ANSWERS.map(({ answer, key, sign }) => (
            <button key={answer} class={`button answer ${answer}`} aria-pressed={given(row) === answer} onClick={() => void say(answer)}>
              <b aria-hidden="true">{sign}</b> {answer} <kbd>{key}</kbd>
            </button>
          ))}
          <button class="button" onClick={() => open(ahead())}>
            skip <kbd>s</kbd>
          </button>
          <input ref={reason} type="text" class="reason" placeholder="why (w), kept with the answer" aria-label="Why" maxLength={4000} value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
          <span class="moves">
            <button class="icon" disabled={at === 0} title="Previous question (k)" aria-label="Previous question" onClick={() => open(at - 1)}>
              ←
            </button>
            <button class="icon" disabled={at === rows.length - 1} title="Next question (j)" aria-label="Next question" onClick={() => open(at + 1)}>
              →
            </button>
          </span>
        </div>
      </Asked>
    </section>
  );
}

function given(row: QueueRow): Answer | null {
  if (!row.answered) return null;
  return row.answer === true ? "yes" : row.answer === false ? "no" : "unsure";
}

function Progress({ queue }: { queue: LabelQueue }) {
  const share = queue.done / Math.max(queue.rows.length, 1);
  return (
    <span class="progress">
      <svg viewBox="0 0 120 8" width="120" height="8" aria-hidden="true">
        <rect width="120" height="8" rx="4" class="all" />
        <rect width={120 * share} height="8" rx="4" class="done" />
      </svg>
      <span>
        {count(queue.done)} of {count(queue.rows.length)}
      </span>
      <small class="muted">in {plural(queue.sampled, "drawn attempt")}</small>
    </span>
  );
}

interface AskedProps {
  run: string;
  by: string;
  row: QueueRow;
  at: number;
  of: number;
  done: number;
  children: ComponentChildren;
}

/** One question with the turns to read; outcome and verdicts come once all questions about the trace are answered. */
function Asked({ run, by, row, at, of, done, children }: AskedProps) {
  const [window, setWindow] = useState({ first: 0, step: null as number | null });
  const place = { run, trace: row.trace };
  useEffect(() => setWindow({ first: 0, step: null }), [row.trace]);
  const loaded = useAnswer("/api/judge/question", { ...place, item: row.item, by, count: WINDOW, first: window.first, step: window.step ?? undefined }, done);
  const answer = loaded.answer?.question.row.trace === row.trace && loaded.answer.question.row.item === row.item ? loaded.answer : null;
  useEffect(() => {
    if (answer && window.step !== null) document.getElementById(`step-${window.step}`)?.scrollIntoView({ block: "nearest" });
  }, [answer, window.step]);
  return (
    <div class="asked">
      <p class="muted small">
        question {count(at + 1)} of {count(of)} · task {clean(row.task)}, attempt {row.attempt} · <span class="mono">{itemName(row.item)}</span>
      </p>
      {loaded.failure && <Failed failure={loaded.failure} />}
      {answer ? <QuestionWords question={answer.question} /> : <h3 class="question">{itemName(row.item)}</h3>}
      {children}
      {answer?.question.told && <Told question={answer.question} />}
      {answer && answer.question.row.answered && !answer.question.told && (
        <p class="muted small">Outcome and verdicts are shown after {plural(answer.question.left, "more answer")} on this attempt.</p>
      )}
      {answer ? <Turns answer={answer} place={place} step={window.step} show={setWindow} /> : loaded.loading && <Loading lines={6} />}
    </div>
  );
}

function QuestionWords({ question }: { question: QueueQuestion }) {
  const { item } = question;
  return (
    <>
      <h3 class="question">{item.question || `${itemName(item.name)}: yes or no?`}</h3>
      {item.yes && (
        <ul class="counts">
          <li>
            <b>✓ yes</b> {item.yes}
          </li>
          <li>
            <b>✗ no</b> {item.no}
          </li>
        </ul>
      )}
      {question.row.answered && question.why && <p class="muted small">You wrote: {clean(question.why)}</p>}
    </>
  );
}

const SAID: Record<string, string> = { true: "✓ yes", false: "✗ no", null: "could not be judged" };

function Told({ question }: { question: QueueQuestion }) {
  const mine = question.row.answer;
  return (
    <aside class="told" aria-label="What was hidden">
      <p>
        Outcome: <b>{question.told?.outcome}</b>
      </p>
      {question.told?.verdicts.map((verdict, i) => (
        <p key={i}>
          {verdict.step === null ? (
            <>
              <span class="mono">{verdict.by}</span> said <b>{SAID[String(verdict.value)] ?? String(verdict.value)}</b>
              {typeof mine === "boolean" && typeof verdict.value === "boolean" && <span class={verdict.value === mine ? "tag on" : "tag fail"}>{verdict.value === mine ? "= as you" : "≠ not as you"}</span>}
            </>
          ) : (
            <>step {verdict.step}: </>
          )}{" "}
          <span class="muted">{clean(verdict.why)}</span>
        </p>
      ))}
    </aside>
  );
}

interface TurnsProps {
  answer: QuestionView;
  place: { run: string; trace: string };
  step: number | null;
  show: (window: { first: number; step: number | null }) => void;
}

const MOST_CHIPS = 24;

function Turns({ answer, place, step, show }: TurnsProps) {
  const { cards, question } = answer;
  const last = cards.first + cards.cards.length;
  const here = new Set(cards.cards.flatMap((card) => card.steps.map((one) => one.step)));
  const asked = question.steps;
  const at = asked.indexOf(step ?? -1);
  const jump = (to: number | undefined) => to !== undefined && show(here.has(to) ? { first: cards.first, step: to } : { first: 0, step: to });
  useKeys(
    [
      { keys: ["ArrowRight"], label: "→", does: "next step that the question is about", act: () => jump(asked[at + 1]) },
      { keys: ["ArrowLeft"], label: "←", does: "previous step that the question is about", act: () => jump(asked[at - 1]) },
    ],
    [at, answer],
  );
  return (
    <>
      {asked.length > 0 && (
        <p class="asks small">
          <span class="muted">asks about {plural(asked.length, "step")}:</span>
          {asked.slice(0, MOST_CHIPS).map((one) => (
            <button key={one} class={one === step ? "tag on" : "tag"} onClick={() => jump(one)}>
              {one}
            </button>
          ))}
          {asked.length > MOST_CHIPS && <span class="muted">and {count(asked.length - MOST_CHIPS)} more (→)</span>}
        </p>
      )}
      {cards.first > 0 && (
        <button class="button more" onClick={() => show({ first: Math.max(0, cards.first - WINDOW), step: null })}>
          ↑ earlier turns
        </button>
      )}
      <div class="turn-cards">
        {cards.cards.map((card) => (
          <Card key={card.turn} card={card} place={place} now={step} find="" hits={NO_STEPS} only={null} select={() => undefined} />
        ))}
      </div>
      {last < cards.of && (
        <button class="button more" onClick={() => show({ first: last, step: null })}>
          ↓ later turns ({count(last)} of {count(cards.of)} read)
        </button>
      )}
    </>
  );
}
