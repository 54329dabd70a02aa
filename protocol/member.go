package protocol

// Member returns the value of a member of a JSON object as it stands there, nil if the
// object has no such member or is no valid one so far. The object is read as far as the
// member.
func Member(object []byte, name string) []byte {
	depth := Limits{}.withDefaults().MaxDepth
	s := scanner{data: object, room: depth, depth: depth}
	s.space()
	if s.peek() != '{' || !s.enter() {
		return nil
	}
	for s.peek() == '"' {
		key, ok := s.str()
		if s.space(); !ok || s.peek() != ':' {
			return nil
		}
		s.pos++
		s.space()
		start := s.pos
		if _, ok = s.value(noScope); !ok {
			return nil
		}
		if string(s.bytes(key)) == name {
			return object[start:s.pos]
		}
		if s.space(); s.peek() != ',' {
			return nil
		}
		s.pos++
		s.space()
	}
	return nil
}
