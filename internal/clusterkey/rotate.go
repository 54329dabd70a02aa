package clusterkey

// A Step is one of the three in which the key of the routes is rotated. Bridges are
// restarted one after the other between them: bridges before a step and behind it
// accept each other.
type Step int

// The steps.
const (
	Announced Step = iota + 1 // the next key is let in, the old one is shown
	Turned                    // the next key is shown, the old one let in
	Finished                  // the old key is let in no more
)

// Rotate makes the key with which the rotation of the routes goes on by a step: it
// begins one if none is under way. The secrets stay.
func (k *Key) Rotate() (*Key, Step) {
	next, step := &Key{Routes: k.Routes, Secrets: k.Secrets}, Finished
	switch {
	case k.Next != nil:
		next.Routes, next.Last, step = k.Next, k.Routes, Turned
	case k.Last == nil:
		next.Next, step = random(RoutesBytes), Announced
	}
	return next, step
}

// AlsoRoutes are the keys of routes that are accepted besides the shown one.
func (k *Key) AlsoRoutes() (keys [][]byte) {
	for _, key := range [][]byte{k.Next, k.Last} {
		if key != nil {
			keys = append(keys, key)
		}
	}
	return keys
}
