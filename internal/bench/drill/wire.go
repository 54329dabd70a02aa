package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// An endpoint is where a bridge serves.
type endpoint struct{ name, mqtt, http string }

// A wire is one connection of a client, with the MQTT 5 packets of another project's
// library.
type wire struct {
	node    string
	number  int // of the client's connections
	present bool
	will    *will // Will of its CONNECT
	conn    net.Conn
	read    *bufio.Reader

	writing sync.Mutex
}

// dial connects and has CONNECT answered, all within the patience.
func dial(ctx context.Context, to endpoint, connect *packets.Connect, patience time.Duration) (*wire, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", to.mqtt)
	if err != nil {
		return nil, err
	}
	w := &wire{node: to.name, conn: conn, read: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(patience))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := w.write(connect); err != nil {
		_ = conn.Close()
		return nil, err
	}
	answer, err := packets.ReadPacket(w.read)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	connack, ok := answer.Content.(*packets.Connack)
	if !ok || connack.ReasonCode != 0 {
		_ = conn.Close()
		return nil, fmt.Errorf("CONNECT was answered by %s", answer)
	}
	_ = conn.SetDeadline(time.Time{})
	w.present = connack.SessionPresent
	return w, nil
}

// write sends a packet. The connection is of no use after an error, and its
// reader learns that too.
func (w *wire) write(packet packets.Packet) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	_, err := packet.WriteTo(w.conn)
	if err != nil {
		_ = w.conn.Close()
	}
	return err
}

// timedOut reports whether an error is a timeout.
func timedOut(err error) bool {
	var slow net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}
