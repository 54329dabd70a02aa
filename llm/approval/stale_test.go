package approval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// TestAnApprovalIsOfUseForItsTime makes a call some time after it was approved of, as
// a bridge does that was away meanwhile.
func TestAnApprovalIsOfUseForItsTime(t *testing.T) {
	const life, use = 48 * time.Hour, 24 * time.Hour
	for name, test := range map[string]struct {
		decided, made time.Duration // after the question
		becomes       State
	}{
		"at once":                               {time.Hour, time.Hour, Used},
		"in time":                               {time.Hour, time.Hour + use - time.Millisecond, Used},
		"in time, though nobody may decide now": {life - time.Minute, life + use - time.Hour, Used},
		"too late":                              {time.Hour, time.Hour + use, Pending},
		"too late to decide, too":               {life - time.Minute, life + use, Expired},
		"by a clock that was set back":          {time.Hour, 0, Used},
	} {
		t.Run(name, func(t *testing.T) {
			asked := time.UnixMilli(1_800_000_000_000)
			now := asked
			d := newDesk(t, func(o *Options) {
				o.Life, o.Use, o.Now = life, use, func() time.Time { return now }
			})
			x := heat(bot)
			a := d.waits(t, x)
			x.Approval = a.ID
			now = asked.Add(test.decided)
			if err := d.decide(person("ann"), a, "approve", "it is cold"); err != nil {
				t.Fatal(err)
			}
			now = asked.Add(test.made)
			err := d.Gate(t.Context(), oven, x)
			if got := d.state(a.ID); got != test.becomes {
				t.Fatalf("it is %s (%v), want %s", got, err, test.becomes)
			}
			var question *tools.Question
			switch test.becomes {
			case Used:
				if err != nil {
					t.Error(err)
				}
			case Pending:
				if !errors.As(err, &question) || question.Approval != a.ID {
					t.Fatalf("nobody is asked again: %v", err)
				}
				if again := d.heard(t, "approval.reopened"); again.DecidedBy != "" || len(again.Votes) != 0 {
					t.Errorf("it waits as %+v", again)
				}
				if err := d.decide(person("ann"), a, "approve", "still"); err != nil {
					t.Fatal(err)
				}
				if err := d.Gate(t.Context(), oven, x); err != nil || d.state(a.ID) != Used {
					t.Errorf("approved again it is %s: %v", d.state(a.ID), err)
				}
			case Expired:
				e := protocol.AsError(err)
				if e.Code != protocol.PermissionDenied || e.Details["reason"] != "expired" || !strings.Contains(e.Message, "ann approved the call at") {
					t.Errorf("the model reads %v", e)
				}
				if again := protocol.AsError(d.Gate(t.Context(), oven, x)); again.Message != e.Message {
					t.Errorf("asked again it reads %v", again)
				}
			}
		})
	}
}

// TestAMatterIsApprovedForItsTime goes on with a matter a day after it was approved of.
func TestAMatterIsApprovedForItsTime(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	d := newDesk(t, func(o *Options) { o.Now = func() time.Time { return now } })
	if err := d.Raise(t.Context(), Matter{ID: "m-1", Tool: "group.rollout", Asker: bot.Party(), Space: bot.Home(), Args: []byte("{}"), Life: 48 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := d.decide(person("ann"), d.asked(t), "approve", ""); err != nil {
		t.Fatal(err)
	}
	if decided, approved, why := d.Verdict("m-1"); !decided || !approved {
		t.Errorf("at once: %v %v %s", decided, approved, why)
	}
	now = now.Add(24 * time.Hour)
	if decided, approved, why := d.Verdict("m-1"); !decided || approved || why != "it was approved too long ago" {
		t.Errorf("a day later: %v %v %s", decided, approved, why)
	}
}
