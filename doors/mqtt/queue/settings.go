package queue

import (
	"regexp"
	"time"

	"github.com/aibridge/aibridge/broker/topic"
)

// A Queue says which messages wait for workers. Every space has its own.
type Queue struct {
	Name      string `yaml:"name" doc:"name of the queue, which workers subscribe to as $queue/NAME"`
	Topic     string `yaml:"topic" doc:"topic filter of the messages that go into it"`
	Space     string `yaml:"space" doc:"only messages of this space; of every space, each with a queue of its own, by default"`
	LastValue bool   `yaml:"last_value" doc:"of the messages that wait, keep only the newest of each topic"`
	Messages  int    `yaml:"messages" doc:"messages that may wait in a space, 10000 by default"`
	Bytes     int    `yaml:"bytes" doc:"their topics, payloads and properties, 67108864 bytes by default"`
	Share     int    `yaml:"share" doc:"percent of messages and bytes that one publisher may have in the queue of its space, 25 by default; with fewer than 8 messages all"`
	Hours     int    `yaml:"hours" doc:"hours that a message may wait, 168 by default"`
	Prefetch  int    `yaml:"prefetch" doc:"messages that a worker may have without having acknowledged them, 16 by default"`

	Deliveries  int `yaml:"deliveries" doc:"times that a message is given to a worker; if none of them acknowledges it, it is a dead letter. 0 for as often as it takes, the default"`
	DeadLetters int `yaml:"dead_letters" doc:"dead letters that are kept for each space, the newest, for those who subscribe to $queue/NAME/dead; 0 for none, the default"`
}

// Defaults and bounds of settings.
const (
	defaultMessages = 10_000
	defaultBytes    = 64 << 20
	defaultHours    = 7 * 24
	defaultPrefetch = 16
	defaultShare    = 25

	mostQueues   = 64
	mostMessages = 100_000
	mostBytes    = 1 << 30
	mostHours    = 365 * 24
	mostPrefetch = 1000
	mostShare    = 100

	mostDeliveries  = 1000
	mostDeadLetters = 10_000

	fewest = 8 // messages that are worth being shared
)

var names = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// CheckQueues reports faults of the settings, and fills in what they leave out.
func CheckQueues(queues []Queue, fail func(format string, args ...any)) {
	if len(queues) > mostQueues {
		fail("queues: %d are more than %d", len(queues), mostQueues)
		return
	}
	known := make(map[string]bool)
	for i := range queues {
		q := &queues[i]
		if !names.MatchString(q.Name) {
			fail("queues[%d].name: %q is not up to 64 letters, digits, dots, hyphens and underscores", i, q.Name)
		}
		if known[q.Name] {
			fail("queues[%d].name: there are two queues %q", i, q.Name)
		}
		known[q.Name] = true
		if q.Deliveries < 0 || q.Deliveries > mostDeliveries {
			fail("queues[%d].deliveries: %d is not within 0 and %d", i, q.Deliveries, mostDeliveries)
		}
		if q.DeadLetters < 0 || q.DeadLetters > mostDeadLetters {
			fail("queues[%d].dead_letters: %d is not within 0 and %d", i, q.DeadLetters, mostDeadLetters)
		}
		if q.DeadLetters > 0 && q.Topic == dead {
			fail("queues[%d].topic: a queue with dead letters cannot have the topic %q, since $queue/%s/%s is theirs", i, dead, q.Name, dead)
		}
		if !topic.ValidFilter(q.Topic) || q.Topic[0] == '$' {
			fail("queues[%d].topic: %q is not a filter of topics that do not begin with $", i, q.Topic)
		}
		for _, s := range []struct {
			name            string
			value           *int
			initially, most int
		}{
			{"messages", &q.Messages, defaultMessages, mostMessages},
			{"bytes", &q.Bytes, defaultBytes, mostBytes},
			{"share", &q.Share, defaultShare, mostShare},
			{"hours", &q.Hours, defaultHours, mostHours},
			{"prefetch", &q.Prefetch, defaultPrefetch, mostPrefetch},
		} {
			if *s.value == 0 {
				*s.value = s.initially
			}
			if *s.value < 1 || *s.value > s.most {
				fail("queues[%d].%s: %d is not within 1 and %d", i, s.name, *s.value, s.most)
			}
		}
	}
}

// filters are those by which workers subscribe to the queue.
func (q *Queue) filters() []string {
	if q.Topic == "" {
		return []string{Prefix + q.Name}
	}
	return []string{Prefix + q.Name, Prefix + q.Name + "/" + q.Topic}
}

// room is the room of the queue in each space.
func (q *Queue) room() load { return load{q.Messages, q.Bytes} }

// shareOf is the part of a room that one publisher may have.
func (q *Queue) shareOf(room load) load {
	if room.messages < fewest {
		return room
	}
	return load{max(1, room.messages*q.Share/100), max(1, room.bytes*q.Share/100)}
}

// life is the time that a message may wait.
func (q *Queue) life() time.Duration { return time.Duration(q.Hours) * time.Hour }
