package fair

import (
	"fmt"
	"testing"
)

// One tenant cannot fill the room of all, and one principal not that of its tenant.
func TestARoomIsShared(t *testing.T) {
	t.Parallel()
	r := NewRoom(160, 1600)
	fill := func(who Party, bytes int64) (things int64, lacks Whose) {
		for ; ; things++ {
			if lacks = r.Lacks(who, 1, bytes); lacks != OfNobody {
				return things, lacks
			}
			r.Add(who, 1, bytes)
		}
	}
	for _, c := range []struct {
		who    Party
		bytes  int64
		things int64
		lacks  Whose
	}{
		{Party{Principal: "a", Space: "red"}, 1, 40, OfPrincipal},
		{Party{Principal: "b", Space: "red"}, 20, 20, OfPrincipal}, // by its bytes
		{Party{Principal: "c", Space: "red"}, 1, 20, OfSpace},
		{Party{Principal: "d", Space: "blue"}, 1, 40, OfPrincipal},
		{Party{Principal: "e", Space: "blue"}, 1, 30, OfBridge},
	} {
		if things, lacks := fill(c.who, c.bytes); things != c.things || lacks != c.lacks {
			t.Errorf("%v has %d, and %s has no room then, not %d and %s", c.who, things, lacks, c.things, c.lacks)
		}
	}
	for principal, n := range map[string]int64{"a": 40, "c": 20} {
		r.Add(Party{Principal: principal, Space: "red"}, -n, -n)
	}
	r.Add(Party{Principal: "b", Space: "red"}, -20, -400)
	r.Add(Party{Principal: "d", Space: "blue"}, -40, -40)
	r.Add(Party{Principal: "e", Space: "blue"}, -30, -30)
	if left := fmt.Sprint(r.things.used, r.bytes.used, r.things.byPrincipal, r.bytes.bySpace); left != "0 0 map[] map[]" {
		t.Errorf("room is left taken: %s", left)
	}
}
