package app_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// three starts three bridges that work together.
func three(t testing.TB) (url string, all [3]*bridgetest.Node) {
	t.Helper()
	url = startNATS(t)
	all[0] = together(t, url, "a", nil)
	all[1] = together(t, url, "b", all[0])
	all[2] = together(t, url, "c", all[0])
	return url, all
}

// publishes sends a message and returns the reason code of the answer.
func publishes(t testing.TB, c *bridgetest.Raw, p *paho.Publish) byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bridgetest.Patience)
	defer cancel()
	answer, err := c.Publish(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if answer == nil {
		return 0
	}
	return answer.ReasonCode
}

// isTold waits for a message and compares it.
func isTold(t *testing.T, c *bridgetest.Raw, topic, text string) {
	t.Helper()
	if p := c.Next(t); p.Topic != topic || string(p.Payload) != text {
		t.Fatalf("%s heard %q on %s, not %q on %s", c.ID, p.Payload, p.Topic, text, topic)
	}
}

func TestMessagesReachTheClientsOfAllBridges(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	speaker, two, three := n[0].Connect(t, "speaker"), n[1].Connect(t, "two"), n[2].Connect(t, "three", kept)
	two.Listen(t, "news/today")
	three.Listen(t, "news/+")
	for qos := range byte(3) {
		text := fmt.Sprintf("with QoS %d", qos)
		if reason := publishes(t, speaker, &paho.Publish{Topic: "news/today", Payload: []byte(text), QoS: qos}); reason != 0 {
			t.Errorf("QoS %d was answered by %#x", qos, reason)
		}
		isTold(t, two, "news/today", text)
		isTold(t, three, "news/today", text)
	}
	if reason := publishes(t, speaker, &paho.Publish{Topic: "to/nobody", QoS: 1}); reason != 0x10 {
		t.Errorf("a message for nobody was answered by %#x", reason)
	}
	three.Send(t, "heard", "") // behind its acknowledgements
	three.Drop()
	speaker.Send(t, "news/late", "kept for you")
	isTold(t, n[2].Connect(t, "three", kept), "news/late", "kept for you")
}

func TestAMessageOfAGroupGoesToOneMemberOfAllBridges(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	var members []*bridgetest.Raw
	for i, node := range n {
		m := node.Connect(t, fmt.Sprintf("member-%d", i))
		m.Listen(t, "$share/workers/jobs/#")
		members = append(members, m)
	}
	speaker := n[0].Connect(t, "speaker")
	const jobs = 30
	for i := range jobs {
		speaker.Send(t, fmt.Sprintf("jobs/%d", i), "do")
	}
	seen := make(map[string]int)
	eventually.Holds(t, "all jobs are taken", func() bool {
		for i, m := range members {
			select {
			case p := <-m.Received:
				if _, again := seen[p.Topic]; again {
					t.Fatalf("%s was given to two members", p.Topic)
				}
				seen[p.Topic] = i
			default:
			}
		}
		return len(seen) == jobs
	})
	share := make(map[int]int)
	for _, i := range seen {
		share[i]++
	}
	if len(share) != len(members) {
		t.Errorf("the members took %v", share)
	}
}

func TestWhatAClientRetainsIsThereAtAllBridges(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	speaker := n[0].Connect(t, "speaker")
	publishes(t, speaker, &paho.Publish{Topic: "state/door", Payload: []byte("open"), QoS: 1, Retain: true})
	sees := func(at *bridgetest.Node, want string) {
		t.Helper()
		turn, got := 0, ""
		eventually.Holds(t, "a bridge has "+want, func() bool {
			turn++
			c := at.Connect(t, fmt.Sprintf("reader-%d", turn))
			defer c.Drop()
			c.Listen(t, "state/#", "mark/"+c.ID)
			c.Send(t, "mark/"+c.ID, "") // behind what is retained
			got = ""
			for p := c.Next(t); p.Topic != "mark/"+c.ID; p = c.Next(t) {
				got = string(p.Payload)
			}
			return got == want
		}, &got)
	}
	sees(n[1], "open")
	publishes(t, n[1].Connect(t, "other"), &paho.Publish{Topic: "state/door", Payload: []byte("shut"), QoS: 1, Retain: true})
	sees(n[0], "shut")
	sees(n[2], "shut")
	n[2].Restart(t)
	sees(n[2], "shut")
	sees(together(t, url, "d", n[0]), "shut")
}

// TestWhoSubscribesWhereTheLogIsBehindGetsWhatItBrings has the followers of what is
// retained hear nothing for some seconds, as from a NATS server that has just come back.
func TestWhoSubscribesWhereTheLogIsBehindGetsWhatItBrings(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	speaker := n[0].Connect(t, "speaker")
	retains := func(text string) {
		publishes(t, speaker, &paho.Publish{Topic: "state/door", Payload: []byte(text), QoS: 1, Retain: true})
	}
	retains("1")
	early := n[1].Connect(t, "early")
	hears := func(want string, retained bool) {
		t.Helper()
		if p := early.Next(t); string(p.Payload) != want || p.Retain != retained {
			t.Errorf("heard %s (retained: %v), not %s", p.Payload, p.Retain, want)
		}
	}
	eventually.Holds(t, "the bridge has it", func() bool {
		looking := n[1].Connect(t, "looking")
		defer looking.Drop()
		looking.Listen(t, "state/door", "mark")
		looking.Send(t, "mark", "") // behind what is retained
		return string(looking.Next(t).Payload) == "1"
	})
	silence(t, url, "aibridge-retained")
	retains("2")
	early.Listen(t, "state/door")
	hears("1", true)
	hears("2", true)
	retains("3")
	hears("3", false)
	retains("")
	hears("", false)
}

// silence has all who follow a stream hear nothing, until they notice.
func silence(t *testing.T, url, stream string) {
	t.Helper()
	js := jetStream(t, url)
	followed, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	names := followed.ConsumerNames(t.Context())
	for name := range names.Name() {
		if _, err := js.PauseConsumer(t.Context(), stream, name, time.Now().Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestABridgeThatIsDeclaredDeadIsWaitedForNoMore kills one of three bridges that
// others send to.
func TestABridgeThatIsDeclaredDeadIsWaitedForNoMore(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	speaker, two, three := n[0].Connect(t, "speaker"), n[1].Connect(t, "two"), n[2].Connect(t, "three")
	two.Listen(t, "news")
	three.Listen(t, "news")
	verdict(t, url, "c")
	_ = n[2].Ended(t)
	for i := range 20 {
		text := fmt.Sprint(i)
		if reason := publishes(t, speaker, &paho.Publish{Topic: "news", Payload: []byte(text), QoS: 1}); reason != 0 {
			t.Errorf("answered by %#x", reason)
		}
		isTold(t, two, "news", text)
	}
	speaker.Listen(t, "more") // which waits for no bridge that is gone
}
