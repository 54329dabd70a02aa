package broker

import (
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// groupPeers are other bridges that know one group.
type groupPeers struct{ noPeers }

func (groupPeers) Group(protocol.SpaceID, string, string) uint64 { return theGroup }

const theGroup = 7

// repeats delivers a publication of an origin to the group, as another bridge sends it.
func repeats(t *testing.T, n *node, o origin, only bool) (became Outcome, left int) {
	t.Helper()
	turn := newTurn(n.Broker).begin()
	turn.use(&message{topic: "t", from: "speaker", payload: []byte("once"), qos: 2, to: everybody(protocol.DefaultSpace)})
	turn.origin = o
	encoded, _ := turn.encodeAway()
	a := n.Arrive("peer", 7)
	became, groups, err := a.Deliver(encoded, []uint64{theGroup}, only)
	if err != nil {
		t.Fatal(err)
	}
	a.End(1, func() {})
	return became, len(groups)
}

// TestAGroupIsGivenNothingByWhoAskedBefore has bridges offer a publication to a group one
// after the other. Each has asked the others before, and the last question counts.
func TestAGroupIsGivenNothingByWhoAskedBefore(t *testing.T) {
	for name, by := range map[string]func(number uint64) origin{
		"publishes": func(number uint64) origin { return origin{id: 9, number: number} },
		"Wills":     func(run uint64) origin { return origin{number: 5, run: run} },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 1, func(o *Options) { o.Peers = groupPeers{} })
			member := n.connect(5, "member")
			member.subscribe("$share/g/t", 2)
			asks := func(number uint64) (Outcome, int) {
				o := by(number)
				o.again = true
				return repeats(t, n, o, false)
			}
			for number := uint64(5); number < 8; number++ {
				if became, left := asks(number); became != Missed || left != 1 {
					t.Fatalf("question %d became %v, for %d groups", number, became, left)
				}
			}
			if became, left := asks(6); became != Taken || left != 0 {
				t.Errorf("an early question that comes late became %v, for %d groups", became, left)
			}
			for number := uint64(4); number < 7; number++ { // the first had not asked
				if became, left := repeats(t, n, by(number), number > 4); became != Taken || left != 0 {
					t.Errorf("offer %d became %v, for %d groups", number, became, left)
				}
			}
			member.quiet()
			for range 2 {
				if became, left := repeats(t, n, by(7), true); became != Taken || left != 0 {
					t.Errorf("the last offer became %v, for %d groups", became, left)
				}
			}
			member.take("once")
			member.quiet()
		})
	}
}

// TestANewSessionIsNumberedAboveAllThatCame has the time of the cluster behind the numbers
// of earlier publishes, as after it was set back: those of other bridges, and those of a
// journal. Numbers of Wills are others.
func TestANewSessionIsNumberedAboveAllThatCame(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Peers = groupPeers{} })
	const ahead = uint64(1) << 62
	begins := func(least uint64) {
		t.Helper()
		s := n.newSession("speaker", &protocol.Principal{})
		if p, _ := n.numbering.begin(n.Broker, s.sender.last); p.number <= least || p.number > least+ahead/2 {
			t.Errorf("its first publish has the number %d", p.number)
		}
	}
	repeats(t, n, origin{number: 2 * ahead}, false)
	begins(0)
	repeats(t, n, origin{id: 9, number: ahead}, false)
	begins(ahead)
	n.origins.restore(&known{key: originKey{id: 8}, number: 2 * ahead})
	begins(2 * ahead)
}

// TestAWillOfAnEarlierReleaseIsForAGroup has the publisher of a Will not tell its run.
func TestAWillOfAnEarlierReleaseIsForAGroup(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Peers = groupPeers{} })
	member := n.connect(5, "member")
	member.subscribe("$share/g/t", 2)
	if became, _ := repeats(t, n, origin{number: 5, run: 3, again: true}, false); became != Missed {
		t.Fatalf("the question became %v", became)
	}
	if became, _ := repeats(t, n, origin{number: 5}, true); became != Taken {
		t.Fatalf("the offer became %v", became)
	}
	member.take("once")
}

type toldTo func(Outcome)

func (f toldTo) Answer(o Outcome) { f(o) }

// TestAnOfferOfOnesOwnIsNotForAGroupThatHasIt has a member get a publication of another
// bridge before this one offers it.
func TestAnOfferOfOnesOwnIsNotForAGroupThatHasIt(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.Peers = groupPeers{} })
	member := n.connect(5, "member")
	member.subscribe("$share/g/t", 2)
	o := origin{number: 5, run: 3}
	if became, _ := repeats(t, n, o, true); became != Taken {
		t.Fatalf("the first offer became %v", became)
	}
	member.take("once")
	became := Missed
	turn := newTurn(n.Broker).begin()
	turn.redeliver(&redelivery{
		b: n.Broker, msg: &message{topic: "t", from: "speaker", payload: []byte("again"), qos: 2, to: everybody(protocol.DefaultSpace)},
		qos: 2, id: theGroup, origin: o, receipt: toldTo(func(o Outcome) { became = o }),
	})
	turn.end()
	if became != Taken {
		t.Errorf("the second offer became %v", became)
	}
	member.quiet()
}

// TestAPublicationIsGivenByOneAtATime has a publication come from two bridges at once.
func TestAPublicationIsGivenByOneAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		all, s := newOrigins(), new(session)
		key := originKey{from: home("speaker"), id: 9}
		first, _ := all.enter(key, &origin{id: 9, number: 5}, Mark{Node: "a"})
		has := make(chan bool, 1)
		go func() {
			second, before := all.enter(key, &origin{id: 9, number: 6, again: true}, Mark{Node: "b"})
			has <- before && all.has(second, s)
			all.leave(second)
		}()
		synctest.Wait()
		other := originKey{from: home("speaker"), id: 10}
		k, _ := all.enter(other, &origin{id: 10, number: 7}, Mark{Node: "b"})
		all.leave(k) // waits for nobody
		select {
		case <-has:
			t.Fatal("it is given by two")
		default:
		}
		all.give(first, []given{{s: s}})
		all.leave(first)
		if !<-has {
			t.Error("the second does not know who has got it from the first")
		}
	})
}
