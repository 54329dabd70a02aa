package commands

// Joined reports whether somebody waits for the answer to another's request
// of that id.
func (r *Router) Joined(id string) bool {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	for _, e := range r.ledger.running.at {
		if e != nil && e.owner.RequestID == id && len(e.joined) > 0 {
			return true
		}
	}
	return false
}
