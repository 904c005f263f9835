// Signing in with the token that the server printed.
import { useSignal } from "@preact/signals";
import { ApiError } from "../api";
import { Told } from "../parts/basics";
import { Brand } from "../parts/icons";
import { signIn } from "../session";

/** Where people sign in elsewhere, a proxy or the host application, there is no token to give. */
export function SignedOut({ error }: { error?: ApiError }) {
  return (
    <main class="login">
      <div class="card">
        <Brand size={44} />
        <h1>Not signed in</h1>
        <p>{error?.message}</p>
        <p class="muted">
          <Told text={error?.fix ?? ""} />
        </p>
      </div>
    </main>
  );
}

export function Login({ first }: { first?: ApiError }) {
  const token = useSignal("");
  const error = useSignal<ApiError | undefined>(first);
  const busy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      await signIn(token.value.trim());
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      error.value = problem;
    } finally {
      busy.value = false;
    }
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <Brand size={44} />
        <h1>Sign in</h1>
        <p class="muted">
          The token is in <code>ONWARD_WEB_TOKEN</code> of the server. <code>onward web</code> prints an address that holds it.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            autoComplete="current-password"
            required
            value={token.value}
            aria-invalid={error.value ? "true" : undefined}
            aria-describedby={error.value ? "login-error" : undefined}
            onInput={(event) => (token.value = event.currentTarget.value)}
          />
        </label>
        {error.value && (
          <div id="login-error" class="notice notice-fail" role="alert">
            <p>
              <strong>{error.value.message}</strong> <Told text={error.value.fix} />
            </p>
          </div>
        )}
        <button type="submit" class="primary" disabled={busy.value}>
          {busy.value ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
