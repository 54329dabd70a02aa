package ask

import "sync"

// handoversKept is the greatest size of each of the two generations of a [handovers].
const handoversKept = 16_384

// Handovers are the bridges that have handed requests to this one, for requests with
// ids that do not name their bridge: the record of a dispatch names it, and an agent
// may answer before this bridge has that record. The oldest are forgotten; by then
// it has.
type handovers struct {
	mu         sync.Mutex
	young, old map[string]Bridge // by id of the request
}

func (h *handovers) note(id string, from Bridge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.young == nil || len(h.young) >= handoversKept {
		h.young, h.old = make(map[string]Bridge), h.young
	}
	h.young[id] = from
}

func (h *handovers) of(id string) (Bridge, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.young[id]; ok {
		return b, true
	}
	b, ok := h.old[id]
	return b, ok
}

// asker is the bridge that waits for the answer to a request.
func (s *Service) asker(id string) (Bridge, bool) {
	if b, ok := s.opts.Others.Asker(id); ok {
		return b, true
	}
	return s.handovers.of(id)
}
