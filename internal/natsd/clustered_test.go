package natsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
)

// A trio is three servers that form a cluster in this process.
type trio struct {
	t       *testing.T
	dir     string
	members []string
	servers [3]*Server
}

var testKey = []byte("0123456789abcdef0123456789abcdef")

func (c *trio) options(n int) ClusterOptions {
	return ClusterOptions{
		Dir: filepath.Join(c.dir, fmt.Sprint(n)), Name: "home", Node: fmt.Sprint("n", n),
		Listen: c.members[n], Members: c.members, Key: testKey, Log: slog.New(slog.NewTextHandler(c.t.Output(), nil)),
	}
}

func (c *trio) start(n int) *Server {
	c.t.Helper()
	s, err := StartMember(c.options(n))
	if err != nil {
		c.t.Fatal(err)
	}
	c.servers[n] = s
	return s
}

func newTrio(t *testing.T) *trio {
	c := &trio{t: t, dir: t.TempDir(), members: freeport.Addresses(3)}
	t.Cleanup(func() {
		var all sync.WaitGroup
		for _, s := range c.servers {
			if s != nil {
				all.Go(s.Close)
			}
		}
		all.Wait()
	})
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	t.Cleanup(cancel)
	return ctx
}

// await waits for the cluster, and returns what it was told meanwhile.
func await(t *testing.T, s *Server) (told []string) {
	t.Helper()
	if err := s.Await(soon(t), func(reason string) { told = append(told, reason) }); err != nil {
		t.Fatal(err, told)
	}
	return told
}

// TestServersOfThreeProcessesAreOneNATS loses one of three servers, and then the
// disk of another.
func TestServersOfThreeProcessesAreOneNATS(t *testing.T) {
	c := newTrio(t)
	first := c.start(0)
	waiting := make(chan string, 100)
	done := make(chan error, 1)
	go func() { done <- first.Await(soon(t), func(reason string) { waiting <- reason }) }()
	if reason := <-waiting; !strings.Contains(reason, "nobody answers at "+c.members[1]+", nobody answers at "+c.members[2]) {
		t.Errorf("it waits since %q", reason)
	}
	c.start(1)
	c.start(2)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(first.State())
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a stream is made", func() bool {
		_, err = js.CreateOrUpdateStream(soon(t), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}, Replicas: 3})
		return err == nil
	}, &err)
	stored := 0
	store := func() {
		t.Helper()
		eventually.Holds(t, "a message is stored", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = js.Publish(ctx, "s", nil, jetstream.WithMsgID(fmt.Sprint(stored)))
			return err == nil
		}, &err)
		stored++
	}
	store()
	c.servers[2].Close()
	store()
	c.servers[2] = nil
	o := c.options(2)
	o.Dir = filepath.Join(c.dir, "new disk")
	back, err := StartMember(o)
	if err != nil {
		t.Fatal(err)
	}
	c.servers[2] = back
	store()
	eventually.Holds(t, "what was lost came back", func() bool {
		jetStream, err := back.embedded[0].server.Jsz(nil)
		return err == nil && jetStream.Messages == uint64(stored)
	})
	if back.Isolated() {
		t.Error("it is isolated")
	}
	c.servers[0].Close()
	c.servers[1].Close()
	c.servers[0], c.servers[1] = nil, nil
	eventually.Holds(t, "the last of three knows that it is isolated", back.Isolated)
}

func TestAServerWaitsForThoseThatHaveItsKey(t *testing.T) {
	c := newTrio(t)
	c.start(0)
	for name, test := range map[string]struct {
		change func(*ClusterOptions)
		want   string
	}{
		"another key":     {func(o *ClusterOptions) { o.Key = []byte(strings.Repeat("k", 32)) }, "what answers at " + c.members[0] + " has not the key of this cluster"},
		"another cluster": {func(o *ClusterOptions) { o.Name = "work" }, "the bridge at " + c.members[0] + ` is of the cluster "home"`},
		"its own":         {func(*ClusterOptions) {}, "this bridge waits for the others of its cluster: nobody answers at " + c.members[2]},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.options(1)
			o.Dir = t.TempDir()
			test.change(&o)
			s, err := StartMember(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			_ = s.Await(ctx, func(reason string) {
				if strings.Contains(reason, test.want) {
					cancel()
				}
			})
			if ctx.Err() != context.Canceled {
				t.Errorf("nobody was told %q", test.want)
			}
		})
	}
}

// TestTwoServersOfOneNameAreTold starts a server beside one that has its name, and has
// two such servers start at once.
func TestTwoServersOfOneNameAreTold(t *testing.T) {
	c := newTrio(t)
	first := c.start(0)
	twin := c.options(1)
	twin.Node = c.options(0).Node
	told := fmt.Sprintf(`"n0" is the id of those at %s and %s; give each bridge an id of its own`, c.members[1], c.members[0])
	if _, err := StartMember(twin); !errors.Is(err, ErrTwin) || !strings.Contains(err.Error(), told) {
		t.Fatalf("it starts with %v", err)
	}
	if err := first.Twins(t.Context()); err != nil {
		t.Errorf("one that did not start is told of: %v", err)
	}

	second, err := startMember(twin) // which asked before the first listened
	if err != nil {
		t.Fatal(err)
	}
	c.servers[1] = second
	third := c.start(2)
	for _, s := range []*Server{first, second, third} {
		if err := s.Twins(t.Context()); !errors.Is(err, ErrTwin) {
			t.Errorf("one says %v", err)
		}
	}

	first.Close()
	second.Close()
	c.servers[0] = nil
	if c.servers[1], err = StartMember(twin); err != nil {
		t.Errorf("once the other has ended: %v", err)
	}
}

// TestOnlyThisProcessIsServed knocks at the port that a member has to have.
func TestOnlyThisProcessIsServed(t *testing.T) {
	c := newTrio(t)
	s := c.start(0)
	conn, err := net.Dial("tcp", s.embedded[0].server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(eventually.Patience))
	var all strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		all.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	if text := all.String(); !strings.Contains(text, "Authorization Violation") || strings.Contains(text, "PONG") {
		t.Errorf("it was told %q", text)
	}
}

// The key of the routes changes at one server after the other, in three steps, and
// what is stored meanwhile needs two of them each time.
func TestTheKeyOfRoutesIsReplacedWhileServersWork(t *testing.T) {
	c := newTrio(t)
	old, next := testKey, []byte("fedcba9876543210fedcba9876543210")
	var js jetstream.JetStream
	var err error
	for n := range c.members {
		c.start(n)
	}
	await(t, c.servers[0])
	stored := uint64(0)
	store := func(n int) {
		t.Helper()
		if js, err = jetstream.New(c.servers[n].State()); err != nil {
			t.Fatal(err)
		}
		id := jetstream.WithMsgID(fmt.Sprint(stored))
		eventually.Holds(t, "a message is stored", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = js.Publish(ctx, "s", nil, id)
			return err == nil
		}, &err)
		stored++
	}
	eventually.Holds(t, "a stream is made", func() bool {
		if js, err = jetstream.New(c.servers[0].State()); err != nil {
			return false
		}
		_, err = js.CreateOrUpdateStream(soon(t), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}, Replicas: 3})
		return err == nil
	}, &err)
	store(0)
	for _, step := range []struct {
		shown []byte
		also  [][]byte
	}{{old, [][]byte{next}}, {next, [][]byte{old}}, {next, nil}} {
		for n := range c.servers {
			c.servers[n].Close()
			store((n + 1) % 3) // by the two others, of which one may be a step ahead
			o := c.options(n)
			o.Key, o.AlsoKeys = step.shown, step.also
			if c.servers[n], err = StartMember(o); err != nil {
				t.Fatal(err)
			}
			await(t, c.servers[n])
			store(n)
			eventually.Holds(t, "it has all that was stored", func() bool {
				has, err := c.servers[n].embedded[0].server.Jsz(nil)
				return err == nil && has.Messages == stored
			})
		}
	}
	o := c.options(0) // which has the old key
	if err := o.probe(t.Context(), c.members[1]); err == nil || !strings.Contains(err.Error(), "has not the key") {
		t.Errorf("who has the old key finds %v", err)
	}
}
