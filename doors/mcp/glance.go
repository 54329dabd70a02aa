package mcp

import (
	"bytes"

	"github.com/aibridge/aibridge/protocol"
)

// glance reads the usual message, a call of a tool with its name, arguments and what a
// client says of itself in every request. It reports false, and may have set some of the
// parts, for anything else, which the library reads: another member, another form of one,
// or a fault.
func (m *message) glance(body []byte) bool {
	body = bytes.Trim(body, " \t\r\n") // no more than that is white space of JSON
	if len(body) == 0 || body[0] != '{' || protocol.CheckJSON(body, protocol.Limits{}) != nil {
		return false
	}
	return members(body, func(name, value []byte) bool {
		switch string(name) {
		case "jsonrpc":
			return text(value, &m.Version)
		case "id":
			m.ID = value
			return value[0] == '"' || value[0] >= '0' && value[0] <= '9'
		case "method":
			return text(value, &m.Method) && m.Method == "tools/call"
		case "params":
			return value[0] == '{' && members(value, m.param)
		}
		return false
	})
}

// param reads one of the params.
func (m *message) param(name, value []byte) bool {
	switch string(name) {
	case "name":
		return text(value, &m.Params.Name)
	case "arguments":
		m.Params.Arguments = value
		return true
	case "_meta":
		return value[0] == '{' && members(value, m.meta)
	}
	return false
}

// meta reads a member of the metadata.
func (m *message) meta(name, value []byte) bool {
	meta := &m.Params.Meta
	switch string(name) {
	case "io.modelcontextprotocol/protocolVersion":
		return text(value, &meta.Version)
	case "io.modelcontextprotocol/clientCapabilities":
		meta.Capabilities = value
	case "io.modelcontextprotocol/clientInfo":
		meta.Client = value
	case "traceparent":
		return text(value, &meta.Traceparent)
	default:
		return false
	}
	return true
}

// text reads a string without escapes.
func text(value []byte, into *string) bool {
	if value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return false
	}
	*into = string(value[1 : len(value)-1])
	return true
}

// members calls each with the members of an object that is known to be JSON, names as
// they are written. It reports false once each does.
func members(object []byte, each func(name, value []byte) bool) bool {
	at := space(object, 1)
	for object[at] != '}' {
		end := skip(object, at)
		name := object[at+1 : end-1]
		at = space(object, space(object, end)+1) // behind the colon
		end = skip(object, at)
		if !each(name, object[at:end]) {
			return false
		}
		if at = space(object, end); object[at] == ',' {
			at = space(object, at+1)
		}
	}
	return true
}

// space is the place of the first character from a place on that is not white space.
func space(data []byte, at int) int {
	for data[at] <= ' ' {
		at++
	}
	return at
}

// skip is the place behind the value at a place.
func skip(data []byte, at int) int {
	for depth := 0; ; {
		switch data[at] {
		case '"':
			at = quoted(data, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\t', '\n', '\r':
			at++
			continue
		default: // a number or a word
			for at < len(data) && !bytes.ContainsRune([]byte(",:]} \t\n\r"), rune(data[at])) {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
}

// quoted is the place behind the string at a place.
func quoted(data []byte, at int) int {
	for at++; ; at++ {
		at += bytes.IndexByte(data[at:], '"')
		escapes := at
		for data[escapes-1] == '\\' {
			escapes--
		}
		if (at-escapes)%2 == 0 {
			return at + 1
		}
	}
}
