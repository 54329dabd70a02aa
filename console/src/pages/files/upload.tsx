// Uploads, one after the other, with how far each is.
import { Button, bytes, Failure, h, Mark, offNow, Panel, quoted, Said, session, useEffect, useRef, useState, base, type Shown } from "../../core";

interface Sending {
  file: File;
  sent: number;
  state: "waits" | "sends" | "stored" | "failed";
  error?: Failure;
  stop?: () => void;
}

/** Address of a request for a file. */
export const fileURL = (what: string, params: Record<string, string>) => `${base}vfs/${what}?${new URLSearchParams(params)}`;

/** What a refused request for a file says. */
export function failureOf(status: number, text: string): Failure {
  try {
    const { error } = JSON.parse(text);
    return new Failure(error.code, error.message, error.details);
  } catch {
    return new Failure(status ? String(status) : "lost", status ? `the bridge answered ${status}` : "the connection broke");
  }
}

/** An upload as a command: it is no envelope, as files are not. */
export function uploadShown(group: string, folder: string): Shown {
  const path = (folder ? `${folder}/` : "") + "FILE";
  const auth = session.value?.bridge?.dev ? "" : ` -H "Authorization: Bearer $AIBRIDGE_KEY"`;
  return {
    command: "", params: {}, line: `aibridge vfs put FILE ${quoted(`${group}/${path}`)}`,
    others: [["curl", `curl -T FILE${auth} \\\n  ${quoted(location.origin + fileURL("upload", { group_name: group, path }))}`]],
  };
}

function send(group: string, path: string, s: Sending, tell: () => void): Promise<void> {
  return new Promise((done) => {
    const request = new XMLHttpRequest(); // fetch does not tell how much was sent
    const end = (state: Sending["state"], error?: Failure) => (Object.assign(s, { state, error, stop: undefined }), tell(), done());
    request.upload.onprogress = (e) => ((s.sent = e.loaded), tell());
    request.onload = () => (request.status < 300 ? end("stored") : end("failed", failureOf(request.status, request.responseText)));
    request.onerror = () => end("failed", failureOf(0, ""));
    request.onabort = () => end("failed", new Failure("cancelled", "you stopped it"));
    request.open("PUT", fileURL("upload", { group_name: group, path, mtime: String(s.file.lastModified) }));
    request.setRequestHeader("Content-Type", s.file.type || "application/octet-stream");
    Object.assign(s, { state: "sends", stop: () => request.abort() });
    request.send(s.file);
    tell();
  });
}

export function Upload({ group, folder, onDone, onClose }: { group: string; folder: string; onDone: () => void; onClose: () => void }) {
  const list = useRef<Sending[]>([]);
  const busy = useRef(false);
  const field = useRef<HTMLInputElement>(null);
  const [, draw] = useState(0);
  const [over, setOver] = useState(false);
  const tell = () => draw((n) => n + 1);
  useEffect(() => () => list.current.forEach((s) => s.stop?.()), []);
  const path = (s: Sending) => (folder ? `${folder}/` : "") + s.file.name;
  const take = async (files: Iterable<File>) => {
    for (const file of files) list.current.push({ file, sent: 0, state: "waits" });
    tell();
    if (busy.current) return;
    busy.current = true;
    for (let s; (s = list.current.find((s) => s.state === "waits")); ) {
      await send(group, path(s), s, tell);
      onDone();
    }
    busy.current = false;
  };
  const again = (s: Sending) => (Object.assign(s, { state: "waits", sent: 0, error: undefined }), void take([]));
  return (
    <Panel title="Upload" more={<Button quiet onClick={onClose}>Close</Button>}>
      <div
        class={over ? "drop over stack" : "drop stack"}
        onDragOver={(e) => (e.preventDefault(), setOver(true))}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => (e.preventDefault(), setOver(false), e.dataTransfer && !offNow() && void take(e.dataTransfer.files))}
      >
        <span class="line wrap">
          <Button main not={offNow()} onClick={() => field.current?.click()}>Choose files</Button>
          <span class="dim">or drop them here. A file of the same name gets a new version.</span>
        </span>
        <input ref={field} type="file" multiple class="vh" tabIndex={-1} aria-label="Files to upload" onChange={(e) => (void take([...(e.currentTarget.files ?? [])]), (e.currentTarget.value = ""))} />
        {list.current.length > 0 && (
          <ul class="sending" aria-label="Uploads">
            {list.current.map((s) => (
              <li>
                <Mark is={s.state === "stored" ? "ok" : s.state === "failed" ? "failed" : s.state === "sends" ? "acting" : "pending"} />
                <span class="cut">{path(s)}</span>
                <span class={s.state === "failed" ? "meter failed" : "meter acting"} role="progressbar" aria-label={s.file.name} aria-valuemin={0} aria-valuemax={100} aria-valuenow={part(s)}><i style={{ width: `${part(s)}%` }} /></span>
                <span class="small dim nowrap" role="status">{s.state === "sends" ? `${part(s)} % of ${bytes(s.file.size)}` : s.state === "stored" ? `stored, ${bytes(s.file.size)}` : s.state}</span>
                {s.state === "sends" && <Button quiet onClick={() => s.stop?.()}>Stop</Button>}
                {s.state === "failed" && <Button quiet not={offNow()} onClick={() => again(s)}>Again</Button>}
                {s.error && <span class="failed small why"><Said error={s.error} /></span>}
              </li>
            ))}
          </ul>
        )}
      </div>
    </Panel>
  );
}

const part = (s: Sending) => (s.state === "stored" ? 100 : s.file.size ? Math.floor((100 * s.sent) / s.file.size) : 0);
