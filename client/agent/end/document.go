package end

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/client/agent/skill"
	"github.com/aibridge/aibridge/protocol"
)

// documentID is the capability by which callers read levels 2 and 3 of a
// skill. The agent adds it to every skill that has a SKILL.md.
const documentID protocol.CapabilityID = skill.ReservedPrefix + "document"

// documentCapability is the capability by which the documents of a skill are read. The
// arguments of the prompt of the skill, which are filled in by the bridge and no params
// of this capability, are declared as $defs.prompt.
func documentCapability(arguments *skill.Schema, handle client.Handler) client.Capability {
	defs := ""
	if arguments != nil {
		defs = `,"$defs":{"prompt":` + string(arguments.JSON()) + `}`
	}
	return client.Capability{
		ID:          documentID,
		Name:        "Documentation",
		Description: "How to use this skill: its " + skill.DocumentFile + ", or a file under " + skill.ResourceDir + "/",
		ParamsSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","maxLength":512,"default":"` + skill.DocumentFile + `","description":"one of the resources of an earlier answer"}},` +
			`"additionalProperties":false` + defs + `}`),
		ResultSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string"},` +
			`"text":{"type":"string","description":"the content, if it is text"},` +
			`"base64":{"type":"string","description":"the content, if it is not"},` +
			`"sha256":{"type":"string","description":"of the content, to know whether it changed"},` +
			`"resources":{"type":"array","items":{"type":"string"},"description":"what else there is to read"}},` +
			`"required":["path","sha256","resources"]}`),
		Effect:     client.EffectRead,
		Idempotent: true,
		Risk:       "low",
		Handler:    handle,
	}
}

// document is the result of skill.document.
type document struct {
	Path      string   `json:"path"`
	Text      *string  `json:"text,omitempty"`
	Base64    []byte   `json:"base64,omitempty"`
	SHA256    string   `json:"sha256"`
	Resources []string `json:"resources"`
}

func readDocument(s *skill.Skill, params json.RawMessage) (*document, error) {
	p := struct {
		Path string `json:"path"`
	}{skill.DocumentFile}
	if len(params) > 0 && json.Unmarshal(params, &p) != nil {
		return nil, protocol.InvalidParam("path", "must be text")
	}
	file, err := s.Read(p.Path)
	if err != nil {
		return nil, err
	}
	resources, err := s.Resources()
	if err != nil {
		return nil, err
	}
	d := &document{Path: file.Path, SHA256: hex.EncodeToString(file.Hash[:]), Resources: resources}
	if isText(file.Data) {
		text := string(file.Data)
		d.Text = &text
	} else {
		d.Base64 = file.Data
	}
	return d, nil
}

func isText(data []byte) bool {
	return utf8.Valid(data) && !strings.ContainsFunc(string(data), func(c rune) bool {
		return unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c)
	})
}
