package delayed

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var list = commands.Spec{
	Name:    "delayed.list",
	Summary: "List the delayed messages that wait, what is due first at the front.",
	Effect:  commands.Read,
	Action:  "delayed:list",
	Example: `{"find":"lamps/","limit":20}`,
}

// ListParams choose messages.
type ListParams struct {
	Principal string           `json:"principal,omitempty" len:"1-256" doc:"only messages of this publisher"`
	Client    string           `json:"client_id,omitempty" len:"1-65535" doc:"only messages that were published by this client"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"only messages of this space"`
	Find      string           `json:"find,omitempty" len:"1-128" doc:"only messages with this text in their topic, client id or publisher, whatever its case"`
	Sort      string           `json:"sort,omitempty" enum:"id,-id,due_at,-due_at,topic,-topic,principal,-principal,bytes,-bytes" doc:"field to sort by, the highest first behind a minus; by due_at if absent"`
	listing.Page
}

// A View is a message as callers see it. Its payload is for those who subscribe.
type View struct {
	ID        string           `json:"message_id" doc:"id of the message; ids rise with the time of sending"`
	Due       int64            `json:"due_at" doc:"time at which it is published, Unix milliseconds"`
	Topic     string           `json:"topic" doc:"topic on which it is published then"`
	QoS       byte             `json:"qos" doc:"QoS with which it is published"`
	Retain    bool             `json:"retain,omitempty" doc:"true if it is retained then"`
	Bytes     int              `json:"bytes" doc:"size of its payload"`
	Client    string           `json:"client_id" doc:"id of the client that has sent it"`
	Principal string           `json:"principal" doc:"publisher, as whom it is published"`
	Space     protocol.SpaceID `json:"space_id" doc:"id of the publisher's space"`
}

// ListResult is one page of messages.
type ListResult struct {
	Messages   []View `json:"messages" doc:"the messages of this page; empty if none fits"`
	Total      int    `json:"total" doc:"number on all pages"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// order holds the columns that lists of messages can be sorted by.
var order = listing.Order[View]{
	ID: func(v View) string { return v.ID },
	Keys: map[string]func(View) listing.Key{
		"due_at":    func(v View) listing.Key { return listing.Number(v.Due) },
		"topic":     func(v View) listing.Key { return listing.Text(v.Topic) },
		"principal": func(v View) listing.Key { return listing.Text(v.Principal) },
		"bytes":     func(v View) listing.Key { return listing.Number(int64(v.Bytes)) },
	},
	Default: "due_at",
}

// Commands are the commands of the family.
func (k *Keeper) Commands() []commands.Command {
	return []commands.Command{
		commands.New(list, k.List),
		commands.New(cancel, k.Cancel),
	}
}

// visibleTo reports whether a principal may see and cancel the message: its publisher,
// and those who manage its space. To others it does not exist.
func (m *Message) visibleTo(who *protocol.Principal) bool {
	owner := m.Grant.Party()
	return owner.Is(who) || who.Manages(owner.Space)
}

func (m *Message) view(key string) View {
	owner := m.Grant.Party()
	return View{
		ID: key, Due: m.Due, Topic: m.Topic, QoS: m.QoS, Retain: m.Retain, Bytes: len(m.Payload),
		Client: m.Client, Principal: owner.ID, Space: owner.Space,
	}
}

// List shows the caller's messages, to those who manage a space those of all of it.
func (k *Keeper) List(_ context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	named := listing.Find(p.Find)
	matching := func(yield func(View) bool) {
		for key, m := range k.Table.All() {
			if !m.visibleTo(call.Principal) {
				continue
			}
			v := m.view(key)
			if p.Principal != "" && v.Principal != p.Principal || p.Client != "" && v.Client != p.Client || p.Space != "" && v.Space != p.Space {
				continue
			}
			if named.In(v.Topic, v.Client, v.Principal) && !yield(v) {
				return
			}
		}
	}
	found, err := order.Select(matching, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	return ListResult{Messages: found.Items, Total: found.Total, NextCursor: found.Next}, nil
}
