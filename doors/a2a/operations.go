package a2a

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands/task"
	"github.com/aibridge/aibridge/protocol"
)

// An operation is an operation of the protocol, for both bindings. It answers at once,
// or with a stream.
type operation struct {
	run    func(d *Door, ctx context.Context, c *caller, r *reader) (any, error)
	stream func(d *Door, ctx context.Context, c *caller, r *reader) (*stream, error)
}

// operations are all of them, by their names.
var operations = map[string]operation{
	"SendMessage":                      {run: (*Door).sendMessage},
	"SendStreamingMessage":             {stream: (*Door).sendStreaming},
	"GetTask":                          {run: (*Door).getTask},
	"ListTasks":                        {run: (*Door).listTasks},
	"CancelTask":                       {run: (*Door).cancelTask},
	"SubscribeToTask":                  {stream: (*Door).subscribe},
	"CreateTaskPushNotificationConfig": {run: (*Door).createPush},
	"GetTaskPushNotificationConfig":    {run: (*Door).getPush},
	"ListTaskPushNotificationConfigs":  {run: (*Door).listPush},
	"DeleteTaskPushNotificationConfig": {run: (*Door).deletePush},
	"GetExtendedAgentCard":             {run: (*Door).extendedCard},
}

// A stream is the events of a task for a client.
type stream struct {
	listener *listener
	leave    func()
	resting  bool // it ends when the task waits for its user, too
	cut      *int // greatest number of messages in a task's history
}

// as has the caller talk to the agent that a request names.
func (c *caller) as(r *reader, tenant string) {
	switch {
	case c.names: // the topic has the agent; the tenant of a card is not one of the bridge
	case c.agent != "" && tenant != "" && tenant != c.agent:
		r.refuse("tenant", "is not that of the address")
	case c.agent == "":
		c.agent = tenant
	}
}

// known fails unless there is the agent that the caller talks to.
func (d *Door) known(ctx context.Context, c *caller) error {
	if c.agent == "" {
		return nil
	}
	if _, err := d.opts.Skills.Skill(ctx, c.env, protocol.SkillID(c.agent)); err != nil {
		return invalid("tenant", "names no agent here, or none for you")
	}
	return nil
}

// taken reads a message and takes it.
func (d *Door) taken(ctx context.Context, c *caller, r *reader) (*sending, protocol.TaskID, error) {
	s := readSending(r)
	c.as(r, s.tenant)
	if err := r.fault(); err != nil {
		return nil, "", err
	}
	if err := d.known(ctx, c); err != nil {
		return nil, "", err
	}
	id, err := d.send(ctx, c, s)
	return s, id, err
}

func (d *Door) sendMessage(ctx context.Context, c *caller, r *reader) (any, error) {
	s, id, err := d.taken(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if !s.immediate {
		if err := d.rest(ctx, c, id); err != nil {
			return nil, err
		}
	}
	now, err := d.standing(c, string(id))
	if err != nil {
		return nil, err
	}
	return map[string]any{"task": d.form(ctx, c.env, now).cut(s.history)}, nil
}

func (d *Door) sendStreaming(ctx context.Context, c *caller, r *reader) (*stream, error) {
	s, id, err := d.taken(ctx, c, r)
	if err != nil {
		return nil, err
	}
	l, leave, err := d.feeds.listen(ctx, c.env, id)
	if err != nil {
		return nil, err
	}
	return &stream{listener: l, leave: leave, resting: true, cut: s.history}, nil
}

// named is the task that a request names.
func (d *Door) named(ctx context.Context, c *caller, r *reader) (*naming, *task.Standing, error) {
	n := readNaming(r)
	c.as(r, n.tenant)
	if err := r.fault(); err != nil {
		return nil, nil, err
	}
	if err := d.may(ctx, c, "task:get"); err != nil {
		return nil, nil, err
	}
	s, err := d.standing(c, n.task)
	return n, s, err
}

func (d *Door) getTask(ctx context.Context, c *caller, r *reader) (any, error) {
	n, s, err := d.named(ctx, c, r)
	if err != nil {
		return nil, err
	}
	return d.form(ctx, c.env, s).cut(n.history), nil
}

func (d *Door) cancelTask(ctx context.Context, c *caller, r *reader) (any, error) {
	n, s, err := d.named(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if !s.Over() {
		err = d.cancel(ctx, c, s)
	}
	if s.Over() || protocol.CodeOf(err) == protocol.InvalidState || protocol.CodeOf(err) == protocol.NotFound {
		return nil, refusal(taskNotCancelable, "the task has ended already", "taskId", n.task)
	}
	if err != nil {
		return nil, err
	}
	if s, err = d.standing(c, n.task); err != nil {
		return nil, err
	}
	return d.form(ctx, c.env, s), nil
}

func (d *Door) subscribe(ctx context.Context, c *caller, r *reader) (*stream, error) {
	n, s, err := d.named(ctx, c, r)
	if err != nil {
		return nil, err
	}
	ended := refusal(unsupportedOperation, "the task has ended: GetTask has all there is", "taskId", n.task)
	if s.Over() {
		return nil, ended
	}
	l, leave, err := d.feeds.listen(ctx, c.env, s.ID)
	if err != nil {
		return nil, err
	}
	return &stream{listener: l, leave: leave}, nil
}

// listTasks lists the caller's tasks, the last changed ones first.
func (d *Door) listTasks(ctx context.Context, c *caller, r *reader) (any, error) {
	l := readListing(r)
	c.as(r, l.tenant)
	after, ok := readCursor(l.cursor)
	if !ok {
		r.refuse("pageToken", "is none of a page")
	}
	if err := r.fault(); err != nil {
		return nil, err
	}
	if err := d.may(ctx, c, "task:list"); err != nil {
		return nil, err
	}
	var all []place
	for s := range d.opts.Tasks.Standings(c.who()) {
		at := changed(s)
		if s.Dialogue.Agent != c.agent || l.context != "" && s.Dialogue.Context != l.context || l.after != nil && at.Truncate(time.Millisecond).Before(*l.after) {
			continue
		}
		if l.state != "" {
			if state := d.form(ctx, c.env, s).Status.State; state != l.state {
				continue
			}
		}
		all = append(all, place{at.UnixMilli(), string(s.ID)})
	}
	slices.SortFunc(all, place.compare)
	answer := &listed{Size: l.size, Total: len(all)}
	from, _ := slices.BinarySearchFunc(all, after, place.compare)
	if l.cursor == "" {
		from = 0
	} else if from < len(all) && all[from] == after {
		from++
	}
	for i, p := range all[from:] {
		if len(answer.Tasks) == l.size {
			answer.Next = all[from+i-1].cursor()
			break
		}
		s, err := d.standing(c, p.id)
		if err != nil { // it was forgotten meanwhile
			continue
		}
		t := d.form(ctx, c.env, s).cut(l.history)
		if !l.artifacts {
			t.Artifacts = nil
		}
		answer.Tasks = append(answer.Tasks, *t)
	}
	return answer, nil
}

// A place is the place of a task in a list.
type place struct {
	at int64
	id string
}

// compare puts the latest first.
func (p place) compare(q place) int {
	switch {
	case p.at != q.at && p.at > q.at:
		return -1
	case p.at != q.at:
		return 1
	}
	return strings.Compare(q.id, p.id)
}

func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(time.UnixMilli(p.at).UTC().Format(time.RFC3339Nano) + " " + p.id))
}

// readCursor decodes a page token.
func readCursor(s string) (p place, ok bool) {
	if s == "" {
		return place{}, true
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return place{}, false
	}
	at, id, found := strings.Cut(string(text), " ")
	t, err := time.Parse(time.RFC3339Nano, at)
	return place{t.UnixMilli(), id}, err == nil && found
}
