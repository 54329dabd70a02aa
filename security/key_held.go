package security

import "github.com/aibridge/aibridge/protocol"

// Held lists the keys of a party, live or not, in no order.
func (s *KeyService) Held(party protocol.Party) (held []KeyView) {
	for _, k := range s.Index.Of(party) {
		held = append(held, s.view(k))
	}
	return held
}
