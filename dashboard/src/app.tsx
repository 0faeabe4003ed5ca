// The frame of all pages: the way between them, who is signed in, and whether the gateway still responds.

import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, resume, session, signOut } from "./api";
import { Confirm } from "./confirm";
import { span } from "./format";
import { gatewayTime, live } from "./live";
import { Empty, Loading, Moment, Text, Wrong } from "./parts";
import { Certificates } from "./pages/certificates";
import { Explain } from "./pages/explain";
import { File } from "./pages/file";
import { Changes, confirmTrial, rollBack } from "./pages/history";
import { NowPage } from "./pages/now";
import { Request } from "./pages/request";
import { Requests } from "./pages/requests";
import { Routes } from "./pages/routes";
import { SignIn } from "./pages/sign-in";
import { UpstreamPage } from "./pages/upstream";
import { Upstreams } from "./pages/upstreams";
import { type Place, to, usePlace } from "./router";
import { type Theme, theme as themes, zone as zones } from "./settings";
import { useStore } from "./store";
import { zoneName } from "./time";
import type { Question } from "./confirm";

const PAGES = [
  ["now", "Now"],
  ["routes", "Routes"],
  ["upstreams", "Upstreams"],
  ["requests", "Requests"],
  ["configuration", "Configuration"],
] as const;

export function App() {
  const user = useStore(session);
  const [failure, setFailure] = useState<Failure | null>(null);
  const ask = () => {
    setFailure(null);
    resume().catch((error: unknown) => setFailure(error instanceof Failure ? error : new Failure(0, String(error))));
  };
  useEffect(ask, []);
  if (user === null) return <SignIn />;
  if (user === undefined) {
    return <main class="alone">{failure ? <Wrong failure={failure} again={ask} /> : <Loading rows={8} />}</main>;
  }
  return <Frame />;
}

function Frame() {
  const place = usePlace();
  const page = place.path[0] ?? "now";
  const address = place.path.join("/");
  const shown = useRef(address);
  // The link that led here may be gone: whoever uses the keyboard goes on where the content begins.
  useEffect(() => {
    if (shown.current === address) return;
    shown.current = address;
    scrollTo(0, 0);
    if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
  }, [address]);
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header>
        <a class="name" href={to(["now"])}>
          Titan
        </a>
        <nav aria-label="Pages">
          {PAGES.map(([path, title]) => (
            <a key={path} href={to([path])} aria-current={path === page ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Connection />
      </header>
      <main id="content" tabIndex={-1}>
        <Trial />
        <Page place={place} />
      </main>
      <Settings />
    </>
  );
}

function Page({ place: { path } }: { place: Place }) {
  const [page = "now", name, ...more] = path;
  if (more.length > 0) return <Missing />;
  switch (page) {
    case "now":
      return name === undefined ? <NowPage /> : <Missing />;
    case "routes":
      return name === undefined ? <Routes /> : <Missing />;
    case "upstreams":
      return name === undefined ? <Upstreams /> : <UpstreamPage key={name} name={name} />;
    case "requests":
      return name === undefined ? <Requests /> : <Request key={name} id={name} />;
    case "configuration":
      return <ConfigurationPage part={name ?? "file"} />;
    default:
      return <Missing />;
  }
}

const PARTS = [
  ["file", "File", File],
  ["history", "History", Changes],
  ["certificates", "Certificates", Certificates],
  ["explain", "Explain", Explain],
] as const;

function ConfigurationPage({ part }: { part: string }) {
  const Shown = PARTS.find(([path]) => path === part)?.[2] ?? Missing;
  return (
    <>
      <nav class="parts" aria-label="Configuration">
        {PARTS.map(([path, title]) => (
          <a key={path} href={to(["configuration", path])} aria-current={path === part ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Shown />
    </>
  );
}

function Missing() {
  return (
    <Empty>
      <h1 class="unseen">No such page</h1>
      There is no such page. <a href={to(["now"])}>Go to what happens now</a>
    </Empty>
  );
}

/** Whether what is shown is what is. */
function Connection() {
  const { link, since } = useStore(live);
  const [, tick] = useState(0);
  useEffect(() => {
    if (link !== "lost") return;
    const timer = setInterval(() => tick((count) => (count + 1) % 1000), 1000);
    return () => clearInterval(timer);
  }, [link]);
  const texts = {
    connecting: "Connecting",
    live: "Live",
    polling: "No stream: every 5 s",
    lost: `No connection for ${span(Date.now() / 1000 - since)}`,
  };
  return (
    <span
      class={`link ${link}`}
      title={link === "lost" ? "The figures are the last that came. It is tried again every 5 s." : undefined}
    >
      <span aria-hidden="true" class="dot" />
      <span role={link === "lost" ? "alert" : "status"} class={link === "lost" ? "unseen" : undefined}>
        {link === "lost" ? "No connection" : texts[link]}
      </span>
      {link === "lost" && <span aria-hidden="true">{texts.lost}</span>}
    </span>
  );
}

/** On every page: a configuration that is taken back by itself unless somebody says that it works. */
function Trial() {
  const { now } = useStore(live);
  const user = useStore(session);
  const [question, ask] = useState<Question | null>(null);
  const until = now?.configuration.to_confirm_until ?? null;
  if (until === null) return null;
  return (
    <div class="notice warn" role="region" aria-label="Trial">
      <span>
        The configuration in force is on trial: without confirmation it is taken back at <Moment at={until} />, in{" "}
        <span class="number">{span(until - gatewayTime())}</span>.
      </span>
      {user?.rights === "full" && (
        <span class="buttons">
          <button type="button" class="main" onClick={() => ask(confirmTrial(() => {}))}>
            Confirm…
          </button>
          <button type="button" onClick={() => ask(rollBack(null, () => {}))}>
            Roll back…
          </button>
        </span>
      )}
      {question && <Confirm question={question} close={() => ask(null)} />}
    </div>
  );
}

function Settings() {
  const user = useStore(session)!;
  const { now } = useStore(live);
  const theme = useStore(themes);
  const zone = useStore(zones);
  return (
    <footer>
      <span>
        Signed in as <Text of={user?.user} />
        {user?.rights === "read" && ", who may only read"}
      </span>
      <button type="button" class="plain" onClick={() => void signOut().catch(() => {})}>
        Sign out
      </button>
      <span class="apart">
        Titan <Text of={now?.version} />
        {now && (
          <>
            , up for <span class="number">{span(now.at - now.started)}</span>
          </>
        )}
      </span>
      <label class="inline">
        Times in
        <select value={zone} onChange={(event) => zones.set(event.currentTarget.value === "utc" ? "utc" : "local")}>
          <option value="local">{zoneName("local")}</option>
          <option value="utc">UTC{zoneName("local") === "UTC" ? " (fixed)" : ""}</option>
        </select>
      </label>
      <label class="inline">
        Colours
        <select value={theme} onChange={(event) => themes.set(event.currentTarget.value as Theme)}>
          <option value="auto">as the system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
      </label>
    </footer>
  );
}
