// Where the page begins: who is it, which page is it, and the timers.
import { effect } from "@preact/signals";
import { render } from "preact";
import { ApiError } from "./api";
import { startKeys } from "./keys";
import { keepCurrent, signedOut, startPolling } from "./live";
import { Audit } from "./pages/audit";
import { DeadLetters } from "./pages/dead";
import { Flow } from "./pages/flow";
import { Flows } from "./pages/flows";
import { Group } from "./pages/group";
import { Health } from "./pages/health";
import { Job } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Limits } from "./pages/limits";
import { Login, SignedOut } from "./pages/login";
import { Overview } from "./pages/overview";
import { Queue } from "./pages/queue";
import { Queues } from "./pages/queues";
import { Schedule } from "./pages/schedule";
import { Schedules } from "./pages/schedules";
import { Workers } from "./pages/workers";
import { Empty } from "./parts/basics";
import { pulse } from "./pulse";
import { Link, location, readAddress } from "./router";
import { loadSession, session, signIn } from "./session";
import { Page, Shell } from "./shell";

function CurrentPage() {
  const [first = "", ...rest] = location.value.parts;
  const [second, third] = rest;
  switch (first) {
    case "":
      return <Overview />;
    case "queues":
      return second === undefined ? <Queues /> : <Queue key={second} name={second} />;
    case "jobs":
      return second === undefined ? <Jobs /> : <Job key={second} id={second} />;
    case "dead":
      return second === undefined || third === undefined ? <DeadLetters /> : <Group key={third} job={second} fingerprint={third} />;
    case "workers":
      return <Workers />;
    case "schedules":
      return second === undefined ? <Schedules /> : <Schedule key={second} name={second} />;
    case "flows":
      return second === undefined ? <Flows /> : <Flow key={second} id={second} />;
    case "limits":
      return <Limits />;
    case "health":
      return <Health />;
    case "audit":
      return <Audit />;
    default:
      return (
        <Page title="No such page">
          <Empty title="There is no page at this address">
            <p>
              <Link to="">Go to the overview</Link>
            </p>
          </Empty>
        </Page>
      );
  }
}

let loginError: ApiError | undefined;

function App() {
  const out = signedOut.value;
  if (out) return out.body.login === false ? <SignedOut error={out} /> : <Login first={loginError} />;
  if (!session.value && !pulse.data.value && !pulse.error.value) return null;
  return (
    <Shell>
      <CurrentPage />
    </Shell>
  );
}

const tokenInAddress = () => new URLSearchParams(window.location.hash.slice(1)).get("token");

/** Sign in with a token from the address (#token=…), and remove it from there. */
async function signInFromAddress(token: string): Promise<void> {
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  readAddress();
  try {
    await signIn(token);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    loginError = error;
    signedOut.value = new ApiError(401, error.code, error.message, error.fix, { login: true });
  }
}

/** Who it is and the first picture are asked for at once: the page waits for one answer, not for one after the other. */
async function begin(): Promise<void> {
  const token = tokenInAddress();
  if (token !== null) return signInFromAddress(token);
  if (document.querySelector("meta[name=onward-look]") === null) void pulse.refresh();
  await loadSession();
}

keepCurrent(pulse);
render(<App />, document.getElementById("app")!);
await begin();
// The server was away when the page was opened: who it is becomes known with its first answer.
effect(() => {
  if (pulse.data.value && !session.value && !signedOut.value) void loadSession();
});
// The address that the server printed, opened where the page is already: nothing is loaded, only the hash changes.
window.addEventListener("hashchange", () => {
  const token = tokenInAddress();
  if (token !== null) void signInFromAddress(token);
});
startKeys();
startPolling();
