package relay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/bubble"
)

// A notebook is a part that tells words, and hears those of others.
type notebook struct {
	voice *Voice

	mu    sync.Mutex
	words map[string]bool // its own
	of    map[Node]map[string]bool
	anew  map[Node]map[string]bool // while all is told
	said  map[Node][]string
}

func newNotebook(r *Relay) *notebook {
	n := &notebook{words: make(map[string]bool), of: make(map[Node]map[string]bool), anew: make(map[Node]map[string]bool), said: make(map[Node][]string)}
	n.voice = r.Join(3, n)
	return n
}

func (n *notebook) Everything(tell func([]byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.words {
		tell([]byte("+" + w))
	}
}

func (n *notebook) Told(from Node, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, words := range []map[string]bool{n.of[from], n.anew[from]} {
		if words == nil {
			continue
		}
		if body[0] == '+' {
			words[string(body[1:])] = true
		} else {
			delete(words, string(body[1:]))
		}
	}
}

func (n *notebook) Began(from Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.anew[from] = make(map[string]bool)
}

func (n *notebook) Ended(from Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[from] = n.anew[from]
	delete(n.anew, from)
}

func (n *notebook) Gone(from Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.of, from)
	delete(n.anew, from)
}

func (n *notebook) Said(from Node, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said[from] = append(n.said[from], string(body))
}

// write adds a word, or takes it away.
func (n *notebook) write(word string, there bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	mark := "-"
	if delete(n.words, word); there {
		n.words[word], mark = true, "+"
	}
	n.voice.Tell([]byte(mark + word))
}

func (n *notebook) knows(of Node, word string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[of][word]
}

func (n *notebook) heard(from Node) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.said[from])
}

// TestPartsKnowWhatOthersTell has parts tell and say things while frames are lost,
// pairs are cut and processes are killed. In the end everybody knows what is so;
// what was said is heard once, in its order, by the process it was said to; and
// who is told that a subscription is known to all knows that what was told before
// is, too.
func TestPartsKnowWhatOthersTell(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				names := []string{"a", "b", "c"}
				w := newWorld(t, seed, names...)
				w.loss = int(seed % 4 * 8)
				roll := rand.New(rand.NewPCG(seed, 5))
				var answered atomic.Int32
				said := 0
				for i := range 600 {
					one := w.process(names[roll.IntN(3)])
					other := w.process(names[roll.IntN(3)])
					if one != nil {
						one.notes.write(fmt.Sprint(roll.IntN(20)), roll.IntN(3) > 0)
						one.tellThenSubscribe(fmt.Sprint("word-", i), &answered)
					}
					if one != nil && other != nil && one != other {
						said++
						one.notes.voice.Say(Node{other.h.id, other.epoch}, fmt.Appendf(nil, "%06d", said))
					}
					if roll.IntN(4) == 0 {
						time.Sleep(time.Duration(roll.IntN(40)) * time.Millisecond)
					}
					w.harm(roll, names)
				}
				w.heal()
				w.agree()
				time.Sleep(30 * time.Second) // of the bubble's time
				if answered.Load() == 0 {
					t.Error("nobody was ever told")
				}
				w.compareNotes()
				w.close()
			})
		})
	}
}

// tellThenSubscribe tells a word and then subscribes: whoever could publish knows
// the word when the subscription is acknowledged.
func (p *process) tellThenSubscribe(word string, answered *atomic.Int32) {
	p.notes.write(word, true)
	serving := make(map[*process]bool)
	for _, other := range p.h.w.running() {
		serving[other] = other.relay.Ready()
	}
	p.relay.Subscribed(broker.Interest{Space: "home", Filter: "always"}) // which others know already
	a := new(answer)
	self := Node{p.h.id, p.epoch}
	a.then = func() {
		answered.Add(1)
		for _, other := range p.h.w.running() {
			if other == p || !serving[other] || p.h.w.process(p.h.id) != p || other.relay.peer(p.h.id) == nil {
				continue
			}
			if !other.notes.knows(self, word) {
				p.h.w.t.Errorf("%v was told that all know %q, and %s does not", self, word, other.h.id)
			}
		}
	}
	p.relay.Announced(a)
}

func (w *world) compareNotes() {
	for _, p := range w.running() {
		p.notes.mu.Lock()
		for _, other := range w.running() {
			from := Node{other.h.id, other.epoch}
			if other != p && !maps.Equal(p.notes.of[from], other.notes.words) {
				w.t.Errorf("%s knows %v of %v, which tells %v", p.h.id, p.notes.of[from], from, other.notes.words)
			}
			last := ""
			for _, s := range p.notes.said[from] {
				if s <= last {
					w.t.Errorf("%s heard %s behind %s of %v", p.h.id, s, last, from)
				}
				last = s
			}
		}
		if n := len(p.notes.of); n != len(w.running())-1 {
			w.t.Errorf("%s knows of %d processes, %d others run", p.h.id, n, len(w.running())-1)
		}
		p.notes.mu.Unlock()
	}
}
