package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = protocol.Party{Kind: protocol.KindOperator, Space: "default", ID: "alice"}

func deed(id string) *Record {
	return &Record{ID: id, Space: "default", Skill: "gate", Capability: "unlock", Key: id, By: alice, Window: 60_000}
}

func begin(t *testing.T, k *Keeper, id string) (*Record, bool) {
	t.Helper()
	r, mine, err := k.Begin(t.Context(), deed(id))
	if err != nil {
		t.Fatal(err)
	}
	return r, mine
}

func TestOneOfManyHasTheDeed(t *testing.T) {
	table := recordstest.New[Record]()
	table.Yield()
	k := New(Options{Records: table})
	var had sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r, mine, err := k.Begin(t.Context(), deed("door"))
			if err != nil {
				t.Error(err)
			} else if mine {
				had.Store(i, r)
			}
		})
	}
	all.Wait()
	n := 0
	had.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d have it", n)
	}
}

func TestACallOfAProcessThatEndedIsInDoubt(t *testing.T) {
	for name, owner := range map[string]string{"the only one": "", "one of several": "b1/1"} {
		t.Run(name, func(t *testing.T) {
			table := recordstest.New[Record]()
			first := New(Options{Records: table, Owner: owner})
			r, _ := begin(t, first, "door")
			table.Restart()
			ended := false
			next := owner
			if owner != "" {
				next = "b2/1"
			}
			second := New(Options{Records: table, Owner: next, Ended: func(string) bool { return ended }})
			if owner != "" {
				if got, mine := begin(t, second, "door"); mine || got.State != Running {
					t.Fatalf("while the other one lives it is %s", got.State)
				}
				ended = true
			}
			got, mine := begin(t, second, "door")
			if mine || got.State != Unknown {
				t.Fatalf("it is %s", got.State)
			}
			if owner != "" { // which was only thought to have ended
				if err := first.Done(t.Context(), r, "porter", json.RawMessage(`{}`)); err != nil {
					t.Fatal(err)
				}
				if got, _ := begin(t, second, "door"); got.State != Done {
					t.Errorf("told of its end it is %s", got.State)
				}
				return
			}
			if _, err := second.Settle(t.Context(), "default", "door", false, "bob", "looked"); err != nil {
				t.Fatal(err)
			}
			if _, mine := begin(t, second, "door"); !mine {
				t.Error("settled as not done, it is not done again")
			}
		})
	}
}

func TestAnEndThatCannotBeStoredLeavesADoubt(t *testing.T) {
	table := recordstest.New[Record]()
	k := New(Options{Records: table})
	r, _ := begin(t, k, "door")
	table.Break(errors.New("disk full"))
	if k.Done(t.Context(), r, "porter", nil) == nil {
		t.Fatal("it was stored")
	}
	table.Break(nil)
	if got, mine := begin(t, k, "door"); mine || got.State != Unknown {
		t.Errorf("it is %s", got.State)
	}
}

func TestDeedsAreBounded(t *testing.T) {
	k := New(Options{Records: recordstest.New[Record](), MaxOwn: 3, MaxSpace: 4})
	for i := range 3 {
		begin(t, k, fmt.Sprint(i))
	}
	if _, _, err := k.Begin(t.Context(), deed("one more")); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("got %v", err)
	}
	other := deed("of bob")
	other.By.ID = "bob"
	if _, _, err := k.Begin(t.Context(), other); err != nil {
		t.Error(err)
	}
	other = deed("of bob, too")
	other.By.ID = "bob"
	if _, _, err := k.Begin(t.Context(), other); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("got %v", err)
	}
	if _, mine := begin(t, k, "1"); mine {
		t.Error("what is there is refused for want of room")
	}
}

func TestOldDeedsAreForgotten(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	table := recordstest.New[Record]()
	k := New(Options{Records: table, Now: func() time.Time { return now }})
	running, _ := begin(t, k, "running")
	done, _ := begin(t, k, "done")
	asked := deed("asked")
	asked.Question = json.RawMessage(`{}`)
	doubted, _, err := k.Begin(t.Context(), asked)
	if err != nil || k.Done(t.Context(), done, "", nil) != nil || k.Doubt(t.Context(), doubted, "", "gone") != nil {
		t.Fatal("not stored", err)
	}
	now = now.Add(time.Minute)
	k.Sweep(t.Context())
	if _, ok := k.Get("default", "done"); ok || table.Len() != 2 {
		t.Errorf("%d are kept", table.Len())
	}
	now = now.Add(maxDoubt)
	k.Sweep(t.Context())
	if _, ok := k.Get("default", running.ID); !ok || table.Len() != 1 {
		t.Errorf("%d are kept", table.Len())
	}
}

func TestWaitingForTheEndOfACall(t *testing.T) {
	k := New(Options{Records: recordstest.New[Record]()})
	r, _ := begin(t, k, "door")
	waited := make(chan *Record)
	go func() {
		got, err := k.Await(context.Background(), r)
		if err != nil {
			t.Error(err)
		}
		waited <- got
	}()
	if err := k.Done(t.Context(), r, "porter", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	if got := <-waited; got.State != Done || string(got.Data) != "1" {
		t.Errorf("heard %+v", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	done, _ := k.Get("default", "door")
	if _, err := k.Await(ctx, done); err == nil || err.Error() != "no time" {
		t.Errorf("waited in vain: %v", err)
	}
	if len(k.watchers) != 0 {
		t.Errorf("%d watches are left", len(k.watchers))
	}
}

// TestKeysAreEqualIfTheValuesAre holds that two calls have one identity if, and
// only if, their values are the same.
func TestKeysAreEqualIfTheValuesAre(t *testing.T) {
	template, err := ParseTemplate("a:{x}:{y}")
	if err != nil {
		t.Fatal(err)
	}
	value := rapid.SampledFrom([]string{"", ":", "1", "1:", ":1", "{x}", "a", "\x00"})
	rapid.Check(t, func(t *rapid.T) {
		one := [2]string{value.Draw(t, "x1"), value.Draw(t, "y1")}
		two := [2]string{value.Draw(t, "x2"), value.Draw(t, "y2")}
		key := func(v [2]string) string {
			params, _ := json.Marshal(map[string]string{"x": v[0], "y": v[1], "z": rapid.String().Draw(t, "z")})
			_, id, err := template.Key(params)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		if (key(one) == key(two)) != (one == two) {
			t.Errorf("%q and %q", one, two)
		}
	})
}

func FuzzParseTemplate(f *testing.F) {
	f.Add("door:{door}:unlock", `{"door":"1"}`)
	f.Add("{a}{b}", `{"a":1e3,"b":true}`)
	f.Fuzz(func(t *testing.T, text, params string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		_, id, err := template.Key(json.RawMessage(params))
		if _, again, e := template.Key(json.RawMessage(params)); again != id || (e == nil) != (err == nil) {
			t.Errorf("%q of %s is %s and %s", text, params, id, again)
		}
	})
}
