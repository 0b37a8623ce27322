// Everything about a run on one page, in the order in which people ask. On paper this is the page that opens.
import { useEffect, useRef } from "preact/hooks";
import { href } from "../address";
import { offline, useAnswer } from "../load";
import type { Card, Cell, MatrixRow, PagePlace, Picture, ReportView, ShownReason, TableView, Section as Part } from "../models";
import { Command, Empty, Failed, Loading } from "../parts/states";
import type { PageProps } from "./registry";
import "./report.css";

/** The report that an attempt is opened from. */
interface Here {
  run: string;
  against: string | null;
}

const SIGNS = { pass: "●", fail: "○", missing: "·" };
/** Up to this number of characters a headline figure is set large; from the second on a cell wraps. */
const MOST_LARGE = 9;
const LONG_CELL = 40;

export default function ReportPage({ params }: PageProps) {
  const against = params.against ?? "";
  const { answer, failure } = useAnswer("/api/report", { run: params.run ?? "latest", against });
  useEffect(() => {
    if (answer && params.part) document.getElementById(params.part)?.scrollIntoView();
  }, [answer, params.part]);
  if (failure) return <Failed failure={failure} />;
  if (!answer) return <Loading lines={8} />;
  if (!answer.sections.length) return <Empty title="There is nothing to report" hint="Import logs or run a suite first." />;
  return <Report view={answer} />;
}

function Report({ view }: { view: ReportView }) {
  const here = { run: view.run, against: view.against };
  return (
    <div class="page report">
      <header class="report-head">
        <h1>{view.run}</h1>
        <p>
          {view.subtitle} · {view.made}
        </p>
        <nav aria-label="Parts of the report">
          {offline && <a href={href("run", { run: view.run })}>Overview</a>}
          {view.sections.map((part) => (
            <a key={part.id} href={href("report", { ...here, part: part.id })}>
              {part.title}
            </a>
          ))}
        </nav>
      </header>
      <div class="cards">
        {view.cards.map((card) => (
          <Headline key={card.label} card={card} />
        ))}
      </div>
      {view.sections.map((part) => (
        <PartOf key={part.id} part={part} here={here} />
      ))}
      {offline && (
        <p class="note">
          Every number is an estimate with its interval, or says why there is none. Live, with every trace: <Command text={`ethogram view ${view.run}`} />
        </p>
      )}
    </div>
  );
}

function Headline({ card }: { card: Card }) {
  return (
    <div class={card.value.length > MOST_LARGE ? "card long" : "card"}>
      <span>{card.label}</span>
      <b>{card.value}</b>
      <small>{card.detail}</small>
    </div>
  );
}

function PartOf({ part, here }: { part: Part; here: Here }) {
  return (
    <section id={part.id}>
      <h2>{part.title}</h2>
      {part.lead && (
        <p class="lead">
          {part.lead} {part.lead_place?.trace && <Linked place={{ ...part.lead_place, text: "read it" }} here={here} />}
        </p>
      )}
      {part.reasons.length > 0 && (
        <ol class="findings">
          {part.reasons.map((reason) => (
            <ReasonOf key={reason.what} reason={reason} here={here} />
          ))}
        </ol>
      )}
      {part.paragraphs.map((words) => (
        <p key={words}>{words}</p>
      ))}
      {part.matrix.length > 0 && <Matrix rows={part.matrix} here={here} />}
      {part.pictures.length > 0 && (
        <div class="pictures">
          {part.pictures.map((picture) => (
            <Figure key={picture.words} picture={picture} />
          ))}
        </div>
      )}
      {part.tables.map((table, i) => (
        <Table key={i} table={table} here={here} />
      ))}
      {part.commands.length > 0 && (
        <>
          <p>Score it with one of these:</p>
          <ul class="commands">
            {part.commands.map((command) => (
              <li key={command}>
                <Command text={command} />
              </li>
            ))}
          </ul>
        </>
      )}
      {part.notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
    </section>
  );
}

function ReasonOf({ reason, here }: { reason: ShownReason; here: Here }) {
  return (
    <li class={reason.kind}>
      <h3>{reason.what}</h3>
      <p class="basis">
        {[reason.kind, ...reason.facts].map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
      </p>
      <ul>
        {reason.excerpts.map((excerpt) => (
          <li key={excerpt.place.text}>
            <Linked place={excerpt.place} here={here} /> <q>{excerpt.text}</q>
          </li>
        ))}
      </ul>
      <p>Try first: {reason.next}.</p>
      {reason.settle && (
        <p>
          Settle it: <Command text={reason.settle} /> {reason.price && `(${reason.price})`}
        </p>
      )}
    </li>
  );
}

function Linked({ place, here }: { place: string | PagePlace; here: Here }) {
  if (typeof place === "string") return <>{place}</>;
  if (!place.trace) return <code>{place.text}</code>;
  return <a href={href("trace", { ...here, trace: place.trace, step: place.step })}>{place.text}</a>;
}

function Matrix({ rows, here }: { rows: MatrixRow[]; here: Here }) {
  return (
    <ul class="tries">
      {rows.map((row) => (
        <li key={row.task}>
          <span title={row.task}>{row.task}</span>
          <span>
            {row.cells.map((cell, i) => (
              <Dot key={i} cell={cell} here={here} />
            ))}
          </span>
          <span>{row.rate}</span>
        </li>
      ))}
    </ul>
  );
}

function Dot({ cell, here }: { cell: Cell; here: Here }) {
  const sign = (
    <i class={cell.mark} title={cell.words}>
      {SIGNS[cell.mark]}
    </i>
  );
  if (!cell.trace) return sign;
  return (
    <a href={href("trace", { ...here, trace: cell.trace, beside: cell.mark === "fail" && "yes" })} aria-label={cell.words}>
      {sign}
    </a>
  );
}

/** A chart that Python drew: our own SVG, in which foreign words are text. */
function Figure({ picture }: { picture: Picture }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const parsed = new DOMParser().parseFromString(picture.svg, "image/svg+xml").documentElement;
    if (place.current && parsed.nodeName === "svg") place.current.replaceChildren(document.importNode(parsed, true));
  }, [picture.svg]);
  return (
    <figure>
      {picture.svg && <div ref={place} role="img" aria-label={picture.words} />}
      <figcaption>{picture.words}</figcaption>
    </figure>
  );
}

function Table({ table, here }: { table: TableView; here: Here }) {
  const inside = (
    <div class="wide" tabIndex={0} role="region" aria-label={table.caption || table.columns.join(", ")}>
      <table>
        {table.caption && !table.folded && <caption>{table.caption}</caption>}
        <thead>
          <tr>
            {table.columns.map((column, i) => (
              <th key={i} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={typeof cell === "string" && cell.length > LONG_CELL ? "long" : undefined}>
                  <Linked place={cell} here={here} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  if (!table.folded) return inside;
  return (
    <details class="folded">
      <summary>{table.caption}</summary>
      {inside}
    </details>
  );
}
