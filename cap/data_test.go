package cap

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestAValueIsOfItsDataType(t *testing.T) {
	t.Parallel()
	values := []string{`"text"`, `"AAAA"`, `21`, `21.0`, `2.1e1`, `21.5`, `1e400`, `true`, `{"a":1}`, `[1]`, `null`}
	for kind, good := range map[DataType][]string{
		String: {`"text"`, `"AAAA"`}, Binary: {`"text"`, `"AAAA"`}, Number: {`21`, `21.0`, `2.1e1`, `21.5`, `1e400`},
		Integer: {`21`, `21.0`, `2.1e1`}, Float: {`21`, `21.0`, `2.1e1`, `21.5`, `1e400`},
		Boolean: {`true`}, Object: {`{"a":1}`}, Array: {`[1]`},
		JSON: {`"text"`, `"AAAA"`, `21`, `21.0`, `2.1e1`, `21.5`, `1e400`, `true`, `{"a":1}`, `[1]`},
	} {
		allowed := make(map[string]bool)
		for _, v := range good {
			allowed[v] = true
		}
		for _, v := range values {
			if err := kind.check(json.RawMessage(v)); (err == nil) != allowed[v] {
				t.Errorf("%s as %s: %v", v, kind, err)
			}
		}
	}
}

func (w *world) values(who *protocol.Principal, params string) DataListResult {
	w.t.Helper()
	result, err := w.ask(who, "group.data.list", params)
	if err != nil {
		w.t.Fatal(err)
	}
	var found DataListResult
	if err := json.Unmarshal(result, &found); err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *world) set(key, value string) {
	w.t.Helper()
	w.must(alice, "group.data.set", fmt.Sprintf(`{"group_id":"up","cap_id":"climate","data_key":%q,"data_type":"json","data_value":%s}`, key, value))
}

func TestValuesAreListedWithWhatTheyWere(t *testing.T) {
	w := newWorld(t)
	w.climate()
	large := `"` + strings.Repeat("x", maxPast) + `"`
	w.set("level", `1`)
	for _, v := range []string{`2`, large, `3`} {
		w.set("level", v)
	}
	w.set("mode", large)
	found := w.values(bob, `{"group_id":"up","cap_id":"climate","history":true,"sort":"-id"}`)
	if found.Total != 2 || found.Values[0].Key != "mode" || found.Values[0].Value != nil || found.Values[0].Size != len(large) || found.Values[0].History != nil {
		t.Fatalf("%+v", found)
	}
	var past []string
	for _, c := range found.Values[1].History {
		past = append(past, string(c.Value))
	}
	if v := found.Values[1]; string(v.Value) != "3" || fmt.Sprint(past) != "[1 2  3]" {
		t.Errorf("%s was %q", v.Value, past)
	}
	if found := w.values(alice, `{"group_id":"up","cap_id":"climate","find":"LEV"}`); found.Total != 1 || found.Values[0].History != nil {
		t.Errorf("without history: %+v", found)
	}
	w.refused(protocol.NotFound, carol, "group.data.list", `{"group_id":"up","cap_id":"climate"}`)
	w.refused(protocol.PermissionDenied, &protocol.Principal{Kind: protocol.KindOperator, ID: "mallet", Space: protocol.DefaultSpace}, "group.data.list", `{"group_id":"up","cap_id":"climate"}`)
	w.must(alice, "group.member.remove", `{"group_id":"up","skill_id":"lamp","cap_id":"climate"}`)
	w.must(alice, "group.member.remove", `{"group_id":"up","skill_id":"sensor","cap_id":"climate"}`)
	if len(w.past.spaces) != 0 {
		t.Errorf("what values were that are gone is remembered: %v", w.past.spaces)
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory()
	set := func(space protocol.SpaceID, key, n int) {
		d := func(n int) *Datum {
			return &Datum{Space: space, Cap: "c", Group: "g", Key: protocol.DataKey(fmt.Sprint(key)), Value: json.RawMessage(fmt.Sprintf(`"%0500d"`, n))}
		}
		h.note(d(n-1), d(n))
	}
	set("lab", 0, 1)
	for n := range 10 * maxChanges {
		set("default", 0, n+1)
	}
	if got := h.of((&Datum{Space: "default", Cap: "c", Group: "g", Key: "0"}).ref()); len(got) != maxChanges || string(got[len(got)-1].Value) != fmt.Sprintf(`"%0500d"`, 10*maxChanges) {
		t.Errorf("%d changes of one value are kept", len(got))
	}
	for key := range 2000 {
		set("default", key, 1)
	}
	s := h.spaces["default"]
	held := 0
	for e := s.recent.Front(); e != nil; e = e.Next() {
		for _, c := range e.Value.(*past).changes {
			held += c.size()
		}
	}
	if held != s.bytes || held > maxHistory || len(s.values) != s.recent.Len() {
		t.Errorf("%d bytes of %d values are kept and counted as %d", held, len(s.values), s.bytes)
	}
	if h.spaces["lab"].recent.Len() != 1 {
		t.Error("another space is forgotten")
	}
}
