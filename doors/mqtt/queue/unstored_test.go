package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// anybody may publish and subscribe.
type anybody struct{}

func (anybody) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (anybody) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

// speaker connects a publisher of MQTT 3.1.1 with a session that is kept.
func speaker(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(eventually.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x00\x00\x00\x00\x01s")); err != nil {
		t.Fatal(err)
	}
	ack := make([]byte, 4)
	if _, err := io.ReadFull(c, ack); err != nil || ack[0] != 0x20 || ack[3] != 0 {
		t.Fatalf("CONNACK %x: %v", ack, err)
	}
	return c
}

// A publisher of MQTT 3.1.1 whose message cannot be stored gets no acknowledgement: its
// connection ends, and what it sends again once the store is back is in the queue, once.
func TestAPublisherOf311SendsAgainWhatTheStoreDidNotTake(t *testing.T) {
	t.Parallel()
	for qos := byte(1); qos <= 2; qos++ {
		t.Run(fmt.Sprint(qos), func(t *testing.T) {
			t.Parallel()
			table := recordstest.New[Message]()
			k := Open(Options{
				Queues: settled(t, Queue{Name: "q", Topic: "#"}), Table: table, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
			})
			k.storeFor = 100 * time.Millisecond
			b, err := broker.New(broker.Options{
				Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) {
					return &protocol.Principal{Kind: protocol.KindAgent, ID: "s", Space: "home"}, nil
				},
				Permissions: anybody{}, SysInterval: -1, Journal: new(broker.MemoryJournal),
			})
			if err != nil {
				t.Fatal(err)
			}
			k.Attend(b)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- b.Serve(context.Background(), "mqtt", l) }()
			defer func() {
				if err := errors.Join(b.Close(context.Background()), <-done, k.Close(context.Background())); err != nil {
					t.Error(err)
				}
			}()
			table.Break(errors.New("away"))
			publish := []byte("\x30\x07\x00\x02q1\x00\x07x")
			publish[0] |= qos << 1
			// send publishes the message over another connection, and returns all that
			// follows until the acknowledgement or the end of the connection.
			send := func() (got []byte) {
				c := speaker(t, l.Addr().String())
				if _, err := c.Write(publish); err != nil {
					t.Fatal(err)
				}
				publish[0] |= 8 // DUP the next time
				got = make([]byte, 4)
				n, err := io.ReadFull(c, got)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal("the connection does not end")
				}
				_ = c.Close()
				return got[:n]
			}
			if got := send(); len(got) > 0 {
				t.Fatalf("it is answered by %x", got)
			}
			table.Break(nil)
			want := []byte{[]byte{0x40, 0x50}[qos-1], 2, 0, 7}
			eventually.Holds(t, "it is acknowledged", func() bool { return bytes.Equal(send(), want) })
			if got := waiting(table, "q"); got != "x " {
				t.Errorf("in the queue are %q", got)
			}
		})
	}
}
