// Where is it unsafe: what is established, a slice of the grid with its uncertainty, the tube, and how it learned.
import { useEffect } from "preact/hooks";
import { change } from "../address";
import { useAnswer } from "../load";
import type { ExploreView, GridPoint, ParameterEffect, RoundPoint, SliceView } from "../models";
import { Rate } from "../parts/estimate";
import { Section } from "../parts/section";
import { Command, Failed, Loading } from "../parts/states";
import { shortened } from "../text";
import { basis, count, NONE, percent, plural, short } from "../words";
import type { PageProps } from "./registry";
import "./explore.css";

export default function Explore({ params }: PageProps) {
  const run = params.run ?? "latest";
  const { answer, failure, loading } = useAnswer("/api/explore", { run });
  useEffect(() => {
    document.title = `Explore · ${run} · Ethogram`;
  }, [run]);
  if (!answer)
    return failure ? (
      <>
        <Failed failure={failure} />
        <p class="page">
          An exploration begins with <Command text="ethogram explore --run NAME" />
        </p>
      </>
    ) : (
      <Loading lines={10} />
    );
  const last = answer.rounds[answer.rounds.length - 1];
  return (
    <div class="page explore-page" aria-busy={loading}>
      <div class="head">
        <h1>Where does it fail more often than {percent(answer.tau)} of the time?</h1>
        {answer.live && <span class="tag live">rounds are arriving</span>}
      </div>
      <p class="muted">
        {plural(answer.of, "setting")} of {answer.world}, {plural(answer.rounds.length, "round")}, {count(answer.episodes)} episodes, strategy {answer.strategy}
        {last && `; ${last.status}`}
      </p>
      <div class="cards">
        <Count sign="✓" tone="safe" label="safe" value={answer.safe} of={answer.of} />
        <Count sign="✗" tone="unsafe" label="unsafe" value={answer.unsafe} of={answer.of} />
        <Count sign="?" tone="open" label="undecided" value={answer.undecided} of={answer.of} />
        <section class="part card">
          <h3 class="muted">balanced accuracy, expected</h3>
          <p class="big">{percent(last?.expected_balanced_accuracy)}</p>
          <p class="muted small">{last?.balanced_accuracy != null ? `${percent(last.balanced_accuracy)} by the known truth` : `by the posterior, beyond ± ${percent(answer.zone)} of the limit`}</p>
        </section>
      </div>
      <p>{answer.established}</p>
      <Slices answer={answer} run={run} params={params} />
      <Tube answer={answer} />
      <Learning run={answer.run} strategy={answer.strategy} rounds={answer.rounds} of={answer.of} />
      <div class="parts">
        <Effects effects={answer.main} title="Which parameters matter" />
        <Effects effects={answer.interactions} title="Which pairs matter together" />
      </div>
      <Worst points={answer.worst} />
      {Object.entries(answer.missing).length > 0 && (
        <p class="note">
          Missing episodes:{" "}
          {Object.entries(answer.missing)
            .map(([why, n]) => `${n} ${why}`)
            .join(", ")}
          ; they count neither way.
        </p>
      )}
    </div>
  );
}

function Count({ sign, tone, label, value, of }: { sign: string; tone: string; label: string; value: number; of: number }) {
  return (
    <section class={`part card ${tone}`}>
      <h3 class="muted">{label}</h3>
      <p class="big">
        <i aria-hidden="true">{sign}</i> {count(value)}
      </p>
      <p class="muted small">{percent(value / Math.max(of, 1))} of the settings</p>
    </section>
  );
}

function fixedOf(words: string | undefined): Record<string, string> {
  try {
    const found: unknown = JSON.parse(words ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, string>) : {};
  } catch {
    return {};
  }
}

function Slices({ answer, run, params }: { answer: ExploreView; run: string; params: PageProps["params"] }) {
  const names = Object.keys(answer.parameters);
  const byEffect = answer.main.flatMap((effect) => effect.parameters);
  const x = params.x && names.includes(params.x) ? params.x : (byEffect[0] ?? names[0] ?? "");
  const y = params.y && names.includes(params.y) && params.y !== x ? params.y : (byEffect.find((name) => name !== x) ?? "");
  const fixed = Object.fromEntries(Object.entries(fixedOf(params.fixed)).filter(([name]) => name !== x && name !== y && names.includes(name)));
  const words = Object.keys(fixed).length ? JSON.stringify(fixed) : "";
  const loaded = useAnswer("/api/explore/slice", x ? { run, x, y, fixed: words } : null);
  const fix = (name: string, value: string) => {
    const next = { ...fixed, [name]: value };
    if (!value) delete next[name];
    change({ fixed: Object.keys(next).length ? JSON.stringify(next) : null }, true);
  };
  return (
    <Section title="A slice of the grid" note="mean failure rate with its interval; what is not fixed is averaged over" loaded={loaded} lines={8}>
      {(slice) => (
        <>
          <div class="slice-choose">
            <Choose label="across" value={slice.x} names={names} pick={(name) => change({ x: name, y: name === y ? x : y }, true)} />
            <Choose label="up" value={slice.y} names={names} pick={(name) => change({ y: name, x: name === x ? y : x }, true)} />
            {names
              .filter((name) => name !== slice.x && name !== slice.y)
              .map((name) => (
                <label key={name}>
                  {name}{" "}
                  <select value={fixed[name] ?? ""} onChange={(event) => fix(name, event.currentTarget.value)}>
                    <option value="">averaged</option>
                    {answer.parameters[name]?.map((value) => (
                      <option key={value}>{value}</option>
                    ))}
                  </select>
                </label>
              ))}
          </div>
          <Heat slice={slice} />
        </>
      )}
    </Section>
  );
}

function Choose({ label, value, names, pick }: { label: string; value: string; names: string[]; pick: (name: string) => void }) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => pick(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** ✗ the interval lies above the limit, ✓ below it, ? on both sides. */
function signOf(rate: GridPoint["rate"], tau: number): "✗" | "✓" | "?" {
  if (rate.low !== null && rate.low > tau) return "✗";
  return rate.high !== null && rate.high <= tau ? "✓" : "?";
}

function Heat({ slice }: { slice: SliceView }) {
  const left = 14 + 7 * Math.max(...slice.y_values.map((value) => Math.min(value.length, 16)), 3);
  const cell = { wide: Math.max(44, Math.min(96, Math.floor(1000 / slice.x_values.length))), tall: 40 };
  const wide = left + cell.wide * slice.x_values.length + 4;
  const tall = cell.tall * slice.y_values.length + 44;
  const most = Math.max(slice.tau, 1 - slice.tau);
  const row = (y: number) => (slice.y_values.length - 1 - y) * cell.tall;
  return (
    <div class="scroll">
      <svg class="heat" viewBox={`0 0 ${wide} ${tall}`} width={wide} height={tall} role="img" aria-label={`failure rate by ${slice.x} and ${slice.y}`}>
        {slice.y_values.map((value, y) => (
          <text key={value} class="tick" x={left - 8} y={row(y) + cell.tall / 2 + 4} text-anchor="end">
            {shortened(value, 16)}
          </text>
        ))}
        {slice.x_values.map((value, x) => (
          <text key={value} class="tick" x={left + (x + 0.5) * cell.wide} y={tall - 26} text-anchor="middle">
            {value.slice(0, Math.floor(cell.wide / 7))}
          </text>
        ))}
        <text class="tick name" x={left + (cell.wide * slice.x_values.length) / 2} y={tall - 6} text-anchor="middle">
          {slice.x} → {slice.y && `(up: ${slice.y})`}
        </text>
        {slice.cells.map((one) => {
          const rate = one.rate.value ?? 0;
          const sign = signOf(one.rate, slice.tau);
          return (
            <g key={`${one.x} ${one.y}`} transform={`translate(${left + one.x * cell.wide} ${row(one.y)})`} class={rate > slice.tau ? "over" : "under"}>
              <title>{`${slice.x} ${slice.x_values[one.x]}${slice.y ? `, ${slice.y} ${slice.y_values[one.y]}` : ""}: ${percent(rate, 1)} · ${basis(one.rate)} · ${plural(one.points, "setting")}`}</title>
              <rect class="ground" x="1" y="1" width={cell.wide - 2} height={cell.tall - 2} rx="4" />
              <rect class="shade" x="1" y="1" width={cell.wide - 2} height={cell.tall - 2} rx="4" fill-opacity={0.12 + 0.6 * Math.min(1, Math.abs(rate - slice.tau) / most)} />
              <text class="value" x={cell.wide / 2} y="17" text-anchor="middle">
                {sign} {percent(rate)}
              </text>
              <text class="between" x={cell.wide / 2} y="32" text-anchor="middle">
                {one.rate.low === null ? "" : `${Math.round(100 * one.rate.low)}–${Math.round(100 * (one.rate.high ?? 1))}`}
              </text>
            </g>
          );
        })}
      </svg>
      <p class="note">
        ✗ the interval lies above the limit of {percent(slice.tau)} · ✓ below it · ? on both sides
      </p>
    </div>
  );
}

/** Every setting in the order of its rate, with its interval; the conservative tube are those that are safe. */
function Tube({ answer }: { answer: ExploreView }) {
  const [wide, tall, left] = [900, 230, 44];
  const x = (i: number) => left + ((i + 0.5) / Math.max(answer.tube.length, 1)) * (wide - left - 10);
  const y = (rate: number) => 10 + (1 - rate) * (tall - 40);
  return (
    <section class="part">
      <h2>
        The tube <small>settings in the order of their failure rates, with intervals: ● safe, ■ unsafe, | undecided{answer.of > answer.tube.length && `; ${answer.tube.length} of ${count(answer.of)}`}</small>
      </h2>
      <div class="scroll"><svg class="chart tube" viewBox={`0 0 ${wide} ${tall}`} role="img" aria-label={`${answer.safe} settings safe, ${answer.unsafe} unsafe, ${answer.undecided} undecided`}>
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line class="rule" x1={left} x2={wide - 8} y1={y(share)} y2={y(share)} />
            <text class="tick" x={left - 7} y={y(share) + 4} text-anchor="end">
              {percent(share)}
            </text>
          </g>
        ))}
        {answer.tube.map((point, i) => (
          <TubePoint key={point.point} point={point} x={x(i)} y={y} />
        ))}
        <line class="limit" x1={left} x2={wide - 8} y1={y(answer.tau)} y2={y(answer.tau)} />
        <text class="tick name" x={left + 4} y={y(answer.tau) - 5}>
          limit {percent(answer.tau)}
        </text>
        <text class="tick" x={wide / 2} y={tall - 6} text-anchor="middle">
          settings, safest first
        </text>
      </svg></div>
    </section>
  );
}

function TubePoint({ point, x, y }: { point: GridPoint; x: number; y: (rate: number) => number }) {
  const { value, low, high } = point.rate;
  const words = Object.entries(point.settings)
    .map(([name, setting]) => `${name} ${setting}`)
    .join(", ");
  return (
    <g class={point.verdict}>
      <title>{`${words}: ${percent(value, 1)} · ${basis(point.rate)} · ${point.verdict}`}</title>
      {low !== null && high !== null && <line x1={x} x2={x} y1={y(low)} y2={y(high)} />}
      {value !== null && point.verdict === "safe" && <circle cx={x} cy={y(value)} r="2.4" />}
      {value !== null && point.verdict === "unsafe" && <rect x={x - 2} y={y(value) - 2} width="4" height="4" />}
    </g>
  );
}

/** What was decided after each round: undecided settings shrink, accuracy grows. */
function Learning({ run, strategy, rounds, of }: { run: string; strategy: string; rounds: RoundPoint[]; of: number }) {
  const [wide, tall, left, right] = [900, 230, 44, 215];
  const { answer: beside } = useAnswer("/api/explore/baselines", { exploration: run });
  const baselines = beside?.curves ?? [];
  const most = Math.max(...[rounds, ...baselines.map((one) => one.rounds)].flat().map((one) => one.episodes), 1);
  const x = (episodes: number) => left + (episodes / most) * (wide - left - right);
  const y = (share: number) => 10 + (1 - share) * (tall - 44);
  const curves: { name: string; tone: string; of: (one: RoundPoint) => number | null }[] = [
    { name: "accuracy, expected", tone: "one", of: (one) => one.expected_balanced_accuracy },
    { name: "accuracy, true", tone: "three", of: (one) => one.balanced_accuracy },
    { name: "settings decided", tone: "two", of: (one) => (one.safe + one.unsafe) / Math.max(of, 1) },
  ];
  const shown = curves.filter((curve) => rounds.some((one) => curve.of(one) !== null));
  // beside other strategies one figure is compared: by the known truth where there is one
  const accuracy = shown.find((curve) => curve.tone === "three") ?? shown.find((curve) => curve.tone === "one");
  const lines = [
    ...shown.map((curve) => ({ key: curve.name, name: baselines.length && curve === accuracy ? `${strategy}: ${curve.name}` : curve.name, tone: curve.tone, of: curve.of, rounds })),
    ...(accuracy ? baselines.map((one, i) => ({ key: one.run, name: one.strategy, tone: `baseline b${i}`, of: accuracy.of, rounds: one.rounds })) : []),
  ].filter((line) => line.rounds.length > 0);
  const end = (line: (typeof lines)[number]) => line.of(line.rounds[line.rounds.length - 1] as RoundPoint);
  const ends = lines.map((line) => ({ ...line, at: y(end(line) ?? 0) + 4 })).sort((a, b) => a.at - b.at);
  ends.forEach((label, i) => {
    const above = ends[i - 1];
    if (above && label.at - above.at < 15) label.at = above.at + 15;
  });
  return (
    <section class="part">
      <h2>
        Learning over rounds <small>balanced accuracy (safe against unsafe) and the share of settings that are decided</small>
      </h2>
      <div class="scroll"><svg class="chart learning" viewBox={`0 0 ${wide} ${tall}`} role="img" aria-label={`${rounds.length} rounds, ${count(most)} episodes`}>
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line class="rule" x1={left} x2={wide - right} y1={y(share)} y2={y(share)} />
            <text class="tick" x={left - 7} y={y(share) + 4} text-anchor="end">
              {percent(share)}
            </text>
          </g>
        ))}
        {[0, most / 2, most].map((episodes) => (
          <text key={episodes} class="tick" x={x(episodes)} y={tall - 20} text-anchor="middle">
            {short(Math.round(episodes))}
          </text>
        ))}
        <text class="tick" x={(left + wide - right) / 2} y={tall - 4} text-anchor="middle">
          episodes
        </text>
        {lines.map((line) => (
          <g key={line.key} class={`curve ${line.tone}`}>
            <polyline class="line" points={line.rounds.filter((one) => line.of(one) !== null).map((one) => `${x(one.episodes)},${y(line.of(one) ?? 0)}`).join(" ")} />
            {line.rounds.map((one) => {
              const value = line.of(one);
              return value === null ? null : (
                <circle key={one.round} cx={x(one.episodes)} cy={y(value)} r="2.6">
                  <title>{`round ${one.round}, ${count(one.episodes)} episodes of ${line.key}: ${line.name} ${percent(value, 1)}; ${one.status}`}</title>
                </circle>
              );
            })}
          </g>
        ))}
        {ends.map((label) => (
          <text key={label.key} class={`name ${label.tone}`} x={wide - right + 8} y={label.at}>
            {label.name} {percent(end(label))}
          </text>
        ))}
      </svg></div>
      {beside && baselines.length === 0 && (
        <p class="note">
          No other strategy was tried on this map. Buy a baseline to see it beside this one: <Command text={beside.command} />
        </p>
      )}
    </section>
  );
}

function Effects({ effects, title }: { effects: ParameterEffect[]; title: string }) {
  return (
    <section class="part">
      <h2>
        {title} <small>share of the variation of the failure rate</small>
      </h2>
      <table class="grid">
        <tbody>
          {effects.map((effect) => (
            <tr key={effect.parameters.join()}>
              <td>{effect.parameters.join(" × ")}</td>
              <td>
                <Rate estimate={effect.share} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {effects.length === 0 && <p class="muted">{NONE}</p>}
    </section>
  );
}

function Worst({ points }: { points: GridPoint[] }) {
  return (
    <section class="part">
      <h2>Most dangerous settings</h2>
      <div class="scroll">
        <table class="grid">
          <tbody>
            {points.map((point) => (
              <tr key={point.point}>
                <td>
                  {Object.entries(point.settings).map(([name, value]) => (
                    <span key={name} class="tag setting">
                      {name} {value}
                    </span>
                  ))}
                </td>
                <td>
                  <Rate estimate={point.rate} />
                </td>
                <td class="number">
                  {point.failures} of {plural(point.episodes, "episode")} failed
                </td>
                <td>{point.verdict === "safe" ? "✓ safe" : point.verdict === "unsafe" ? "✗ unsafe" : "? undecided"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
