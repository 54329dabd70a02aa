package registry

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
)

// overHTTP lists the endpoints that can be called with a POST.
func overHTTP(endpoints []string) []string {
	var urls []string
	for _, e := range endpoints {
		if isHTTP(e) {
			urls = append(urls, e)
		}
	}
	return urls
}

func isHTTP(endpoint string) bool {
	return strings.HasPrefix(endpoint, "http://") || strings.HasPrefix(endpoint, "https://")
}

// callable lists the endpoints that an agent may be called at: none for one that
// was registered over MQTT, which is asked there or not at all.
func (s *Service) callable(a *Agent) []string {
	if a.ClientID != "" {
		return nil
	}
	return s.mayCall(a.Endpoints)
}

// mayCall lists the http(s) endpoints that are not known to be refused.
func (s *Service) mayCall(endpoints []string) []string {
	g := guard{s.opts.AllowPrivate}
	return slices.DeleteFunc(overHTTP(endpoints), func(e string) bool { return g.refusesURL(e) != "" })
}

// refusesURL says why an endpoint may not be called, as far as it tells by
// itself, or "". Where names lead is seen when they are called.
func (g guard) refusesURL(endpoint string) string {
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
	return g.refuses(addr)
}

// warnOfEndpoints warns whoever registers endpoints of those that the bridge
// will not call.
func (s *Service) warnOfEndpoints(call *commands.Call, path string, endpoints []string) {
	for i, e := range endpoints {
		reason := guard{s.opts.AllowPrivate}.refusesURL(e)
		if reason == "" || !isHTTP(e) {
			continue
		}
		hint := "no setting admits it"
		if (guard{allowPrivate: true}).refusesURL(e) == "" {
			hint = "the bridge's setting skills.allow_private would admit it"
		}
		call.Warn("%s: the bridge does not call this address (%s); %s", itemPath(path, i, ""), reason, hint)
	}
}
