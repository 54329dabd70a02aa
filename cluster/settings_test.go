package cluster

import (
	"fmt"
	"strings"
	"testing"
)

func TestSettingsOfAClusterAreChecked(t *testing.T) {
	three := []string{"a:1", "b:1", "c:1"}
	good := Settings{Working: "one", Name: "home", Join: three, Listen: "a:1", Key: "home.key"}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string // "" for nothing
	}{
		"three":              {func(*Settings) {}, ""},
		"alone":              {func(s *Settings) { *s = DefaultSettings() }, ""},
		"further":            {func(s *Settings) { s.Listen = "d:1" }, ""},
		"all interfaces":     {func(s *Settings) { s.Listen, s.Advertise = "0.0.0.0:1", "a:1" }, ""},
		"two":                {func(s *Settings) { s.Join = three[:2] }, "cluster.join: three or five bridges keep the state, not 2"},
		"one twice":          {func(s *Settings) { s.Join = []string{"a:1", "b:1", "a:1"} }, "cluster.join[2]: a:1 is in the list twice"},
		"no port":            {func(s *Settings) { s.Join = []string{"a:1", "b", "c:1"} }, `cluster.join[1]: "b" is not host:port`},
		"port of no use":     {func(s *Settings) { s.Listen = "a:0" }, `cluster.listen: "a:0" is not host:port`},
		"nowhere":            {func(s *Settings) { s.Listen = "" }, `cluster.listen: "" is not host:port`},
		"all, told":          {func(s *Settings) { s.Listen, s.Advertise = ":1", "a:1" }, ""},
		"everywhere, unsaid": {func(s *Settings) { s.Listen, s.Advertise = ":1", "" }, `cluster.listen: ":1" leads nobody here; set cluster.advertise`},
		"no host":            {func(s *Settings) { s.Advertise = ":1" }, `cluster.advertise: ":1" is not host:port`},
		"no key":             {func(s *Settings) { s.Key = "" }, "cluster.key: is needed"},
		"a name with spaces": {func(s *Settings) { s.Name = "my home" }, `cluster.name: "my home" must be letters`},
		"a key alone":        {func(s *Settings) { s.Join, s.Listen = nil, "" }, "cluster.key: needs cluster.join"},
		"all of one":         {func(s *Settings) { *s = Settings{Working: "all"} }, "cluster.working: all needs a state that the bridges share"},
		"too long a window":  {func(s *Settings) { s.Window = 601 }, "cluster.drain_window_seconds: 601 is not within 0 and 600"},
		"lines":              {func(s *Settings) { s.Working, s.Relay = "all", "a:0" }, ""},
		"lines elsewhere":    {func(s *Settings) { s.Working, s.Relay, s.RelayAdvertise = "all", ":7000", "a:7000" }, ""},
		"lines of one":       {func(s *Settings) { s.Relay = "a:7000" }, "cluster.relay: needs cluster.working all"},
		"lines everywhere":   {func(s *Settings) { s.Working, s.Relay = "all", "0.0.0.0:7000" }, "set cluster.relay_advertise"},
		"lines to no port":   {func(s *Settings) { s.Working, s.Relay = "all", "a" }, `cluster.relay: "a" is not host:port`},
		"lines from nowhere": {func(s *Settings) { s.RelayAdvertise = "a:7000" }, "cluster.relay_advertise: needs cluster.relay"},
		"lines to port 0":    {func(s *Settings) { s.Working, s.Relay, s.RelayAdvertise = "all", "a:0", "a:0" }, `cluster.relay_advertise: "a:0" is not host:port`},
		"some":               {func(s *Settings) { s.Working = "some" }, `cluster.working: "some" is neither one nor all`},
	} {
		s, told := good, []string{}
		test.change(&s)
		s.Check(s.Formed(), s.Formed(), func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) })
		if test.want == "" && len(told) > 0 || test.want != "" && !strings.Contains(strings.Join(told, "\n"), test.want) {
			t.Errorf("%s: told %q, want %q", name, told, test.want)
		}
	}
}
