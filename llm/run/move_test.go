package run

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunsInFoldersAreMovedIntoLogs has a bridge that had its runs to itself become one
// of a cluster: with a run at rest, one that was killed, and a package.
func TestRunsInFoldersAreMovedIntoLogs(t *testing.T) {
	w := imported(t, script(calls("fs.write", `{"path":"@state/note.md","content":"blue"}`), says("noted"), calls("bell", `{}`), says("never asked")))
	rested := w.start(StartParams{Input: ptr("note it")})
	w.rest(rested)
	flow := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(flow)
	killed := *mustGet(t, w, flow)
	killed.Phase = Running // as far as anybody knows
	if _, err := w.opts.Runs.Put(t.Context(), flow, &killed); err != nil {
		t.Fatal(err)
	}
	cutRest(t, w, flow)

	was := w.opts.Dir
	w.stop()
	inLogs(&w.opts)
	w.opts.Asker = script(says("gone on"), calls("fs.read", `{"path":"@state/note.md"}`), says("blue"))
	w.Service = New(w.opts)
	w.Recover(t.Context())
	if got := w.rest(flow); got.Message != "gone on" || got.Node == "" {
		t.Errorf("the run that was killed is %+v", got)
	}
	// From here on the disk is of no use.
	w.opts.Dir = ""
	w.restart(w.opts.Asker.(scripted))
	if err := os.RemoveAll(was); err != nil {
		t.Fatal(err)
	}
	w.goOn(rested, ptr("which?"))
	if got := w.rest(rested); got.Message != "blue" || got.Turns != 4 {
		t.Errorf("the run at rest is %+v", got.Result)
	}
	if got := w.start(StartParams{Package: "climate-check"}); got == "" {
		t.Error("its package is gone")
	}
}

// TestTheLogsOfABackupBecomeFoldersOrLogs restores a cluster's backup to a bridge
// alone, and to another cluster.
func TestTheLogsOfABackupBecomeFoldersOrLogs(t *testing.T) {
	long := strings.Repeat("long ", 10<<10)
	w := imported(t, script(calls("fs.write", `{"path":"@state/note.md","content":"`+long+`"}`), says("noted")), inLogs)
	id := w.start(StartParams{Input: ptr("note it")})
	w.rest(id)
	before := w.opts
	restore := func(dir string) {
		t.Helper()
		records := []byte{}
		for _, l := range before.Logs.(*memoryLog).runs[id] {
			records = append(binary.BigEndian.AppendUint32(records, uint32(len(l.record))), l.record...)
		}
		write := func(path string, data []byte) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		write(filepath.Join(dir, restoredLogs, id), records)
		for name, data := range before.Blobs.(*memoryBlobs).data {
			write(filepath.Join(dir, restoredBlobs, BlobFile(name)), data)
		}
	}
	w.stop()
	for name, change := range map[string]func(*Options){
		"a bridge alone": func(o *Options) { o.Logs, o.Blobs, o.Node, o.Heir, o.Elsewhere = nil, nil, "", nil, nil },
		"a cluster":      inLogs,
	} {
		t.Run(name, func(t *testing.T) {
			w.opts = before
			change(&w.opts)
			w.opts.Dir = t.TempDir()
			restore(w.opts.Dir)
			w.opts.Asker = script(calls("fs.read", `{"path":"@state/note.md"}`), says("as it was"))
			w.Service = New(w.opts)
			defer w.stop()
			w.Recover(t.Context())
			w.goOn(id, ptr("read it"))
			if got := w.rest(id); got.Message != "as it was" {
				t.Errorf("it is %+v", got.Result)
			}
			if turns := w.turns(id); len(turns) != 4 || !strings.Contains(string(turns[2].ToolRuns[0].Result), "long long") {
				t.Errorf("it has %d turns", len(turns))
			}
			if got := w.start(StartParams{Package: "climate-check"}); got == "" {
				t.Error("its package is gone")
			}
			if _, err := os.Stat(filepath.Join(w.opts.Dir, restoredLogs)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was restored is still there: %v", err)
			}
		})
	}
}

func mustGet(t *testing.T, w *world, id string) *Record {
	t.Helper()
	r, _, ok := w.opts.Runs.Get(id)
	if !ok {
		t.Fatal("there is no such run")
	}
	return r
}

// cutRest takes away that a run came to rest from its diary, as a crash does.
func cutRest(t *testing.T, w *world, id string) {
	t.Helper()
	dir := folders{w.opts.Dir}
	data, err := os.ReadFile(dir.diaryOf(id))
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for next := 0; next < len(data); next += 4 + int(binary.BigEndian.Uint32(data[next:])) {
		at = next
	}
	if err := os.WriteFile(dir.diaryOf(id), data[:at], 0o600); err != nil {
		t.Fatal(err)
	}
}
