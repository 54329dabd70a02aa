package session

import (
	"reflect"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A tracing broker has a trace of each client that one was started of.
type tracing struct {
	*fake
	ends map[string]time.Time
	full bool
}

func (f *tracing) StartTrace(space protocol.SpaceID, clientID string, ends time.Time) (found, room bool) {
	if _, found = f.Session(space, clientID); found && !f.full {
		f.ends[clientID] = ends
	}
	return found, !f.full
}

func (f *tracing) Trace(space protocol.SpaceID, clientID string, after uint64, limit int) (Trace, bool) {
	ends, ok := f.ends[clientID]
	if _, found := f.Session(space, clientID); !found || !ok {
		return Trace{}, false
	}
	return Trace{Ends: ends, Missed: after, Lines: make([]Headline, limit)}, true
}

func (f *tracing) StopTrace(space protocol.SpaceID, clientID string) bool {
	_, ok := f.Trace(space, clientID, 0, 0)
	if ok {
		delete(f.ends, clientID)
	}
	return ok
}

func TestAClientIsTracedForAWhile(t *testing.T) {
	t.Parallel()
	broker := &tracing{fake: house(), ends: make(map[string]time.Time)}
	s := New(broker, "", nil)
	lamp := Params{ClientID: "lamp"}
	if _, err := s.TraceGet(t.Context(), call(root), TraceGetParams{Params: lamp}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("before it was started: %v", err)
	}
	before := time.Now()
	started, err := s.TraceStart(t.Context(), call(root), TraceStartParams{Params: lamp, Seconds: 60})
	if ends := broker.ends["lamp"]; err != nil || started.EndsAt != ends.UnixMilli() || ends.Before(before.Add(time.Minute)) {
		t.Errorf("%+v, %v", started, err)
	}
	got, err := s.TraceGet(t.Context(), call(root), TraceGetParams{Params: lamp, After: 7, Limit: 2})
	if want := (TraceGetResult{ClientID: "lamp", EndsAt: started.EndsAt, Missed: 7, Headlines: make([]Headline, 2)}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.TraceGet(t.Context(), call(root), TraceGetParams{Params: lamp}); err != nil || got.Headlines == nil {
		t.Errorf("without headlines: %+v, %v", got, err)
	}
	if _, err := s.TraceStop(t.Context(), call(root), lamp); err != nil {
		t.Error(err)
	}
	if _, err := s.TraceStop(t.Context(), call(root), lamp); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("twice: %v", err)
	}
	broker.full = true
	if _, err := s.TraceStart(t.Context(), call(root), TraceStartParams{Params: lamp}); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("without room: %v", err)
	}
}

func TestClientsOfOtherSpacesAreNotTraced(t *testing.T) {
	t.Parallel()
	broker := &tracing{fake: house(), ends: map[string]time.Time{"lamp": ends}}
	s := New(broker, "", nil)
	for _, p := range []Params{{ClientID: "lamp"}, {ClientID: "lamp", Space: protocol.DefaultSpace}, {ClientID: "nobody"}} {
		_, started := s.TraceStart(t.Context(), call(carol), TraceStartParams{Params: p})
		_, shown := s.TraceGet(t.Context(), call(carol), TraceGetParams{Params: p})
		_, stopped := s.TraceStop(t.Context(), call(carol), p)
		for i, err := range []error{started, shown, stopped} {
			if protocol.CodeOf(err) != protocol.NotFound {
				t.Errorf("%+v %d: error = %v, want 3001", p, i, err)
			}
		}
	}
	if len(broker.ends) != 1 {
		t.Errorf("traces %v", broker.ends)
	}
}
