package link

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/broker/packet"
)

// viaProperty is the user property of a message that has been carried: where it
// was, separated by spaces. A bridge is there by its mark, a link by that of its
// bridge and its name. With it no message comes where it has been.
const viaProperty = "aibridge-link"

// mostVia bounds the places that a message may have been at.
const mostVia = 16

// A trail lists the places that a message has been at.
type trail []string

// trailOf reads the trail of a message.
func trailOf(p *packet.Properties) trail {
	for _, u := range p.User {
		if string(u.Key) == viaProperty {
			return strings.Fields(string(u.Value))
		}
	}
	return nil
}

// crosses reports whether a message must not go on to any of some places: it has
// been there, or at too many.
func (t trail) crosses(places ...string) bool {
	return len(t) >= mostVia || slices.ContainsFunc(places, func(p string) bool { return p != "" && slices.Contains(t, p) })
}

// leave adds places to the trail, and writes it into the properties.
func (t trail) leave(p *packet.Properties, places ...string) {
	for _, place := range places {
		if place != "" && !slices.Contains(t, place) {
			t = append(t, place)
		}
	}
	p.User = slices.DeleteFunc(p.User, func(u packet.UserProperty) bool { return string(u.Key) == viaProperty })
	p.AddUser([]byte(viaProperty), []byte(strings.Join(t, " ")))
}
