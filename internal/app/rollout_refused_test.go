package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// An impossible rollout is refused before any member is asked, with the field and
// the reason.
func TestRolloutsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	w := newCrew(t, 2, n)
	c := n.Caller(t, "me")
	soon, past := time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	never := time.Now().AddDate(0, 2, 0)
	for params, want := range map[string]string{
		`"rollout":{"canary":{"count":0,"then_wait_for":"success"}}`:                       "rollout.canary.count: must be 1 to 10000",
		`"rollout":{"canary":{"then_wait_for":"success"}}`:                                 "rollout.canary.count: is missing",
		`"rollout":{"canary":{"count":1}}`:                                                 "rollout.canary.then_wait_for: is missing",
		`"rollout":{"canary":{"count":1,"then_wait_for":"luck"}}`:                          "rollout.canary.then_wait_for: must be",
		`"rollout":{"canary":{"count":3,"then_wait_for":"success"}}`:                       "rollout.canary.count: is more than the number of members",
		`"rollout":{"canary":{"count":1,"then_wait_for":"approval","success_percent":50}}`: "rollout.canary.success_percent: does not apply",
		`"rollout":{"canary":{"count":1,"then_wait_for":"success","percent":50}}`:          "rollout.canary.percent: is unknown",
		`"abort":[{"on":"failed","percent":5}]`:                                            "abort[0].after: is missing",
		`"abort":[{"on":"failed","percent":5,"after":0}]`:                                  "abort[0].after: must be 1 to 100000",
		`"abort":[{"on":"failed","percent":0,"after":10}]`:                                 "abort[0].percent: must be 1 to 100",
		`"abort":[{"on":"failed","percent":101,"after":10}]`:                               "abort[0].percent: must be 1 to 100",
		`"abort":[{"on":"offline","percent":5,"after":10}]`:                                "abort[0].on: must be",
		`"abort":[]`: "abort: must have 1 to 3",
		`"rollout":{"exponential":{"base":0,"factor":2,"on_success":5}}`:                      "rollout.exponential.base: must be 1 to 100000",
		`"rollout":{"exponential":{"base":-1,"factor":2,"on_success":5}}`:                     "rollout.exponential.base: must be 1 to 100000",
		`"rollout":{"exponential":{"base":10,"factor":1,"on_success":5}}`:                     "rollout.exponential.factor: must be more than 1",
		`"rollout":{"exponential":{"base":10,"factor":0.5,"on_success":5}}`:                   "rollout.exponential.factor: must be at least 1",
		`"rollout":{"exponential":{"base":10,"factor":2}}`:                                    "rollout.exponential.on_success: is missing",
		`"rollout":{"exponential":{"base":10,"factor":2,"on_success":0}}`:                     "rollout.exponential.on_success: must be 1 to 100000",
		`"rollout":{"rate_per_minute":0}`:                                                     "rollout.rate_per_minute: must be 1 to 100000",
		`"rollout":{"rate_per_minute":5,"exponential":{"base":10,"factor":2,"on_success":5}}`: "rollout.rate_per_minute: is less than exponential.base",
		`"window":{"cron":"0 0 30 2 *","duration_ms":60000}`:                                  "window.cron: names a time that never comes",
		`"window":{"cron":"61 * * * *","duration_ms":60000}`:                                  "window.cron: cannot be read",
		`"window":{"cron":"@reboot","duration_ms":60000}`:                                     "window.cron: cannot be read",
		`"window":{"cron":"* * * * * *","duration_ms":60000}`:                                 "window.cron: cannot be read",
		`"window":{"cron":"0 2 * * *","duration_ms":59999}`:                                   "window.duration_ms: must be 60000 to 604800000",
		`"window":{"cron":"0 2 * * *","duration_ms":60000,"timezone":"Moon/Base"}`:            "window.timezone: is no time zone",
		fmt.Sprintf(`"window":{"cron":"0 0 1 %d *","duration_ms":60000}`, never.Month()):      "window.cron: opens the window first at",
		fmt.Sprintf(`"schedule_at":%q`, past):                                                 "schedule_at: must be in the future",
		fmt.Sprintf(`"valid_until":%q`, past):                                                 "valid_until: must be after the beginning",
		fmt.Sprintf(`"schedule_at":%q,"valid_until":%q`, soon, soon):                          "valid_until: must be after the beginning",
		`"retry":{"on":["failed"],"attempts":1}`:                                              "retry.attempts: must be 2 to 10",
		`"retry":{"on":["succeeded"],"attempts":2}`:                                           "retry.on[0]: must be",
		`"rollout":{"rate_per_minute":1},"completion":{"policy":"first","n":1}`:               "completion: must be all",
		`"target":{"role":"device"}`:                                                          "target: chooses members by role",
		`"continuous":true,"target":{"online_only":true}`:                                     "target.online_only: does not go with continuous",
	} {
		refusedFor(t, c, "group.dispatch", `{"cap_id":"home","group_id":"x2","capability_id":"update",`+params+`}`, want)
	}
	for selector, want := range map[string]string{
		"agent.colour=red":           `selector: has the unknown key "agent.colour"`,
		"model=x2,skill.vers>1":      `selector: has the unknown key "skill.vers"`,
		"zone.site=a":                `selector: has the unknown key "zone.site"`,
		"model=":                     "selector: ",
		"model in ()":                "selector: ",
		strings.Repeat("model,", 33): "selector: has more than 32 requirements",
	} {
		refusedFor(t, c, "group.declare", fmt.Sprintf(`{"cap_id":"home","group_id":"bad","selector":%q}`, selector), want)
		refusedFor(t, c, "agent.list", fmt.Sprintf(`{"selector":%q}`, selector), want)
	}
	must(t, c, "group.member.add", `{"cap_id":"home","group_id":"fixed","skill_id":"light-lamp-0","role":"device"}`)
	refusedFor(t, c, "group.dispatch", `{"cap_id":"home","group_id":"fixed","capability_id":"update","continuous":true}`, "continuous: needs a group with a selector")
	w.attempts(0, 0)
}

// refusedFor checks that a command is refused with 1001, a field, and a reason that
// begins so: "field: reason".
func refusedFor(t *testing.T, c *bridgetest.Raw, command, params, want string) {
	t.Helper()
	answer := c.Ask(t, bridgetest.Request(protocol.NewID(), command, params))
	if answer.Err == nil || answer.Err.Code != protocol.InvalidParameter {
		t.Errorf("%s %s: %v, want %s", command, params, answer.Err, want)
		return
	}
	if got := fmt.Sprintf("%v: %v", answer.Err.Details["param_name"], answer.Err.Details["reason"]); !strings.HasPrefix(got, want) {
		t.Errorf("%s %s: %s, want %s", command, params, got, want)
	}
}
