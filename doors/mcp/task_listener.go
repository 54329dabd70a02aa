package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/protocol"
)

// maxHeard is the number of tasks that one stream can be about.
const maxHeard = 100

// wanted are the requested notifications of a stream.
type wanted struct {
	TaskIDs   []protocol.TaskID `json:"taskIds,omitempty"`
	Tools     bool              `json:"toolsListChanged,omitempty"`
	Prompts   bool              `json:"promptsListChanged,omitempty"`
	Resources bool              `json:"resourcesListChanged,omitempty"`
	URIs      []string          `json:"resourceSubscriptions,omitempty"`
}

// A listener is a stream with notifications of changes of a client's tasks and lists.
type listener struct {
	door *Door
	who  asker
	id   jsontext.Value // of the request, by which the client identifies the stream
	out  http.ResponseWriter

	wants wanted
	marks map[protocol.TaskID]string // last notified marks of tasks
	news  map[string]uint64          // last notified numbers of changes of resources
}

// serveListener serves a stream about tasks, and about lists if they are requested as
// well. The SDK serves streams about lists alone.
func (d *Door) serveListener(w http.ResponseWriter, r *http.Request, who *protocol.Principal, m *message) {
	l := &listener{door: d, who: d.asker(who, m, r), id: m.ID, out: w, wants: m.Params.Notifications, marks: make(map[protocol.TaskID]string), news: make(map[string]uint64)}
	if err := l.agree(r.Context()); err != nil {
		wire := new(jsonrpc.Error)
		errors.As(wireError(err), &wire)
		writeRPCError(w, statusOf(wire.Code), m.id, wire.Code, wire.Message, wire.Data)
		return
	}
	guest := d.guests.of(l.who.env.Principal)
	l.wants.URIs = d.followable(r.Context(), l.who.env, l, l.wants.URIs)
	defer guest.unfollow(l, "")
	for _, uri := range l.wants.URIs {
		l.news[uri] = guest.news(uri)
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	if d.opts.Leaving != nil {
		defer context.AfterFunc(d.opts.Leaving, end)()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	if l.tell("notifications/subscriptions/acknowledged", map[string]any{"notifications": l.wants}) != nil {
		return
	}
	if l.listen(ctx) == nil {
		_ = l.send(map[string]any{"id": l.id, "result": map[string]any{"resultType": "complete", "_meta": l.meta()}}) // its client may be gone
	}
}

// agree removes the requested notifications that the client will not get.
func (l *listener) agree(ctx context.Context) error {
	switch {
	case !l.who.client.tasks:
		return missingTasks()
	case len(l.wants.TaskIDs) > maxHeard:
		return protocol.InvalidParam("notifications.taskIds", fmt.Sprintf("may have %d ids", maxHeard))
	}
	l.wants.Prompts = l.wants.Prompts && l.door.opts.Prompts != nil
	l.wants.Resources = l.wants.Resources && l.door.opts.Resources != nil
	var own []protocol.TaskID
	if l.door.opts.Tasks.Usable(ctx, l.who.env) {
		for _, id := range l.wants.TaskIDs {
			if _, twice := l.marks[id]; !twice && l.door.opts.Tasks.Mark(l.who.env, id) != "" {
				l.marks[id] = ""
				own = append(own, id)
			}
		}
	}
	l.wants.TaskIDs = own
	return nil
}

// listen sends the changes until ctx ends, or there are no more to expect.
func (l *listener) listen(ctx context.Context) error {
	guest := l.door.guests.of(l.who.env.Principal)
	changed, stop := guest.hear()
	defer stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := l.tasks(ctx); err != nil {
			return err
		}
		if err := l.resources(guest); err != nil {
			return err
		}
		if len(l.marks) == 0 && len(l.news) == 0 && !l.wants.Tools && !l.wants.Prompts && !l.wants.Resources {
			return nil
		}
		select {
		case <-tick.C:
		case <-changed:
			if err := l.lists(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// tasks sends the tasks that have changed since their last notification. An ended task
// is not watched any more.
func (l *listener) tasks(ctx context.Context) error {
	for _, id := range l.wants.TaskIDs {
		told, listens := l.marks[id]
		mark := l.door.opts.Tasks.Mark(l.who.env, id)
		if !listens || mark == told {
			continue
		}
		task, err := l.door.opts.Tasks.Get(ctx, l.who.env, id)
		if err != nil { // it is forgotten, or its client may not see it any more
			delete(l.marks, id)
			continue
		}
		l.marks[id] = mark
		form := l.door.form(task, l.who.client, l.who.console)
		form.Meta = l.meta()
		if err := l.tell("notifications/tasks", form); err != nil {
			return err
		}
		if task.State >= TaskDone {
			delete(l.marks, id)
		}
	}
	return nil
}

// lists sends the notifications of changed lists that the client has requested.
func (l *listener) lists() error {
	for _, list := range []struct {
		wanted bool
		method string
	}{
		{l.wants.Tools, "notifications/tools/list_changed"},
		{l.wants.Prompts, "notifications/prompts/list_changed"},
		{l.wants.Resources, "notifications/resources/list_changed"},
	} {
		if !list.wanted {
			continue
		}
		if err := l.tell(list.method, map[string]any{}); err != nil {
			return err
		}
	}
	return nil
}

// resources sends the notifications of changed resources.
func (l *listener) resources(g *guest) error {
	for _, uri := range l.wants.URIs {
		news := g.news(uri)
		if news == l.news[uri] {
			continue
		}
		l.news[uri] = news
		if err := l.tell("notifications/resources/updated", map[string]any{"uri": uri}); err != nil {
			return err
		}
	}
	return nil
}

func (l *listener) meta() sdk.Meta { return sdk.Meta{sdk.MetaKeySubscriptionID: l.id} }

// tell sends a notification.
func (l *listener) tell(method string, params any) error {
	if fields, ok := params.(map[string]any); ok {
		fields["_meta"] = l.meta()
	}
	return l.send(map[string]any{"method": method, "params": params})
}

// send sends one message as an event of the stream.
func (l *listener) send(message map[string]any) error {
	message["jsonrpc"] = "2.0"
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	control := http.NewResponseController(l.out)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := l.out.Write(append(append([]byte("event: message\ndata: "), body...), "\n\n"...)); err != nil {
		return err
	}
	return control.Flush()
}
