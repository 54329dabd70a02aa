package delayed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func TestNamesOfDelayedMessages(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		delay time.Duration
		topic string
	}{
		"$delayed/5/a/b":       {5 * time.Second, "a/b"},
		"$delayed/0/a":         {0, "a"},
		"$delayed/1//a":        {time.Second, "/a"},
		"$delayed/4294967/a":   {Longest, "a"},
		"$delayed/4294968/a":   {},
		"$delayed/-1/a":        {},
		"$delayed/1.5/a":       {},
		"$delayed/a":           {},
		"$delayed/5":           {},
		"$delayed/5/":          {},
		"$delayed//a":          {},
		"$delayed/5/$SYS/a":    {},
		"$delayed/5/$delayed/": {},
	} {
		delay, topic, wrong := Parse(name)
		if delay != want.delay || topic != want.topic || (wrong == "") != (want.topic != "") {
			t.Errorf("%s: %v %q %q", name, delay, topic, wrong)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("$delayed/5/a")
	f.Fuzz(func(t *testing.T, name string) {
		delay, topic, wrong := Parse(name)
		if wrong == "" && (delay < 0 || delay > Longest || topic == "" || topic[0] == '$' || !strings.HasSuffix(name, "/"+topic)) {
			t.Errorf("%q: %v %q", name, delay, topic)
		}
	})
}

// A server notes what is published, and when.
type server struct {
	mu   sync.Mutex
	said []string
	wait func(context.Context) error
}

func (s *server) Handle(string, func(*broker.Publication)) {}

func (s *server) PublishFor(c *broker.Client, m protocol.Message) (broker.Verdict, func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, c.ID+" "+m.Topic+" "+string(m.Payload))
	if m.Topic == "forbidden" {
		return broker.NotAuthorized("not your topic"), stored
	}
	return broker.Verdict{}, s.wait
}

func (s *server) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// stored says that what a message left is stored.
func stored(context.Context) error { return nil }

var ann = grant.Grant{ID: "ann", Space: protocol.DefaultSpace}

func open(s *server, table *recordstest.Memory[Message]) *Keeper {
	return Open(Options{Server: s, Table: table, Rights: grant.Unlimited{}.Principal, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
}

func put(t *testing.T, table *recordstest.Memory[Message], key string, after time.Duration, topic string) {
	t.Helper()
	m := &Message{Client: "c", Grant: ann, Due: time.Now().Add(after).UnixMilli(), Topic: topic, Payload: []byte(key)}
	if _, err := table.Create(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
}

// Messages are published when they are due, in the order of their times and then of
// their coming, also those that came while others waited; refused ones are forgotten.
func TestMessagesArePublishedWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s, table := &server{wait: stored}, recordstest.New[Message]()
		put(t, table, "4", time.Hour, "x")
		k := open(s, table)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		put(t, table, "3", 10*time.Second, "x")
		put(t, table, "1", 5*time.Second, "forbidden")
		put(t, table, "2", 5*time.Second, "x")
		time.Sleep(5*time.Second - time.Millisecond)
		synctest.Wait()
		if got := s.heard(); len(got) > 0 {
			t.Errorf("early: %v", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := s.heard(); !slices.Equal(got, []string{"c forbidden 1", "c x 2"}) || table.Len() != 2 {
			t.Errorf("after 5 s: %v, %d wait", got, table.Len())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := s.heard(); !slices.Equal(got[2:], []string{"c x 3", "c x 4"}) || table.Len() != 0 {
			t.Errorf("at last: %v, %d wait", got, table.Len())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if k.room.all != (load{}) || len(k.room.byPrincipal)+len(k.room.bySpace)+len(k.room.held) > 0 {
			t.Errorf("room is left taken: %+v", k.room)
		}
	})
}

// A bridge that dies before what a message left is stored leaves the record, and the
// next one publishes the message again.
func TestARecordStaysUntilItsMessageIsStored(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		table := recordstest.New[Message]()
		put(t, table, "1", 0, "x")
		ctx, cancel := context.WithCancel(t.Context())
		dying := &server{wait: func(ctx context.Context) error { cancel(); return ctx.Err() }}
		if err := open(dying, table).Run(ctx); err != nil || len(dying.heard()) != 1 || table.Len() != 1 {
			t.Errorf("%v, %v, %d left", err, dying.heard(), table.Len())
		}
		next := &server{wait: stored}
		ctx, cancel = context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- open(next, table).Run(ctx) }()
		synctest.Wait()
		if len(next.heard()) != 1 || table.Len() != 0 {
			t.Errorf("%v, %d left", next.heard(), table.Len())
		}
		cancel()
		<-done
	})
}

// What is not stored where it belongs is published again.
func TestAMessageThatIsNotStoredIsPublishedAgain(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		table, failures := recordstest.New[Message](), 2
		put(t, table, "1", 0, "x")
		s := &server{wait: func(context.Context) error {
			if failures--; failures >= 0 {
				return errors.New("the store is away")
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- open(s, table).Run(ctx) }()
		time.Sleep(again)
		synctest.Wait()
		if len(s.heard()) != 2 || table.Len() != 1 {
			t.Errorf("%v, %d left", s.heard(), table.Len())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.heard()) != 3 || table.Len() != 0 {
			t.Errorf("%v, %d left", s.heard(), table.Len())
		}
		cancel()
		<-done
	})
}

// What somebody left whose credential was revoked meanwhile is not published.
func TestRevokedPublishersAreNotHeard(t *testing.T) {
	t.Parallel()
	s, table := &server{wait: stored}, recordstest.New[Message]()
	put(t, table, "1", 0, "x")
	k := open(s, table)
	k.Rights = func(grant.Grant) (*protocol.Principal, error) {
		return nil, protocol.Errorf(protocol.CredentialInvalid, "revoked")
	}
	keys, _ := k.due(time.Now())
	if err := k.publish(t.Context(), keys); err != nil || len(s.heard()) > 0 || table.Len() > 0 {
		t.Errorf("%v, %v, %d left", err, s.heard(), table.Len())
	}
}

// What cannot be stored is refused, and takes no room.
func TestWhatIsNotStoredTakesNoRoom(t *testing.T) {
	t.Parallel()
	table := recordstest.New[Message]()
	k := open(&server{}, table)
	table.Break(errors.New("the store is away"))
	m := &Message{Client: "c", Grant: ann, Topic: "x"}
	if refused := k.reserve("1", m); !k.begin() || refused != "" {
		t.Fatal(refused)
	}
	var got broker.Verdict
	k.store("1", m, func(v broker.Verdict) { got = v })
	if got.Allowed() || k.room.all != (load{}) || k.storing != 0 {
		t.Errorf("%+v, %+v, %d", got, k.room.all, k.storing)
	}
	if err := k.Close(t.Context()); err != nil || k.begin() {
		t.Error("a closed keeper takes messages", err)
	}
}

// One tenant cannot fill the room of all.
func TestRoomIsShared(t *testing.T) {
	t.Parallel()
	r := newRoom()
	fill := func(who fair.Party, size int64) (n int) {
		for ; r.fits(who, size); n++ {
			r.enter(fmt.Sprint(who, n), who, size)
		}
		return n
	}
	party := func(name, space string) fair.Party { return fair.Party{Principal: name, Space: space} }
	if n := fill(party("a", "one"), 1); n != mostMessages/4 {
		t.Errorf("a principal has %d", n)
	}
	fill(party("b", "one"), 1)
	if n := fill(party("c", "one"), 1); n != 0 {
		t.Errorf("a space has %d more than half", n)
	}
	if n := fill(party("d", "two"), mostPayload); n != mostBytes/4/mostPayload {
		t.Errorf("a principal has %d large ones", n)
	}
	for key := range r.held {
		r.leave(key)
	}
	if r.all != (load{}) || len(r.byPrincipal)+len(r.bySpace) > 0 {
		t.Errorf("left: %+v", r)
	}
}

// A bridge that leaves the publishing to another one does not keep what is gone.
func TestTheQueueForgetsWhatOthersPublish(t *testing.T) {
	t.Parallel()
	table := recordstest.New[Message]()
	k := open(&server{}, table)
	put(t, table, "stays", time.Hour, "x")
	for i := range 3 * fewLeft {
		key := fmt.Sprint(i)
		put(t, table, key, time.Second, "x")
		if err := table.Delete(t.Context(), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(k.waiting); n > fewLeft+3 {
		t.Errorf("%d items are kept of one message", n)
	}
	if !slices.ContainsFunc(k.waiting, func(i item) bool { return i.key == "stays" }) {
		t.Error("a message is lost")
	}
}

// TestWhatIsDueIsNotCancelled has messages cancelled before their time, at it, and
// while it comes.
func TestWhatIsDueIsNotCancelled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		table := recordstest.New[Message]()
		k := open(&server{wait: stored}, table)
		call := &commands.Call{Principal: &protocol.Principal{ID: "ann"}}
		for wait, want := range map[time.Duration]protocol.Code{time.Hour: "", tooLate: "", tooLate - time.Millisecond: protocol.InvalidState, -time.Hour: protocol.InvalidState} {
			if _, err := table.Create(t.Context(), "m", &Message{Grant: ann, Topic: "a", Due: time.Now().Add(wait).UnixMilli()}); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Cancel(t.Context(), call, CancelParams{ID: "m"}); protocol.CodeOf(err) != want {
				t.Errorf("due in %v: %v", wait, err)
			}
			_ = table.Delete(t.Context(), "m", 0) // there or not
		}
		if _, err := table.Create(t.Context(), "m", &Message{Grant: ann, Topic: "a", Due: time.Now().Add(tooLate).UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		slow := &slowly{Memory: table, pause: tooLate}
		k.Table = slow
		if _, err := k.Cancel(t.Context(), call, CancelParams{ID: "m"}); protocol.CodeOf(err) != protocol.OutcomeUnknown {
			t.Errorf("due while it was cancelled: %v", err)
		}
	})
}

// slowly is a table that takes its time to delete.
type slowly struct {
	*recordstest.Memory[Message]
	pause time.Duration
}

func (s *slowly) Delete(ctx context.Context, key string, expect uint64) error {
	time.Sleep(s.pause)
	return s.Memory.Delete(ctx, key, expect)
}
