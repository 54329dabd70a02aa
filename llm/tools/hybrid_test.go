package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// meanings embeds by what texts are about: warmth, light, doors.
type meanings struct {
	mu    sync.Mutex
	name  string
	err   error
	texts int      // that were embedded
	paid  []string // by whom questions were
	hold  chan struct{}
}

func (m *meanings) Vectors(Environment) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name
}

func (m *meanings) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *meanings) embedded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts
}

func (m *meanings) Embed(ctx context.Context, env Environment, texts []string) (string, [][]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hold := m.hold; hold != nil {
		m.mu.Unlock()
		select {
		case <-hold:
			m.mu.Lock()
		case <-ctx.Done():
			m.mu.Lock()
			return "", nil, ctx.Err()
		}
	}
	if m.err != nil {
		return "", nil, m.err
	}
	m.texts += len(texts)
	if env.Principal != nil {
		m.paid = append(m.paid, env.Principal.ID)
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		v := []float32{0.01, 0.01, 0.01}
		for k, words := range []string{"thermostat heating cold warm freezing", "lamp light dark bright", "door lock open"} {
			for word := range strings.FieldsSeq(words) {
				if strings.Contains(strings.ToLower(text), word) {
					v[k]++
				}
			}
		}
		vectors[i] = v
	}
	return m.name, vectors, nil
}

// running is a blender that runs until the test ends. It waits as long as it
// takes, unless told otherwise.
func running(t *testing.T, o HybridOptions) *HybridRetriever {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	b := NewHybridRetriever(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

var asker = Environment{Principal: &protocol.Principal{ID: "alice", Space: protocol.DefaultSpace}}

func (m *HybridRetriever) counted(by string) float64 {
	return testutil.ToFloat64(m.metrics.WithLabelValues(by))
}

func TestMeaningIsBlendedIn(t *testing.T) {
	box := toolbox(t, named("skill", "door.lock", "heating.set", "lamp.on", "lamp.off", "radio.play")...)
	m := &meanings{name: "small/3"}
	blender := running(t, HybridOptions{Embedder: m, Registerer: prometheus.NewRegistry()})
	for query, want := range map[string]string{
		"I am freezing":   "heating.set", // no word in common
		"it is dark here": "lamp.off",
		"play it":         "radio.play", // by its words alone
	} {
		got := blender.Relevant(t.Context(), asker, box, query, 2)
		if len(got) != 2 || got[0].Name != want {
			t.Errorf("%q finds %s", query, namesOf(got))
		}
		if again := blender.Relevant(t.Context(), asker, box, query, 2); !slices.Equal(got, again) {
			t.Errorf("%q finds others the second time", query)
		}
	}
	if m.texts != 5+3 || !slices.Equal(m.paid, []string{"alice", "alice", "alice"}) {
		t.Errorf("%d texts were embedded, paid by %q", m.texts, m.paid)
	}
	if blender.counted("blended") != 6 {
		t.Errorf("%v choices were blended", blender.counted("blended"))
	}
	changed := toolbox(t, append(named("skill", "door.lock", "heating.set", "lamp.on", "lamp.off"), named("other", "radio.play")...)...)
	blender.Relevant(t.Context(), asker, changed, "it is dark here", 2)
	if m.texts != 8+1 {
		t.Errorf("for one changed declaration %d texts were embedded", m.texts-8)
	}
	m.set(func() { m.name = "large/3" })
	if got := blender.Relevant(t.Context(), asker, box, "I am freezing", 1); namesOf(got) != "heating.set" || m.texts != 9+5+1 {
		t.Errorf("of another model: %s, %d texts", namesOf(got), m.texts-9)
	}
}

// TestExactlySoManyAreChosenAndPinnedOnesAlways holds whatever is asked.
func TestExactlySoManyAreChosenAndPinnedOnesAlways(t *testing.T) {
	list := named("skill", "door.lock", "heating.a", "heating.b", "heating.c", "lamp.on")
	pinned := named("pin", "zz.read")[0]
	pinned.Pinned = true
	box := toolbox(t, append(list, pinned)...)
	blender := running(t, HybridOptions{Embedder: &meanings{name: "small/3"}})
	for _, query := range []string{"I am freezing", "nothing of the kind", "lamp", "zz"} {
		for n := range 8 {
			got := blender.Relevant(t.Context(), asker, box, query, n)
			if want := max(min(n, 6), 1); len(got) != want || !slices.Contains(got, pinned) {
				t.Errorf("%q, %d: %s", query, n, namesOf(got))
			}
		}
	}
	// Of those that mean the same the names decide.
	if got := blender.Relevant(t.Context(), asker, box, "I am freezing", 4); namesOf(got) != "heating.a heating.b heating.c zz.read" {
		t.Errorf("chosen %s", namesOf(got))
	}
}

func TestWordsAloneDecideWhereMeaningIsNotToBeHad(t *testing.T) {
	box := toolbox(t, named("skill", "door.lock", "heating.set", "lamp.on", "lamp.off", "radio.play")...)
	byWords := namesOf(box.Relevant("lamp off", 2))
	m := &meanings{name: ""}
	blender := running(t, HybridOptions{Embedder: m})
	check := func(by string, times float64) {
		t.Helper()
		if got := blender.Relevant(t.Context(), asker, box, "lamp off", 2); namesOf(got) != byWords || blender.counted(by) != times {
			t.Errorf("%s: %s, counted %v", by, namesOf(got), blender.counted(by))
		}
	}
	check("words", 1)
	m.set(func() { m.name, m.err = "small/3", errors.New("the provider is gone") })
	check("failed", 1)
	m.set(func() { m.err = protocol.Errorf(protocol.TimedOut, "too slow") })
	check("slow", 1)
	if none := NewHybridRetriever(HybridOptions{}); namesOf(none.Relevant(t.Context(), asker, box, "lamp off", 2)) != byWords {
		t.Error("without an embedder others are found")
	}
}

// TestASlowProviderIsNotWaitedFor has vectors come when the question is
// answered already; the next one has them.
func TestASlowProviderIsNotWaitedFor(t *testing.T) {
	box := toolbox(t, named("skill", "door.lock", "heating.set", "lamp.on")...)
	m := &meanings{name: "small/3", hold: make(chan struct{})}
	blender := running(t, HybridOptions{Embedder: m, Patience: 20 * time.Millisecond})
	if got := blender.Relevant(t.Context(), asker, box, "lock", 1); namesOf(got) != "door.lock" || blender.counted("filling") != 1 {
		t.Errorf("while vectors are made: %s", namesOf(got))
	}
	m.set(func() { close(m.hold); m.hold = nil })
	for deadline := time.Now().Add(eventually.Patience); m.embedded() < 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	blender.opts.Patience = time.Minute
	if got := blender.Relevant(t.Context(), asker, box, "I am freezing", 1); namesOf(got) != "heating.set" || m.embedded() != 3+1 {
		t.Errorf("when they are made: %s, of %d texts", namesOf(got), m.embedded())
	}
	m.set(func() { m.hold = make(chan struct{}) })
	blender.opts.Patience = 20 * time.Millisecond
	if got := blender.Relevant(t.Context(), asker, box, "something new to lock", 1); namesOf(got) != "door.lock" || blender.counted("slow") != 1 {
		t.Errorf("a question that is not embedded in time: %s", namesOf(got))
	}
}

func TestManyQuestionsAtOnceHaveVectorsMadeOnce(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("thing%d.work", i))
	}
	box := toolbox(t, named("skill", names...)...)
	m := &meanings{name: "small/3"}
	blender := running(t, HybridOptions{Embedder: m})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := blender.Relevant(t.Context(), asker, box, "thing7", 5); len(got) != 5 || got[0].Name != "thing7.work" {
				t.Errorf("found %s", namesOf(got))
			}
		})
	}
	all.Wait()
	if n := m.embedded(); n < 201 || n > 220 {
		t.Errorf("%d texts were embedded", n)
	}
}

func TestVectorsAreBounded(t *testing.T) {
	m := &meanings{name: "small/3"}
	blender := running(t, HybridOptions{Embedder: m})
	box := toolbox(t, named("skill", "door.lock", "lamp.on")...)
	blender.Relevant(t.Context(), asker, box, "lamp", 1)
	blender.mu.Lock()
	if blender.floats != 6 {
		t.Errorf("%d numbers are kept", blender.floats)
	}
	blender.floats = maxFloats - 2 // as if there were many more
	blender.mu.Unlock()
	other := toolbox(t, named("skill", "radio.play")...)
	blender.Relevant(t.Context(), asker, other, "radio", 1)
	blender.mu.Lock()
	defer blender.mu.Unlock()
	if blender.floats != 3 || len(blender.vectors) != 1 {
		t.Errorf("%d numbers of %d vectors are kept", blender.floats, len(blender.vectors))
	}
}
