package run

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A memoryLog is a [Log] that outlives the services of a test. It can lose
// confirmations of stored records.
type memoryLog struct {
	mu   sync.Mutex
	seq  uint64
	runs map[string][]logged
	// before is asked before each record is stored, and decides its fate.
	before func(run string, record []byte) fate
}

type logged struct {
	at     uint64
	record []byte
}

// A fate is the outcome of a write.
type fate int

const (
	stored fate = iota
	refusedWrite
	unconfirmed // it is stored, and nobody is told
)

func newMemoryLog() *memoryLog { return &memoryLog{runs: make(map[string][]logged)} }

// Append implements [Log].
func (m *memoryLog) Append(ctx context.Context, run string, last uint64, record []byte) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, protocol.Wrap(protocol.StoreUnavailable, err, "too late")
	}
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	what := stored
	if before != nil {
		what = before(run, record)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if what == refusedWrite {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "away")
	}
	list := m.runs[run]
	if n := len(list); n > 0 && list[n-1].at != last || n == 0 && last != 0 {
		for i, l := range list { // a repetition of a record that was stored without confirmation
			before := uint64(0)
			if i > 0 {
				before = list[i-1].at
			}
			if before == last && bytes.Equal(l.record, record) && what != unconfirmed {
				return l.at, nil
			}
		}
		return 0, protocol.Errorf(protocol.RevisionConflict, "it does not end there")
	}
	m.seq++
	m.runs[run] = append(list, logged{m.seq, bytes.Clone(record)})
	if what == unconfirmed {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "nobody knows")
	}
	return m.seq, nil
}

// Read implements [Log].
func (m *memoryLog) Read(_ context.Context, run string, after uint64, yield func(uint64, []byte) error) (uint64, error) {
	m.mu.Lock()
	list := slices.Clone(m.runs[run])
	m.mu.Unlock()
	last := after
	for _, l := range list {
		if l.at <= after {
			continue
		}
		last = l.at
		if err := yield(l.at, l.record); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// Remove implements [Log].
func (m *memoryLog) Remove(_ context.Context, run string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, run)
	return nil
}

// All implements [Log].
func (m *memoryLog) All(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.runs)), nil
}

func (m *memoryLog) intercept(f func(run string, record []byte) fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// memoryBlobs are [Blobs] that outlive the services of a test.
type memoryBlobs struct {
	mu   sync.Mutex
	data map[string][]byte
	at   map[string]time.Time
}

func newMemoryBlobs() *memoryBlobs {
	return &memoryBlobs{data: make(map[string][]byte), at: make(map[string]time.Time)}
}

// Put implements [Blobs].
func (m *memoryBlobs) Put(_ context.Context, name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.data[name]; !ok {
		m.data[name], m.at[name] = bytes.Clone(data), time.Now()
	}
	return nil
}

// Has implements [Blobs].
func (m *memoryBlobs) Has(_ context.Context, name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.data[name]
	return ok, nil
}

// Get implements [Blobs].
func (m *memoryBlobs) Get(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[name]
	if !ok {
		return nil, protocol.Errorf(protocol.FileNotFound, "it is not there")
	}
	return bytes.Clone(data), nil
}

// Remove implements [Blobs].
func (m *memoryBlobs) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, name)
	return nil
}

// All implements [Blobs].
func (m *memoryBlobs) All(_ context.Context, yield func(string, time.Time) bool) error {
	m.mu.Lock()
	at := maps.Clone(m.at)
	m.mu.Unlock()
	for name, since := range at {
		if _, err := m.Get(nil, name); err == nil && !yield(name, since) {
			return nil
		}
	}
	return nil
}

// Sweep implements [Blobs].
func (m *memoryBlobs) Sweep(context.Context, time.Time) (int, error) { return 0, nil }

// inLogs has a world keep its runs in logs. Each of its services is another process,
// on another disk.
func inLogs(o *Options) {
	o.Logs, o.Blobs = newMemoryLog(), newMemoryBlobs()
	o.Node = "b1 1"
	o.Heir = func(context.Context) (func(string, string) bool, error) {
		return func(string, string) bool { return true }, nil
	}
	o.Elsewhere = func(context.Context, string, string, any, any) error {
		return protocol.Errorf(protocol.TargetUnavailable, "it is not there")
	}
}

// everywhere makes all worlds keep their runs in logs.
var everywhere bool

// TestRunsInLogsAreAsThoseInFolders runs tests again, with each restart on another
// disk.
func TestRunsInLogsAreAsThoseInFolders(t *testing.T) {
	everywhere = true
	defer func() { everywhere = false }()
	for name, test := range map[string]func(*testing.T){
		"killed":          TestARunThatWasKilledGoesOnWhereItsDocumentsSay,
		"effects":         TestAnEffectOfBeforeACrashIsNotRepeated,
		"words":           TestWhatTheUserSaidSurvivesACrash,
		"failed calls":    TestACallThatFailedBeforeACrashIsAttemptedAgain,
		"unknown effects": TestAnEffectWithoutARecordIsSaidToBeUnknown,
		"idempotent":      TestAnIdempotentCallIsRunAgainAfterACrash,
		"records":         TestUpdatesKeepTheOtherFieldsOfARun,
		"traces":          TestATraceShowsWhatARunDidAndWhatItDoes,
		"graphs":          TestAWorkflowIsDrawnWholeWhenThatIsAskedFor,
		"forgotten":       TestAnOldRunIsForgottenUnlessItGoesOn,
	} {
		t.Run(name, test)
	}
}

func TestTheDiskIsACopyOfALog(t *testing.T) {
	large := strings.Repeat("a line of a long file\n", 4<<10)
	w := newWorld(t, script(
		calls("fs.write", fmt.Sprintf(`{"path":"@state/long.txt","content":%q}`, large), "fs.write", `{"path":"@state/a/short.txt","content":"one"}`),
		calls("fs.write", `{"path":"@state/a/short.txt","content":"two"}`),
		says("written")), inLogs)
	id := w.start(StartParams{Input: ptr("write")})
	w.rest(id)
	blobs := w.opts.Blobs.(*memoryBlobs)
	if len(blobs.data) != 1 {
		t.Errorf("%d blobs, want that of the long file", len(blobs.data))
	}
	w.restart(script(
		calls("fs.read", `{"path":"@state/a/short.txt"}`),
		calls("fs.read", `{"path":"@state/long.txt","limit":3}`),
		calls("fs.write", fmt.Sprintf(`{"path":"@state/long.txt","content":%q}`, large+"more")),
		says("read")))
	w.goOn(id, ptr("read"))
	if got := w.rest(id); got.Message != "read" {
		t.Fatalf("it came to rest as %+v", got.Result)
	}
	page, err := w.Turns(t.Context(), callOf(alice), TurnsParams{Run: id, After: 3})
	if err != nil || len(page.Turns) < 2 {
		t.Fatal(len(page.Turns), err)
	}
	turns := page.Turns
	if got := string(turns[0].ToolRuns[0].Result); !strings.Contains(got, "two") {
		t.Errorf("the short file: %s", got)
	}
	if got := string(turns[1].ToolRuns[0].Result); !strings.Contains(got, "a line of a long file") {
		t.Errorf("the long file: %.200s", got)
	}
	if len(blobs.data) != 1 {
		t.Errorf("%d blobs after the long file was written again", len(blobs.data))
	}
	if err := w.shelf.forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if logs, _ := w.opts.Logs.All(t.Context()); len(logs) != 0 || len(blobs.data) != 0 {
		t.Errorf("of a forgotten run there are %v and %d blobs", logs, len(blobs.data))
	}
}
