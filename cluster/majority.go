package cluster

import (
	"slices"
	"strings"
)

// Lacking lists the addresses of a list of bridges that keep the state under which
// no member does that will go on doing so. The state can be written while they are
// fewer than half of the list.
func Lacking(list []string, members []Member) (away []string) {
	for _, address := range list {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Keeps == address && m.State != Draining }) {
			away = append(away, address)
		}
	}
	return away
}

// agreed is a list in which all bridges must agree, whatever its order.
func agreed(list []string) string {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}

// Agreement are the settings in which all bridges of a cluster must agree, beside
// cluster.working.
func (s *Settings) Agreement() map[string]string {
	if !s.Formed() {
		return map[string]string{}
	}
	return map[string]string{"cluster.join": agreed(s.Join)}
}

// Keeps is the address under which this bridge keeps a copy of the state, "" for a
// bridge that keeps none.
func (s *Settings) Keeps() string {
	if slices.Contains(s.Join, s.Address()) {
		return s.Address()
	}
	return ""
}
