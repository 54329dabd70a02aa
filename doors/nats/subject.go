package nats

import (
	"errors"
	"strings"
)

// Faults of names that there is no counterpart for.
var (
	errWhitespace = errors.New("has whitespace, which no NATS subject has")
	errControl    = errors.New("has a character that no NATS subject has")
	errWildcard   = errors.New("has a wildcard, which no name of a topic has")
	errMeansMore  = errors.New("has a level that NATS takes for a wildcard")
	errNoTopic    = errors.New("stands for no topic")
)

// subjectOf is the NATS subject of a topic of MQTT or, where wildcards may stand,
// of a filter. It is the mapping of nats-server: a level ends with . instead of /,
// an empty level is written /, and a . in a level //.
func subjectOf(topic string, wildcards bool) (string, error) {
	if topic == "" {
		return "", errNoTopic
	}
	subject := make([]byte, 0, len(topic)+8)
	last := func() byte {
		if len(subject) == 0 {
			return '.'
		}
		return subject[len(subject)-1]
	}
	for i := range len(topic) {
		switch c := topic[i]; c {
		case '/':
			switch {
			case last() == '.':
				subject = append(subject, '/', '.')
			case i == len(topic)-1 || topic[i+1] == '/':
				subject = append(subject, '.', '/')
			default:
				subject = append(subject, '.')
			}
		case '.':
			subject = append(subject, '/', '/')
		case ' ', '\t', '\n', '\r', '\f':
			return "", errWhitespace
		case 0, 0x7f:
			return "", errControl
		case '+', '#':
			if !wildcards {
				return "", errWildcard
			}
			subject = append(subject, map[byte]byte{'+': '*', '#': '>'}[c])
		case '*', '>':
			if aloneAt(topic, i) {
				return "", errMeansMore
			}
			subject = append(subject, c)
		default:
			subject = append(subject, c)
		}
	}
	if last() == '.' {
		subject = append(subject, '/')
	}
	return string(subject), nil
}

// aloneAt reports whether a character of a topic is a whole level.
func aloneAt(topic string, i int) bool {
	return (i == 0 || topic[i-1] == '/') && (i == len(topic)-1 || topic[i+1] == '/')
}

// topicOf is the topic of a NATS subject. It fails for subjects without one, and
// where another subject has the same topic.
func topicOf(subject string) (string, error) {
	topic := make([]byte, 0, len(subject))
	for i := 0; i < len(subject); i++ {
		switch c := subject[i]; {
		case c == '.':
			topic = append(topic, '/')
		case c != '/':
			topic = append(topic, c)
		case i+1 < len(subject) && subject[i+1] == '.':
			topic, i = append(topic, '/'), i+1
		case i+1 < len(subject) && subject[i+1] == '/':
			topic, i = append(topic, '.'), i+1
		}
	}
	made := string(topic)
	if same, err := subjectOf(made, false); err != nil || same != subject {
		return "", errNoTopic
	}
	return made, nil
}

// subjectsOf are the NATS subjects of a filter: that of a/# is of a as well.
func subjectsOf(filter string) ([]string, error) {
	subject, err := subjectOf(filter, true)
	if err != nil {
		return nil, err
	}
	all := []string{subject}
	if above, ok := strings.CutSuffix(filter, "/#"); ok {
		subject, err := subjectOf(above, true)
		if err != nil {
			return nil, err
		}
		all = append(all, subject)
	}
	return all, nil
}
