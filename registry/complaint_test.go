package registry

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

func TestAnIDAloneIsAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.device("boiler", `{"skill_id":"heating","name":"Heating","capabilities":["bleed"]}`, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"id":%q}`, r.ID))
		})
		var got InvokeSkillResult
		w.do(alice, "skill.invoke", bleed, &got)
		if string(got.Data) != "{}" {
			t.Errorf("data %s", got.Data)
		}
	})
}

// An answer that comes too late and cannot be read is told by its own fault.
func TestALateAnswerThatCannotBeReadIsToldByItsReason(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logbook
		w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer w.close()
		w.device("boiler", heating, nil).say(`{"id":"over","status":"maybe"}`)
		synctest.Wait()
		warnings := log.lines("cannot be read")
		if len(warnings) != 1 || !strings.Contains(warnings[0], "status must be") || strings.Contains(warnings[0], "what it answers") {
			t.Errorf("%q", warnings)
		}
	})
}

// A logbook is a log that several goroutines write and a test reads.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines are the lines with a word.
func (l *logbook) lines(word string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

func TestTheOperatorOfAnAgentIsWarnedOfAnswersThatCannotBeRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logbook
		w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer w.close()
		d := w.device("boiler", heating, func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"id":%q,"result":oops}`, r.ID))
		})
		for range 5 {
			w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown)
		}
		d.say("not even an id")
		synctest.Wait()
		warnings := log.lines("cannot be read")
		if len(warnings) != 1 || !strings.Contains(warnings[0], "agent=boiler") || !strings.Contains(warnings[0], "level=WARN") {
			t.Errorf("after six answers: %q", warnings)
		}
		time.Sleep(complainEvery)
		d.say("nor now")
		synctest.Wait()
		warnings = log.lines("cannot be read")
		if len(warnings) != 2 || !strings.Contains(warnings[1], "times=6") {
			t.Errorf("a minute later: %q", warnings)
		}
		if n := testutil.ToFloat64(w.metrics.unreadable); n != 7 {
			t.Errorf("%v are counted, want 7", n)
		}
		told := 0
		for _, m := range w.mqtt.on("aibridge/event/agent") {
			if strings.Contains(string(m.Payload), `"agent.unreadable"`) {
				told++
			}
		}
		if told != 2 {
			t.Errorf("operators are told %d times, want 2", told)
		}

		stranger := &device{w: w, id: "boiler", who: bob}
		stranger.say("what somebody else says")
		if n := testutil.ToFloat64(w.metrics.unreadable); n != 7 {
			t.Error("what somebody else publishes is held against the agent")
		}
	})
}
