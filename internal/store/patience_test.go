package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestABridgeThatStartsWaitsForAnAnswer has a stream that nobody leads, of which then the
// servers say so, then nothing, and then where it ends.
func TestABridgeThatStartsWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	srv, line := quietNATS(t)
	_, err := inspect(t.Context(), line, "S")
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("who is not patient is told %v", err)
	}

	asked := received(t, srv)
	type told struct {
		info *streamInfo
		err  error
	}
	end := make(chan told, 1)
	go func() {
		info, err := inspect(Patiently(t.Context()), line, "S")
		end <- told{info, err}
	}()
	eventually.Holds(t, "it has asked in vain", func() bool { return received(t, srv) > asked })

	answers := make(chan string, 3)
	answers <- `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	answers <- ""
	answers <- `{"state":{"last_seq":7}}`
	_, err = line.conn.Subscribe("$JS.API.STREAM.INFO.S", func(m *nats.Msg) {
		if a := <-answers; a != "" {
			_ = m.Respond([]byte(a))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-end; got.err != nil || got.info.State.LastSeq != 7 {
		t.Errorf("told %+v, %v", got.info, got.err)
	}
}

// quietNATS is a server that keeps no streams, and a connection to it.
func quietNATS(t *testing.T) (*server.Server, *connection) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	line := newConnection(conn)
	t.Cleanup(line.close)
	return srv, line
}

func received(t *testing.T, srv *server.Server) int64 {
	t.Helper()
	about, err := srv.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return about.InMsgs
}

// TestABridgeThatStartsWaitsUntilItsWriteIsTaken has nobody lead for longer than
// anybody else would wait, and for good.
func TestABridgeThatStartsWaitsUntilItsWriteIsTaken(t *testing.T) {
	for until, want := range map[time.Duration]error{startPatience / 2: nil, time.Hour: nats.ErrNoResponders} {
		bubble.Test(t, func(t *testing.T) {
			s, began := &Store{}, time.Now()
			s.pulse.bad.Store(true)
			err := s.onceLed(Patiently(t.Context()), func() error {
				if time.Since(began) < until {
					return unavailable(nats.ErrNoResponders)
				}
				return nil
			})
			if took := time.Since(began); !errors.Is(err, want) || took < min(until, startPatience-2*leaderPause) || took > startPatience {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}

// TestPatienceIsNotForgotten bounds a patient context, and another.
func TestPatienceIsNotForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for ctx, want := range map[context.Context]time.Duration{t.Context(): time.Second, Patiently(t.Context()): startPatience} {
			ctx, done := bounded(ctx, time.Second)
			defer done()
			if at, _ := ctx.Deadline(); time.Until(at) != want {
				t.Errorf("bounded to %v, want %v", time.Until(at), want)
			}
		}
	})
}
