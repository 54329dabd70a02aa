package gate

// The most connections there may be by default, however many descriptors there
// are, and the most of them from strangers.
const (
	mostConnections = 1 << 20
	mostStrangers   = 4096
)

// unlimited stands for a number of descriptors that is never reached.
const unlimited = 2 * mostConnections

// Complete sets the limits that are 0 by how many descriptors the process may
// have: a quarter of these is for files and connections that the bridge itself
// makes, and a quarter of the connections for strangers.
func (l Limits) Complete(descriptors int) Limits {
	if l.Connections <= 0 {
		l.Connections = min(max(descriptors-max(descriptors/4, 256), 64), mostConnections)
	}
	if l.Strangers <= 0 {
		l.Strangers = min(max(l.Connections/4, 1), mostStrangers)
	}
	l.Strangers = min(l.Strangers, max(l.Connections/2, 1))
	if l.PerAddress <= 0 {
		l.PerAddress = max(l.Strangers/2, 1)
	}
	return l
}
