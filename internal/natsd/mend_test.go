package natsd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/smalldisk"
)

// A writer publishes messages to a stream and knows which were acknowledged.
type writer struct {
	js   jetstream.JetStream
	name string
	kept []uint64
	n    int
}

func newWriter(t *testing.T, s *Server, name string) *writer {
	t.Helper()
	conn := s.Flow()
	if name == "state" {
		conn = s.State()
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
		t.Fatal(err)
	}
	return &writer{js: js, name: name}
}

func (w *writer) write(size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	w.n++
	ack, err := w.js.Publish(ctx, w.name, append(fmt.Append(nil, w.n, " "), make([]byte, size)...), jetstream.WithRetryAttempts(0))
	if err == nil {
		w.kept = append(w.kept, ack.Sequence)
	}
	return err
}

// stores waits until something is stored.
func (w *writer) stores(t *testing.T) {
	t.Helper()
	eventually.Holds(t, w.name+" stores something", func() bool { return w.write(1000) == nil })
}

// whole fails unless everything that was acknowledged is there.
func (w *writer) whole(t *testing.T) {
	t.Helper()
	stream, err := w.js.Stream(t.Context(), w.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range w.kept {
		if _, err := stream.GetMsg(t.Context(), seq); err != nil {
			t.Errorf("%s: message %d was acknowledged: %v", w.name, seq, err)
		}
	}
}

func TestServersAreOpenedAnewWhenAFullDiskHasRoomAgain(t *testing.T) {
	smalldisk.Run(t, 64<<20, func(t *testing.T, d *smalldisk.Disk) {
		s := start(t, Options{Dir: d.Dir})
		state, flow := newWriter(t, s, "state"), newWriter(t, s, "flow")
		state.stores(t)
		flow.stores(t)
		for round := range 3 {
			d.Fill(t)
			eventually.Holds(t, "the servers notice", func() bool {
				_, _ = state.write(100_000), flow.write(100_000)
				return state.write(100_000) != nil && flow.write(100_000) != nil && s.Check() != nil
			})
			d.Free(t)
			eventually.Holds(t, "everything is stored again", func() bool { return s.Check() == nil && state.write(1000) == nil && flow.write(1000) == nil })
			if s.Reopened() <= int64(round) {
				t.Errorf("the servers were opened anew %d times", s.Reopened())
			}
		}
		state.whole(t)
		flow.whole(t)
	})
}

// A server that is stopped while it removes a stream leaves the stream's folder
// under a name of its own, which is no stream that it misses.
func TestAServerStartsWithTheRestOfADeletedStream(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dir: dir}).Close()
	rest := filepath.Join(dir, "state", "jetstream", "$G", "streams", ".gone", "msgs")
	if err := os.MkdirAll(rest, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestAServerThatMissesAStreamDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	newWriter(t, s, "state").stores(t)
	s.Close()
	meta := filepath.Join(dir, "state", "jetstream", "$G", "streams", "state", "meta.inf")
	if err := os.WriteFile(meta, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Start(Options{Dir: dir}); err == nil {
		s.Close()
		t.Error("a server has started without one of its streams")
	} else if !strings.Contains(err.Error(), "could not be recovered") {
		t.Error(err)
	}
}
