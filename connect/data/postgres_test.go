package data

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// many is the number of messages that a test sends.
func many() int {
	if testing.Short() {
		return 1500
	}
	return 6000
}

// A sender publishes numbered messages, each until the bridge has acknowledged it.
type sender struct {
	t        *testing.T
	client   *client.Client
	withID   bool // as CloudEvents
	repeated int  // messages that were sent more than once
}

func newSender(t *testing.T, url string) *sender {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	c, err := client.Dial(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &sender{t: t, client: c}
}

// send publishes the numbers from one to before another, eight at a time.
func (s *sender) send(from, to int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), eventually.Patience)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	numbers := make(chan int)
	for range 8 {
		all.Go(func() {
			for n := range numbers {
				for tries := 0; ; tries++ {
					if s.client.Publish(ctx, s.message(n)) == nil || ctx.Err() != nil {
						break
					}
					mu.Lock()
					s.repeated++
					mu.Unlock()
				}
			}
		})
	}
	for n := from; n < to; n++ {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	if ctx.Err() != nil {
		s.t.Fatal("the messages could not be sent")
	}
}

func (s *sender) message(n int) client.Message {
	m := client.Message{Topic: fmt.Sprintf("plant/%d", n%7), Payload: fmt.Appendf(nil, `{"n":%d}`, n), QoS: 1}
	if s.withID {
		m.UserProperties = []client.UserProperty{{Key: "specversion", Value: "1.0"}, {Key: "source", Value: "/plant"},
			{Key: "id", Value: fmt.Sprint(n)}, {Key: "type", Value: "reading"}}
	}
	return m
}

// numbers counts the different numbers in the table.
const numbers = `SELECT count(DISTINCT body->>'n') FROM readings`

// query asks for one value, which is zero while there is no table or no server.
func query[T any](t *testing.T, database, text string) (value T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		return value
	}
	defer c.Close(context.Background())
	_ = c.QueryRow(t.Context(), text).Scan(&value)
	return value
}

// expect waits until all numbers are in the table, and tells how many are there twice.
func expect(t *testing.T, database string, n int) (doubled int) {
	t.Helper()
	different := 0
	eventually.Holds(t, "all messages are in the table", func() bool {
		different = query[int](t, database, numbers)
		return different >= n
	}, &different)
	rows := query[int](t, database, `SELECT count(*) FROM readings WHERE body ? 'n'`)
	t.Logf("%d messages: %d rows, none lost, %d doubled", n, rows, rows-n)
	return rows - n
}

// A scene is a table that fills.
type scene struct {
	bridge, table, server *process
	database              string
	sender                *sender
}

func newScene(t *testing.T) *scene {
	t.Helper()
	server, database := newPostgres(t)
	bridge, url := newBridge(t)
	s := &scene{bridge: bridge, server: server, database: database, sender: newSender(t, url)}
	s.table = newPipeline(t, "postgres", "AIBRIDGE_URL="+url, "DATABASE_URL="+database)
	return s
}

// killed has messages sent after so many others, and one of the processes killed when
// a third of them is in the table.
func (s *scene) killed(t *testing.T, p *process, others int) (doubled int) {
	t.Helper()
	sent := make(chan struct{})
	go func() { defer close(sent); s.sender.send(others, others+many()) }()
	eventually.Holds(t, "the table fills", func() bool { return query[int](t, s.database, numbers) > others+many()/3 })
	p.end(syscall.SIGKILL)
	if p == s.server {
		ready(t, p, s.database)
	} else {
		p.start(t)
	}
	<-sent
	return expect(t, s.database, others+many())
}

func TestAKilledPostgresLosesNothing(t *testing.T) {
	s := newScene(t)
	if doubled := s.killed(t, s.server, 0); doubled > 500 {
		t.Errorf("%d doubled: more than the batch that it worked on", doubled)
	}
}

func TestAKilledTableLosesNothing(t *testing.T) {
	s := newScene(t)
	if doubled := s.killed(t, s.table, 0); doubled > 1000 {
		t.Errorf("%d doubled: more than the two batches that were on their way", doubled)
	}
}

func TestAKilledBridgeLosesNothing(t *testing.T) {
	s := newScene(t)
	if doubled := s.killed(t, s.bridge, 0); doubled > 1000+s.sender.repeated {
		t.Errorf("%d doubled: more than were on their way or sent again, %d", doubled, s.sender.repeated)
	}
}

func TestEventsAreInTheTableOnce(t *testing.T) {
	s := newScene(t)
	s.sender.withID = true
	for i, p := range []*process{s.bridge, s.table, s.server} {
		if doubled := s.killed(t, p, i*many()); doubled != 0 {
			t.Errorf("%d doubled", doubled)
		}
	}
}

func TestMessagesWaitForPostgres(t *testing.T) {
	s := newScene(t)
	s.server.end(syscall.SIGKILL)
	s.sender.send(0, 1500)
	ready(t, s.server, s.database)
	if doubled := expect(t, s.database, 1500); doubled != 0 {
		t.Errorf("%d doubled", doubled)
	}
}

func TestTheTableStopsAndGoesOn(t *testing.T) {
	s := newScene(t)
	s.sender.send(0, 500)
	expect(t, s.database, 500)
	s.table.end(syscall.SIGTERM)
	if code := s.table.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %d: %s", code, s.table.said())
	}
	s.sender.send(500, 1000)
	s.table.start(t)
	if doubled := expect(t, s.database, 1000); doubled != 0 {
		t.Errorf("%d doubled", doubled)
	}
}

func TestWhatPostgresDoesNotTakeForJSONHoldsUpNobody(t *testing.T) {
	s := newScene(t)
	for _, payload := range []string{`{"n":"\u0000"}`, "not JSON", "", "\x00\xff", `"\ud800"`, `1e999999`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `{"n":"last"}`} {
		if err := s.sender.client.Publish(t.Context(), client.Message{Topic: "plant/odd", Payload: []byte(payload), QoS: 1}); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Holds(t, "all are there", func() bool {
		return query[int](t, s.database, `SELECT count(*) FROM readings WHERE topic = 'plant/odd'`) >= 8
	})
	if n := query[int](t, s.database, `SELECT count(*) FROM readings WHERE topic = 'plant/odd'`); n != 8 {
		t.Errorf("%d rows", n)
	}
	if n := query[int](t, s.database, `SELECT count(*) FROM readings WHERE body->>'n' = 'last'`); n != 1 {
		t.Errorf("the last is there with its body %d times", n)
	}
	refused := fmt.Sprintf(`SELECT count(*) FROM readings WHERE body IS NULL AND payload = '\x%x'`, `{"n":"\u0000"}`)
	if n := query[int](t, s.database, refused); n != 1 {
		t.Errorf("what PostgreSQL refuses is there %d times", n)
	}
}

// TestSpeed logs how many messages a second go into the table.
func TestSpeed(t *testing.T) {
	s := newScene(t)
	began := time.Now()
	s.sender.send(0, 2*many())
	published := time.Since(began)
	expect(t, s.database, 2*many())
	t.Logf("published %.0f/s, in the table %.0f/s", float64(2*many())/published.Seconds(), float64(2*many())/time.Since(began).Seconds())
}
