package drill

import (
	"math"
	"slices"
)

// listener checks the deliveries to one listener.
func (j *judge) listener(l Listener) {
	c := j.client(l.Name)
	if len(c.subscribed) == 0 {
		return
	}
	for _, m := range j.order {
		got := c.got[m.messageKey]
		if len(got) == 0 {
			j.missed(l, c, m)
			continue
		}
		if m.qos == 2 && !l.Kept {
			got = j.inOneSession(got)
		}
		j.repeats(l.Name, m, got, func(first, last int) int { return count(c.opened, first, last) })
	}
	if l.Group != "" { // MQTT promises no order there [MQTT-4.6.0-6]
		return
	}
	for _, indexes := range c.streams {
		j.inOrder(l.Name, indexes)
	}
}

// inOneSession returns, for a client whose sessions end with its connections, the
// deliveries of the session with the most.
func (j *judge) inOneSession(got []int) (most []int) {
	sessions := make(map[int][]int)
	for _, i := range got {
		n := j.history[i].Connection
		if sessions[n] = append(sessions[n], i); len(sessions[n]) > len(most) {
			most = sessions[n]
		}
	}
	return most
}

// missed decides whether a message that a listener did not get was owed to it.
func (j *judge) missed(l Listener, c *clientView, m *message) {
	switch {
	case m.qos == 0:
		if c.heardSince(m.sent) && j.client(m.publisher).stillOn(m.connection, j.history) {
			j.at(m.sent).tally.LostQoS0++
			j.breach(QoS0, m.sent, "%s did not get %s %d, of QoS 0, though neither it nor the publisher lost a connection since", l.Name, m.stream, m.number)
		}
	case m.acked < 0:
	case l.Kept && c.subscribed[0] < m.sent, !l.Kept && c.heardSince(m.sent):
		j.at(m.sent).tally.Lost++
		j.lost(m, l.Name)
	}
}

// lost records the loss of a message: as a breach of Frozen if a stopped or cut-off
// bridge acknowledged it, and else of the general promise.
func (j *judge) lost(m *message, who string) {
	r := j.at(m.acked)
	cut := r.tally.Fault == Pause || r.tally.Fault == Partition
	if cut && m.acked > r.fault && m.ackedBy == r.tally.Node {
		j.breach(Frozen, m.acked, "%s %d was acknowledged by %s after it was stopped or cut off, and never came to %s", m.stream, m.number, m.ackedBy, who)
		return
	}
	j.breach(Acknowledged, m.sent, "%s %d of QoS %d, acknowledged by %s, never came to %s", m.stream, m.number, m.qos, m.ackedBy, who)
}

// heardSince reports whether the client has been connected and subscribed since
// before an event until the history's end.
func (c *clientView) heardSince(index int) bool {
	last := c.subscribed[len(c.subscribed)-1]
	return last < index && count(c.closed, last, math.MaxInt) == 0 && count(c.opened, last, math.MaxInt) == 0
}

// stillOn reports whether a connection of the client is its last and still open.
func (c *clientView) stillOn(connection int, h History) bool {
	if len(c.opened) == 0 {
		return false
	}
	last := c.opened[len(c.opened)-1]
	return h[last].Connection == connection && count(c.closed, last, math.MaxInt) == 0
}

// repeats checks repeated deliveries of a message. breaks returns the number of the
// receiver's connections that began between two events.
func (j *judge) repeats(who string, m *message, got []int, breaks func(first, last int) int) {
	extra := len(got) - 1
	switch {
	case extra == 0:
	case m.qos == 2:
		j.at(m.sent).tally.Doubled += extra
		promise := ExactlyOnce
		if m.elsewhere {
			promise = RepeatsOnce
		}
		j.breach(promise, m.sent, "%s %d of QoS 2 came to %s %d times, sent %d times", m.stream, m.number, who, len(got), m.times)
	case m.qos == 1 && (extra <= m.times-1+breaks(got[0], got[len(got)-1]) || j.mostOnOne(got) <= m.times):
		j.at(m.sent).tally.Repeated += extra
	default:
		j.at(m.sent).tally.Doubled += extra
		j.breach(NoNeedless, m.sent, "%s %d of QoS %d came to %s %d times, sent %d times and with no more breaks between", m.stream, m.number, m.qos, who, len(got), m.times)
	}
}

// mostOnOne is the highest number of events on one connection. Deliveries under way at
// the end of a connection are repeated on the next, as often as they were sent; and a
// client may read the rest of the old connection after the beginning of the next.
func (j *judge) mostOnOne(indexes []int) (most int) {
	type connection struct {
		client string
		number int
	}
	came := make(map[connection]int)
	for _, i := range indexes {
		on := connection{j.history[i].Client, j.history[i].Connection}
		came[on]++
		most = max(most, came[on])
	}
	return most
}

// inOrder checks that the first deliveries of a stream's messages are in the order of
// the publisher. A client that subscribes between two messages may get the second
// before the first, if the publisher sends both again.
func (j *judge) inOrder(who string, indexes []int) {
	highest, first := 0, 0 // the number, and the index of the event
	for _, i := range indexes {
		e := j.history[i]
		if e.Number > highest {
			highest, first = e.Number, i
			continue
		}
		m := j.messages[messageKey{e.Stream, e.Number}]
		if m == nil || m.refused { // there is no promise about a refused message
			continue
		}
		if m.qos == 1 && m.sentLast > first && m.sentLast < i {
			continue
		}
		j.at(m.sent).tally.Disordered++
		j.breach(InOrder, m.sent, "%s got %s %d after %d", who, e.Stream, e.Number, highest)
	}
}

// groups checks that each message came to one member of each group.
func (j *judge) groups(listeners []Listener) {
	members := make(map[string][]string)
	for _, l := range listeners {
		if l.Group != "" {
			members[l.Group] = append(members[l.Group], l.Name)
		}
	}
	for group, names := range members {
		since := 0 // all are subscribed
		for _, name := range names {
			c := j.client(name)
			if len(c.subscribed) == 0 {
				since = len(j.history)
				continue
			}
			since = max(since, c.subscribed[0])
		}
		for _, m := range j.order {
			if m.sent > since && m.qos > 0 {
				j.shared("group "+group, names, m)
			}
		}
	}
}

func (j *judge) shared(group string, names []string, m *message) {
	var got []int
	for _, name := range names {
		got = append(got, j.client(name).got[m.messageKey]...)
	}
	if len(got) == 0 {
		if m.acked >= 0 {
			j.at(m.sent).tally.Lost++
			j.breach(SharedOnce, m.sent, "%s %d of QoS %d, acknowledged by %s, came to nobody in %s", m.stream, m.number, m.qos, m.ackedBy, group)
		}
		return
	}
	slices.Sort(got)
	j.repeats(group, m, got, func(first, last int) (breaks int) {
		for _, name := range names {
			c := j.client(name)
			breaks += count(c.opened, first, last)
		}
		return breaks
	})
}

// foreign finds deliveries of messages that were never sent.
func (j *judge) foreign() {
	for name, c := range j.clients {
		for key, got := range c.got {
			if m := j.messages[key]; m == nil || m.sent > got[0] {
				j.breach(NoNeedless, got[0], "%s got %s %d, which nobody had sent", name, key.stream, key.number)
			}
		}
	}
}

// count is the number of the indexes, which rise, that are between two.
func count(indexes []int, after, before int) int {
	from, _ := slices.BinarySearch(indexes, after+1)
	to, _ := slices.BinarySearch(indexes, before)
	return max(to-from, 0)
}
