package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// Capability is the one capability of a route agent's skill.
const Capability protocol.CapabilityID = "route"

// Options configure [Run].
type Options struct {
	// Client is dialled with client.WithAgent as a route agent, and with a
	// certificate that authorises it; Run does not close it.
	Client *client.Client
	Skill  protocol.SkillID // that callers invoke, also the member's id in scene and groups
	Scene  protocol.SceneType
	Owner  bool             // declare to own the scene, also where another's certificate has ended
	Cap    protocol.CapID   // the channel of the scene
	Group  protocol.GroupID // asked when the caller names no other
	Log    *slog.Logger     // slog.Default

	stage *stage
}

// Run serves the route skill and takes part in the scene until ctx ends. That
// the client ends or the scene is an error. The declaration stays: without its
// RouteAgent the scene is suspended, or led by a backup, until it is back.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.stage = newStage()
	served, err := o.Client.ServeSkill(ctx, client.Skill{
		ID:          o.Skill,
		Name:        string(o.Skill),
		Description: fmt.Sprintf("Routes commands to the members of scene %s", o.Scene),
		Capabilities: []client.Capability{{
			ID:           Capability,
			Description:  "Have those who take part in the scene do something and return what they answered",
			ParamsSchema: json.RawMessage(paramsSchema),
			Handler:      func(ctx context.Context, in *client.Invocation) (any, error) { return o.route(ctx, in) },
		}},
	})
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var part error
	go func() {
		defer close(ended)
		part = o.takePart(following)
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	case <-o.Client.Done():
		if err = o.Client.Err(); err != nil {
			err = fmt.Errorf("the connection to the bridge ended: %w", err)
		} else {
			err = errors.New("the client was closed")
		}
	}
	stop()
	<-ended
	if err != nil {
		return err
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(part, served.Withdraw(leaving))
}

// takePart declares the skill and follows the scene until ctx ends.
func (o *Options) takePart(ctx context.Context) error {
	err := o.declare(ctx)
	if err == nil {
		err = o.follow(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was told to end
	}
	return err
}

const paramsSchema = `{"type":"object","required":["capability_id"],"additionalProperties":false,"properties":{
"capability_id":{"type":"string","description":"what every member is to do"},
"params":{"type":"object","description":"its parameters"},
"group_id":{"type":"string","description":"another group of the channel"},
"target":{"type":"object","description":"which of those who take part in the scene, as in group.dispatch"},
"completion":{"description":"when it is enough, as in group.dispatch"},
"deadline_ms":{"type":"integer","minimum":1,"description":"milliseconds; the time of the call when absent"}}}`

// A request is a command that a caller wants to have routed.
type request struct {
	Capability protocol.CapabilityID `json:"capability_id"`
	Params     json.RawMessage       `json:"params,omitempty"`
	Group      protocol.GroupID      `json:"group_id"`
	Cap        protocol.CapID        `json:"cap_id"`
	Target     json.RawMessage       `json:"target,omitempty"`
	Completion json.RawMessage       `json:"completion,omitempty"`
	Deadline   int64                 `json:"deadline_ms,omitempty"`
}

// A Summary is the result of a routed command.
type Summary struct {
	Scene   protocol.SceneType `json:"scene_type"`
	Task    protocol.TaskID    `json:"task_id"`
	State   string             `json:"state"`
	Online  int                `json:"online"` // members that were there at the start
	Counts  map[string]int     `json:"counts"`
	Members json.RawMessage    `json:"members"`
}

// route runs one command: choose members, dispatch, collect.
func (o *Options) route(ctx context.Context, in *client.Invocation) (*Summary, error) {
	r := request{Group: o.Group, Deadline: time.Until(in.Deadline).Milliseconds() - answerTime.Milliseconds()}
	if err := json.Unmarshal(in.Params, &r); err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	r.Cap, r.Deadline = o.Cap, max(r.Deadline, 1)
	online, err := o.choose(ctx, &r)
	if err != nil {
		return nil, err
	}
	in.Progress(0, fmt.Sprintf("%d members are there", online))
	started, err := client.Call[struct {
		Task protocol.TaskID `json:"task_id"`
	}](ctx, o.Client, "group.dispatch", r)
	if err != nil {
		return nil, err
	}
	s, err := o.collect(ctx, in, started.Task)
	if err != nil {
		o.callOff(ctx, started.Task)
		return nil, err
	}
	s.Scene, s.Online = o.Scene, online
	return s, nil
}

// answerTime is the part of a call's time that is left to gather the answers.
const answerTime = 500 * time.Millisecond

// choose narrows a request to members of the group that take part in the scene, and
// counts those online.
func (o *Options) choose(ctx context.Context, r *request) (online int, err error) {
	players, err := o.stage.players(o.Skill)
	if err != nil {
		return 0, err
	}
	target := map[string]json.RawMessage{}
	var wanted []protocol.SkillID
	if len(r.Target) > 0 {
		if err := json.Unmarshal(r.Target, &target); err != nil {
			return 0, protocol.InvalidParam("params.target", err.Error())
		}
	}
	if named := target["skill_ids"]; named != nil {
		if err := json.Unmarshal(named, &wanted); err != nil {
			return 0, protocol.InvalidParam("params.target.skill_ids", err.Error())
		}
	}
	g, err := client.Call[struct {
		Members []struct {
			Skill  protocol.SkillID `json:"skill_id"`
			Status string           `json:"status"`
		} `json:"members"`
	}](ctx, o.Client, "group.query", map[string]any{"cap_id": o.Cap, "group_id": r.Group})
	if err != nil {
		return 0, err
	}
	var chosen []protocol.SkillID
	for _, m := range g.Members {
		if players[m.Skill] && (wanted == nil || slices.Contains(wanted, m.Skill)) {
			chosen = append(chosen, m.Skill)
			if m.Status == "online" {
				online++
			}
		}
	}
	for _, skill := range wanted {
		if !slices.Contains(chosen, skill) {
			return 0, protocol.Errorf(protocol.NotFound, "skill %q takes no part in scene %q with group %q", skill, o.Scene, r.Group).With("skill_id", string(skill))
		}
	}
	if len(chosen) == 0 {
		return 0, protocol.Errorf(protocol.NotFound, "nobody in group %q takes part in scene %q", r.Group, o.Scene).
			With("group_id", string(r.Group)).With("scene_type", string(o.Scene))
	}
	if target["skill_ids"], err = json.Marshal(chosen); err != nil {
		return 0, err
	}
	r.Target, err = json.Marshal(target)
	return online, err
}

// The pace at which the task is looked at.
const (
	firstLook = 20 * time.Millisecond
	slowest   = time.Second
)

// collect waits until the task has ended and returns its outcome.
func (o *Options) collect(ctx context.Context, in *client.Invocation, id protocol.TaskID) (*Summary, error) {
	decided := -1
	for pause := firstLook; ; pause = min(2*pause, slowest) {
		t, err := client.Call[struct {
			State string `json:"state"`
			Group struct {
				Counts  map[string]int  `json:"counts"`
				Members json.RawMessage `json:"members"`
			} `json:"group"`
		}](ctx, o.Client, "task.get", map[string]any{"task_id": id}, client.Fresh())
		if err != nil {
			return nil, err
		}
		if t.State != "running" {
			return &Summary{Task: id, State: t.State, Counts: t.Group.Counts, Members: t.Group.Members}, nil
		}
		all, open := 0, 0
		for state, n := range t.Group.Counts {
			all += n
			switch state {
			case "pending", "accepted", "running", "offline":
				open += n
			}
		}
		if all > 0 && all-open != decided {
			decided = all - open
			in.Progress(100*float64(decided)/float64(all), fmt.Sprintf("%d of %d have answered", decided, all))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// callOff cancels a task that no caller waits for any more.
func (o *Options) callOff(ctx context.Context, id protocol.TaskID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := client.Call[json.RawMessage](ctx, o.Client, "task.cancel", map[string]any{"task_id": id, "reason": "the caller of the route agent is gone"})
	if err != nil && protocol.CodeOf(err) != protocol.InvalidState {
		o.Log.Warn("task not cancelled", "task", id, "error", err)
	}
}
