package cluster

import (
	"slices"
	"strings"
)

// Lacking returns those addresses, of a list of bridges that keep the state, at which
// no member keeps it now or all that do are draining. The state can be written while
// they are fewer than half of the list.
func Lacking(list []string, members []Member) (away []string) {
	for _, address := range list {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Keeps == address && m.State != Draining }) {
			away = append(away, address)
		}
	}
	return away
}

// agreed returns a list of settings as text for comparison between bridges, independent
// of its order.
func agreed(list []string) string {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}

// joinSetting is the list of bridges that keep the state, see [Settings.Join].
const joinSetting = "cluster.join"

// Agreement are the settings in which all bridges of a cluster must agree, beside
// cluster.working.
func (s *Settings) Agreement() map[string]string {
	if !s.Formed() {
		return map[string]string{}
	}
	return map[string]string{joinSetting: agreed(s.Join)}
}

// Keeps is the address under which this bridge keeps a copy of the state, "" for a
// bridge that keeps none.
func (s *Settings) Keeps() string {
	if slices.Contains(s.Join, s.Address()) {
		return s.Address()
	}
	return ""
}
