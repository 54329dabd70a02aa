package broker

import (
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// FuzzConversation sends whatever comes after a CONNECT, cut into pieces: the
// broker must neither panic nor lose its other clients.
func FuzzConversation(f *testing.F) {
	for _, s := range []string{
		"30 06 0001 61 00 6869",
		"82 07 0001 00 0001 61 01 32 08 0001 61 0005 00 6869 40 02 0001",
		"34 08 0001 61 0005 00 6869 62 02 0005 50 02 0001 70 02 0001 c000",
		"82 0f 0001 02 0b05 0009 2473686172652f672f61 01",
		"33 10 0001 61 0005 08 230001 0200000001 6869",
		"a2 06 0001 00 0001 61 e0 00",
		"f0 00",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			continue
		}
		f.Add(b, byte(5), byte(3))
		f.Add(b, byte(4), byte(200))
	}
	n := startNode(f, 1, func(o *Options) { o.Journal = new(MemoryJournal) })
	f.Cleanup(func() { n.t = f; n.stop() })
	watch := n.connect(5, "watch")
	f.Fuzz(func(t *testing.T, b []byte, version, cut byte) {
		n.t, watch.t = t, t
		version = 4 + version&1
		nc, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := packet.Connect{Version: version, CleanStart: len(b)%3 == 0, ClientID: []byte("fuzz")}
		if version == 5 {
			c.Properties.SetNumber(packet.SessionExpiry, uint32(len(b)%2))
		}
		out := append(c.Append(nil), b...)
		for len(out) > 0 {
			k := min(len(out), int(cut)+1)
			if _, err := nc.Write(out[:k]); err != nil {
				break
			}
			out = out[k:]
		}
		_ = nc.(*net.TCPConn).CloseWrite()
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		for buf := make([]byte, 4096); ; {
			if _, err := nc.Read(buf); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Error("connection hangs")
				}
				break
			}
		}
		watch.quiet()
	})
}
