package routes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

var testKey = Key{1, 2, 3}

// A fleet is some bridges that announce to one table, and what a naive map
// knows of them.
type fleet struct {
	t     *rapid.T
	table *Table
	nodes map[Node]*bridge
	epoch uint64
}

type bridge struct {
	announcer *Announcer
	epoch     uint64
	subs      []Subscription
	told      bool // the table has had all that is cut
}

var (
	modelSpaces  = []protocol.SpaceID{"home", "work"}
	modelFilters = []string{"a", "a/b", "a/b/c", "a/+", "#", "+/b", "a/#", "$SYS/a", "$SYS/#", "/", "b", "b/c"}
	modelTopics  = []string{"a", "a/b", "a/b/c", "b", "b/c", "$SYS/a", "c"}
	modelGroups  = []string{"", "", "", "one", "two"}
)

func (f *fleet) node() *bridge {
	return f.nodes[rapid.SampledFrom(slices.Sorted(maps.Keys(f.nodes))).Draw(f.t, "node")]
}

func (f *fleet) name(b *bridge) Node {
	for name, other := range f.nodes {
		if other == b {
			return name
		}
	}
	panic("no such bridge")
}

func (f *fleet) begin(name Node) {
	f.epoch++
	f.nodes[name] = &bridge{announcer: NewAnnouncer(&testKey, f.epoch), epoch: f.epoch}
}

// tell gives the table batches as they travel. Some are lost, some come twice.
func (f *fleet) tell(b *bridge, batches []Batch, faults bool) {
	for i := range batches {
		times := 1
		if faults {
			times = rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(f.t, "times")
		}
		for range times {
			var got Batch
			if err := got.Decode(batches[i].Append(nil)); err != nil {
				f.t.Fatalf("batch %+v: %v", batches[i], err)
			}
			if err := f.table.Apply(f.name(b), &got); errors.Is(err, ErrDiffers) {
				f.t.Fatalf("a sum differs after %+v", got)
			}
		}
	}
}

// settle has every bridge announce what is left, and mend what was lost.
func (f *fleet) settle() {
	for name, b := range f.nodes {
		changes, _ := b.announcer.Cut(false)
		f.tell(b, changes, false)
		check := b.announcer.Check()
		err := f.table.Apply(name, &check)
		if err == nil {
			continue
		}
		_, snapshot := b.announcer.Cut(true)
		f.tell(b, snapshot, false)
		if err := f.table.Apply(name, &check); err != nil {
			f.t.Fatalf("after a snapshot of %s: %v", name, err)
		}
	}
}

func (f *fleet) check() {
	f.settle()
	var found Found
	for _, name := range modelTopics {
		for _, space := range modelSpaces {
			f.table.Find(name, &found, space, EverySpace)
			slices.Sort(found.Nodes)
			nodes, groups := f.naive(space, name)
			if !slices.Equal(found.Nodes, nodes) {
				f.t.Fatalf("%s in %s goes to %v, not to %v", name, space, nodes, found.Nodes)
			}
			got := make(map[string]uint32)
			for _, g := range found.Groups {
				got[fmt.Sprint(g.Group, " ", g.Node)] += g.Count
			}
			if !maps.Equal(got, groups) {
				f.t.Fatalf("%s in %s has groups %v, not %v", name, space, groups, got)
			}
		}
	}
}

func (f *fleet) naive(space protocol.SpaceID, name string) (nodes []Node, groups map[string]uint32) {
	groups = make(map[string]uint32)
	for node, b := range f.nodes {
		own := false
		parts := make(map[string][2]uint32) // in the space, in every space
		for _, s := range b.subs {
			if !topic.Match(s.Filter, name) {
				continue
			}
			here := s.Space == space
			if s.Group == "" {
				own = own || here || s.Every
				continue
			}
			key := fmt.Sprint(f.table.Group(s.Space, s.Group, s.Filter), " ", node)
			p := parts[key]
			if here {
				p[0]++
			}
			if s.Every {
				p[1]++
			}
			parts[key] = p
		}
		if own {
			nodes = append(nodes, node)
		}
		for key, p := range parts {
			if n := max(p[0], p[1]); n > 0 {
				groups[key] = n
			}
		}
	}
	slices.Sort(nodes)
	return nodes, groups
}

func TestTheTableKnowsWhatANaiveMapKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{t: t, table: NewTable(&testKey), nodes: make(map[Node]*bridge)}
		for i := range 9 { // more than a few
			f.begin(fmt.Sprintf("n%d", i))
		}
		t.Repeat(map[string]func(*rapid.T){
			"subscribe": func(t *rapid.T) {
				b := f.node()
				s := Subscription{
					Space:  rapid.SampledFrom(modelSpaces).Draw(t, "space"),
					Every:  rapid.IntRange(0, 3).Draw(t, "every") == 0,
					Group:  rapid.SampledFrom(modelGroups).Draw(t, "group"),
					Filter: rapid.SampledFrom(modelFilters).Draw(t, "filter"),
				}
				b.subs = append(b.subs, s)
				b.announcer.Add(s)
			},
			"everybody subscribes": func(t *rapid.T) {
				s := Subscription{Space: "home", Filter: rapid.SampledFrom(modelFilters).Draw(t, "filter")}
				for _, b := range f.nodes {
					b.subs = append(b.subs, s)
					b.announcer.Add(s)
				}
			},
			"unsubscribe": func(t *rapid.T) {
				b := f.node()
				if len(b.subs) == 0 {
					return
				}
				i := rapid.IntRange(0, len(b.subs)-1).Draw(t, "which")
				b.announcer.Remove(b.subs[i])
				b.subs = slices.Delete(b.subs, i, i+1)
			},
			"announce": func(t *rapid.T) {
				b := f.node()
				changes, _ := b.announcer.Cut(false)
				f.tell(b, changes, true)
			},
			"resend": func(t *rapid.T) {
				b := f.node()
				changes, snapshot := b.announcer.Cut(true)
				f.tell(b, changes, true)
				f.tell(b, snapshot, true)
			},
			"restart": func(t *rapid.T) {
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(f.nodes))).Draw(t, "name")
				if rapid.Bool().Draw(t, "forget") {
					f.table.Forget(name)
				}
				f.begin(name)
			},
			"": func(*rapid.T) { f.check() },
		})
	})
}

func TestManyBatchesMakeOneSnapshot(t *testing.T) {
	a, table := NewAnnouncer(&testKey, 7), NewTable(&testKey)
	for i := range 3*mostInBatch + 5 {
		a.Add(Subscription{Space: "home", Filter: fmt.Sprintf("a/%d", i)})
		a.Add(Subscription{Space: "home", Filter: fmt.Sprintf("a/%d/+", i)})
	}
	changes, snapshot := a.Cut(true)
	for _, batches := range [][]Batch{snapshot, changes} {
		if len(batches) < 4 {
			t.Fatalf("all came in %d batches", len(batches))
		}
		for i := range batches {
			if err := table.Apply("n", &batches[i]); err != nil {
				t.Fatal(err)
			}
			if n := len(batches[i].Append(nil)); n > 64<<10-256 {
				t.Errorf("a batch takes %d bytes: no frame has room for it", n)
			}
		}
	}
	var found Found
	for _, name := range []string{"a/0", "a/12292", "a/77/x"} {
		if table.Find(name, &found, "home", EverySpace); len(found.Nodes) != 1 {
			t.Errorf("%s goes to %v", name, found.Nodes)
		}
	}
	table.Forget("n")
	if table.Find("a/0", &found, "home"); len(found.Nodes) != 0 {
		t.Errorf("a bridge that is gone is sent to")
	}
	for i := range table.shards {
		if table.shards[i].used != 0 {
			t.Fatal("a bridge that is gone left something")
		}
	}
}

func TestASumThatDiffersAsksForASnapshot(t *testing.T) {
	a, table := NewAnnouncer(&testKey, 1), NewTable(&testKey)
	_, snapshot := a.Cut(true)
	if err := table.Apply("n", &snapshot[0]); err != nil {
		t.Fatal(err)
	}
	a.Add(Subscription{Space: "home", Filter: "a"})
	changes, _ := a.Cut(false)
	changes[0].Add = nil // as if it had been damaged on its way
	changes[0].Wild = []WildChange{{Space: "home", Filter: "#"}}
	if err := table.Apply("n", &changes[0]); !errors.Is(err, ErrDiffers) {
		t.Errorf("damage is answered by %v", err)
	}
}

func TestHashesAreOfTheClusterAlone(t *testing.T) {
	other := Key{9}
	if testKey.filter("a", "b") == other.filter("a", "b") {
		t.Error("two clusters hash alike")
	}
	if testKey.filter("ab", "c") == testKey.filter("a", "bc") {
		t.Error("spaces run into filters")
	}
}

func FuzzBatch(f *testing.F) {
	a := NewAnnouncer(&testKey, 1<<40)
	for _, s := range []Subscription{
		{Space: "home", Filter: "a"}, {Space: "home", Filter: "a/+", Every: true},
		{Space: "work", Group: "g", Filter: "b"}, {Space: "work", Group: "g", Filter: "b/#"},
	} {
		a.Add(s)
	}
	changes, snapshot := a.Cut(true)
	f.Add(changes[0].Append(nil))
	f.Add(snapshot[0].Append(nil))
	a.Remove(Subscription{Space: "home", Filter: "a"})
	changes, _ = a.Cut(false)
	f.Add(changes[0].Append(nil))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var b, again Batch
		if b.Decode(encoded) != nil {
			return
		}
		if err := again.Decode(b.Append(nil)); err != nil {
			t.Fatalf("a batch that was read is written so that it cannot be: %v", err)
		}
		table := NewTable(&testKey)
		_ = table.Apply("n", &b)
		table.Forget("n")
	})
}
