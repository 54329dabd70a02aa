package broker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// Sessions of clients that showed the same share the principal that is kept of them.
// Those of others have their own, however many there are.
func TestRestoredSessionsShareTheirPrincipal(t *testing.T) {
	r := newReplay(brokerOn(t, new(MemoryJournal)))
	restored := func(serial uint64, who *protocol.Principal) *protocol.Principal {
		t.Helper()
		value, err := json.Marshal(storedSession{Serial: serial, Principal: who, Version: 5, Expiry: forever})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.keyed(keyOfSession(SessionID{who.Home(), fmt.Sprint(serial)}), value); err != nil {
			t.Fatal(err)
		}
		return r.sessions[serial].principal
	}
	operator := func() *protocol.Principal {
		return &protocol.Principal{Kind: "operator", ID: "ann", Roles: []string{protocol.RoleOperator}}
	}
	first := restored(1, operator())
	if again := restored(2, operator()); again != first {
		t.Error("the same principal is kept twice")
	}
	other := operator()
	other.Roles = nil
	if got := restored(3, other); got == first || len(got.Roles) != 0 || got.ID != "ann" {
		t.Errorf("a principal without roles became %+v", got)
	}
	for i := range uint64(mostPrincipals + 1) {
		who := operator()
		who.ID = fmt.Sprint(i)
		if got := restored(4+i, who); got.ID != who.ID {
			t.Fatalf("%s became %s", who.ID, got.ID)
		}
	}
	if len(r.principals) > mostPrincipals {
		t.Errorf("%d principals are remembered", len(r.principals))
	}
}

func TestARestoredSessionNeedsAPrincipal(t *testing.T) {
	r := newReplay(brokerOn(t, new(MemoryJournal)))
	for _, value := range []string{`{"serial":2}`, `{"serial":2,"principal":null}`, `{"serial":2,"principal":7}`, `{"serial":2,"principal":{}`} {
		if err := r.keyed(keyOfSession(SessionID{protocol.DefaultSpace, "a"}), []byte(value)); err == nil {
			t.Errorf("%s was restored", value)
		}
	}
}
