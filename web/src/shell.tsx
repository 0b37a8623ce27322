// What stands around every page: where one is, tabs of a run, whether the server is there, keys and colours.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { address, href, START, type Params } from "./address";
import { helpOpen, knownKeys, useKeys } from "./keys";
import { link } from "./live";
import { offline, useAnswer } from "./load";
import { PAGES, pageOf, type Page, type PageProps } from "./pages/registry";
import { Empty, Loading } from "./parts/states";
import { nextTheme } from "./theme";
import { shortId } from "./words";

export function Shell() {
  const { page: path, params } = address.value;
  const page = pageOf(path);
  useKeys([
    { keys: ["?"], label: "?", does: "show or hide this sheet", act: () => (helpOpen.value = !helpOpen.value) },
    { keys: ["T"], label: "Shift T", does: "light or dark", act: nextTheme },
  ]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="bar">
        <a class="brand" href={href(START)} title={offline ? "The whole report" : "All runs"}>
          <Mark />
          <span>Ethogram</span>
        </a>
        <Trail page={page} params={params} />
        <span class="spring" />
        <Status />
        <button class="icon" title="Light or dark (Shift T)" aria-label="Light or dark" onClick={nextTheme}>
          <HalfMoon />
        </button>
        <button class="icon" title="Keys (?)" aria-label="Keys" onClick={() => (helpOpen.value = true)}>
          ?
        </button>
      </header>
      {link.value === "lost" && (
        <p class="banner" role="alert">
          The server does not answer; what you see may be old. Start it again with <code>ethogram view</code> — this page
          reconnects by itself.
        </p>
      )}
      {page?.place === "run" && params.run && <Tabs current={path} run={params.run} />}
      <main id="main" class={`on-${path}`} tabIndex={-1}>
        {page ? <Opened key={path} page={page} params={params} /> : <Nowhere path={path} />}
      </main>
      {helpOpen.value && <Help />}
    </>
  );
}

/** A page, once its code is there. */
function Opened({ page, params }: { page: Page; params: Params }) {
  const [view, setView] = useState<{ show: ComponentType<PageProps> } | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    page.load().then(
      (module) => setView({ show: module.default }),
      () => setFailed(true),
    );
  }, [page]);
  if (failed) return <Empty title="This page could not be fetched" hint="Is the server still there? Start it with:" command="ethogram view" />;
  if (!view) return <Loading />;
  const View = view.show;
  return <View params={params} />;
}

function Nowhere({ path }: { path: string }) {
  return (
    <Empty title={`There is no page “${path}”`} hint="Go back to the list of runs.">
      <a class="button" href={href("runs")}>
        All runs
      </a>
    </Empty>
  );
}

function Trail({ page, params }: { page: Page | undefined; params: Params }) {
  return (
    <nav class="trail" aria-label="Where you are">
      {page?.place !== "home" && params.run && (
        <>
          <i aria-hidden="true">/</i>
          <a href={href("run", { run: params.run })}>{params.run}</a>
        </>
      )}
      {page?.place === "below" && params.trace && (
        <>
          <i aria-hidden="true">/</i>
          <span class="mono">{shortId(params.trace)}</span>
        </>
      )}
    </nav>
  );
}

function Tabs({ current, run }: { current: string; run: string }) {
  const { answer } = useAnswer("/api/run", { run });
  const tabs = PAGES.filter((page) => page.place === "run" && (page.onPaper || !offline));
  const shown = tabs.filter((page) => page.path === current || !page.applies || (answer && page.applies(answer)));
  if (shown.length < 2) return null;
  return (
    <nav class="tabs" aria-label="Pages of this run">
      {shown.map((page) => (
        <a key={page.path} href={href(page.path, { run })} aria-current={page.path === current ? "page" : undefined}>
          {page.title}
        </a>
      ))}
    </nav>
  );
}

function Status() {
  if (offline) return <span class="status">report</span>;
  const said = { live: "live", connecting: "connecting", lost: "no server", off: "" }[link.value];
  return (
    <span class={`status ${link.value}`} title="Runs that change are shown as they change">
      <i aria-hidden="true" />
      {said}
    </span>
  );
}

function Help() {
  const close = () => (helpOpen.value = false);
  return (
    <div class="sheet-back" onClick={close}>
      <section class="sheet" role="dialog" aria-label="Keys" onClick={(event) => event.stopPropagation()}>
        <h2>Keys</h2>
        <dl>
          {knownKeys().map((key) => (
            <div key={key.label}>
              <dt>
                <kbd>{key.label}</kbd>
              </dt>
              <dd>{key.does}</dd>
            </div>
          ))}
          <div>
            <dt>
              <kbd>Esc</kbd>
            </dt>
            <dd>close, or leave a field</dd>
          </div>
        </dl>
        <button class="button" onClick={close}>
          Close
        </button>
      </section>
    </div>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 18 18" aria-hidden="true">
      {[0, 1, 2].flatMap((row) =>
        [0, 1, 2].map((column) => {
          const failed = row + column === 2;
          const place = { cx: 3 + 6 * column, cy: 3 + 6 * row };
          return <circle key={`${row}${column}`} {...place} r={failed ? 1.7 : 2.2} class={failed ? "fail" : "pass"} />;
        }),
      )}
    </svg>
  );
}

function HalfMoon() {
  return (
    <svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true">
      <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" />
      <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
    </svg>
  );
}
