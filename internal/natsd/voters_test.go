package natsd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/eventually"
)

// voters are the ids of the servers that elect, once there is a leader.
func voters(t *testing.T, s *Server) (ids []string) {
	t.Helper()
	var err error
	eventually.Holds(t, "a leader tells who votes", func() bool {
		ids, err = s.Voters(t.Context())
		return err == nil
	}, &err)
	return ids
}

// copiesOn waits until every stream has its copies on the servers of some bridges, and
// a leader.
func copiesOn(t *testing.T, s *Server, bridges ...string) {
	t.Helper()
	var want []string
	for _, b := range bridges {
		want = append(want, VoterID(b))
	}
	slices.Sort(want)
	var streams []Stream
	eventually.Holds(t, fmt.Sprint("the streams are on ", bridges), func() bool {
		var err error
		if streams, err = s.Streams(t.Context()); err != nil || len(streams) == 0 {
			return false
		}
		return !slices.ContainsFunc(streams, func(stream Stream) bool {
			slices.Sort(stream.On)
			return stream.Leader == "" || !slices.Equal(stream.On, want)
		})
	})
}

// TestAVoterIsRemovedAndAnotherTakesItsPlace ends one of three servers for good.
func TestAVoterIsRemovedAndAnotherTakesItsPlace(t *testing.T) {
	c := newTrio(t)
	for n := range 3 {
		c.start(n)
	}
	await(t, c.servers[0])
	js, err := jetstream.New(c.servers[0].State())
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a stream is made", func() bool {
		_, err = js.CreateOrUpdateStream(soon(t), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}, Replicas: 3})
		return err == nil
	}, &err)
	store := func() {
		t.Helper()
		eventually.Holds(t, "a message is stored", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = js.Publish(ctx, "s", nil)
			return err == nil
		}, &err)
	}
	store()
	copiesOn(t, c.servers[0], "n0", "n1", "n2")
	for n, s := range c.servers {
		if got := s.embedded[0].server.Node(); got != VoterID(fmt.Sprint("n", n)) {
			t.Errorf("NATS calls n%d %q", n, got)
		}
		if ids := voters(t, s); len(ids) != 3 || !slices.Contains(ids, VoterID("n2")) {
			t.Errorf("n%d knows the voters %q", n, ids)
		}
	}
	if runs, err := c.servers[0].Runs(t.Context(), "n2"); !runs {
		t.Errorf("n2 is not found: %v", err)
	}
	c.servers[2].Close()
	c.servers[2] = nil
	if runs, err := c.servers[0].Runs(t.Context(), "n2"); runs || err != nil {
		t.Errorf("n2 runs, %v", err)
	}
	store()
	var stream Stream
	eventually.Holds(t, "the copy on n2 lacks what was stored since", func() bool {
		streams, err := c.servers[0].Streams(t.Context())
		if err != nil || len(streams) != 1 {
			return false
		}
		stream = streams[0]
		return len(stream.On) == 3 && len(stream.Whole) == 2 && !slices.Contains(stream.Whole, VoterID("n2"))
	}, &stream)
	remove := func(bridge string) {
		t.Helper()
		eventually.Holds(t, bridge+" is removed", func() bool {
			err = c.servers[1].RemoveVoter(t.Context(), bridge)
			return err == nil
		}, &err)
	}
	remove("n2")
	remove("n2")
	remove("nobody")
	if ids := voters(t, c.servers[1]); len(ids) != 2 || slices.Contains(ids, VoterID("n2")) {
		t.Errorf("the voters are %q", ids)
	}
	copiesOn(t, c.servers[0], "n0", "n1")
	store()
	o := c.options(2)
	o.Dir, o.Node = filepath.Join(c.dir, "new"), "n3"
	next, err := StartMember(o)
	if err != nil {
		t.Fatal(err)
	}
	c.servers[2] = next
	copiesOn(t, c.servers[0], "n0", "n1", "n3")
	eventually.Holds(t, "the new server has what was stored", func() bool {
		jetStream, err := next.embedded[0].server.Jsz(nil)
		return err == nil && jetStream.Messages >= 2
	})
	c.servers[0].Close() // any one of three may be lost again
	c.servers[0] = nil
	if js, err = jetstream.New(next.State()); err != nil {
		t.Fatal(err)
	}
	store()
}

// TestNobodyLooksAfterTheClusterWithoutTheSecret connects with another password, and
// by the port on loopback.
func TestNobodyLooksAfterTheClusterWithoutTheSecret(t *testing.T) {
	c := newTrio(t)
	i := c.start(0).embedded[0]
	for name, options := range map[string][]nats.Option{
		"another secret":   {nats.InProcessServer(i), nats.UserInfo(systemUser, "guessed")},
		"over the network": {nats.UserInfo(systemUser, i.secret)},
	} {
		conn, err := nats.Connect(i.server.ClientURL(), options...)
		if err == nil {
			conn.Close()
			t.Errorf("%s: it connects", name)
		}
	}
	conn, err := i.system()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestAVoterLeavesOnlyIfMostCopiesAreWholeWithoutIt looks at streams of which others have
// ended, or are being copied.
func TestAVoterLeavesOnlyIfMostCopiesAreWholeWithoutIt(t *testing.T) {
	living := map[string]bool{"a": true, "b": true, "new": true}
	trio := []string{"a", "b", "gone"}
	for name, c := range map[string]struct {
		stream Stream
		want   bool
	}{
		"the others have all":            {Stream{Leader: "a", On: trio, Whole: []string{"a", "b"}}, true},
		"it has no copy":                 {Stream{Leader: "a", On: []string{"a", "b", "new"}, Whole: []string{"a"}}, true},
		"another one is away":            {Stream{Leader: "a", On: []string{"a", "away", "gone"}, Whole: []string{"a", "away"}}, false},
		"another one is copied yet":      {Stream{Leader: "a", On: []string{"a", "new", "gone"}, Whole: []string{"a"}}, false},
		"it counts as whole itself":      {Stream{Leader: "a", On: []string{"a", "new", "gone"}, Whole: []string{"a", "gone"}}, false},
		"it has the only copy":           {Stream{Leader: "gone", On: []string{"gone"}, Whole: []string{"gone"}}, false},
		"the stream has no leader":       {Stream{On: trio, Whole: []string{"b"}}, false},
		"it has one of four in a change": {Stream{Leader: "a", On: []string{"a", "b", "new", "gone"}, Whole: []string{"a", "b"}}, false},
	} {
		if got := c.stream.Outlives("gone", living); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
