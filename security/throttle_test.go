package security

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func address(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(i))
	return netip.AddrFrom4(b)
}

func TestTheThrottleForgetsRatherThanGrows(t *testing.T) {
	th := &NewThrottle(time.Now).addresses
	for i := range maxRemembered + 100 {
		th.failed(address(i))
	}
	if n := len(th.offenders); n != maxRemembered {
		t.Errorf("remembers %d addresses", n)
	}
}

func TestTheThrottleForgetsThoseThatNeedNotBeRememberedFirst(t *testing.T) {
	now := time.Unix(0, 0)
	th := &NewThrottle(func() time.Time { return now }).addresses
	for i := range maxRemembered {
		th.failed(address(i))
	}
	now = now.Add(waitFor)
	th.failed(address(maxRemembered))
	if n := len(th.offenders); n != maxRemembered-sampled+1 {
		t.Errorf("remembers %d addresses", n)
	}
	if th.offenders[address(maxRemembered)] == nil {
		t.Error("forgot the latest")
	}
}

func TestAddressesOfOneSiteCountAsOne(t *testing.T) {
	for _, same := range [][2]string{
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"}, {"::ffff:192.0.2.1", "192.0.2.1"}, {"fe80::1%eth0", "fe80::2%eth1"},
	} {
		if a, b := prefix(netip.MustParseAddr(same[0])), prefix(netip.MustParseAddr(same[1])); a != b {
			t.Errorf("%s and %s are %s and %s", same[0], same[1], a, b)
		}
	}
	for _, apart := range [][2]string{{"2001:db8::1", "2001:db8:0:1::1"}, {"192.0.2.1", "192.0.2.2"}} {
		if a, b := prefix(netip.MustParseAddr(apart[0])), prefix(netip.MustParseAddr(apart[1])); a == b {
			t.Errorf("%s and %s are both %s", apart[0], apart[1], a)
		}
	}
	if prefix(netip.Addr{}) != (netip.Addr{}) {
		t.Error("no address is one")
	}
}

func BenchmarkThrottleUnderAttackFromEverywhere(b *testing.B) {
	th := &NewThrottle(time.Now).addresses
	i := 0
	for b.Loop() {
		th.failed(address(i))
		i++
	}
}

func TestThrottlesHearOfFailuresElsewhere(t *testing.T) {
	now := time.Unix(0, 0)
	here, there := NewThrottle(func() time.Time { return now }), NewThrottle(func() time.Time { return now })
	here.Shared()
	there.Shared()
	for i := range freeFailures {
		if _, wait := here.failed(address(1), "user anna"); wait > 0 {
			t.Fatalf("failure %d has to wait", i)
		}
	}
	there.Heard(here.News())
	if _, wait := there.failed(address(1)); wait != waitFor {
		t.Errorf("the address has to wait for %v", wait)
	}
	if _, wait := there.failed(address(2), "user anna"); wait != waitFor {
		t.Errorf("the name has to wait for %v", wait)
	}
	if _, wait := there.failed(address(2), "user bob"); wait != 0 {
		t.Errorf("another name has to wait for %v", wait)
	}
	if news := here.News(); len(news) != 0 {
		t.Errorf("it is told again: %v", news)
	}
	for range 2 * mostNews {
		here.failed(address(3))
	}
	if news := here.News(); len(news) != freeFailures {
		t.Errorf("%d failures are told: those that are not answered count nowhere", len(news))
	}
}
