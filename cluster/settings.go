package cluster

import (
	"cmp"
	"net"
	"regexp"
	"slices"
	"strconv"
)

// Settings configure a bridge that shares its state with others.
type Settings struct {
	Working string `yaml:"working" doc:"number of bridges of one state and root that work at a time: one, with the others standing by, or all"`

	Join           []string `yaml:"join" doc:"addresses of the three or five bridges that keep the state together, this one's too; a bridge that is not among them keeps no copy"`
	Listen         string   `yaml:"listen" doc:"address for the other bridges, which share the state without a NATS to install"`
	Advertise      string   `yaml:"advertise" doc:"address under which the others reach it, if not cluster.listen"`
	Key            string   `yaml:"key" doc:"file with the key of the cluster, which aibridge cluster init makes"`
	Relay          string   `yaml:"relay" doc:"address for direct connections with the other bridges that work, over which messages then go instead of NATS; off if empty"`
	RelayAdvertise string   `yaml:"relay_advertise" doc:"address under which the others reach cluster.relay, if not that"`
	Window         int      `yaml:"drain_window_seconds" doc:"over how long a bridge that ends sends its clients to the others, so that they do not all come at once"`
	Name           string   `yaml:"name" doc:"name of the cluster that the bridges form"`
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// DefaultSettings returns the settings of a bridge that works alone, with standbys.
func DefaultSettings() Settings { return Settings{Working: string(One), Window: 5, Name: "aibridge"} }

// MostWindow is the greatest number of seconds over which clients are sent to other
// bridges.
const MostWindow = 600

// Formed reports whether the bridges form the cluster themselves, and keep the
// state in it.
func (s *Settings) Formed() bool { return len(s.Join) > 0 }

// Address is the place where the other bridges reach this one.
func (s *Settings) Address() string { return cmp.Or(s.Advertise, s.Listen) }

// First reports whether this bridge is the first of those that form the cluster: it
// starts the cluster, and does all one-time initialization.
func (s *Settings) First() bool { return s.Formed() && s.Address() == s.Join[0] }

// Copies returns the number of replicas of stored data among the bridges that form the
// cluster.
func (s *Settings) Copies() int { return min(len(s.Join), 3) }

// Check reports the faults of the settings to fail. shared reports whether other
// bridges can reach the state, files whether the contents of files are stored there
// too.
func (s *Settings) Check(shared, files bool, fail func(format string, args ...any)) {
	switch Working(s.Working) {
	case One:
	case All:
		if !shared {
			fail("cluster.working: all needs a state that the bridges share; set cluster.join, or nats.url")
		}
		if shared && !files {
			fail("cluster.working: all needs contents of files where all bridges reach them; set vfs.store to nats")
		}
	default:
		fail("cluster.working: %q is neither one nor all", s.Working)
	}
	if s.Window < 0 || s.Window > MostWindow {
		fail("cluster.drain_window_seconds: %d is not within 0 and %d", s.Window, MostWindow)
	}
	s.checkRelay(fail)
	if !s.Formed() {
		for name, value := range map[string]string{"listen": s.Listen, "advertise": s.Advertise, "key": s.Key} {
			if value != "" {
				fail("cluster.%s: needs cluster.join, the addresses of the bridges that form the cluster", name)
			}
		}
		return
	}
	s.checkFormed(fail)
}

// checkFormed reports the faults of the settings of a cluster formed by bridges to
// fail.
func (s *Settings) checkFormed(fail func(format string, args ...any)) {
	if n := len(s.Join); n != 3 && n != 5 {
		fail("cluster.join: three or five bridges keep the state, not %d: of two, each would stop the other; of more, each write would wait for more disks. Further bridges join without being in the list", n)
	}
	for i, member := range s.Join {
		if !isAddress(member) {
			fail("cluster.join[%d]: %q is not host:port", i, member)
		}
		if slices.Contains(s.Join[:i], member) {
			fail("cluster.join[%d]: %s is in the list twice", i, member)
		}
	}
	s.checkListen(fail)
	if s.Key == "" {
		fail("cluster.key: is needed, so that nobody else joins; aibridge cluster init makes one")
	}
	if !nameRule.MatchString(s.Name) {
		fail("cluster.name: %q must be letters, digits, - and _", s.Name)
	}
}

// checkListen reports an address that other bridges could not reach. A bridge that
// listens on all interfaces must advertise the address of one.
func (s *Settings) checkListen(fail func(format string, args ...any)) {
	host, port, err := net.SplitHostPort(s.Listen)
	everywhere := err == nil && host == "" && isAddress("localhost:"+port)
	if everywhere && s.Advertise == "" {
		fail("cluster.listen: %q leads nobody here; set cluster.advertise to where the others reach it", s.Listen)
		return
	}
	if !everywhere && !isAddress(s.Listen) {
		fail("cluster.listen: %q is not host:port", s.Listen)
	}
	if !isAddress(s.Address()) {
		fail("cluster.advertise: %q is not host:port", s.Address())
	}
}

// checkRelay reports the faults of the settings of direct connections to fail.
func (s *Settings) checkRelay(fail func(format string, args ...any)) {
	host, _, err := net.SplitHostPort(s.Relay)
	ip := net.ParseIP(host)
	switch {
	case s.Relay == "" && s.RelayAdvertise == "":
	case s.Relay == "":
		fail("cluster.relay_advertise: needs cluster.relay, the address to listen at")
	case Working(s.Working) != All:
		fail("cluster.relay: needs cluster.working all; where one bridge works, nothing is relayed")
	case err != nil:
		fail("cluster.relay: %q is not host:port", s.Relay)
	case s.RelayAdvertise != "" && !isAddress(s.RelayAdvertise):
		fail("cluster.relay_advertise: %q is not host:port", s.RelayAdvertise)
	case s.RelayAdvertise == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		fail("cluster.relay: %q leads nobody here; set cluster.relay_advertise to where the others reach it", s.Relay)
	}
}

// isAddress reports whether text is host:port with a port that can be dialled.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && host != "" && n > 0 && n < 1<<16
}
