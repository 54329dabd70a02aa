package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
)

// The bounds of the search for media.
const (
	maxMedia      = 16 // of one result
	maxMediaDepth = 8
)

// A frame is the part of a result's schema that declares media, by the words that JSON
// Schema has for them: {"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}.
type frame struct {
	media      string // media type of the value, "" unless it is one
	properties map[string]*frame
	items      *frame
}

// frameOf is the frame of a schema, nil if it declares no media.
func frameOf(schema json.RawMessage, depth int) *frame {
	var s struct {
		Encoding   string                     `json:"contentEncoding"`
		MediaType  string                     `json:"contentMediaType"`
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
	}
	if depth > maxMediaDepth || len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	f := &frame{}
	if media, _, err := mime.ParseMediaType(s.MediaType); err == nil && strings.EqualFold(s.Encoding, "base64") && kindOf(media) != "" {
		f.media = media
		return f
	}
	for name, property := range s.Properties {
		if inner := frameOf(property, depth+1); inner != nil {
			if f.properties == nil {
				f.properties = make(map[string]*frame)
			}
			f.properties[name] = inner
		}
	}
	f.items = frameOf(s.Items, depth+1)
	if f.properties == nil && f.items == nil {
		return nil
	}
	return f
}

// kindOf is the kind of media of a media type, "" if it is neither image, audio nor
// video.
func kindOf(media string) chat.Kind {
	kind, _, _ := strings.Cut(media, "/")
	switch kind := chat.Kind(kind); kind {
	case chat.Image, chat.Audio, chat.Video:
		return kind
	}
	return ""
}

// output is the output of a capability, with the media that its schema declares as
// segments.
func (f *frame) output(data json.RawMessage) tools.Output {
	out := tools.Output{Content: data}
	if f == nil {
		return out
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return out
	}
	value = f.take(value, &out)
	if len(out.Segments) == 0 {
		return out
	}
	brief, err := json.Marshal(value)
	if err != nil {
		return tools.Output{Content: data}
	}
	out.Brief = brief
	return out
}

// take moves the media of a value to the output, and returns the value with
// descriptions in their places.
func (f *frame) take(value any, out *tools.Output) any {
	switch v := value.(type) {
	case string:
		if f.media == "" || v == "" || len(out.Segments) >= maxMedia {
			return v
		}
		raw, err := base64.StdEncoding.DecodeString(v)
		if err != nil { // such as a URL
			return v
		}
		out.Segments = append(out.Segments, chat.Segment{Type: kindOf(f.media), MIMEType: f.media, Data: v})
		return fmt.Sprintf("(%s, %d bytes)", f.media, len(raw))
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(f.properties)) {
			if member, there := v[name]; there {
				v[name] = f.properties[name].take(member, out)
			}
		}
	case []any:
		if f.items != nil {
			for i := range v {
				v[i] = f.items.take(v[i], out)
			}
		}
	}
	return value
}
