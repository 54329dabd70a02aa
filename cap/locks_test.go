package cap

import (
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// A Cap whose end waits for the store holds up no other.
func TestASlowCapHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.climate()
	w.must(alice, "cap.declare", `{"cap_id":"other","cap_name":"Other","skill_id":"heating","max_members":3}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"sensor","role":"sensor","cap_id":"other"}`)
	const set = `{"group_id":"up","data_key":"k","data_value":%d,"data_type":"number","cap_id":%q}`

	writing, stored := make(chan struct{}), make(chan struct{})
	w.data.Before(func(string) {
		close(writing)
		<-stored
	})
	done := make(chan error, 2)
	go func() {
		_, err := w.ask(sensor, "group.data.set", fmt.Sprintf(set, 1, "climate"))
		done <- err
	}()
	<-writing
	go func() {
		_, err := w.ask(alice, "cap.remove", `{"cap_id":"climate","force":true}`)
		done <- err
	}()
	eventually.Holds(t, "the end waits", func() bool {
		w.locks.mu.Lock()
		defer w.locks.mu.Unlock()
		l := w.locks.of["default/climate"]
		return l != nil && l.users == 2
	})
	w.must(sensor, "group.data.set", fmt.Sprintf(set, 2, "other"))
	close(stored)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if w.data.Len() != 1 || len(w.locks.of) != 0 {
		t.Errorf("%d values and %d locks are left", w.data.Len(), len(w.locks.of))
	}
}
