package sessions

import (
	"slices"

	"github.com/aibridge/aibridge/broker"
)

// An echo is a question to all other bridges, which each answers behind all that it
// has published until it was asked.
type echo struct {
	number  uint64
	missing []Node // bridges that have not answered
	then    func()
}

// listen calls then when all earlier publications of the other bridges for this one
// have been received.
func (m *machine) listen(id broker.SessionID, then func()) (number uint64) {
	e := &echo{number: m.next(), missing: slices.Clone(m.living), then: then}
	m.echoes[e.number] = e
	for _, n := range e.missing {
		m.send(n, &message{kind: msgEcho, op: e.number, id: id})
	}
	e.look(m)
	return e.number
}

func (e *echo) heard(m *machine, from Node) {
	e.missing = slices.DeleteFunc(e.missing, func(n Node) bool { return n == from })
	e.look(m)
}

// look checks for outstanding answers, after an answer and after a change of the
// members.
func (e *echo) look(m *machine) {
	e.missing = slices.DeleteFunc(e.missing, func(n Node) bool { return !m.alive(n) })
	if len(e.missing) == 0 {
		delete(m.echoes, e.number)
		e.then()
	}
}
