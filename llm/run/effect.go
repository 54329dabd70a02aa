package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
)

// An effectEntry records a call that may change the world: it is written before the
// call, and again when its result is known.
type effectEntry struct {
	Key     string        `json:"key"`
	Tool    string        `json:"tool"`
	Done    bool          `json:"done,omitempty"`
	Code    fault.Code    `json:"code,omitempty"`
	Message *chat.Message `json:"message,omitempty"`
	At      int64         `json:"at,omitempty"` // Unix ms; beginning of the call

	attempt int // number of times that the call was begun
}

// effects prevents the repetition of effects after a restart. A run that was
// interrupted begins anew in its node, and its model may repeat its calls. So every
// call that changes something has a key of the run, the number of its rests, the visit
// to the node, the tool and its arguments, and the number of equal calls there. A call
// whose key has a result in the diary gets that result. For a call that was begun and
// has none, the model learns that the outcome is unknown, unless the tool may run
// twice, or the claim of the call is young enough to tell whether it ran.
type effects struct {
	run   string
	rests int // number of clean rests of the run
	visit int // of nodes
	node  string
	count map[string]int          // number of equal calls since the engine began, by key without the number
	known map[string]*effectEntry // effects since the last rest, from before the engine began
}

func newEffects(run string) *effects {
	return &effects{run: run, count: make(map[string]int), known: make(map[string]*effectEntry)}
}

// read adds the next entry of the diary.
func (f *effects) read(e *entry) {
	switch {
	case e.Rest != nil && e.Rest.clean():
		f.rests++
		clear(f.known)
	case e.Effect != nil:
		if before := f.known[e.Effect.Key]; before != nil {
			e.Effect.attempt = before.attempt
		}
		if !e.Effect.Done {
			e.Effect.attempt++
		}
		f.known[e.Effect.Key] = e.Effect
	case e.Enter != nil:
		f.visit++
		f.node = e.Enter.Node
	}
}

// enter records the node of the run, and reports whether an enterEntry must be written.
func (f *effects) enter(node string) bool {
	if node == f.node {
		return false
	}
	f.visit++
	f.node = node
	return true
}

// key is the idempotency key of the next call, with its recorded effect.
func (f *effects) key(tool string, args json.RawMessage) (key string, before *effectEntry) {
	what := fmt.Sprintf("%s\x00%d\x00%d\x00%s\x00%s", f.run, f.rests, f.visit, tool, canonical(args))
	short := sha256.Sum256([]byte(what))
	calls := hex.EncodeToString(short[:16])
	for {
		n := f.count[calls]
		f.count[calls]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", what, n))
		key = "run-" + hex.EncodeToString(sum[:16])
		if before = f.known[key]; before == nil || !before.failed() {
			return key, before
		}
	}
}

// failed reports whether a call is known to have failed without an effect, so that an
// equal call is another attempt.
func (e *effectEntry) failed() bool {
	return e.Done && e.Code != "" && e.Code != fault.OutcomeUnknown
}

// claimed is the guaranteed lifetime of a call's claim: within it, a repetition under
// the same key returns the first outcome instead of running the call again. It is less
// than the time limit of any call.
const claimed = time.Minute

// told reports whether a call that was begun can be repeated under its key, since its
// claim tells whether it ran.
func (e *effectEntry) told(t *tools.Tool, now time.Time) bool {
	since := now.Sub(time.UnixMilli(e.At))
	return t.Effect == commands.Act && e.At != 0 && since >= 0 && since < claimed
}
