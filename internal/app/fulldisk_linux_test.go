package app_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/listen"
	"github.com/aibridge/aibridge/internal/smalldisk"
)

// A worn bridge is one whose disk the test can break, with a client that is
// away.
type worn struct {
	*bridgetest.Node
	caller, device *bridgetest.Raw
}

func wear(t *testing.T, d *smalldisk.Disk) *worn {
	n := bridgetest.Start(t, func(c *app.Config) {
		c.Data, c.Disk.ReserveMiB = filepath.Join(d.Dir, "data"), 0 // without, it would not come to this
	})
	away := n.Connect(t, "away", kept)
	away.Listen(t, "x/#")
	away.Drop()
	w := &worn{Node: n, caller: n.Caller(t, "caller"), device: n.Device(t, "lamp", "lamp", `["switch"]`)}
	w.works(t, "before")
	return w
}

// works fails unless all that is stored is stored within a while.
func (w *worn) works(t *testing.T, when string) {
	t.Helper()
	readiness(t, w.Node, http.StatusOK, "ready")
	must(t, w.caller, "agent.register", `{"agent_id":"`+when+`","type":"end_agent"}`)
	goesOn(t, w.caller, w.device)
	leave(t, w.Connect(t, "publisher"), "x/"+when, "for who is away")
	leave(t, w.Connect(t, "publisher"), "r/"+when, "retained")
	if status, body := put(t, w.Node); status != http.StatusOK {
		t.Errorf("%s: an upload: %d %s", when, status, body)
	}
	if report := must(t, w.caller, "audit.verify", `{}`); !strings.Contains(string(report), `"ok":true`) {
		t.Errorf("%s: the audit trail: %s", when, report)
	}
}

// leave publishes at QoS 1, retained below r, until it is acknowledged.
func leave(t *testing.T, c *bridgetest.Raw, topic, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	message := &paho.Publish{Topic: topic, QoS: 1, Retain: strings.HasPrefix(topic, "r/"), Payload: []byte(payload)}
	if answer, err := c.Publish(ctx, message); err != nil {
		t.Errorf("a message on %s: %v %+v", topic, err, answer)
	}
	c.Drop()
}

// took fails unless the client that was away gets what was acknowledged.
func (w *worn) took(t *testing.T, topics ...string) {
	t.Helper()
	away := w.Connect(t, "away", kept)
	for _, topic := range topics {
		for away.Next(t).Topic != topic { // x/more, or what it took and could not acknowledge before
		}
	}
	away.Drop()
}

func TestABridgeHealsWhenAFullDiskHasRoomAgain(t *testing.T) {
	smalldisk.Run(t, 128<<20, func(t *testing.T, d *smalldisk.Disk) {
		w := wear(t, d)
		stop := w.flood(t, 10_000)
		d.Fill(t)
		readiness(t, w.Node, http.StatusServiceUnavailable, `"5001"`)
		stop()
		d.Free(t)
		w.works(t, "after")
		w.took(t, "x/before", "x/after")
		w.Restart(t)
		w.caller, w.device = w.Caller(t, "caller"), w.Connect(t, "lamp")
		w.device.Listen(t, "aibridge/agent/lamp/request")
		w.works(t, "again")
		w.took(t, "x/again")
	})
}

// TestABridgeStartsOnAFullDisk has it listen elsewhere than before, so that it
// has something to write.
func TestABridgeStartsOnAFullDisk(t *testing.T) {
	smalldisk.Run(t, 128<<20, func(t *testing.T, d *smalldisk.Disk) {
		w := wear(t, d)
		w.Stop(t)
		d.Fill(t)
		again := bridgetest.Start(t, func(c *app.Config) { c.Data, c.Disk.ReserveMiB = w.Config.Data, 0 })
		w = &worn{Node: again, caller: again.Caller(t, "caller"), device: again.Connect(t, "lamp")}
		w.device.Listen(t, "aibridge/agent/lamp/request")
		must(t, w.caller, "agent.get", `{"agent_id":"lamp"}`)
		d.Free(t)
		w.works(t, "after")
		w.took(t, "x/before", "x/after")
		eventually.Holds(t, "that the addresses are written", func() bool {
			a, err := listen.ReadAddresses(w.Config.Data)
			return err == nil && a == w.Addresses
		})
	})
}

func TestABridgeHealsWhenThereAreDescriptorsAgain(t *testing.T) {
	smalldisk.Run(t, 128<<20, func(t *testing.T, d *smalldisk.Disk) {
		w := wear(t, d)
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		none := limit
		none.Cur = 3
		// One connection, made while it can be: a client of net/http makes another one
		// when the machine is too busy to have the first back within 50 ms.
		conn, err := net.Dial("tcp", w.Addresses.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * bridgetest.Patience))
		answers := bufio.NewReader(conn)
		look := func() int {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.HTTPURL("/readyz"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := request.Write(conn); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(answers, request)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			return response.StatusCode
		}
		look()
		stop := w.flood(t, 1_000_000) // until another file is needed
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "that the bridge says it is not ready", func() bool { return look() == http.StatusServiceUnavailable })
		stop()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		w.works(t, "after")
	})
}

// flood publishes for who is away, until the returned function is called.
func (w *worn) flood(t *testing.T, size int) (stop func()) {
	c := w.Connect(t, "hopeful")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = c.Publish(ctx, &paho.Publish{Topic: "x/more", QoS: 1, Payload: make([]byte, size)})
		}
	}()
	return func() {
		cancel()
		c.Drop()
		<-done
	}
}
