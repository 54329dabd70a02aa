package device

import (
	"slices"

	"github.com/aibridge/aibridge/protocol/grant"
)

// Bounds of the messages that wait to be read. A topic with more loses its oldest
// messages.
const (
	maxWaiting   = 8        // messages of a topic
	maxLaneBytes = 16 << 20 // of messages in a lane
)

// A lane reads the messages for the devices of one announcer, one at a time and
// each topic in its turn. So announcers do not wait for each other, however long
// their devices' messages take to read. The fields are guarded by the fleet's
// mutex; reading goes on without it.
type lane struct {
	boxes map[string][]*letter // waiting messages, by topic
	turns []string             // the topics of boxes, as their turns come
	bytes int                  // of the waiting messages
	busy  bool                 // it is read
}

// A letter is a message that waits to be read.
type letter struct {
	received
	seq     uint64 // counts up with the letters of a fleet
	since   uint64 // seq of the first letter that it stands for
	watched bool   // it is for [Options].Take, to which only the newest of a topic matters
	from    *grant.Grant
}

// size is the room of a letter while it waits, in bytes.
func (l *letter) size() int { return len(l.topic) + len(l.payload) + 256 }

// post has a letter read in the lane of a party.
func (f *Fleet) post(party string, l *letter) {
	to := f.lanes[party]
	if to == nil {
		to = &lane{boxes: map[string][]*letter{}}
		f.lanes[party] = to
	}
	box := to.boxes[l.topic]
	switch {
	case l.watched && len(box) > 0:
		l.since = box[0].since // the fleet may wait for it, see marked
		to.bytes += l.size() - box[0].size()
		box[0] = l
	case l.watched:
		f.unread++
		to.push(l)
	default:
		if to.push(l); len(box) == maxWaiting {
			f.lose(to, l.topic)
		}
	}
	for to.bytes > maxLaneBytes {
		f.lose(to, to.fullest())
	}
	if !to.busy {
		to.busy = true
		f.reading.Go(func() { f.readAll(party, to) })
	}
}

// lose drops the oldest letter of a topic.
func (f *Fleet) lose(from *lane, topic string) {
	lost := from.shift(topic)
	if len(from.boxes[topic]) == 0 {
		from.turns = slices.DeleteFunc(from.turns, func(t string) bool { return t == topic })
	}
	f.Metrics.lost(f.Origin)
	f.done(lost)
}

// done notes that a letter was read, or will not be.
func (f *Fleet) done(l *letter) {
	if !l.watched {
		return
	}
	if f.newest[l.topic] == l.seq {
		delete(f.newest, l.topic)
	}
	f.unread--
	if f.marked && l.since <= f.mark {
		if f.toTake--; f.toTake == 0 {
			f.complete()
		}
	}
}

// readAll reads the waiting letters of a lane, until there are none.
func (f *Fleet) readAll(party string, l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(l.turns) > 0 {
		next := l.next()
		listeners := f.listeners(party, next)
		f.mu.Unlock()
		heard := f.read(next, listeners)
		f.mu.Lock()
		for _, h := range heard {
			h.apply()
		}
		f.done(next)
	}
	l.busy = false
	delete(f.lanes, party)
}

// push puts a letter behind the others of its topic.
func (l *lane) push(new *letter) {
	if len(l.boxes[new.topic]) == 0 {
		l.turns = append(l.turns, new.topic)
	}
	l.boxes[new.topic] = append(l.boxes[new.topic], new)
	l.bytes += new.size()
}

// next takes the letter whose turn it is.
func (l *lane) next() *letter {
	topic := l.turns[0]
	l.turns = l.turns[1:]
	first := l.shift(topic)
	if len(l.boxes[topic]) > 0 {
		l.turns = append(l.turns, topic)
	}
	return first
}

// shift takes the oldest letter of a topic. Its turn is for the caller to take.
func (l *lane) shift(topic string) *letter {
	first := l.boxes[topic][0]
	if l.boxes[topic] = l.boxes[topic][1:]; len(l.boxes[topic]) == 0 {
		delete(l.boxes, topic)
	}
	l.bytes -= first.size()
	return first
}

// fullest is the topic of which most bytes wait.
func (l *lane) fullest() (topic string) {
	most := -1
	for at, box := range l.boxes {
		n := 0
		for _, letter := range box {
			n += letter.size()
		}
		if n > most {
			topic, most = at, n
		}
	}
	return topic
}
