// Package egress decides which addresses the bridge calls on behalf of principals,
// which might name endpoints and URLs that they cannot reach themselves.
package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// A Guard decides which addresses may be called: cloud metadata and addresses that
// belong to no host are refused, and, unless they are allowed, loopback and private
// ones.
type Guard struct{ AllowPrivate bool }

// Control implements net.Dialer.Control. It is asked when a connection is made,
// with the address itself: names were resolved by then, so a name that changes
// its mind gains nothing.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{address, "not an IP address"}
	}
	if reason := g.Refuses(target.Addr()); reason != "" {
		return &BlockedError{target.Addr().String(), reason}
	}
	return nil
}

// Refuses is the reason why an address may not be called, or "".
func (g Guard) Refuses(a netip.Addr) string {
	a = inner(a.WithZone(""))
	if inAny(a, metadata) {
		return "cloud metadata"
	}
	if inAny(a, never6) || inAny(a, never4) || a.IsMulticast() || a.IsUnspecified() {
		return "not a public address"
	}
	if g.AllowPrivate {
		return ""
	}
	if a.IsLoopback() {
		return "loopback"
	}
	if a.IsPrivate() || inAny(a, private) {
		return "private"
	}
	return ""
}

// inner unwraps the IPv4 address that some IPv6 addresses are a way of
// writing: mapped, compatible, NAT64, 6to4 and Teredo.
func inner(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case compatible.Contains(a) && !a.IsUnspecified() && !a.IsLoopback(), nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{b[12] ^ 0xff, b[13] ^ 0xff, b[14] ^ 0xff, b[15] ^ 0xff})
	}
	return a
}

var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")

	// Reachable only from inside a cloud, and full of credentials.
	metadata = prefixes("169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128")

	// Nothing worth calling lives here: this network, protocol assignments,
	// documentation, benchmarks, reserved, link-local, site-local, local
	// NAT64, discard-only.
	never4 = prefixes("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4")
	never6 = prefixes("fe80::/10", "fec0::/10", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16")

	// Private besides what netip calls so: shared address space of carriers.
	private = prefixes("100.64.0.0/10")
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func inAny(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// A BlockedError is the error of a connection to a refused address.
type BlockedError struct{ Address, Reason string }

// Error names the address and why it is refused.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("the bridge does not call %s: %s", e.Address, e.Reason)
}

// RefusesURL is the reason why a URL may not be called, as far as the URL alone
// shows it, or "". Names are resolved and checked on each call.
func (g Guard) RefusesURL(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "not a URL"
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	return g.Refuses(addr)
}
