// Nobody is signed in: nothing is on the screen but the form for it.
import { h } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "../lib/bridge";
import { ended, signIn } from "../lib/session";
import { Logo, Mark } from "./marks";
import { Button, Said, useTitle } from "./parts";

export function SignIn({ onDone }: { onDone: () => void }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  useTitle("Sign in");
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!key.trim() || busy) return;
    setBusy(true);
    try {
      await signIn(key);
      setKey("");
      onDone();
    } catch (e: any) {
      setError(new Failure(e.code ?? "lost", e.message ?? "the bridge does not answer"));
    }
    setBusy(false);
  };
  return (
    <main class="signin" id="main">
      <div class="line brand">
        <Logo />
        AI Bridge
      </div>
      {ended.value && (
        <div class="note warning" role="alert">
          <Mark is="denied" tone="warning" />
          <div>
            <b>Your session has ended.</b> {ended.value} What you saw was taken off the screen.
          </div>
        </div>
      )}
      <form class="panel key" onSubmit={submit}>
        <div class="body stack">
          <h1>Sign in</h1>
          <div class="field">
            <label class="lab" for="key">
              API key
            </label>
            <input id="key" class={error ? "in bad" : "in"} type="password" autocomplete="current-password" value={key} onInput={(e) => setKey(e.currentTarget.value)} aria-invalid={!!error} aria-describedby="key-hint" autoFocus />
            <span class="hint" id="key-hint">
              The administrator's is in the file <code>admin.key</code> of the bridge's data folder.
            </span>
            {error && (
              <span class="err" role="alert">
                <Mark is="failed" />
                {error.code === "2002" ? <span>That key is not good. It may be mistyped, expired or revoked: the bridge does not say which.</span> : <Said error={error} />}
              </span>
            )}
          </div>
          <Button main type="submit" not={busy && "The bridge is asked"}>
            Sign in
          </Button>
        </div>
      </form>
    </main>
  );
}
