package natsd

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func start(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAcknowledgedMessagesAreThereAfterRestart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"state", "flow"} {
		conn := func(s *Server) nats.JetStreamContext {
			c := s.State()
			if name == "flow" {
				c = s.Flow()
			}
			js, err := c.JetStream()
			if err != nil {
				t.Fatal(err)
			}
			return js
		}
		s := start(t, Options{Dir: dir})
		if _, err := conn(s).AddStream(&nats.StreamConfig{Name: name, Subjects: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn(s).Publish("x", []byte("kept by "+name)); err != nil {
			t.Fatal(err)
		}
		s.Close()

		s = start(t, Options{Dir: dir})
		msg, err := conn(s).GetLastMsg(name, "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(msg.Data); got != "kept by "+name {
			t.Errorf("%s kept %q", name, got)
		}
		s.Close()
	}
}

func TestDataIsForTheOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, Options{Dir: dir})
	js, _ := s.State().JetStream()
	if _, err := js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASecondOpeningOfTheDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	if _, err := Start(Options{Dir: dir}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second Start = %v", err)
	}
	s.Close()
	start(t, Options{Dir: dir})
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "flow") {
		t.Fatalf("Start = %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "flow")); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir})
}

func TestStateSyncsAlwaysAndFlowWhenTold(t *testing.T) {
	for _, always := range []bool{false, true} {
		s := start(t, Options{Dir: t.TempDir(), SyncAlways: always})
		for _, i := range s.embedded {
			srv := i.server
			want := always || srv.Name() == "aibridge-state"
			if got := srv.JetStreamConfig().SyncAlways; got != want {
				t.Errorf("SyncAlways: %t: %s syncs always: %t", always, srv.Name(), got)
			}
		}
	}
}

func TestConnectFailsAtOnceWhenNATSIsAway(t *testing.T) {
	if _, err := Connect(ExternalOptions{URL: "nats://127.0.0.1:1"}); !errors.Is(err, ErrAway) {
		t.Fatal("connected to nothing")
	}
}

func BenchmarkStartEmpty(b *testing.B) {
	for b.Loop() {
		s, err := Start(Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkStop(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s, err := Start(Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s.Close()
	}
}
