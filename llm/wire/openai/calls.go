package openai

import (
	"encoding/json"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire"
)

// An openCall is a tool call during its stream.
type openCall struct {
	index      int    // -1 if the service numbers none
	id         string // as the service gave it
	extra      json.RawMessage
	early      wire.Text // arguments before the name
	*wire.Call           // nil until it has a name
}

// maxNameless is the greatest number of calls that wait for their name.
const maxNameless = 64

// empty reports whether a piece has no content, as the empty function_call that some
// services send with every answer.
func (c *callDelta) empty() bool {
	return c.ID == "" && c.Function.Name == "" && len(c.Function.Arguments.Text) == 0 && !given(c.Extra)
}

// call adds a piece of a tool call. Services number calls by index; those without an
// index give each call an id, or send it whole.
func (d *decoder) call(c callDelta) error {
	open := d.find(c)
	if open == nil {
		open = &openCall{index: -1, id: c.ID}
		if c.Index != nil {
			open.index = *c.Index
		}
		d.calls = append(d.calls, open)
	}
	if given(c.Extra) {
		open.extra = c.Extra
	}
	if open.Call == nil {
		if done, err := d.name(open, c); !done || err != nil {
			return err
		}
	}
	return open.Arguments(c.Function.Arguments.Text)
}

// name begins a call once its name is known. Until then its arguments wait.
func (d *decoder) name(open *openCall, c callDelta) (begun bool, err error) {
	if open.id == "" {
		open.id = c.ID
	}
	if c.Function.Name == "" {
		open.early = append(open.early, c.Function.Arguments.Text...)
		if len(open.early) > maxEarly || d.nameless() > maxNameless {
			return false, chat.Errorf(chat.BadResponse, "the provider sent calls without the name of a tool")
		}
		return false, nil
	}
	if open.Call, err = d.out.Call(open.id, d.names.Decode(c.Function.Name)); err != nil {
		return false, err
	}
	return true, open.Arguments(open.early)
}

// maxEarly is the greatest size of the arguments before the name of a call, in bytes.
const maxEarly = 1 << 20

func (d *decoder) nameless() (n int) {
	for _, open := range d.calls {
		if open.Call == nil {
			n++
		}
	}
	return n
}

// find returns the call that a piece belongs to, nil for the first of a new
// one: it has another index, or another id, or a name again. Services that
// repeat id and name with every piece do so while the arguments are not whole.
func (d *decoder) find(c callDelta) *openCall {
	goesOn := c.Function.Name == ""
	for i := len(d.calls) - 1; i >= 0; i-- {
		open, last := d.calls[i], i == len(d.calls)-1
		switch {
		case c.Index != nil && open.index != *c.Index:
			if goesOn && last && open.index < 0 && !d.numbered(*c.Index) { // numbered only from the second piece on
				open.index = *c.Index
				return open
			}
		case open.Call == nil:
			if c.Index != nil || c.ID == "" || open.id == "" || open.id == c.ID {
				return open
			}
		case c.ID != "" && open.id != c.ID:
			if goesOn && (c.Index != nil || last && !open.Whole()) { // some services change the id from piece to piece
				return open
			}
		case c.Index == nil && c.ID == "" && !goesOn:
			return nil
		case !goesOn && len(c.Function.Arguments.Text) > 0 && open.Whole(): // a second call under the same id, or index
			return nil
		default:
			return open
		}
	}
	return nil
}

// numbered reports whether there is a call of an index.
func (d *decoder) numbered(index int) bool {
	for _, open := range d.calls {
		if open.index == index {
			return true
		}
	}
	return false
}

// endCalls ends the calls. A call without a name is skipped if the answer was cut off,
// or if it has no arguments either; otherwise it is an error.
func (d *decoder) endCalls() error {
	for _, open := range d.calls {
		if open.Call == nil {
			if d.finish.Reason == chat.MaxTokens || len(open.early) == 0 {
				continue
			}
			return chat.Errorf(chat.BadResponse, "the provider sent a call without the name of a tool")
		}
		if err := open.Close(d.keep(open.extra)); err != nil {
			return err
		}
	}
	return nil
}
