// Nobody is signed in: nothing is on the screen but the form for it.
import { h } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "../lib/bridge";
import { query } from "../lib/router";
import { ended, issuerLink, session, signIn } from "../lib/session";
import { Logo, Mark } from "./marks";
import { Button, Said, useTitle } from "./parts";

/** Why somebody came back from an issuer who is not signed in. */
const came: Record<string, string> = {
  refused: "The issuer did not let you in, or the bridge does not take what it says of you.",
  unreachable: "The issuer does not answer at the moment.",
  stale: "It took too long, or was begun in another browser. Begin again.",
  elsewhere: "This is the address of the console that the issuer knows. Sign in here.",
};

export function SignIn({ onDone }: { onDone: () => void }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const issuers = session.value?.issuers ?? [];
  const back = came[query("sign_in")];
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
      {back && !ended.value && (
        <div class="note warning" role="alert">
          <Mark is="denied" tone="warning" />
          <div>
            <b>You are not signed in.</b> {back}
          </div>
        </div>
      )}
      <form class="panel key" onSubmit={submit}>
        <div class="body stack">
          <h1>Sign in</h1>
          {issuers.map((i) => (
            <a class="btn main" href={issuerLink(i.issuer)} data-outside>
              with {i.title}
            </a>
          ))}
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
          <Button main={issuers.length === 0} type="submit" not={busy && "The bridge is asked"}>
            Sign in
          </Button>
        </div>
      </form>
    </main>
  );
}
