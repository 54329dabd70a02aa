package membercert

import (
	"bytes"
	"crypto/tls"
	"testing"
)

// TestMembersKnowEachOtherByTheirSecret has two sides shake hands.
func TestMembersKnowEachOtherByTheirSecret(t *testing.T) {
	type side struct {
		secret    byte
		use, name string
	}
	member := side{1, "tests", "a.test"}
	for name, test := range map[string]struct {
		dials, wants side
		knows        [][]byte // besides
		fits         bool
	}{
		"the same":                         {dials: member, wants: member, fits: true},
		"another secret":                   {dials: side{2, "tests", "a.test"}, wants: member},
		"another use":                      {dials: side{1, "trials", "a.test"}, wants: member},
		"another name":                     {dials: member, wants: side{1, "tests", "b.test"}},
		"each knows the other's":           {dials: side{3, "tests", "a.test"}, wants: member, knows: [][]byte{bytes.Repeat([]byte{1}, 32)}, fits: true},
		"only one knows the other's":       {dials: side{3, "tests", "a.test"}, wants: member},
		"only the other knows one's":       {dials: side{2, "tests", "a.test"}, wants: member, knows: [][]byte{bytes.Repeat([]byte{1}, 32)}},
		"what is known is for one use too": {dials: side{3, "trials", "a.test"}, wants: member, knows: [][]byte{bytes.Repeat([]byte{1}, 32)}},
	} {
		t.Run(name, func(t *testing.T) {
			answers, err := TLS(bytes.Repeat([]byte{1}, 32), "tests", "a.test", bytes.Repeat([]byte{3}, 32))
			if err != nil {
				t.Fatal(err)
			}
			dials, err := TLS(bytes.Repeat([]byte{test.dials.secret}, 32), test.dials.use, test.dials.name, test.knows...)
			if err != nil {
				t.Fatal(err)
			}
			dials.ServerName = test.wants.name
			listener, err := tls.Listen("tcp", "127.0.0.1:0", answers)
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				there, err := listener.Accept()
				if err == nil {
					err = there.(*tls.Conn).Handshake()
					_ = there.Close()
				}
				answered <- err
			}()
			client, err := tls.Dial("tcp", listener.Addr().String(), dials)
			if err == nil {
				defer client.Close()
			}
			_ = listener.Close()
			if other := <-answered; err == nil {
				err = other
			}
			if (err == nil) != test.fits {
				t.Errorf("the handshake ended with %v", err)
			}
		})
	}
}
