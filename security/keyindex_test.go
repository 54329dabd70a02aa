package security

import (
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestKeysAreFoundByParty(t *testing.T) {
	keys := recordstest.New[Key]()
	lamp := func(id string) *Key { return &Key{ID: id, Principal: "lamp", Kind: protocol.KindAgent, Space: "a"} }
	put := func(k *Key) {
		t.Helper()
		if _, err := keys.Put(t.Context(), k.ID, k); err != nil {
			t.Fatal(err)
		}
	}
	put(lamp("before"))
	x := IndexKeys(keys)
	put(lamp("after"))
	put(lamp("after"))
	moved := lamp("before")
	moved.Space = "b"
	put(moved)
	count := func(space protocol.SpaceID, want int) {
		t.Helper()
		if n := len(x.Of(protocol.AgentID("lamp").Party(space))); n != want {
			t.Errorf("%d keys in space %s, want %d", n, space, want)
		}
	}
	count("a", 1)
	count("b", 1)
	if err := keys.Delete(t.Context(), "after", 0); err != nil {
		t.Fatal(err)
	}
	count("a", 0)
	if len(x.of) != 1 {
		t.Errorf("%d parties are kept, of which one has a key", len(x.of))
	}
}
