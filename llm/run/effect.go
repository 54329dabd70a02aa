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

// An effectEntry is a call that may change the world: written before it is
// made, and again when its result is known.
type effectEntry struct {
	Key     string        `json:"key"`
	Tool    string        `json:"tool"`
	Done    bool          `json:"done,omitempty"`
	Code    fault.Code    `json:"code,omitempty"`
	Message *chat.Message `json:"message,omitempty"`
	At      int64         `json:"at,omitempty"` // Unix ms; when it was begun

	attempt int // how often the call has been begun
}

// Effects keep a rerun from repeating effects. A run that the bridge
// has not brought to rest begins anew in the node where it was, and its model
// may well ask for the same once more. So every call that changes something
// has a key: of the run, of how often it has come to rest, of the visit to the
// node, of the tool and its arguments, and of how often just that was called
// for there. A key whose call is known to have ended is answered with the
// result of then. Of one that was begun and whose end is not known the model
// is told just that, unless the tool may be run twice, or the bridge still
// remembers claims of that time and so knows whether it was made.
type effects struct {
	run   string
	rests int // how often the run has cleanly come to rest
	visit int // of nodes
	node  string
	count map[string]int          // calls by what they are, since the engine began
	known map[string]*effectEntry // since the run was at rest, from before the engine began
}

func newEffects(run string) *effects {
	return &effects{run: run, count: make(map[string]int), known: make(map[string]*effectEntry)}
}

// read takes in an entry of the diary, in their order.
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

// enter notes in which node the run is, and reports whether the diary has to
// know.
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

// failed reports whether a call is known to have had no effect, so that the
// same call is another attempt.
func (e *effectEntry) failed() bool {
	return e.Done && e.Code != "" && e.Code != fault.OutcomeUnknown
}

// claimed is the time for which the claim of a call is certainly remembered, so that
// making the call again under its key tells whether it was made. It is less than the
// time of any call.
const claimed = time.Minute

// told reports whether a call that was begun can be made again under its key, as
// the bridge knows then whether it was made before.
func (e *effectEntry) told(t *tools.Tool, now time.Time) bool {
	since := now.Sub(time.UnixMilli(e.At))
	return t.Effect == commands.Act && e.At != 0 && since >= 0 && since < claimed
}
