// Package cleartext says where a credential may be sent without TLS. It is asked
// before the bridge sends one to models, MCP servers, webhooks, collectors of
// traces or remote VFSs.
package cleartext

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Exposes is the reason why a credential may not be sent to a URL, "" if it may: it
// would cross the internet in the clear.
func Exposes(u *url.URL) string {
	if u.Scheme != "http" || Nearby(u.Hostname()) {
		return ""
	}
	return "must begin with https://, for " + u.Hostname() + " is not on this machine or network"
}

// own are the last parts of names that do not exist on the internet.
var own = []string{"local", "localhost", "internal", "lan", "home", "arpa", "svc", "test"}

// Nearby reports whether a host is one of the own machine or network, as far as its
// name shows.
func Nearby(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
	}
	_, domain, dotted := strings.Cut(strings.TrimSuffix(host, "."), ".")
	if i := strings.LastIndexByte(domain, '.'); i >= 0 {
		domain = domain[i+1:]
	}
	return !dotted || slices.Contains(own, domain)
}
