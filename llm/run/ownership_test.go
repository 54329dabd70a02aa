package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A town is the common state of the processes of a cluster, and a bell that they
// ring.
type town struct {
	t     testing.TB
	log   *memoryLog
	blobs *memoryBlobs
	runs  *recordstest.Memory[Record]
	all   []*process

	mu    sync.Mutex
	began map[string]bool // the keys of begun deeds, as all bridges remember them
	rings map[string]int  // by number of the ringing
	ended map[string]bool
	late  []string // rung by a process that had lost the run
}

func newTown(t testing.TB) *town {
	return &town{
		t: t, log: newMemoryLog(), blobs: newMemoryBlobs(), runs: recordstest.New[Record](),
		began: make(map[string]bool), rings: make(map[string]int), ended: make(map[string]bool),
	}
}

// A failure is a way in which a process fails at a write.
type failure int

const (
	diesBefore failure = iota
	diesAfter          // the write is stored, and it never hears of it
	pauses             // and the write is made when it goes on
	failures
)

// A process is one of a cluster, on a disk of its own.
type process struct {
	*Service
	town *town
	node string

	mu     sync.Mutex
	writes int
	failAt int // the write at which it fails, 0 for none
	how    failure
	dead   bool
	over   bool          // it has failed, and its last write is made, if it is made before another process begins
	failed chan struct{} // closed when it has failed
	reads  int           // of logs that fail because the store is away
	goOn   chan struct{} // closed to have one that pauses go on
}

var errDead = protocol.Errorf(protocol.StoreUnavailable, "the process is dead")

// write makes a write of a process, unless it fails at that.
func (p *process) write(make func() error) error {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errDead
	}
	p.writes++
	fails, how := p.writes == p.failAt, p.how
	p.dead = fails && how != pauses
	p.mu.Unlock()
	if !fails {
		return make()
	}
	defer close(p.failed)
	defer p.end()
	switch how {
	case diesAfter:
		_ = make()
		return errDead
	case pauses:
		p.end()
		p.failed <- struct{}{}
		<-p.goOn
		return make()
	}
	return errDead
}

func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

type processLog struct {
	*memoryLog
	p *process
}

func (l processLog) Append(ctx context.Context, run string, last uint64, record []byte) (seq uint64, err error) {
	err = l.p.write(func() (err error) {
		seq, err = l.memoryLog.Append(ctx, run, last, record)
		return err
	})
	return seq, err
}

// Read implements [Log].
func (l processLog) Read(ctx context.Context, run string, after uint64, yield func(uint64, []byte) error) (uint64, error) {
	l.p.mu.Lock()
	away := l.p.reads > 0
	if away {
		l.p.reads--
	}
	l.p.mu.Unlock()
	if away {
		return 0, protocol.Errorf(protocol.StoreUnavailable, "the store does not answer")
	}
	return l.memoryLog.Read(ctx, run, after, yield)
}

type processTable struct {
	records.Table[Record]
	p *process
}

func (t processTable) Create(ctx context.Context, key string, r *Record) (revision uint64, err error) {
	err = t.p.write(func() (err error) {
		revision, err = t.Table.Create(ctx, key, r)
		return err
	})
	return revision, err
}

func (t processTable) Update(ctx context.Context, key string, r *Record, expect uint64) (revision uint64, err error) {
	err = t.p.write(func() (err error) {
		revision, err = t.Table.Update(ctx, key, r, expect)
		return err
	})
	return revision, err
}

// start starts a process.
func (w *town) start(node string, failAt int, how failure) *process {
	p := &process{town: w, node: node, failAt: failAt, how: how, failed: make(chan struct{}, 1), goOn: make(chan struct{})}
	bell, err := tools.Fixed(&tools.Tool{
		Declaration: tools.Declaration{Name: "bell.ring", Effect: commands.Act, Source: "skill", Schema: json.RawMessage(`{"type":"object"}`)},
		Run:         p.ring,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	o := Options{
		Asker: scripted(caretaker), Executor: &tools.Executor{}, Catalogue: tools.New(bell), Packages: recordstest.New[PackageRecord](),
		Runs: processTable{w.runs, p}, Logs: processLog{w.log, p}, Blobs: w.blobs, Dir: w.t.TempDir(), Sealer: bound{}, Policy: DefaultPolicy(),
		Node: node,
		Heir: func(context.Context) (func(string, string) bool, error) {
			return func(of, _ string) bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.ended[of]
			}, nil
		},
		Elsewhere: func(context.Context, string, string, any, any) error { return errDead },
	}
	p.Service = New(o)
	p.shelf.(*logs).late = 0
	p.shelf.(*logs).pause = func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Millisecond) }
	w.all = append(w.all, p)
	return p
}

func (p *process) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		p.town.t.Error(err)
	}
}

// ring rings the bell, once for each key.
func (p *process) ring(ctx context.Context, x *tools.Execution) (tools.Output, error) {
	w := p.town
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := tools.KeyOf(ctx); w.began[key] {
		return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was begun, and how it ended is not known")
	} else {
		w.began[key] = true
	}
	number := string(x.ArgumentsJSON)
	w.rings[number]++
	if w.ended[p.node] {
		w.late = append(w.late, p.node+" "+number)
	}
	return tools.Output{Text: "rung"}, nil
}

// caretaker is a model that rings twice and writes that down, wherever the run is.
func caretaker(_ context.Context, q model.Question) (*chat.Answer, error) {
	n := 0
	for _, m := range q.Request.Messages {
		if m.Role == chat.Assistant {
			n++
		}
	}
	switch n {
	case 0:
		return calls("bell.ring", `{"n":1}`), nil
	case 1:
		return calls("fs.write", fmt.Sprintf(`{"path":"@state/note.md","content":%q}`, strings.Repeat("rung once\n", 4<<10))), nil
	case 2:
		return calls("bell.ring", `{"n":2}`), nil
	}
	return says("done"), nil
}

// begin starts a run, and returns its id once the process has it, or has failed.
func (p *process) begin() string {
	ctx, cancel := context.WithCancel(p.town.t.Context())
	defer cancel()
	if p.how != pauses {
		go func() {
			select {
			case <-p.failed: // whoever has called gives up
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	r, err := p.Start(ctx, callOf(alice), StartParams{Input: ptr("ring twice")})
	if err != nil {
		return ""
	}
	return r.ID
}

// brings waits until a process has brought a run to rest, or has failed.
func (p *process) brings(id string) (atRest bool) {
	eventually.Holds(p.town.t, "the run comes to rest, or the process fails", func() bool {
		p.mu.Lock()
		failed := p.failAt > 0 && p.over
		p.mu.Unlock()
		r, _, ok := p.town.runs.Get(id)
		atRest = ok && r.Phase != Running
		return atRest || failed
	})
	return atRest
}

// declare tells all that a process has ended.
func (w *town) declare(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[p.node] = true
}

// check looks at a run that is at rest.
func (w *town) check(id string, failures int) {
	w.t.Helper()
	p := w.start("observer", 0, diesBefore)
	w.mu.Lock()
	rings, late := fmt.Sprint(w.rings), slices.Clone(w.late)
	for number, n := range w.rings {
		if n > 1 {
			w.t.Errorf("%s was rung %d times", number, n)
		}
	}
	if failures == 0 && len(w.rings) != 2 {
		w.t.Errorf("without a failure it was rung %s", rings)
	}
	w.mu.Unlock()
	if len(late) > 0 {
		w.t.Errorf("it was rung by who had lost the run: %q", late)
	}
	got, err := p.Status(w.t.Context(), callOf(alice), StatusParams{Run: id})
	if err != nil || got.Phase != WaitingUser || got.Message != "done" {
		w.t.Errorf("it is at rest as %+v, %v", got.Result, err)
	}
	turns, err := p.Turns(w.t.Context(), callOf(alice), TurnsParams{Run: id, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, turn := range turns.Turns {
		if turn.ID != turnID(i+1) {
			w.t.Errorf("turn %d is %s", i+1, turn.ID)
		}
	}
	b := p.shelf.peek(w.t.Context(), id).(*logBook)
	if _, err := openDiary(w.t.Context(), b, "run/"+id, bound{}, func(*entry) {}); err != nil {
		w.t.Error(err)
	}
	note, err := b.content(w.t.Context(), "note.md")
	if err != nil || !strings.HasPrefix(string(note), "rung once\n") {
		for _, turn := range turns.Turns {
			for _, r := range turn.ToolRuns {
				w.t.Logf("%s %s: %.300s", turn.ID, r.ToolName, r.Result)
			}
		}
		w.t.Errorf("the note is %.20q, %v", note, err)
	}
}

// playOut plays a run whose processes fail at writes, one after the other, until one
// brings it to rest.
func playOut(t testing.TB, at []int, how []failure) (failed int) {
	w := newTown(t)
	defer func() {
		for _, p := range w.all {
			p.stop()
		}
	}()
	var paused []*process
	p := w.start("b0 1", at[0], how[0])
	id := ""
	if how[0] == pauses {
		begun := make(chan string, 1)
		go func() { begun <- p.begin() }()
		select {
		case id = <-begun:
		case <-p.failed:
			p.mu.Lock()
			p.failAt = 0 // nobody else knows of it yet
			p.mu.Unlock()
			close(p.goOn)
			id = <-begun
			failed++
		}
	} else {
		id = p.begin()
	}
	if id == "" {
		for known := range w.runs.All() {
			id = known // it was stored, and the caller has not heard of it
		}
		if id == "" {
			if len(w.rings) > 0 {
				t.Errorf("a run that never was has rung %v", w.rings)
			}
			return 1
		}
	}
	for next := 1; !p.brings(id); next++ {
		failed++
		if p.how == pauses && p.failAt > 0 {
			paused = append(paused, p)
		}
		w.declare(p)
		failAt, kind := 0, diesBefore
		if next < len(at) {
			failAt, kind = at[next], how[next]
		}
		p = w.start(fmt.Sprintf("b%d 1", next), failAt, kind)
		go p.Recover(context.Background())
	}
	w.check(id, failed)
	before := len(w.log.runs[id])
	for _, z := range paused {
		close(z.goOn)
		eventually.Holds(t, "who was paused gives the run up", func() bool { return z.find(id) == nil })
	}
	w.check(id, failed)
	if after := len(w.log.runs[id]); after != before {
		t.Errorf("who was paused has added %d records", after-before)
	}
	return failed
}

// TestARunThatCouldNotBeOpenedIsTakenOverLater has the store go away between the
// record, by which a run is the heir's, and the log.
func TestARunThatCouldNotBeOpenedIsTakenOverLater(t *testing.T) {
	w := newTown(t)
	first := w.start("b0 1", 4, diesAfter)
	id := first.begin()
	if id == "" || first.brings(id) {
		t.Fatal("the run did not begin, or came to rest")
	}
	defer first.stop()
	w.declare(first)
	heir := w.start("b1 1", 0, diesBefore)
	defer heir.stop()
	heir.reads = 1
	if err := heir.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := w.runs.Get(id); r.Node != heir.node || r.Phase != Running || heir.find(id) != nil {
		t.Fatalf("the heir has the run as %+v", r)
	}
	if err := heir.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	heir.brings(id)
	w.check(id, 1)
}

// TestARunIsOnesAtATime has the process of a run fail at every write in turn, in every
// way, and another go on.
func TestARunIsOnesAtATime(t *testing.T) {
	for how := range failures {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			for at := 1; ; at++ {
				if playOut(t, []int{at}, []failure{how}) == 0 {
					if at < 8 {
						t.Errorf("it makes %d writes", at)
					}
					return
				}
			}
		})
	}
}

// TestARunSurvivesManyFailures has several processes fail one after the other.
func TestARunSurvivesManyFailures(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(r, "processes")
		at, how := make([]int, n), make([]failure, n)
		for i := range n {
			at[i] = rapid.IntRange(1, 14).Draw(r, "at")
			how[i] = failure(rapid.IntRange(0, int(failures)-1).Draw(r, "how"))
		}
		playOut(t, at, how)
	})
}
