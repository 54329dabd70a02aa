// The core: what all pages share, and what starts the console. Pages import
// from here only; they are built apart and loaded when they are opened.
import { h, render } from "preact";
import { useEffect } from "preact/hooks";
import { connect, disconnect } from "./lib/bridge";
import { followLinks } from "./lib/router";
import { listenToKeys, useKeys } from "./lib/keys";
import { refresh, session } from "./lib/session";
import { Frame } from "./ui/frame";
import { finding } from "./ui/find";
import { helping } from "./ui/help";
import { SignIn } from "./ui/signin";

export { h, Fragment, type ComponentChildren, type FunctionComponent } from "preact";
export { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
export { computed, effect, signal, useComputed, useSignal, type Signal } from "@preact/signals";
export type { Commands, CommandName } from "./types";
export * from "./lib/bridge";
export * from "./lib/keys";
export * from "./lib/live";
export * from "./lib/router";
export * from "./lib/session";
export * from "./lib/shown";
export * from "./lib/words";
export * from "./ui/form";
export * from "./ui/json";
export * from "./ui/marks";
export * from "./ui/parts";
export * from "./ui/table";
export * from "./ui/timeline";

function App() {
  const signedIn = session.value?.signed_in;
  useEffect(() => (signedIn ? connect() : disconnect()), [signedIn]);
  useKeys({ "/": () => void (finding.value = true), "?": () => void (helping.value = true) });
  if (!session.value) return null;
  return signedIn ? h(Frame, {}) : h(SignIn, { onDone: () => {} });
}

async function start() {
  document.addEventListener("click", followLinks);
  listenToKeys();
  const root = document.getElementById("app")!;
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      await refresh();
      break;
    } catch {
      root.textContent = "The bridge does not answer. It is asked again.";
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  root.textContent = "";
  render(h(App, {}), root);
}

void start();
