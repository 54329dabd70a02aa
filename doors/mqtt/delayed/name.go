package delayed

import (
	"strconv"
	"strings"
	"time"
)

// Prefix begins the topics of messages that wait: $delayed/SECONDS/TOPIC.
const Prefix = "$delayed/"

// Longest is the longest delay, as EMQX has it: 49 days.
const Longest = 4_294_967 * time.Second

// Parse splits a topic that begins with [Prefix]. Wrong says what is wrong with it, ""
// if nothing is.
func Parse(name string) (delay time.Duration, topic, wrong string) {
	seconds, topic, found := strings.Cut(strings.TrimPrefix(name, Prefix), "/")
	n, err := strconv.ParseUint(seconds, 10, 32)
	switch {
	case err != nil || !found || topic == "":
		return 0, "", "a delayed message goes to $delayed/SECONDS/TOPIC"
	case n > uint64(Longest/time.Second):
		return 0, "", "the delay is longer than " + strconv.Itoa(int(Longest/time.Second)) + " seconds"
	case topic[0] == '$':
		return 0, "", "messages on topics that begin with $ cannot be delayed"
	}
	return time.Duration(n) * time.Second, topic, ""
}
