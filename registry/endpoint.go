package registry

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/egress"
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
// was registered over MQTT, which is called there only.
func (s *Service) callable(a *Agent) []string {
	if a.ClientID != "" {
		return nil
	}
	return s.mayCall(a.Endpoints)
}

// mayCall lists the http(s) endpoints that are not known to be refused.
func (s *Service) mayCall(endpoints []string) []string {
	g := egress.Guard{AllowPrivate: s.opts.AllowPrivate}
	return slices.DeleteFunc(overHTTP(endpoints), func(e string) bool { return g.RefusesURL(e) != "" })
}

// warnOfEndpoints warns the registrar of endpoints of those that the bridge will not
// call.
func (s *Service) warnOfEndpoints(call *commands.Call, path string, endpoints []string) {
	for i, e := range endpoints {
		reason := egress.Guard{AllowPrivate: s.opts.AllowPrivate}.RefusesURL(e)
		if reason == "" || !isHTTP(e) {
			continue
		}
		hint := "no setting admits it"
		if (egress.Guard{AllowPrivate: true}).RefusesURL(e) == "" {
			hint = "the bridge's setting skills.allow_private would admit it"
		}
		call.Warn("%s: the bridge does not call this address (%s); %s", itemPath(path, i, ""), reason, hint)
	}
}
