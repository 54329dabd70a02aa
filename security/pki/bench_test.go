package pki

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// revokedWorld has some thousand revoked certificates, and one that is fine.
func revokedWorld(b *testing.B, n int) (*world, *holder) {
	b.Helper()
	w := newWorld(b)
	key := ecdsaKey(b).Public()
	scope := &Scope{Version: 1, Kind: protocol.KindAgent, ID: "x", Space: "default", Skill: "x"}
	for range n {
		c := &Certificate{Serial: newSerial(), Authority: Operator, IssuedAt: time.Now(), Revoked: &Revocation{At: time.Now(), Reason: "lost"}}
		var err error
		if c.DER, err = w.sign(w.cas().granting(Operator), c, order{authority: Operator, scope: scope, public: key, validity: day}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.state.certificates.Create(b.Context(), string(c.Serial), c); err != nil {
			b.Fatal(err)
		}
	}
	return w, w.hold()
}

func eachSize(b *testing.B, run func(b *testing.B, w *world, h *holder)) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("revoked=%d", n), func(b *testing.B) {
			w, h := revokedWorld(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, w, h)
		})
	}
}

func BenchmarkValid(b *testing.B) {
	eachSize(b, func(b *testing.B, w *world, h *holder) {
		for b.Loop() {
			if err := w.Valid(h.serial); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIdentify(b *testing.B) {
	eachSize(b, func(b *testing.B, w *world, h *holder) {
		for b.Loop() {
			if _, err := w.Identify(h.cert); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHandshake is a mutual TLS 1.3 handshake over loopback, both sides
// in this process.
func BenchmarkHandshake(b *testing.B) {
	for name, resumed := range map[string]bool{"full": false, "resumed": true} {
		b.Run(name, func(b *testing.B) {
			eachSize(b, func(b *testing.B, w *world, h *holder) {
				l := w.listen()
				change := func(*tls.Config) {}
				if resumed {
					cache := tls.NewLRUClientSessionCache(1)
					change = func(c *tls.Config) { c.ClientSessionCache = cache }
				}
				for b.Loop() {
					if _, err := w.dial(l, &h.tls, change); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkRevocationList signs the list of ten thousand.
func BenchmarkRevocationList(b *testing.B) {
	w, _ := revokedWorld(b, 10_000)
	b.ResetTimer()
	for b.Loop() {
		if _, err := w.makeList(string(Operator), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
