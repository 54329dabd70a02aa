package a2a

import (
	"encoding/base64"
	"encoding/json"
)

// A thread is the task or conversation that a caller can continue.
type thread struct {
	Task    string `json:"t,omitempty"` // that waits for an answer
	Context string `json:"c,omitempty"`
}

// maxThread bounds the ids in a thread, which the agent has made.
const maxThread = 512

// thread is the caller's token to continue, "" if there is nothing to continue. It
// is sealed for the caller: the agent knows the bridge alone, and would let every
// caller go on with the tasks of all others.
func (l *link) thread(r *Result, caller string) string {
	t := thread{Context: r.context}
	if r.State == inputRequired || r.State == authRequired {
		t.Task = r.task
	}
	if t == (thread{}) || len(t.Task)+len(t.Context) > maxThread {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	sealed, err := l.keeper.sealer.Seal(text, l.threads(caller))
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// follows opens a token that thread made for the same caller.
func (l *link) follows(text, caller string) (t thread, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, false
	}
	plain, err := l.keeper.sealer.Open(sealed, l.threads(caller))
	return t, err == nil && json.Unmarshal(plain, &t) == nil
}

// threads is the purpose that the threads of a caller are sealed for.
func (l *link) threads(caller string) string {
	return "a2a thread " + key(l.agent.Space, l.agent.ID) + " " + caller
}

// callerOf is the caller's mark, which the bridge writes into its requests.
func callerOf(request []byte) string {
	var r struct {
		Metadata struct {
			Caller string `json:"caller"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(request, &r) // it was read before
	return r.Metadata.Caller
}
